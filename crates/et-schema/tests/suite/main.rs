//! The crate from outside: real files, hostile files, round trips.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod corpus;
#[cfg(feature = "serde")]
mod json;
mod round_trip;
