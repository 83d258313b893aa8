//! `cargo xtask reference`: the page on the command line, `docs/cli.md`, from what `et` says of itself, and the picture of a plan.

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use std::path::Path;

const DOCUMENT: &str = "docs/cli.md";

const HEAD: &str = "\
# The `et` command

What `et --help` and `et COMMAND --help` say. `cargo xtask reference` writes this page from them, and `cargo xtask ci` sees that it is current.

Human output is aligned tables on stdout. With `--json` a command prints one JSON document and nothing else there; every document has `format` and
`version`, and on failure an `error` with a stable `id` and a `message`. Progress and diagnostics go to stderr. `-` reads a file from standard input.
";

/// The picture of a plan that the pages show, and the program that it is of.
const PICTURE: &str = "docs/images/plan.svg";
const PLANNED: &str = "tests/fixtures/dev_two_cross/model.pte";

/// Writes the page and the picture, or, with `check`, fails if they are not what `et` says and draws.
pub(crate) fn run(check: bool) -> Result<()> {
    let et = process::executable(&["-p", "et-cli", "--bin", "et"])?;
    let text = document(|arguments| help(&et, arguments))?;
    keep(DOCUMENT, &text, check)?;
    keep(PICTURE, &picture(&et)?, check)
}

/// Writes a file that is not what it should be, or fails.
fn keep(file: &str, text: &str, check: bool) -> Result<()> {
    let path = workspace::root().join(file);
    if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    if check {
        bail!("{file} is not what `et` makes of it (run `cargo xtask reference`)");
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    console::line(format_args!("wrote {file}"));
    Ok(())
}

fn picture(et: &Path) -> Result<String> {
    let folder = tempfile::tempdir().context("cannot make a scratch folder")?;
    let file = folder.path().join("plan.svg");
    let mut command = process::tool(&et.to_string_lossy());
    process::output(command.args(["inspect", PLANNED, "--svg"]).arg(&file))?;
    std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

fn help(et: &Path, command: Option<&str>) -> Result<String> {
    let mut program = process::tool(&et.to_string_lossy());
    process::output(program.args(command).arg("--help"))
}

/// The page for commands whose help is what `help` gives; `None` stands for that of `et` itself.
fn document(help: impl Fn(Option<&str>) -> Result<String>) -> Result<String> {
    let overview = help(None)?;
    let commands = commands(&overview);
    if commands.is_empty() {
        bail!("`et --help` lists no commands");
    }
    let mut text = format!("{HEAD}\n{}", block(&overview));
    for command in commands {
        let own = help(Some(command))?;
        text += &format!("\n## et {command}\n\n{}", block(&own));
    }
    Ok(text)
}

/// The names below `Commands:`, but for `help`, which prints what is here.
fn commands(overview: &str) -> Vec<&str> {
    overview
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

fn block(help: &str) -> String {
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERVIEW: &str =
        "Does things\n\nCommands:\n  one   The first\n  help  Print this\n\nOptions:\n  -h\n";

    fn fake(command: Option<&str>) -> Result<String> {
        Ok(match command {
            None => OVERVIEW.to_owned(),
            Some(name) => format!("Usage: et {name}  \n"),
        })
    }

    #[test]
    fn commands_are_those_that_are_listed() {
        assert_eq!(commands(OVERVIEW), ["one"]);
    }

    #[test]
    fn each_command_has_a_section() {
        let text = document(fake).unwrap();
        assert!(
            text.ends_with("## et one\n\n```text\nUsage: et one\n```\n"),
            "{text}"
        );
        assert!(!text.contains("## et help"));
    }

    #[test]
    fn an_overview_without_commands_is_an_error() {
        assert!(document(|_| Ok("Usage: et\n".to_owned())).is_err());
    }
}
