//! Small programs without `std`, linked and run: a library that builds may still not link.

use super::Sysroot;
use crate::{process, workspace};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A program, and the packages it uses with their features.
pub(super) struct Program {
    name: &'static str,
    pub(super) sysroot: Sysroot,
    packages: &'static [(&'static str, &'static [&'static str])],
    main: &'static str,
}

/// One with nothing but `core`, one with `alloc`.
pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "without-alloc",
        sysroot: Sysroot::Core,
        packages: &[("et-device", &[])],
        main: include_str!("../../no-std/device.rs"),
    },
    Program {
        name: "with-alloc",
        sysroot: Sysroot::Alloc,
        packages: &[
            ("et-device", &["alloc"]),
            ("et-memory", &[]),
            ("et-schema", &[]),
        ],
        main: include_str!("../../no-std/program.rs"),
    },
];

const SYSTEM: &str = include_str!("../../no-std/system.rs");

impl Program {
    /// Builds the program for `host` with the compiler's own flags in `flags`, and runs it.
    pub(super) fn run(&self, host: &str, flags: &str) -> Result<()> {
        let folder = self.generate()?;
        let mut command = process::cargo();
        command.args(["run", "--quiet", "--manifest-path"]);
        command.arg(folder.join("Cargo.toml"));
        command.args(["--target", host, "--target-dir"]);
        command.arg(workspace::target_dir().join("no-std"));
        process::run(command.env("CARGO_ENCODED_RUSTFLAGS", flags))
    }

    /// Writes the package and returns its folder.
    fn generate(&self) -> Result<PathBuf> {
        let folder = workspace::target_dir()
            .join("no-std-programs")
            .join(self.name);
        let source = folder.join("src");
        fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
        fs::write(folder.join("Cargo.toml"), self.manifest(workspace::root()))?;
        fs::write(source.join("main.rs"), self.main)?;
        fs::write(source.join("system.rs"), SYSTEM)?;
        let beside = [
            ("tests/fixtures/add/model.pte", "model.pte"),
            // The same versions as here.
            ("Cargo.lock", "Cargo.lock"),
        ];
        for (from, to) in beside {
            let from = workspace::root().join(from);
            fs::copy(&from, folder.join(to))
                .with_context(|| format!("cannot copy {}", from.display()))?;
        }
        Ok(folder)
    }

    fn manifest(&self, root: &Path) -> String {
        let mut text = format!(
            "[package]\nname = \"{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
             [workspace]\n\n\
             [profile.dev]\npanic = \"abort\"\n\n\
             [dependencies]\n",
            self.name
        );
        for (package, features) in self.packages {
            let path = root.join("crates").join(package);
            text += &format!(
                "{package} = {{ path = {path:?}, default-features = false, features = {features:?} }}\n"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_asks_for_std() {
        for program in PROGRAMS {
            let manifest: toml::Table = program.manifest(Path::new("/r")).parse().unwrap();
            let dependencies = manifest["dependencies"].as_table().unwrap();
            assert_eq!(dependencies.len(), program.packages.len());
            for dependency in dependencies.values() {
                assert_eq!(dependency["default-features"].as_bool(), Some(false));
            }
            assert_eq!(manifest["profile"]["dev"]["panic"].as_str(), Some("abort"));
            assert!(program.main.contains("#![no_std]"));
        }
    }
}
