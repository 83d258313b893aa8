//! What cargo says about this workspace.

use crate::process;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The repository root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("invariant: xtask is a folder of the repository")
}

/// The folder for what our commands generate: cargo's target folder.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A member of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its name, which is its folder's name too.
    pub(crate) name: String,
    /// Its `Cargo.toml`.
    pub(crate) manifest: PathBuf,
    /// What it depends on, ours and foreign.
    pub(crate) dependencies: Vec<Dependency>,
    /// Its features, without `default`.
    pub(crate) features: Vec<String>,
}

/// One dependency of a member.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// The package depended on.
    pub(crate) name: String,
    /// For tests only.
    pub(crate) dev: bool,
}

/// All members, by name.
pub(crate) fn packages() -> Result<BTreeMap<String, Package>> {
    let text =
        process::output(process::cargo().args(["metadata", "--no-deps", "--format-version=1"]))?;
    parse_metadata(&text)
}

/// The members that are published: those in `crates`.
pub(crate) fn published() -> Result<Vec<String>> {
    let names = packages()?.into_keys();
    Ok(names
        .filter(|name| root().join("crates").join(name).is_dir())
        .collect())
}

fn parse_metadata(text: &str) -> Result<BTreeMap<String, Package>> {
    let metadata: Value = serde_json::from_str(text).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has no packages")?;
    packages
        .iter()
        .map(|package| parse_package(package).map(|package| (package.name.clone(), package)))
        .collect()
}

fn parse_package(package: &Value) -> Result<Package> {
    let text = |field: &str| {
        package[field]
            .as_str()
            .with_context(|| format!("a package without {field}"))
    };
    let dependencies = package["dependencies"]
        .as_array()
        .context("a package without dependencies")?
        .iter()
        .map(parse_dependency)
        .collect::<Result<_>>()?;
    let features = package["features"]
        .as_object()
        .context("a package without features")?
        .keys()
        .filter(|name| *name != "default")
        .cloned()
        .collect();
    Ok(Package {
        name: text("name")?.to_owned(),
        manifest: text("manifest_path")?.into(),
        dependencies,
        features,
    })
}

fn parse_dependency(dependency: &Value) -> Result<Dependency> {
    let name = dependency["name"]
        .as_str()
        .context("a dependency without name")?;
    Ok(Dependency {
        name: name.to_owned(),
        dev: dependency["kind"] == "dev",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_gives_dependencies_and_features() {
        let text = r#"{"packages": [{"name": "a", "manifest_path": "/r/a/Cargo.toml",
            "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}],
            "features": {"default": ["std"], "std": []}}]}"#;
        let packages = parse_metadata(text).unwrap();
        let a = &packages["a"];
        assert_eq!(a.features, ["std"]);
        let dev: Vec<bool> = a.dependencies.iter().map(|d| d.dev).collect();
        assert_eq!(dev, [false, true]);
    }
}
