//! One small outside crate per package: what a user of that package alone would write.
//!
//! The crates are generated into the target folder, each a workspace of its own, and run, with the default
//! features of the package and without them. So an item that is missing from the public interface, or a
//! feature that only a sibling turns on, shows here.

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A package and a program that uses its main types.
struct Consumer {
    package: &'static str,
    /// Packages of ours whose types its interface shows.
    beside: &'static [&'static str],
    /// Features needed when the default ones are off.
    features: &'static [&'static str],
    main: &'static str,
}

/// The program of a package, from the folder of consumers.
macro_rules! consumer {
    ($package:literal, beside $beside:expr) => {
        consumer!($package, beside $beside, features &[])
    };
    ($package:literal, beside $beside:expr, features $features:expr) => {
        Consumer {
            package: $package,
            beside: $beside,
            features: $features,
            main: include_str!(concat!("../consumers/", $package, ".rs")),
        }
    };
}

const CONSUMERS: &[Consumer] = &[
    consumer!("et-schema", beside & []),
    consumer!("et-device", beside & []),
    consumer!("et-sim", beside & ["et-device"]),
    consumer!("et-memory", beside & ["et-device"]),
    consumer!("et-kernel", beside & []),
    consumer!("et-ops", beside & ["et-kernel"]),
    consumer!("et-planner", beside & []),
    consumer!("et-module", beside & ["et-kernel", "et-device"]),
    consumer!("et-cuda", beside & ["et-device"]),
];

/// Packages that nobody depends on.
const PROGRAMS: &[&str] = &[
    "et-cli",
    "et-tests",
    "et-mutator",
    "et-benches",
    "fakecuda",
    "xtask",
];

/// Which consumers.
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Only that of this package
    package: Option<String>,
}

/// Builds and runs each consumer twice.
pub(crate) fn run(options: &Options) -> Result<()> {
    let wanted = |name: &str| {
        options
            .package
            .as_deref()
            .is_none_or(|package| package == name)
    };
    for name in workspace::packages()?.keys().filter(|name| wanted(name)) {
        let known = CONSUMERS.iter().any(|consumer| consumer.package == name);
        if !known && !PROGRAMS.contains(&name.as_str()) {
            bail!("{name} has no consumer: add xtask/consumers/{name}.rs");
        }
    }
    for consumer in CONSUMERS.iter().filter(|consumer| wanted(consumer.package)) {
        for defaults in [true, false] {
            let folder = generate(consumer, defaults)?;
            let mut command = process::cargo();
            command
                .args(["run", "--quiet", "--manifest-path"])
                .arg(folder.join("Cargo.toml"));
            command.arg("--target-dir").arg(base().join("target"));
            process::run(&mut command)?;
        }
    }
    console::line(format_args!("consumers: usable alone"));
    Ok(())
}

fn base() -> PathBuf {
    workspace::target_dir().join("consumers")
}

/// Writes the crate and returns its folder.
fn generate(consumer: &Consumer, defaults: bool) -> Result<PathBuf> {
    let suffix = if defaults { "" } else { "-bare" };
    let folder = base().join(format!("{}{suffix}", consumer.package));
    let source = folder.join("src");
    fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
    let manifest = manifest(consumer, defaults, workspace::root());
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(source.join("main.rs"), consumer.main)?;
    // The same versions as here: nothing is downloaded, and a difference is never the cause of a failure.
    fs::copy(
        workspace::root().join("Cargo.lock"),
        folder.join("Cargo.lock"),
    )?;
    Ok(folder)
}

fn manifest(consumer: &Consumer, defaults: bool, root: &Path) -> String {
    let entry = |package: &str, features: &[&str]| {
        let path = root.join("crates").join(package);
        format!(
            "{package} = {{ path = {path:?}, default-features = {defaults}, features = {features:?} }}\n"
        )
    };
    let own = if defaults { &[] } else { consumer.features };
    let mut dependencies = entry(consumer.package, own);
    for package in consumer.beside {
        dependencies.push_str(&entry(package, &[]));
    }
    let name = format!("consumer-of-{}", consumer.package);
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
         [workspace]\n\n[dependencies]\n{dependencies}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_path_and_features() {
        let consumer = Consumer {
            package: "et-cuda",
            beside: &["et-device"],
            features: &["cuda-13000"],
            main: "",
        };
        let bare: toml::Table = manifest(&consumer, false, Path::new("/r")).parse().unwrap();
        let dependency = &bare["dependencies"]["et-cuda"];
        assert_eq!(dependency["path"].as_str(), Some("/r/crates/et-cuda"));
        assert_eq!(dependency["default-features"].as_bool(), Some(false));
        assert_eq!(dependency["features"][0].as_str(), Some("cuda-13000"));
        assert!(bare["dependencies"].get("et-device").is_some());
        let full: toml::Table = manifest(&consumer, true, Path::new("/r")).parse().unwrap();
        assert_eq!(
            full["dependencies"]["et-cuda"]["features"]
                .as_array()
                .unwrap()
                .len(),
            0
        );
    }
}
