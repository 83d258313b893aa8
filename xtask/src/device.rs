//! The CUDA allocator on this machine's GPU: conformance, the driver's answers beside the fake driver's, and speeds.

mod fidelity;
mod suite;

use crate::{console, process};
use anyhow::{Context, Result, bail};
use comfy_table::Table;
use fidelity::{compare, not_compared};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use suite::{MAY_SKIP, Tests};

/// The exit status of `cargo xtask device`, and of the examples that it runs, on a machine without a GPU.
pub(crate) const NO_DEVICE: u8 = 3;

/// The test binaries of et-cuda that run on any driver.
const SUITES: [&str; 2] = ["conformance", "suite"];
/// What the hardware gives, in the names of measurements, and what takes its place in ours.
const BARE: [(&str, &str); 2] = [
    ("bare call on pinned", "pinned"),
    ("allocate and free, bare, no pool", "allocate and free"),
];

/// Which driver.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run on the fake driver, which then is compared with nothing
    #[arg(long)]
    fake: bool,
    /// Leave out the measurements
    #[arg(long)]
    no_bench: bool,
}

impl Options {
    /// What every machine can run.
    pub(crate) fn on_the_fake() -> Self {
        Self {
            fake: true,
            no_bench: true,
        }
    }
}

/// There is no GPU to run on.
#[derive(Debug)]
pub(crate) struct NoDevice(String);

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no GPU to run on: {}", self.0)
    }
}

impl std::error::Error for NoDevice {}

/// Runs everything and prints tables; an error if a test fails, or [`NoDevice`].
pub(crate) fn run(options: &Options) -> Result<()> {
    let begin = Instant::now();
    let fidelity = process::executable(&["-p", "et-cuda", "--example", "fidelity"])?;
    let real = (!options.fake).then(|| ask(&mut Command::new(&fidelity)));
    // Without a device nothing more is built.
    let real = real.transpose()?;
    let programs = Programs::build(options)?;
    let fake = ask(Command::new(&fidelity).env("ET_CUDA_DRIVER", &programs.fake))?;
    let built = begin.elapsed();

    let mut problems = Vec::new();
    let (driver, may_skip) = match options.fake {
        true => ("fake", &[][..]),
        false => ("real", &MAY_SKIP[..]),
    };
    for (suite, binary) in SUITES.iter().zip(&programs.suites) {
        let tests = Tests::run(binary, driver)?;
        console::line(format_args!("{suite}: {tests}"));
        problems.extend(
            tests
                .problem(may_skip)
                .map(|what| format!("{suite}: {what}")),
        );
    }
    problems.extend(match &real {
        Some(real) => compare(real, &fake),
        None => not_compared(&fake),
    });
    if let Some(bench) = &programs.bench {
        let mut bench = Command::new(bench);
        if options.fake {
            bench.env("ET_CUDA_DRIVER", &programs.fake);
        }
        speeds(&ask(&mut bench)?);
        if options.fake {
            console::line(format_args!(
                "(the fake driver's: they say nothing of a GPU)"
            ));
        }
    }
    let (all, run) = (begin.elapsed(), begin.elapsed() - built);
    console::line(format_args!(
        "{:.0} s, {:.0} s of them after building",
        all.as_secs_f64(),
        run.as_secs_f64()
    ));
    match problems[..] {
        [] => Ok(()),
        _ => bail!("{}", problems.join("; ")),
    }
}

/// What is built beside the program that asks.
struct Programs {
    suites: Vec<PathBuf>,
    /// The fake driver's library.
    fake: PathBuf,
    /// If measurements are wanted.
    bench: Option<PathBuf>,
}

impl Programs {
    fn build(options: &Options) -> Result<Self> {
        let mut command = process::cargo();
        command.args(["test", "--quiet", "--no-run", "--message-format=json"]);
        command.args(["-p", "et-cuda"]);
        command.args(SUITES.iter().flat_map(|suite| ["--test", suite]));
        let messages: Vec<Value> = process::output(&mut command)?
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let suites = SUITES.iter().map(|suite| executable(&messages, suite));
        let bench = ["--release", "-p", "et-cuda", "--example", "cuda_bench"];
        let bench = (!options.no_bench).then(|| process::executable(&bench));
        Ok(Self {
            suites: suites.collect::<Result<_>>()?,
            fake: fake_driver(&messages)?,
            bench: bench.transpose()?,
        })
    }
}

