//! A fake CUDA driver for tests on machines without a GPU, and how to steer it.
//!
//! The driver is a shared object of its own (see the README beside this crate). A test calls
//! [`auto`] or [`force`] before anything in its process calls CUDA; code under test then opens
//! `libcuda.so` as it always does and gets the fake.
//!
//! ```no_run
//! let device = fakecuda::device(); // loads the fake driver
//! device.fail("cuMemAlloc_v2", 0, 1, fakecuda::OUT_OF_MEMORY);
//! // … run the code under test on `device.ordinal()` …
//! assert_eq!(device.stats().live_allocs, 0);
//! // dropping `device` fails the test if a block, a stream or an event is left on it
//! ```

mod control;
mod device;
mod library;
mod rerun;

pub use control::{
    HostKernel, Stats, all_calls, calls, clear_everywhere, defer_pageable, device_count,
    fail_everywhere, kernel, peek, schedule, set_pools,
};
pub use device::{Device, device, devices};
pub use library::{Driver, auto, force, is_real, null_path, path, write_without};
pub use rerun::{is_rerun, rerun};

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: u32 = 2;
/// `CUDA_ERROR_UNKNOWN`.
pub const UNKNOWN: u32 = 999;
