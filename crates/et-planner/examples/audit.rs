//! Says what is wrong with the memory plans of programs, and how small they could be:
//! `cargo run --release -p et-planner --example audit -- FILE.pte…`.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::error::Error;

use et_planner::analysis::{Analysis, Hints};
use et_planner::compact::{CompactOptions, SharedBuffers, compact_method};
use et_schema::VerifiedProgram;
use et_schema::owned::{ExecutionPlan, Program};

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let program = match VerifiedProgram::from_file_bytes(&bytes) {
            Ok(program) => Program::from_verified(&program)?,
            Err(error) => {
                println!("{path}: {error}");
                continue;
            }
        };
        let shared = SharedBuffers::of(&program);
        for method in &program.execution_plan {
            audit(&path, method, &shared)?;
        }
    }
    Ok(())
}

fn audit(path: &str, method: &ExecutionPlan, shared: &SharedBuffers) -> Result<(), Box<dyn Error>> {
    let analysis = Analysis::new(method, &Hints::default())?;
    let findings = analysis.audit()?.findings;
    let guesses = analysis.steps().iter().filter(|step| step.is_guess).count();
    println!(
        "{path} {}: {} values, {} instructions, {guesses} guessed, {} findings",
        method.name,
        method.values.len(),
        analysis.steps().len(),
        findings.len()
    );
    for finding in findings {
        println!("    {finding}");
    }
    let mut planned = method.clone();
    let options = CompactOptions::default();
    match compact_method(&mut planned, shared, &options) {
        Ok(report) => report
            .buffers
            .iter()
            .for_each(|buffer| println!("    {buffer:?}")),
        Err(error) => println!("    {error}"),
    }
    Ok(())
}
