//! An allocator of one's own, and a buffer from it: `cargo run -p et-memory --example allocator`.
//!
//! Its one device is a pool of ordinary memory of a fixed size, from which blocks are taken first fit. Addresses of the device
//! are numbers of its own: nobody can touch the bytes but through the allocator, as with a real device.
#![expect(
    clippy::print_stdout,
    reason = "the checks are what this program is for"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use et_device::conformance::CHECKS;
use et_device::{
    Alignment, AllocationRequest, AllocatorHandle, Device, DeviceAllocator,
    DeviceAllocatorRegistry, DeviceError, DeviceIndex, DevicePtr, DeviceSpan, DeviceToHost,
    DeviceType, HostToDevice, MemoryInfo,
};
use et_memory::DeviceMemoryBuffer;

/// Where the device's addresses begin; aligned to any power of two that the pool can satisfy.
const BASE: u64 = 1 << 40;

/// A pool of memory that is a device.
pub(crate) struct PoolAllocator {
    device_type: DeviceType,
    pool: Mutex<Pool>,
}

/// The memory, and the blocks in it: the end of each by its start. Both count from the start of the pool.
struct Pool {
    bytes: Vec<u8>,
    blocks: BTreeMap<u64, u64>,
}

impl PoolAllocator {
    /// A device of `nbytes` bytes.
    pub(crate) fn new(device_type: DeviceType, nbytes: usize) -> Self {
        let (bytes, blocks) = (vec![0; nbytes], BTreeMap::new());
        Self {
            device_type,
            pool: Mutex::new(Pool { bytes, blocks }),
        }
    }

    /// The pool of the only device.
    fn pool(&self, index: DeviceIndex) -> Result<MutexGuard<'_, Pool>, DeviceError> {
        if index != DeviceIndex::ZERO {
            return Err(DeviceError::NoSuchDevice {
                device_type: self.device_type,
                index,
                count: 1,
            });
        }
        Ok(self.pool.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn device(&self, index: DeviceIndex) -> Device {
        Device::new(self.device_type, index)
    }

    /// The error for bytes that are not in one block.
    fn outside(&self, span: DeviceSpan, index: DeviceIndex) -> DeviceError {
        DeviceError::OutOfBounds {
            device: self.device(index),
            address: span.base(),
            nbytes: span.len(),
        }
    }
}

impl Pool {
    fn nbytes(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }

    fn free(&self) -> u64 {
        let used: u64 = self.blocks.iter().map(|(start, end)| end - start).sum();
        self.nbytes() - used
    }

    /// The first gap between blocks that is large enough.
    fn first_fit(&self, nbytes: u64, alignment: Alignment) -> Option<(u64, u64)> {
        let ends = std::iter::once(0).chain(self.blocks.values().copied());
        let starts = self.blocks.keys().copied().chain([self.nbytes()]);
        ends.zip(starts).find_map(|(gap, limit)| {
            let start = alignment.round_up(gap)?;
            let end = start.checked_add(nbytes)?;
            (end <= limit).then_some((start, end))
        })
    }

    /// The bytes of a part of one live block.
    fn part(&mut self, span: DeviceSpan) -> Option<&mut [u8]> {
        let start = span.base().get().checked_sub(BASE)?;
        let end = start.checked_add(span.len())?;
        let (_, limit) = self.blocks.range(..=start).next_back()?;
        if end > *limit {
            return None;
        }
        let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
        self.bytes.get_mut(range)
    }
}

// SAFETY: `first_fit` gives gaps between live blocks, as long and as aligned as asked for (`BASE` is a multiple of every
// alignment that fits the pool); a block stays in the table until it is given back; copies touch what `part` gives, which is the
// named bytes of one block, and copy all of them.
unsafe impl DeviceAllocator for PoolAllocator {
    fn device_type(&self) -> DeviceType {
        self.device_type
    }

    fn device_count(&self) -> Result<u32, DeviceError> {
        Ok(1)
    }

    fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
        let mut pool = self.pool(request.index)?;
        let (nbytes, alignment) = (request.nbytes.get(), request.alignment);
        let full = DeviceError::OutOfMemory {
            device: self.device(request.index),
            requested: nbytes,
            free: pool.free(),
            total: pool.nbytes(),
        };
        if !alignment.divides(BASE) {
            let (device_type, requested) = (self.device_type, alignment);
            return Err(DeviceError::UnsupportedAlignment {
                device_type,
                requested,
            });
        }
        let (start, end) = pool.first_fit(nbytes, alignment).ok_or(full)?;
        let base = BASE.checked_add(start).and_then(DevicePtr::new);
        let span = DeviceSpan::new(base.ok_or(full)?, nbytes)?;
        pool.blocks.insert(start, end);
        Ok(span)
    }

    unsafe fn deallocate(&self, block: DeviceSpan, index: DeviceIndex) -> Result<(), DeviceError> {
        let mut pool = self.pool(index)?;
        let unknown = DeviceError::UnknownBlock {
            device: self.device(index),
            address: block.base(),
        };
        let start = block.base().get().checked_sub(BASE).ok_or(unknown)?;
        pool.blocks.remove(&start).map(|_| ()).ok_or(unknown)
    }

    unsafe fn copy_host_to_device(&self, copy: HostToDevice<'_>) -> Result<(), DeviceError> {
        let mut pool = self.pool(copy.index)?;
        let part = pool.part(copy.dst);
        part.ok_or_else(|| self.outside(copy.dst, copy.index))?
            .copy_from_slice(copy.src);
        Ok(())
    }

    unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError> {
        let mut pool = self.pool(copy.index)?;
        let part = pool.part(copy.src);
        copy.dst
            .copy_from_slice(part.ok_or_else(|| self.outside(copy.src, copy.index))?);
        Ok(())
    }

    fn memory_info(&self, index: DeviceIndex) -> Result<MemoryInfo, DeviceError> {
        let pool = self.pool(index)?;
        Ok(MemoryInfo::new(pool.free(), pool.nbytes()))
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let device_type = DeviceType::from_raw(7)?;

    // The contract, as tests: a test module has `et_device::conformance::tests!(make)` instead.
    for (name, check) in CHECKS {
        check(&PoolAllocator::new(device_type, 16 << 20));
        println!("ok {name}");
    }

    // Once it is registered, buffers and programs find it. `link_allocator!` does that for everyone who links a crate.
    let allocator = Arc::new(PoolAllocator::new(device_type, 4096));
    let registry = DeviceAllocatorRegistry::new();
    registry.register(AllocatorHandle::from(Arc::clone(&allocator)))?;
    let device = Device::new(device_type, DeviceIndex::ZERO);
    let mut buffer = DeviceMemoryBuffer::zeroed_in(&registry, 1000, device, Alignment::DEVICE)?;
    buffer.write(10, b"on the device")?;
    let mut bytes = [0; 13];
    buffer.read(10, &mut bytes)?;
    println!("{:?}: {}", buffer.span(), String::from_utf8_lossy(&bytes));
    buffer.free()?;
    match allocator.memory_info(DeviceIndex::ZERO)? {
        info if info.free == info.total && &bytes == b"on the device" => Ok(()),
        info => Err(format!("{info:?} after everything was given back").into()),
    }
}
