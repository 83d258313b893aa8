//! `et solve`: places for the buffers of one allocation instance.

use crate::args::{Algorithm, SearchArgs, SolveArgs};
use crate::failure::{self, Failure};
use crate::progress::ProgressLine;
use crate::report::Report;
use crate::{render, replacement, source};
use et_planner::placement::{
    Fit, Instance, Limits, Plan, Stop, fit_with, greedy, max_live_load, minimise_with, naive,
    validate,
};
use serde_json::Value as Json;
use std::path::Path;
use std::time::Instant;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing is smaller.
    Optimal,
    /// A plan; there may be a smaller one.
    Feasible,
    /// A plan within the capacity.
    Fits,
    /// No plan is within the capacity.
    Impossible,
    /// No plan within the capacity was found, and no proof that there is none.
    Unknown,
}

/// A plan and what is known about it.
struct Answer {
    plan: Plan,
    lower_bound: u64,
    nodes: u64,
    stopped: Option<Stop>,
    outcome: Outcome,
}

/// Solves the instance; a failure if there is no plan within the capacity, or none was found.
pub(crate) fn run(args: &SolveArgs, quiet: bool) -> Result<Report, Failure> {
    if let Some(output) = &args.output {
        replacement::check_target(output)?;
    }
    let instance = read(&args.file)?;
    let started = Instant::now();
    let answer = solve(&instance, args, quiet)?;
    let seconds = started.elapsed().as_secs_f64();
    validate(&instance, &answer.plan)
        .map_err(|error| Failure::file("solve.plan", failure::with_causes(&error)))?;
    let mut report = report(args, &instance, &answer);
    report.set("seconds", seconds);
    if let Some((id, message)) = answer.refusal(args.capacity) {
        return Err(Failure::file(id, message).after(report));
    }
    if let Some(output) = &args.output {
        replacement::write(output, instance.to_csv(&answer.plan).as_bytes())
            .map_err(|failure| failure.after(report.clone()))?;
    }
    Ok(report)
}

fn read(path: &Path) -> Result<Instance, Failure> {
    let fault = |message: String| {
        let message = format!("{}: {message}", path.display());
        Failure::file("solve.instance", message).with("file", path.display().to_string())
    };
    let text = String::from_utf8(source::read(path)?)
        .map_err(|error| fault(format!("not a text: {error}")))?;
    Instance::from_csv(&text).map_err(|error| fault(failure::with_causes(&error)))
}

/// How long a search may take.
pub(super) fn limits(search: &SearchArgs) -> Limits {
    search.time_limit.map_or_else(Limits::default, Limits::time)
}

/// Why a search ended, for programs.
pub(super) fn stop_name(stop: Stop) -> &'static str {
    match stop {
        Stop::Nodes => "nodes",
        Stop::Time => "time",
        Stop::Cancelled => "cancelled",
        Stop::TooLarge => "too_large",
        _ => "other",
    }
}

fn solve(instance: &Instance, args: &SolveArgs, quiet: bool) -> Result<Answer, Failure> {
    let plan = match args.search.algorithm() {
        Algorithm::Optimal => return Ok(search(instance, args, quiet)),
        Algorithm::Naive => naive(instance),
        Algorithm::Greedy => greedy(instance),
    };
    let plan = plan.map_err(|error| Failure::file("solve.algorithm", error.to_string()))?;
    let lower_bound = max_live_load(instance);
    Ok(Answer {
        outcome: Outcome::of(plan.height(), lower_bound, args.capacity),
        plan,
        lower_bound,
        nodes: 0,
        stopped: None,
    })
}

