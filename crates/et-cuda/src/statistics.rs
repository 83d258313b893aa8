//! Counters of one device.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an allocator did on one device so far, and what it holds there now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaStatistics {
    /// Blocks that are out.
    pub live_blocks: u64,
    /// Their bytes, as they were asked for.
    pub live_bytes: u64,
    /// The most bytes that were ever out at one time.
    pub peak_bytes: u64,
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Blocks that came back.
    pub frees: u64,
    /// Allocations that needed memory to be given back first, whether or not that helped.
    pub out_of_memory_retries: u64,
    /// Bytes that the pool holds, used or not; 0 without a pool.
    pub pool_reserved_bytes: u64,
    /// The most it ever held.
    pub pool_reserved_peak_bytes: u64,
    /// Bytes of the pool that are out.
    pub pool_used_bytes: u64,
    /// The most that were ever out.
    pub pool_used_peak_bytes: u64,
    /// Bytes of freed blocks that still wait for the work that uses them; with a pool, of those that could
    /// not be freed because the driver did not say that the work is over.
    pub deferred_bytes: u64,
    /// Bytes of pinned host memory that belongs to this device, the staging ring's among them.
    pub pinned_bytes: u64,
    /// Copies from the host.
    pub host_to_device: Transfers,
    /// Copies to the host.
    pub device_to_host: Transfers,
    /// Copies that started from this device and went to it or another.
    pub device_to_device: Transfers,
    /// Fills.
    pub fills: Transfers,
    /// The copies among these that went through the staging ring.
    pub staged: Transfers,
}

/// Transfers of one kind that the driver accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfers {
    /// How many.
    pub count: u64,
    /// Of how many bytes in all.
    pub bytes: u64,
}

/// Counts transfers of one kind.
#[derive(Default)]
pub(crate) struct TransferCounter {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl TransferCounter {
    pub(crate) fn add(&self, nbytes: usize) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(nbytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Transfers {
        Transfers {
            count: self.count.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// Everything counted that is not in the table of blocks.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) out_of_memory_retries: AtomicU64,
    pub(crate) host_to_device: TransferCounter,
    pub(crate) device_to_host: TransferCounter,
    pub(crate) device_to_device: TransferCounter,
    pub(crate) fills: TransferCounter,
    pub(crate) staged: TransferCounter,
}
