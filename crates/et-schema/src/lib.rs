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
//!
//! ```
//! use et_schema::{InstructionView, VerifiedProgram};
//! # use et_schema::{builder::{MethodBuilder, ProgramBuilder}, owned::Tensor, ScalarType};
//! # let mut forward = MethodBuilder::new("forward");
//! # let x = forward.input(Tensor::new(ScalarType::Float, &[2, 3]));
//! # let y = forward.output(Tensor::new(ScalarType::Float, &[2, 3]));
//! # forward.kernel("aten::relu.out", &[x, y, y]);
//! # let mut program = ProgramBuilder::new();
//! # program.method(forward);
//! # let file = program.to_bytes()?;
//! let program = VerifiedProgram::from_file_bytes(&file)?;
//! let forward = program.root().plan("forward").ok_or("no such method")?;
//! for instruction in forward.chains().flat_map(|chain| chain.instructions()) {
//!     if let InstructionView::Kernel { op, args } = instruction {
//!         let operator = forward.operator(op).ok_or("verified programs have it")?;
//!         println!("{}.{} {args:?}", operator.name, operator.overload);
//!         # assert_eq!((operator.name, args.len()), ("aten::relu", 3));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A file that is refused can still be looked into: [`ParsedProgram::problems`] lists everything that
//! is wrong with it, [`summary`] says what is in it. To change a program, take it as [`owned`] values
//! and [`write`](mod@write) it again; to make one, there is the [`builder`].

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
