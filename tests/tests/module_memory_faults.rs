//! The n-th block of host memory that holds a program's bytes or buffers cannot be had: an error, nothing left behind, and all is
//! well after.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use et_module::{Error, Module, Value};
use et_tests::{Case, Run, Simulation};

/// The system's allocator, which may refuse the blocks whose sizes come from files: those that are asked for as zeros, and aligned
/// beyond what any collection asks for.
struct Failing;

/// What the smallest of those are aligned to.
const ALIGNMENT: usize = 16;

thread_local! {
    /// How many of them are still to be had; `u64::MAX` is any number.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

fn refused(layout: Layout) -> bool {
    layout.align() >= ALIGNMENT
        && LEFT
            .try_with(|left| {
                let before = left.get();
                if before != u64::MAX {
                    // The one at 0 is refused, and any number may follow.
                    left.set(before.checked_sub(1).unwrap_or(u64::MAX));
                }
                before == 0
            })
            .unwrap_or(false)
}

// SAFETY: blocks are the system's, and a null pointer says that there is none.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refused(layout) {
            return std::ptr::null_mut();
        }
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, nbytes: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, nbytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static FAILING: Failing = Failing;

/// What every run gives. It is compared later, when memory can be had.
fn run_all(module: &mut Module, runs: &[Run]) -> Result<Vec<Vec<Value>>, Error> {
    let run = |run: &Run| module.execute(&run.method, &run.inputs);
    runs.iter().map(run).collect()
}

#[track_caller]
fn check(runs: &[Run], results: &[Vec<Value>]) {
    for (run, outputs) in runs.iter().zip(results) {
        assert_eq!(run.difference(outputs), None);
    }
}

fn is_memory(error: &Error) -> bool {
    let text = et_tests::with_causes(error);
    text.contains("memory") || text.contains("allocate")
}

/// Refuses block after block; how many there were.
fn sweep(case: &Case) -> u64 {
    let runs = case.runs();
    for failing in 0..10_000 {
        let simulation = Simulation::new();
        LEFT.set(failing);
        let loaded = case.module(&simulation.environment);
        let (done, module) = match loaded {
            Ok(mut module) => (run_all(&mut module, &runs), Some(module)),
            Err(error) => (Err(error), None),
        };
        let reached = LEFT.replace(u64::MAX) == u64::MAX;
        let error = match done {
            Err(error) => error,
            Ok(results) => {
                check(&runs, &results);
                // A kernel may do without scratch memory of its own; the sweep goes on then.
                if !reached {
                    return failing;
                }
                continue;
            }
        };
        assert!(reached);
        assert!(is_memory(&error), "{}: {error:?}", case.name);
        let mut module = match module {
            Some(module) => module,
            None => case.module(&simulation.environment).unwrap(),
        };
        for run in &runs {
            module.method(&run.method).unwrap().reset_state().unwrap();
        }
        check(&runs, &run_all(&mut module, &runs).unwrap());
        drop(module);
        simulation.expect_empty();
    }
    panic!("{}: no end", case.name);
}

#[test]
fn the_nth_block_of_host_memory_cannot_be_had() {
    let known = [
        "mlp",
        "ext_weights",
        "mut_counter_init",
        "cond",
        "mut_shared_methods",
        "dev_two_cross",
        "dev_lm_resident",
    ];
    let mut total = 0;
    for name in known {
        let count = sweep(&Case::fixture(name));
        println!("{name}: {count} blocks");
        assert!(count > 1, "{name}");
        total += count;
    }
    println!("{total} blocks refused");
}
