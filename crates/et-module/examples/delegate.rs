//! A delegate of one's own, and a program that was partitioned for it: `cargo run -p et-module --example delegate`.
//!
//! The program's delegate works on a device: the program copies its input there and its output back, and the delegate is
//! handed tensors in device memory. A simulated device stands in, so the delegate moves the bytes to the host to compute; one
//! for a real device gives `KernelContext::place` to its kernels instead.
#![expect(
    clippy::print_stdout,
    reason = "the result is what this program is for"
)]

use std::error::Error;
use std::sync::Arc;

use et_device::{AllocatorHandle, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{
    Arguments, Backend, BackendError, BackendRegistry, Delegate, Environment, InitContext,
    KernelContext, KernelError, KernelRegistry, SharedBytes, Tensor,
};
use et_module as _; // offers the copies between host and device
use et_module::{Module, Program};
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned;
use et_schema::{DeviceTag, ScalarType};
use et_sim::{SimAllocator, SimOptions};

/// Makes delegates that multiply by a number: the blob is the number, as a little-endian `f32`.
struct ScaleBackend;

impl Backend for ScaleBackend {
    fn id(&self) -> &str {
        "ScaleBackend"
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        blob: SharedBytes,
    ) -> Result<Box<dyn Delegate>, BackendError> {
        let bytes: [u8; 4] = (*blob).try_into().map_err(|_| {
            BackendError::InvalidBlob(format!("4 bytes are expected, not {}", blob.len()))
        })?;
        // Compile specs are for what the exporter decided: this one says where the delegate works.
        let target = context.compile_spec("target_device").unwrap_or(b"cpu");
        println!("a delegate for {}", String::from_utf8_lossy(target));
        Ok(Box::new(Scale(f32::from_le_bytes(bytes))))
    }
}

/// The arguments of a call are the inputs and then the outputs.
struct Scale(f32);

impl Delegate for Scale {
    fn execute(&mut self, context: &mut KernelContext<'_>) -> Result<(), KernelError> {
        context.expect_arguments(2..=2)?;
        let (x, y) = (context.tensor(0)?, context.tensor(1)?);
        println!("from {:?} to {:?}", context.place(x)?, context.place(y)?);
        context.resize_like(y, x)?;
        let mut bytes = vec![0; context.meta(x).nbytes()];
        context.read_bytes(x, &mut bytes)?;
        for element in bytes.chunks_exact_mut(4) {
            let value = f32::from_le_bytes([element[0], element[1], element[2], element[3]]);
            element.copy_from_slice(&(self.0 * value).to_le_bytes());
        }
        context.write_bytes(y, &bytes)
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let device = Arc::new(SimAllocator::new(SimOptions::new(DeviceType::CUDA)));
    let devices = DeviceAllocatorRegistry::new();
    devices.register(AllocatorHandle::from(Arc::clone(&device)))?;
    // A crate offers its backend by being linked instead: `et_kernel::link_backend!("my-crate", &ScaleBackend);`.
    let mut backends = BackendRegistry::new();
    backends.register(Arc::new(ScaleBackend), "my-crate")?;
    let environment = Environment::default()
        .with_kernels(KernelRegistry::linked()?)
        .with_backends(backends)
        .with_devices(devices);

    let mut module = Module::new(Program::from_bytes(program()?)?, environment);
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[4])?;
    let outputs = module.forward(&[x.into()])?;
    let y = outputs[0].as_tensor().ok_or("the output is a tensor")?;
    println!("{:?}", y.as_slice::<f32>()?);
    match y.as_slice::<f32>()? == [2.5, 5.0, 7.5, 10.0] {
        true => Ok(()),
        false => Err("that is not the result".into()),
    }
}

/// `y = 2.5 * x` on `cuda:0`, with a copy before and one after.
fn program() -> Result<Vec<u8>, Box<dyn Error>> {
    let (cuda, index) = (DeviceType::CUDA.as_raw(), 0);
    let mut builder = ProgramBuilder::new();
    let blob = builder.delegate_data(&2.5f32.to_le_bytes());
    let mut forward = MethodBuilder::new("forward");
    let host = forward.buffer(32);
    let memory = forward.device_buffer(32, cuda, index);
    let row = || owned::Tensor::new(ScalarType::Float, &[4]);
    let on_device = |offset| {
        let mut tensor = row().planned(memory, offset);
        tensor.set_device(DeviceTag::new(cuda, index));
        tensor
    };
    let x = forward.input(row().planned(host, 0));
    let device_x = forward.tensor(on_device(0));
    let device_y = forward.tensor(on_device(16));
    let y = forward.output(row().planned(host, 16));
    let scale = forward.delegate("ScaleBackend", blob, &[("target_device", b"cuda:0")]);
    forward.kernel("et_copy::_h2d_copy.out", &[x, device_x, device_x]);
    forward.delegate_call(scale, &[device_x, device_y]);
    forward.kernel("et_copy::_d2h_copy.out", &[device_y, y, y]);
    builder.method(forward);
    Ok(builder.to_bytes()?)
}
