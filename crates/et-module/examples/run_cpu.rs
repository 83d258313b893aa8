//! Runs a program on the CPU: `cargo run -p et-module --example run_cpu`, from the repository's root.
#![expect(
    clippy::print_stdout,
    reason = "the result is what this program is for"
)]

use std::error::Error;

use et_kernel::Tensor;
use et_module::Module;
use et_ops as _; // the portable operators

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut module = Module::open("tests/fixtures/add/model.pte")?;

    // What the method takes and gives is known before anything is loaded.
    let meta = module.method_meta("forward")?;
    for index in 0..meta.num_inputs() {
        println!("input {index}: {:?}", meta.input(index)?.tensor);
    }

    let one = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    let other = Tensor::from_slice(&[10.0f32; 6], &[2, 3])?;
    let outputs = module.forward(&[one.into(), other.into()])?;

    let sum = outputs[0].as_tensor().ok_or("the output is a tensor")?;
    println!("{:?}: {:?}", sum.sizes(), sum.as_slice::<f32>()?);
    if sum.as_slice::<f32>()? != [11.0, 12.0, 13.0, 14.0, 15.0, 16.0] {
        return Err("that is not the sum".into());
    }
    Ok(())
}
