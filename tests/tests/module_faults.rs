//! The n-th call of a device or of a file fails, for every n: a typed error, nothing left behind, and all is well after.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use et_module::{DataFile, DataSource, Error, FileSource, Module, Program};
use et_schema::{ByteSource, SourceError};
use et_sim::Operation;
use et_tests::{Case, Run, Simulation};

/// Loads what is not loaded and makes every call. An output that is wrong is no error but a failed test.
fn run_all(module: &mut Module, runs: &[Run]) -> Result<(), Error> {
    for run in runs {
        let outputs = module.execute(&run.method, &run.inputs)?;
        assert_eq!(run.difference(&outputs), None);
    }
    Ok(())
}

/// The methods as they were when they were loaded.
fn reset(module: &mut Module, runs: &[Run]) -> Result<(), Error> {
    for run in runs {
        module.method(&run.method)?.reset_state()?;
    }
    Ok(())
}

/// Lets call after call fail; how many there were.
fn sweep_devices(case: &Case, operation: Operation) -> u64 {
    let runs = case.runs();
    for failing in 0..10_000 {
        let simulation = Simulation::new();
        let mut module = case.module(&simulation.environment).unwrap();
        simulation.devices.fail_call(operation, failing);
        let done = run_all(&mut module, &runs);
        let happened = simulation.devices.failures_left() == 0;
        let Err(error) = done else {
            assert!(
                !happened,
                "{}: failure {failing} of {operation:?} was swallowed",
                case.name
            );
            drop(module);
            simulation.expect_empty();
            return failing;
        };
        assert!(happened);
        let cause = error.device_error();
        assert!(
            cause.is_some(),
            "{}: {error:?} is not the device's",
            case.name
        );
        assert!(error.place().method.is_some(), "{error:?}");
        // What was loaded still works.
        reset(&mut module, &runs).unwrap();
        run_all(&mut module, &runs).unwrap();
        drop(module);
        simulation.expect_empty();
    }
    panic!("{}: no end of {operation:?}", case.name);
}

fn device_cases() -> Vec<Case> {
    let small = |case: &Case| case.uses_devices() && case.name != "dev_mv2_lite";
    Case::all().into_iter().filter(small).collect()
}

#[test]
fn h_17_the_nth_device_allocation_fails() {
    let total: u64 = device_cases()
        .iter()
        .map(|case| sweep_devices(case, Operation::Allocate))
        .sum();
    println!("{total} allocations failed");
    assert!(total > 10);
}

#[test]
fn h_17_the_nth_copy_or_fill_fails() {
    let total: u64 = device_cases()
        .iter()
        .map(|case| sweep_devices(case, Operation::Copy))
        .sum();
    println!("{total} copies failed");
    assert!(total > 100);
}

#[test]
fn a_block_that_cannot_be_freed_is_counted_and_no_error_of_the_run() {
    let case = Case::fixture("dev_single_add");
    let runs = case.runs();
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    run_all(&mut module, &runs).unwrap();
    let before = et_memory::failed_frees();
    simulation.devices.fail_call(Operation::Deallocate, 0);
    drop(module);
    assert_eq!(et_memory::failed_frees(), before + 1);
    assert_eq!(simulation.devices.leaks().len(), 1);
}

/// A file of which one read fails.
struct Unreliable {
    file: FileSource,
    left: Arc<AtomicU64>,
}

impl ByteSource for Unreliable {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            let nbytes = into.len() as u64;
            return Err(SourceError::Failed {
                offset,
                nbytes,
                reason: "the disk is gone".to_owned(),
            });
        }
        self.file.read_at(offset, into)
    }
}

impl DataSource for Unreliable {}

/// Read after read fails; how many there were.
fn sweep_reads(case: &Case) -> u64 {
    let runs = case.runs();
    for failing in 0..10_000 {
        let simulation = Simulation::new();
        let left = Arc::new(AtomicU64::new(failing));
        let open = |path: &std::path::Path| Unreliable {
            file: FileSource::open(path).unwrap(),
            left: Arc::clone(&left),
        };
        let load = || -> Result<Module, Error> {
            let program = Program::load(open(&case.path()))?;
            let mut module = Module::new(program, simulation.environment.clone());
            for path in case.data_paths() {
                module.add_data(DataFile::load(open(&path))?)?;
            }
            Ok(module)
        };
        let (first, module) = match load() {
            Ok(mut module) => (run_all(&mut module, &runs), Some(module)),
            Err(error) => (Err(error), None),
        };
        // No read fails from now on.
        let reached = left.swap(u64::MAX / 2, Ordering::Relaxed) > u64::MAX / 2;
        let Err(error) = first else {
            assert!(
                !reached,
                "{}: failed read {failing} was swallowed",
                case.name
            );
            return failing;
        };
        assert_eq!(error.code(), 0x22, "{}: {error:?}", case.name);
        let mut module = module.unwrap_or_else(|| load().unwrap());
        reset(&mut module, &runs).unwrap();
        run_all(&mut module, &runs).unwrap();
        drop(module);
        simulation.expect_empty();
    }
    panic!("{}: no end of reads", case.name);
}

#[test]
fn the_nth_read_of_a_file_fails() {
    let known = [
        "ext_weights",
        "mut_counter_init",
        "linear",
        "mlp",
        "dev_single_all",
        "dev_two_cross",
    ];
    let total: u64 = known
        .iter()
        .map(|name| sweep_reads(&Case::fixture(name)))
        .sum();
    println!("{total} reads failed");
    assert!(total > known.len() as u64);
}

#[test]
fn a_failed_step_leaves_a_method_that_can_be_reset_and_run() {
    let case = Case::fixture("dev_two_same");
    let run = &case.runs()[0];
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let method = module.method("forward").unwrap();
    for (index, input) in run.inputs.iter().enumerate() {
        method.set_input(index, input).unwrap();
    }
    simulation.devices.fail_call(Operation::Copy, 0);
    let error = loop {
        match method.step() {
            Ok(going) => assert!(going),
            Err(error) => break error,
        }
    };
    assert!(
        error.place().instruction.is_some() && error.place().name.is_some(),
        "{error:?}"
    );
    assert!(!method.in_progress());
    method.execute().unwrap();
    let outputs = [method.output_to_host(0).unwrap()];
    assert_eq!(run.difference(&outputs), None);
}
