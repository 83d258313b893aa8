//! Test binaries of et-cuda, and whether what they say shows anything.

use crate::console;
use anyhow::{Context, Result};
use std::fmt;
use std::path::Path;
use std::process::Command;

/// What tests on a machine's own driver may leave out, each with the reason. On the fake driver all of them run.
pub(super) const MAY_SKIP: [(&str, &str); 2] = [
    ("one device only", "a copy between devices takes two"),
    ("no pools on this device", "there is nothing to trim"),
];
/// What became of a test binary.
pub(super) struct Tests {
    ok: bool,
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Lines by which tests tell what they left out.
    skipped: Vec<String>,
}

impl Tests {
    pub(super) fn run(binary: &Path, driver: &str) -> Result<Self> {
        let output = Command::new(binary)
            .arg("--nocapture")
            .env("FAKECUDA_DRIVER", driver)
            .output()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut tests = Self::read(&text);
        tests.ok &= output.status.success();
        if !tests.ok {
            console::problem(format_args!(
                "{text}{}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        Ok(tests)
    }

    fn read(text: &str) -> Self {
        let count = |what: &str| -> Option<u64> {
            let result = text
                .lines()
                .find(|line| line.starts_with("test result: "))?;
            let before = result.split_once(what)?.0;
            before
                .rsplit([' ', '.', ';'])
                .find(|word| !word.is_empty())?
                .parse()
                .ok()
        };
        let skipped = text
            .lines()
            .filter_map(|line| Some(line.split_once("skipped: ")?.1.into()));
        Self {
            ok: text.contains("test result: ok."),
            passed: count(" passed").unwrap_or(0),
            failed: count(" failed").unwrap_or(0),
            ignored: count(" ignored").unwrap_or(0),
            skipped: skipped.collect(),
        }
    }

    /// Why this does not show that the allocator works, if it does not.
    pub(super) fn problem(&self, may_skip: &[(&str, &str)]) -> Option<String> {
        let allowed = |reason: &str| may_skip.iter().any(|(allowed, _)| *allowed == reason);
        if !self.ok {
            return Some("tests fail".into());
        }
        if self.passed == 0 {
            return Some("no test ran".into());
        }
        if self.ignored > 0 {
            return Some(format!("{} tests were ignored", self.ignored));
        }
        let unlisted = self.skipped.iter().find(|reason| !allowed(reason));
        unlisted
            .map(|reason| format!("a test was skipped for a reason that is not listed: {reason}"))
    }
}

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
            ..
        } = self;
        write!(
            f,
            "{passed} passed, {failed} failed, {} skipped",
            skipped.len()
        )?;
        skipped
            .iter()
            .try_for_each(|reason| write!(f, " ({reason})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_tests_are_counted() {
        let text = "test a ... skipped: one device only\nok\n\
                    test result: ok. 23 passed; 0 failed; 0 ignored; 0 measured\n";
        let tests = Tests::read(text);
        assert_eq!(
            tests.to_string(),
            "23 passed, 0 failed, 1 skipped (one device only)"
        );
        assert!(tests.ok);
        let tests = Tests::read("test result: FAILED. 2 passed; 31 failed; 0 ignored\n");
        assert_eq!((tests.ok, tests.passed, tests.failed), (false, 2, 31));
        assert!(!Tests::read("").ok);
    }

    #[track_caller]
    fn check_problem(text: &str, expected: Option<&str>) {
        let problem = Tests::read(text).problem(&MAY_SKIP);
        assert_eq!(problem.as_deref(), expected, "{text}");
    }

    #[test]
    fn only_tests_that_ran_and_passed_show_something() {
        let ok = "test result: ok. 23 passed; 0 failed; 0 ignored; 0 measured\n";
        let skipped = |reason: &str| format!("test a ... skipped: {reason}\nok\n{ok}");
        check_problem(ok, None);
        MAY_SKIP
            .iter()
            .for_each(|(reason, _)| check_problem(&skipped(reason), None));
        let unlisted = "a test was skipped for a reason that is not listed: no time";
        check_problem(&skipped("no time"), Some(unlisted));
        check_problem("", Some("tests fail"));
        let failed = "test result: FAILED. 2 passed; 31 failed; 0 ignored\n";
        check_problem(failed, Some("tests fail"));
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured\n";
        check_problem(none, Some("no test ran"));
        let ignored = "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured\n";
        check_problem(ignored, Some("2 tests were ignored"));
        let reasons = Tests::read(&skipped("one device only")).problem(&[]);
        assert!(reasons.is_some(), "the fake driver has several devices");
    }
}
