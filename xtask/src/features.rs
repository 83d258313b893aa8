//! Every crate with each combination of its features that matters.

use crate::workspace::{self, Package};
use crate::{console, process};
use anyhow::Result;

/// Checks each member: defaults, nothing, and each single feature.
pub(crate) fn run() -> Result<()> {
    let mut count = 0;
    for package in workspace::packages()?.values() {
        for arguments in combinations(package) {
            process::run_without_warnings(
                process::cargo().args(["check", "--quiet"]).args(&arguments),
            )?;
            count += 1;
        }
    }
    console::line(format_args!("features: {count} combinations build"));
    Ok(())
}

/// The arguments of each build of one package.
fn combinations(package: &Package) -> Vec<Vec<String>> {
    let select = ["-p".to_owned(), package.name.clone()];
    let mut builds = vec![select.to_vec()];
    if package.features.is_empty() {
        return builds;
    }
    for single in std::iter::once(None).chain(package.features.iter().map(Some)) {
        let mut arguments = select.to_vec();
        arguments.push("--no-default-features".into());
        arguments.extend(single.map(|feature| format!("--features={feature}")));
        builds.push(arguments);
    }
    builds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, features: &[&str], expected: &[&str]) {
        let features = features.iter().map(|&name| name.into()).collect();
        let package = Package {
            name: name.into(),
            manifest: "".into(),
            dependencies: vec![],
            features,
        };
        let builds: Vec<String> = combinations(&package)
            .iter()
            .map(|build| build[2..].join(" "))
            .collect();
        assert_eq!(builds, expected);
    }

    #[test]
    fn a_crate_without_features_is_built_once() {
        check("et-sim", &[], &[""]);
    }

    #[test]
    fn each_feature_is_built_alone() {
        let none = "--no-default-features";
        let alloc = "--no-default-features --features=alloc";
        let std = "--no-default-features --features=std";
        check("et-device", &["alloc", "std"], &["", none, alloc, std]);
    }
}
