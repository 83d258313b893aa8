//! One owned block of device memory.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

use et_device::{
    Alignment, AllocationRequest, AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceError,
    DeviceSpan, DeviceToHost, HostToDevice, SpanError,
};

/// Owns a block of device memory and frees it once, through the allocator it came from.
///
/// ```
/// use et_device::{Device, DeviceError};
/// use et_memory::DeviceMemoryBuffer;
///
/// // Without a linked allocator for the device this is an error, and with one (`use et_cuda as _;`) a buffer.
/// let result = DeviceMemoryBuffer::create(1024, Device::cuda(0).unwrap());
/// assert!(matches!(result, Err(DeviceError::NoAllocator { .. })));
/// ```
#[derive(Debug)]
pub struct DeviceMemoryBuffer {
    allocator: AllocatorHandle,
    device: Device,
    alignment: Alignment,
    /// `None` for 0 bytes: allocators are never asked for nothing.
    block: Option<DeviceSpan>,
}

impl DeviceMemoryBuffer {
    /// `nbytes` bytes on `device`, from the process-wide registry, aligned to [`Alignment::DEVICE`].
    /// The contents are unspecified.
    ///
    /// # Errors
    /// [`DeviceError::NoAllocator`] if none is registered or linked for the device's type, or the allocator's.
    pub fn create(nbytes: u64, device: Device) -> Result<Self, DeviceError> {
        Self::create_in(
            DeviceAllocatorRegistry::global(),
            nbytes,
            device,
            Alignment::DEVICE,
        )
    }

    /// `nbytes` bytes on `device`, from `registry`, aligned to `alignment`. The contents are unspecified.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    #[inline]
    pub fn create_in(
        registry: &DeviceAllocatorRegistry,
        nbytes: u64,
        device: Device,
        alignment: Alignment,
    ) -> Result<Self, DeviceError> {
        let allocator = registry.require(device)?;
        let request = |nbytes| AllocationRequest::new(device.index(), nbytes).aligned_to(alignment);
        let block = match NonZeroU64::new(nbytes) {
            Some(nbytes) => Some(allocator.allocate(&request(nbytes))?),
            None => None,
        };
        Ok(Self {
            allocator: allocator.clone(),
            device,
            alignment,
            block,
        })
    }

    /// As [`create_in`](Self::create_in), with every byte 0.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn zeroed_in(
        registry: &DeviceAllocatorRegistry,
        nbytes: u64,
        device: Device,
        alignment: Alignment,
    ) -> Result<Self, DeviceError> {
        let mut buffer = Self::create_in(registry, nbytes, device, alignment)?;
        buffer.fill(0)?;
        Ok(buffer)
    }

    /// The device the block is on.
    pub fn device(&self) -> Device {
        self.device
    }

    /// In bytes.
    pub fn nbytes(&self) -> u64 {
        self.block.map_or(0, DeviceSpan::len)
    }

    /// What the block's address is a multiple of.
    pub fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// The block; `None` if the buffer holds 0 bytes.
    pub fn span(&self) -> Option<DeviceSpan> {
        self.block
    }

    /// The allocator that owns the block.
    pub fn allocator(&self) -> &AllocatorHandle {
        &self.allocator
    }

    /// Copies `src` to the bytes that start `offset_bytes` into the buffer.
    ///
    /// # Errors
    /// [`DeviceError::Span`] if they are not all inside, or the allocator's.
    pub fn write(&mut self, offset_bytes: u64, src: &[u8]) -> Result<(), DeviceError> {
        let Some(dst) = self.part(offset_bytes, src)? else {
            return Ok(());
        };
        let copy = HostToDevice::new(self.device.index(), dst, src)?;
        // SAFETY: `dst` is a part of the live block, and `&mut self` excludes other users of it.
        unsafe { self.allocator.copy_host_to_device(copy) }
    }

    /// Copies the bytes that start `offset_bytes` into the buffer to `dst`.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn read(&self, offset_bytes: u64, dst: &mut [u8]) -> Result<(), DeviceError> {
        let Some(src) = self.part(offset_bytes, dst)? else {
            return Ok(());
        };
        let copy = DeviceToHost::new(self.device.index(), dst, src)?;
        // SAFETY: `src` is a part of the live block, and `&self` excludes writers.
        unsafe { self.allocator.copy_device_to_host(copy) }
    }

    /// Sets every byte to `value`.
    ///
    /// # Errors
    /// The allocator's.
    pub fn fill(&mut self, value: u8) -> Result<(), DeviceError> {
        let Some(block) = self.block else {
            return Ok(());
        };
        // SAFETY: the block is live, and `&mut self` excludes other users of it.
        unsafe { self.allocator.fill(block, value, self.device.index()) }
    }

    /// Gives the block back now, and says whether that worked. Dropping the buffer does the same, but can only log.
    ///
    /// # Errors
    /// The allocator's. The block is lost then.
    #[inline]
    pub fn free(mut self) -> Result<(), DeviceError> {
        self.release()
    }

    /// The part of the block that faces `host`; `None` if that is empty.
    fn part(&self, offset_bytes: u64, host: &[u8]) -> Result<Option<DeviceSpan>, SpanError> {
        let len = u64::try_from(host.len()).unwrap_or(u64::MAX);
        let outside = SpanError::OutOfRange {
            offset: offset_bytes,
            len,
            available: self.nbytes(),
        };
        let inside = offset_bytes
            .checked_add(len)
            .is_some_and(|end| end <= self.nbytes());
        if !inside {
            return Err(outside);
        }
        if len == 0 {
            return Ok(None);
        }
        self.block
            .map(|block| block.subspan(offset_bytes, len))
            .transpose()
    }

    #[inline]
    fn release(&mut self) -> Result<(), DeviceError> {
        let Some(block) = self.block.take() else {
            return Ok(());
        };
        // SAFETY: the block came from this allocator and index, is live by the type's invariant, and was just taken
        // out of the only value that owns it. Users of its span must have stopped before the owner goes.
        let freed = unsafe { self.allocator.deallocate(block, self.device.index()) };
        if freed.is_err() {
            FAILED_FREES.fetch_add(1, Ordering::Relaxed);
        }
        freed
    }
}

impl Drop for DeviceMemoryBuffer {
    #[inline]
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            log_failed_free(self.device, error);
        }
    }
}

#[cold]
fn log_failed_free(_device: Device, _error: DeviceError) {
    #[cfg(feature = "std")]
    tracing::error!(device = %_device, error = %_error, "a device buffer could not be freed");
}

static FAILED_FREES: AtomicU64 = AtomicU64::new(0);

/// How many device buffers of this process could not be freed, so far.
pub fn failed_frees() -> u64 {
    FAILED_FREES.load(Ordering::Relaxed)
}
