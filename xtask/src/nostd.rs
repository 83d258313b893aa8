//! Builds of the lower crates against a sysroot that has no `std`.
//!
//! A crate that says `no_std` still builds on the host when one of its dependencies needs `std`. So the
//! compiler gets a sysroot that holds `core` only, or `core` and `alloc`: whatever reaches for more fails.
//! No other target needs to be installed for that. Two small programs are then linked against the same sysroots and run.

mod program;

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// What the sysroot of a build offers.
#[derive(Clone, Copy)]
enum Sysroot {
    Core,
    Alloc,
}

/// The builds: package, extra features, sysroot.
const BUILDS: &[(&str, &str, Sysroot)] = &[
    ("et-device", "", Sysroot::Core),
    ("et-device", "alloc", Sysroot::Alloc),
    ("et-schema", "", Sysroot::Alloc),
    ("et-memory", "", Sysroot::Alloc),
];

/// Builds each lower crate without `std`, et-device without `alloc` too, and runs the programs.
pub(crate) fn run() -> Result<()> {
    let host = host_target()?;
    let libraries = library_folder(&host)?;
    for &(package, features, sysroot) in BUILDS {
        let flags = sysroot_flag(&libraries, &host, sysroot)?;
        let mut command = process::cargo();
        command.args(["build", "--quiet", "-p", package, "--no-default-features"]);
        if !features.is_empty() {
            command.args(["--features", features]);
        }
        command.args(["--target", &host]).arg("--target-dir");
        command.arg(workspace::target_dir().join("no-std"));
        process::run(command.env("CARGO_ENCODED_RUSTFLAGS", flags))?;
    }
    for program in program::PROGRAMS {
        let flags = sysroot_flag(&libraries, &host, program.sysroot)?;
        program.run(&host, &flags)?;
    }
    let (builds, programs) = (BUILDS.len(), program::PROGRAMS.len());
    console::line(format_args!(
        "no-std: {builds} builds and {programs} programs without std"
    ));
    Ok(())
}

/// The compiler's flag for a sysroot. With `--target` it reaches what is built for it, and not build scripts and macros.
fn sysroot_flag(libraries: &Path, host: &str, sysroot: Sysroot) -> Result<String> {
    let folder = make_sysroot(libraries, host, sysroot)?;
    Ok(format!("--sysroot={}", folder.display()))
}

fn host_target() -> Result<String> {
    let text = process::output(process::tool("rustc").arg("-vV"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("`rustc -vV` names no host")
}

fn library_folder(host: &str) -> Result<PathBuf> {
    let arguments = ["--print", "target-libdir", "--target", host];
    let text = process::output(process::tool("rustc").args(arguments))?;
    Ok(text.trim_end().into())
}

/// A fresh sysroot with copies of the wanted libraries.
fn make_sysroot(libraries: &Path, host: &str, sysroot: Sysroot) -> Result<PathBuf> {
    let (name, wanted): (_, &[&str]) = match sysroot {
        Sysroot::Core => ("core", &["libcore-", "libcompiler_builtins-"]),
        Sysroot::Alloc => ("alloc", &["libcore-", "libcompiler_builtins-", "liballoc-"]),
    };
    let root = workspace::target_dir().join("no-std-sysroot").join(name);
    let folder = root.join("lib/rustlib").join(host).join("lib");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot empty {}", root.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut copied = 0;
    for entry in fs::read_dir(libraries)? {
        let entry = entry?;
        let file = entry.file_name();
        let name = file.to_string_lossy();
        if wanted.iter().any(|start| name.starts_with(start)) {
            // Newer toolchains keep the metadata in a file beside each library.
            fs::copy(entry.path(), folder.join(&file))?;
            copied += usize::from(name.ends_with(".rlib"));
        }
    }
    if copied != wanted.len() {
        let place = libraries.display();
        bail!("{place} holds {copied} of the libraries {wanted:?}: is the toolchain complete?");
    }
    Ok(root)
}
