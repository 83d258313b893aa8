//! What the tests of this crate share: owned blocks, patterns, and streams made by somebody else.
#![allow(dead_code, reason = "each test binary uses its part")]

use cudarc::driver::{CudaContext, CudaStream};
use et_cuda::{CudaAllocator, CudaEvent, PinnedBuffer, RefusedTransfer, Transfer};
use et_device::{
    Alignment, AllocationRequest, Device, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan,
    DeviceToDevice, DeviceToHost, HostToDevice, StreamHandle,
};
use std::num::NonZeroU64;
use std::sync::Arc;

pub(crate) fn index(ordinal: usize) -> DeviceIndex {
    DeviceIndex::new(u8::try_from(ordinal).unwrap()).unwrap()
}

pub(crate) fn cuda(ordinal: usize) -> Device {
    Device::cuda(index(ordinal).get()).unwrap()
}

pub(crate) fn request(ordinal: usize, nbytes: u64) -> AllocationRequest {
    AllocationRequest::new(index(ordinal), NonZeroU64::new(nbytes).unwrap())
}

/// Bytes that differ from their neighbours and from one `seed` to the next.
pub(crate) fn pattern(nbytes: usize, seed: u8) -> Vec<u8> {
    (0..nbytes)
        .map(|i| (i * 7 + i / 251) as u8 ^ seed)
        .collect()
}

/// A block that is freed when dropped.
pub(crate) struct Block<'a> {
    allocator: &'a CudaAllocator,
    ordinal: usize,
    span: DeviceSpan,
}

impl<'a> Block<'a> {
    pub(crate) fn new(
        allocator: &'a CudaAllocator,
        ordinal: usize,
        nbytes: u64,
    ) -> Result<Self, DeviceError> {
        Self::aligned(allocator, ordinal, nbytes, Alignment::DEVICE)
    }

    pub(crate) fn aligned(
        allocator: &'a CudaAllocator,
        ordinal: usize,
        nbytes: u64,
        alignment: Alignment,
    ) -> Result<Self, DeviceError> {
        let span = allocator.allocate(&request(ordinal, nbytes).aligned_to(alignment))?;
        Ok(Block {
            allocator,
            ordinal,
            span,
        })
    }

    pub(crate) fn on_stream(
        allocator: &'a CudaAllocator,
        ordinal: usize,
        nbytes: u64,
        stream: StreamHandle,
    ) -> Result<Self, DeviceError> {
        // SAFETY: the tests pass streams that live as long as the test.
        let span = unsafe { allocator.allocate_on(&request(ordinal, nbytes), stream)? };
        Ok(Block {
            allocator,
            ordinal,
            span,
        })
    }

    pub(crate) fn span(&self) -> DeviceSpan {
        self.span
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), DeviceError> {
        let copy = HostToDevice::new(index(self.ordinal), self.span, bytes)?;
        // SAFETY: this block is live and nothing else uses it.
        unsafe { self.allocator.copy_host_to_device(copy) }
    }

