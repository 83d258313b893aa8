//! Commands that are shown before they run, and tools that may be missing.

use crate::{console, workspace};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The cargo that runs us, in the repository root.
pub(crate) fn cargo() -> Command {
    tool(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
}

/// A program found on the path, in the repository root.
pub(crate) fn tool(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace::root());
    command
}

/// Prints the command and runs it; a non-zero status is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    console::line(format_args!("$ {shown}"));
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// As [`run`]; a warning on stderr is an error too.
pub(crate) fn run_without_warnings(command: &mut Command) -> Result<()> {
    let shown = show(command);
    console::line(format_args!("$ {shown}"));
    let output = command
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let warned = stderr.lines().any(|line| line.starts_with("warning"));
    if warned || !output.status.success() {
        console::problem(format_args!("{stderr}"));
    }
    match output.status.success() {
        true if warned => bail!("`{shown}` warns"),
        true => Ok(()),
        false => bail!("`{shown}` failed: {}", output.status),
    }
}

/// Prints the command, runs it and returns what it wrote to stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed invalid UTF-8"))
}

/// Builds the one binary or example that these arguments of `cargo build` name, and returns where cargo put it.
pub(crate) fn executable(target: &[&str]) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--message-format=json"]);
    let shown = target.join(" ");
    let messages =
        output(command.args(target)).with_context(|| format!("cannot build `{shown}`"))?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo built `{shown}` and did not say where it is"))
}

/// Whether the command starts and succeeds, without showing its output.
pub(crate) fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as one would type it, with the variables that were set for it.
fn show(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let Some(value) = value else {
            // One that was taken away.
            continue;
        };
        let value = value.to_string_lossy();
        words.push(format!("{}='{value}'", name.to_string_lossy()));
    }
    let program = std::path::Path::new(command.get_program());
    words.push(
        program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    );
    words.extend(
        command
            .get_args()
            .map(|word| quote(&word.to_string_lossy())),
    );
    words.join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{word}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_spaces_are_quoted() {
        let mut command = Command::new("/usr/bin/cargo");
        command
            .args(["test", "a b"])
            .env("RUSTFLAGS", "-D warnings");
        assert_eq!(show(&command), "RUSTFLAGS='-D warnings' cargo test 'a b'");
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = run(Command::new("false").arg("x")).unwrap_err();
        assert!(error.to_string().contains("false x"), "{error}");
    }

    #[test]
    fn a_warning_can_be_an_error() {
        let shell = |script: &str| run_without_warnings(Command::new("sh").args(["-c", script]));
        assert!(shell("true").is_ok());
        assert!(shell("echo 'warning: unused' >&2").is_err());
        assert!(shell("exit 1").is_err());
    }

    #[test]
    fn a_missing_program_does_not_work() {
        assert!(!works(&mut Command::new("no-such-program-at-all")));
    }
}
