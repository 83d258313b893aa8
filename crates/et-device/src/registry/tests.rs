//! Registering, finding, and what is told when nothing is found.

use super::*;
use crate::{AllocationRequest, DeviceIndex, DevicePtr, DeviceSpan, DeviceToHost, HostToDevice};

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

/// Two types without fields, whose values may share an address.
mod without_fields {
    use super::*;

    macro_rules! allocator {
        ($name:ident) => {
            pub(super) struct $name;

            // SAFETY: there is no block that it hands out.
            unsafe impl DeviceAllocator for $name {
                fn device_type(&self) -> DeviceType {
                    DeviceType::CUDA
                }
                fn device_count(&self) -> Result<u32, DeviceError> {
                    Ok(0)
                }
                fn allocate(&self, _: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
                    Err(self.unsupported("allocate"))
                }
                unsafe fn deallocate(
                    &self,
                    _: DeviceSpan,
                    _: DeviceIndex,
                ) -> Result<(), DeviceError> {
                    Err(self.unsupported("deallocate"))
                }
                unsafe fn copy_host_to_device(
                    &self,
                    _: HostToDevice<'_>,
                ) -> Result<(), DeviceError> {
                    Err(self.unsupported("copy"))
                }
                unsafe fn copy_device_to_host(
                    &self,
                    _: DeviceToHost<'_>,
                ) -> Result<(), DeviceError> {
                    Err(self.unsupported("copy"))
                }
            }
        };
    }

    allocator!(One);
    allocator!(Two);
}

#[test]
fn handles_are_on_the_same_allocator_if_its_identity_is() {
    let (one, two) = (fixed(1), fixed(1));
    assert!(one.is_same(&one.clone()) && !one.is_same(&two));

    #[repr(C)]
    struct Both(without_fields::One, without_fields::Two);
    static BOTH: Both = Both(without_fields::One, without_fields::Two);
    assert_eq!((&raw const BOTH.0).addr(), (&raw const BOTH.1).addr());
    let (one, two) = (
        AllocatorHandle::from_static(&BOTH.0),
        AllocatorHandle::from_static(&BOTH.1),
    );
    assert!(one.is_same(&one.clone()) && !one.is_same(&two));
}
