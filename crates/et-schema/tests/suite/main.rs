//! The crate from outside: real files, hostile files, round trips.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod base;
mod corpus;
mod hostile_absent;
mod hostile_indices;
mod hostile_numbers;
mod hostile_structure;
mod hostile_tensor_data;
#[cfg(feature = "serde")]
mod json;
mod measure;
mod properties;
mod round_trip;

#[global_allocator]
static ALLOCATOR: measure::Counting = measure::Counting;
