//! The commands.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod devices;
pub(crate) mod inspect;
pub(crate) mod ops;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod solve;
pub(crate) mod verify;
