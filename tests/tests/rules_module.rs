//! The table of rules in `docs/rules-module.md` names tests that exist, and leaves out no rule.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How many rules there are of each kind, numbered from 1, in the order of the table.
const RULES: [(&str, u32); 25] = [
    ("R-TI", 8),
    ("R-RSZ", 8),
    ("R-TD", 6),
    ("R-TL", 1),
    ("R-PROG", 22),
    ("R-VAL", 5),
    ("R-TP", 23),
    ("R-META", 12),
    ("R-INIT", 14),
    ("R-INP", 11),
    ("R-OUT", 4),
    ("R-ATT", 1),
    ("R-EXE", 6),
    ("R-STEP", 5),
    ("R-INS", 6),
    ("R-BE", 1),
    ("R-DEL", 9),
    ("R-OPT", 4),
    ("R-KRN", 8),
    ("R-COPY", 6),
    ("R-MOD", 14),
    ("R-TPTR", 8),
    ("R-LDR", 5),
    ("R-NDM", 4),
    ("R-PTD", 3),
];
/// The places where we do better.
const BETTER: [u32; 43] = [
    1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 28, 29, 30, 31, 32, 33, 34, 35,
    36, 37, 38, 40, 41, 42, 43, 47, 48, 49, 50, 51, 52, 53, 54, 56, 57, 60,
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The rules with what is said of their tests.
fn rows() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("docs/rules-module.md")).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("| R-") || line.starts_with("| B-"));
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(columns.len(), 5, "not three columns: {line}");
        (columns[1].to_owned(), columns[3].to_owned())
    };
    lines.map(row).collect()
}

/// The names between backticks that can be those of tests.
fn tests(here: &str) -> Vec<&str> {
    let is_test = |name: &&str| {
        name.contains('_')
            && name
                .bytes()
                .all(|b| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    here.split('`').skip(1).step_by(2).filter(is_test).collect()
}

/// The names of all functions in the sources.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![root().join("crates"), root().join("tests/tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let after = text.split("fn ").skip(1);
                names.extend(after.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
            }
        }
    }
    names
}

#[test]
fn every_rule_is_in_the_table_once_and_in_order() {
    let numbered = RULES
        .iter()
        .flat_map(|(kind, count)| (1..=*count).map(move |n| format!("{kind}-{n:02}")));
    let better = BETTER.iter().map(|n| format!("B-{n:02}"));
    let expected: Vec<String> = numbered.chain(better).collect();
    let found: Vec<String> = rows().into_iter().map(|(rule, _)| rule).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_rule_has_tests_or_a_reason() {
    for (rule, here) in rows() {
        let without = here.starts_with("no meaning: ");
        assert_eq!(without, tests(&here).is_empty(), "{rule}: {here}");
    }
}

#[test]
fn every_named_test_exists() {
    let functions = functions();
    for (rule, here) in rows() {
        for test in tests(&here) {
            assert!(functions.contains(test), "{rule}: there is no {test}");
        }
    }
}
