//! Compiles the drivers into shared objects: once one is loaded, a later `dlopen("libcuda.so")` finds it.

use std::env::{var, var_os};
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=driver");
    println!("cargo:rerun-if-changed=null");
    // Unoptimised, the fake is fast enough, and quickly built; the other one must cost next to nothing.
    for (variable, folder, level) in [
        ("FAKECUDA_BUILT", "driver", "0"),
        ("FAKECUDA_NULL", "null", "2"),
    ] {
        // The SONAME trick is glibc's; elsewhere the support library builds and says so when used.
        let supported = var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux");
        let path = if supported {
            compile(folder, level).display().to_string()
        } else {
            String::new()
        };
        println!("cargo:rustc-env={variable}={path}");
    }
}

fn compile(folder: &str, level: &str) -> PathBuf {
    let out = PathBuf::from(var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
        .join(format!("libcuda-{folder}.so"));
    let mut rustc = Command::new(var_os("RUSTC").expect("cargo sets RUSTC"));
    rustc
        .args([
            "--crate-name",
            &format!("fakecuda_{folder}"),
            "--crate-type",
            "cdylib",
        ])
        .args([
            "--edition",
            "2024",
            "--cap-lints",
            "warn",
            &format!("{folder}/lib.rs"),
        ])
        .args([
            "-C",
            &format!("opt-level={level}"),
            "-C",
            "strip=debuginfo",
            "-C",
            "panic=abort",
        ])
        .args(["-C", "link-arg=-Wl,-soname,libcuda.so"])
        .args(["--target", &var("TARGET").expect("cargo sets TARGET")])
        .arg("-o")
        .arg(&out);
    if let Ok(linker) = var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    let status = rustc
        .status()
        .expect("the compiler that builds this script runs");
    assert!(status.success(), "the {folder} driver does not compile");
    out
}
