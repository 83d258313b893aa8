//! Random tensors in memory that others use too: an error or a result, never a panic, and never a long wait.

mod call;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::kinds::{Kind, accepted};
use call::Call;

/// Calls of each operator with elements.
const ROUNDS: u64 = 400;

/// Calls of each operator with huge shapes of no elements.
const HOLLOW_ROUNDS: u64 = 150;

/// No call of these sizes has work for so long, even on a busy machine without optimisation.
const LONG: Duration = Duration::from_secs(5);

/// Calls every operator `rounds` times with arguments of about the kinds that it takes, and says how many calls worked.
#[track_caller]
fn torment(rounds: u64, call: impl Fn(u64) -> Call) -> u64 {
    let mut worked = 0;
    let mut faults = Vec::new();
    for (position, kernel) in (1..).zip(crate::kernels()) {
        let kinds = accepted(kernel, |kernel, kinds: &[Kind], seed| {
            Call::new(seed).exactly(kinds).run(kernel)
        });
        for round in 1..=rounds {
            let seed = (position << 32 | round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let call = call(seed).about(&kinds);
            let start = Instant::now();
            match catch_unwind(AssertUnwindSafe(|| call.run(kernel))) {
                Ok(done) => worked += u64::from(done.is_ok()),
                Err(_) => faults.push(format!("{} in round {round} panicked", kernel.name())),
            }
            if start.elapsed() > LONG {
                faults.push(format!("{} in round {round} took long", kernel.name()));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    worked
}

#[test]
fn random_tensors_that_share_memory_never_panic() {
    let worked = torment(ROUNDS, Call::new);
    assert!(worked > 1000, "only {worked} calls got through");
}

#[test]
fn huge_shapes_of_no_elements_take_no_time() {
    let worked = torment(HOLLOW_ROUNDS, Call::hollow);
    assert!(worked > 1000, "only {worked} calls got through");
}
