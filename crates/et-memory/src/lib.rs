//! Memory that a program runs in: owned buffers on the host and on devices, and the planned memory made of them.
//!
//! - [`HostBuffer`] and [`DeviceMemoryBuffer`] own one block each and free it once.
//! - [`PlannedMemory`] is a method's planned buffers, each on its device; [`PlannedMemory::allocate`] is the one
//!   function that makes it from a [`MemoryPlan`]. A [`PlannedSlot`] is resolved to a [`Place`] with every check
//!   made: buffer, offset, size, alignment and device.
//! - [`Arena`] is scratch memory for kernels, and [`MemoryManager`] holds what a method needs of both.
//!
//! The crate knows neither files nor tensors. It works without `std` (with `alloc`).
//!
//! ```
//! use et_device::{Alignment, Device, DeviceAllocatorRegistry};
//! use et_memory::{Budget, BufferSpec, MemoryPlan, PlannedMemory, PlannedSlot};
//!
//! let plan = MemoryPlan::new([BufferSpec::new(64, Device::CPU)]);
//! let memory = PlannedMemory::allocate(&plan, &DeviceAllocatorRegistry::new(), &Budget::unlimited())?;
//! let slot = PlannedSlot { memory_id: 1, offset_bytes: 16, nbytes: 48, alignment: Alignment::ONE, device: Device::CPU };
//! assert!(memory.resolve(&slot).is_ok());
//! # Ok::<(), et_memory::MemoryError>(())
//! ```
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

mod arena;
mod device;
mod error;
mod host;
mod manager;
mod place;
mod plan;
mod planned;

pub use arena::{Arena, ArenaError};
pub use device::{DeviceMemoryBuffer, failed_frees};
pub use error::MemoryError;
pub use host::HostBuffer;
pub use manager::MemoryManager;
pub use place::{HostSpan, Place};
pub use plan::{Budget, BufferSpec, MemoryPlan};
pub use planned::{PlannedBuffer, PlannedMemory, PlannedMemoryId, PlannedSlot};
