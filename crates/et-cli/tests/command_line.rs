//! The command as a shell sees it: exit status, streams, documents.

#![expect(clippy::unwrap_used, reason = "all of this is tests")]

use et_schema::ScalarType;
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::Tensor as FileTensor;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[path = "command_line/results.rs"]
mod results;

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

/// The only document on stdout.
fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[track_caller]
fn check_failure(arguments: &[&str], status: i32, message: &str) {
    let output = et(arguments);
    assert_eq!(
        output.status.code(),
        Some(status),
        "{}",
        text(&output.stderr)
    );
    assert!(
        text(&output.stderr).contains(message),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_wrong_command_line_has_status_2() {
    check_failure(&[], 2, "Usage");
    check_failure(&["frobnicate"], 2, "frobnicate");
    check_failure(&["inspect"], 2, "<FILE>");
    check_failure(&["inspect", "a", "b"], 2, "unexpected argument");
    check_failure(&["verify"], 2, "<FILE>");
}

#[test]
fn a_wrong_command_line_can_be_a_document() {
    let output = et(&["inspect", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(document(&output)["error"]["id"], "usage");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn help_and_version_are_no_failures() {
    for arguments in [&["--help"][..], &["--version"], &["help", "inspect"]] {
        let output = et(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn a_file_that_is_not_there_has_status_1() {
    check_failure(
        &["inspect", "no/such.pte"],
        1,
        "error: cannot read no/such.pte",
    );
    check_failure(&["inspect", "add"], 1, "cannot read add");
    check_failure(
        &["inspect", "add/meta.json"],
        1,
        "add/meta.json: not an ExecuTorch program",
    );
}

#[test]
fn documents_say_what_they_are() {
    let program = "dev_single_add/model.pte";
    for (arguments, format) in [
        (&["inspect", "--json", program][..], "et-inspect"),
        (&["verify", "--json", program], "et-verify"),
        (&["devices", "--json"], "et-devices"),
        (&["ops", "--json"], "et-ops"),
    ] {
        let output = et(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let document = document(&output);
        assert_eq!(
            (&document["format"], &document["version"]),
            (&format.into(), &1.into())
        );
        assert!(document.get("error").is_none());
    }
}

#[test]
fn inspecting_agrees_with_what_was_recorded_of_every_fixture() {
    let entries = std::fs::read_dir(fixtures()).unwrap().map(Result::unwrap);
    for entry in entries.filter(|entry| entry.path().is_dir()) {
        let case = entry.file_name().into_string().unwrap();
        let model = format!("{case}/model.pte");
        let recorded = |name: &str| -> Value {
            let file = fixtures().join(&case).join(name);
            serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
        };
        let summary = document(&et(&["inspect", "--json", &model]));
        assert_eq!(
            difference(&summary, &recorded("meta.json")["program"]),
            None,
            "{case}"
        );
        let whole = document(&et(&["inspect", "--program", &model]));
        assert_eq!(
            difference(&whole, &recorded("program.json")),
            None,
            "{case}"
        );
    }
}

/// The first place where a document differs from what was recorded. Hashes are not compared, and nothing, an empty
/// list and a missing field are the same; a document may have more fields.
fn difference(found: &Value, recorded: &Value) -> Option<String> {
    let is_nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let inside = |key: String, found: &Value, recorded: &Value| {
        difference(found, recorded).map(|place| format!("{key}.{place}"))
    };
    match recorded {
        _ if is_nothing(recorded) && is_nothing(found) => None,
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "sha256")
            .find_map(|(key, value)| inside(key.clone(), &found[key], value)),
        Value::Array(items) if found.as_array().map(Vec::len) == Some(items.len()) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| inside(index.to_string(), &found[index], item)),
        _ if found == recorded => None,
        _ => Some(format!(" expected {recorded}, found {found}")),
    }
}

#[test]
fn a_failure_can_be_a_document() {
    let output = et(&["inspect", "--json", "add/meta.json"]);
    assert_eq!(output.status.code(), Some(1));
    let document = document(&output);
    assert_eq!(document["format"], "et-inspect");
    assert!(
        document["error"]["message"]
            .as_str()
            .unwrap()
            .contains("add/meta.json")
    );
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn verify_lists_every_file_and_fails_for_one() {
    let output = et(&[
        "verify",
        "add/model.pte",
        "add/meta.json",
        "linear/model.pte",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert!(lines[0].starts_with("valid    add/model.pte"), "{lines:?}");
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("invalid  add/meta.json")),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("valid    linear/model.pte")),
        "{lines:?}"
    );
    assert!(text(&output.stderr).contains("1 of 3 files are not valid"));
}

#[test]
fn a_program_is_read_from_standard_input() {
    let output = Command::new(env!("CARGO_BIN_EXE_et"))
        .args(["inspect", "-"])
        .stdin(std::fs::File::open(fixtures().join("add/model.pte")).unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).starts_with("standard input: program"));
}

#[test]
fn tensor_data_is_shown_alone_and_beside_its_program() {
    let data = "ext_weights/_default_external_constant.ptd";
    let alone = et(&["inspect", data]);
    assert_eq!(alone.status.code(), Some(0), "{}", text(&alone.stderr));
    assert!(text(&alone.stdout).contains("0.weight  FLOAT  [12, 8]    384"));
    let model = "ext_weights/model.pte";
    let with = et(&["inspect", model, "--data", data]);
    assert!(text(&with.stdout).contains(data), "{}", text(&with.stdout));
    let without = et(&["inspect", model, "--json"]);
    assert_eq!(document(&without)["external_data"][0]["file"], Value::Null);
    check_failure(
        &["inspect", model, "--data", model],
        1,
        "not an ExecuTorch tensor data file",
    );
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_et"))
        .args(["completions", "bash"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_has_status_3() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_et"))
        .args(["completions", "bash"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("cannot write to stdout"));
}

/// `et run` of the program that needs one device, with more arguments.
fn run_on_device(arguments: &[&str]) -> Output {
    let mut all = vec!["run", "dev_single_add/model.pte"];
    all.extend(arguments);
    et(&all)
}

const RECORDED: [&str; 4] = [
    "--calls",
    "dev_single_add/meta.json",
    "--expect",
    "dev_single_add",
];

#[test]
fn recorded_calls_give_the_recorded_outputs_and_trace() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.json");
    let out = dir.path().join("out");
    let mut arguments = vec![
        "--simulate",
        "cuda:2",
        "--json",
        "--trace",
        trace.to_str().unwrap(),
    ];
    arguments.extend(["--output-dir", out.to_str().unwrap()]);
    arguments.extend(RECORDED);
    let output = run_on_device(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let document = document(&output);
    assert_eq!(document["expect"]["outputs"], 1);
    assert_eq!(document["expect"]["mismatches"], serde_json::json!([]));

    let trace: Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let words = |events: &Value, origin: &str| -> Vec<String> {
        let events = events.as_array().unwrap().iter();
        let ours = events.filter(|event| event["origin"] == origin);
        ours.map(|event| event["ev"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        words(&trace["load"]["forward"], "runtime"),
        ["alloc", "fill", "delegate_init"]
    );
    let run = ["execute_begin", "h2d", "h2d", "delegate", "d2h", "output"];
    assert_eq!(words(&trace["runs"][0], "runtime"), run);

    // What was written can be read back as an input.
    let written = out.join("run0_out0.npy");
    let recorded = std::fs::read(fixtures().join("dev_single_add/out_0.npy")).unwrap();
    assert_eq!(std::fs::read(&written).unwrap(), recorded);
    let file = written.to_str().unwrap();
    let again = run_on_device(&["--simulate", "--input", file, "--input", file]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
}

#[test]
fn made_up_inputs_are_the_same_every_time_and_said_so() {
    let [first, second] = [(); 2].map(|()| run_on_device(&["--simulate"]));
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert!(text(&first.stdout).contains("the inputs were made up"));
    assert_eq!(first.stdout, second.stdout);
}

#[test]
fn a_bare_simulate_leaves_the_file_alone() {
    let output = et(&["run", "--simulate", "dev_single_add/model.pte"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_device_that_is_not_there_says_what_needs_it_and_how_to_simulate() {
    let output = run_on_device(&[]);
    if output.status.code() == Some(0) {
        eprintln!("skipped: this machine has a CUDA device");
        return;
    }
    assert_eq!(output.status.code(), Some(3));
    let message = text(&output.stderr);
    assert_eq!(message.lines().count(), 1, "{message}");
    for part in ["planned buffer 2", "96 bytes", "cuda:0", "--simulate"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_simulated_device_too_few_says_how_many_there_are() {
    let few = ["--simulate", "cuda:1", "--device-map", "cuda:0=cuda:1"];
    let output = run_on_device(&few);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).contains("cuda:COUNT"),
        "{}",
        text(&output.stderr)
    );
    let enough = ["--simulate", "cuda:2", "--device-map", "cuda:0=cuda:1"];
    assert_eq!(run_on_device(&enough).status.code(), Some(0));
}

#[test]
fn a_wrong_output_is_a_failure_that_names_the_element() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = fixtures().join("dev_single_add/out_0.npy");
    let mut bytes = std::fs::read(recorded).unwrap();
    // The last element becomes 2, whatever it was.
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&2f32.to_le_bytes());
    std::fs::write(dir.path().join("out_0.npy"), bytes).unwrap();
    let folder = dir.path().to_str().unwrap();
    let calls = [
        "--simulate",
        "--calls",
        "dev_single_add/meta.json",
        "--expect",
        folder,
    ];
    let output = run_on_device(&calls);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.contains("run 0, output 0: at [1, 2] expected 2"),
        "{message}"
    );
    let table = text(&output.stdout);
    assert!(!table.contains("worst difference 0,"), "{table}");
    let wide = [&calls[..], &["--tol", "FLOAT=100"]].concat();
    assert_eq!(run_on_device(&wide).status.code(), Some(0));
}

#[test]
fn inputs_that_do_not_fit_are_failures_of_the_run() {
    let run = |arguments: &[&str]| {
        let output = et(&[&["run", "add/model.pte"], arguments].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        text(&output.stderr).to_owned()
    };
    let good = "add/in_0.npy";
    assert!(run(&["--input", good]).contains("takes 2 inputs, and 1 were given"));
    assert!(run(&["--input", good, "--input", "int:3"]).contains("input 1"));
    assert!(run(&["--input", good, "--input", "linear/in_0.npy"]).contains("input 1"));
    assert!(run(&["--input", good, "--input", "add/model.pte"]).contains("not a .npy file"));
    assert!(run(&["--max-input-bytes", "47"]).contains("--max-input-bytes"));
    assert!(run(&["--method", "backward"]).contains("forward"));
}

#[test]
fn a_profile_has_a_slice_per_instruction_and_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("profile.json");
    let output = run_on_device(&[
        "--simulate",
        "--repeat",
        "3",
        "--profile",
        file.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let profile: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let slices = profile["traceEvents"].as_array().unwrap();
    let of = |category: &str| {
        slices
            .iter()
            .filter(|slice| slice["cat"] == category)
            .count()
    };
    assert_eq!((of("load"), of("method"), of("instruction")), (1, 3, 15));
}

#[test]
fn a_program_is_run_from_standard_input() {
    let output = Command::new(env!("CARGO_BIN_EXE_et"))
        .args(["run", "-"])
        .stdin(std::fs::File::open(fixtures().join("linear/model.pte")).unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn outputs_can_stay_on_the_device() {
    let stay = ["--simulate", "--outputs", "device"];
    // Its output is on the host anyway.
    assert_eq!(run_on_device(&stay).status.code(), Some(0));
    let refused = [&stay[..], &["--expect", "dev_single_add"]].concat();
    assert_eq!(run_on_device(&refused).status.code(), Some(2));
    let model = "dev_skip_d2h/model.pte";
    let output = et(&[&["run", model], &stay[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("on cuda:0"),
        "{}",
        text(&output.stdout)
    );
    let fetched = et(&["run", model, "--simulate"]);
    assert!(
        !text(&fetched.stdout).contains("on cuda:0"),
        "{}",
        text(&fetched.stdout)
    );
}

#[test]
fn a_bench_times_loading_and_running_and_counts_memory_and_copies() {
    let model = "dev_skip_d2h/model.pte";
    let few = ["--iterations", "3", "--warmup", "0"];
    let output = et(&[&["bench", model, "--simulate", "--json"], &few[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = document(&output);
    assert_eq!(document["format"], "et-bench");
    for what in ["load_program", "load_method", "execute", "call"] {
        let times = &document["times"][what];
        assert_eq!(times["count"], 3, "{what}");
        let [low, median, high] = ["p5_ns", "median_ns", "p95_ns"].map(|key| times[key].as_u64());
        assert!(
            Some(0) < low && low <= median && median <= high,
            "{what}: {times}"
        );
    }
    assert_eq!(
        document["planned_bytes"],
        serde_json::json!({"cpu": 96, "cuda:0": 96})
    );
    assert_eq!(document["heap_per_execute"]["blocks"], 0);
    let copies = document["copies_per_call"].as_array().unwrap();
    let runtime = copies.iter().find(|copies| copies["origin"] == "runtime");
    assert_eq!(
        runtime,
        Some(&serde_json::json!({"kind": "h2d", "origin": "runtime", "count": 2, "bytes": 48}))
    );
    let people = et(&[&["bench", model, "--simulate"], &few[..]].concat());
    assert!(
        text(&people.stdout).contains("host to cuda"),
        "{}",
        text(&people.stdout)
    );
    check_failure(&["bench", model], 3, "add --simulate");
    check_failure(&["bench", model, "--iterations", "0"], 2, "--iterations");
}

/// A process that may not have the memory says so and ends by itself; a smaller program runs under the same limit.
#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_is_an_error_of_the_machine() {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(4 << 30);
    let floats = || FileTensor::new(ScalarType::Float, &[2]);
    let x = forward.input(floats().planned(memory, 0));
    let out = forward.output(floats().planned(memory, 16));
    forward.kernel("aten::relu.out", &[x, out, out]);
    let mut program = ProgramBuilder::new();
    program.method(forward);
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.pte");
    std::fs::write(&large, program.to_bytes().unwrap()).unwrap();

    let limited = |model: &Path| {
        // 2 GiB of addresses, for the libraries and all.
        let script = "ulimit -v 2097152 && exec \"$0\" run \"$1\"";
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script, env!("CARGO_BIN_EXE_et")])
            .arg(model);
        shell.output().unwrap()
    };
    let output = limited(&large);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("planned buffer 1 (4294967296 bytes"),
        "{said}"
    );
    let output = limited(&fixtures().join("linear/model.pte"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_program_is_timed_from_standard_input() {
    let output = Command::new(env!("CARGO_BIN_EXE_et"))
        .args(["bench", "-", "--iterations", "2"])
        .stdin(std::fs::File::open(fixtures().join("linear/model.pte")).unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn results_never_take_the_place_of_what_was_read_or_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let [model, other] = ["model.pte", "other"].map(|name| folder.path().join(name));
    std::fs::copy(fixtures().join("linear/model.pte"), &model).unwrap();
    let before = std::fs::read(&model).unwrap();
    let [model, other] = [&model, &other].map(|path| path.to_str().unwrap());
    let over = "would be written over";
    check_failure(&["run", model, "--trace", model], 2, over);
    check_failure(&["run", model, "--profile", model], 2, over);
    check_failure(
        &["run", model, "--trace", other, "--profile", other],
        2,
        over,
    );
    check_failure(&["inspect", model, "--svg", model], 2, over);
    check_failure(&["plan", model, "-o", other, "--svg", model], 2, over);
    check_failure(&["plan", model, "-o", other, "--svg", other], 2, over);
    // A picture that cannot be written leaves the program alone.
    check_failure(
        &["plan", model, "-o", other, "--svg", "no/such/folder/x.svg"],
        1,
        "cannot write",
    );
    assert!(!Path::new(other).exists());
    assert_eq!(std::fs::read(model).unwrap(), before);
}
