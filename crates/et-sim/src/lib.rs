//! A simulated accelerator: it takes a device type's place on machines without one, and in tests.
//!
//! [`SimAllocator`] keeps the same contract as a real device's allocator. Its addresses are numbers that no host memory
//! ever has, so touching one faults; every access is checked against the live blocks; fresh memory is filled with a
//! pattern; everything is counted, for all devices and for each, and if wanted recorded in a
//! [trace](SimAllocator::take_trace); the [time](CostModel) that calls would take can be added up; what was not given back
//! is [listed](SimAllocator::leak_report); and any call can be told to [fail](SimAllocator::fail_call).
//!
//! ```
//! use std::sync::Arc;
//! use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceType};
//! use et_sim::{SimAllocator, SimOptions};
//!
//! let sim = Arc::new(SimAllocator::new(SimOptions::new(DeviceType::CUDA).devices(2)));
//! let registry = DeviceAllocatorRegistry::new();
//! registry.register(AllocatorHandle::from(Arc::clone(&sim)))?;
//! assert!(registry.require(Device::cuda(1).unwrap()).is_ok());
//! assert_eq!(sim.counters().live_blocks, 0);
//! # Ok::<(), et_device::RegisterError>(())
//! ```

mod allocator;
mod cost;
mod fault;
mod leak;
mod memory;
mod recording;
mod trace;

pub use allocator::{SimAllocator, SimOptions};
pub use cost::CostModel;
pub use fault::Operation;
pub use leak::{Leak, LeakReport};
pub use recording::{RecordingAllocator, TraceLog};
pub use trace::{Counters, TraceEvent};
