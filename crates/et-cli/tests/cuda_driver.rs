//! What `et` says about a CUDA driver that is not there or not fit for use: one line that helps.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = "dev_single_add/model.pte";
/// Exit status when the machine is at fault.
const ENVIRONMENT: i32 = 3;

/// Runs `et` with the driver library and the environment given, and nothing else that concerns CUDA.
fn et(driver: Option<&Path>, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_et"));
    command
        .args(arguments)
        .current_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures"))
        .env_remove("ET_CUDA_DRIVER")
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    if let Some(driver) = driver {
        command.env("ET_CUDA_DRIVER", driver);
    }
    command.output().expect("`et` starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// `et devices` has one line for CUDA, and `et run` prints one error; both hold all of `parts`.
#[track_caller]
fn check(driver: Option<&Path>, variables: &[(&str, &str)], parts: &[&str]) {
    let output = et(driver, variables, &["devices"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let listed: Vec<&str> = text(&output.stdout)
        .lines()
        .filter(|line| line.trim_start().starts_with("cuda"))
        .collect();
    let [line] = listed[..] else {
        panic!("not one line: {}", text(&output.stdout))
    };
    assert!(line.contains("no: cuda is not available: "), "{line}");

    let output = et(driver, variables, &["run", PROGRAM]);
    assert_eq!(output.status.code(), Some(ENVIRONMENT), "{output:?}");
    let error = text(&output.stderr).trim_end();
    assert!(
        error.starts_with("error: ") && !error.contains('\n'),
        "{error}"
    );
    for part in parts {
        assert!(line.contains(part), "{part}: {line}");
        assert!(error.contains(part), "{part}: {error}");
    }

    let output = et(driver, variables, &["run", "--json", PROGRAM]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["error"]["id"], "device.unavailable", "{document}");
}

#[test]
fn no_driver_at_all_is_told_with_what_was_looked_for() {
    let output = et(None, &[], &["devices", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let devices = document["devices"].as_array().expect("a list of devices");
    if devices
        .iter()
        .any(|d| d["device"] != "cpu" && d["available"] == true)
    {
        eprintln!("skipped: this machine has a CUDA driver");
        return;
    }
    let parts = [
        "no CUDA driver was found",
        "libcuda.so.1",
        "install NVIDIA's driver",
    ];
    check(None, &[], &parts);
}

#[test]
fn a_driver_that_cannot_be_loaded_is_named() {
    let parts = ["ET_CUDA_DRIVER", "/no/such/libcuda.so", "No such file"];
    check(Some(Path::new("/no/such/libcuda.so")), &[], &parts);
}

#[test]
fn a_machine_without_a_gpu_is_told() {
    let fake = fakecuda::path();
    let parts = [
        "sees no GPU",
        "CUDA_ERROR_NO_DEVICE",
        "CUDA_VISIBLE_DEVICES",
    ];
    check(Some(&fake), &[("FAKECUDA_DEVICES", "0")], &parts);
}

#[test]
fn a_stub_library_is_called_one() {
    let fake = fakecuda::path();
    let parts = [
        "stub",
        "CUDA_ERROR_STUB_LIBRARY",
        "put NVIDIA's driver before it",
    ];
    check(Some(&fake), &[("FAKECUDA_FAIL", "cuInit=34")], &parts);
}

#[test]
fn a_driver_without_a_needed_function_is_told_its_name() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for symbol in ["cuInit", "cuMemAlloc_v2", "cuStreamGetCtx"] {
        let driver = folder.path().join(format!("{symbol}.so"));
        fakecuda::write_without(&[symbol], &driver);
        let says = format!("has no function {symbol};");
        let name = driver.to_str().expect("UTF-8");
        let parts = [&says, "ET_CUDA_DRIVER", name, "newer NVIDIA driver"];
        check(Some(&driver), &[], &parts);
    }
}

#[test]
fn a_driver_that_works_runs_programs() {
    let fake = fakecuda::path();
    let output = et(Some(&fake), &[("FAKECUDA_DEVICES", "1")], &["devices"]);
    let listed = text(&output.stdout);
    assert!(
        listed
            .lines()
            .any(|line| line.contains("cuda:0") && line.ends_with("yes")),
        "{listed}"
    );
    let output = et(
        Some(&fake),
        &[("FAKECUDA_LEAKCHECK", "1")],
        &["run", PROGRAM],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
