//! The simulated devices behind the allocator contract.

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use et_device::{
    AllocationRequest, Device, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan,
    DeviceToDevice, DeviceToHost, DeviceType, HostToDevice, MemoryInfo,
};

use crate::fault::Faults;
use crate::memory::Memory;
use crate::{Counters, Leak, Operation, TraceEvent};

/// What to simulate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SimOptions {
    /// The device type whose place is taken.
    pub device_type: DeviceType,
    /// How many devices, 1 to 128.
    pub devices: u8,
    /// Bytes of memory on each.
    pub capacity: u64,
}

impl SimOptions {
    /// One device of type `device_type` with 64 GiB (of address space: host memory is used as blocks are allocated).
    pub const fn new(device_type: DeviceType) -> Self {
        Self {
            device_type,
            devices: 1,
            capacity: 64 << 30,
        }
    }

    /// The same with `count` devices; at least 1 and at most 128.
    #[must_use]
    pub fn devices(mut self, count: u8) -> Self {
        self.devices = count.clamp(1, 128);
        self
    }

    /// The same with `nbytes` bytes of memory on each device.
    #[must_use]
    pub const fn capacity(mut self, nbytes: u64) -> Self {
        self.capacity = nbytes;
        self
    }
}

/// Simulated devices of one type.
#[derive(Debug)]
pub struct SimAllocator {
    device_type: DeviceType,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    devices: Vec<Memory>,
    counters: Counters,
    trace: Option<Vec<TraceEvent>>,
    faults: Faults,
}

impl SimAllocator {
    /// Devices as `options` say.
    pub fn new(options: SimOptions) -> Self {
        let SimOptions {
            device_type,
            devices,
            capacity,
        } = options;
        let device = |index| {
            DeviceIndex::new(index)
                .ok()
                .map(|index| Device::new(device_type, index))
        };
        let devices = (0..devices)
            .filter_map(device)
            .map(|device| Memory::new(device, capacity))
            .collect();
        let state = State {
            devices,
            counters: Counters::default(),
            trace: None,
            faults: Faults::default(),
        };
        Self {
            device_type,
            state: Mutex::new(state),
        }
    }

    /// Totals so far.
    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// Starts recording. Events from before are not in the trace.
    pub fn record(&self) {
        self.lock().trace.get_or_insert_default();
    }

