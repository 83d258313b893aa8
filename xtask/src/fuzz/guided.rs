//! Mutants made by libFuzzer, which keeps those that reach something new and goes on from there.
//!
//! The targets are in `tests/fuzz`, a workspace of its own. What they reached is kept in cargo's target folder, so that each run goes on
//! where the last one ended; `--minimise` makes a few small files of it, which are committed.

use super::{Options, Target, record};
use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The toolchain that can build what counts what is reached.
const TOOLCHAIN: &str = "nightly";
/// The longest mutant, in bytes.
const LONGEST: u64 = 4096;
/// Seconds that one mutant may take, and MiB that the process may have.
const LIMITS: [&str; 2] = ["-timeout=60", "-rss_limit_mb=3072"];
/// What the committed seeds of one target may have together, in bytes.
const SEEDS: u64 = 112 << 10;

/// What is missing to use this engine, with how to get it; `None` if nothing is.
pub(super) fn missing() -> Option<&'static str> {
    if !process::works(cargo().arg("--version")) {
        return Some(
            "libFuzzer needs a nightly toolchain: `rustup toolchain install nightly --profile minimal`",
        );
    }
    if !process::works(cargo().args(["fuzz", "--version"])) {
        return Some("cargo-fuzz is missing: `cargo install cargo-fuzz --locked`");
    }
    None
}

/// Cargo of the other toolchain, without what ours sets for us.
fn cargo() -> Command {
    let mut command = process::tool("rustup");
    command.args(["run", TOOLCHAIN, "cargo"]);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// Runs every target that is wanted, up to the first fault of each.
pub(super) fn run(options: &Options, models: &Path) -> Result<()> {
    let mut faults = 0;
    for target in options.targets() {
        let place = Place::new(target, models)?;
        if options.minimise {
            place.minimise()?;
        } else {
            faults += place.run(options)?;
        }
    }
    match faults {
        0 => Ok(()),
        _ => bail!("{faults} targets found mutants that were more than an error"),
    }
}

/// A target that was built, and its folders.
struct Place {
    target: Target,
    program: PathBuf,
    /// What was reached so far.
    reached: PathBuf,
    /// Real files, to begin with.
    real: PathBuf,
    /// What went wrong.
    faults: PathBuf,
}

impl Place {
    fn new(target: Target, models: &Path) -> Result<Self> {
        let base = workspace::target_dir().join("fuzz");
        let program = build(target, &base)?;
        let folder = |name: &str| {
            let folder = base.join(name).join(target.name());
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            anyhow::Ok(folder)
        };
        let place = Self {
            target,
            program,
            reached: folder("reached")?,
            real: folder("real")?,
            faults: folder("faults")?,
        };
        copy_small(models, target.extension(), &place.real)?;
        Ok(place)
    }

    fn run(&self, options: &Options) -> Result<u64> {
        let mut command = self.command();
        command.arg(format!("-seed={}", options.seed));
        command.arg("-print_final_stats=1");
        if let Some(seconds) = options.seconds {
            command.arg(format!("-max_total_time={seconds}"));
        }
        if let Some(cases) = options.cases {
            command.arg(format!("-runs={cases}"));
        }
        command.args([&self.reached, &self.real]);
        command.args(Some(self.target.seeds()).filter(|seeds| seeds.is_dir()));
        let start = Instant::now();
        let (log, status) = watch(&mut command)?;
        let faults = u64::from(!status);
        if !status {
            console::line(format_args!("{}", log.finding()));
            console::line(format_args!(
                "fault: the mutant is in {}; `rustup run {TOOLCHAIN} cargo fuzz tmin --fuzz-dir tests/fuzz {} FILE` makes \
                 it smaller",
                self.faults.display(),
                self.target.name()
            ));
        }
        let (name, seconds) = (self.target.name(), start.elapsed().as_secs_f64());
        console::line(format_args!(
            "{name}: {} cases in {seconds:.1} s (libFuzzer with the address sanitizer, seed {}): {}, {faults} faults",
            log.cases, options.seed, log.reached
        ));
        if !options.record {
            return Ok(faults);
        }
        let (seed, cases) = (options.seed, log.cases);
        record(&format!(
            "{name}\tlibfuzzer, asan\tsmall\tguided\t{seed}\t-\t-\t{cases}\t{seconds:.0}\t-\t-\t-\t{faults}\n"
        ))?;
        Ok(faults)
    }

    /// Puts the smallest files that reach the same into the repository.
    fn minimise(&self) -> Result<()> {
        let chosen = tempfile::tempdir().context("no scratch folder")?;
        let mut command = self.command();
        command.arg("-set_cover_merge=1").arg(chosen.path());
        command.args([&self.reached, &self.real]);
        command.args(Some(self.target.seeds()).filter(|seeds| seeds.is_dir()));
        let (log, status) = watch(&mut command)?;
        if !status {
            bail!("libFuzzer could not choose: {}", log.finding());
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(chosen.path())? {
            let entry = entry?;
            files.push((entry.metadata()?.len(), entry.path()));
        }
        files.sort();
        let seeds = self.target.seeds();
        if seeds.is_dir() {
            fs::remove_dir_all(&seeds)?;
        }
        fs::create_dir_all(&seeds)?;
        let (mut kept, mut nbytes, found) = (0, 0, files.len());
        for (len, file) in files {
            if nbytes + len > SEEDS {
                break;
            }
            fs::copy(&file, seeds.join(file.file_name().unwrap_or_default()))?;
            (kept, nbytes) = (kept + 1, nbytes + len);
        }
        console::line(format_args!(
            "{}: {kept} of {found} files are kept, {nbytes} bytes",
            self.target.name()
        ));
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(LIMITS);
        command.arg(format!("-max_len={LONGEST}"));
        let mut prefix = std::ffi::OsString::from("-artifact_prefix=");
        prefix.push(self.faults.join(""));
        command.arg(prefix);
        command.current_dir(workspace::root());
        command
    }
}

/// Builds a target and gives its path.
fn build(target: Target, base: &Path) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["fuzz", "build", "--fuzz-dir", "tests/fuzz", "--target-dir"]);
    command.arg(base).arg(target.name());
    process::run(&mut command)?;
    for folder in fs::read_dir(base)? {
        let program = folder?.path().join("release").join(target.name());
        // What is built for the host alone is what builds need.
        if program.is_file() && !program.starts_with(base.join("release")) {
            return Ok(program);
        }
    }
    bail!("cargo-fuzz built no `{}`", target.name())
}

