//! The allocator: finds the device, and has it do the work.

use crate::device::DeviceState;
use crate::driver::driver;
use crate::options::CudaOptions;
use crate::statistics::CudaStatistics;
use et_device::{
    AllocationRequest, Device, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan,
    DeviceToDevice, DeviceToHost, DeviceType, HostToDevice, MemoryInfo, StreamHandle,
};
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Allocates CUDA memory and copies it.
///
/// A device is set up at its first use: its primary context is retained, and it gets three streams and a pool. All of that
/// is given back when the allocator is dropped, unless blocks are still out: their memory then stays as it is. Pinned
/// buffers, transfers and events outlive the allocator.
///
/// Blocks are aligned to 256 bytes, or as strictly as asked for. Addresses are those of CUDA's unified address space, and
/// the context is the primary one, so CUDA libraries and other users of the device can work with the memory.
///
/// Stream handles are `CUstream`s as numbers; 0 is the NULL stream, 2 the calling thread's. Other streams must belong to
/// the device's primary context, which is checked.
///
/// ```no_run
/// use et_cuda::CudaAllocator;
/// use et_device::{AllocationRequest, DeviceAllocator, DeviceIndex};
/// use std::num::NonZeroU64;
///
/// let cuda = CudaAllocator::new();
/// let index = DeviceIndex::ZERO;
/// let block = cuda.allocate(&AllocationRequest::new(index, NonZeroU64::new(1024).unwrap()))?;
/// // SAFETY: the block came from this allocator and this device, and nothing uses it.
/// unsafe { cuda.deallocate(block, index)? };
/// # Ok::<(), et_device::DeviceError>(())
/// ```
pub struct CudaAllocator {
    options: CudaOptions,
    devices: OnceLock<Box<[Slot]>>,
}

/// A device's place in the table. The lock is held while the device is set up, and at no other time.
#[derive(Default)]
struct Slot {
    state: OnceLock<DeviceState>,
    setup: Mutex<()>,
}

impl CudaAllocator {
    /// An allocator with the default options. Opens nothing.
    pub const fn new() -> Self {
        Self::with_options(CudaOptions::new())
    }

    /// An allocator with options. Opens nothing.
    pub const fn with_options(options: CudaOptions) -> Self {
        CudaAllocator {
            options,
            devices: OnceLock::new(),
        }
    }

    /// What was done on a device so far, and what is held there.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`], [`DeviceError::NoSuchDevice`], or the driver's.
    pub fn statistics(&self, index: DeviceIndex) -> Result<CudaStatistics, DeviceError> {
        self.state(index)?.statistics()
    }

    /// The blocks of a device that are out, by address: to tell what was not given back.
    ///
    /// # Errors
    /// As for [`statistics`](Self::statistics).
    pub fn live_blocks(&self, index: DeviceIndex) -> Result<Vec<DeviceSpan>, DeviceError> {
        Ok(self.state(index)?.live_blocks())
    }

    /// Gives unused memory of a device's pool back to the system, down to `keep_bytes`. Waits for the uses of blocks that
    /// were given back, except for those that went back on a stream of the caller's.
    ///
    /// # Errors
    /// As for [`statistics`](Self::statistics).
    pub fn trim(&self, index: DeviceIndex, keep_bytes: u64) -> Result<(), DeviceError> {
        self.state(index)?.trim(keep_bytes)
    }

    fn slots(&self) -> Result<&[Slot], DeviceError> {
        if let Some(slots) = self.devices.get() {
            return Ok(slots);
        }
        let count = driver()?.device_count()?;
        Ok(self
            .devices
            .get_or_init(|| (0..count).map(|_| Slot::default()).collect()))
    }

    /// The device, set up. A failure to do so is not remembered.
    pub(crate) fn state(&self, index: DeviceIndex) -> Result<&DeviceState, DeviceError> {
        let slots = self.slots()?;
        let slot =
            slots
                .get(usize::from(index.get()))
                .ok_or_else(|| DeviceError::NoSuchDevice {
                    device_type: DeviceType::CUDA,
                    index,
                    count: u32::try_from(slots.len()).unwrap_or(u32::MAX),
                })?;
        match slot.state.get() {
            Some(state) => Ok(state),
            None => self.set_up(slot, index),
        }
    }

    #[cold]
    fn set_up<'a>(
        &self,
        slot: &'a Slot,
        index: DeviceIndex,
    ) -> Result<&'a DeviceState, DeviceError> {
        let _setting_up = slot.setup.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = slot.state.get() {
            return Ok(state);
        }
        let device = Device::new(DeviceType::CUDA, index);
        let state = DeviceState::open(driver()?, device, self.options)?;
        Ok(slot.state.get_or_init(|| state))
    }
}

