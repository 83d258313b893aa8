//! The checklist of a release, as far as a machine can go through it.

use crate::{
    console, layers, operators, process, reference, schema, targets, unsafe_code, workspace,
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Leave out what builds: packages from their packed form, documentation, other targets
    #[arg(long)]
    quick: bool,
}

/// A line of the list: what must be so, whether it takes a build, and how it is found out.
type Item = (&'static str, bool, fn() -> Result<()>);

const ITEMS: [Item; 11] = [
    ("one version everywhere", false, one_version),
    ("the changelog has the version", false, changelog),
    ("nothing is uncommitted", false, clean_tree),
    ("manifests say everything", false, manifests),
    ("packages hold licences and readme", false, contents),
    ("layers hold", false, layers::run),
    ("unsafe counts are current", false, unsafe_counts),
    ("tables and generated code are current", true, tables),
    ("documentation builds without warnings", true, documentation),
    ("packages build from what is packed", true, packages),
    ("other targets compile", true, other_targets),
];

/// Goes through the whole list; an error if a line failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let wanted = |item: &&Item| !(options.quick && item.1);
    let mut lines = Vec::new();
    let mut failed = 0;
    for (name, _, check) in ITEMS.iter().filter(wanted) {
        lines.push(match check() {
            Ok(()) => format!("ok      {name}"),
            Err(error) => {
                failed += 1;
                format!("failed  {name}: {error:#}")
            }
        });
    }
    console::line(format_args!("\n{}", lines.join("\n")));
    console::line(format_args!(
        "to publish, in this order: {}",
        order()?.join(", ")
    ));
    console::line(format_args!(
        "not in this list: `cargo xtask ci`, `device`, `interop`, `bench --peer`, `fuzz`; see CONTRIBUTING.md"
    ));
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of {} lines failed", lines.len()),
    }
}

/// The version of the workspace.
fn version(manifest: &toml::Table) -> Result<&str> {
    manifest["workspace"]["package"]["version"]
        .as_str()
        .context("the workspace has no version")
}

fn manifest() -> Result<toml::Table> {
    let text = read("Cargo.toml")?;
    text.parse().context("Cargo.toml cannot be read")
}

