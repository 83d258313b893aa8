//! What the fake driver models, and each misuse that it reports.

mod calls;

mod corners;
mod faults;
mod memory;
mod streams;
