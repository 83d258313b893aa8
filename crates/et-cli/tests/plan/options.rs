//! Orders, results in place, ends, pictures and audits, as a shell sees them.

use super::*;

/// A fixture planned with `options`: the report of its first method.
fn plan(case: &str, out: &Path, options: &[&str]) -> Value {
    let model = format!("{case}/model.pte");
    let to = out.to_str().unwrap();
    let report = document(&[&["plan", &model, "-o", to], options].concat(), 0);
    report["methods"][0].clone()
}

fn size(report: &Value) -> u64 {
    let buffers = report["buffers"].as_array().unwrap().iter();
    buffers
        .map(|buffer| buffer["nbytes_after"].as_u64().unwrap())
        .sum()
}

#[test]
fn orders_and_results_in_place_compute_the_same_in_no_more_memory() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.pte");
    let mut shared = 0;
    for case in CASES {
        let plain = size(&plan(case, &out, &["--compact"]));
        for options in [
            ["--reorder"].as_slice(),
            &["--inplace"],
            &["--reorder", "--inplace"],
        ] {
            let report = plan(case, &out, options);
            check_run(case, &out, &["--simulate"]);
            assert!(size(&report) <= plain, "{case} {options:?}");
            shared += report["in_place"].as_array().unwrap().len();
        }
    }
    assert!(shared > 0);
}

/// Programs with branches, loops, state, views and devices.
const CASES: [&str; 8] = [
    "mlp",
    "mul_add_chain",
    "cond",
    "mut_counter_init",
    "dyn_batch_mlp",
    "dev_single_add",
    "dev_two_cross",
    "dev_cpu_between",
];

#[test]
fn uploads_can_be_shared() {
    let dir = tempfile::tempdir().unwrap();
    let [stripped, out] = ["a.pte", "b.pte"].map(|name| dir.path().join(name));
    write_changed("dev_two_same", &stripped, strip);
    let from = stripped.to_str().unwrap();
    let options = ["plan", from, "-o", out.to_str().unwrap(), "--reuse-uploads"];
    let report = document(&options, 0);
    assert!(report["methods"][0]["reused_uploads"].is_u64());
    check_run("dev_two_same", &out, &["--simulate"]);
    let origins = report["methods"][0]["instruction_origins"]
        .as_array()
        .unwrap();
    let (_, _, planned) = program(&out);
    let instructions = planned.execution_plan[0].chains[0].instructions.len();
    assert_eq!(origins.len(), instructions);
}

#[test]
fn ends_are_the_plans_or_the_callers() {
    let dir = tempfile::tempdir().unwrap();
    let [out, again] = ["a.pte", "b.pte"].map(|name| dir.path().join(name));
    let free = [
        "--alloc-inputs",
        "off",
        "--alloc-outputs",
        "off",
        "--compact",
    ];
    let report = plan("add", &out, &free);
    check_run("add", &out, &[]);
    let planned = |report: &Value| -> Vec<bool> {
        let ends = ["inputs", "outputs"].map(|ends| report[ends].as_array().unwrap().clone());
        ends.concat()
            .iter()
            .map(|end| end["planned"].as_bool().unwrap())
            .collect()
    };
    assert!(planned(&report).iter().all(|planned| !planned));
    let from = out.to_str().unwrap();
    let back = [
        "plan",
        from,
        "-o",
        again.to_str().unwrap(),
        "--alloc-inputs",
        "on",
    ];
    let report = document(&[&back[..], &["--alloc-outputs", "on"]].concat(), 0);
    assert!(
        planned(&report["methods"][0])
            .iter()
            .all(|planned| *planned)
    );
    check_run("add", &again, &[]);
}

#[test]
fn pictures_are_drawn_of_old_and_new_plans() {
    let dir = tempfile::tempdir().unwrap();
    let svg = dir.path().join("x.svg");
    let to = svg.to_str().unwrap();
    let model = "dev_two_cross/model.pte";
    let drawn = |arguments: &[&str]| {
        let report = document(arguments, 0);
        assert_eq!(report["svg"], to);
        let picture = std::fs::read_to_string(&svg).unwrap();
        std::fs::remove_file(&svg).unwrap();
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        picture
    };
    let inspected = drawn(&["inspect", model, "--svg", to]);
    for device in ["on cpu", "on cuda:0", "on cuda:1"] {
        assert!(inspected.contains(device), "{device}");
    }
    assert_eq!(drawn(&["plan", model, "--dry-run", "--svg", to]), inspected);
    check_failure(&["inspect", model, "--svg", "-"], 2, "must be a file");
    check_failure(
        &["inspect", model, "--svg", to, "--program"],
        2,
        "--program",
    );
}

#[test]
fn verify_finds_plans_that_corrupt() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken.pte");
    write_changed("add", &broken, corrupt);
    let file = broken.to_str().unwrap();
    let report = document(&["verify", file], 1);
    let problems = report["files"][0]["problems"].as_array().unwrap();
    let clobber = problems
        .iter()
        .find(|problem| problem["rule"] == "plan.clobber");
    assert_eq!(clobber.unwrap()["severity"], "error");
    assert_eq!(report["files"][0]["valid"], false);
    let repaired = dir.path().join("repaired.pte");
    document(
        &["plan", file, "-o", repaired.to_str().unwrap(), "--repair"],
        0,
    );
    document(&["verify", repaired.to_str().unwrap()], 0);
    check_run("add", &repaired, &[]);
}

#[test]
fn verify_finds_nothing_in_recorded_programs() {
    for case in CASES {
        let report = document(&["verify", &format!("{case}/model.pte")], 0);
        assert_eq!(report["files"][0]["num_errors"], 0, "{case}");
    }
}
