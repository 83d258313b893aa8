//! Devices, device addresses, and the contract between a runtime and a device's allocator.
//!
//! This crate is all that someone who writes an allocator needs. It knows no file format, no tensor and no driver.
//!
//! - [`Device`] names a place (`cpu`, `cuda:1`); [`DevicePtr`] and [`DeviceSpan`] are addresses there. They are
//!   numbers: nothing in this workspace ever makes a reference over device memory.
//! - [`DeviceAllocator`] is what a device must be able to do: allocate, free, copy.
//! - [`DeviceAllocatorRegistry`] finds the allocator of a device type. There is one for the process, filled by
//!   linking a crate such as `et-cuda`, and there are registries of one's own.
//!
//! ```
//! use et_device::{Device, DeviceAllocatorRegistry, DeviceError, DeviceType};
//!
//! let device: Device = "cuda:1".parse()?;
//! assert_eq!(device.device_type(), DeviceType::CUDA);
//!
//! // Nothing was linked or registered, so the answer is an error that says what to do.
//! let registry = DeviceAllocatorRegistry::new();
//! assert!(matches!(registry.require(device), Err(DeviceError::NoAllocator { .. })));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Without default features the crate needs neither `std` nor `alloc`; the feature `alloc` adds shared (`Arc`)
//! allocators. The feature `conformance` adds a suite of tests for allocators.
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::as_conversions
    )
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod address;
mod allocator;
#[cfg(feature = "conformance")]
#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "checks choose their numbers, and panic where they fail"
)]
pub mod conformance;
mod copies;
mod device;
mod error;
#[cfg(feature = "alloc")]
mod map;
mod registry;
mod request;
mod slot;
mod sync;

pub use address::{Alignment, DevicePtr, DeviceSpan, SpanError};
pub use allocator::{AllocatorIdentity, DeviceAllocator};
pub use copies::CopyCounts;
pub use device::{Device, DeviceIndex, DeviceType, InvalidDevice, ParseDeviceError};
pub use error::DeviceError;
#[cfg(feature = "alloc")]
pub use map::DeviceMap;
#[cfg(feature = "alloc")]
pub use registry::RegistryHandle;
pub use registry::{
    AllocatorHandle, DeviceAllocatorRegistry, LinkedAllocator, RegisterError, get_device_allocator,
    register_device_allocator,
};
pub use request::{
    AllocationRequest, DeviceToDevice, DeviceToHost, HostToDevice, LengthMismatch, MemoryInfo,
    StreamHandle,
};

#[doc(hidden)]
pub mod private {
    //! For [`link_allocator!`](crate::link_allocator) only.
    pub use crate::registry::LINKED_ALLOCATORS;
    pub use linkme;
}
