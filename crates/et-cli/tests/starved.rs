//! `et` with less than it needs: memory that ends, files that may not grow.
#![cfg(target_os = "linux")]

use et_schema::ScalarType;
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::Tensor;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `et` with a limit that the shell sets, such as `-v 20000`.
fn et_within(limit: &str, arguments: &[&str]) -> Output {
    let script = format!("ulimit -c 0; ulimit {limit}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_et")])
        .args(arguments)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .expect("a shell starts")
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}

fn model() -> PathBuf {
    fixture("dev_single_add/model.pte")
}

/// What an end means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// The system could not start it.
    NotStarted,
    /// A block too small for its size to come from a file could not be had: the standard library ends the process and says so.
    Small,
    /// An error like any other.
    Told,
    /// It did what it was asked.
    Done,
}

/// Small allocations that nobody can refuse; what a file determines the size of is beyond.
const SMALL: u64 = 64 << 10;

fn end(output: &Output) -> End {
    let stderr = String::from_utf8_lossy(&output.stderr);
    if let Some(code) = output.status.code().filter(|code| *code < 100) {
        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("status {code} without a document: {stderr}"));
        assert_eq!(document["error"].is_null(), code == 0, "{document}");
        return if code == 0 { End::Done } else { End::Told };
    }
    let refused = stderr.lines().find_map(|line| {
        let rest = line.strip_prefix("memory allocation of ")?;
        rest.split(' ').next()?.parse::<u64>().ok()
    });
    match refused {
        Some(nbytes) => {
            assert!(nbytes < SMALL, "{nbytes} bytes ended the process: {stderr}");
            End::Small
        }
        None => {
            let started = stderr.contains("panicked");
            assert!(!started, "{:?}: {stderr}", output.status);
            End::NotStarted
        }
    }
}

/// A program with a constant, a planned buffer and an input of 1 MiB each.
fn large_model() -> Vec<u8> {
    const LEN: usize = 1 << 18;
    let size = i32::try_from(LEN).expect("a small number");
    let vector = || Tensor::new(ScalarType::Float, &[size]);
    let mut program = ProgramBuilder::new();
    let constant = program.constant(&vec![0; 4 * LEN]);
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(4 * i64::from(size));
    let x = forward.input(vector());
    let weight = forward.tensor(vector().with_data(constant));
    let out = forward.output(vector().planned(memory, 0));
    let alpha = forward.int(1);
    forward.kernel("aten::add.out", &[x, weight, alpha, out, out]);
    program.method(forward);
    program.to_bytes().expect("a program")
}

#[test]
fn memory_that_ends_is_an_error_or_named_by_its_few_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.pte");
    std::fs::write(&path, large_model()).expect("a file");
    let run = ["run", path.to_str().expect("UTF-8"), "--json"];
    let starts = |kib: &u32| {
        let output = et_within(&format!("-v {kib}"), &["--version"]);
        output.status.success()
    };
    let least = (4096..1 << 18)
        .step_by(256)
        .find(starts)
        .expect("256 MiB are enough to start");
    let mut seen = Vec::new();
    // The first KiBs are for the stack, which cannot ask.
    for kib in (least + 1024..).step_by(128) {
        seen.push(end(&et_within(&format!("-v {kib}"), &run)));
        assert!(kib < least + (1 << 16), "64 MiB more are enough to run");
        if seen.last() == Some(&End::Done) {
            break;
        }
    }
    assert!(seen.iter().all(|end| *end > End::NotStarted), "{seen:?}");
    let told = seen.iter().filter(|end| **end == End::Told).count();
    assert!(told > seen.len() / 2, "{seen:?}");
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_nothing_half_written_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("planned.pte");
    let model = model();
    let plan = [
        "plan",
        model.to_str().expect("UTF-8"),
        "--compact",
        "--output",
        target.to_str().expect("UTF-8"),
        "--json",
    ];
    let names = || -> Vec<_> {
        let entries = std::fs::read_dir(folder.path()).expect("a folder");
        entries
            .map(|entry| entry.expect("an entry").file_name())
            .collect()
    };
    // Of 512 bytes each.
    for blocks in 0..3 {
        let output = et_within(&format!("-f {blocks}"), &plan);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(document["error"]["id"], "io", "{document}");
        assert!(names().is_empty(), "{:?}", names());
    }
    std::fs::write(&target, "what was there").expect("a file");
    assert_eq!(et_within("-f 1", &plan).status.code(), Some(3));
    assert_eq!(std::fs::read(&target).expect("a file"), b"what was there");
    assert_eq!(names(), ["planned.pte"]);
    assert_eq!(et_within("-f 1000", &plan).status.code(), Some(0));
}
