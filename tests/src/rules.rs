//! Tables of rules in `docs`, and whether they say the truth.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A table of rules, and the tests that its rows name.
pub struct Rules {
    /// The file's name in `docs`.
    pub file: &'static str,
    /// All rules, in the order of the table.
    pub rules: Vec<String>,
    /// Folders with the tests.
    pub sources: &'static [&'static str],
    /// How the names of a rule's own tests begin; `None` if they are named as they like.
    pub prefix: Option<fn(&str) -> String>,
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

    /// Whether it has tests, or says why it has none, but not both. Tests are named after the rule unless they are those of what takes
    /// its place.
    fn is_answered(&self, prefix: Option<fn(&str) -> String>) -> bool {
        let tests = self.tests();
        let reasons = ["no meaning: ", "not offered: "];
        if reasons.iter().any(|reason| self.here.starts_with(reason)) {
            return tests.is_empty();
        }
        let elsewhere = self.here.contains("superseded") || self.here.starts_with("see ");
        match prefix {
            Some(prefix) if !elsewhere => {
                let prefix = prefix(&self.rule);
                tests.iter().any(|test| test.starts_with(&prefix))
            }
            _ => !tests.is_empty(),
        }
    }
}

impl Rules {
    /// Fails the test unless the table has every rule once and in order, each with tests that exist, or with a reason why not.
    ///
    /// # Panics
    /// If it has not.
    pub fn check(&self) {
        let rows = self.rows();
        let found: Vec<&str> = rows.iter().map(|row| row.rule.as_str()).collect();
        assert_eq!(found, self.rules, "{}", self.file);
        let tests = tests(self.sources);
        for row in &rows {
            let (rule, here) = (&row.rule, &row.here);
            assert!(row.is_answered(self.prefix), "{rule}: {here}");
            for test in row.tests() {
                assert!(tests.contains(test), "{rule}: there is no {test}");
            }
        }
    }

    /// The rows of all tables in the file whose last column is headed `here`.
    fn rows(&self) -> Vec<Row> {
        let path = root().join("docs").join(self.file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let lines = text
            .lines()
            .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
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
        lines.map(row).filter(|row| row.here != "here").collect()
    }
}

/// The numbers of the rules of one kind, as tables write them: `R-DA-01` and so on.
pub fn numbered(kind: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    let numbers = numbers.into_iter();
    numbers
        .map(|number| format!("{kind}-{number:02}"))
        .collect()
}

/// How tests of `R-DA-01` begin: `r_da_01_`.
pub fn after_the_rule(rule: &str) -> String {
    rule.to_lowercase().replace('-', "_") + "_"
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of all tests in the folders.
fn tests(folders: &[&str]) -> BTreeSet<String> {
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
                names.extend(tests_in(&text));
            }
        }
    }
    names
}

/// The names of the functions behind `#[test]`, those in `proptest!` with them, and of the checks that the suite for allocators makes
/// tests of.
fn tests_in(text: &str) -> impl Iterator<Item = String> {
    let behind = |marker| text.split(marker).skip(1);
    let checks = behind("pub fn ").filter(|rest| {
        let arguments = rest.split_once('(').map(|(_, arguments)| arguments);
        arguments.is_some_and(|it| {
            it.trim_start()
                .starts_with("allocator: &dyn DeviceAllocator")
        })
    });
    let name_of = |rest: &str| Some(rest.split_once('(')?.0.to_owned());
    let checks = checks.filter_map(name_of);
    let marked = behind("#[test]").filter(|rest| !rest.trim_start().starts_with("#[ignore"));
    let name = |rest: &str| Some(rest.split_once("fn ")?.1.split_once('(')?.0.to_owned());
    marked.filter_map(name).chain(checks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_are_tests() {
        let text = "fn helper() {}\n#[test]\nfn one() {}\n#[test]\n#[ignore]\nfn two() {}\n\
            #[test]\n#[should_panic]\nfn three() {}";
        let names: Vec<String> = tests_in(text).collect();
        assert_eq!(names, ["one", "three"]);
    }

    #[track_caller]
    fn check(here: &str, expected: bool) {
        let row = Row {
            rule: "R-DA-01".into(),
            here: here.into(),
        };
        assert_eq!(row.is_answered(Some(after_the_rule)), expected, "{here}");
    }

    #[test]
    fn a_rule_has_tests_or_a_reason() {
        check("`r_da_01_it_is_so`", true);
        check("`r_da_02_it_is_so`", false);
        check("superseded by B-02: `b_02_it_is_better`", true);
        check("superseded by B-02", false);
        check("see `r_da_02_it_is_so`", true);
        check("no meaning: it cannot be said", true);
        check("no meaning: it cannot be said, `r_da_01_it_is_so`", false);
        check("", false);
    }
}
