//! Simulated devices, and the environment that programs meet them through.

use std::sync::Arc;

use et_device::{AllocatorHandle, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{Environment, EventHook};
use et_sim::{Counters, SimAllocator, SimOptions};

/// Two simulated devices in place of CUDA, in a registry of their own.
#[derive(Debug)]
pub struct Simulation {
    /// The devices.
    pub devices: Arc<SimAllocator>,
    /// What to load programs with: the devices, and every linked operator and backend.
    pub environment: Environment,
}

impl Simulation {
    /// Devices that hold nothing.
    ///
    /// # Panics
    /// If two linked crates offer the same operator or backend.
    pub fn new() -> Self {
        let options = SimOptions::new(DeviceType::CUDA).devices(2);
        let devices = Arc::new(SimAllocator::new(options));
        let registry = DeviceAllocatorRegistry::new();
        registry
            .register(AllocatorHandle::from(Arc::clone(&devices)))
            .expect("the registry is new");
        let linked = Environment::linked().expect("linked crates offer different names");
        Self {
            devices,
            environment: linked.with_devices(registry),
        }
    }

    /// The same, watched by `hook`.
    #[must_use]
    pub fn watched_by(mut self, hook: Arc<dyn EventHook>) -> Self {
        self.environment = self.environment.with_hook(hook);
        self
    }

    /// Totals so far.
    pub fn counters(&self) -> Counters {
        self.devices.counters()
    }

    /// Fails the test unless every block was given back.
    ///
    /// # Panics
    /// If one was not.
    #[track_caller]
    pub fn expect_empty(&self) {
        assert_eq!(self.devices.leaks(), [], "device memory was not given back");
    }
}

impl Default for Simulation {
    fn default() -> Self {
        Self::new()
    }
}
