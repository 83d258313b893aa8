//! Running a method again takes no block from the heap.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use et_module::{Error, Module};
use et_tests::{Case, Run, Simulation};

/// The system's allocator, which also counts blocks per thread.
struct Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has nothing to count any more.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get() + 1));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, nbytes: usize) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, nbytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn taken() -> u64 {
    TAKEN.with(Cell::get)
}

/// Blocks that one run takes; inputs are set before.
fn execute(module: &mut Module, run: &Run) -> Result<u64, Error> {
    let method = module.method(&run.method)?;
    for (index, input) in run.inputs.iter().enumerate() {
        method.set_input(index, input)?;
    }
    let before = taken();
    method.execute()?;
    Ok(taken() - before)
}

/// The blocks that runs took after all of them were done twice.
fn measure(case: &Case) -> Result<Vec<String>, Error> {
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment)?;
    let runs = case.runs();
    for run in runs.iter().chain(&runs) {
        execute(&mut module, run)?;
    }
    let mut found = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let blocks = execute(&mut module, run)?;
        if blocks > 0 {
            let (name, method) = (&case.name, &run.method);
            found.push(format!("{name} run {index} ({method}): {blocks} blocks"));
        }
    }
    Ok(found)
}

#[test]
fn the_steady_state_of_execute_takes_no_block_from_the_heap() {
    assert!(taken() > 0, "the counter counts");
    let (mut found, mut measured, mut skipped) = (Vec::new(), 0, Vec::new());
    for case in Case::all() {
        match measure(&case) {
            Ok(blocks) => {
                measured += 1;
                found.extend(blocks);
            }
            Err(error) => skipped.push(format!("{}: {error}", case.name)),
        }
    }
    println!(
        "{measured} cases measured; {} could not run:\n{}",
        skipped.len(),
        skipped.join("\n")
    );
    assert!(
        skipped.iter().all(|why| why.contains("XnnpackBackend")),
        "{skipped:#?}"
    );
    assert!(
        found.is_empty(),
        "{} runs took blocks:\n{}",
        found.len(),
        found.join("\n")
    );
}
