//! Finding the allocator of a device.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AllocationRequest, DeviceIndex, DevicePtr, DeviceSpan, DeviceToHost, HostToDevice,
    };

    /// Hands out one fixed address; copies nothing.
    struct Fixed(DeviceType);

    // SAFETY: the tests never use a block for anything.
    unsafe impl DeviceAllocator for Fixed {
        fn device_type(&self) -> DeviceType {
            self.0
        }
        fn device_count(&self) -> Result<u32, DeviceError> {
            Ok(1)
        }
        fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
            Ok(DeviceSpan::new(
                DevicePtr::new(0x1000).unwrap(),
                request.nbytes.get(),
            )?)
        }
        unsafe fn deallocate(&self, _: DeviceSpan, _: DeviceIndex) -> Result<(), DeviceError> {
            Ok(())
        }
        unsafe fn copy_host_to_device(&self, _: HostToDevice<'_>) -> Result<(), DeviceError> {
            Ok(())
        }
        unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError> {
            copy.dst.fill(0);
            Ok(())
        }
    }

    fn fixed(raw: i8) -> AllocatorHandle {
        AllocatorHandle::shared(Arc::new(Fixed(DeviceType::from_raw(raw).unwrap())))
    }

    #[test]
    fn r_reg_04_registering_a_type_twice_is_an_error_value() {
        let registry = DeviceAllocatorRegistry::new();
        assert_eq!(registry.register(fixed(1)), Ok(()));
        let device_type = DeviceType::CUDA;
        assert_eq!(
            registry.register(fixed(1)),
            Err(RegisterError::AlreadyRegistered { device_type })
        );
        assert_eq!(registry.register(fixed(15)), Ok(()));
        assert_eq!(
            registry
                .device_types()
                .map(DeviceType::as_raw)
                .collect::<std::vec::Vec<_>>(),
            [1, 15]
        );
    }

    #[test]
    fn r_reg_05_lookup_of_an_unregistered_type_gives_none() {
        let registry = DeviceAllocatorRegistry::new();
        for raw in 0..16 {
            assert!(registry.get(DeviceType::from_raw(raw).unwrap()).is_none());
        }
        let device = Device::cuda(3).unwrap();
        assert_eq!(
            registry.require(device).unwrap_err(),
            DeviceError::NoAllocator { device }
        );
    }

    #[test]
    fn r_reg_03_every_type_that_can_be_has_a_place() {
        let registry = DeviceAllocatorRegistry::new();
        for raw in 1..=i8::MAX {
            let Ok(device_type) = DeviceType::from_raw(raw) else {
                assert!(raw > 15);
                continue;
            };
            assert_eq!(registry.register(fixed(raw)), Ok(()));
            assert_eq!(
                registry.get(device_type).unwrap().device_type(),
                device_type
            );
        }
        assert_eq!(registry.device_types().count(), 15);
    }

    #[test]
    fn b_20_misuse_is_an_error_value_and_changes_nothing() {
        let registry = DeviceAllocatorRegistry::new();
        let first = Arc::new(Fixed(DeviceType::CUDA));
        registry.register(first.clone().into()).unwrap();
        // The same object is refused as well.
        assert!(registry.register(first.clone().into()).is_err());
        assert!(registry.register(fixed(1)).is_err());
        assert!(registry.register(fixed(0)).is_err());
        let kept: *const dyn DeviceAllocator = &**registry.get(DeviceType::CUDA).unwrap();
        assert!(core::ptr::addr_eq(kept, Arc::as_ptr(&first)));
        assert_eq!(registry.device_types().count(), 1);
    }

    #[test]
    fn b_22_registries_of_ones_own_are_apart() {
        let (one, two) = (
            DeviceAllocatorRegistry::new(),
            DeviceAllocatorRegistry::new(),
        );
        one.register(fixed(3)).unwrap();
        assert!(two.get(DeviceType::from_raw_const(3)).is_none());
        assert!(get_device_allocator(DeviceType::from_raw_const(3)).is_none());
        assert_eq!(two.register(fixed(3)), Ok(()));
    }

    #[test]
    fn r_reg_06_host_memory_cannot_be_registered() {
        assert_eq!(
            DeviceAllocatorRegistry::new().register(fixed(0)),
            Err(RegisterError::Cpu)
        );
    }

    #[test]
    fn r_reg_01_the_process_wide_registry_is_one() {
        let elsewhere =
            std::thread::spawn(|| core::ptr::from_ref(DeviceAllocatorRegistry::global()).addr());
        assert_eq!(
            elsewhere.join().unwrap(),
            core::ptr::from_ref(DeviceAllocatorRegistry::global()).addr()
        );
        assert!(core::ptr::eq(
            DeviceAllocatorRegistry::global(),
            DeviceAllocatorRegistry::global()
        ));
    }

    #[test]
    fn r_reg_08_a_linked_allocator_is_found_and_cannot_be_replaced() {
        static LINKED: Fixed = Fixed(DeviceType::from_raw_const(9));
        crate::link_allocator!(DeviceType::from_raw_const(9), "a-test", &LINKED);
        let device_type = DeviceType::from_raw_const(9);
        assert_eq!(
            get_device_allocator(device_type).unwrap().device_type(),
            device_type
        );
        let taken = RegisterError::AlreadyRegistered { device_type };
        assert_eq!(register_device_allocator(fixed(9)), Err(taken));
        assert!(DeviceAllocatorRegistry::new().get(device_type).is_none());
    }

    #[test]
    fn two_linked_allocators_for_one_type_are_named() {
        static LINKED: Fixed = Fixed(DeviceType::from_raw_const(10));
        crate::link_allocator!(DeviceType::from_raw_const(10), "one", &LINKED);
        crate::link_allocator!(DeviceType::from_raw_const(10), "two", &LINKED);
        let device_type = DeviceType::from_raw_const(10);
        assert!(get_device_allocator(device_type).is_none());
        let error = DeviceAllocatorRegistry::global()
            .require(device_type.into())
            .unwrap_err();
        let DeviceError::AmbiguousAllocator { first, second, .. } = error else {
            panic!("{error}")
        };
        let mut names = [first, second];
        names.sort_unstable();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn r_reg_07_a_registry_keeps_its_shared_allocators_alive() {
        let allocator = Arc::new(Fixed(DeviceType::CUDA));
        let registry = DeviceAllocatorRegistry::new();
        registry
            .register(AllocatorHandle::from(Arc::clone(&allocator)))
            .unwrap();
        assert_eq!(Arc::strong_count(&allocator), 2);
        drop(registry);
        assert_eq!(Arc::strong_count(&allocator), 1);
    }
}
