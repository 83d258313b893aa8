//! Every recorded case: the right outputs, the recorded device traffic, and no device memory left behind.

use et_module::{Error, ErrorKind};
use et_tests::{Case, Recorder, Simulation, first_difference, with_causes};

/// Cases whose traffic is not that of the recording, and why.
const OTHER_TRAFFIC: &[(&str, &str)] = &[];

/// The one backend that is not there.
const XNNPACK: &str = "XnnpackBackend";

enum Outcome {
    Passed,
    /// A backend that is not linked here, by name.
    Lacks(String),
    Failed(String),
}

fn run(case: &Case) -> Outcome {
    let simulation = Simulation::new();
    let recorder = Recorder::new(&simulation.devices);
    let simulation = simulation.watched_by(recorder.clone());
    let outcome = match calls(case, &simulation, &recorder) {
        Ok(None) => Outcome::Passed,
        Ok(Some(difference)) => Outcome::Failed(difference),
        Err(error) => failure(&error),
    };
    simulation.expect_empty();
    outcome
}

fn failure(error: &Error) -> Outcome {
    match error.kind() {
        ErrorKind::MissingBackend { id, .. } if id == XNNPACK => Outcome::Lacks(id.clone()),
        _ => match error.nested() {
            Some(nested) => failure(nested),
            None => Outcome::Failed(with_causes(error)),
        },
    }
}

fn calls(
    case: &Case,
    simulation: &Simulation,
    recorder: &Recorder,
) -> Result<Option<String>, Error> {
    let mut module = case.module(&simulation.environment)?;
    for (index, run) in case.runs().iter().enumerate() {
        if !module.is_loaded(&run.method) {
            recorder.take();
            module.method(&run.method)?;
            let recorded = &case.meta["cpp_runtime"]["load_traces"][&run.method];
            let loaded = recorder.take();
            if !recorded.is_null()
                && let Some(difference) = traffic(case, recorded, &loaded, true)
            {
                return Ok(Some(format!("load of {}: {difference}", run.method)));
            }
        }
        let outputs = module.execute(&run.method, &run.inputs)?;
        if let Some(difference) = run.difference(&outputs) {
            return Ok(Some(format!("run {index}: {difference}")));
        }
        let recorded = &case.meta["runs"][index]["device_trace"];
        let happened = recorder.take();
        if !recorded.is_null()
            && let Some(difference) = traffic(case, recorded, &happened, false)
        {
            return Ok(Some(format!("run {index}: {difference}")));
        }
    }
    Ok(None)
}

fn traffic(
    case: &Case,
    recorded: &serde_json::Value,
    ours: &[serde_json::Value],
    loading: bool,
) -> Option<String> {
    if OTHER_TRAFFIC.iter().any(|(name, _)| *name == case.name) {
        return None;
    }
    first_difference(recorded, ours, loading)
}

#[test]
fn recorded_cases_give_what_was_recorded() {
    let cases = Case::all();
    let (mut passed, mut lacking, mut failed) = (0, Vec::new(), Vec::new());
    for case in &cases {
        match run(case) {
            Outcome::Passed => passed += 1,
            Outcome::Lacks(what) => lacking.push(format!("{}: {what}", case.name)),
            Outcome::Failed(why) => failed.push(format!("{}: {why}", case.name)),
        }
    }
    let text = format!(
        "{passed} of {} cases passed; {} need what is not linked here:\n{}",
        cases.len(),
        lacking.len(),
        lacking.join("\n")
    );
    println!("{text}");
    assert!(
        failed.is_empty(),
        "{} cases failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
