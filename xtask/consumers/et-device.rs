//! Someone who writes an allocator: devices, spans and a registry, and nothing else.

use et_device::{Device, DeviceAllocatorRegistry, DeviceError, DevicePtr, DeviceSpan};

fn main() {
    let device: Device = "cuda:1".parse().expect("a device");
    let registry = DeviceAllocatorRegistry::new();
    assert!(matches!(registry.require(device), Err(DeviceError::NoAllocator { .. })));
    let base = DevicePtr::new(0x1000).expect("not null");
    assert!(DeviceSpan::new(base, u64::MAX).is_err());
}