fn read(file: &str) -> Result<String> {
    let path = workspace::root().join(file);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn one_version() -> Result<()> {
    let manifest = manifest()?;
    let wanted = version(&manifest)?;
    let dependencies = &manifest["workspace"]["dependencies"];
    for name in workspace::published()? {
        let Some(dependency) = dependencies.get(&name) else {
            // The one that nothing depends on.
            continue;
        };
        match dependency.get("version").and_then(toml::Value::as_str) {
            Some(found) if found == wanted => {}
            found => bail!("{name} is asked for as {found:?}, the workspace is {wanted}"),
        }
    }
    Ok(())
}

fn changelog() -> Result<()> {
    let manifest = manifest()?;
    has_section(&read("CHANGELOG.md")?, version(&manifest)?)
}

fn has_section(changelog: &str, version: &str) -> Result<()> {
    let mut heads = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    match heads.next() {
        Some(head) if head.split_whitespace().next() == Some(version) => Ok(()),
        head => bail!("the first section is {head:?}, not {version}"),
    }
}

fn clean_tree() -> Result<()> {
    let changed = process::output(process::tool("git").args(["status", "--porcelain"]))?;
    match changed.lines().next() {
        None => Ok(()),
        Some(first) => bail!("{first}"),
    }
}

/// What a manifest must say besides what cargo asks for.
const FIELDS: [&str; 6] = [
    "description",
    "license",
    "readme",
    "repository",
    "rust_version",
    "edition",
];

fn manifests() -> Result<()> {
    let metadata =
        process::output(process::cargo().args(["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let published = workspace::published()?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut missing = BTreeSet::new();
    for package in packages {
        if published.iter().any(|name| package["name"] == **name) {
            missing.extend(missing_fields(package));
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => bail!("some lack {}", Vec::from_iter(missing).join(", ")),
    }
}

fn missing_fields(package: &Value) -> Vec<&'static str> {
    let is_absent = |field: &str| package[field].as_str().is_none_or(str::is_empty);
    let lists = ["keywords", "categories"];
    let is_empty = |field: &str| package[field].as_array().is_none_or(Vec::is_empty);
    let absent = FIELDS.into_iter().filter(|field| is_absent(field));
    absent
        .chain(lists.into_iter().filter(|field| is_empty(field)))
        .collect()
}

/// Files that every package holds.
const FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

fn contents() -> Result<()> {
    for name in workspace::published()? {
        let arguments = ["package", "--list", "--allow-dirty", "--quiet", "-p", &name];
        let list = process::output(process::cargo().args(arguments))?;
        let listed: BTreeSet<&str> = list.lines().collect();
        if let Some(file) = FILES.iter().find(|file| !listed.contains(**file)) {
            bail!("the package of {name} has no {file}");
        }
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let copy = Path::new("crates").join(&name).join(licence);
            // A checkout without links has the name of the file in its place.
            if read(&copy.to_string_lossy())? != read(licence)? {
                bail!("{} is not the text of {licence}", copy.display());
            }
        }
    }
    Ok(())
}

fn unsafe_counts() -> Result<()> {
    unsafe_code::run(&unsafe_code::Options::check())
}

fn tables() -> Result<()> {
    schema::run(true)?;
    operators::run(true)?;
    reference::run(true)
}

fn documentation() -> Result<()> {
    let mut command = process::cargo();
    command.args(["doc", "--no-deps", "--all-features", "--quiet"]);
    for name in workspace::published()? {
        command.args(["-p", &name]);
    }
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn packages() -> Result<()> {
    let mut command = process::cargo();
    command.args(["package", "--allow-dirty", "--quiet"]);
    for name in workspace::published()? {
        command.args(["-p", &name]);
    }
    process::run(&mut command)
}

fn other_targets() -> Result<()> {
    targets::run(&targets::Options::installed())
}

/// Each package behind those that it depends on.
fn order() -> Result<Vec<String>> {
    let packages = workspace::packages()?;
    let mut left = workspace::published()?;
    let mut order: Vec<String> = Vec::new();
    while !left.is_empty() {
        let is_ready = |name: &String| {
            // What only tests need is looked up too.
            let mut needed = packages[name].dependencies.iter();
            !needed.any(|dependency| left.contains(&dependency.name))
        };
        let Some(next) = left.iter().position(is_ready) else {
            bail!("{} depend on each other", left.join(", "));
        };
        order.push(left.remove(next));
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_section_is_that_of_the_version() {
        assert!(has_section("# Changelog\n\n## 0.2.0 (today)\n\n## 0.1.0\n", "0.2.0").is_ok());
        assert!(has_section("# Changelog\n\n## Unreleased\n\n## 0.2.0\n", "0.2.0").is_err());
        assert!(has_section("", "0.2.0").is_err());
    }

    #[test]
    fn missing_metadata_is_named() {
        let mut package = json!({
            "description": "x", "license": "MIT", "readme": "README.md", "repository": null,
            "rust_version": "1.88", "edition": "2024", "keywords": [], "categories": ["science"],
        });
        assert_eq!(missing_fields(&package), ["repository", "keywords"]);
        package["repository"] = "x".into();
        package["keywords"] = json!(["x"]);
        assert!(missing_fields(&package).is_empty());
    }

    #[test]
    fn packages_come_behind_what_they_need() {
        let order = order().unwrap();
        let place = |name: &str| order.iter().position(|it| it == name).unwrap();
        assert!(place("et-device") < place("et-memory"));
        assert!(place("et-memory") < place("et-kernel"));
        assert_eq!(order.last().map(String::as_str), Some("et-cli"));
    }

    #[test]
    fn our_own_manifests_agree_on_the_version() {
        one_version().unwrap();
    }
}
