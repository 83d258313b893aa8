//! Someone who takes the CUDA allocator as it is, on a machine with a driver or without.

use et_cuda::{CudaAllocator, probe};
use et_device::DeviceAllocator;

fn main() {
    let allocator = CudaAllocator::new();
    let count = allocator.device_count();
    // A missing driver is an error value, the same by both ways.
    assert!(probe().is_ok() || count.is_err());
}
