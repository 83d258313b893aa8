//! Everything that must be green before a merge, with a table of what took how long.

use crate::fixtures::memcheck;
use crate::process::{cargo, run as show_and_run, works};
use crate::{
    console, consumers, device, features, fixtures, fuzz, layers, nostd, operators, reference,
    schema, supply, unsafe_code,
};
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// All of it by default
    #[arg(value_enum, default_value = "full")]
    scope: Scope,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scope {
    /// Every step
    Full,
    /// Format, layers, unsafe code, clippy, unit tests
    Quick,
}

/// Runs the steps in order up to the first that fails, then prints the table.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut log = StepLog::default();
    let outcome = match options.scope {
        Scope::Quick => quick(&mut log),
        Scope::Full => full(&mut log),
    };
    console::line(format_args!("\n{}", log.table()));
    outcome
}

fn quick(log: &mut StepLog) -> Result<()> {
    log.step("format", format)?;
    log.step("layers", layers::run)?;
    log.step("unsafe", unsafe_counts)?;
    log.step("clippy", clippy)?;
    log.step("unit tests", || tests(&["--lib", "--bins"]))
}

fn full(log: &mut StepLog) -> Result<()> {
    log.step("format", format)?;
    log.step("layers", layers::run)?;
    log.step("unsafe", unsafe_counts)?;
    log.step("supply", supply::run)?;
    log.step("schema", || schema::run(true))?;
    log.step("clippy", clippy)?;
    log.step("build", || {
        show_and_run(cargo().args(["build", "--workspace", "--all-targets"]))
    })?;
    log.step("operators", || operators::run(true))?;
    log.step("reference", || reference::run(true))?;
    log.step("tests", || tests(&[]))?;
    log.step("doc tests", || {
        show_and_run(cargo().args(["test", "--workspace", "--doc"]))
    })?;
    log.step("docs", docs)?;
    log.step("no-std", nostd::run)?;
    log.step("features", features::run)?;
    log.step("consumers", || {
        consumers::run(&consumers::Options::default())
    })?;
    log.step("device", || device::run(&device::Options::on_the_fake()))?;
    log.step("fixtures", || fixtures::run(&fixtures::Options::bundled()))?;
    log.step("valgrind", valgrind)?;
    log.step("mutants", || fuzz::run(&fuzz::Options::short()))
}

/// Where it is missing nothing is run, and that is said.
fn valgrind() -> Result<()> {
    if memcheck::is_there() {
        return memcheck::run(&memcheck::Options::short());
    }
    console::line(format_args!(
        "skipped: valgrind is not installed (`apt-get install valgrind`)"
    ));
    Ok(())
}

fn format() -> Result<()> {
    let mut command = cargo();
    command.args(["fmt", "--all", "--check"]);
    // It colours what goes to a file too.
    if !std::io::stdout().is_terminal() {
        command.args(["--", "--color", "never"]);
    }
    show_and_run(&mut command)
}

fn unsafe_counts() -> Result<()> {
    unsafe_code::run(&unsafe_code::Options::check())
}

fn clippy() -> Result<()> {
    let arguments = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    show_and_run(cargo().args(arguments))
}

/// Tests with nextest where it is installed, else with cargo's own runner.
fn tests(kinds: &[&str]) -> Result<()> {
    let mut command = cargo();
    if works(cargo().args(["nextest", "--version"])) {
        command.args(["nextest", "run", "--workspace"]);
    } else {
        console::line(format_args!(
            "cargo-nextest is not installed (`cargo install cargo-nextest --locked`): using `cargo test`"
        ));
        command.args(["test", "--workspace"]);
        if kinds.is_empty() {
            // Doc tests are a step of their own, and benches were built: run unoptimised they say nothing.
            command.args(["--lib", "--bins", "--tests", "--examples"]);
        }
    }
    show_and_run(command.args(kinds))
}

fn docs() -> Result<()> {
    let arguments = ["doc", "--workspace", "--no-deps"];
    show_and_run(cargo().args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// What ran, how it ended, how long it took.
#[derive(Default)]
struct StepLog {
    rows: Vec<(&'static str, bool, Duration)>,
}

impl StepLog {
    /// Runs one step; its failure names it.
    fn step(&mut self, name: &'static str, action: impl FnOnce() -> Result<()>) -> Result<()> {
        console::line(format_args!("\n== {name}"));
        let start = Instant::now();
        let outcome = action();
        self.rows.push((name, outcome.is_ok(), start.elapsed()));
        outcome.with_context(|| format!("step `{name}` failed"))
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.set_header(["step", "result", "seconds"]);
        for (name, passed, time) in &self.rows {
            let result = if *passed { "ok" } else { "FAILED" };
            table.add_row([*name, result, &format!("{:.1}", time.as_secs_f64())]);
        }
        if let Some(column) = table.column_mut(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        console::plain(&mut table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_is_named_and_stops_the_rest() {
        let mut log = StepLog::default();
        let outcome = log
            .step("first", || Ok(()))
            .and_then(|()| log.step("second", || anyhow::bail!("broken")));
        assert_eq!(
            format!("{:#}", outcome.unwrap_err()),
            "step `second` failed: broken"
        );
        let table = log.table();
        assert!(
            table.contains("first") && table.contains("FAILED"),
            "{table}"
        );
    }
}
