//! `et run`: loads a program, runs it, and checks or keeps its outputs.

mod error;
mod session;
mod summary;

use crate::args::{Outputs, RunArgs};
use crate::calls::Calls;
use crate::compare::Tolerances;
use crate::expect::{self, Comparison, Expectation};
use crate::failure::Failure;
use crate::inputs::{self, Spec};
use crate::report::{Report, pretty};
use crate::results::{self, Results};
use crate::value::Value;
use session::Session;

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
    let expectation = args.expect.as_deref().map(Expectation::open).transpose()?;
    let calls = args.calls.as_deref().map(Calls::read).transpose()?;
    let mut session = Session::open(args)?;
    let mut runs = Vec::new();
    let outcome = make_calls(args, &mut session, calls.as_ref(), &mut runs);
    let trace = session.trace();
    if let Some(file) = &args.trace {
        results::write_file(file, pretty(&trace).as_bytes())?;
    }
    if let (Some(file), Some(profile)) = (&args.profile, session.profile()) {
        results::write_file(file, pretty(&profile).as_bytes())?;
    }
    keep(args, &runs)?;
    let report = summary::report(
        &runs,
        &trace,
        args.simulate.map(|simulate| simulate.device_type),
    );
    if let Err(failure) = outcome {
        return Err(failure.after(report));
    }
    match expectation {
        Some(expectation) => check(args, &expectation, &runs, report),
        None => Ok(report),
    }
}

fn make_calls(
    args: &RunArgs,
    session: &mut Session,
    calls: Option<&Calls>,
    runs: &mut Vec<Run>,
) -> Result<(), Failure> {
    let Some(calls) = calls else {
        let method = session.default_method(args.method.as_deref())?;
        let specs = session.specs(&method)?;
        let is_made_up = args.input.is_empty() && !specs.is_empty();
        let values = match is_made_up {
            true => made_up(args, session, &method, &specs)?,
            false => inputs::from_command_line(&args.input, &specs)?,
        };
        let outputs = session.call(&method, &values, &specs)?;
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
        let outputs = session.call(&call.method, &values, &specs)?;
        runs.push(Run {
            method: call.method.clone(),
            outputs,
            made_up: false,
        });
    }
    Ok(())
}

fn made_up(
    args: &RunArgs,
    session: &Session,
    method: &str,
    specs: &[Spec],
) -> Result<Vec<Value>, Failure> {
    let has_scalars = specs.iter().any(|spec| matches!(spec, Spec::Other(_)));
    let scalars = if has_scalars {
        session.traced_scalars(method)?
    } else {
        Vec::new()
    };
    let traced = |index: usize| scalars.get(index).cloned().unwrap_or(Value::None);
    inputs::made_up(specs, traced, args.max_input_bytes)
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