/// Copies the files that a mutant may be as long as.
fn copy_small(folder: &Path, extension: &str, into: &Path) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            copy_small(&path, extension, into)?;
        } else if path.extension().is_some_and(|found| found == extension)
            && path.metadata()?.len() <= LONGEST
        {
            let name = path
                .to_string_lossy()
                .replace(std::path::MAIN_SEPARATOR, "-");
            fs::copy(&path, into.join(name))?;
        }
    }
    Ok(())
}

/// What libFuzzer said.
#[derive(Default)]
struct Log {
    cases: u64,
    /// Edges and features, in its own words.
    reached: String,
    last: Vec<String>,
}

impl Log {
    fn add(&mut self, line: String) {
        if let Some(cases) = line.strip_prefix("stat::number_of_executed_units:") {
            self.cases = cases.trim().parse().unwrap_or(0);
        }
        if let Some((number, rest)) = line
            .strip_prefix('#')
            .and_then(|line| line.split_once(|sign: char| !sign.is_ascii_digit()))
        {
            self.cases = number.parse().unwrap_or(self.cases);
            let words: Vec<&str> = rest.split_whitespace().collect();
            if let Some(at) = words.iter().position(|word| *word == "cov:") {
                self.reached = words[at..]
                    .iter()
                    .take(6)
                    .copied()
                    .collect::<Vec<_>>()
                    .join(" ");
            }
            return;
        }
        if self.last.len() > 200 {
            self.last.remove(0);
        }
        self.last.push(line);
    }

    /// From the panic or the report of the sanitizer on.
    fn finding(&self) -> String {
        let starts = |line: &String| line.contains("panicked at") || line.contains("ERROR: ");
        let from = self.last.iter().position(starts).unwrap_or(0);
        let lines: Vec<&str> = self.last[from..]
            .iter()
            .take(40)
            .map(String::as_str)
            .collect();
        lines.join("\n")
    }
}

/// Runs libFuzzer, and shows on a terminal where it is.
fn watch(command: &mut Command) -> Result<(Log, bool)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a target")?;
    let stderr = child.stderr.take().context("no standard error")?;
    let mut log = Log::default();
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        console::progress(format_args!(
            "{}",
            line.chars().take(100).collect::<String>()
        ));
        log.add(line);
    }
    console::progress(format_args!(""));
    let status = child.wait()?;
    Ok((log, status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Log {
        let mut log = Log::default();
        lines.iter().for_each(|line| log.add((*line).to_owned()));
        log
    }

    #[test]
    fn counts_are_those_of_the_last_line() {
        let log = log(&[
            "INFO: seed corpus: files: 3",
            "#3\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 40Mb",
            "#70\tDONE   cov: 12 ft: 14 corp: 2/5b lim: 4 exec/s: 35 rss: 41Mb",
            "stat::number_of_executed_units: 71",
        ]);
        assert_eq!(
            (log.cases, log.reached.as_str()),
            (71, "cov: 12 ft: 14 corp: 2/5b")
        );
    }

    #[test]
    fn a_finding_starts_with_the_panic() {
        let log = log(&[
            "INFO: x",
            "thread 'main' panicked at a.rs:1:2:",
            "bad",
            "==1== ERROR: libFuzzer",
        ]);
        assert!(log.finding().starts_with("thread 'main' panicked"));
        assert!(log.finding().ends_with("libFuzzer"));
    }
}
