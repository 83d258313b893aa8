//! Opens, loads, runs and drops programs 10,000 times, and says what memory there was before and after.

use crate::process;
use anyhow::Result;

/// Runs the test that does it, in full and with its figures.
pub(crate) fn run() -> Result<()> {
    let mut command = process::cargo();
    command.args(["test", "--package", "et-tests", "--test", "soak"]);
    command.args(["--", "--nocapture"]);
    process::run(command.env("ET_TESTS_FULL", "1"))
}