    /// The events recorded since [`record`](Self::record) or the last call of this.
    pub fn take_trace(&self) -> Vec<TraceEvent> {
        self.lock()
            .trace
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Lets the call of kind `operation` fail that comes after `calls_before` more of them.
    pub fn fail_call(&self, operation: Operation, calls_before: u64) {
        self.lock().faults.arm(operation, calls_before);
    }

    /// Takes back every failure that has not happened yet.
    pub fn clear_failures(&self) {
        self.lock().faults.clear();
    }

    /// The blocks that are in use now.
    pub fn leaks(&self) -> Vec<Leak> {
        self.lock().devices.iter().flat_map(Memory::leaks).collect()
    }

    /// The device that owns an address, if a live block does.
    pub fn owner_of(&self, span: DeviceSpan) -> Option<DeviceIndex> {
        let state = self.lock();
        let position = state
            .devices
            .iter()
            .position(|memory| memory.bytes(span).is_ok())?;
        u8::try_from(position)
            .ok()
            .and_then(|index| DeviceIndex::new(index).ok())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is changed in single steps, so it is whole even if a thread panicked while it held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of a call that was told to fail.
    fn injected(&self, index: DeviceIndex, operation: &'static str) -> DeviceError {
        let device = Device::new(self.device_type, index);
        DeviceError::Driver {
            device,
            operation,
            code: 999,
            name: "SIMULATED_FAILURE",
        }
    }
}

impl State {
    fn device(
        &mut self,
        device_type: DeviceType,
        index: DeviceIndex,
    ) -> Result<&mut Memory, DeviceError> {
        let count = u32::try_from(self.devices.len()).unwrap_or(u32::MAX);
        let missing = DeviceError::NoSuchDevice {
            device_type,
            index,
            count,
        };
        self.devices
            .get_mut(usize::from(index.get()))
            .ok_or(missing)
    }

    fn record(&mut self, event: TraceEvent) {
        self.counters.record(&event);
        if let Some(trace) = &mut self.trace {
            trace.push(event);
        }
    }
}

// SAFETY: blocks are owned vectors, one per allocation, at addresses that are never reused; every access is checked against
// them and moves exactly the bytes of its request.
unsafe impl DeviceAllocator for SimAllocator {
    fn device_type(&self) -> DeviceType {
        self.device_type
    }

    fn device_count(&self) -> Result<u32, DeviceError> {
        Ok(u32::try_from(self.lock().devices.len()).unwrap_or(u32::MAX))
    }

    fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
        let mut state = self.lock();
        let (index, nbytes) = (request.index, request.nbytes.get());
        let fails = state.faults.hit(Operation::Allocate);
        let memory = state.device(self.device_type, index)?;
        if fails {
            return Err(memory.out_of_memory(nbytes));
        }
        let span = memory.allocate(nbytes, request.alignment)?;
        state.record(TraceEvent::Alloc { index, nbytes });
        Ok(span)
    }

    unsafe fn deallocate(&self, block: DeviceSpan, index: DeviceIndex) -> Result<(), DeviceError> {
        let mut state = self.lock();
        if state.faults.hit(Operation::Deallocate) {
            return Err(self.injected(index, "deallocate"));
        }
        let nbytes = state
            .device(self.device_type, index)?
            .deallocate(block.base())?;
        state.record(TraceEvent::Free { index, nbytes });
        Ok(())
    }

    unsafe fn copy_host_to_device(&self, copy: HostToDevice<'_>) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let index = copy.index;
        if state.faults.hit(Operation::Copy) {
            return Err(self.injected(index, "copy_host_to_device"));
        }
        state
            .device(self.device_type, index)?
            .bytes_mut(copy.dst)?
            .copy_from_slice(copy.src);
        state.record(TraceEvent::HostToDevice {
            index,
            nbytes: copy.dst.len(),
        });
        Ok(())
    }

    unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let index = copy.index;
        if state.faults.hit(Operation::Copy) {
            return Err(self.injected(index, "copy_device_to_host"));
        }
        copy.dst
            .copy_from_slice(state.device(self.device_type, index)?.bytes(copy.src)?);
        state.record(TraceEvent::DeviceToHost {
            index,
            nbytes: copy.src.len(),
        });
        Ok(())
    }

    unsafe fn copy_device_to_device(&self, copy: DeviceToDevice) -> Result<(), DeviceError> {
        let mut state = self.lock();
        if state.faults.hit(Operation::Copy) {
            return Err(self.injected(copy.src_index, "copy_device_to_device"));
        }
        let bytes = state
            .device(self.device_type, copy.src_index)?
            .bytes(copy.src)?
            .to_vec();
        state
            .device(self.device_type, copy.dst_index)?
            .bytes_mut(copy.dst)?
            .copy_from_slice(&bytes);
        let (src, dst) = (copy.src_index, copy.dst_index);
        state.record(TraceEvent::DeviceToDevice {
            src,
            dst,
            nbytes: copy.dst.len(),
        });
        Ok(())
    }

    unsafe fn fill(
        &self,
        dst: DeviceSpan,
        value: u8,
        index: DeviceIndex,
    ) -> Result<(), DeviceError> {
        let mut state = self.lock();
        if state.faults.hit(Operation::Copy) {
            return Err(self.injected(index, "fill"));
        }
        state
            .device(self.device_type, index)?
            .bytes_mut(dst)?
            .fill(value);
        state.record(TraceEvent::Fill {
            index,
            nbytes: dst.len(),
        });
        Ok(())
    }

    fn memory_info(&self, index: DeviceIndex) -> Result<MemoryInfo, DeviceError> {
        let mut state = self.lock();
        let memory = state.device(self.device_type, index)?;
        Ok(MemoryInfo::new(memory.free(), memory.capacity()))
    }

