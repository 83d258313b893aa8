//! Damages real programs millions of times and sees that nothing but an error comes of it.
//!
//! The cases are numbered, and a number always stands for the same mutant. Shards take turns at the numbers, each in a process of
//! its own that is watched: a shard that dies or hangs is a fault, and goes on behind the case where it did.

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a shard may stay at one case before it counts as hanging.
const HANG: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

/// Which cases.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many cases
    #[arg(long, default_value_t = 200_000)]
    cases: u64,
    /// The number of the first case; a run that stopped at case N goes on with `--start N`
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// What the random cases are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Files over 4 KiB instead of those up to it
    #[arg(long)]
    large: bool,
    /// Run loaded methods too
    #[arg(long)]
    run: bool,
    /// Leave the systematic cases out
    #[arg(long)]
    random_only: bool,
    /// Folder with real programs [default: ../shared/corpus beside the repository, else tests/fixtures]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Processes side by side
    #[arg(long, default_value_t = 2)]
    shards: u64,
    /// The unoptimised build, with overflow checks
    #[arg(long)]
    debug: bool,
    /// A folder for mutants that something went wrong with
    #[arg(long)]
    keep: Option<PathBuf>,
}

impl Options {
    /// A short run over the programs of the repository, with overflow checks.
    pub(crate) fn short() -> Self {
        Self {
            cases: 300_000,
            start: 0,
            seed: 1,
            large: false,
            run: true,
            random_only: true,
            dir: Some(workspace::root().join("tests/fixtures")),
            shards: 2,
            debug: true,
            keep: None,
        }
    }
}

/// Runs the cases; an error if any of them is a fault.
pub(crate) fn run(options: &Options) -> Result<()> {
    let worker = build(options.debug)?;
    let folder = folder(options.dir.as_deref())?;
    if let Some(keep) = &options.keep {
        std::fs::create_dir_all(keep).with_context(|| format!("cannot make {}", keep.display()))?;
    }
    let scratch = tempfile::tempdir().context("no scratch folder")?;
    let start = Instant::now();
    let end = options.start + options.cases;
    let mut shards = (0..options.shards)
        .map(|index| {
            Shard::start(
                index,
                options,
                &worker,
                &folder,
                scratch.path(),
                options.start + index,
                end,
            )
        })
        .collect::<Result<Vec<_>>>()?;
    let mut total = Counts::default();
    while !shards.is_empty() {
        std::thread::sleep(LOOK);
        let mut next = Vec::new();
        for mut shard in shards {
            match shard.look(&mut total)? {
                Progress::Running => next.push(shard),
                Progress::Done => {}
                Progress::Lost { case, how } => {
                    total.faults += 1;
                    console::line(format_args!("fault case {case}: {how}"));
                    let again = case + options.shards;
                    if again < end {
                        let index = shard.index;
                        next.push(Shard::start(
                            index,
                            options,
                            &worker,
                            &folder,
                            scratch.path(),
                            again,
                            end,
                        )?);
                    }
                }
            }
        }
        shards = next;
        let at: Vec<u64> = shards.iter().filter_map(|shard| shard.current()).collect();
        console::progress(format_args!(
            "case {:?} of {end}, {:.0?}",
            at,
            start.elapsed()
        ));
    }
    console::progress(format_args!(""));
    let Counts {
        refused,
        not_loaded,
        loaded,
        ran,
        faults,
    } = total;
    console::line(format_args!(
        "{} cases in {:.1?} ({}, seed {}, {}): {refused} files refused, {not_loaded} methods refused, {loaded} loaded, \
         {ran} loaded and run, {faults} faults",
        options.cases,
        start.elapsed(),
        if options.large {
            "large files"
        } else {
            "small files"
        },
        options.seed,
        if options.debug { "debug" } else { "release" },
    ));
    if faults > 0 {
        bail!("{faults} mutants were more than an error");
    }
    Ok(())
}

fn build(debug: bool) -> Result<PathBuf> {
    let mut command = process::cargo();
    command.args(["build", "--package", "et-mutator"]);
    if !debug {
        command.arg("--release");
    }
    process::run(&mut command)?;
    let profile = if debug { "debug" } else { "release" };
    Ok(workspace::target_dir().join(profile).join("et-mutator"))
}