fn search(instance: &Instance, args: &SolveArgs, quiet: bool) -> Answer {
    let limits = limits(&args.search);
    let mut line = ProgressLine::new(quiet);
    let mut listener = |progress| line.show("placing", progress);
    let solution = match args.capacity {
        None => minimise_with(instance, &limits, &mut listener),
        Some(capacity) => match fit_with(instance, capacity, &limits, &mut listener) {
            Fit::Fits(solution) | Fit::Impossible(solution) | Fit::Unknown(solution) => solution,
            _ => unreachable!("there are three cases"),
        },
    };
    Answer {
        outcome: Outcome::of(solution.plan.height(), solution.lower_bound, args.capacity),
        plan: solution.plan,
        lower_bound: solution.lower_bound,
        nodes: solution.nodes,
        stopped: solution.stopped,
    }
}

impl Outcome {
    fn of(nbytes: u64, lower_bound: u64, capacity: Option<u64>) -> Self {
        match capacity {
            Some(capacity) if nbytes <= capacity => Self::Fits,
            Some(capacity) if lower_bound > capacity => Self::Impossible,
            Some(_) => Self::Unknown,
            None if nbytes <= lower_bound => Self::Optimal,
            None => Self::Feasible,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::Feasible => "feasible",
            Self::Fits => "fits",
            Self::Impossible => "impossible",
            Self::Unknown => "unknown",
        }
    }
}

impl Answer {
    /// The id and the message of a capacity that was not met.
    fn refusal(&self, capacity: Option<u64>) -> Option<(&'static str, String)> {
        let capacity = capacity?;
        let (best, bound) = (self.plan.height(), self.lower_bound);
        match self.outcome {
            Outcome::Impossible => Some((
                "solve.impossible",
                format!(
                    "no plan within {capacity} bytes exists: every plan needs at least {bound}"
                ),
            )),
            Outcome::Unknown => Some((
                "solve.unknown",
                format!(
                    "no plan within {capacity} bytes was found, and no proof that there is none: {}; the best plan \
                     needs {best} bytes, every plan at least {bound}",
                    self.why_stopped()
                ),
            )),
            _ => None,
        }
    }

    fn why_stopped(&self) -> &'static str {
        match self.stopped {
            Some(Stop::Nodes) => {
                "the search ended after its number of steps (--time-limit gives it more)"
            }
            Some(Stop::Time) => "the search ran out of time",
            Some(Stop::TooLarge) => "the instance is too large to search",
            Some(_) => "the search was ended",
            None => "this algorithm does not search",
        }
    }

    fn verdict(&self) -> String {
        match self.outcome {
            Outcome::Optimal => "proved: no plan is smaller".into(),
            Outcome::Fits => "within the capacity".into(),
            Outcome::Impossible => "proved: no plan is within the capacity".into(),
            _ => {
                let gap = self.plan.height().saturating_sub(self.lower_bound);
                format!(
                    "not proved: {gap} bytes above the bound, {}",
                    self.why_stopped()
                )
            }
        }
    }
}

fn report(args: &SolveArgs, instance: &Instance, answer: &Answer) -> Report {
    let (height, bound) = (answer.plan.height(), answer.lower_bound);
    let mut report = Report::text(format!(
        "arena    {}\nbound    {}\nresult   {}\n",
        render::bytes_exact(height),
        render::bytes_exact(bound),
        answer.verdict()
    ));
    report.set("file", args.file.display().to_string());
    report.set("buffers", instance.buffers().len());
    report.set("algorithm", algorithm_name(args.search.algorithm()));
    report.set("capacity", args.capacity);
    report.set("outcome", answer.outcome.name());
    report.set("nbytes", height);
    report.set("lower_bound", bound);
    report.set("proved", height <= bound);
    report.set("gap", height.saturating_sub(bound));
    report.set("nodes", answer.nodes);
    report.set(
        "stopped",
        answer
            .stopped
            .map_or(Json::Null, |stop| stop_name(stop).into()),
    );
    report.set(
        "output",
        args.output.as_ref().map(|path| path.display().to_string()),
    );
    report
}

/// The name of an algorithm, as on the command line.
pub(super) fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Naive => "naive",
        Algorithm::Greedy => "greedy",
        Algorithm::Optimal => "optimal",
    }
}
