//! Devices, spans, an allocator and a registry, with neither `std` nor `alloc` nor any heap.
#![no_std]
#![no_main]

mod system;

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use et_device::{
    AllocationRequest, AllocatorHandle, Device, DeviceAllocator, DeviceAllocatorRegistry,
    DeviceError, DeviceIndex, DevicePtr, DeviceSpan, DeviceToHost, DeviceType, HostToDevice,
};

/// A device whose memory is one byte, which every block is.
struct OneByte(AtomicU64);

// SAFETY: this program writes and reads one block at a time.
unsafe impl DeviceAllocator for OneByte {
    fn device_type(&self) -> DeviceType {
        DeviceType::CUDA
    }
    fn device_count(&self) -> Result<u32, DeviceError> {
        Ok(1)
    }
    fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
        let base = DevicePtr::new(request.alignment.get()).ok_or_else(|| self.unsupported("0"))?;
        Ok(DeviceSpan::new(base, request.nbytes.get())?)
    }
    unsafe fn deallocate(&self, _: DeviceSpan, _: DeviceIndex) -> Result<(), DeviceError> {
        Ok(())
    }
    unsafe fn copy_host_to_device(&self, copy: HostToDevice<'_>) -> Result<(), DeviceError> {
        self.0.store(copy.src[0].into(), Ordering::Relaxed);
        Ok(())
    }
    unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError> {
        copy.dst
            .fill(self.0.load(Ordering::Relaxed).to_le_bytes()[0]);
        Ok(())
    }
}

static ALLOCATOR: OneByte = OneByte(AtomicU64::new(0));

#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    let device: Device = "cuda:0".parse().unwrap();
    let registry = DeviceAllocatorRegistry::global();
    assert!(matches!(
        registry.require(device),
        Err(DeviceError::NoAllocator { .. })
    ));
    et_device::register_device_allocator(AllocatorHandle::from_static(&ALLOCATOR)).unwrap();
    let allocator = registry.require(device).unwrap();
    let request = AllocationRequest::new(device.index(), core::num::NonZeroU64::MIN);
    let block = allocator.allocate(&request).unwrap();
    let mut byte = [0];
    // SAFETY: the block is live, and nothing else uses it.
    unsafe { allocator.fill(block, 7, device.index()) }.unwrap();
    let fetch = DeviceToHost::new(device.index(), &mut byte, block).unwrap();
    // SAFETY: as above.
    unsafe { allocator.copy_device_to_host(fetch) }.unwrap();
    assert!(byte == [7] && block.subspan(1, 1).is_err());
    system::say(c"et-device works without std and alloc");
    0
}
