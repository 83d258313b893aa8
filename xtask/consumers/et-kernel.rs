//! Someone who writes an operator.

use et_kernel::{Kernel, KernelContext, KernelError, KernelRegistry, ScalarTypeSet, Tensor};

fn double(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let ([mut out], [x]) = {
        use et_kernel::Arguments;
        let (x, out) = (context.tensor(0)?, context.tensor(1)?);
        context.disjoint([out], [x])?
    };
    for (to, from) in out.elements_mut::<f32>()?.iter_mut().zip(x.elements::<f32>()?) {
        *to = 2.0 * from;
    }
    Ok(())
}

fn main() {
    let mut kernels = KernelRegistry::new();
    let kernel = Kernel::new("my::double.out", ScalarTypeSet::FLOATING, double);
    kernels.register(kernel, "my-crate").expect("the first of this name");
    assert!(kernels.register(kernel, "another").is_err());
    let tensor = Tensor::from_slice(&[1.0f32, 2.0], &[2]).expect("two elements");
    assert!(tensor.as_slice::<i32>().is_err());
}
