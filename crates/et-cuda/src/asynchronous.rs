//! What the CUDA allocator offers beyond the contract: pinned memory, copies that run by themselves, events.

use crate::allocator::CudaAllocator;
use crate::caller_stream::CallerStream;
use crate::device::DeviceState;
use crate::event::CudaEvent;
use crate::own_stream::CudaStream;
use crate::pinned::{PinnedBuffer, PinnedKind};
use crate::transfer::{RefusedTransfer, Transfer};
use et_device::{DeviceError, DeviceIndex, DeviceSpan, StreamHandle};

/// # Copies that run by themselves
///
/// A copy that is only queued must find its host memory as it was when it runs. [`upload`](Self::upload) and
/// [`download`](Self::download) therefore take a pinned buffer and hold it until the copy is done;
/// [`upload_staged`](Self::upload_staged) and [`download_staged`](Self::download_staged) work on any host memory, by way
/// of pinned memory of the allocator's. The device's side is kept as well: a block of this allocator is not freed under
/// such a copy, even if it is given back before the copy is done.
///
/// ```no_run
/// use et_cuda::CudaAllocator;
/// use et_device::{AllocationRequest, DeviceAllocator, DeviceIndex};
/// use std::num::NonZeroU64;
///
/// let (cuda, index) = (CudaAllocator::new(), DeviceIndex::ZERO);
/// let stream = cuda.create_stream(index)?;
/// let block = cuda.allocate(&AllocationRequest::new(index, NonZeroU64::new(1024).unwrap()))?;
/// let mut buffer = cuda.pinned(index, 1024)?;
/// buffer.fill(7);
/// // SAFETY: the block is live, only this copy uses it, and so is the stream.
/// let up = unsafe { cuda.upload(index, block, buffer, 0, stream.handle())? };
/// // … other work of the host …
/// let buffer = up.wait()?; // to be filled again
/// # // SAFETY: the block is ours, and nothing uses it.
/// # unsafe { cuda.deallocate(block, index)? };
/// # drop(buffer);
/// # Ok::<(), et_device::DeviceError>(())
/// ```
impl CudaAllocator {
    /// Pinned host memory for copies with a device, zeroed.
    ///
    /// # Errors
    /// The driver's if there is not so much, [`DeviceError::Unavailable`], or [`DeviceError::NoSuchDevice`].
    pub fn pinned(&self, index: DeviceIndex, nbytes: usize) -> Result<PinnedBuffer, DeviceError> {
        self.state(index)?.pinned(nbytes, PinnedKind::Cached)
    }

    /// Pinned host memory that the processor does not cache: only for bytes that the host writes, in order, and never
    /// reads. Reading it is very slow. On some machines copies from it are slower, too; measure before using it.
    ///
    /// # Errors
    /// As for [`pinned`](Self::pinned).
    pub fn pinned_write_combined(
        &self,
        index: DeviceIndex,
        nbytes: usize,
    ) -> Result<PinnedBuffer, DeviceError> {
        self.state(index)?.pinned(nbytes, PinnedKind::WriteCombined)
    }

    /// A stream of a device.
    ///
    /// # Errors
    /// The driver's, [`DeviceError::Unavailable`], or [`DeviceError::NoSuchDevice`].
    pub fn create_stream(&self, index: DeviceIndex) -> Result<CudaStream, DeviceError> {
        self.state(index)?.create_stream()
    }

    /// Queues a copy of `dst.len()` bytes from `src`, from `offset` on, to the device.
    ///
    /// # Errors
    /// [`DeviceError::Length`] if `src` has not so many bytes, or the driver's; with the buffer.
    ///
    /// # Safety
    /// `dst` lies inside a live block of device `index`, and nothing but work behind the copy on `stream` uses those
    /// bytes until the copy is done. The block may be given back before. `stream` is a live stream of the device.
    pub unsafe fn upload(
        &self,
        index: DeviceIndex,
        dst: DeviceSpan,
        src: PinnedBuffer,
        offset: usize,
        stream: StreamHandle,
    ) -> Result<Transfer, RefusedTransfer> {
        held(self.state(index), src, |state, src| {
            // SAFETY: by this function's contract; `held` keeps the buffer until the copy is done.
            unsafe { state.upload(dst, src, offset, stream) }
        })
    }

    /// Queues a copy of `src.len()` bytes from the device to `dst`, from `offset` on.
    ///
    /// # Errors
    /// [`DeviceError::Length`] if `dst` has not so many bytes, or the driver's; with the buffer.
    ///
    /// # Safety
    /// `src` lies inside a live block of device `index`, and nothing but work behind the copy on `stream` writes those
    /// bytes until the copy is done. The block may be given back before. `stream` is a live stream of the device.
    pub unsafe fn download(
        &self,
        index: DeviceIndex,
        dst: PinnedBuffer,
        offset: usize,
        src: DeviceSpan,
        stream: StreamHandle,
    ) -> Result<Transfer, RefusedTransfer> {
        held(self.state(index), dst, |state, dst| {
            // SAFETY: by this function's contract; `held` keeps the buffer until the copy is done.
            unsafe { state.download(dst, offset, src, stream) }
        })
    }

