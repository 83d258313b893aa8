//! `et plan` and `et solve` as a shell sees them: what they write runs as before, and failures leave files alone.
#![expect(clippy::unwrap_used, reason = "all of this is tests")]

use et_schema::VerifiedProgram;
use et_schema::owned::{ExecutionPlan, Instruction, Program, Tensor, Value as Slot};
use et_schema::write::{FileSegments, WriteOptions, write_program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[path = "plan/options.rs"]
mod options;

fn et(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_et"))
        .args(arguments)
        .current_dir(fixtures())
        .stdin(Stdio::null())
        .output()
        .expect("`et` starts")
}

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// The only document on stdout, of a command with that status.
#[track_caller]
fn document(arguments: &[&str], status: i32) -> Value {
    let output = et(&[arguments, &["--json"]].concat());
    assert_eq!(
        output.status.code(),
        Some(status),
        "{}",
        text(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[track_caller]
fn check_failure(arguments: &[&str], status: i32, message: &str) {
    let output = et(arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(stderr.contains(message), "{stderr}");
}

/// Makes the recorded calls of a fixture on `model`, and compares what comes out with what was recorded.
#[track_caller]
fn check_run(case: &str, model: &Path, more: &[&str]) {
    let calls = format!("{case}/meta.json");
    let model = model.to_str().unwrap();
    let run = ["run", model, "--calls", &calls, "--expect", case];
    let output = et(&[&run, more].concat());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{case}: {}",
        text(&output.stderr)
    );
}

fn program(path: &Path) -> (Vec<u8>, VerifiedProgram, Program) {
    let bytes = std::fs::read(path).unwrap();
    let verified = VerifiedProgram::from_file_bytes(&bytes).unwrap();
    let program = Program::from_verified(&verified).unwrap();
    (bytes, verified, program)
}

/// Writes a fixture after `change`.
fn write_changed(case: &str, to: &Path, change: impl Fn(&mut ExecutionPlan)) {
    let (bytes, verified, mut program) = program(&fixtures().join(case).join("model.pte"));
    program.execution_plan.iter_mut().for_each(change);
    let segments = FileSegments::new(&bytes, verified.layout(), &program.segments).unwrap();
    let options = WriteOptions::like(verified.layout(), &program.segments);
    let mut written = Vec::new();
    write_program(&program, &segments, &options, &mut written).unwrap();
    std::fs::write(to, written).unwrap();
}

/// Takes copies and devices out of a method, and gives every planned value a place of its own.
fn strip(method: &mut ExecutionPlan) {
    let mut host = BTreeMap::new();
    let operators = &method.operators;
    method.chains[0].instructions.retain(|instruction| {
        let Instruction::KernelCall(call) = instruction else {
            return true;
        };
        let args = &call.args;
        match operators[usize::try_from(call.op_index).unwrap()]
            .name
            .as_str()
        {
            "et_copy::_h2d_copy" => host.insert(args[1], args[0]),
            "et_copy::_d2h_copy" => host.insert(args[0], args[1]),
            _ => return true,
        };
        false
    });
    for instruction in &mut method.chains[0].instructions {
        if let Instruction::DelegateCall(call) = instruction {
            for value in &mut call.args {
                *value = host.get(value).copied().unwrap_or(*value);
            }
        }
    }
    let mut end = 0;
    for tensor in method.values.iter_mut().filter_map(Slot::as_tensor_mut) {
        tensor.set_device(et_schema::DeviceTag::CPU);
        if tensor.allocation_info.is_some() {
            *tensor = tensor.clone().planned(1, end);
            end += tensor.nbytes().unwrap().next_multiple_of(16);
        }
    }
    method.non_const_buffer_device = None;
    method.non_const_buffer_sizes = vec![0, i64::try_from(end).unwrap()];
}

/// The copies of the first run, as words with their bytes.
fn copies(case: &str, model: &Path, trace: &Path) -> Vec<String> {
    let trace_option = ["--simulate", "--trace", trace.to_str().unwrap()];
    check_run(case, model, &trace_option);
    let trace: Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let events = trace["runs"][0].as_array().unwrap().iter();
    let runtime = events.filter(|event| event["origin"] == "runtime");
    runtime
        .filter(|event| event["ev"] == "h2d" || event["ev"] == "d2h")
        .map(|event| format!("{} {}", event["ev"], event["nbytes"]))
        .collect()
}

#[track_caller]
fn check_same_copies(case: &str) {
    let dir = tempfile::tempdir().unwrap();
    let [stripped, planned, trace] = ["a.pte", "b.pte", "t.json"].map(|name| dir.path().join(name));
    write_changed(case, &stripped, strip);
    let (from, to) = (stripped.to_str().unwrap(), planned.to_str().unwrap());
    let report = document(&["plan", from, "-o", to], 0);
    let recorded = copies(case, &fixtures().join(case).join("model.pte"), &trace);
    assert!(!recorded.is_empty());
    assert_eq!(copies(case, &planned, &trace), recorded, "{case}");
    let method = &report["methods"][0];
    assert_eq!(method["copies_before"]["h2d"]["count"], 0);
    let counted = |direction: &str| {
        let counted = method["copies_after"][direction]["count"].as_u64();
        let words = recorded.iter().filter(|copy| copy.contains(direction));
        assert_eq!(counted, Some(words.count() as u64), "{case}");
    };
    counted("h2d");
    counted("d2h");
    let buffers = method["buffers"].as_array().unwrap();
    let device = &buffers[1];
    assert_eq!(
        (
            &device["device"],
            &device["nbytes_before"],
            &device["proved"]
        ),
        (&"cuda:0".into(), &0.into(), &true.into())
    );
    // A second time nothing changes, and OUT may be FILE.
    let bytes = std::fs::read(&planned).unwrap();
    let again = document(&["plan", to, "-o", to], 0);
    assert_eq!(again["methods"][0]["already_device_planned"], true);
    assert_eq!(std::fs::read(&planned).unwrap(), bytes);
}

#[test]
fn a_stripped_program_gets_the_recorded_copies_again() {
    for case in [
        "dev_single_add",
        "dev_two_same",
        "dev_two_cross",
        "dev_cpu_between",
    ] {
        check_same_copies(case);
    }
}

#[test]
fn compacted_programs_compute_the_same_in_no_more_memory() {
    let dir = tempfile::tempdir().unwrap();
    for case in [
        "add",
        "mlp",
        "mul_add_chain",
        "cond",
        "mut_counter_init",
        "dyn_batch_mlp",
    ] {
        let out = dir.path().join(format!("{case}.pte"));
        let model = format!("{case}/model.pte");
        let report = document(
            &["plan", &model, "-o", out.to_str().unwrap(), "--compact"],
            0,
        );
        check_run(case, &out, &[]);
        let buffers = report["methods"][0]["buffers"].as_array().unwrap();
        for buffer in buffers {
            let bytes = |key: &str| buffer[key].as_u64().unwrap();
            assert!(bytes("lower_bound") <= bytes("nbytes_after"), "{case}");
            assert!(bytes("nbytes_after") <= bytes("nbytes_before"), "{case}");
        }
        // Constants and delegate data are the same bytes.
        let (old, new) = (program(&fixtures().join(&model)), program(&out));
        assert_eq!(old.2.segments, new.2.segments);
        let data = |(bytes, verified, program): &(Vec<u8>, VerifiedProgram, Program)| {
            let segment = |segment: &et_schema::owned::DataSegment| {
                let range = verified
                    .layout()
                    .locate(segment.offset, segment.size)
                    .unwrap();
                let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
                bytes[start..end].to_vec()
            };
            program.segments.iter().map(segment).collect::<Vec<_>>()
        };
        assert_eq!(data(&old), data(&new));
    }
}

#[test]
fn wasteful_places_are_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let [wasteful, out] = ["a.pte", "b.pte"].map(|name| dir.path().join(name));
    write_changed("mul_add_chain", &wasteful, strip);
    let (from, to) = (wasteful.to_str().unwrap(), out.to_str().unwrap());
    let planned = |algorithm: &str| {
        let options = ["--compact", "--algorithm", algorithm];
        let report = document(&[&["plan", from, "-o", to], &options[..]].concat(), 0);
        check_run("mul_add_chain", &out, &[]);
        let buffer = report["methods"][0]["buffers"][0].clone();
        let bytes = |key: &str| buffer[key].as_u64().unwrap();
        (bytes("nbytes_before"), bytes("nbytes_after"))
    };
    let (before, optimal) = planned("optimal");
    assert!(optimal < before, "{optimal} of {before}");
    assert!(planned("greedy").1 >= optimal);
    assert_eq!(planned("naive").1, before);
}

/// Puts the first planned values all at the same place.
fn corrupt(method: &mut ExecutionPlan) {
    let tensors = method.values.iter_mut().filter_map(Slot::as_tensor_mut);
    for tensor in tensors.filter(|tensor: &&mut Tensor| tensor.allocation_info.is_some()) {
        *tensor = tensor.clone().planned(1, 0);
    }
}

#[test]
fn a_corrupt_plan_is_refused_and_can_be_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let [broken, out] = ["a.pte", "b.pte"].map(|name| dir.path().join(name));
    write_changed("add", &broken, corrupt);
    let (from, to) = (broken.to_str().unwrap(), out.to_str().unwrap());
    std::fs::write(&out, "as it was").unwrap();
    let refused = document(&["plan", from, "-o", to], 1);
    assert_eq!(refused["error"]["id"], "plan.corrupt");
    assert_eq!(std::fs::read(&out).unwrap(), b"as it was");
    let repaired = document(&["plan", from, "-o", to, "--repair"], 0);
    assert_eq!(repaired["methods"][0]["repaired"], true);
    check_run("add", &out, &[]);
}

#[test]
fn targets_and_skips_change_what_is_planned() {
    let dir = tempfile::tempdir().unwrap();
    let [stripped, out] = ["a.pte", "b.pte"].map(|name| dir.path().join(name));
    write_changed("dev_single_all", &stripped, strip);
    let (from, to) = (stripped.to_str().unwrap(), out.to_str().unwrap());
    let plan = |more: &[&str]| {
        let report = document(&[&["plan", from, "-o", to], more].concat(), 0);
        report["methods"][0].clone()
    };
    let moved = plan(&["--target", "forward:0=cuda:1"]);
    assert_eq!(moved["buffers"][1]["device"], "cuda:1");
    check_run("dev_single_all", &out, &["--simulate", "cuda:2"]);
    let on_host = plan(&["--target", "forward:0=cpu"]);
    assert_eq!(on_host["buffers"].as_array().unwrap().len(), 1);
    let skipped = plan(&["--skip-h2d", "--skip-d2h", "forward"]);
    assert_eq!(skipped["copies_after"]["h2d"]["count"], 0);
    assert_eq!(skipped["copies_after"]["d2h"]["count"], 0);
    assert_eq!(skipped["inputs"][0]["device"], "cuda:0");
    assert_eq!(skipped["outputs"][0]["device"], "cuda:0");
    check_run("dev_single_all", &out, &["--simulate"]);
    let tagged = plan(&["--device-memory", "off"]);
    assert_eq!(tagged["buffers"].as_array().unwrap().len(), 1);
    assert_eq!(tagged["inputs"][0]["device"], "cuda:0");
}

#[test]
fn a_dry_run_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.pte");
    let model = "dev_single_add/model.pte";
    let report = document(
        &["plan", model, "-o", out.to_str().unwrap(), "--dry-run"],
        0,
    );
    assert!(report["file_nbytes_after"].as_u64().unwrap() > 0);
    assert!(!out.exists());
    assert_eq!(et(&["plan", model, "--dry-run"]).status.code(), Some(0));
}

#[test]
fn mistakes_of_the_command_line_have_status_2() {
    let model = "dev_single_add/model.pte";
    check_failure(&["plan", model], 2, "--output");
    check_failure(&["plan", model, "-o", "-"], 2, "file");
    for (option, value, message) in [
        ("--skip-h2d", "backward", "no method `backward`"),
        ("--target", "backward:0=cuda", "no method `backward`"),
        ("--target", "forward:7=cuda", "no delegate 7"),
        ("--target", "forward:0=gpu", "gpu"),
        ("--alignment", "12", "power of two"),
        ("--time-limit", "0", "seconds"),
        ("--algorithm", "best", "optimal"),
    ] {
        let plan = ["plan", model, "--dry-run", option, value];
        check_failure(&plan, 2, message);
    }
    let off = [
        "plan",
        model,
        "--dry-run",
        "--device-memory",
        "off",
        "--skip-h2d",
    ];
    check_failure(&off, 2, "--device-memory off");
    // What is planned already is not planned otherwise without a word.
    let moved = ["plan", model, "--dry-run", "--target", "forward:0=cuda:1"];
    check_failure(&moved, 1, "has device memory already");
}

const INSTANCE: &str = "id,lower,upper,size\na,0,2,64\nb,1,3,32\nc,2,4,64\n";

#[test]
fn an_instance_is_solved_with_proof() {
    let dir = tempfile::tempdir().unwrap();
    let [instance, out] = ["a.csv", "b.csv"].map(|name| dir.path().join(name));
    std::fs::write(&instance, INSTANCE).unwrap();
    let (from, to) = (instance.to_str().unwrap(), out.to_str().unwrap());
    let report = document(&["solve", from, "-o", to], 0);
    assert_eq!(
        (&report["format"], &report["outcome"], &report["nbytes"]),
        (&"et-solve".into(), &"optimal".into(), &96.into())
    );
    let solved = std::fs::read_to_string(&out).unwrap();
    let mut lines = solved.lines();
    assert!(lines.next().unwrap().ends_with(",offset"));
    let offsets: Vec<u64> = lines
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(offsets[0].abs_diff(offsets[1]) >= 32 && offsets[2].abs_diff(offsets[1]) >= 32);
    let naive = document(&["solve", from, "--algorithm", "naive"], 0);
    assert_eq!((&naive["nbytes"], &naive["gap"]), (&160.into(), &64.into()));
}

#[test]
fn a_capacity_is_met_or_proved_too_small() {
    let dir = tempfile::tempdir().unwrap();
    let [instance, out] = ["a.csv", "b.csv"].map(|name| dir.path().join(name));
    std::fs::write(&instance, INSTANCE).unwrap();
    let (from, to) = (instance.to_str().unwrap(), out.to_str().unwrap());
    let small = document(&["solve", from, "-o", to, "--capacity", "95"], 1);
    assert_eq!(small["error"]["id"], "solve.impossible");
    assert!(!out.exists());
    let told = et(&["solve", from, "--capacity", "95"]);
    assert!(text(&told.stdout).contains("no plan is within the capacity"));
    let fits = document(&["solve", from, "-o", to, "--capacity", "96"], 0);
    assert_eq!(fits["outcome"], "fits");
    assert!(out.exists());
    let unknown = document(
        &["solve", from, "--capacity", "96", "--algorithm", "naive"],
        1,
    );
    assert_eq!(unknown["error"]["id"], "solve.unknown");
}

#[test]
fn what_is_no_instance_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let instance = dir.path().join("a.csv");
    for content in [
        &b"id,lower\n"[..],
        b"id,lower,upper,size\na,0,x,1\n",
        b"\xff",
    ] {
        std::fs::write(&instance, content).unwrap();
        let refused = document(&["solve", instance.to_str().unwrap()], 1);
        assert_eq!(refused["error"]["id"], "solve.instance");
    }
    check_failure(&["solve", "no/such.csv"], 1, "no/such.csv");
}