    fn describe(&self, index: DeviceIndex, out: &mut dyn Write) -> Result<(), DeviceError> {
        self.lock().device(self.device_type, index)?;
        // A full buffer cuts the name short; that is no failure of the device.
        let _ = write!(out, "simulated {}", Device::new(self.device_type, index));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use et_device::{Alignment, DevicePtr};
    use std::num::NonZeroU64;

    fn sim() -> SimAllocator {
        SimAllocator::new(
            SimOptions::new(DeviceType::CUDA)
                .devices(2)
                .capacity(1 << 20),
        )
    }

    fn request(index: u8, nbytes: u64) -> AllocationRequest {
        AllocationRequest::new(
            DeviceIndex::new(index).unwrap(),
            NonZeroU64::new(nbytes).unwrap(),
        )
    }

    #[track_caller]
    fn read(sim: &SimAllocator, index: u8, span: DeviceSpan) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0; span.len() as usize];
        let copy = DeviceToHost::new(DeviceIndex::new(index).unwrap(), &mut bytes, span).unwrap();
        // SAFETY: a simulated device checks every access.
        unsafe { sim.copy_device_to_host(copy)? };
        Ok(bytes)
    }

    #[test]
    fn fresh_memory_is_poisoned_and_aligned_as_asked() {
        let sim = sim();
        let alignment = Alignment::new(1 << 16).unwrap();
        let block = sim
            .allocate(&request(1, 100).aligned_to(alignment))
            .unwrap();
        assert!(block.base().is_aligned(alignment));
        assert_eq!(read(&sim, 1, block), Ok(vec![0xA5; 100]));
        assert!(read(&sim, 0, block).is_err());
    }

    #[test]
    fn overruns_stale_blocks_and_double_frees_are_errors() {
        let sim = sim();
        let block = sim.allocate(&request(0, 16)).unwrap();
        let over = DeviceSpan::new(block.base(), 17).unwrap();
        assert!(matches!(
            read(&sim, 0, over),
            Err(DeviceError::OutOfBounds { nbytes: 17, .. })
        ));
        let inside = DevicePtr::new(block.base().get() + 8).unwrap();
        let interior = DeviceSpan::new(inside, 8).unwrap();
        // SAFETY: a simulated device checks every block.
        unsafe {
            assert!(matches!(
                sim.deallocate(interior, DeviceIndex::ZERO),
                Err(DeviceError::UnknownBlock { .. })
            ));
        };
        // SAFETY: as above.
        assert_eq!(unsafe { sim.deallocate(block, DeviceIndex::ZERO) }, Ok(()));
        // SAFETY: as above.
        assert!(unsafe { sim.deallocate(block, DeviceIndex::ZERO) }.is_err());
        assert!(read(&sim, 0, block).is_err());
    }

    #[test]
    fn capacity_and_device_count_are_limits() {
        let sim = sim();
        let error = sim.allocate(&request(0, (1 << 20) + 1)).unwrap_err();
        assert!(matches!(
            error,
            DeviceError::OutOfMemory {
                free: 1_048_576,
                total: 1_048_576,
                ..
            }
        ));
        assert!(matches!(
            sim.allocate(&request(2, 1)),
            Err(DeviceError::NoSuchDevice { count: 2, .. })
        ));
        sim.allocate(&request(0, 1 << 20)).unwrap();
        assert!(sim.allocate(&request(0, 1)).is_err());
        assert!(sim.allocate(&request(1, 1)).is_ok());
        assert_eq!(sim.leaks().len(), 2);
    }

    #[test]
    fn an_armed_failure_happens_once() {
        let sim = sim();
        sim.fail_call(Operation::Allocate, 1);
        let ok: Vec<bool> = (0..3)
            .map(|_| sim.allocate(&request(0, 8)).is_ok())
            .collect();
        assert_eq!(ok, [true, false, true]);
    }
}
