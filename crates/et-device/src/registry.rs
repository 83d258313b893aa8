//! Finding the allocator of a device.

#[cfg(test)]
mod tests;

use core::fmt;
use core::ops::Deref;

#[cfg(feature = "alloc")]
use alloc::sync::Arc;

use crate::slot::Slot;
use crate::{Device, DeviceAllocator, DeviceError, DeviceType};

/// Shared access to an allocator: a static one, or (feature `alloc`) a counted one. Cheap to clone.
#[derive(Clone)]
pub struct AllocatorHandle(Inner);

#[derive(Clone)]
enum Inner {
    Static(&'static dyn DeviceAllocator),
    #[cfg(feature = "alloc")]
    Shared(Arc<dyn DeviceAllocator>),
}

impl AllocatorHandle {
    /// A handle on an allocator that lives as long as the process.
    pub const fn from_static(allocator: &'static dyn DeviceAllocator) -> Self {
        Self(Inner::Static(allocator))
    }

    /// A handle that keeps the allocator alive, and so does every buffer that holds a clone of it.
    #[cfg(feature = "alloc")]
    pub fn shared(allocator: Arc<dyn DeviceAllocator>) -> Self {
        Self(Inner::Shared(allocator))
    }

    /// Whether blocks of the two are blocks of one allocator, which may then copy between them in one call: their
    /// [identities](DeviceAllocator::identity) are equal.
    pub fn is_same(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Deref for AllocatorHandle {
    type Target = dyn DeviceAllocator;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Inner::Static(allocator) => *allocator,
            #[cfg(feature = "alloc")]
            Inner::Shared(allocator) => &**allocator,
        }
    }
}

impl fmt::Debug for AllocatorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(feature = "alloc")]
impl<A: DeviceAllocator + 'static> From<Arc<A>> for AllocatorHandle {
    fn from(allocator: Arc<A>) -> Self {
        Self::shared(allocator)
    }
}

/// An allocator that a crate offers to the process by being linked. Made by [`link_allocator!`](crate::link_allocator).
#[derive(Debug)]
pub struct LinkedAllocator {
    device_type: DeviceType,
    origin: &'static str,
    allocator: AllocatorHandle,
}

impl LinkedAllocator {
    /// The offer of crate `origin` to serve devices of type `device_type`.
    pub const fn new(
        device_type: DeviceType,
        origin: &'static str,
        allocator: &'static dyn DeviceAllocator,
    ) -> Self {
        Self {
            device_type,
            origin,
            allocator: AllocatorHandle::from_static(allocator),
        }
    }
}

/// All allocators that linked crates offer.
#[doc(hidden)]
#[linkme::distributed_slice]
pub static LINKED_ALLOCATORS: [LinkedAllocator];

/// Offers a static allocator to every program that links the crate this stands in.
///
/// Nothing runs at start-up: the process-wide registry looks at the offers when a device of that type is first asked
/// for.
///
/// ```ignore
/// static ALLOCATOR: MyAllocator = MyAllocator::new();
/// et_device::link_allocator!(DeviceType::CUDA, "my-crate", &ALLOCATOR);
/// ```
#[macro_export]
macro_rules! link_allocator {
    ($device_type:expr, $origin:expr, $allocator:expr) => {
        const _: () = {
            #[$crate::private::linkme::distributed_slice($crate::private::LINKED_ALLOCATORS)]
            #[linkme(crate = $crate::private::linkme)]
            static __ET_LINKED_ALLOCATOR: $crate::LinkedAllocator =
                $crate::LinkedAllocator::new($device_type, $origin, $allocator);
        };
    };
}

/// One allocator per device type, each set at most once. Lookups take no lock and are correct before, while and after
/// other threads register.
pub struct DeviceAllocatorRegistry {
    slots: [Slot<AllocatorHandle>; DeviceType::LIMIT],
    consults_linked: bool,
}

impl DeviceAllocatorRegistry {
    /// An empty registry that does not look at linked allocators.
    pub const fn new() -> Self {
        Self::with(false)
    }

    const fn with(consults_linked: bool) -> Self {
        Self {
            slots: [const { Slot::new() }; DeviceType::LIMIT],
            consults_linked,
        }
    }

