//! Whole programs on simulated devices: loaded, run and dropped by the runtime.

use et_device::DeviceError;
use et_module::Error;
use et_sim::Operation;
use et_tests::{Case, Simulation};

use crate::sweep;

/// Loads and runs a case in a module of its own, and compares its outputs.
fn attempt(case: &Case, simulation: &Simulation) -> Result<(), Error> {
    let mut module = case.module(&simulation.environment)?;
    for run in case.runs() {
        let outputs = module.execute(&run.method, &run.inputs)?;
        assert_eq!(run.difference(&outputs), None);
    }
    Ok(())
}

/// Fails each call of the kind in turn. Returns how many there are.
#[track_caller]
fn check(name: &str, operation: Operation) -> u64 {
    let case = Case::fixture(name);
    let simulation = Simulation::new();
    let failed = || attempt(&case, &simulation);
    sweep(&simulation.devices, operation, failed, |call, outcome| {
        let error = outcome.expect_err("a call failed");
        let cause = error
            .device_error()
            .unwrap_or_else(|| panic!("{name} {operation:?} {call}: {error} has no cause"));
        if operation == Operation::Allocate {
            assert!(matches!(cause, DeviceError::OutOfMemory { .. }), "{cause}");
        } else {
            assert!(matches!(cause, DeviceError::Driver { .. }), "{cause}");
        }
        simulation.expect_empty();
        attempt(&case, &simulation).expect("a later load works");
        simulation.expect_empty();
    })
}

#[test]
fn every_allocation_of_a_program_may_fail() {
    assert_eq!(check("dev_single_add", Operation::Allocate), 1);
    assert_eq!(check("dev_two_cross", Operation::Allocate), 2);
    assert!(check("dev_same_and_cross", Operation::Allocate) >= 2);
    assert!(check("dev_cpu_between", Operation::Allocate) >= 1);
}

#[test]
fn every_copy_of_a_program_may_fail() {
    for name in [
        "dev_single_add",
        "dev_two_cross",
        "dev_same_and_cross",
        "dev_cpu_between",
    ] {
        let fills = check(name, Operation::Fill);
        let copies_in = check(name, Operation::HostToDevice);
        let copies_out = check(name, Operation::DeviceToHost);
        let across = check(name, Operation::DeviceToDevice);
        assert!(fills >= 1 && copies_in >= 2 && copies_out >= 1, "{name}");
        let all = fills + copies_in + copies_out + across;
        assert_eq!(check(name, Operation::Copy), all);
    }
}

#[test]
fn one_module_recovers_from_every_failure() {
    let case = Case::fixture("dev_two_cross");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let run = &case.runs()[0];
    // Load and run, over and over in the same module; it is unloaded in between, so that loading can fail each time.
    let failures = sweep(
        &simulation.devices,
        Operation::Any,
        || {
            module.unload_method(&run.method)?;
            module.execute(&run.method, &run.inputs).map(|outputs| {
                assert_eq!(run.difference(&outputs), None);
            })
        },
        |call, outcome| {
            // A free that fails is no error of the next load.
            if let Err(error) = outcome {
                assert!(error.device_error().is_some(), "call {call}: {error}");
            }
        },
    );
    assert!(failures > 5, "{failures}");
    let outputs = module.execute(&run.method, &run.inputs).unwrap();
    assert_eq!(run.difference(&outputs), None);
}
