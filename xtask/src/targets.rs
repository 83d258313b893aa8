//! Whether everything that is published compiles for other systems and processors.
//!
//! The standard library of a target comes from `rustup target add`; targets without it are told of and passed over. Nothing is linked,
//! so no C toolchain of the other system is needed.

use crate::{console, process, workspace};
use anyhow::{Result, bail};

/// Targets, and what differs there.
pub(crate) const TARGETS: [(&str, &str); 7] = [
    ("x86_64-pc-windows-msvc", "paths, files, names of libraries"),
    ("x86_64-pc-windows-gnu", "the same with another linker"),
    ("aarch64-apple-darwin", "files, other vector instructions"),
    ("aarch64-unknown-linux-gnu", "other vector instructions"),
    ("aarch64-linux-android", "phones"),
    ("i686-unknown-linux-gnu", "sizes of 32 bits"),
    (
        "armv7-unknown-linux-gnueabihf",
        "sizes of 32 bits, alignment",
    ),
];

/// Which of them.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fail for a target whose standard library is not installed
    #[arg(long)]
    all: bool,
    /// Only targets whose name contains this text
    #[arg(long, default_value = "", value_name = "TEXT")]
    filter: String,
}

impl Options {
    /// What is installed.
    pub(crate) fn installed() -> Self {
        Self {
            all: false,
            filter: String::new(),
        }
    }
}

/// Checks each target in turn; warnings count.
pub(crate) fn run(options: &Options) -> Result<()> {
    let (mut checked, mut missing) = (0, Vec::new());
    let wanted = TARGETS
        .iter()
        .filter(|(target, _)| target.contains(&options.filter));
    for (target, what) in wanted {
        if !is_installed(target) {
            missing.push(*target);
            continue;
        }
        console::line(format_args!("{target}: {what}"));
        check(target)?;
        checked += 1;
    }
    console::line(format_args!("targets: {checked} checked"));
    if missing.is_empty() {
        return Ok(());
    }
    let advice = format!(
        "not installed: {} (`rustup target add {}`)",
        missing.join(", "),
        missing.join(" ")
    );
    if options.all {
        bail!("{advice}");
    }
    console::line(format_args!("{advice}"));
    Ok(())
}

/// Whether the compiler has the target's standard library.
fn is_installed(target: &str) -> bool {
    let arguments = ["--print", "target-libdir", "--target", target];
    process::output(process::tool("rustc").args(arguments))
        .is_ok_and(|folder| std::path::Path::new(folder.trim_end()).is_dir())
}

fn check(target: &str) -> Result<()> {
    let mut command = process::cargo();
    command.args(["check", "--quiet", "--lib", "--bins", "--target", target]);
    for name in workspace::published()? {
        command.args(["-p", &name]);
    }
    process::run_without_warnings(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_none_is_not_installed() {
        assert!(!is_installed("x86_64-no-such-system"));
    }

    #[test]
    fn sizes_and_systems_differ() {
        for part in ["windows", "apple", "android", "i686", "aarch64"] {
            assert!(TARGETS.iter().any(|(target, _)| target.contains(part)));
        }
    }
}
