//! What is read once, where results go, and what is said where that cannot be.

use super::*;

#[test]
fn standard_input_is_read_once() {
    let twice = "standard input can be read only once";
    check_failure(&["verify", "-", "-"], 2, twice);
    check_failure(&["run", "-", "--input", "-"], 2, twice);
    check_failure(&["run", "-", "--calls", "-"], 2, twice);
    check_failure(&["run", "-", "--data", "-"], 2, twice);
    check_failure(&["bench", "-", "--input", "-"], 2, twice);
    check_failure(&["inspect", "-", "--data", "-"], 2, twice);
}

#[test]
fn results_never_go_where_the_report_goes() {
    let model = "linear/model.pte";
    let message = "standard output has the report";
    for option in ["--trace", "--profile", "--output-dir"] {
        check_failure(&["run", model, option, "-"], 2, message);
    }
    assert!(!fixtures().join("-").exists());
    #[cfg(target_os = "linux")]
    for arguments in [
        &["plan", model, "-o", "/dev/stdout"][..],
        &["plan", model, "-o", "/proc/self/fd/1"],
        &["inspect", model, "--svg", "/dev/stdout"],
        &["run", model, "--trace", "/dev/stdout"],
    ] {
        check_failure(arguments, 2, message);
        assert!(et(arguments).stdout.is_empty());
    }
}

#[test]
fn an_output_folder_is_one_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let run = |folder: &Path, status, message| {
        let folder = folder.to_str().unwrap();
        let arguments = ["run", "linear/model.pte", "--output-dir", folder];
        check_failure(&arguments, status, message);
        assert!(et(&arguments).stdout.is_empty());
    };
    run(&file, 2, "is not a folder");
    run(&file.join("below"), 1, "cannot make the folder");
}

