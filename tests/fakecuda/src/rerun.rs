//! Tests that need a process of their own, because the environment decides what the driver is.

use std::env;
use std::process::{Command, Output};

const MARK: &str = "FAKECUDA_RERUN";

/// Runs one test of the calling test binary alone in a new process, with these variables set.
///
/// # Panics
/// If the process cannot be started.
pub fn rerun(test: &str, variables: &[(&str, &str)]) -> Output {
    let binary = env::current_exe().expect("a running test has a binary");
    Command::new(binary)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(MARK, test)
        .envs(variables.iter().copied())
        .output()
        .expect("a test binary can be started again")
}

/// Whether the calling process was started by [`rerun`] for this test.
pub fn is_rerun(test: &str) -> bool {
    env::var(MARK).is_ok_and(|mark| mark == test)
}
