//! Damages real files millions of times and sees that nothing but an error comes of it.
//!
//! Two engines do that. libFuzzer is led by what its mutants reach, and needs tools that few machines have (`fuzz/guided.rs`). Our own
//! is blind, needs nothing, and makes the same mutants everywhere.
//!
//! The cases of our own are numbered, and a number always stands for the same mutant. Shards take turns at the numbers, each in a process of
//! its own that is watched: a shard that dies or hangs is a fault, and goes on behind the case where it did.

mod guided;

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a shard may stay at one case before it counts as hanging.
const HANG: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

/// What reads the files; what becomes of them is told as refused, accepted in part, and accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// The header of a program or a data file
    Head,
    /// Verification and the list of all problems of a program
    Verify,
    /// Loading of every method, on simulated devices
    Load,
    /// Loading and running of every method
    Run,
    /// Data files (.ptd)
    Data,
    /// Devices and new places for every method, written and read again
    Plan,
    /// Arrays (.npy), as inputs and expected outputs
    Npy,
    /// Documents of calls (meta.json)
    Calls,
    /// Allocation instances (.csv), solved
    Solve,
}

/// What makes the mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// Ours: seeded, blind, the same everywhere
    Own,
    /// libFuzzer through cargo-fuzz, led by what mutants reach; with the address sanitizer
    Libfuzzer,
}

impl Target {
    const ALL: [Self; 9] = [
        Self::Head,
        Self::Verify,
        Self::Load,
        Self::Run,
        Self::Data,
        Self::Plan,
        Self::Npy,
        Self::Calls,
        Self::Solve,
    ];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether its files are programs or data files, of which there are real ones in every folder of cases.
    fn is_model(self) -> bool {
        !matches!(self, Self::Npy | Self::Calls | Self::Solve)
    }

    /// What the names of its files end with.
    fn extension(self) -> &'static str {
        match self {
            Self::Data => "ptd",
            Self::Npy => "npy",
            Self::Calls => "json",
            Self::Solve => "csv",
            _ => "pte",
        }
    }

    /// Small files that reach what is known to be reachable, in the repository.
    fn seeds(self) -> PathBuf {
        workspace::root().join("tests/fuzz/seeds").join(self.name())
    }
}

/// Which cases.
#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// What reads the files [default: one after the other]
    #[arg(value_enum)]
    target: Option<Target>,
    /// What makes the mutants [default: libfuzzer if the cases are bounded by time alone and it is there, else own]
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Choose the smallest files that reach what libFuzzer reached, as seeds for the repository, and run nothing else
    #[arg(long)]
    minimise: bool,
    /// How many cases [default: 200000, or as many as there is time for]
    #[arg(long)]
    cases: Option<u64>,
    /// How long for each target
    #[arg(long)]
    seconds: Option<u64>,
    /// The number of the first case; a run that stopped at case N goes on with `--start N`
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// What the random cases are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Files over 4 KiB instead of those up to it
    #[arg(long)]
    large: bool,
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
    /// A build in which every panic ends the process, as programs may be built that use us
    #[arg(long)]
    abort: bool,
    /// A folder for mutants that something went wrong with
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Add the counts to the table of all runs, tests/mutator/results.tsv
    #[arg(long)]
    record: bool,
}

impl Options {
    /// A short run over the programs of the repository, with overflow checks.
    pub(crate) fn short() -> Self {
        Self {
            target: None,
            engine: Some(Engine::Own),
            minimise: false,
            cases: Some(20_000),
            seconds: None,
            start: 0,
            seed: 1,
            large: false,
            random_only: true,
            dir: Some(workspace::root().join("tests/fixtures")),
            shards: 2,
            debug: true,
            abort: false,
            keep: None,
            record: false,
        }
    }

    /// Whether anything is wanted that only our own engine does.
    fn is_for_own(&self) -> bool {
        let wanted = self.seconds.is_none() || self.cases.is_some() || self.start > 0;
        wanted || self.random_only || self.debug || self.abort || self.keep.is_some()
    }

    /// The engine that was asked for, or else the better one of those that are there; says which.
    fn engine(&self) -> Result<Engine> {
        let (engine, why) = match (self.engine, guided::missing()) {
            (Some(Engine::Own), _) => (Engine::Own, "as asked"),
            _ if self.minimise => (Engine::Libfuzzer, "as it minimises"),
            (Some(Engine::Libfuzzer), None) => (Engine::Libfuzzer, "as asked"),
            (Some(Engine::Libfuzzer), Some(missing)) => bail!("{missing}"),
            (None, _) if self.is_for_own() => (Engine::Own, "cases by number"),
            (None, None) => (Engine::Libfuzzer, "it is installed"),
            (None, Some(missing)) => (Engine::Own, missing),
        };
        let name = match engine {
            Engine::Own => "our own",
            Engine::Libfuzzer => "libFuzzer",
        };
        console::line(format_args!("engine: {name} ({why})"));
        Ok(engine)
    }

    fn targets(&self) -> Vec<Target> {
        match self.target {
            Some(target) => vec![target],
            None => Target::ALL.to_vec(),
        }
    }

    /// The first case that is not done.
    fn end(&self) -> u64 {
        let count = match (self.cases, self.seconds) {
            (Some(cases), _) => cases,
            (None, Some(_)) => u64::MAX,
            (None, None) => 200_000,
        };
        self.start.saturating_add(count)
    }
}

