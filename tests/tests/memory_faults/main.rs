//! Every call to a device fails once: each time there is an error that says so, nothing is left behind, and the same
//! devices then do the same work well.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod plan;
mod program;

use et_sim::{Operation, SimAllocator};

/// Lets call 1, 2, 3 … of the kind `operation` fail during `attempt`, up to the first attempt that does not get so far.
/// `check` looks at the outcome of each attempt that met its failure. Returns how many did.
#[track_caller]
fn sweep<R>(
    sim: &SimAllocator,
    operation: Operation,
    mut attempt: impl FnMut() -> R,
    mut check: impl FnMut(u64, R),
) -> u64 {
    // More calls than any of the work here makes.
    for calls_before in 0..10_000 {
        sim.fail_call(operation, calls_before);
        let outcome = attempt();
        if sim.failures_left() > 0 {
            sim.clear_failures();
            return calls_before;
        }
        check(calls_before, outcome);
    }
    panic!("{operation:?} never stops failing");
}
