//! The table of rules in `docs/rules-memory.md` names tests that exist, and leaves out no rule.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How many rules there are of each kind, numbered from 1.
const RULES: [(&str, u32); 7] = [
    ("R-DEV", 7),
    ("R-DA", 3),
    ("R-REG", 8),
    ("R-DMB", 9),
    ("R-MA", 10),
    ("R-HA", 7),
    ("R-MM", 6),
];
/// The places where we do better.
const BETTER: [u32; 16] = [4, 5, 7, 20, 21, 22, 23, 24, 25, 26, 27, 39, 42, 44, 58, 59];
/// Where the tests are.
const SOURCES: [&str; 4] = [
    "crates/et-device",
    "crates/et-memory",
    "crates/et-sim",
    "tests/tests",
];

/// One row: the rule, and what is said of its tests.
struct Row {
    rule: String,
    here: String,
}

impl Row {
    /// The names between backticks.
    fn tests(&self) -> impl Iterator<Item = &str> {
        self.here.split('`').skip(1).step_by(2)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("docs/rules-memory.md")).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("| R-") || line.starts_with("| B-"));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, rule, _, here, _] = columns[..] else {
                panic!("not three columns: {line}")
            };
            Row {
                rule: rule.to_owned(),
                here: here.to_owned(),
            }
        })
        .collect()
}

/// The names of all functions in the sources.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> = SOURCES.map(|folder| root().join(folder)).into();
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
    let found: Vec<String> = rows().into_iter().map(|row| row.rule).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_rule_has_tests_or_a_reason() {
    for row in rows() {
        let without = row.here.starts_with("no meaning: ");
        let rule = row.rule.to_lowercase().replace('-', "_") + "_";
        let better = row.here.contains("superseded");
        let named = row.tests().any(|test| test.starts_with(&rule));
        let tested = named || (better && row.tests().count() > 0);
        assert!(without != tested, "{}: {}", row.rule, row.here);
    }
}

#[test]
fn every_named_test_exists() {
    let functions = functions();
    for row in rows() {
        for test in row.tests() {
            assert!(functions.contains(test), "{}: there is no {test}", row.rule);
        }
    }
}