    /// Queues a copy of any host memory to the device. `src` may change or go as soon as this returns: its bytes are
    /// then in the allocator's ring of pinned chunks. Waits when the ring is full, so a copy larger than the ring
    /// returns when its last chunks are under way.
    ///
    /// # Errors
    /// [`DeviceError::Length`] if the lengths differ, or the driver's. Then no copy is under way, and `dst` holds
    /// unspecified bytes.
    ///
    /// # Safety
    /// As for [`upload`](Self::upload).
    pub unsafe fn upload_staged(
        &self,
        index: DeviceIndex,
        dst: DeviceSpan,
        src: &[u8],
        stream: StreamHandle,
    ) -> Result<CudaEvent, DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this function's contract.
        unsafe { state.upload_staged(dst, src, stream) }
    }

    /// Copies device memory to any host memory behind the work that is queued on `stream`, and waits for it. The host
    /// takes one chunk out of the ring while the device fills the next. A device has one ring, so its other staged copies
    /// wait meanwhile: the work on `stream` must not wait for a thread that is to make one.
    ///
    /// # Errors
    /// As for [`upload_staged`](Self::upload_staged).
    ///
    /// # Safety
    /// `src` lies inside a live block of device `index`, and nothing writes those bytes meanwhile. `stream` is a live
    /// stream of the device.
    pub unsafe fn download_staged(
        &self,
        index: DeviceIndex,
        dst: &mut [u8],
        src: DeviceSpan,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this function's contract.
        unsafe { state.download_staged(dst, src, stream) }
    }

    /// An event behind all work that is queued on `stream` now.
    ///
    /// # Errors
    /// The driver's, or [`DeviceError::NoSuchDevice`].
    ///
    /// # Safety
    /// `stream` is a live stream of device `index`.
    pub unsafe fn record(
        &self,
        index: DeviceIndex,
        stream: StreamHandle,
    ) -> Result<CudaEvent, DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this function's contract.
        unsafe { state.record(stream) }
    }

    /// Has work that is queued on `stream` from now on wait for an event, which may be of another device.
    ///
    /// # Errors
    /// The driver's, or [`DeviceError::NoSuchDevice`].
    ///
    /// # Safety
    /// `stream` is a live stream of device `index`.
    pub unsafe fn wait_for(
        &self,
        index: DeviceIndex,
        stream: StreamHandle,
        event: &CudaEvent,
    ) -> Result<(), DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this function's contract.
        unsafe { state.wait_for(stream, event) }
    }

    /// Tells that work queued on `stream` so far uses the block that holds `part`. Whoever gives the block back need
    /// not wait for that work, nor know of it: the memory is used again only behind it. The stream itself may be
    /// destroyed before.
    ///
    /// # Errors
    /// [`DeviceError::UnknownBlock`] if no live block of this allocator holds `part`, or the driver's.
    ///
    /// # Safety
    /// `stream` is a live stream of device `index`.
    pub unsafe fn record_use(
        &self,
        part: DeviceSpan,
        index: DeviceIndex,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this function's contract.
        unsafe { state.record_use(part, stream) }
    }

    /// Tells that what `event` stands for uses the block that holds `part`, as [`record_use`](Self::record_use) does. The
    /// event may be of another device: of the one from which the block is copied to, say.
    ///
    /// # Errors
    /// As there.
    pub fn keep_until(
        &self,
        part: DeviceSpan,
        index: DeviceIndex,
        event: &CudaEvent,
    ) -> Result<(), DeviceError> {
        self.state(index)?.keep_until(part, event)
    }

    /// Has the calling thread's synchronous copies and fills on a device happen on `stream`, as long as the guard lives.
    ///
    /// # Errors
    /// The driver's if the stream belongs to another device or context, or [`DeviceError::NoSuchDevice`].
    ///
    /// # Safety
    /// `stream` is a live stream, until the guard is dropped.
    pub unsafe fn select_stream(
        &self,
        index: DeviceIndex,
        stream: StreamHandle,
    ) -> Result<CallerStream, DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this function's contract.
        unsafe { state.check_stream(stream)? };
        Ok(CallerStream::select(index, stream))
    }
}

/// A transfer that holds the buffer, or the buffer with the reason why there is none.
fn held(
    state: Result<&DeviceState, DeviceError>,
    buffer: PinnedBuffer,
    queue: impl FnOnce(&DeviceState, &PinnedBuffer) -> Result<CudaEvent, DeviceError>,
) -> Result<Transfer, RefusedTransfer> {
    let refused = |error, buffer| Err(RefusedTransfer { error, buffer });
    let state = match state {
        Ok(state) => state,
        Err(error) => return refused(error, Some(buffer)),
    };
    match queue(state, &buffer) {
        Ok(done) => Ok(Transfer::new(buffer, done)),
        Err(error) if state.is_poisoned() => {
            std::mem::forget(buffer);
            refused(error, None)
        }
        Err(error) => refused(error, Some(buffer)),
    }
}