fn executable(messages: &[Value], name: &str) -> Result<PathBuf> {
    let found = messages.iter().find_map(|message| {
        let path = message["executable"].as_str()?;
        (message["target"]["name"] == name).then(|| PathBuf::from(path))
    });
    found.with_context(|| format!("cargo built `{name}` and did not say where it is"))
}

/// The library that the build script of `fakecuda` made.
fn fake_driver(messages: &[Value]) -> Result<PathBuf> {
    let variables = messages
        .iter()
        .filter(|message| message["reason"] == "build-script-executed")
        .flat_map(|message| message["env"].as_array().into_iter().flatten());
    let mut paths = variables
        .filter(|pair| pair[0] == "FAKECUDA_BUILT")
        .filter_map(|pair| pair[1].as_str());
    let path = paths
        .next()
        .context("cargo did not say where the fake driver is")?;
    Ok(path.into())
}

/// The lines `question | answer` that a program prints, in order.
fn ask(command: &mut Command) -> Result<Vec<(String, String)>> {
    let output = command.output().with_context(|| {
        format!(
            "cannot start {}",
            Path::new(command.get_program()).display()
        )
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said.trim().trim_start_matches("error: ");
    match output.status.code() {
        Some(0) => Ok(answers(&String::from_utf8_lossy(&output.stdout))),
        Some(code) if code == i32::from(NO_DEVICE) => bail!(NoDevice(reason.to_owned())),
        _ => bail!("{:?}: {}: {reason}", command.get_program(), output.status),
    }
}

fn answers(text: &str) -> Vec<(String, String)> {
    let pairs = text.lines().filter_map(|line| line.split_once(" | "));
    pairs
        .map(|(question, answer)| (question.trim_end().to_owned(), answer.trim().to_owned()))
        .collect()
}

/// The measurements, with what the bare calls of the same size take for 100 %.
fn speeds(figures: &[(String, String)]) {
    let mut table = Table::new();
    table.set_header(["measured", "figure", "of bare"]);
    let times: BTreeMap<&str, f64> = figures
        .iter()
        .filter_map(|(name, figure)| Some((name.as_str(), microseconds(figure)?)))
        .collect();
    for (name, figure) in figures {
        let bare = bare_name(name).and_then(|bare| times.get(bare.as_str()));
        let share = bare.zip(times.get(name.as_str()));
        let share = share.map(|(bare, ours)| format!("{:.0} %", 100.0 * bare / ours));
        table.add_row([name.as_str(), figure, &share.unwrap_or_default()]);
    }
    console::line(format_args!("{}", console::plain(&mut table)));
}

/// The time in `1.07 GB/s, 3.8 us`.
fn microseconds(figure: &str) -> Option<f64> {
    figure.strip_suffix(" us")?.rsplit(' ').next()?.parse().ok()
}

/// The measurement of the bare call that does the same as one of ours.
fn bare_name(name: &str) -> Option<String> {
    let (what, size) = name.rsplit_once(", ")?;
    BARE.iter().find_map(|(bare, ours)| {
        let before = what.strip_suffix(ours)?;
        Some(format!("{before}{bare}, {size}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_line_by_line() {
        let read = answers("one  question   | an answer\nno answer\nanother | 2 | 3\n");
        let expected = [("one  question", "an answer"), ("another", "2 | 3")];
        assert_eq!(read, expected.map(|(q, a)| (q.to_owned(), a.to_owned())));
    }

    #[test]
    fn ours_is_compared_with_the_bare_call_of_its_size() {
        let bare = |name| bare_name(name).unwrap_or_default();
        assert_eq!(
            bare("to the host, pinned, 4 MiB"),
            "to the host, bare call on pinned, 4 MiB"
        );
        assert_eq!(
            bare("allocate and free, 4 KiB"),
            "allocate and free, bare, no pool, 4 KiB"
        );
        assert_eq!(bare("to the host, staged, 4 MiB"), "");
        assert_eq!(microseconds("1.07 GB/s, 3.8 us"), Some(3.8));
        assert_eq!(microseconds("12.50 us"), Some(12.5));
        assert_eq!(microseconds("name"), None);
    }

    #[test]
    fn the_fake_drivers_place_is_in_cargos_messages() {
        let message = serde_json::json!({
            "reason": "build-script-executed",
            "env": [["OTHER", "x"], ["FAKECUDA_BUILT", "somewhere/libcuda.so"]],
        });
        let found = fake_driver(&[message]).unwrap();
        assert_eq!(found, Path::new("somewhere/libcuda.so"));
        assert!(fake_driver(&[]).is_err());
    }
}
