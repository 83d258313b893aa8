//! Says what a program holds: methods, inputs and outputs, planned buffers with their devices, operators, delegates.
//!
//! `cargo run -p et-schema --example inspect [FILE.pte]`, from the repository's root.
#![expect(
    clippy::print_stdout,
    reason = "the summary is what this program is for"
)]

use std::error::Error;
use std::path::Path;

use et_schema::ParsedProgram;
use et_schema::summary::{MethodSummary, ProgramSummary, ValueSummary};

const DEFAULT: &str = "tests/fixtures/dev_single_add/model.pte";

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1);
    for line in inspect(Path::new(path.as_deref().unwrap_or(DEFAULT)))? {
        println!("{line}");
    }
    Ok(())
}

/// One line for each thing in the file.
pub(crate) fn inspect(path: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let file = std::fs::read(path)?;
    // Well-formed is enough to look; running takes a `VerifiedProgram`.
    let program = ParsedProgram::from_file_bytes(&file)?;
    let mut lines = Vec::new();
    for problem in program.problems().list() {
        lines.push(format!("problem: {problem}"));
    }
    for method in ProgramSummary::new(&program).methods {
        describe(&method, &mut lines);
    }
    Ok(lines)
}

fn describe(method: &MethodSummary, lines: &mut Vec<String>) {
    lines.push(format!("method {}", method.name));
    for (what, values) in [("input", &method.inputs), ("output", &method.outputs)] {
        lines.extend(
            values
                .iter()
                .map(|value| format!("  {what} {}", text(value))),
        );
    }
    // Entry 0 is reserved.
    for (id, nbytes) in method.non_const_buffer_sizes.iter().enumerate().skip(1) {
        let device = device_of(method, id);
        lines.push(format!("  buffer {id}: {nbytes} bytes on {device}"));
    }
    for (operator, calls) in method.operators.iter().zip(&method.operator_calls) {
        lines.push(format!("  {calls} × {operator}"));
    }
    for delegate in &method.delegates {
        lines.push(format!("  delegate {}", delegate.id));
    }
}

fn text(value: &ValueSummary) -> String {
    match &value.tensor {
        Some(tensor) => format!(
            "{} {:?} on {}:{}",
            tensor.scalar_type, tensor.sizes, tensor.device.device_type, tensor.device.index
        ),
        None => value.kind.to_owned(),
    }
}

/// Buffers that no entry names are on the CPU.
fn device_of(method: &MethodSummary, id: usize) -> String {
    let entries = method.non_const_buffer_device.iter().flatten();
    entries
        .into_iter()
        .find(|entry| usize::try_from(entry.buffer_idx) == Ok(id))
        .map_or_else(
            || "CPU".to_owned(),
            |entry| format!("{}:{}", entry.device_type, entry.device_index),
        )
}
