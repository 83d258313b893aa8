//! Blocks that were given back while work still used them.
//!
//! On devices without pools the driver frees a block at once, and waits for the device before it does. Such a block is
//! therefore kept until its events say that its work is over: whoever frees it does not wait. On all devices, a block
//! stays here if the driver could not say that its uses are over.

use crate::blocks::Block;
use crate::context::Current;
use et_device::DeviceError;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct Deferred(Mutex<Vec<Block>>);

impl Deferred {
    fn lock(&self) -> MutexGuard<'_, Vec<Block>> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a block, whose uses end by themselves, until they have.
    pub(super) fn keep(&self, block: Block) {
        self.lock().push(block);
    }

    /// Frees the blocks that nothing uses any more. What cannot be freed stays for the next time.
    pub(super) fn reap(&self, current: &Current<'_>) {
        self.lock().retain_mut(|block| {
            // SAFETY: kept by its last owner, and its uses are over.
            !(block.is_unused(current) && unsafe { free(current, block) }.is_ok())
        });
    }

    /// Frees them, each after waiting for its own uses; whether the context may go. A block of which it cannot be known
    /// that its uses are over is not freed, and keeps the context if another device may still use it.
    pub(super) fn drain(&self, current: &Current<'_>) -> bool {
        let mut context_may_go = true;
        self.lock().retain(|block| {
            let over = block.settle();
            context_may_go &= over || block.is_used_at_home(current.context());
            // SAFETY: kept by its last owner, and its uses are over.
            !(over && unsafe { free(current, block) }.is_ok())
        });
        context_may_go
    }

    /// Bytes that are kept, as they were asked for.
    pub(super) fn nbytes(&self) -> u64 {
        self.lock().iter().map(|block| block.nbytes).sum()
    }
}

/// # Safety
/// The block is in nobody's hands, and no work uses it.
unsafe fn free(current: &Current<'_>, block: &Block) -> Result<(), DeviceError> {
    // SAFETY: by this function's contract.
    unsafe { current.free(block.driver_address) }
}
