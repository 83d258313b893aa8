//! FlatBuffers code, generated from `schema/*.fbs` by `cargo xtask schema`. Do not edit.

#![allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::missing_safety_doc,
    clippy::multiple_unsafe_ops_per_block,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code,
    deprecated,
    missing_docs,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    unused_qualifications,
    reason = "written by flatc, not by us"
)]

#[rustfmt::skip]
pub mod flat_tensor_generated;
#[rustfmt::skip]
pub mod program_generated;
#[rustfmt::skip]
pub mod scalar_type_generated;

pub use flat_tensor_generated::flat_tensor_flatbuffer as ptd;
pub use program_generated::executorch_flatbuffer as pte;
pub use scalar_type_generated::scalar_type_flatbuffer as scalar;
