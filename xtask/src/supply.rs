//! What we depend on: every licence is one that we may pass on, no package is there twice without our knowing, and none needs a newer
//! compiler than we say. Also that every package of ours can be packed.
//!
//! cargo-deny does the first two as well, but has to be installed, and what it knows beyond that (advisories) needs a network. This
//! needs what cargo says, and nothing else.

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Licences under which a program may be passed on by naming authors and terms.
const LICENCES: [&str; 8] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unlicense",
    "Unicode-3.0",
];

/// Packages that are there in two versions, and why that is so.
const TWICE: [(&str, &str); 1] = [(
    "syn",
    "procedural macros of our dependencies are between two versions; nothing of it is in what we build",
)];

/// Looks at everything that is built into what we publish.
pub(crate) fn run() -> Result<()> {
    let text = process::output(process::cargo().args(["metadata", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    let packages = foreign(&metadata)?;
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let built = built(&metadata)?;
    for package in &packages {
        if let Err(problem) = check_licence(package.licence) {
            problems.push(format!("{} {}: {problem}", package.name, package.version));
        }
        if built.contains(package.id) {
            versions
                .entry(package.name)
                .or_default()
                .insert(package.version);
        }
    }
    versions.retain(|_, versions| versions.len() > 1);
    let known: BTreeSet<&str> = TWICE.iter().map(|(name, _)| *name).collect();
    for (name, versions) in &versions {
        if !known.contains(name) {
            problems.push(format!(
                "{name} is there in {versions:?}: say why in xtask/src/supply.rs, or have one"
            ));
        }
    }
    for name in known.iter().filter(|name| !versions.contains_key(*name)) {
        problems.push(format!(
            "{name} is not there twice any more: strike it in xtask/src/supply.rs"
        ));
    }
    let ours = our_compiler(&metadata)?;
    problems.extend(packages.iter().filter_map(|package| {
        let needed = package.compiler.and_then(compiler)?;
        let (name, version) = (package.name, package.version);
        (needed > ours).then(|| format!("{name} {version} needs Rust {}", shown(needed)))
    }));
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    console::line(format_args!(
        "supply: {} packages of others, {} of them built into ours, all with a licence that may be passed on; {} in two versions",
        packages.len(),
        built.len(),
        versions.len()
    ));
    let named = packages.iter().filter(|package| package.compiler.is_some());
    console::line(format_args!(
        "supply: Rust {} builds all {} that name a compiler; what of the standard library is newer, clippy finds",
        shown(ours),
        named.count()
    ));
    pack()
}

/// A version of the compiler, as two numbers.
type Compiler = (u32, u32);

fn compiler(text: &str) -> Option<Compiler> {
    let mut parts = text.split('.');
    let major = parts.next()?.parse().ok()?;
    Some((major, parts.next().unwrap_or("0").parse().ok()?))
}

fn shown((major, minor): Compiler) -> String {
    format!("{major}.{minor}")
}

/// The compiler that our packages say they need; all must say the same.
fn our_compiler(metadata: &Value) -> Result<Compiler> {
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut ours = packages
        .iter()
        .filter(|package| package["source"].is_null())
        .map(|package| package["rust_version"].as_str().and_then(compiler));
    let first = ours
        .next()
        .flatten()
        .context("a package of ours names no compiler")?;
    if ours.any(|other| other != Some(first)) {
        bail!("not all packages of ours name Rust {}", shown(first));
    }
    Ok(first)
}

/// A package that is not ours.
struct Package<'a> {
    id: &'a str,
    name: &'a str,
    version: &'a str,
    licence: Option<&'a str>,
    /// The oldest compiler that builds it, if it says so.
    compiler: Option<&'a str>,
}

fn foreign(metadata: &Value) -> Result<Vec<Package<'_>>> {
    let all = metadata["packages"].as_array().context("no packages")?;
    all.iter()
        .filter(|package| !package["source"].is_null())
        .map(|package| {
            let text = |field: &str| package[field].as_str();
            Ok(Package {
                id: text("id").context("a package without id")?,
                name: text("name").context("a package without name")?,
                version: text("version").context("a package without version")?,
                licence: text("license"),
                compiler: text("rust_version"),
            })
        })
        .collect()
}

/// The packages of others that normal dependencies of our published crates reach.
fn built(metadata: &Value) -> Result<BTreeSet<&str>> {
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .context("no resolution")?;
    let nodes: BTreeMap<&str, &Value> = nodes
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let packages = metadata["packages"].as_array().context("no packages")?;
    let ours = packages
        .iter()
        .filter(|package| package["source"].is_null() && package["publish"].is_null())
        .filter_map(|package| package["id"].as_str());
    let (mut left, mut seen): (Vec<&str>, BTreeSet<&str>) = (ours.collect(), BTreeSet::new());
    while let Some(id) = left.pop() {
        if !seen.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).and_then(|node| node["deps"].as_array());
        for dependency in dependencies.into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array();
            let is_normal = kinds
                .into_iter()
                .flatten()
                .any(|kind| kind["kind"].is_null());
            left.extend(dependency["pkg"].as_str().filter(|_| is_normal));
        }
    }
    let is_foreign = |id: &&str| {
        packages
            .iter()
            .any(|it| it["id"] == **id && !it["source"].is_null())
    };
    Ok(seen.into_iter().filter(is_foreign).collect())
}

fn check_licence(licence: Option<&str>) -> Result<(), String> {
    let text = licence.ok_or("it names no licence")?;
    let expression = spdx::Expression::parse_mode(text, spdx::ParseMode::LAX)
        .map_err(|error| format!("its licence `{text}` cannot be read: {}", error.reason))?;
    let allowed = |requirement: &spdx::LicenseReq| {
        requirement
            .license
            .id()
            .is_some_and(|id| LICENCES.contains(&id.name))
    };
    if expression.evaluate(allowed) {
        Ok(())
    } else {
        Err(format!(
            "its licence `{text}` is not among those that we pass on"
        ))
    }
}

/// Packs every crate that is published, as publishing would, without building it again.
fn pack() -> Result<()> {
    let mut command = process::cargo();
    command.args([
        "package",
        "--workspace",
        "--no-verify",
        "--allow-dirty",
        "--quiet",
    ]);
    let members = workspace::packages()?;
    let published = workspace::published()?;
    for name in members.keys().filter(|name| !published.contains(name)) {
        command.args(["--exclude", name]);
    }
    process::run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(licence: Option<&str>, expected: bool) {
        assert_eq!(check_licence(licence).is_ok(), expected, "{licence:?}");
    }

    #[test]
    fn compilers_are_compared_by_number() {
        assert_eq!(compiler("1.88"), Some((1, 88)));
        assert!(compiler("1.100.0") > compiler("1.88.0"));
        assert_eq!(compiler("new"), None);
    }

    #[test]
    fn one_licence_of_several_is_enough_and_all_of_a_list_are_needed() {
        check(Some("MIT OR Apache-2.0"), true);
        check(Some("MIT/Apache-2.0"), true);
        check(Some("GPL-3.0-only OR MIT"), true);
        check(Some("(MIT OR Apache-2.0) AND Unicode-3.0"), true);
        check(Some("Apache-2.0 WITH LLVM-exception OR MIT"), true);
        check(Some("MIT AND GPL-3.0-only"), false);
        check(Some("GPL-3.0-only"), false);
        check(Some("something"), false);
        check(None, false);
    }
}
