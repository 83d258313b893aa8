//! Cross-crate tests; see the integration tests beside this file. Here is what they share: recorded cases, simulated
//! devices to run them on, and the check of the tables of rules in `docs`.

mod case;
mod compare;
mod npy;
pub mod rules;
mod simulation;
mod trace;

pub use case::{Case, Run};
pub use simulation::Simulation;
pub use trace::{Recorder, first_difference};

// The operators of the recorded programs.
use et_ops as _;

/// An error and its causes in one line, as a person sees them.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// The Rust in the pages for people is compiled, and run where it says nothing else.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/device-memory.md")]
    struct DeviceMemory;
    #[doc = include_str!("../../docs/formats.md")]
    struct Formats;
    #[doc = include_str!("../../docs/planning.md")]
    struct Planning;
}
