//! The simulated devices behind the allocator contract.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use et_device::{
    AllocationRequest, Device, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan,
    DeviceToDevice, DeviceToHost, DeviceType, HostToDevice, MemoryInfo, StreamHandle,
};

use crate::fault::Faults;
use crate::memory::{Memory, POISON};
use crate::{CostModel, Counters, Leak, LeakReport, Operation, TraceEvent};

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
    /// What calls would take; `None` keeps no time.
    pub costs: Option<CostModel>,
}

impl SimOptions {
    /// One device of type `device_type` with 64 GiB (of address space: host memory is used as blocks are allocated).
    pub const fn new(device_type: DeviceType) -> Self {
        Self {
            device_type,
            devices: 1,
            capacity: 64 << 30,
            costs: None,
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

    /// The same, with the time added up that calls would take.
    #[must_use]
    pub const fn costs(mut self, model: CostModel) -> Self {
        self.costs = Some(model);
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
    devices: Vec<SimDevice>,
    /// Bytes on their way from one place on a device to another.
    staging: Vec<u8>,
    counters: Counters,
    trace: Option<Vec<TraceEvent>>,
    faults: Faults,
    costs: Option<CostModel>,
}

#[derive(Debug)]
struct SimDevice {
    memory: Memory,
    counters: Counters,
    time: Duration,
}

impl SimDevice {
    fn new(device: Device, capacity: u64) -> Self {
        Self {
            memory: Memory::new(device, capacity),
            counters: Counters::default(),
            time: Duration::ZERO,
        }
    }
}

impl SimAllocator {
    /// What every byte of fresh memory is.
    pub const POISON: u8 = POISON;

    /// Devices as `options` say.
    pub fn new(options: SimOptions) -> Self {
        let SimOptions {
            device_type,
            devices,
            capacity,
            costs,
        } = options;
        let devices = (0..devices)
            .filter_map(|index| DeviceIndex::new(index).ok())
            .map(|index| SimDevice::new(Device::new(device_type, index), capacity))
            .collect();
        let state = State {
            devices,
            staging: Vec::new(),
            counters: Counters::default(),
            trace: None,
            faults: Faults::default(),
            costs,
        };
        Self {
            device_type,
            state: Mutex::new(state),
        }
    }

    /// Totals of all devices so far.
    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// Totals of one device so far; `None` if there is no such device. A copy between two devices is in those of its
    /// source.
    pub fn device_counters(&self, index: DeviceIndex) -> Option<Counters> {
        self.read_device(index, |device| device.counters)
    }

    /// The time that the calls on one device would have taken so far, by the [cost model](SimOptions::costs); zero
    /// without one, and `None` if there is no such device.
    pub fn simulated_time(&self, index: DeviceIndex) -> Option<Duration> {
        self.read_device(index, |device| device.time)
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

    /// Lets the call of kind `operation` fail that comes after `calls_before` more of them. Failures that were asked
    /// for before stay; each counts by itself.
    pub fn fail_call(&self, operation: Operation, calls_before: u64) {
        self.lock().faults.arm(operation, calls_before);
    }

    /// How many failures were asked for and have not happened yet.
    pub fn failures_left(&self) -> usize {
        self.lock().faults.left()
    }

    /// Takes back every failure that has not happened yet.
    pub fn clear_failures(&self) {
        self.lock().faults.clear();
    }

    /// The blocks that are in use now.
    pub fn leaks(&self) -> Vec<Leak> {
        let state = self.lock();
        let memories = state.devices.iter().map(|device| &device.memory);
        memories.flat_map(Memory::leaks).collect()
    }

    /// The blocks that are in use now, as a text for people.
    ///
    /// ```
    /// use et_device::DeviceType;
    /// use et_sim::{SimAllocator, SimOptions};
    ///
    /// let sim = SimAllocator::new(SimOptions::new(DeviceType::CUDA));
    /// // … the program …
    /// let report = sim.leak_report();
    /// assert!(report.is_empty(), "{report}");
    /// ```
    pub fn leak_report(&self) -> LeakReport {
        LeakReport::new(self.leaks())
    }

    /// The device that owns an address, if a live block does.
    pub fn owner_of(&self, span: DeviceSpan) -> Option<DeviceIndex> {
        let state = self.lock();
        let position = state
            .devices
            .iter()
            .position(|device| device.memory.bytes(span).is_ok())?;
        u8::try_from(position)
            .ok()
            .and_then(|index| DeviceIndex::new(index).ok())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is changed in single steps, so it is whole even if a thread panicked while it held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_device<R>(&self, index: DeviceIndex, read: impl FnOnce(&SimDevice) -> R) -> Option<R> {
        let state = self.lock();
        state.devices.get(usize::from(index.get())).map(read)
    }

    /// The state, unless this call of kind `call` was told to fail.
    fn begin(
        &self,
        call: Operation,
        index: DeviceIndex,
    ) -> Result<MutexGuard<'_, State>, DeviceError> {
        let mut state = self.lock();
        if state.faults.hit(call) {
            return Err(DeviceError::Driver {
                device: Device::new(self.device_type, index),
                operation: call.name(),
                code: 999,
                name: "SIMULATED_FAILURE",
            });
        }
        Ok(state)
    }
}

impl State {
    fn memory(
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
        let device = self.devices.get_mut(usize::from(index.get()));
        device.map(|device| &mut device.memory).ok_or(missing)
    }

    fn record(&mut self, event: TraceEvent) {
        self.counters.record(&event);
        let cost = self.costs.map(|costs| costs.of(&event));
        if let Some(device) = self.devices.get_mut(usize::from(event.index().get())) {
            device.counters.record(&event);
            device.time = device.time.saturating_add(cost.unwrap_or_default());
        }
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
        let serial = state.counters.allocations + 1;
        let memory = state.memory(self.device_type, index)?;
        if fails {
            // What a full device says, since that is what callers prepare for.
            return Err(memory.out_of_memory(nbytes));
        }
        let span = memory.allocate(nbytes, request.alignment, serial)?;
        state.record(TraceEvent::Alloc { index, nbytes });
        Ok(span)
    }

    unsafe fn deallocate(&self, block: DeviceSpan, index: DeviceIndex) -> Result<(), DeviceError> {
        let mut state = self.begin(Operation::Deallocate, index)?;
        state.memory(self.device_type, index)?.deallocate(block)?;
        let nbytes = block.len();
        state.record(TraceEvent::Free { index, nbytes });
        Ok(())
    }

    unsafe fn copy_host_to_device(&self, copy: HostToDevice<'_>) -> Result<(), DeviceError> {
        let (index, nbytes) = (copy.index, copy.dst.len());
        let mut state = self.begin(Operation::HostToDevice, index)?;
        let memory = state.memory(self.device_type, index)?;
        memory.bytes_mut(copy.dst)?.copy_from_slice(copy.src);
        state.record(TraceEvent::HostToDevice { index, nbytes });
        Ok(())
    }

    unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError> {
        let (index, nbytes) = (copy.index, copy.src.len());
        let mut state = self.begin(Operation::DeviceToHost, index)?;
        let memory = state.memory(self.device_type, index)?;
        copy.dst.copy_from_slice(memory.bytes(copy.src)?);
        state.record(TraceEvent::DeviceToHost { index, nbytes });
        Ok(())
    }

    unsafe fn copy_device_to_device(&self, copy: DeviceToDevice) -> Result<(), DeviceError> {
        let (src, dst, nbytes) = (copy.src_index, copy.dst_index, copy.dst.len());
        assert!(
            src != dst || !copy.src.overlaps(copy.dst),
            "the caller vouched that {:?} and {:?} do not overlap",
            copy.src,
            copy.dst
        );
        let mut state = self.begin(Operation::DeviceToDevice, src)?;
        // Through a block that is kept, so that repeated copies allocate nothing.
        let mut staging = std::mem::take(&mut state.staging);
        staging.clear();
        let memory = state.memory(self.device_type, src)?;
        staging.extend_from_slice(memory.bytes(copy.src)?);
        let memory = state.memory(self.device_type, dst)?;
        memory.bytes_mut(copy.dst)?.copy_from_slice(&staging);
        state.staging = staging;
        state.record(TraceEvent::DeviceToDevice { src, dst, nbytes });
        Ok(())
    }

    unsafe fn fill(
        &self,
        dst: DeviceSpan,
        value: u8,
        index: DeviceIndex,
    ) -> Result<(), DeviceError> {
        let mut state = self.begin(Operation::Fill, index)?;
        let memory = state.memory(self.device_type, index)?;
        memory.bytes_mut(dst)?.fill(value);
        let nbytes = dst.len();
        state.record(TraceEvent::Fill { index, nbytes });
        Ok(())
    }

    fn memory_info(&self, index: DeviceIndex) -> Result<MemoryInfo, DeviceError> {
        let mut state = self.begin(Operation::MemoryInfo, index)?;
        let memory = state.memory(self.device_type, index)?;
        Ok(MemoryInfo::new(memory.free(), memory.capacity()))
    }

    fn describe(&self, index: DeviceIndex, out: &mut dyn Write) -> Result<(), DeviceError> {
        self.lock().memory(self.device_type, index)?;
        // A full buffer cuts the name short; that is no failure of the device.
        let _ = write!(out, "simulated {}", Device::new(self.device_type, index));
        Ok(())
    }

    /// All work is done when it is asked for, so there is nothing to wait for.
    fn synchronize(&self, index: DeviceIndex) -> Result<(), DeviceError> {
        let mut state = self.begin(Operation::Synchronize, index)?;
        state.memory(self.device_type, index)?;
        Ok(())
    }

    /// A simulated device has one queue, and every handle means it.
    unsafe fn synchronize_stream(
        &self,
        index: DeviceIndex,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let _ = stream;
        self.synchronize(index)
    }
}
