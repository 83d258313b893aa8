//! Loads and runs ExecuTorch programs with planned memory on any device.
//!
//! - [`Program`] is a verified file, shared by everything made from it; [`MethodMeta`] tells what a method needs before it
//!   is loaded.
//! - [`Method`] is one loaded method: its values, its planned memory (each buffer on its device), its resolved instructions.
//! - [`Module`] is a program with its loaded methods and data files: the usual way in.
//! - [`NestedProgramBackend`] runs delegates whose blob is itself a program.
//!
//! The crate meets devices only through the registry of its [`Environment`](et_kernel::Environment), and operators only
//! through its kernels: link `et-ops` for the portable ones, and `et-cuda` (or any other allocator) for devices.
//!
//! ```
//! use et_kernel::{Environment, Tensor};
//! use et_module::{Module, Program};
//! use et_ops as _; // the portable operators
//! # use et_schema::{ScalarType, builder::{MethodBuilder, ProgramBuilder}, owned};
//! # let mut builder = ProgramBuilder::new();
//! # let mut forward = MethodBuilder::new("forward");
//! # let memory = forward.buffer(64);
//! # let row = || owned::Tensor::new(ScalarType::Float, &[3]);
//! # let x = forward.input(row().planned(memory, 0));
//! # let y = forward.output(row().planned(memory, 16));
//! # forward.kernel("aten::relu.out", &[x, y, y]);
//! # builder.method(forward);
//! # let bytes: Vec<u8> = builder.to_bytes()?;
//!
//! // `Module::open` takes a path.
//! let mut module = Module::new(Program::from_bytes(bytes)?, Environment::linked()?);
//! let meta = module.method_meta("forward")?;
//! assert_eq!((meta.num_inputs(), meta.operators()), (1, vec!["aten::relu.out".to_owned()]));
//!
//! let x = Tensor::from_slice(&[-1.0f32, 0.5, 2.0], &[3])?;
//! let outputs = module.forward(&[x.into()])?;
//! let y = outputs[0].as_tensor().ok_or("relu gives a tensor")?;
//! assert_eq!(y.as_slice::<f32>()?, [0.0, 0.5, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod constants;
mod data;
mod error;
mod load;
mod mapped;
mod meta;
mod method;
mod module;
mod nested;
mod program;
mod run;
mod source;
mod step;
mod unverified;
mod value;

pub use data::{DataFile, DataFiles};
pub use error::{Error, ErrorKind, Place};
pub use load::LoadOptions;
pub use mapped::{MappedSource, PageLock};
pub use meta::{MethodMeta, TensorInfo, ValueInfo};
pub use method::{CancelHandle, Handover, Method};
pub use module::{Module, ModuleOptions};
pub use nested::NestedProgramBackend;
pub use program::Program;
pub use source::{DataSource, FileSource, MemorySource};
pub use value::Value;

// The device-generic copies belong to every program that was planned for a device.
et_kernel::link_kernels!("et-module", et_kernel::COPY_KERNELS);
