//! Someone who tests code that uses devices, on a machine without one.

use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceType};
use et_sim::{SimAllocator, SimOptions};
use std::sync::Arc;

fn main() {
    let sim = Arc::new(SimAllocator::new(SimOptions::new(DeviceType::CUDA).devices(2)));
    let registry = DeviceAllocatorRegistry::new();
    registry.register(AllocatorHandle::from(Arc::clone(&sim))).expect("the first of its type");
    let second: Device = "cuda:1".parse().expect("a device");
    assert!(registry.require(second).is_ok());
    assert_eq!(sim.counters().live_blocks, 0);
}
