//! `et run`: loads a program, runs it, and checks or keeps its outputs.

mod summary;

use crate::args::{Outputs, RunArgs};
use crate::calls::Calls;
use crate::compare::Tolerances;
use crate::expect::{self, Comparison, Expectation};
use crate::failure::Failure;
use crate::inputs;
use crate::literal::Input;
use crate::profile::Profiler;
use crate::replacement;
use crate::report::{Report, pretty};
use crate::results::{self, Results};
use crate::session::{self, Session};
use crate::source::Source;
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
    let results = args.trace.iter().chain(&args.profile);
    replacement::expect_apart(results.map(PathBuf::as_path), read(args))?;
    let expectation = args.expect.as_deref().map(Expectation::open).transpose()?;
    let calls = args.calls.as_deref().map(Calls::read).transpose()?;
    let profiler = args.profile.as_ref().map(|_| Arc::new(Profiler::new()));
    let watchers = profiler
        .iter()
        .map(|it| Arc::clone(it) as Arc<dyn EventHook>);
    let source = Source::open(&args.program.file)?;
    let (mut session, recorder) = Session::watched(&args.program, &source, watchers.collect())?;
    let mut runs = Vec::new();
    let outcome = make_calls(args, &mut session, &recorder, calls.as_ref(), &mut runs);
    let trace = recorder.document();
    if let Some(file) = &args.trace {
        results::write_file(file, pretty(&trace).as_bytes())?;
    }
    if let (Some(file), Some(profiler)) = (&args.profile, profiler) {
        results::write_file(file, pretty(&profiler.document()).as_bytes())?;
    }
    keep(args, &runs)?;
    let report = summary::report(&runs, &trace, session::device_type(&args.program));
    if let Err(failure) = outcome {
        return Err(failure.after(report));
    }
    match expectation {
        Some(expectation) => check(args, &expectation, &runs, report),
        None => Ok(report),
    }
}

/// The files that the command reads.
fn read(args: &RunArgs) -> impl Iterator<Item = &Path> {
    let inputs = args.input.iter().filter_map(|input| match input {
        Input::File(file) => Some(file.as_path()),
        Input::Literal(_) => None,
    });
    let files = [&args.program.file].into_iter().chain(&args.program.data);
    files.chain(&args.calls).map(PathBuf::as_path).chain(inputs)
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
    for call in &calls.runs {
        let specs = session.specs(&call.method)?;
        let values = inputs::from_items(&call.inputs, &specs)?;
        let outputs = session.call(&call.method, &values, &specs, how, before)?;
        runs.push(Run {
            method: call.method.clone(),
            outputs,
            made_up: false,
        });
    }
    Ok(())
}

/// Writes the outputs, where they are wanted.
fn keep(args: &RunArgs, runs: &[Run]) -> Result<(), Failure> {
    let Some(folder) = &args.output_dir else {
        return Ok(());
    };
    let mut results = Results::create(folder)?;
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
    report.text.push_str(&summary::comparisons(&comparisons));
    report.set("expect", expect::summary(&comparisons));
    match expect::failure(&comparisons) {
        None => Ok(report),
        Some(failure) => Err(failure.after(report)),
    }
}
