//! Freeing blocks of one device, behind whatever still uses them.

use super::DeviceState;
use crate::blocks::{Block, Source};
use crate::context::Current;
use crate::event::Event;
use crate::pool;
use crate::stream::StreamId;
use et_device::{DeviceError, DeviceSpan, StreamHandle};
use std::sync::Arc;

impl DeviceState {
    /// # Safety
    /// As for [`et_device::DeviceAllocator::deallocate`].
    pub(crate) unsafe fn deallocate(&self, span: DeviceSpan) -> Result<(), DeviceError> {
        // Before the books change: a block that cannot be freed stays known.
        let current = self.context.enter_anyway()?;
        let block = self.take(span)?;
        // SAFETY: taken out of the books just now, so nobody else frees it; but for the uses that its events stand for,
        // nothing uses it, by the contract.
        unsafe { self.release(&current, block, None) }
    }

    /// # Safety
    /// As for [`et_device::DeviceAllocator::deallocate_on`].
    pub(crate) unsafe fn deallocate_on(
        &self,
        span: DeviceSpan,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let current = self.context.enter_anyway()?;
        let block = self.take(span)?;
        // SAFETY: a live stream, by the contract.
        let stream = match unsafe { StreamId::of_caller(&current, stream) } {
            Ok(stream) => stream,
            Err(error) => {
                // The block is given up either way. Which work uses it is not known, so all of it is waited for.
                // SAFETY: as in `deallocate`.
                let _ = unsafe { self.free_at_once(&current, &block) };
                return Err(error);
            }
        };
        // SAFETY: as in `deallocate`; work that uses it is queued on this stream.
        unsafe { self.release(&current, block, Some(stream)) }
    }

    fn take(&self, span: DeviceSpan) -> Result<Block, DeviceError> {
        let block = self.blocks.remove(span.base());
        block.ok_or_else(|| DeviceError::UnknownBlock {
            device: self.device(),
            address: span.base(),
        })
    }

    /// Frees a block behind its uses and the work that is queued on `behind`, or, if the driver refuses, behind all work.
    ///
    /// # Safety
    /// The block is in nobody's hands, and only its uses and work queued on `behind` may use it.
    pub(super) unsafe fn release(
        &self,
        current: &Current<'_>,
        mut block: Block,
        behind: Option<StreamId>,
    ) -> Result<(), DeviceError> {
        let outcome = match block.source {
            Source::Pool => {
                let stream = behind.unwrap_or(match block.uses[..] {
                    [] => self.memory.id(),
                    _ => self.retired.id(),
                });
                // SAFETY: by this function's contract.
                unsafe { queue_free(current, &block, stream) }
            }
            Source::Driver => {
                // SAFETY: by this function's contract.
                unsafe { self.free_or_defer(current, &mut block, behind) }
            }
        };
        match outcome {
            // After a fault, the driver does not say whether it has freed the block.
            Err(error) if !self.context.is_poisoned() => {
                // SAFETY: by this function's contract; a call that fails without a fault has freed nothing.
                unsafe { self.free_at_once(current, &block) }.map_err(|_| error)
            }
            outcome => outcome,
        }
    }

    /// Frees a block of no pool now if nothing uses it any more, and else leaves it to [`Deferred`](super::deferred).
    ///
    /// # Safety
    /// As for `release`.
    unsafe fn free_or_defer(
        &self,
        current: &Current<'_>,
        block: &mut Block,
        behind: Option<StreamId>,
    ) -> Result<(), DeviceError> {
        self.deferred.reap(current);
        if let Some(stream) = behind {
            let last = Event::record(&self.context, current, stream)?;
            block.uses.push(Arc::new(last));
        }
        if block.is_unused(current) {
            // SAFETY: by the contract, and its uses are over.
            return unsafe { current.free(block.driver_address) };
        }
        self.deferred.keep(block.clone());
        Ok(())
    }

    /// Frees a block once its uses, which other devices may have, are over and its device has nothing left to do. If the
    /// driver cannot say that they are over, the block is kept for [`Deferred::drain`](super::deferred::Deferred::drain).
    ///
    /// # Safety
    /// The block is in nobody's hands.
    unsafe fn free_at_once(&self, current: &Current<'_>, block: &Block) -> Result<(), DeviceError> {
        let mut uses = block.uses.iter();
        uses.try_for_each(|event| event.wait(current))
            .and_then(|()| current.synchronize())
            .inspect_err(|_| self.deferred.keep(block.clone()))?;
        // SAFETY: by this function's contract; no work is left that could use it.
        unsafe { current.free(block.driver_address) }
    }
}

/// Queues the free of a pool's block on `stream`, behind its uses.
///
/// # Safety
/// The block is in nobody's hands, and only its uses and work that `stream` is ordered behind may use it.
unsafe fn queue_free(
    current: &Current<'_>,
    block: &Block,
    stream: StreamId,
) -> Result<(), DeviceError> {
    for event in &block.uses {
        stream.wait_for(current, event)?;
    }
    // SAFETY: by this function's contract, and `stream` is ordered behind the block's uses, its allocation among them.
    unsafe { pool::free_on(current, block.driver_address, stream) }
}
