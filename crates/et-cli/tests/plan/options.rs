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

#[test]
fn a_given_target_is_in_the_compile_specs_too() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.pte");
    let to = out.to_str().unwrap();
    let stripped = dir.path().join("stripped.pte");
    write_changed("dev_single_add", &stripped, strip);
    // One delegate without a target, and one with another.
    for (case, model) in [
        ("dev_no_target", "dev_no_target/model.pte"),
        ("dev_single_add", stripped.to_str().unwrap()),
    ] {
        let target = ["--target", "forward:0=cuda:1"];
        document(&[&["plan", model, "-o", to], &target[..]].concat(), 0);
        let (_, _, planned) = program(&out);
        let specs = &planned.execution_plan[0].delegates[0].compile_specs;
        let mut targets = specs.iter().filter(|spec| spec.key == "target_device");
        assert_eq!(targets.next().unwrap().value, b"cuda:1", "{case}");
        assert!(targets.next().is_none());
        // Who reads the file sees one device.
        let again = document(&["plan", to, "--dry-run"], 0);
        assert_eq!(again["methods"][0]["already_device_planned"], true);
        check_run(case, &out, &["--simulate"]);
    }
}

#[test]
fn options_that_a_planned_program_cannot_follow_are_refused() {
    let planned = "dev_single_add/model.pte";
    for options in [
        &["--skip-h2d"][..],
        &["--skip-d2h"],
        &["--skip-h2d", "forward"],
        &["--device-memory", "off"],
        &["--reuse-uploads"],
        &["--target", "forward:0=cuda:1"],
        &["--target", "forward:0=cpu"],
    ] {
        let arguments = [&["plan", planned, "--dry-run"], options].concat();
        check_failure(&arguments, 1, "has device memory already");
    }
    for model in [planned, "add/model.pte"] {
        for option in ["--alignment=64", "--algorithm=greedy"] {
            check_failure(&["plan", model, "--dry-run", option], 2, "add --compact");
            document(&["plan", model, "--dry-run", option, "--compact"], 0);
        }
    }
}

#[test]
fn no_method_has_an_empty_name() {
    for option in ["--skip-h2d", "--skip-d2h"] {
        let arguments = ["plan", "dev_no_target/model.pte", "--dry-run", option, ""];
        check_failure(&arguments, 2, "no method ``");
    }
}

#[test]
fn a_solved_instance_can_be_solved_again() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["a.csv", "b.csv"].map(|name| dir.path().join(name));
    // A byte order mark, alignments that differ, a buffer that is never alive.
    let text = "\u{feff}id,lower,upper,size,alignment\na,0,2,5,1\nb,1,3,7,64\nc,4,4,9,2\n";
    std::fs::write(&from, text).unwrap();
    let [from, to] = [&from, &to].map(|path| path.to_str().unwrap());
    for algorithm in ["naive", "greedy", "optimal"] {
        let options = ["--algorithm", algorithm];
        let first = document(&[&["solve", from, "-o", to], &options[..]].concat(), 0);
        let again = document(&[&["solve", to], &options[..]].concat(), 0);
        assert_eq!(again["nbytes"], first["nbytes"], "{algorithm}");
        assert_eq!(again["lower_bound"], 12);
    }
    std::fs::write(from, "id,lower,upper,size\na,0,1,4\na,1,2,4\n").unwrap();
    check_failure(&["solve", from], 1, "line 3: id `a` is that of line 2");
}
