//! Kernels and backends by name.
#![expect(
    unsafe_code,
    reason = "what a macro offers to the process is a linker section"
)]

use std::sync::Arc;

use crate::{
    Backend, BackendError, BackendRegistry, COPY_KERNELS, Delegate, InitContext, Kernel,
    KernelContext, KernelError, KernelRegistry, ScalarTypeSet, SharedBytes,
};

struct Named(&'static str);

struct Idle;

impl Delegate for Idle {
    fn execute(&mut self, _: &mut KernelContext<'_>) -> Result<(), KernelError> {
        Ok(())
    }
}

impl Backend for Named {
    fn id(&self) -> &str {
        self.0
    }

    fn init(&self, _: &InitContext<'_>, _: SharedBytes) -> Result<Box<dyn Delegate>, BackendError> {
        Ok(Box::new(Idle))
    }
}

fn kernel(name: &'static str) -> Kernel {
    Kernel::new(name, ScalarTypeSet::NONE, |_| Ok(()))
}

#[test]
fn r_krn_01_a_name_with_and_without_overload_are_two_operators() {
    let mut registry = KernelRegistry::new();
    registry.register(kernel("my::op"), "a").unwrap();
    registry.register(kernel("my::op.out"), "a").unwrap();
    assert_eq!(registry.get("my::op.out").unwrap().name(), "my::op.out");
    assert_eq!(registry.iter().count(), 2);
    assert!(registry.get("my::OP").is_none());
}

#[test]
fn r_krn_02_there_is_no_limit_and_a_second_offer_is_an_error_value() {
    let mut registry = KernelRegistry::new();
    for i in 0..3000 {
        let name: &'static str = Box::leak(format!("many::op{i}").into_boxed_str());
        registry.register(kernel(name), "a").unwrap();
    }
    let error = registry
        .register_all(&[kernel("new::op"), kernel("many::op0")], "b")
        .unwrap_err();
    assert_eq!(
        (error.first, error.second, &*error.name),
        ("a", "b", "many::op0")
    );
    assert!(registry.get("new::op").is_some());
}

#[test]
fn r_be_01_backends_are_found_by_exact_id_and_listed_in_order() {
    let mut registry = BackendRegistry::new();
    for id in ["second", "first"] {
        registry.register(Arc::new(Named(id)), "a").unwrap();
    }
    assert_eq!(registry.get("first").unwrap().id(), "first");
    assert!(registry.get("First").is_none() && registry.get("").is_none());
    assert_eq!(
        registry.ids().collect::<Vec<_>>(),
        [("first", "a"), ("second", "a")]
    );
    let error = registry
        .register(Arc::new(Named("first")), "b")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend `first` is offered by both `a` and `b`"
    );
    assert!(registry.get("first").unwrap().is_available().is_ok());
}

#[test]
fn linked_kernels_are_found_without_being_registered() {
    crate::link_kernels!("et-kernel's tests", COPY_KERNELS);
    let linked = KernelRegistry::linked().unwrap();
    for kernel in COPY_KERNELS {
        assert!(linked.get(kernel.name()).is_some(), "{kernel:?}");
    }
}