    pub(crate) fn write_on(&self, bytes: &[u8], stream: StreamHandle) -> Result<(), DeviceError> {
        let copy = HostToDevice::new(index(self.ordinal), self.span, bytes)?;
        // SAFETY: this block is live; the tests keep `bytes` until they have waited for the stream.
        unsafe { self.allocator.copy_host_to_device_on(copy, stream) }
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0x5A; usize::try_from(self.span.len()).unwrap()];
        let copy = DeviceToHost::new(index(self.ordinal), &mut bytes, self.span)?;
        // SAFETY: this block is live and nothing writes it.
        unsafe { self.allocator.copy_device_to_host(copy)? };
        Ok(bytes)
    }

    pub(crate) fn read_on(
        &self,
        bytes: &mut [u8],
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let copy = DeviceToHost::new(index(self.ordinal), bytes, self.span)?;
        // SAFETY: this block is live; the tests keep `bytes` until they have waited for the stream.
        unsafe { self.allocator.copy_device_to_host_on(copy, stream) }
    }

    pub(crate) fn fill(&self, value: u8) -> Result<(), DeviceError> {
        // SAFETY: this block is live and nothing else uses it.
        unsafe { self.allocator.fill(self.span, value, index(self.ordinal)) }
    }

    pub(crate) fn copy_from(&self, src: &Block<'_>) -> Result<(), DeviceError> {
        // SAFETY: both blocks are live, differ, and nothing else uses them.
        unsafe { self.allocator.copy_device_to_device(self.copy_of(src)?) }
    }

    pub(crate) fn copy_from_on(
        &self,
        src: &Block<'_>,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        // SAFETY: as above, until the test has waited for the stream.
        unsafe {
            self.allocator
                .copy_device_to_device_on(self.copy_of(src)?, stream)
        }
    }

    fn copy_of(&self, src: &Block<'_>) -> Result<DeviceToDevice, DeviceError> {
        let (to, from) = (index(self.ordinal), index(src.ordinal));
        Ok(DeviceToDevice::new((to, self.span), (from, src.span))?)
    }

    /// Queues a copy of a pinned buffer's first bytes.
    pub(crate) fn upload(
        &self,
        from: PinnedBuffer,
        stream: StreamHandle,
    ) -> Result<Transfer, RefusedTransfer> {
        let index = index(self.ordinal);
        // SAFETY: this block is live, and the tests have only work on this stream use it meanwhile.
        unsafe { self.allocator.upload(index, self.span, from, 0, stream) }
    }

    /// Queues a copy to a pinned buffer's first bytes.
    pub(crate) fn download(
        &self,
        to: PinnedBuffer,
        stream: StreamHandle,
    ) -> Result<Transfer, RefusedTransfer> {
        let index = index(self.ordinal);
        // SAFETY: this block is live, and the tests have only work on this stream write it meanwhile.
        unsafe { self.allocator.download(index, to, 0, self.span, stream) }
    }

    pub(crate) fn upload_staged(
        &self,
        bytes: &[u8],
        stream: StreamHandle,
    ) -> Result<CudaEvent, DeviceError> {
        let index = index(self.ordinal);
        // SAFETY: as for `upload`.
        unsafe {
            self.allocator
                .upload_staged(index, self.span, bytes, stream)
        }
    }

    pub(crate) fn download_staged(
        &self,
        bytes: &mut [u8],
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let index = index(self.ordinal);
        // SAFETY: as for `download`.
        unsafe {
            self.allocator
                .download_staged(index, bytes, self.span, stream)
        }
    }

    /// Has the free wait for what is queued on a stream now.
    pub(crate) fn record_use(&self, stream: StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: the tests pass live streams of the device.
        unsafe {
            self.allocator
                .record_use(self.span, index(self.ordinal), stream)
        }
    }

    /// Frees the block and tells how that went.
    pub(crate) fn free(self) -> Result<(), DeviceError> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the block is live, its only owner is gone, and nothing uses it.
        unsafe { this.allocator.deallocate(this.span, index(this.ordinal)) }
    }

    /// Frees the block behind the work on a stream.
    pub(crate) fn free_on(self, stream: StreamHandle) -> Result<(), DeviceError> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the block is live, its only owner is gone, and only work on this stream uses it.
        unsafe {
            this.allocator
                .deallocate_on(this.span, index(this.ordinal), stream)
        }
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // SAFETY: the block is live, this is its only owner, and nothing uses it.
        let freed = unsafe { self.allocator.deallocate(self.span, index(self.ordinal)) };
        // A test that fails already, or a fault that was planned, is not made clearer by another panic.
        let _ = freed;
    }
}

/// Pinned memory that holds these bytes.
pub(crate) fn pinned(
    allocator: &CudaAllocator,
    ordinal: usize,
    bytes: &[u8],
) -> Result<PinnedBuffer, DeviceError> {
    let mut buffer = allocator.pinned(index(ordinal), bytes.len())?;
    buffer.copy_from_slice(bytes);
    Ok(buffer)
}

/// A stream that somebody else made, with what keeps it alive.
pub(crate) struct ForeignStream {
    pub(crate) context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
}

impl ForeignStream {
    pub(crate) fn of(ordinal: usize) -> Self {
        let context = CudaContext::new(ordinal).unwrap();
        let stream = context.new_stream().unwrap();
        ForeignStream { context, stream }
    }

    pub(crate) fn handle(&self) -> StreamHandle {
        StreamHandle::from_raw(self.stream.cu_stream() as u64)
    }

    pub(crate) fn wait(&self) {
        self.stream.synchronize().unwrap();
    }
}

/// The context that is current on this thread, as a number; 0 for none.
pub(crate) fn current_context() -> u64 {
    et_cuda::probe().unwrap();
    cudarc::driver::result::ctx::get_current()
        .unwrap()
        .map_or(0, |c| c as u64)
}

/// Leaves this thread without a context.
pub(crate) fn without_context() {
    et_cuda::probe().unwrap();
    // SAFETY: no context at all is always allowed.
    unsafe { cudarc::driver::result::ctx::set_current(std::ptr::null_mut()) }.unwrap();
}