fn folder(given: Option<&Path>) -> Result<PathBuf> {
    let corpus = workspace::root().join("../shared/corpus");
    let bundled = workspace::root().join("tests/fixtures");
    let folder = match given {
        Some(folder) => folder.to_owned(),
        None if corpus.is_dir() => corpus,
        None => {
            console::line(format_args!(
                "{} is missing: using tests/fixtures",
                corpus.display()
            ));
            bundled
        }
    };
    if !folder.is_dir() {
        bail!("{} is not a folder", folder.display());
    }
    Ok(folder)
}

/// What became of the cases.
#[derive(Default)]
struct Counts {
    refused: u64,
    not_loaded: u64,
    loaded: u64,
    ran: u64,
    faults: u64,
}

enum Progress {
    Running,
    Done,
    Lost { case: u64, how: String },
}

/// A process that does some of the cases.
struct Shard {
    index: u64,
    child: Child,
    /// Where it keeps the number of its present case.
    place: PathBuf,
    output: PathBuf,
    seen: Option<u64>,
    since: Instant,
}

impl Shard {
    fn start(
        index: u64,
        options: &Options,
        worker: &Path,
        folder: &Path,
        scratch: &Path,
        start: u64,
        end: u64,
    ) -> Result<Self> {
        let place = scratch.join(format!("shard-{index}.case"));
        let output = scratch.join(format!("shard-{index}.out"));
        let mut command = Command::new(worker);
        command
            .arg("--folder")
            .arg(folder)
            .arg("--current")
            .arg(&place);
        command.args([
            "--seed",
            &options.seed.to_string(),
            "--start",
            &start.to_string(),
        ]);
        command.args([
            "--step",
            &options.shards.to_string(),
            "--end",
            &end.to_string(),
        ]);
        for (flag, wanted) in [
            ("--large", options.large),
            ("--run", options.run),
            ("--random-only", options.random_only),
        ] {
            if wanted {
                command.arg(flag);
            }
        }
        if let Some(keep) = &options.keep {
            command.arg("--keep").arg(keep);
        }
        let file = std::fs::File::create(&output)
            .with_context(|| format!("cannot write {}", output.display()))?;
        command
            .stdout(file)
            .stderr(Stdio::null())
            .stdin(Stdio::null());
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", worker.display()))?;
        Ok(Self {
            index,
            child,
            place,
            output,
            seen: None,
            since: Instant::now(),
        })
    }

    /// The case it is at.
    fn current(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        let mut file = std::fs::File::open(&self.place).ok()?;
        file.read_exact(&mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn look(&mut self, total: &mut Counts) -> Result<Progress> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(self.ended(status, total));
        }
        let current = self.current();
        if current != self.seen {
            (self.seen, self.since) = (current, Instant::now());
        } else if self.since.elapsed() > HANG {
            self.child.kill().context("cannot stop a shard")?;
            self.child.wait()?;
            self.add(total);
            let case = current.unwrap_or(0);
            return Ok(Progress::Lost {
                case,
                how: format!("still at it after {HANG:?}"),
            });
        }
        Ok(Progress::Running)
    }

    fn ended(&self, status: ExitStatus, total: &mut Counts) -> Progress {
        let finished = self.add(total);
        if status.success() && finished {
            return Progress::Done;
        }
        Progress::Lost {
            case: self.current().unwrap_or(0),
            how: format!("the process ended with {status}"),
        }
    }

    /// Prints the shard's findings and adds up its counts. Says whether it came to its end. A shard that did not has no counts;
    /// its cases up to there are in none of the sums.
    fn add(&self, total: &mut Counts) -> bool {
        let text = std::fs::read_to_string(&self.output).unwrap_or_default();
        let mut finished = false;
        for line in text.lines() {
            let Some(counts) = line.strip_prefix("done ") else {
                console::line(format_args!("{line}"));
                continue;
            };
            finished = true;
            for (name, value) in counts.split(' ').filter_map(|part| part.split_once('=')) {
                let value: u64 = value.parse().unwrap_or(0);
                match name {
                    "refused" => total.refused += value,
                    "not_loaded" => total.not_loaded += value,
                    "loaded" => total.loaded += value,
                    "ran" => total.ran += value,
                    "faults" => total.faults += value,
                    _ => {}
                }
            }
        }
        finished
    }
}
