//! One shard of mutants. `cargo xtask fuzz` starts shards, watches them, and adds them up.
#![expect(
    clippy::print_stdout,
    reason = "a shard reports its findings on standard output"
)]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use et_mutator::{Cases, Kind, Outcome, TIME, Target, find_seeds};

/// Makes mutants of real programs and sees that nothing but an error comes of them.
#[derive(Parser)]
struct Options {
    /// The folder with the real programs
    #[arg(long)]
    folder: PathBuf,
    /// Files over 4 KiB instead of those up to it
    #[arg(long)]
    large: bool,
    /// What reads the mutants
    #[arg(long, value_enum)]
    target: Kind,
    /// Leave the systematic cases out
    #[arg(long)]
    random_only: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The first case of this shard
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Cases from one of this shard to its next
    #[arg(long, default_value_t = 1)]
    step: u64,
    /// The first case that is not done
    #[arg(long, default_value_t = u64::MAX)]
    end: u64,
    /// Stop after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Where the number of the present case is kept
    #[arg(long)]
    current: Option<PathBuf>,
    /// A folder for mutants that something went wrong with
    #[arg(long)]
    keep: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let seeds = find_seeds(&options.folder, options.target, options.large)?;
    let cases = Cases::new(options.target, &seeds, options.seed, !options.random_only);
    let target = Target::new(options.target, TIME);
    let limit = options.seconds.map(Duration::from_secs);
    let start = Instant::now();
    let mut current = options
        .current
        .as_ref()
        .map(File::create)
        .transpose()
        .context("cannot write --current")?;
    // A panic is reported with its case; the default message would come a million times.
    std::panic::set_hook(Box::new(|_| {}));

    let mut counts = [0u64; 3];
    let mut faults = 0u64;
    let mut case = options.start;
    while case < options.end && limit.is_none_or(|limit| start.elapsed() < limit) {
        if let Some(file) = &mut current {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&case.to_le_bytes())?;
        }
        let mutant = cases.mutant(case);
        let kept = options.keep.as_ref().map(|_| mutant.bytes.clone());
        match target.check(mutant.bytes) {
            Ok(outcome) => counts[slot(outcome)] += 1,
            Err(problem) => {
                faults += 1;
                let path = &seeds[mutant.seed].path;
                println!(
                    "fault case {case}: {}: {}: {problem}",
                    path.display(),
                    mutant.what
                );
                if let (Some(folder), Some(bytes)) = (&options.keep, kept) {
                    std::fs::write(
                        folder.join(format!("case-{case}.{}", options.target.extension())),
                        bytes,
                    )?;
                }
            }
        }
        case = case.saturating_add(options.step);
    }
    let [refused, partly, accepted] = counts;
    println!(
        "done refused={refused} partly={partly} accepted={accepted} faults={faults} next={case} systematic={}",
        cases.systematic()
    );
    Ok(())
}

const fn slot(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Refused => 0,
        Outcome::Partly => 1,
        Outcome::Accepted => 2,
    }
}
