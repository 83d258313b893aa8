//! The blocks that are out, and what freeing each of them takes.

use crate::statistics::CudaStatistics;
use crate::stream::Event;
use et_device::DevicePtr;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a block came from, which decides how it goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Pool,
    Driver,
}

/// One block that is out.
pub(crate) struct Block {
    /// The driver's address. A strictly aligned block starts behind it.
    pub(crate) driver_address: u64,
    pub(crate) source: Source,
    pub(crate) nbytes: u64,
    /// Where it came into being, if it was allocated on a caller's stream.
    pub(crate) born: Option<Event>,
}

/// Live blocks by the address that was handed out.
#[derive(Default)]
pub(crate) struct Blocks(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    live: HashMap<DevicePtr, Block>,
    live_bytes: u64,
    peak_bytes: u64,
    allocations: u64,
    frees: u64,
}

impl Blocks {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, address: DevicePtr, block: Block) {
        let mut inner = self.lock();
        inner.live_bytes = inner.live_bytes.saturating_add(block.nbytes);
        inner.peak_bytes = inner.peak_bytes.max(inner.live_bytes);
        inner.allocations += 1;
        inner.live.insert(address, block);
    }

    /// Takes a block out; `None` if no live block starts there.
    pub(crate) fn remove(&self, address: DevicePtr) -> Option<Block> {
        let mut inner = self.lock();
        let block = inner.live.remove(&address)?;
        inner.live_bytes = inner.live_bytes.saturating_sub(block.nbytes);
        inner.frees += 1;
        Some(block)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().live.is_empty()
    }

    /// The part of the statistics that is known here.
    pub(crate) fn statistics(&self) -> CudaStatistics {
        let inner = self.lock();
        CudaStatistics {
            live_blocks: inner.live.len() as u64,
            live_bytes: inner.live_bytes,
            peak_bytes: inner.peak_bytes,
            allocations: inner.allocations,
            frees: inner.frees,
            ..CudaStatistics::default()
        }
    }
}
