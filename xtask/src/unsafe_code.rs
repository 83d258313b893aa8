//! The inventory of unsafe code: where it is, how much, and what each place says for itself.

use crate::{console, workspace};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The committed counts.
const LEDGER: &str = "xtask/unsafe.txt";

/// What to do with the counts.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fail where a file has more or less unsafe code than the committed counts say
    #[arg(long)]
    check: bool,
    /// Write the counts of today
    #[arg(long, conflicts_with = "check")]
    write: bool,
}

impl Options {
    /// Fail where the counts differ.
    pub(crate) fn check() -> Self {
        Self {
            check: true,
            write: false,
        }
    }
}

/// Lists all unsafe code, or compares its amount with the committed counts.
pub(crate) fn run(options: &Options) -> Result<()> {
    let inventory = inventory()?;
    let counts = ledger(&inventory);
    let file = workspace::root().join(LEDGER);
    if options.write {
        fs::write(&file, &counts).with_context(|| format!("cannot write {LEDGER}"))?;
    } else if options.check {
        let committed =
            fs::read_to_string(&file).with_context(|| format!("cannot read {LEDGER}"))?;
        return compare(&committed, &counts);
    } else {
        list(&inventory);
    }
    let total: usize = inventory.values().map(Vec::len).sum();
    console::line(format_args!(
        "unsafe: {total} places in {} files",
        inventory.len()
    ));
    Ok(())
}

/// A use of the word `unsafe` in code.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    line: usize,
    kind: Kind,
    /// The first line of its `SAFETY` comment or `# Safety` section.
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Block,
    Function,
    Implementation,
    Trait,
    Other,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Function => "fn",
            Self::Implementation => "impl",
            Self::Trait => "trait",
            Self::Other => "other",
        }
    }
}

impl Kind {
    /// What to say where no reason is given: a method's contract stands at its trait.
    fn without_reason(self) -> &'static str {
        match self {
            Self::Function | Self::Trait | Self::Other => "-",
            Self::Block | Self::Implementation => "NO REASON GIVEN",
        }
    }
}

/// All unsafe code of the workspace by file, generated code left out.
fn inventory() -> Result<BTreeMap<String, Vec<Place>>> {
    let mut files = Vec::new();
    for folder in ["crates", "tests", "benches", "xtask"] {
        source_files(&workspace::root().join(folder), &mut files)?;
    }
    let mut inventory = BTreeMap::new();
    for file in files {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let places = places(&text);
        if !places.is_empty() {
            let name = file.strip_prefix(workspace::root()).unwrap_or(&file);
            inventory.insert(name.display().to_string(), places);
        }
    }
    Ok(inventory)
}

