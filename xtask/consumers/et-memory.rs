//! Someone who needs planned memory without a program.

use et_device::{Alignment, Device, DeviceAllocatorRegistry};
use et_memory::{Budget, BufferSpec, MemoryPlan, PlannedMemory, PlannedSlot};

fn main() {
    let plan = MemoryPlan::new([BufferSpec::new(64, Device::CPU)]);
    let registry = DeviceAllocatorRegistry::new();
    let memory = PlannedMemory::allocate(&plan, &registry, &Budget::unlimited()).expect("64 bytes");
    let slot = |offset_bytes| PlannedSlot {
        memory_id: 1,
        offset_bytes,
        nbytes: 48,
        alignment: Alignment::ONE,
        device: Device::CPU,
    };
    assert!(memory.resolve(&slot(16)).is_ok());
    assert!(memory.resolve(&slot(17)).is_err());
}
