//! Someone who wants the operators in a registry of their own, and one of them replaced.

use et_kernel::{Kernel, KernelRegistry, ScalarTypeSet};

fn main() {
    let kernels: KernelRegistry = et_ops::registry();
    assert!(kernels.get("aten::add.out").is_some());
    let mut own = KernelRegistry::new();
    let relu = Kernel::new("aten::relu.out", ScalarTypeSet::FLOATING, |_| Ok(()));
    own.register(relu, "my-crate").expect("the first of this name");
    for (kernel, origin) in kernels.iter() {
        let taken = own.register(*kernel, origin).is_err();
        assert_eq!(taken, kernel.name() == "aten::relu.out");
    }
}
