//! The blocks that are out, and what freeing each of them takes.

use crate::context::{Context, Current};
use crate::event::Event;
use crate::statistics::CudaStatistics;
use et_device::{DevicePtr, DeviceSpan};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a block came from, which decides how it goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Pool,
    Driver,
}

/// One block that is out.
#[derive(Clone)]
pub(crate) struct Block {
    /// The driver's address. A strictly aligned block starts behind it.
    pub(crate) driver_address: u64,
    pub(crate) source: Source,
    pub(crate) nbytes: u64,
    /// What must be done before the block may go: its allocation on a caller's stream, and uses that were told.
    pub(crate) uses: Vec<Arc<Event>>,
}

impl Block {
    /// Adds a use. Where that would take more room, uses that are over make it.
    fn add_use(&mut self, current: &Current<'_>, event: Arc<Event>) {
        if self.uses.len() == self.uses.capacity() {
            self.forget_what_is_over(current);
        }
        self.uses.push(event);
    }

    /// Whether no use is left that is not over.
    pub(crate) fn is_unused(&mut self, current: &Current<'_>) -> bool {
        self.forget_what_is_over(current);
        self.uses.is_empty()
    }

    /// Waits until its uses are over, on whichever device they are; whether that is known of all of them.
    pub(crate) fn settle(&self) -> bool {
        self.uses.iter().all(|event| event.settle())
    }

    /// Whether all of its uses are on the device of `context`, and so end with that at the latest.
    pub(crate) fn is_used_at_home(&self, context: &Context) -> bool {
        self.uses.iter().all(|event| event.belongs_to(context))
    }

    /// Whether it holds the bytes of `part`, where it starts at `start`. Its end is not inside of it.
    fn holds(&self, start: DevicePtr, part: DeviceSpan) -> bool {
        let offset = part.base().get().checked_sub(start.get());
        offset.is_some_and(|offset| offset < self.nbytes && part.len() <= self.nbytes - offset)
    }

    fn forget_what_is_over(&mut self, current: &Current<'_>) {
        // A use of which the driver does not know stays, and is waited for in the end.
        self.uses
            .retain(|event| !event.is_done(current).unwrap_or(false));
    }
}

/// Live blocks by the address that was handed out.
#[derive(Default)]
pub(crate) struct Blocks(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    live: BTreeMap<DevicePtr, Block>,
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

    /// Has the free of the block that holds all of `part` wait for `event`; whether there is such a block.
    pub(crate) fn add_use(
        &self,
        current: &Current<'_>,
        part: DeviceSpan,
        event: &Arc<Event>,
    ) -> bool {
        let mut inner = self.lock();
        let below = inner.live.range_mut(..=part.base()).next_back();
        let holder = below.filter(|(start, block)| block.holds(**start, part));
        let found = holder.map(|(_, block)| block.add_use(current, Arc::clone(event)));
        found.is_some()
    }

    /// The blocks that are out, as they were handed out.
    pub(crate) fn spans(&self) -> Vec<DeviceSpan> {
        let inner = self.lock();
        let blocks = inner.live.iter();
        blocks
            .filter_map(|(address, block)| DeviceSpan::new(*address, block.nbytes).ok())
            .collect()
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
