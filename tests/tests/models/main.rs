//! The lock-free parts, checked in every interleaving and with every value that the memory model lets a load return.
//!
//! There is one: the registry's slot. Its very source file is compiled here with loom's atomics in the place of the real
//! ones. Everything else that threads share is behind a mutex or a `OnceLock`, or is a single word (a counter, a flag) that
//! orders nothing else.
#![expect(
    clippy::duplicate_mod,
    reason = "one file, once with its orderings and once without"
)]

mod strong;
mod weak;
