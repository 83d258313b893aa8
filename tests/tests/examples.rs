//! The examples do what they say. Each fails where it does not find the result that it expects.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::error::Error;
use std::path::Path;

#[path = "../../crates/et-memory/examples/allocator.rs"]
mod allocator;
#[path = "../../crates/et-module/examples/decode_loop.rs"]
mod decode_loop;
#[path = "../../crates/et-module/examples/delegate.rs"]
mod delegate;
#[path = "../../crates/et-schema/examples/inspect.rs"]
#[allow(dead_code, reason = "its arguments would be ours")]
mod inspect;
#[path = "../../crates/et-module/examples/operator.rs"]
mod operator;
#[path = "../../crates/et-module/examples/run_cpu.rs"]
mod run_cpu;
#[path = "../../crates/et-module/examples/run_device.rs"]
mod run_device;
#[path = "../../crates/et-planner/examples/two_devices.rs"]
mod two_devices;

/// Examples are run from the repository's root. All tests go to the same place, so their order does not matter.
fn check(example: fn() -> Result<(), Box<dyn Error>>) {
    std::env::set_current_dir(root()).unwrap();
    example().unwrap();
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn an_allocator_of_ones_own_passes_the_suite() {
    check(allocator::main);
}

#[test]
fn a_decode_loop_stays_on_the_device() {
    check(decode_loop::main);
}

#[test]
fn a_delegate_of_ones_own_runs_on_a_device() {
    check(delegate::main);
}

#[test]
fn an_operator_of_ones_own_is_called() {
    check(operator::main);
}

#[test]
fn a_program_runs_on_the_cpu() {
    check(run_cpu::main);
}

#[test]
fn a_program_runs_on_a_simulated_device() {
    check(run_device::main);
}

#[test]
fn a_program_is_planned_for_two_devices() {
    check(two_devices::main);
}

#[test]
fn a_file_is_inspected() {
    let lines = inspect::inspect(&root().join("tests/fixtures/dev_single_add/model.pte")).unwrap();
    let expected = [
        "method forward",
        "  input FLOAT [2, 3] on CPU:0",
        "  input FLOAT [2, 3] on CPU:0",
        "  output FLOAT [2, 3] on CPU:0",
        "  buffer 1: 64 bytes on CPU",
        "  buffer 2: 96 bytes on CUDA:0",
        "  1 × aten::relu.out",
        "  2 × et_copy::_h2d_copy.out",
        "  1 × et_copy::_d2h_copy.out",
        "  delegate NestedProgramBackend",
    ];
    for line in expected {
        assert!(
            lines.iter().any(|found| found == line),
            "{line} in {lines:#?}"
        );
    }
}
