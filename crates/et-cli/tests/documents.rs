//! What the README and the pages show of `et` is what it prints.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "all of this is tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How commands are written: with an `et` that is installed, and with one that cargo builds first.
const PREFIXES: [&str; 2] = ["et ", "cargo run --release -p et-cli -- "];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of a page that show commands.
fn consoles(text: &str) -> Vec<&str> {
    let blocks = text.split("```console\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

/// Commands, each with what the page says that it prints.
fn commands(block: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        let is_first = line.strip_prefix("$ ");
        let words = is_first.unwrap_or(line);
        let (words, more) = match words.strip_suffix('\\') {
            Some(words) => (words, true),
            None => (words, false),
        };
        match commands.last_mut() {
            _ if is_first.is_some() => commands.push((words.to_owned(), String::new())),
            Some((command, _)) if goes_on => *command += words.trim_start(),
            Some((_, output)) => *output += &format!("{line}\n"),
            None => panic!("a block that begins without a command: {block}"),
        }
        goes_on = (is_first.is_some() || goes_on) && more;
    }
    commands
}

fn run(command: &str, folder: &Path) -> Option<Output> {
    let arguments = PREFIXES.iter().find_map(|it| command.strip_prefix(it))?;
    let output = Command::new(env!("CARGO_BIN_EXE_et"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output();
    Some(output.unwrap())
}

#[test]
fn pages_show_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("tests"), folder.path().join("tests")).unwrap();
    let pages = std::fs::read_dir(root().join("docs")).unwrap();
    let mut pages: Vec<PathBuf> = pages.map(|page| page.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    let mut seen = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for (command, expected) in consoles(&text).into_iter().flat_map(commands) {
            let Some(output) = run(&command, folder.path()) else {
                continue;
            };
            let name = page.file_name().unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{name:?}: {command}");
            // A page may leave out the end.
            assert!(
                stdout.starts_with(expected.trim_end()),
                "{name:?}: {command}\n{stdout}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 5, "{seen} commands");
}

#[test]
fn a_command_may_take_several_lines() {
    let block = "$ et run a \\\n    --simulate\noutputs\n\nmore\n$ et ops\n";
    let expected = [
        (
            "et run a --simulate".to_owned(),
            "outputs\n\nmore\n".to_owned(),
        ),
        ("et ops".to_owned(), String::new()),
    ];
    assert_eq!(commands(block), expected);
}
