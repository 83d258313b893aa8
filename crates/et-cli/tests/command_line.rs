//! The command as a shell sees it: exit status, streams, documents.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

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
        "add/meta.json: not a valid program",
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
fn the_whole_flatbuffer_is_printed_with_the_schemas_names() {
    let output = et(&["inspect", "--program", "dev_single_add/model.pte"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recorded = fixtures().join("dev_single_add/program.json");
    let recorded: Value = serde_json::from_slice(&std::fs::read(recorded).unwrap()).unwrap();
    let document = document(&output);
    for field in ["execution_plan", "segments", "constant_segment", "version"] {
        assert!(
            contains(&document[field], &recorded[field]),
            "{field}: {}",
            document[field]
        );
    }
    check_failure(&["inspect", "--program", "add/meta.json"], 1, "");
}

/// Whether a document has everything that was recorded; hashes of blobs are not in it.
fn contains(found: &Value, recorded: &Value) -> bool {
    match recorded {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "sha256")
            .all(|(key, v)| contains(&found[key], v)),
        Value::Array(items) => {
            found.as_array().map_or(0, Vec::len) == items.len()
                && items
                    .iter()
                    .enumerate()
                    .all(|(index, item)| contains(&found[index], item))
        }
        _ => found == recorded,
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
    assert!(text(&output.stderr).contains("1 of 3 files not valid"));
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
