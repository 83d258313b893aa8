//! A custom operator, and a program that calls it: `cargo run -p et-module --example operator`.
#![expect(
    clippy::print_stdout,
    reason = "the result is what this program is for"
)]

use std::error::Error;

use et_kernel::{
    Arguments, Environment, Kernel, KernelContext, KernelError, KernelRegistry, PrepareContext,
    Prepared, ScalarTypeSet, Tensor,
};
use et_module::{Module, Program};
use et_schema::ScalarType;
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned;

/// `my::softsign.out(x, scale, out)`: `scale * x / (1 + |x|)`.
const SOFTSIGN: Kernel =
    Kernel::new("my::softsign.out", ScalarTypeSet::FLOATING, run).with_prepare(prepare);

/// At load: what is wrong with the instruction is said once, and before any run.
fn prepare(context: &PrepareContext<'_>) -> Result<Prepared, KernelError> {
    context.expect_arguments(3..=3)?;
    Ok(Prepared::nothing())
}

fn run(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (x, scale, out) = (context.tensor(0)?, context.double(1)?, context.tensor(2)?);
    context.resize_like(out, x)?;
    // Values of a program may share bytes: slices are given only where they do not.
    let ([mut out], [x]) = context.disjoint([out], [x])?;
    let x = x.elements::<f32>()?;
    for (to, from) in out.elements_mut::<f32>()?.iter_mut().zip(x) {
        *to = scale as f32 * from / (1.0 + from.abs());
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // A crate of operators offers them by being linked instead: `et_kernel::link_kernels!("my-crate", &[SOFTSIGN]);`.
    let mut kernels = KernelRegistry::linked()?;
    kernels.register(SOFTSIGN, "my-crate")?;
    let environment = Environment::linked()?.with_kernels(kernels);

    let mut module = Module::new(Program::from_bytes(program()?)?, environment);
    let x = Tensor::from_slice(&[-1.0f32, 0.0, 1.0, 3.0], &[4])?;
    let outputs = module.forward(&[x.into()])?;
    let y = outputs[0].as_tensor().ok_or("the output is a tensor")?;
    println!("{:?}", y.as_slice::<f32>()?);
    match y.as_slice::<f32>()? == [-1.0, 0.0, 1.0, 1.5] {
        true => Ok(()),
        false => Err("that is not the result".into()),
    }
}

/// `y = softsign(x, 2.0)`, as an exporter would write it.
fn program() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut builder = ProgramBuilder::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(32);
    let row = || owned::Tensor::new(ScalarType::Float, &[4]);
    let x = forward.input(row().planned(memory, 0));
    let scale = forward.double(2.0);
    let y = forward.output(row().planned(memory, 16));
    forward.kernel("my::softsign.out", &[x, scale, y]);
    builder.method(forward);
    Ok(builder.to_bytes()?)
}