    /// The registry of the process. It also finds the allocators of linked crates.
    pub fn global() -> &'static Self {
        static GLOBAL: DeviceAllocatorRegistry = DeviceAllocatorRegistry::with(true);
        &GLOBAL
    }

    /// Makes `allocator` the one for its device type.
    ///
    /// # Errors
    /// [`RegisterError::AlreadyRegistered`] if there is one, be it linked or the same: nothing is ever replaced.
    /// [`RegisterError::Cpu`] for an allocator of host memory.
    pub fn register(&self, allocator: AllocatorHandle) -> Result<(), RegisterError> {
        let device_type = allocator.device_type();
        if device_type.is_cpu() {
            return Err(RegisterError::Cpu);
        }
        let taken = RegisterError::AlreadyRegistered { device_type };
        if self.linked(device_type).next().is_some() {
            return Err(taken);
        }
        self.slot(device_type)
            .ok_or(taken)?
            .set(allocator)
            .map_err(|_| taken)
    }

    /// The allocator for `device_type`, if there is exactly one.
    #[inline]
    pub fn get(&self, device_type: DeviceType) -> Option<&AllocatorHandle> {
        self.slot(device_type)?
            .get()
            .or_else(|| self.get_linked(device_type))
    }

    #[cold]
    fn get_linked(&self, device_type: DeviceType) -> Option<&AllocatorHandle> {
        self.find_linked(device_type).ok().flatten()
    }

    /// The allocator for `device`.
    ///
    /// # Errors
    /// [`DeviceError::NoAllocator`], or [`DeviceError::AmbiguousAllocator`] if two linked crates offer one.
    #[inline]
    pub fn require(&self, device: Device) -> Result<&AllocatorHandle, DeviceError> {
        match self.slot(device.device_type()).and_then(Slot::get) {
            Some(allocator) => Ok(allocator),
            None => self.require_linked(device),
        }
    }

    #[cold]
    fn require_linked(&self, device: Device) -> Result<&AllocatorHandle, DeviceError> {
        self.find_linked(device.device_type())?
            .ok_or(DeviceError::NoAllocator { device })
    }

    /// The device types that have an allocator, in order.
    pub fn device_types(&self) -> impl Iterator<Item = DeviceType> {
        (0..=i8::MAX)
            .map_while(|raw| DeviceType::from_raw(raw).ok())
            .filter(|&t| self.get(t).is_some())
    }

    #[inline]
    fn slot(&self, device_type: DeviceType) -> Option<&Slot<AllocatorHandle>> {
        self.slots.get(device_type.slot())
    }

    fn linked(&self, device_type: DeviceType) -> impl Iterator<Item = &'static LinkedAllocator> {
        let offers: &'static [LinkedAllocator] = if self.consults_linked {
            &LINKED_ALLOCATORS
        } else {
            &[]
        };
        offers
            .iter()
            .filter(move |offer| offer.device_type == device_type)
    }

    fn find_linked(
        &self,
        device_type: DeviceType,
    ) -> Result<Option<&'static AllocatorHandle>, DeviceError> {
        let mut offers = self.linked(device_type);
        match (offers.next(), offers.next()) {
            (Some(one), Some(two)) => Err(DeviceError::AmbiguousAllocator {
                device_type,
                first: one.origin,
                second: two.origin,
            }),
            (one, _) => Ok(one.map(|offer| &offer.allocator)),
        }
    }
}

impl Default for DeviceAllocatorRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for DeviceAllocatorRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.device_types()).finish()
    }
}

/// Registers `allocator` with the process-wide registry.
///
/// # Errors
/// As [`DeviceAllocatorRegistry::register`].
pub fn register_device_allocator(allocator: AllocatorHandle) -> Result<(), RegisterError> {
    DeviceAllocatorRegistry::global().register(allocator)
}

/// The process-wide registry's allocator for `device_type`.
pub fn get_device_allocator(device_type: DeviceType) -> Option<&'static AllocatorHandle> {
    DeviceAllocatorRegistry::global().get(device_type)
}

/// Why an allocator was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The type has an allocator already.
    #[error("an allocator for {device_type} devices is registered already")]
    AlreadyRegistered {
        /// The type.
        device_type: DeviceType,
    },
    /// Host memory is never allocated through a registry.
    #[error("host memory takes no device allocator")]
    Cpu,
}

/// The registry that something was loaded with: the process-wide one, or one of its own.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, Default)]
pub enum RegistryHandle {
    /// The registry of the process.
    #[default]
    Global,
    /// A registry that its users keep alive.
    Own(Arc<DeviceAllocatorRegistry>),
}

#[cfg(feature = "alloc")]
impl Deref for RegistryHandle {
    type Target = DeviceAllocatorRegistry;

    fn deref(&self) -> &DeviceAllocatorRegistry {
        match self {
            Self::Global => DeviceAllocatorRegistry::global(),
            Self::Own(registry) => registry,
        }
    }
}

#[cfg(feature = "alloc")]
impl From<DeviceAllocatorRegistry> for RegistryHandle {
    fn from(registry: DeviceAllocatorRegistry) -> Self {
        Self::Own(Arc::new(registry))
    }
}
