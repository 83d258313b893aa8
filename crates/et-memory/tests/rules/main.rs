//! The behaviour that programs rely on, rule by rule, on simulated devices.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod buffers;
mod manager;
mod planned;

use std::sync::Arc;

use et_device::{
    Alignment, AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceError, DeviceType,
};
use et_memory::{
    Arena, Budget, BufferSpec, DeviceMemoryBuffer, HostBuffer, MemoryError, MemoryManager,
    MemoryPlan, Place, PlannedBuffer, PlannedMemory, PlannedSlot, failed_frees,
};
use et_sim::{Operation, SimAllocator, SimOptions, TraceEvent};
use proptest::prelude::*;

/// Two simulated CUDA devices of 1 MiB, and a registry that finds them. Everything they do is recorded.
struct Bench {
    sim: Arc<SimAllocator>,
    registry: DeviceAllocatorRegistry,
}

impl Bench {
    fn new() -> Self {
        let options = SimOptions::new(DeviceType::CUDA)
            .devices(2)
            .capacity(1 << 20);
        let sim = Arc::new(SimAllocator::new(options));
        sim.record();
        let registry = DeviceAllocatorRegistry::new();
        registry.register(Arc::clone(&sim).into()).unwrap();
        Self { sim, registry }
    }

    fn buffer(&self, nbytes: u64, index: u8) -> Result<DeviceMemoryBuffer, DeviceError> {
        let (device, alignment) = (cuda(index), Alignment::DEVICE);
        DeviceMemoryBuffer::create_in(&self.registry, nbytes, device, alignment)
    }

    fn planned(&self, buffers: &[(u64, Device)]) -> Result<PlannedMemory, MemoryError> {
        PlannedMemory::allocate(&plan(buffers), &self.registry, &Budget::unlimited())
    }

    /// How many blocks were allocated, given back, and are live.
    fn counts(&self) -> (u64, u64, u64) {
        let counters = self.sim.counters();
        (counters.allocations, counters.frees, counters.live_blocks)
    }
}

fn cuda(index: u8) -> Device {
    Device::cuda(index).unwrap()
}

fn plan(buffers: &[(u64, Device)]) -> MemoryPlan {
    MemoryPlan::new(
        buffers
            .iter()
            .map(|&(n, device)| BufferSpec::new(n, device)),
    )
}

fn slot(memory_id: u32, offset_bytes: u64, nbytes: u64, device: Device) -> PlannedSlot {
    PlannedSlot {
        memory_id,
        offset_bytes,
        nbytes,
        alignment: Alignment::ONE,
        device,
    }
}
