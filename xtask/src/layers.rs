//! Crate edges go downwards only, and manifests inherit lints and versions.

use crate::console;
use crate::workspace::{self, Package};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Per crate, bottom to top: the crates of ours that its own code may name.
const LAYERS: &[(&str, &[&str])] = &[
    ("et-schema", &[]),
    ("et-device", &[]),
    ("et-sim", &["et-device"]),
    ("et-memory", &["et-device"]),
    ("et-kernel", &["et-memory", "et-device"]),
    ("et-cuda", &["et-kernel", "et-memory", "et-device"]),
    ("et-ops", &["et-kernel", "et-memory", "et-device"]),
    ("et-planner", &["et-schema", "et-device"]),
    (
        "et-module",
        &["et-schema", "et-kernel", "et-memory", "et-device"],
    ),
    ("et-cli", LIBRARIES),
    ("fakecuda", &[]),
    ("et-tests", TESTED),
    ("et-mutator", DAMAGED),
    ("et-benches", LIBRARIES),
    ("xtask", &[]),
];

const LIBRARIES: &[&str] = &[
    "et-schema",
    "et-device",
    "et-sim",
    "et-memory",
    "et-kernel",
    "et-cuda",
    "et-ops",
    "et-planner",
    "et-module",
];

/// What reads files of others.
const DAMAGED: &[&str] = &[
    "et-schema",
    "et-device",
    "et-sim",
    "et-memory",
    "et-kernel",
    "et-ops",
    "et-planner",
    "et-module",
    "et-cli",
];

const TESTED: &[&str] = &[
    "et-schema",
    "et-device",
    "et-sim",
    "et-memory",
    "et-kernel",
    "et-cuda",
    "et-ops",
    "et-planner",
    "et-module",
    "et-cli",
    "fakecuda",
];

/// What tests may name besides: stand-ins for devices, and operators for the crates that run programs.
const TEST_EDGES: &[(&str, &[&str])] = &[
    ("et-memory", &["et-sim"]),
    ("et-kernel", &["et-sim"]),
    ("et-cuda", &["et-sim", "fakecuda"]),
    ("et-ops", &["et-sim"]),
    ("et-planner", &["et-sim", "et-ops", "et-module"]),
    ("et-module", &["et-sim", "et-ops", "fakecuda", "et-cuda"]),
    ("et-cli", &["fakecuda"]),
    ("et-benches", &["fakecuda"]),
];

/// Checks every member and lists all violations.
pub(crate) fn run() -> Result<()> {
    let packages = workspace::packages()?;
    let mut problems = table_problems();
    for package in packages.values() {
        problems.extend(edge_problems(package));
        let text = std::fs::read_to_string(&package.manifest)
            .with_context(|| format!("cannot read {}", package.manifest.display()))?;
        problems.extend(manifest_problems(&package.name, &text)?);
    }
    for problem in &problems {
        console::problem(format_args!("layers: {problem}"));
    }
    if !problems.is_empty() {
        bail!("{} violations of the crate layers", problems.len());
    }
    console::line(format_args!(
        "layers: {} packages depend only downwards and inherit lints and versions",
        packages.len()
    ));
    Ok(())
}

/// The table itself may not contain an upward edge.
fn table_problems() -> Vec<String> {
    let mut problems = Vec::new();
    for (position, (name, below)) in LAYERS.iter().enumerate() {
        let lower: Vec<&str> = LAYERS[..position].iter().map(|(name, _)| *name).collect();
        for edge in below.iter().filter(|edge| !lower.contains(edge)) {
            problems.push(format!(
                "the table lets {name} depend on {edge}, which is not below it"
            ));
        }
    }
    problems
}

fn edge_problems(package: &Package) -> Vec<String> {
    let rows: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    let tests: BTreeMap<_, _> = TEST_EDGES.iter().copied().collect();
    let name = package.name.as_str();
    let Some(below) = rows.get(name) else {
        return vec![format!(
            "{name} is not in the table of layers: add it in xtask/src/layers.rs"
        )];
    };
    let for_tests = tests.get(name).copied().unwrap_or_default();
    let ours = |edge: &&str| rows.contains_key(edge);
    package
        .dependencies
        .iter()
        .map(|dependency| (dependency.name.as_str(), dependency.dev))
        .filter(|(edge, _)| ours(edge))
        .filter(|(edge, dev)| !(below.contains(edge) || *dev && for_tests.contains(edge)))
        .map(|(edge, dev)| {
            let kind = if dev { "test dependency" } else { "dependency" };
            format!("{name}: {kind} on {edge} does not go downwards")
        })
        .collect()
}

fn manifest_problems(name: &str, text: &str) -> Result<Vec<String>> {
    let manifest: Table = text
        .parse()
        .with_context(|| format!("the manifest of {name} is not TOML"))?;
    let mut problems = Vec::new();
    if !inherits(manifest.get("lints")) {
        problems.push(format!("{name}: `[lints] workspace = true` is missing"));
    }
    for section in dependency_sections(&manifest) {
        for (dependency, value) in section {
            if !inherits(Some(value)) {
                problems.push(format!(
                    "{name}: {dependency} does not say `workspace = true`"
                ));
            }
        }
    }
    Ok(problems)
}

/// The dependency tables of a manifest, those of single targets included.
fn dependency_sections(manifest: &Table) -> Vec<&Table> {
    let targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(|targets| targets.values().filter_map(Value::as_table));
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(|holder| {
            ["dependencies", "dev-dependencies", "build-dependencies"]
                .into_iter()
                .filter_map(|key| holder.get(key).and_then(Value::as_table))
        })
        .collect()
}

fn inherits(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")) == Some(&Value::Boolean(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, edges: &[(&str, bool)]) -> Package {
        let dependencies = edges
            .iter()
            .map(|&(name, dev)| Dependency {
                name: name.into(),
                dev,
            })
            .collect();
        Package {
            name: name.into(),
            manifest: "".into(),
            dependencies,
            features: vec![],
        }
    }

    #[track_caller]
    fn check(name: &str, edges: &[(&str, bool)], expected: usize) {
        assert_eq!(edge_problems(&package(name, edges)).len(), expected);
    }

    #[test]
    fn the_table_goes_downwards() {
        assert_eq!(table_problems(), Vec::<String>::new());
    }

    #[test]
    fn an_upward_edge_is_a_problem() {
        check("et-device", &[("et-memory", false)], 1);
    }

    #[test]
    fn a_downward_edge_and_a_foreign_crate_are_fine() {
        check("et-kernel", &[("et-memory", false), ("half", false)], 0);
    }

    #[test]
    fn the_simulator_is_for_tests_only_below_the_command() {
        check("et-memory", &[("et-sim", true)], 0);
        check("et-memory", &[("et-sim", false)], 1);
    }

    #[test]
    fn a_crate_outside_the_table_is_a_problem() {
        check("et-utils", &[], 1);
    }

    #[test]
    fn lints_and_versions_are_inherited() {
        let bad = "[dependencies]\nhalf = \"2\"\n[target.'cfg(unix)'.dependencies]\nlibc = \"1\"";
        assert_eq!(manifest_problems("x", bad).unwrap().len(), 3);
        let good = "[lints]\nworkspace = true\n[dependencies]\nhalf.workspace = true";
        assert_eq!(manifest_problems("x", good).unwrap().len(), 0);
    }
}
