//! What an operator or a delegate is written against.
//!
//! - [`Tensor`] is a description ([`TensorMeta`]), a place on the host or a device, and perhaps the memory itself;
//!   [`EValue`] is any value of a program.
//! - A [`ValueTable`] is a method's values together with the memory they live in.
//! - A [`Kernel`] runs an operator. It is called with a [`KernelContext`]: arguments by position, scratch memory, the step's
//!   state. Arguments may be the same bytes under several names, so a kernel never holds references to them; it asks for
//!   slices that are proven apart ([`KernelContext::disjoint`]), or walks input and output in step
//!   ([`KernelContext::lockstep`]).
//! - A [`Backend`] makes [`Delegate`]s from blobs in a program.
//! - An [`Environment`] is what a method is loaded with: device, kernel and backend registries of its own or the
//!   process's, device map, observer. A [`CopyMeter`] is an observer that tells whose the copies are.
//!
//! The crate knows no file format and no device driver.
//!
//! ```
//! use et_kernel::{
//!     Arguments, Environment, Kernel, KernelContext, KernelError, KernelRegistry, ScalarTypeSet, Tensor, ValueIndex,
//!     ValueTable,
//! };
//! use et_memory::PlannedMemory;
//!
//! /// `my::double.out(x, out)`
//! fn double(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
//!     let (x, out) = (context.tensor(0)?, context.tensor(1)?);
//!     context.resize_like(out, x)?;
//!     let ([mut out], [x]) = context.disjoint([out], [x])?;
//!     for (to, from) in out.elements_mut::<f32>()?.iter_mut().zip(x.elements::<f32>()?) {
//!         *to = 2.0 * from;
//!     }
//!     Ok(())
//! }
//!
//! let mut kernels = KernelRegistry::new();
//! kernels.register(Kernel::new("my::double.out", ScalarTypeSet::FLOATING, double), "my-crate")?;
//!
//! // What a method does with it:
//! let mut values = ValueTable::new(PlannedMemory::default());
//! values.push_owned(Tensor::from_slice(&[1.0f32, 2.0], &[2])?);
//! values.push_owned(Tensor::from_slice(&[0.0f32, 0.0], &[2])?);
//! let (x, out) = (ValueIndex(0), ValueIndex(1));
//! let environment = Environment::default().with_kernels(kernels);
//! double(&mut values.call(&[x, out], None, &environment)?)?;
//! assert_eq!(values.tensor(out)?.as_slice::<f32>()?, [2.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("elements in files are little-endian, and tensors are read where they lie");

mod access;
mod arguments;
mod backend;
mod bytes;
mod context;
mod copy;
mod dtype;
mod environment;
mod error;
mod event;
mod interrupt;
mod kernel;
mod meta;
mod meter;
mod options;
mod origin;
mod registry;
mod table;
mod tensor;
#[cfg(test)]
mod tests;
mod value;
mod workers;

pub use access::{LockstepIn, LockstepOut, TensorIn, TensorOut};
pub use arguments::{Arguments, IntList, TensorId};
pub use backend::{
    Backend, BackendError, CompileSpec, Delegate, InitContext, Limits, NamedData, NamedDataError,
    SizeLimits,
};
pub use bytes::SharedBytes;
pub use context::{Follower, KernelContext, Overlap, PrepareContext};
pub use copy::{COPY_KERNELS, Located, copy_located};
pub use dtype::{
    Bool8, Element, ScalarType, ScalarTypeSet, as_bytes, as_bytes_mut, from_bytes, from_bytes_mut,
};
pub use environment::Environment;
pub use error::KernelError;
pub use event::{ArgumentPlace, Event, EventHook};
pub use interrupt::Interrupt;
pub use kernel::{Kernel, PrepareFn, Prepared, RunFn, StepState};
pub use meta::{Dynamism, MAX_RANK, ShapeError, TensorMeta};
pub use meter::{CopiesByOrigin, CopyMeter};
pub use options::{BackendOptions, OptionValue};
pub use origin::{Origin, OriginTracker};
pub use registry::{BackendRegistry, DuplicateName, KernelRegistry, LinkedBackend, LinkedKernels};
pub use table::{TableError, ValueTable};
pub use tensor::{BytesMut, Tensor, TensorError};
pub use value::{EValue, Scalar, ValueIndex, ValueKind};
pub use workers::Workers;

#[doc(hidden)]
pub mod private {
    //! For [`link_kernels!`](crate::link_kernels) and [`link_backend!`](crate::link_backend) only.
    pub use crate::registry::{LINKED_BACKENDS, LINKED_KERNELS};
    pub use linkme;
}
