//! What a method is loaded with: its registries, its device map, its observer.

use std::fmt;
use std::sync::Arc;

use et_device::{DeviceMap, RegistryHandle};

use crate::{
    BackendOptions, BackendRegistry, DuplicateName, Event, EventHook, KernelRegistry, Workers,
};

/// Everything that loading and running takes from outside of the program. Cheap to clone.
///
/// A method, its kernels and its delegates (and programs nested in them) all use the environment they were loaded with, so
/// two environments in one process do not meet: that is how tests and simulations stay free of global state.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Environment {
    /// Where device memory comes from.
    pub devices: RegistryHandle,
    /// The operators.
    pub kernels: Arc<KernelRegistry>,
    /// The delegates' backends.
    pub backends: Arc<BackendRegistry>,
    /// Settings for the backends.
    pub backend_options: Arc<BackendOptions>,
    /// Which devices stand in for which.
    pub device_map: DeviceMap,
    /// Who watches.
    pub hook: Option<Arc<dyn EventHook>>,
    /// Threads that help with large instructions. Results do not depend on how many they are.
    pub workers: Option<Arc<Workers>>,
}

impl Environment {
    /// The process-wide device registry, and the kernels and backends of all linked crates.
    ///
    /// # Errors
    /// [`DuplicateName`] if two of them offer the same.
    pub fn linked() -> Result<Self, DuplicateName> {
        Ok(Self {
            kernels: Arc::new(KernelRegistry::linked()?),
            backends: Arc::new(BackendRegistry::linked()?),
            ..Self::default()
        })
    }

    /// The same with another device registry.
    #[must_use]
    pub fn with_devices(mut self, devices: impl Into<RegistryHandle>) -> Self {
        self.devices = devices.into();
        self
    }

    /// The same with other kernels instead of those it has: to add some, register them with a
    /// [`KernelRegistry::linked`], which has those of all linked crates.
    #[must_use]
    pub fn with_kernels(mut self, kernels: KernelRegistry) -> Self {
        self.kernels = Arc::new(kernels);
        self
    }

    /// The same with other backends.
    #[must_use]
    pub fn with_backends(mut self, backends: BackendRegistry) -> Self {
        self.backends = Arc::new(backends);
        self
    }

    /// The same with settings for its backends.
    #[must_use]
    pub fn with_backend_options(mut self, options: BackendOptions) -> Self {
        self.backend_options = Arc::new(options);
        self
    }

    /// The same with a device map.
    #[must_use]
    pub fn with_device_map(mut self, device_map: DeviceMap) -> Self {
        self.device_map = device_map;
        self
    }

    /// The same, watched by `hook`.
    #[must_use]
    pub fn with_hook(mut self, hook: Arc<dyn EventHook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// The same with threads that help.
    #[must_use]
    pub fn with_workers(mut self, workers: Arc<Workers>) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Tells the observer, if there is one.
    #[inline]
    pub fn emit(&self, event: &Event<'_>) {
        if let Some(hook) = &self.hook {
            hook.event(event);
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("devices", &self.devices)
            .field("kernels", &self.kernels.iter().count())
            .field("backends", &self.backends)
            .field("watched", &self.hook.is_some())
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
