//! A method's planned buffers, and the checked way into them.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use et_device::{Alignment, AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceError};

use crate::{Budget, BufferSpec, DeviceMemoryBuffer, HostBuffer, MemoryError, MemoryPlan, Place};

/// One planned buffer, on the host or on a device. All of it is zero at first.
#[derive(Debug)]
pub enum PlannedBuffer {
    /// In host memory.
    Host(HostBuffer),
    /// On a device.
    Device(DeviceMemoryBuffer),
}

impl PlannedBuffer {
    fn allocate(
        spec: &BufferSpec,
        memory_id: u32,
        registry: &DeviceAllocatorRegistry,
    ) -> Result<Self, MemoryError> {
        let &BufferSpec {
            nbytes,
            device,
            alignment,
        } = spec;
        if device.is_cpu() {
            let failed = |_| MemoryError::HostBuffer { memory_id, nbytes };
            let buffer = HostBuffer::zeroed(nbytes, alignment).map_err(failed)?;
            return Ok(Self::Host(buffer));
        }
        DeviceMemoryBuffer::zeroed_in(registry, nbytes, device, alignment)
            .map(Self::Device)
            .map_err(|source| MemoryError::Buffer {
                memory_id,
                nbytes,
                device,
                source,
            })
    }

    /// Where the whole buffer is; `None` for a device buffer of 0 bytes, which is nowhere.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Host(buffer) => Some(Place::Host(buffer.span())),
            Self::Device(buffer) => buffer
                .span()
                .map(|span| Place::Device(buffer.device(), span)),
        }
    }

    /// The device.
    pub fn device(&self) -> Device {
        match self {
            Self::Host(_) => Device::CPU,
            Self::Device(buffer) => buffer.device(),
        }
    }

    /// The allocator that a device buffer is from.
    pub fn allocator(&self) -> Option<&AllocatorHandle> {
        match self {
            Self::Host(_) => None,
            Self::Device(buffer) => Some(buffer.allocator()),
        }
    }

    /// In bytes.
    pub fn nbytes(&self) -> u64 {
        match self {
            Self::Host(buffer) => u64::try_from(buffer.nbytes()).unwrap_or(u64::MAX),
            Self::Device(buffer) => buffer.nbytes(),
        }
    }
}

/// A place in planned memory, as a file describes it, together with what will be kept there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedSlot {
    /// The buffer, counted from 1; 0 is reserved.
    pub memory_id: u32,
    /// Bytes from the buffer's start.
    pub offset_bytes: u64,
    /// Bytes that will be used, for the largest shape.
    pub nbytes: u64,
    /// What the address must be a multiple of.
    pub alignment: Alignment,
    /// The device that the value says it is on.
    pub device: Device,
}

/// All planned buffers of a method, each on its device.
#[derive(Debug, Default)]
pub struct PlannedMemory {
    id: PlannedMemoryId,
    buffers: Vec<PlannedBuffer>,
}

/// Which planned memory something points into: no two that hold buffers have the same, not even one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlannedMemoryId(u64);

impl PlannedMemoryId {
    /// One that was never there before. 0 is that of memory without buffers.
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }
}

impl PlannedMemory {
    /// Allocates every buffer of `plan`, in order, through `registry`. If one fails, those before it are freed.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`] before anything is allocated; [`MemoryError::Buffer`] or
    /// [`MemoryError::HostBuffer`] for the buffer that could not be had.
    pub fn allocate(
        plan: &MemoryPlan,
        registry: &DeviceAllocatorRegistry,
        budget: &Budget,
    ) -> Result<Self, MemoryError> {
        budget.check(plan)?;
        let buffers = (1..)
            .zip(plan.buffers())
            .map(|(memory_id, spec)| PlannedBuffer::allocate(spec, memory_id, registry))
            .collect::<Result<_, _>>()?;
        Ok(Self::of(buffers))
    }

