//! `et run`: loads a program, runs it, and checks or keeps its outputs.

mod summary;

use crate::args::{Outputs, RunArgs};
use crate::calls::{Call, Calls};
use crate::compare::Tolerances;
use crate::expect::{self, Comparison, Expectation};
use crate::failure::Failure;
use crate::inputs;
use crate::literal;
use crate::profile::Profiler;
use crate::replacement;
use crate::report::{Report, pretty};
use crate::results::{self, Results};
use crate::session::{self, Session};
use crate::source::{self, Source};
use crate::trace::Recorder;
use crate::value::Value;
use et_kernel::EventHook;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One call and what came of it.
#[derive(Debug)]
struct Run {
    method: String,
    outputs: Vec<Value>,
    made_up: bool,
}

/// Makes the calls in order. The trace and the outputs so far are kept when one fails.
pub(crate) fn run(args: &RunArgs) -> Result<Report, Failure> {
    if args.outputs == Outputs::Device && (args.expect.is_some() || args.output_dir.is_some()) {
        let message = "--outputs device leaves nothing to compare or to write: drop it, or --expect \
            and --output-dir";
        return Err(Failure::usage(message));
    }
    let files = || args.trace.iter().chain(&args.profile);
    for target in files().chain(&args.output_dir) {
        replacement::check_target(target)?;
    }
    source::expect_one_stdin(read(args))?;
    replacement::expect_apart(files().map(PathBuf::as_path), read(args))?;
    let expectation = args.expect.as_deref().map(Expectation::open).transpose()?;
    let calls = args.calls.as_deref().map(Calls::read).transpose()?;
    if let Some(folder) = &args.output_dir {
        let named = calls.iter().flat_map(Calls::files);
        results::expect_apart(folder, read(args).chain(named), args.expect.as_deref())?;
    }
    let profiler = args.profile.as_ref().map(|_| Arc::new(Profiler::new()));
    let watchers = profiler
        .iter()
        .map(|it| Arc::clone(it) as Arc<dyn EventHook>);
    let source = Source::open(&args.program.file)?;
    let (mut session, recorder) = Session::watched(&args.program, &source, watchers.collect())?;
    // Before what may take long: a folder that cannot be there is no reason to lose the outputs.
    let folder = args.output_dir.as_deref();
    let folder = folder.map(Results::create).transpose()?;
    let mut runs = Vec::new();
    let outcome = make_calls(args, &mut session, &recorder, calls.as_ref(), &mut runs);
    let trace = recorder.document();
    // Each is written whatever becomes of the others. What went wrong first is told.
    let kept = folder.map_or(Ok(()), |folder| keep(folder, &runs));
    let traced = args.trace.as_ref().map_or(Ok(()), |file| {
        replacement::write(file, pretty(&trace).as_bytes())
    });
    let profiled = args.profile.as_ref().zip(profiler);
    let profiled = profiled.map_or(Ok(()), |(file, profiler)| {
        replacement::write(file, pretty(&profiler.document()).as_bytes())
    });
    let report = summary::report(&runs, &trace, session::device_type(&args.program));
    if let Err(failure) = outcome.and(kept).and(traced).and(profiled) {
        return Err(failure.after(report));
    }
    match expectation {
        Some(expectation) => check(args, &expectation, &runs, report),
        None => Ok(report),
    }
}

/// The files that the command reads.
fn read(args: &RunArgs) -> impl Iterator<Item = &Path> {
    let calls = args.calls.iter().map(PathBuf::as_path);
    let inputs = literal::files(&args.input);
    args.program.files().chain(calls).chain(inputs)
}

fn make_calls(
    args: &RunArgs,
    session: &mut Session,
    recorder: &Recorder,
    calls: Option<&Calls>,
    runs: &mut Vec<Run>,
) -> Result<(), Failure> {
    let how = (args.repeat, args.outputs == Outputs::Device);
    let before = || recorder.begin_run();
    let Some(calls) = calls else {
        let method = session.default_method(args.method.as_deref())?;
        let specs = session.specs(&method)?;
        let is_made_up = args.input.is_empty() && !specs.is_empty();
        let values = match is_made_up {
            true => session.made_up(&method, &specs)?,
            false => inputs::from_command_line(&args.input, &specs)?,
        };
        let outputs = session.call(&method, &values, &specs, how, before)?;
        runs.push(Run {
            method,
            outputs,
            made_up: is_made_up,
        });
        return Ok(());
    };
    for (index, call) in calls.runs.iter().enumerate() {
        let outputs = make_call(session, call, how, before);
        runs.push(Run {
            method: call.method.clone(),
            outputs: outputs.map_err(|failure| failure.in_run(index))?,
            made_up: false,
        });
    }
    Ok(())
}

/// Makes one call of a document.
fn make_call(
    session: &mut Session,
    call: &Call,
    how: (u32, bool),
    before: impl Fn(),
) -> Result<Vec<Value>, Failure> {
    let specs = session.specs(&call.method)?;
    let values = inputs::from_items(&call.inputs, &specs)?;
    session.call(&call.method, &values, &specs, how, before)
}

/// Writes the outputs.
fn keep(mut results: Results, runs: &[Run]) -> Result<(), Failure> {
    for run in runs {
        results.add(&run.method, &run.outputs)?;
    }
    results.finish()
}

/// Compares all outputs; a failure if one differs.
fn check(
    args: &RunArgs,
    expectation: &Expectation,
    runs: &[Run],
    mut report: Report,
) -> Result<Report, Failure> {
    let mut tolerances = Tolerances::default();
    for (scalar_type, tolerance) in &args.tol {
        tolerances.set(*scalar_type, *tolerance);
    }
    let mut comparisons: Vec<Comparison> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        match expectation.compare(index, &run.method, &run.outputs, &tolerances) {
            Ok(more) => comparisons.extend(more),
            Err(failure) => return Err(failure.after(report)),
        }
    }
    let made: usize = runs.iter().map(|run| run.outputs.len()).sum();
    let unrecorded = made.saturating_sub(comparisons.len());
    report
        .text
        .push_str(&summary::comparisons(&comparisons, unrecorded));
    report.set("expect", expect::summary(&comparisons, unrecorded));
    match expect::failure(&comparisons) {
        None => Ok(report),
        Some(failure) => Err(failure.after(report)),
    }
}
