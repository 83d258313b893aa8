//! Compiles the driver into a shared object that a later `dlopen("libcuda.so")` finds already loaded.

use std::env::{var, var_os};
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=driver");
    // The SONAME trick is glibc's; elsewhere the support library builds and says so when used.
    let supported = var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux");
    let path = if supported {
        compile().display().to_string()
    } else {
        String::new()
    };
    println!("cargo:rustc-env=FAKECUDA_BUILT={path}");
}

fn compile() -> PathBuf {
    let out = PathBuf::from(var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("libcuda-fake.so");
    let mut rustc = Command::new(var_os("RUSTC").expect("cargo sets RUSTC"));
    rustc
        .args(["--crate-name", "fakecuda_driver", "--crate-type", "cdylib"])
        .args(["--edition", "2024", "--cap-lints", "warn", "driver/lib.rs"])
        .args([
            "-C",
            "opt-level=0",
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
    assert!(status.success(), "the fake driver does not compile");
    out
}
