//! Reads, verifies and writes ExecuTorch programs (`.pte`) and tensor data files (`.ptd`).
//!
//! Bytes come in as slices or through a [`ByteSource`]; this crate has never heard of files, tensors
//! in memory or devices. Trust grows by type:
//!
//! 1. [`Layout`]: the identifier, the header and the sizes agree with the file's length.
//! 2. [`ParsedProgram`]: the FlatBuffer is well-formed. Safe to read, not to believe.
//! 3. [`VerifiedProgram`]: every index, size and offset in it was checked. What a runtime takes.
//!
//! Tensor data files have [`ParsedFlatTensor`] and [`VerifiedFlatTensor`] in the same way.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::as_conversions
    )
)]

extern crate alloc;

mod aligned_bytes;
pub mod builder;
mod byte_source;
mod container;
mod error;
mod flat_tensor;
mod generated;
#[cfg(feature = "serde")]
mod json;
mod list;
mod number;
pub mod owned;
mod problem;
mod program;
#[doc(hidden)]
pub mod raw;
mod scalar_type;
mod structure;
pub mod summary;
mod validate;
mod view;
pub mod write;

// The generated files name each other from the crate's root.
use generated::scalar_type_generated;

pub use aligned_bytes::{AlignedBytes, OutOfMemory};
pub use byte_source::{ByteSource, SourceError};
pub use container::{
    Bytes, ContainerError, ContainerErrorKind, FileKind, HEAD_LEN, Layout, PtdHeader, PteHeader,
};
pub use error::{ReadError, StructureError, StructureErrorKind, code};
pub use flat_tensor::{
    FlatTensorEntry, FlatTensorView, ParsedFlatTensor, TensorLayoutView, VerifiedFlatTensor,
};
pub use list::{Item, Iter, List};
pub use problem::{Problem, Problems, Rule, Severity};
pub use program::{ParsedProgram, VerifiedProgram};
pub use scalar_type::ScalarType;
pub use view::{
    Allocation, BufferDeviceView, ChainView, CompileSpecView, ConstantView, DelegateView, Dynamism,
    FrameView, InstructionView, NamedDataView, OperatorView, PlanView, Processed, ProgramView,
    SegmentView, SubsegmentView, TensorLocation, TensorView, ValueKind, ValueView, checked_nbytes,
    checked_numel, device_type_name,
};