#[test]
fn messages_say_a_thing_once_and_name_no_file_of_ours() {
    let said = |arguments: &[&str]| text(&et(arguments).stderr).to_owned();
    let refused = said(&["run", "add/meta.json"]);
    assert_eq!(
        refused.matches("not an ExecuTorch program").count(),
        1,
        "{refused}"
    );
    #[cfg(target_os = "linux")]
    {
        let unwritable = said(&["plan", "add/model.pte", "-o", "/proc/x.pte"]);
        assert!(unwritable.contains("cannot write /proc/x.pte: "));
        assert!(!unwritable.contains(".et-"), "{unwritable}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn help_and_version_need_a_place_too() {
    for arguments in [["--version"].as_slice(), &["--help"], &["help", "run"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let output = Command::new(env!("CARGO_BIN_EXE_et"))
            .args(arguments)
            .stdout(full.unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        assert!(text(&output.stderr).contains("cannot write to stdout"));
    }
}

#[test]
fn a_call_that_fails_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls.json");
    let good = fixtures().join("linear/in_0.npy");
    let tensor = format!(
        r#"{{"kind": "tensor", "file": {:?}}}"#,
        good.to_str().unwrap()
    );
    for (second, message) in [
        (
            r#""method": "forward", "inputs": []"#.to_owned(),
            "takes 1 inputs",
        ),
        (
            r#""method": "backward", "inputs": []"#.to_owned(),
            "backward",
        ),
        (
            r#""method": "forward", "inputs": [{"kind": "int", "value": 3}]"#.to_owned(),
            "input 0",
        ),
        (
            r#""method": "forward", "inputs": [{"kind": "tensor", "file": "no.npy"}]"#.to_owned(),
            "no.npy",
        ),
    ] {
        let document =
            format!(r#"{{"runs": [{{"method": "forward", "inputs": [{tensor}]}}, {{{second}}}]}}"#);
        std::fs::write(&calls, document).unwrap();
        let calls = calls.to_str().unwrap();
        let arguments = ["run", "linear/model.pte", "--calls", calls];
        check_failure(&arguments, 1, "runs[1]");
        check_failure(&arguments, 1, message);
        let document = document_of(&[&arguments[..], &["--json"]].concat());
        assert_eq!(document["error"]["run"], 1);
        assert_eq!(document["runs"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_document_without_calls_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls.json");
    for (document, message) in [
        (r#"{"runs": []}"#, "`runs` is an empty list"),
        (r#"{"calls": []}"#, "no top-level key `runs`"),
    ] {
        std::fs::write(&calls, document).unwrap();
        let calls = calls.to_str().unwrap();
        check_failure(&["run", "add/model.pte", "--calls", calls], 1, message);
    }
}

#[test]
fn messages_say_what_to_write_instead() {
    check_failure(&["run", "ext_weights/model.pte"], 1, "with --data)");
    let gpu = ["run", "add/model.pte", "--simulate", "gpu"];
    check_failure(&gpu, 2, "expected cuda or cuda:COUNT");
}

#[test]
fn device_memory_without_a_plan_is_told_of() {
    let model = "dev_lm_resident/model.pte";
    let run = et(&["run", model, "--simulate", "--method", "decode"]);
    let told = text(&run.stdout);
    // Token, position and two caches: in, and out.
    let row = "0  cuda:0       8   8224  ";
    assert!(told.contains("device memory taken by runs"), "{told}");
    assert!(told.contains(row), "{told}");
    let few = ["--iterations", "1", "--warmup", "0", "--json"];
    let bench = ["bench", model, "--simulate", "--method", "decode"];
    let bench = document_of(&[&bench[..], &few].concat());
    assert_eq!(bench["planned_bytes"], serde_json::json!({}));
    let unplanned = serde_json::json!({"cuda:0": 8224});
    assert_eq!(bench["unplanned_bytes"], unplanned);
    // A buffer of no bytes is none.
    let inspected = et(&["inspect", model]);
    let told = text(&inspected.stdout);
    assert!(told.contains("planned memory: none"), "{told}");
    assert!(!told.contains("planned buffers"), "{told}");
    assert!(
        told.contains("unplanned memory: 8.03 KiB on cuda:0"),
        "{told}"
    );
    let inspected = document_of(&["inspect", model, "--json"]);
    let decode = inspected["methods"].as_array().unwrap();
    let decode = decode.iter().find(|method| method["name"] == "decode");
    assert_eq!(decode.unwrap()["unplanned_memory_per_device"], unplanned);
}

fn document_of(arguments: &[&str]) -> Value {
    document(&et(arguments))
}

/// A program that gives relu of a tensor, and a number.
fn tensor_and_number(to: &Path) {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(32);
    let floats = || FileTensor::new(ScalarType::Float, &[2]);
    let x = forward.input(floats().planned(memory, 0));
    let out = forward.output(floats().planned(memory, 16));
    forward.kernel("aten::relu.out", &[x, out, out]);
    let number = forward.int(7);
    forward.mark_output(number);
    let mut program = ProgramBuilder::new();
    program.method(forward);
    std::fs::write(to, program.to_bytes().unwrap()).unwrap();
}

#[test]
fn what_a_run_wrote_can_be_expected_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let [model, out] = ["model.pte", "out"].map(|name| folder.path().join(name));
    tensor_and_number(&model);
    let [model, to] = [&model, &out].map(|path| path.to_str().unwrap());
    document_of(&["run", model, "--output-dir", to, "--json"]);
    let expect = ["run", model, "--expect", to, "--json"];
    let again = document_of(&expect);
    assert_eq!(again["expect"]["outputs"], 2, "{again}");
    assert_eq!(again["expect"]["mismatches"], serde_json::json!([]));
    assert_eq!(again["expect"]["not_recorded"], 0);
    // The number counts.
    let document = out.join("outputs.json");
    let written = std::fs::read_to_string(&document).unwrap();
    std::fs::write(&document, written.replace("\"value\": 7", "\"value\": 8")).unwrap();
    let other = document_of(&expect);
    assert_eq!(other["error"]["id"], "expect.mismatch", "{other}");
}

#[test]
fn numbers_that_a_folder_does_not_record_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let [model, out] = ["model.pte", "out"].map(|name| folder.path().join(name));
    tensor_and_number(&model);
    let [model, to] = [&model, &out].map(|path| path.to_str().unwrap());
    document_of(&["run", model, "--output-dir", to, "--json"]);
    std::fs::remove_file(out.join("outputs.json")).unwrap();
    std::fs::rename(out.join("run0_out0.npy"), out.join("out_0.npy")).unwrap();
    let expect = ["run", model, "--expect", to];
    let output = et(&expect);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("1 output not compared"));
    let document = document_of(&[&expect[..], &["--json"]].concat());
    assert_eq!(document["expect"]["not_recorded"], 1);
}

#[test]
fn a_bench_takes_inputs_as_a_run_does() {
    let bench = |inputs: &[&str]| {
        let few = ["--iterations", "2", "--warmup", "0"];
        et(&[&["bench", "add/model.pte"], &few[..], inputs].concat())
    };
    let good = ["--input", "add/in_0.npy", "--input", "add/in_1.npy"];
    let output = bench(&good);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = bench(&good[..2]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("takes 2 inputs, and 1 were given"));
}

#[test]
fn every_command_can_be_quiet() {
    for arguments in [
        &["inspect", "add/model.pte"][..],
        &["verify", "add/model.pte"],
        &["run", "add/model.pte"],
        &["bench", "add/model.pte", "--iterations", "1"],
        &["plan", "add/model.pte", "--dry-run"],
        &["devices"],
        &["ops"],
    ] {
        let output = et(&[arguments, &["--quiet"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let data = "ext_weights/_default_external_constant.ptd";
    check_failure(&["inspect", data, "--data", data], 2, "--data");
    let model = "ext_weights/model.pte";
    check_failure(
        &["inspect", model, "--program", "--data", data],
        2,
        "--data",
    );
}

#[test]
fn outputs_never_take_the_place_of_what_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let out = out.to_str().unwrap();
    let model = "add/model.pte";
    assert!(et(&["run", model, "--output-dir", out]).status.success());
    let output = format!("{out}/run0_out0.npy");
    let list = format!("{out}/outputs.json");
    let before = std::fs::read(&output).unwrap();
    let mut document: Value = serde_json::from_slice(&std::fs::read(&list).unwrap()).unwrap();
    let item = document["runs"][0]["outputs"][0].clone();
    document["runs"][0]["inputs"] = serde_json::json!([item, item]);
    let calls = format!("{out}/calls.json");
    std::fs::write(&calls, document.to_string()).unwrap();
    for arguments in [
        ["--input", output.as_str(), "--input", output.as_str()].as_slice(),
        &["--calls", &calls],
        &["--expect", out],
    ] {
        let arguments = [&["run", model, "--output-dir", out], arguments].concat();
        check_failure(&arguments, 2, "might be written over");
        assert_eq!(std::fs::read(&output).unwrap(), before);
    }
}

/// Outputs are kept where another result cannot be written, and what failed is told.
#[test]
fn one_result_that_cannot_be_written_costs_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (out, trace) = (dir.path().join("out"), dir.path().join("none/trace.json"));
    let arguments = [
        "run",
        "add/model.pte",
        "--output-dir",
        out.to_str().unwrap(),
        "--trace",
        trace.to_str().unwrap(),
    ];
    check_failure(&arguments, 1, "trace.json");
    assert!(out.join("run0_out0.npy").is_file() && out.join("outputs.json").is_file());
}
