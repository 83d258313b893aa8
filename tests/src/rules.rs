//! Tables of rules in `docs`, and whether they say the truth.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A table of rules: which there are, and the tests that each row names.
pub struct Rules {
    /// The file's name in `docs`.
    pub file: &'static str,
    /// How many rules there are of each kind, numbered from 1, in the order of the table.
    pub kinds: &'static [(&'static str, u32)],
    /// The places where we do better, in order.
    pub better: &'static [u32],
    /// Folders with the tests.
    pub sources: &'static [&'static str],
    /// Whether a rule that is neither superseded nor without meaning has a test of its name.
    pub tests_are_named_after_rules: bool,
}

/// One row: the rule, and what is said of its tests.
struct Row {
    rule: String,
    here: String,
}

impl Row {
    /// The names between backticks that can be those of tests.
    fn tests(&self) -> Vec<&str> {
        let of_test = |b: u8| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit();
        let quoted = self.here.split('`').skip(1).step_by(2);
        quoted
            .filter(|name| name.contains('_') && name.bytes().all(of_test))
            .collect()
    }

    /// Whether it has tests, or says why it has none, but not both.
    fn is_answered(&self, named: bool) -> bool {
        let prefix = self.rule.to_lowercase().replace('-', "_") + "_";
        let tests = self.tests();
        let after_rule = tests.iter().any(|test| test.starts_with(&prefix));
        let superseded = self.here.contains("superseded");
        let tested = !tests.is_empty() && (!named || after_rule || superseded);
        self.here.starts_with("no meaning: ") != tested
    }
}

impl Rules {
    fn rows(&self) -> Vec<Row> {
        let path = root().join("docs").join(self.file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let is_rule = |line: &&str| line.starts_with("| R-") || line.starts_with("| B-");
        let row = |line: &str| {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, rule, _, here, _] = columns[..] else {
                panic!("not three columns: {line}")
            };
            Row {
                rule: rule.to_owned(),
                here: here.to_owned(),
            }
        };
        text.lines().filter(is_rule).map(row).collect()
    }

    /// # Panics
    /// If a rule is missing, twice there, or out of order.
    pub fn expect_all_in_order(&self) {
        let numbered = self
            .kinds
            .iter()
            .flat_map(|(kind, count)| (1..=*count).map(move |n| format!("{kind}-{n:02}")));
        let better = self.better.iter().map(|n| format!("B-{n:02}"));
        let expected: Vec<String> = numbered.chain(better).collect();
        let found: Vec<String> = self.rows().into_iter().map(|row| row.rule).collect();
        assert_eq!(found, expected, "{}", self.file);
    }

    /// # Panics
    /// If a rule has neither tests nor a reason, or both.
    pub fn expect_tests_or_reasons(&self) {
        for row in self.rows() {
            let answered = row.is_answered(self.tests_are_named_after_rules);
            assert!(answered, "{}: {}", row.rule, row.here);
        }
    }

    /// # Panics
    /// If a test that a row names does not exist.
    pub fn expect_named_tests_exist(&self) {
        let functions = functions(self.sources);
        for row in self.rows() {
            for test in row.tests() {
                assert!(functions.contains(test), "{}: there is no {test}", row.rule);
            }
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of all functions in the folders.
fn functions(folders: &[&str]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file is text");
                let after = text.split("fn ").skip(1);
                names.extend(after.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(here: &str, expected: bool) {
        let row = Row {
            rule: "R-DA-01".into(),
            here: here.into(),
        };
        assert_eq!(row.is_answered(true), expected, "{here}");
    }

    #[test]
    fn a_rule_has_tests_or_a_reason() {
        check("`r_da_01_it_is_so`", true);
        check("`r_da_02_it_is_so`", false);
        check("superseded by B-02: `b_02_it_is_better`", true);
        check("superseded by B-02", false);
        check("no meaning: it cannot be said", true);
        check("no meaning: it cannot be said, `r_da_01_it_is_so`", false);
        check("", false);
    }
}
