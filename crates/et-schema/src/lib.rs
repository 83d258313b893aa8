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
//! Make a small program (the [`builder`] needs no file), look into it, change it, and write it again:
//!
//! ```
//! use et_schema::builder::{MethodBuilder, ProgramBuilder};
//! use et_schema::owned::{self, Tensor};
//! use et_schema::write::{FileSegments, WriteOptions, write_program};
//! use et_schema::{InstructionView, ScalarType, VerifiedProgram};
//!
//! // Make: y = relu(x + weight), with the weight in the constant segment.
//! let mut builder = ProgramBuilder::new();
//! let weight = builder.constant(&[0; 24]);
//! let mut forward = MethodBuilder::new("forward");
//! let memory = forward.buffer(64);
//! let matrix = || Tensor::new(ScalarType::Float, &[2, 3]);
//! let x = forward.input(matrix().planned(memory, 0));
//! let weight = forward.tensor(matrix().with_data(weight));
//! let y = forward.output(matrix().planned(memory, 32));
//! let alpha = forward.int(1);
//! forward.kernel("aten::add.out", &[x, weight, alpha, y, y]);
//! forward.kernel("aten::relu.out", &[y, y, y]);
//! builder.method(forward);
//! let file: Vec<u8> = builder.to_bytes()?;
//!
//! // Read and look: nothing is copied but the FlatBuffer part of the file.
//! let program = VerifiedProgram::from_file_bytes(&file)?;
//! let forward = program.root().plan("forward").ok_or("no such method")?;
//! let mut calls = Vec::new();
//! for instruction in forward.chains().flat_map(|chain| chain.instructions()) {
//!     if let InstructionView::Kernel { op, args } = instruction {
//!         let operator = forward.operator(op).ok_or("verified programs have it")?;
//!         calls.push((operator.name, args.len()));
//!     }
//! }
//! assert_eq!(calls, [("aten::add", 5), ("aten::relu", 3)]);
//!
//! // Change: take it as plain values, and give the planned buffer more room.
//! let mut changed = owned::Program::from_verified(&program)?;
//! changed.execution_plan[0].non_const_buffer_sizes[1] = 4096;
//!
//! // Write: segments are taken from the old file, as they are.
//! let segments = FileSegments::new(&file, program.layout(), &changed.segments)?;
//! let options = WriteOptions::like(program.layout(), &changed.segments);
//! let mut written = Vec::new();
//! write_program(&changed, &segments, &options, &mut written)?;
//!
//! let program = VerifiedProgram::from_file_bytes(&written)?;
//! let forward = program.root().plan("forward").ok_or("no such method")?;
//! assert_eq!(forward.buffer_sizes().iter().collect::<Vec<_>>(), [0, 4096]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A file that is refused can still be looked into: [`ParsedProgram::problems`] lists everything that
//! is wrong with it, [`summary`] says what is in it. The example `rewrite` does to files what is done
//! here to bytes.

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
mod checked;
mod container;
mod device_tag;
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
pub use device_tag::DeviceTag;
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
