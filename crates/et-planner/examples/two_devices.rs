//! Plans a program for two devices: `cargo run -p et-planner --example two_devices`.
//!
//! The program has two delegates, one behind the other, and knows no devices: all of its memory is on the CPU. One delegate is
//! to work on `cuda:0` and the other on `cuda:1`.
#![expect(clippy::print_stdout, reason = "the plan is what this program is for")]

use std::collections::BTreeMap;
use std::error::Error;

use et_planner::analysis::{Analysis, Hints};
use et_planner::propagate::{MethodOptions, ProgramOptions, propagate};
use et_schema::builder::{MethodBuilder, ProgramBuilder, ProgramFile};
use et_schema::owned::Tensor;
use et_schema::{ScalarType, VerifiedProgram};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut file = cpu_program()?;

    let mut options = ProgramOptions::default();
    options.default = on_two_devices()?;
    let reports = propagate(&mut file.program, &options)?;
    for report in &reports {
        println!("{}", report.name);
        println!("  copies to devices: {:?}", report.h2d);
        println!("  copies to the host: {:?}", report.d2h);
        for buffer in &report.buffers {
            println!(
                "  buffer {} on {}: {} bytes, and no plan has fewer than {}",
                buffer.memory_id, buffer.device, buffer.nbytes, buffer.lower_bound
            );
        }
    }

    // What any runtime loads: this one and the C++ one.
    let bytes = file.to_bytes()?;
    let verified = VerifiedProgram::from_file_bytes(&bytes)?;
    let method = &file.program.execution_plan[0];
    let findings = Analysis::new(method, &Hints::default())?.audit()?.findings;
    println!("{} bytes, {} findings", bytes.len(), findings.len());

    let report = &reports[0];
    let expected = (2, 2, 2, 0, 1);
    let found = (
        report.h2d.count,
        report.d2h.count,
        report.buffers.len(),
        findings.len(),
        verified.root().plans().len(),
    );
    match found == expected {
        true => Ok(()),
        false => Err(format!("{expected:?} expected, {found:?} found").into()),
    }
}

/// Which delegate works where. In exported programs a compile spec, `target_device`, says so already.
fn on_two_devices() -> Result<MethodOptions, Box<dyn Error>> {
    let mut options = MethodOptions::default();
    options.targets = BTreeMap::from([(0, "cuda:0".parse()?), (1, "cuda:1".parse()?)]);
    // Of the two tensors that each delegate is called with, one is an input.
    options.hints.delegate_inputs = BTreeMap::from([(0, 1), (1, 1)]);
    Ok(options)
}

/// `y = second(first(x))`.
fn cpu_program() -> Result<ProgramFile, Box<dyn Error>> {
    let mut builder = ProgramBuilder::new();
    let blobs = [b"first", b"other"].map(|blob| builder.delegate_data(blob));
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(3 * 4096);
    let matrix = |offset| Tensor::new(ScalarType::Float, &[32, 32]).planned(memory, offset);
    let x = forward.input(matrix(0));
    let between = forward.tensor(matrix(4096));
    let y = forward.output(matrix(8192));
    let [first, second] = blobs.map(|blob| forward.delegate("MyBackend", blob, &[]));
    forward.delegate_call(first, &[x, between]);
    forward.delegate_call(second, &[between, y]);
    builder.method(forward);
    Ok(builder.build()?)
}