/// Runs the cases; an error if any of them is a fault.
pub(crate) fn run(options: &Options) -> Result<()> {
    let models = folder(options.dir.as_deref())?;
    if let Some(keep) = &options.keep {
        std::fs::create_dir_all(keep).with_context(|| format!("cannot make {}", keep.display()))?;
    }
    if options.engine()? == Engine::Libfuzzer {
        return guided::run(options, &models);
    }
    let worker = build(options.debug, options.abort)?;
    let mut faults = 0;
    for target in options.targets() {
        let folder = match target.is_model() {
            true => models.clone(),
            false => target.seeds(),
        };
        faults += run_target(target, options, &worker, &folder)?;
    }
    if faults > 0 {
        bail!("{faults} mutants were more than an error");
    }
    Ok(())
}

/// Runs the cases of one target, and gives the number of faults.
fn run_target(target: Target, options: &Options, worker: &Path, folder: &Path) -> Result<u64> {
    let scratch = tempfile::tempdir().context("no scratch folder")?;
    let start = Instant::now();
    let work = Work {
        target,
        options,
        worker,
        folder,
        scratch: scratch.path(),
        start,
    };
    let mut shards = (0..options.shards)
        .map(|index| Shard::start(&work, index, options.start + index))
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
                    let again = case.saturating_add(options.shards);
                    if again < options.end() {
                        next.push(Shard::start(&work, shard.index, again)?);
                    }
                }
            }
        }
        shards = next;
        let at: Vec<u64> = shards.iter().filter_map(|shard| shard.current()).collect();
        console::progress(format_args!(
            "{}: case {at:?}, {:.0?}",
            target.name(),
            start.elapsed()
        ));
    }
    console::progress(format_args!(""));
    total.report(&work, start.elapsed())?;
    Ok(total.faults)
}

/// What all shards have in common.
struct Work<'a> {
    target: Target,
    options: &'a Options,
    worker: &'a Path,
    folder: &'a Path,
    scratch: &'a Path,
    start: Instant,
}

fn build(debug: bool, abort: bool) -> Result<PathBuf> {
    let mut command = process::cargo();
    command.args(["build", "--package", "et-mutator"]);
    if !debug {
        command.arg("--release");
    }
    let mut target = workspace::target_dir();
    if abort {
        // A folder of its own, or every other build would start anew.
        target = target.join("abort");
        let profile = if debug { "dev" } else { "release" };
        command.args(["--config", &format!("profile.{profile}.panic=\"abort\"")]);
        command.arg("--target-dir").arg(&target);
    }
    process::run(&mut command)?;
    let profile = if debug { "debug" } else { "release" };
    Ok(target.join(profile).join("et-mutator"))
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
    partly: u64,
    accepted: u64,
    faults: u64,
    /// The first case that a shard did not come to; `None` before any shard has ended.
    next: Option<u64>,
}

impl Counts {
    /// One line for people, and one for the table if it is wanted.
    fn report(&self, work: &Work<'_>, took: Duration) -> Result<()> {
        let options = work.options;
        let Self {
            refused,
            partly,
            accepted,
            faults,
            next,
        } = *self;
        let next = next.unwrap_or(work.options.start);
        let cases = refused + partly + accepted + faults;
        let target = work.target.name();
        let files = if options.large { "large" } else { "small" };
        let build = match (options.debug, options.abort) {
            (true, false) => "debug",
            (true, true) => "debug, panic=abort",
            (false, false) => "release",
            (false, true) => "release, panic=abort",
        };
        let (seed, seconds) = (options.seed, took.as_secs_f64());
        console::line(format_args!(
            "{target}: {cases} cases in {seconds:.1} s ({files} files, seed {seed}, {build}): {refused} refused, \
             {partly} accepted in part, {accepted} accepted, {faults} faults; next case {next}",
        ));
        if !options.record {
            return Ok(());
        }
        let start = options.start;
        let kind = if options.random_only { "random" } else { "all" };
        let row = format!(
            "{target}\t{build}\t{files}\t{kind}\t{seed}\t{start}\t{next}\t{cases}\t{seconds:.0}\t{refused}\t{partly}\t{accepted}\t{faults}\n"
        );
        record(&row)
    }
}

/// Adds a row to the table of all runs.
fn record(row: &str) -> Result<()> {
    let path = workspace::root().join("tests/mutator/results.tsv");
    let file = std::fs::OpenOptions::new().append(true).open(&path);
    file.and_then(|mut file| file.write_all(row.as_bytes()))
        .with_context(|| format!("cannot add to {}", path.display()))
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
    fn start(work: &Work<'_>, index: u64, start: u64) -> Result<Self> {
        let options = work.options;
        let place = work.scratch.join(format!("shard-{index}.case"));
        let output = work.scratch.join(format!("shard-{index}.out"));
        let mut command = Command::new(work.worker);
        command.arg("--folder").arg(work.folder);
        command.arg("--current").arg(&place);
        command.args(["--target", &work.target.name()]);
        let numbers = [
            ("--seed", options.seed),
            ("--start", start),
            ("--step", options.shards),
            ("--end", options.end()),
        ];
        for (name, number) in numbers {
            command.args([name, &number.to_string()]);
        }
        if let Some(seconds) = options.seconds {
            let left = seconds.saturating_sub(work.start.elapsed().as_secs());
            command.args(["--seconds", &left.to_string()]);
        }
        for (flag, wanted) in [
            ("--large", options.large),
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
            .with_context(|| format!("cannot start {}", work.worker.display()))?;
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
                    "partly" => total.partly += value,
                    "accepted" => total.accepted += value,
                    "next" => total.next = Some(total.next.map_or(value, |next| next.min(value))),
                    "faults" => total.faults += value,
                    _ => {}
                }
            }
        }
        finished
    }
}
