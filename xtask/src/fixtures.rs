//! Runs every recorded case in a process of its own and compares outputs and device traces.

pub(crate) mod case;
mod child;
pub(crate) mod memcheck;
mod report;
mod trace;
mod verdict;

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use case::Case;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use verdict::{Outcome, Verdict};

/// Which cases, and where the result goes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder of case folders [default: ../shared/corpus beside the repository, else tests/fixtures]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write the result as JSON too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only cases whose name contains this text
    #[arg(long, default_value = "", value_name = "TEXT")]
    filter: String,
    /// Run the optimised build of `et`
    #[arg(long)]
    release: bool,
    /// Seconds that one case may take
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    limit: u64,
    /// List only cases that did not pass
    #[arg(long)]
    brief: bool,
}

impl Options {
    /// The cases that are part of the repository.
    pub(crate) fn bundled() -> Self {
        Self {
            dir: Some(bundled_dir()),
            json: None,
            filter: String::new(),
            release: false,
            limit: 60,
            brief: false,
        }
    }
}

/// The folder of the cases that are part of the repository.
pub(crate) fn bundled_dir() -> PathBuf {
    workspace::root().join("tests/fixtures")
}

/// Runs the cases; an error if one failed or crashed, or if there is none.
pub(crate) fn run(options: &Options) -> Result<()> {
    let dir = options.dir.clone().unwrap_or_else(default_dir);
    let cases = case::find(&dir, &options.filter)?;
    if cases.is_empty() {
        bail!("no case in {} matches `{}`", dir.display(), options.filter);
    }
    let program = build_et(options.release)?;
    console::line(format_args!("{} cases in {}", cases.len(), dir.display()));
    let limit = Duration::from_secs(options.limit);
    let outcomes = run_all(&cases, &|case| run_case(&program, case, limit));
    console::line(format_args!("{}", report::table(&outcomes, options.brief)));
    console::line(format_args!("{}", report::counts(&outcomes)));
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(&report::json(&outcomes))?;
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let bad = outcomes
        .iter()
        .filter(|outcome| outcome.verdict.is_bad())
        .count();
    if bad > 0 {
        bail!("{bad} of {} cases failed or crashed", outcomes.len());
    }
    Ok(())
}

/// Where cases are unless another folder is named.
pub(crate) fn default_dir() -> PathBuf {
    let beside = workspace::root().join("../shared/corpus");
    if beside.is_dir() {
        beside
    } else {
        bundled_dir()
    }
}

/// Builds `et` and returns where cargo put it.
fn build_et(release: bool) -> Result<PathBuf> {
    let mut target = vec!["-p", "et-cli", "--bin", "et"];
    if release {
        target.push("--release");
    }
    process::executable(&target)
}

/// Runs the cases on all cores; the result is in the order of the cases.
fn run_all(cases: &[Case], run: &(impl Fn(&Case) -> Outcome + Sync)) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = run(case);
            let mut done = outcomes.lock().expect("invariant: no worker panics");
            done.push(outcome);
            console::progress(format_args!("{}/{} {}", done.len(), cases.len(), case.name));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.min(cases.len()) {
            scope.spawn(work);
        }
    });
    console::progress(format_args!(""));
    let mut outcomes = outcomes.into_inner().expect("invariant: no worker panics");
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    outcomes
}

fn run_case(program: &Path, case: &Case, limit: Duration) -> Outcome {
    let out = workspace::target_dir().join("fixtures").join(&case.name);
    let start = std::time::Instant::now();
    let verdict = match child::run(&[], program, case, &out, limit) {
        Ok(end) => verdict::judge(case, &end, &out),
        Err(error) => Verdict::Failed(format!("{error:#}")),
    };
    Outcome {
        name: case.name.clone(),
        verdict,
        time: start.elapsed(),
    }
}
