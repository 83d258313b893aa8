//! Damages files that we read, and sees that nothing but an error comes of it.
//!
//! Two programs use it: one makes mutants by number, blindly (the binary of this package); the other is led by what the mutants reach
//! (`tests/fuzz`).

mod edit;
mod meter;
mod mutation;
mod random;
mod seeds;
mod target;
mod text;

pub use mutation::{Cases, Mutant, mutate};
pub use seeds::{Seed, find as find_seeds};
pub use target::{Kind, Outcome, TIME, Target};
