//! Copies that are on their way, and the host memory that they hold.

use crate::event::CudaEvent;
use crate::pinned::PinnedBuffer;
use et_device::DeviceError;
use std::fmt;

/// A copy between a device and a pinned buffer, which it owns until the copy is done.
///
/// The bytes are out of reach meanwhile:
///
/// ```compile_fail,E0382
/// # use et_cuda::{CudaAllocator, PinnedBuffer};
/// # use et_device::{DeviceError, DeviceIndex, DeviceSpan, StreamHandle};
/// # fn f(cuda: &CudaAllocator, block: DeviceSpan, mut buffer: PinnedBuffer) -> Result<(), DeviceError> {
/// let stream = StreamHandle::from_raw(2);
/// let up = unsafe { cuda.upload(DeviceIndex::ZERO, block, buffer, 0, stream)? };
/// buffer[0] = 1; // moved into the transfer
/// # drop(up);
/// # Ok(())
/// # }
/// ```
///
/// Dropping it waits. If the driver cannot say that the copy is done, the buffer's memory is never given back, for the
/// device might still use it.
#[derive(Debug)]
#[must_use = "dropping a transfer waits for it"]
pub struct Transfer {
    /// `None` once it was given back.
    buffer: Option<PinnedBuffer>,
    done: CudaEvent,
}

impl Transfer {
    pub(crate) fn new(buffer: PinnedBuffer, done: CudaEvent) -> Self {
        Transfer {
            buffer: Some(buffer),
            done,
        }
    }

    /// Whether the copy is done.
    ///
    /// # Errors
    /// A failure of the queued work, or the driver's.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        self.done.is_done()
    }

    /// Waits for the copy and gives the buffer back.
    ///
    /// # Errors
    /// A failure of the queued work, or the driver's. The buffer is then gone.
    pub fn wait(mut self) -> Result<PinnedBuffer, DeviceError> {
        self.done.wait()?;
        Ok(self
            .buffer
            .take()
            .expect("invariant: a transfer has its buffer until it is waited for"))
    }

    /// The point in the stream behind the copy: for other streams that shall wait for it.
    pub fn event(&self) -> &CudaEvent {
        &self.done
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take()
            && !self.done.settle()
        {
            std::mem::forget(buffer);
        }
    }
}

/// A copy that was not queued, with the buffer that it was to use.
#[non_exhaustive]
pub struct RefusedTransfer {
    /// Why.
    pub error: DeviceError,
    /// As it was before, except for a copy to the host: its bytes are then unspecified. `None` if the driver cannot say
    /// that the device does not use it.
    pub buffer: Option<PinnedBuffer>,
}

impl fmt::Debug for RefusedTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RefusedTransfer").field(&self.error).finish()
    }
}

impl fmt::Display for RefusedTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for RefusedTransfer {}

impl From<RefusedTransfer> for DeviceError {
    fn from(refused: RefusedTransfer) -> Self {
        refused.error
    }
}
