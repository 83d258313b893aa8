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

/// Blocks by the address that was handed out.
#[derive(Default)]
struct Live {
    /// The last one. Memory for a moment goes back before anything else is asked for, and never gets into the tree.
    newest: Option<(DevicePtr, Block)>,
    older: BTreeMap<DevicePtr, Block>,
}

impl Live {
    fn insert(&mut self, address: DevicePtr, block: Block) {
        if let Some((address, block)) = self.newest.replace((address, block)) {
            self.older.insert(address, block);
        }
    }

    fn remove(&mut self, address: DevicePtr) -> Option<Block> {
        match self.newest.take_if(|(start, _)| *start == address) {
            Some((_, block)) => Some(block),
            None => self.older.remove(&address),
        }
    }

    /// The block that holds all of `part`.
    fn holder(&mut self, part: DeviceSpan) -> Option<&mut Block> {
        let newest = self.newest.as_mut().map(|(start, block)| (*start, block));
        let below = self.older.range_mut(..=part.base()).next_back();
        let below = below.map(|(start, block)| (*start, block));
        let mut candidates = newest.into_iter().chain(below);
        let found = candidates.find(|(start, block)| block.holds(*start, part));
        found.map(|(_, block)| block)
    }

    /// By address.
    fn spans(&self) -> Vec<DeviceSpan> {
        let newest = self.newest.iter().map(|(start, block)| (start, block));
        let blocks = self.older.iter().chain(newest);
        let mut spans: Vec<DeviceSpan> = blocks
            .filter_map(|(start, block)| DeviceSpan::new(*start, block.nbytes).ok())
            .collect();
        spans.sort_unstable_by_key(|span| span.base());
        spans
    }

    fn len(&self) -> usize {
        self.older.len() + usize::from(self.newest.is_some())
    }
}

/// Live blocks, and what is counted of them.
#[derive(Default)]
pub(crate) struct Blocks(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    live: Live,
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
        let block = inner.live.remove(address)?;
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
        let holder = inner.live.holder(part);
        let found = holder.map(|block| block.add_use(current, Arc::clone(event)));
        found.is_some()
    }

    /// The blocks that are out, as they were handed out, by address.
    pub(crate) fn spans(&self) -> Vec<DeviceSpan> {
        self.lock().live.spans()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().live.len() == 0
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

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, nbytes: u64) -> DeviceSpan {
        DeviceSpan::new(DevicePtr::new(start).unwrap(), nbytes).unwrap()
    }

    fn block(nbytes: u64) -> Block {
        Block {
            driver_address: 0,
            source: Source::Pool,
            nbytes,
            uses: Vec::new(),
        }
    }

    /// Blocks of 100 bytes at 1000, 2000, …; each step puts one of them in or takes it out.
    #[test]
    fn blocks_are_found_whatever_came_last() {
        let (mut live, mut model) = (Live::default(), BTreeMap::new());
        let mut number = 1u64;
        for step in 0..2000 {
            number = number
                .wrapping_mul(0x5851_F42D_4C95_7F2D)
                .wrapping_add(0x1405_7B7E_F767_814F);
            let start = ((number >> 33) % 8 + 1) * 1000;
            let address = DevicePtr::new(start).unwrap();
            let taken = live.remove(address).map(|block| block.nbytes);
            assert_eq!(taken, model.remove(&start), "step {step}");
            if taken.is_none() {
                live.insert(address, block(100));
                model.insert(start, 100);
            }
            let expected: Vec<_> = model.keys().map(|start| span(*start, 100)).collect();
            assert_eq!((live.spans(), live.len()), (expected, model.len()));
            for start in (1000..=8000).step_by(1000) {
                let out = model.contains_key(&start);
                assert_eq!(live.holder(span(start, 100)).is_some(), out);
                assert_eq!(live.holder(span(start + 99, 1)).is_some(), out);
                assert!(live.holder(span(start + 99, 2)).is_none());
                assert!(live.holder(span(start - 1, 2)).is_none());
            }
        }
    }
}
