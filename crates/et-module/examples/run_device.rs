//! Runs a program that was planned for a GPU, on a simulated one: `cargo run -p et-module --example run_device`, from the
//! repository's root.
//!
//! With a GPU, `use et_cuda as _;` and `Environment::linked()` are all it takes instead.
#![expect(
    clippy::print_stdout,
    reason = "the copies are what this program is for"
)]

use std::error::Error;
use std::sync::Arc;

use et_device::{AllocatorHandle, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{Environment, Tensor};
use et_module::{Module, Program};
use et_ops as _; // the portable operators
use et_sim::{SimAllocator, SimOptions, TraceEvent};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // A registry of our own, in which a simulated device answers to `cuda`.
    let device = Arc::new(SimAllocator::new(SimOptions::new(DeviceType::CUDA)));
    let registry = DeviceAllocatorRegistry::new();
    registry.register(AllocatorHandle::from(Arc::clone(&device)))?;
    let environment = Environment::linked()?.with_devices(registry);

    let program = Program::open("tests/fixtures/dev_single_add/model.pte")?;
    let plan = program
        .method_meta("forward")?
        .memory_plan(&environment.device_map)?;
    println!("planned: {plan:?}");

    device.record();
    let mut module = Module::new(program, environment);
    let one = Tensor::from_slice(&[1.0f32, -2.0, 3.0, -4.0, 5.0, -6.0], &[2, 3])?;
    let other = Tensor::from_slice(&[0.5f32; 6], &[2, 3])?;
    let outputs = module.forward(&[one.into(), other.into()])?;
    let events = device.take_trace();
    for event in &events {
        println!("{event:?}");
    }

    // The delegate adds on the device, and `relu` runs on the CPU behind it.
    let result = outputs[0].as_tensor().ok_or("the output is a tensor")?;
    println!("{:?}", result.as_slice::<f32>()?);
    if result.as_slice::<f32>()? != [1.5, 0.0, 3.5, 0.0, 5.5, 0.0] {
        return Err("that is not the result".into());
    }
    let uploads = |event: &&TraceEvent| matches!(event, TraceEvent::HostToDevice { .. });
    if events.iter().filter(uploads).count() != 3 {
        // Two by the program, and one by the stand-in for the delegate, which computes on the host.
        return Err("three copies to the device were expected".into());
    }
    drop(module);
    match device.counters().live_blocks {
        0 => Ok(()),
        blocks => Err(format!("{blocks} blocks were not given back").into()),
    }
}
