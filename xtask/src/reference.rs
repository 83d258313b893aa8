//! `cargo xtask reference`: the page on the command line, `docs/cli.md`, from what `et` says of itself, the picture of a plan, and the
//! list of the recorded programs, `tests/fixtures/README.md`, from what they say of themselves.

use crate::fixtures::case::{self, Case};
use crate::{console, fixtures, process, workspace};
use anyhow::{Context, Result, bail};
use std::path::Path;

const DOCUMENT: &str = "docs/cli.md";

const HEAD: &str = "\
# The `et` command

What `et --help` and `et COMMAND --help` say, and [the form of `--calls`](#documents-of-calls). `cargo xtask reference` writes this page, and
`cargo xtask ci` sees that it is current. `cargo install --path crates/et-cli`, in the repository's root, installs the command.

Human output is aligned tables on stdout. With `--json` a command prints one JSON document and nothing else there; every document has `format` and
`version`, and on failure an `error` with a stable `id` and a `message`. Progress and diagnostics go to stderr. `-` reads a file from standard input.
";

/// The form of the documents that `et run --calls` reads, told beside the code that reads them.
const CALLS: &str = "crates/et-cli/src/calls.md";

const FIXTURES: &str = "tests/fixtures/README.md";

const FIXTURES_HEAD: &str = "\
# Recorded programs

Programs that ExecuTorch's exporter wrote, and what its C++ runtime made of them. Each folder has `model.pte`, data files where the program takes
some, the inputs and outputs of every call as `.npy` files, and `meta.json`, which says what was recorded, from what and how; it is a document for
`et run --calls` too ([docs/cli.md](../../docs/cli.md#documents-of-calls)). `program.json` is the FlatBuffer as `et inspect --program` prints it.

`cargo xtask fixtures` runs them all. `cargo xtask reference` writes this page from the `meta.json` files, and `cargo xtask ci` sees that it is
current.

| folder | calls | what it is |
|---|---|---|
";

/// The picture of a plan that the pages show, and the program that it is of.
const PICTURE: &str = "docs/images/plan.svg";
const PLANNED: &str = "tests/fixtures/dev_two_cross/model.pte";

/// Writes the pages and the picture, or, with `check`, fails if they are not what `et` and the programs say.
pub(crate) fn run(check: bool) -> Result<()> {
    let et = process::executable(&["-p", "et-cli", "--bin", "et"])?;
    let calls = workspace::root().join(CALLS);
    let calls = std::fs::read_to_string(&calls)
        .with_context(|| format!("cannot read {}", calls.display()))?;
    let text = document(|arguments| help(&et, arguments), &calls)?;
    keep(DOCUMENT, &text, check)?;
    keep(PICTURE, &picture(&et)?, check)?;
    let cases = case::find(&fixtures::bundled_dir(), "")?;
    keep(FIXTURES, &index(&cases)?, check)
}

/// Writes a file that is not what it should be, or fails.
fn keep(file: &str, text: &str, check: bool) -> Result<()> {
    let path = workspace::root().join(file);
    if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    if check {
        bail!("{file} is not current (run `cargo xtask reference`)");
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

/// The list of recorded programs.
fn index(cases: &[Case]) -> Result<String> {
    let mut text = FIXTURES_HEAD.to_owned();
    for case in cases {
        let (name, calls) = (&case.name, case.runs().len());
        let told = case.meta["description"].as_str();
        let told = told.with_context(|| format!("{name}: meta.json has no `description`"))?;
        let told = told.replace('|', "\\|");
        text += &format!("| [{name}]({name}) | {calls} | {told} |\n");
    }
    Ok(text)
}

/// The page for commands whose help is what `help` gives; `None` stands for that of `et` itself. `calls` tells of their documents.
fn document(help: impl Fn(Option<&str>) -> Result<String>, calls: &str) -> Result<String> {
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
    text += &format!("\n## Documents of calls\n\n{}\n", calls.trim());
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
        let text = document(fake, "\nThey are JSON.\n").unwrap();
        let end =
            "## et one\n\n```text\nUsage: et one\n```\n\n## Documents of calls\n\nThey are JSON.\n";
        assert!(text.ends_with(end), "{text}");
        assert!(!text.contains("## et help"));
    }

    #[test]
    fn each_recorded_program_says_what_it_is() {
        let mut case = Case {
            name: "add".into(),
            dir: "add".into(),
            data: vec![],
            meta: serde_json::json!({"runs": [{}, {}], "description": "a | b"}),
        };
        let text = index(std::slice::from_ref(&case)).unwrap();
        assert!(text.ends_with("| [add](add) | 2 | a \\| b |\n"), "{text}");
        case.meta = serde_json::json!({});
        assert!(index(&[case]).is_err());
    }

    #[test]
    fn an_overview_without_commands_is_an_error() {
        assert!(document(|_| Ok("Usage: et\n".to_owned()), "").is_err());
    }
}
