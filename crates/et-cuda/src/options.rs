//! How an allocator behaves.

use et_device::Device;
use std::num::{NonZeroU64, NonZeroUsize};

/// Large enough that starting a copy costs little beside making it.
const STAGING_CHUNK: NonZeroUsize = match NonZeroUsize::new(4 << 20) {
    Some(nbytes) => nbytes,
    None => NonZeroUsize::MIN,
};

/// Settings of a [`CudaAllocator`](crate::CudaAllocator), the same for all its devices.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CudaOptions {
    /// The most that the pool of a device may hold, in bytes; `None`: all there is.
    pub pool_limit_bytes: Option<NonZeroU64>,
    /// Free memory that a pool keeps for later allocations, in bytes. Keeping everything, the default, is what makes
    /// allocations cheap; [`trim`](crate::CudaAllocator::trim) gives it back.
    pub release_threshold_bytes: u64,
    /// Whether to use pools where the device has them.
    pub use_pools: bool,
    /// Bytes of each of the two pinned chunks of a device's staging ring, which is made at its first use.
    pub staging_chunk_bytes: NonZeroUsize,
    /// Called when a device is out of memory and giving back the allocator's own did not help. It may free memory of
    /// other owners (not through this allocator) and return whether a last attempt is worthwhile.
    pub on_out_of_memory: Option<fn(&OutOfMemory) -> bool>,
}

impl CudaOptions {
    /// Pools without a limit that keep all they have; a staging ring of 2 × 4 MiB.
    pub const fn new() -> Self {
        CudaOptions {
            pool_limit_bytes: None,
            release_threshold_bytes: u64::MAX,
            use_pools: true,
            staging_chunk_bytes: STAGING_CHUNK,
            on_out_of_memory: None,
        }
    }
}

impl Default for CudaOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// What could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The device.
    pub device: Device,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes free on the device.
    pub free_bytes: u64,
    /// Bytes the device has.
    pub total_bytes: u64,
}
