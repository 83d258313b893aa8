//! Operators and methods on the CUDA allocator, with the fake driver under it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

mod copies;
mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use et_cuda::CudaAllocator;
use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry};
use et_kernel::Environment;

/// All devices of the fake driver, an allocator for them, and what programs meet it through.
struct Machine {
    cuda: Arc<CudaAllocator>,
    environment: Environment,
    /// Dropped last: dropping them fails the test if anything is left on them.
    devices: Vec<fakecuda::Device>,
}

impl Machine {
    /// Waits until no other test uses the driver: its counts are the process's.
    fn new() -> Self {
        let devices = fakecuda::devices(fakecuda::device_count());
        let cuda = Arc::new(CudaAllocator::new());
        let registry = DeviceAllocatorRegistry::new();
        registry
            .register(AllocatorHandle::from(Arc::clone(&cuda)))
            .unwrap();
        let environment = Environment::linked().unwrap().with_devices(registry);
        Self {
            cuda,
            environment,
            devices,
        }
    }
}

fn device(index: u8) -> Device {
    Device::cuda(index).unwrap()
}

/// Driver calls by name.
type Calls = BTreeMap<String, u64>;

/// The driver calls since `before`, without those about the current context.
fn calls_since(before: &Calls) -> Calls {
    let mut calls = fakecuda::all_calls();
    calls.retain(|name, count| {
        *count -= before.get(name).copied().unwrap_or(0);
        *count > 0 && !name.starts_with("cuCtx")
    });
    calls
}

fn calls(list: &[(&str, u64)]) -> Calls {
    let named = list.iter().map(|(name, count)| ((*name).into(), *count));
    named.collect()
}
