//! What only the fake driver can show: faults, schedules, counted calls, other machines.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

#[path = "../support/mod.rs"]
mod support;

mod caller_stream;
mod calls;
mod faults;
mod machines;
mod memory;
mod no_pools;
mod own_streams;
mod pinned;
mod programs;
mod schedules;
mod staging;
mod streams;
mod traps;
mod uses;