    /// Uses buffers of the caller's for `plan`.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn from_buffers(
        plan: &MemoryPlan,
        buffers: Vec<PlannedBuffer>,
    ) -> Result<Self, MemoryError> {
        let memory = Self::of(buffers);
        memory.check(plan)?;
        Ok(memory)
    }

    fn of(buffers: Vec<PlannedBuffer>) -> Self {
        let id = PlannedMemoryId::next();
        Self { id, buffers }
    }

    /// Which memory this is. It holds the same buffers, at the same places, for as long as it exists.
    pub fn id(&self) -> PlannedMemoryId {
        self.id
    }

    /// Whether these buffers can be used for `plan`: at least as many, on the same devices, each large enough and aligned.
    ///
    /// # Errors
    /// [`MemoryError::WrongBufferCount`], [`MemoryError::WrongBuffer`] or [`MemoryError::MisalignedBuffer`] if not.
    pub fn check(&self, plan: &MemoryPlan) -> Result<(), MemoryError> {
        let (planned, found) = (plan.buffers().len(), self.buffers.len());
        if found < planned {
            return Err(MemoryError::WrongBufferCount { planned, found });
        }
        for (memory_id, (spec, buffer)) in (1..).zip(plan.buffers().iter().zip(&self.buffers)) {
            let here = buffer.device().shares_memory_with(spec.device);
            if !here || buffer.nbytes() < spec.nbytes {
                return Err(MemoryError::WrongBuffer {
                    memory_id,
                    needed: spec.nbytes,
                    device: spec.device,
                    found: buffer.nbytes(),
                    found_device: buffer.device(),
                });
            }
            let alignment = spec.alignment;
            let place = buffer.place();
            if place.is_some_and(|place| !place.is_aligned(alignment)) {
                return Err(MemoryError::MisalignedBuffer {
                    memory_id,
                    alignment,
                });
            }
        }
        Ok(())
    }

    /// The buffers; entry 0 is memory id 1.
    pub fn buffers(&self) -> &[PlannedBuffer] {
        &self.buffers
    }

    /// Buffer `memory_id`, counted from 1.
    pub fn buffer(&self, memory_id: u32) -> Option<&PlannedBuffer> {
        let position = usize::try_from(memory_id.checked_sub(1)?).ok()?;
        self.buffers.get(position)
    }

    /// Whether some buffer is not in host memory.
    pub fn has_device_memory(&self) -> bool {
        self.buffers.iter().any(|buffer| !buffer.device().is_cpu())
    }

    /// Sets every byte of every buffer to 0.
    ///
    /// # Errors
    /// The device's, at the first buffer that could not be set.
    pub fn zero(&mut self) -> Result<(), DeviceError> {
        self.buffers.iter_mut().try_for_each(|buffer| match buffer {
            PlannedBuffer::Host(buffer) => {
                // SAFETY: `&mut self` stands for the only use of the buffers: whoever made references through a place has
                // let them go.
                unsafe { buffer.bytes_mut() }.fill(0);
                Ok(())
            }
            PlannedBuffer::Device(buffer) => buffer.fill(0),
        })
    }

    /// Where the bytes of `slot` are; `None` if it is 0 bytes in a device buffer that is nowhere.
    ///
    /// # Errors
    /// [`MemoryError::UnknownBuffer`], [`MemoryError::OutOfRange`], [`MemoryError::WrongDevice`] or
    /// [`MemoryError::Misaligned`], checked in this order.
    pub fn resolve(&self, slot: &PlannedSlot) -> Result<Option<Place>, MemoryError> {
        let &PlannedSlot {
            memory_id,
            offset_bytes,
            nbytes,
            alignment,
            device,
        } = slot;
        let unknown = MemoryError::UnknownBuffer {
            memory_id,
            count: self.buffers.len(),
        };
        let buffer = self.buffer(memory_id).ok_or(unknown)?;

        let inside = offset_bytes
            .checked_add(nbytes)
            .is_some_and(|end| end <= buffer.nbytes());
        let outside = MemoryError::OutOfRange {
            memory_id,
            offset_bytes,
            nbytes,
            available: buffer.nbytes(),
        };
        if !inside {
            return Err(outside);
        }
        if !buffer.device().shares_memory_with(device) {
            return Err(MemoryError::WrongDevice {
                memory_id,
                expected: device,
                found: buffer.device(),
            });
        }
        let Some(whole) = buffer.place() else {
            return Ok(None);
        };
        let place = whole.subplace(offset_bytes, nbytes).ok_or(outside)?;
        if !place.is_aligned(alignment) {
            return Err(MemoryError::Misaligned {
                memory_id,
                offset_bytes,
                alignment,
            });
        }
        Ok(Some(place))
    }
}