impl Default for CudaAllocator {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CudaAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaAllocator")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for CudaAllocator {
    fn drop(&mut self) {
        let slots = self.devices.take().unwrap_or_default();
        for state in slots.into_iter().filter_map(|slot| slot.state.into_inner()) {
            if state.has_live_blocks() {
                // A block stays usable until it is given back, and this one never was.
                std::mem::forget(state);
            }
        }
    }
}

// SAFETY: blocks come from the driver, which gives no byte out twice; `aligned_part` in the device module cuts the span
// out of such a block, exactly as long and as aligned as requested. Memory outlives this allocator while blocks are out
// (see `Drop`). Copies pass exactly the given ranges on, and the synchronous ones wait for the driver to be done.
unsafe impl DeviceAllocator for CudaAllocator {
    fn device_type(&self) -> DeviceType {
        DeviceType::CUDA
    }

    fn device_count(&self) -> Result<u32, DeviceError> {
        Ok(driver()?.device_count()?)
    }

    fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
        self.state(request.index)?.allocate(request)
    }

    unsafe fn deallocate(&self, block: DeviceSpan, index: DeviceIndex) -> Result<(), DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this method's contract.
        unsafe { state.deallocate(block) }
    }

    unsafe fn copy_host_to_device(&self, copy: HostToDevice<'_>) -> Result<(), DeviceError> {
        let state = self.state(copy.index)?;
        // SAFETY: by this method's contract.
        unsafe { state.copy_in(copy.dst, copy.src) }
    }

    unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError> {
        let state = self.state(copy.index)?;
        // SAFETY: by this method's contract.
        unsafe { state.copy_out(copy.dst, copy.src) }
    }

    unsafe fn copy_device_to_device(&self, copy: DeviceToDevice) -> Result<(), DeviceError> {
        let (from, to) = (self.state(copy.src_index)?, self.state(copy.dst_index)?);
        // SAFETY: by this method's contract.
        unsafe { from.copy_to(to, copy.dst, copy.src) }
    }

    unsafe fn fill(
        &self,
        dst: DeviceSpan,
        value: u8,
        index: DeviceIndex,
    ) -> Result<(), DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this method's contract.
        unsafe { state.fill(dst, value) }
    }

    /// `free` includes what this allocator's pool holds without using it.
    fn memory_info(&self, index: DeviceIndex) -> Result<MemoryInfo, DeviceError> {
        self.state(index)?.memory_info()
    }

    fn describe(&self, index: DeviceIndex, out: &mut dyn fmt::Write) -> Result<(), DeviceError> {
        let name = self.state(index)?.name()?;
        // A full buffer cuts the name short; that is no failure of the device.
        let _ = out.write_str(&name);
        Ok(())
    }

    fn synchronize(&self, index: DeviceIndex) -> Result<(), DeviceError> {
        self.state(index)?.synchronize()
    }

    unsafe fn synchronize_stream(
        &self,
        index: DeviceIndex,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this method's contract.
        unsafe { state.synchronize_stream(stream) }
    }

    unsafe fn allocate_on(
        &self,
        request: &AllocationRequest,
        stream: StreamHandle,
    ) -> Result<DeviceSpan, DeviceError> {
        let state = self.state(request.index)?;
        // SAFETY: by this method's contract.
        unsafe { state.allocate_on(request, stream) }
    }

    unsafe fn deallocate_on(
        &self,
        block: DeviceSpan,
        index: DeviceIndex,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let state = self.state(index)?;
        // SAFETY: by this method's contract.
        unsafe { state.deallocate_on(block, stream) }
    }

    unsafe fn copy_host_to_device_on(
        &self,
        copy: HostToDevice<'_>,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let state = self.state(copy.index)?;
        // SAFETY: by this method's contract.
        unsafe { state.copy_in_on(copy.dst, copy.src, stream) }
    }

    unsafe fn copy_device_to_host_on(
        &self,
        copy: DeviceToHost<'_>,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let state = self.state(copy.index)?;
        // SAFETY: by this method's contract.
        unsafe { state.copy_out_on(copy.dst, copy.src, stream) }
    }

    unsafe fn copy_device_to_device_on(
        &self,
        copy: DeviceToDevice,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let (from, to) = (self.state(copy.src_index)?, self.state(copy.dst_index)?);
        // SAFETY: by this method's contract.
        unsafe { from.copy_to_on(to, copy.dst, copy.src, stream) }
    }
}