fn source_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "generated" && name != "target" {
            source_files(&path, files)?;
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The unsafe code of one file.
fn places(text: &str) -> Vec<Place> {
    let code = without_comments_and_texts(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut places = Vec::new();
    for (start, _) in code.match_indices("unsafe") {
        if !is_word(&code, start, "unsafe".len()) {
            continue;
        }
        if is_function_type(&code[start..]) {
            continue;
        }
        let line = code[..start].matches('\n').count();
        let kind = kind(&code[start + "unsafe".len()..]);
        places.push(Place {
            line: line + 1,
            kind,
            reason: reason(&lines, line),
        });
    }
    places
}

fn is_word(code: &str, start: usize, length: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !code[..start].ends_with(part) && !code[start + length..].starts_with(part)
}

/// Whether this is the type of a function, which says nothing that needs a reason.
fn is_function_type(code: &str) -> bool {
    let head = code.split_once('(').map_or(code, |(head, _)| head);
    let mut words = head.split_whitespace();
    words.next_back() == Some("fn") && words.all(|word| word == "unsafe" || word == "extern")
}

fn kind(rest: &str) -> Kind {
    let rest = rest.trim_start();
    let word = |word: &str| {
        rest.strip_prefix(word)
            .is_some_and(|r| !r.starts_with(char::is_alphanumeric))
    };
    match () {
        () if rest.starts_with('{') => Kind::Block,
        () if word("fn") || word("extern") => Kind::Function,
        () if word("impl") => Kind::Implementation,
        () if word("trait") => Kind::Trait,
        () => Kind::Other,
    }
}

/// The first line of the reason given in the comments directly above a line.
fn reason(lines: &[&str], line: usize) -> Option<String> {
    lines[..=line.min(lines.len().saturating_sub(1))]
        .iter()
        .rev()
        .take(40)
        .take_while(|text| !text.trim().is_empty())
        .find_map(|text| {
            let at = text.find("SAFETY:")?;
            Some(text[at + "SAFETY:".len()..].trim().to_owned())
        })
        .or_else(|| documented(lines, line))
}

/// The first line of the `# Safety` section above an item.
fn documented(lines: &[&str], line: usize) -> Option<String> {
    let above = lines[..line].iter().rposition(|text| {
        let text = text.trim();
        !(text.starts_with("///") || text.starts_with("#[") || text.is_empty())
    });
    let docs = &lines[above.map_or(0, |above| above + 1)..line];
    let start = docs.iter().position(|text| text.contains("# Safety"))?;
    docs.get(start + 1)
        .map(|text| text.trim().trim_start_matches("///").trim().to_owned())
}

/// The code with every comment, string and character replaced by spaces, line breaks kept.
fn without_comments_and_texts(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let length = skipped(text, at);
        let blank = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
        if length == 0 {
            code.push(bytes[at]);
            at += 1;
        } else {
            let end = (at + length).min(bytes.len());
            code.extend(bytes[at..end].iter().map(blank));
            at = end;
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// Bytes of the comment or text that starts at a position; 0 if none does.
fn skipped(text: &str, at: usize) -> usize {
    let rest = &text.as_bytes()[at..];
    let until = |from: usize, end: &[u8]| {
        let found = rest[from..]
            .windows(end.len())
            .position(|window| window == end);
        found.map_or(rest.len(), |found| from + found + end.len())
    };
    match rest {
        [b'/', b'/', ..] => until(0, b"\n") - 1,
        [b'/', b'*', ..] => until(2, b"*/"),
        [b'r', b'"' | b'#', ..] if at == 0 || !is_name_byte(text.as_bytes()[at - 1]) => {
            raw_text(rest)
        }
        [b'"', ..] => quoted(rest, b'"'),
        // A character, and not a lifetime.
        [b'\'', b'\\', ..] | [b'\'', _, b'\'', ..] => quoted(rest, b'\''),
        _ => 0,
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn raw_text(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let mut end = vec![b'"'];
    end.extend(std::iter::repeat_n(b'#', hashes));
    let start = 2 + hashes;
    let found = rest[start..]
        .windows(end.len())
        .position(|window| window == end);
    found.map_or(rest.len(), |found| start + found + end.len())
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn list(inventory: &BTreeMap<String, Vec<Place>>) {
    for (file, places) in inventory {
        console::line(format_args!("{file}"));
        for place in places {
            let reason = place
                .reason
                .as_deref()
                .unwrap_or(place.kind.without_reason());
            console::line(format_args!(
                "  {:>5} {:5} {reason}",
                place.line,
                place.kind.word()
            ));
        }
    }
}

/// The counts, one line per file.
fn ledger(inventory: &BTreeMap<String, Vec<Place>>) -> String {
    let mut text = String::new();
    for (file, places) in inventory {
        let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
        for place in places {
            *counts.entry(place.kind).or_default() += 1;
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(kind, count)| format!("{} {}", count, kind.word()))
            .collect();
        text.push_str(&format!("{file}: {}\n", counts.join(", ")));
    }
    text
}

fn compare(committed: &str, found: &str) -> Result<()> {
    if committed == found {
        console::line(format_args!("unsafe: as committed in {LEDGER}"));
        return Ok(());
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (committed.lines().collect(), found.lines().collect());
    for line in old.iter().filter(|line| !new.contains(line)) {
        console::problem(format_args!("- {line}"));
    }
    for line in new.iter().filter(|line| !old.contains(line)) {
        console::problem(format_args!("+ {line}"));
    }
    bail!("the unsafe code differs from {LEDGER}: look at it, then `cargo xtask unsafe --write`");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, Kind, Option<&str>)]) {
        let found = places(text);
        let found: Vec<_> = found
            .iter()
            .map(|place| (place.line, place.kind, place.reason.as_deref()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn blocks_carry_their_comment() {
        let text = "fn f() {\n    // SAFETY: it is.\n    let x = unsafe { g() };\n}\n";
        check(text, &[(3, Kind::Block, Some("it is."))]);
    }

    #[test]
    fn functions_carry_their_section() {
        let text =
            "/// Does.\n///\n/// # Safety\n/// Be careful.\n#[inline]\npub unsafe fn f() {}\n";
        check(text, &[(6, Kind::Function, Some("Be careful."))]);
    }

    #[test]
    fn implementations_and_traits_are_told_apart() {
        check(
            "unsafe impl Send for X {}",
            &[(1, Kind::Implementation, None)],
        );
        check("unsafe trait X {}", &[(1, Kind::Trait, None)]);
        check(
            "unsafe extern \"C\" fn x() {}",
            &[(1, Kind::Function, None)],
        );
    }

    #[test]
    fn types_of_functions_do_not_count() {
        check("type F = unsafe extern \"C\" fn(u32) -> u32;", &[]);
        check("type F = Option<unsafe fn(u32)>;", &[]);
    }

    #[test]
    fn the_word_elsewhere_does_not_count() {
        let quote = '"';
        check("// unsafe { }\n/* unsafe fn */\n", &[]);
        check(
            &format!("let x = {quote}unsafe {{ \\{quote} unsafe{quote};"),
            &[],
        );
        check(
            &format!("let x = r#{quote}unsafe {{ {quote} }}{quote}#;"),
            &[],
        );
        check("#![deny(unsafe_op_in_unsafe_fn)] fn is_unsafe() {}", &[]);
    }

    #[test]
    fn lifetimes_and_characters_do_not_confuse() {
        check(
            "fn f<'a>(x: &'a str) { let q = '\"'; unsafe { g() } }",
            &[(1, Kind::Block, None)],
        );
        check("let q = '\\''; unsafe { g() }", &[(1, Kind::Block, None)]);
    }

    #[test]
    fn a_difference_is_an_error() {
        assert!(compare("a: 1 block\n", "a: 1 block\n").is_ok());
        assert!(compare("a: 1 block\n", "a: 2 block\n").is_err());
    }
}
