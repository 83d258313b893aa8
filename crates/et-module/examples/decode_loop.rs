//! A greedy decode whose token, position and cache stay on the device: only the sampled token comes to the host.
//!
//! The model is one delegate per method, with every input and output on a device and without a plan, so that an output becomes
//! the next input by an exchange of memory. The same is done through host memory for comparison. A simulated device stands in
//! for a real one, and counts the copies: `cargo run -p et-module --example decode_loop`, from the repository's root.
#![expect(
    clippy::print_stdout,
    reason = "the counts are what this program is for"
)]

use std::error::Error;
use std::sync::Arc;

use et_device::{AllocatorHandle, CopyCounts, Device, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{CopyMeter, Environment, ScalarType, Tensor, TensorMeta};
use et_module::{Module, Program, Value};
use et_ops as _;
use et_sim::{SimAllocator, SimOptions};

const STEPS: usize = 6;
const PROMPT: [i64; 4] = [3, 14, 15, 9];
/// Token, position, and the two caches: inputs and outputs alike.
const VALUES: usize = 4;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) fn main() -> Result<()> {
    let program = Program::open("tests/fixtures/dev_lm_resident/model.pte")?;
    println!("copies per step: host to device, device to host, device to device");
    let resident = on_the_device(&program, &Bench::new()?)?;
    let naive = through_the_host(&program, &Bench::new()?)?;
    println!("tokens: {resident:?}");
    if resident != naive {
        return Err(format!("through the host the tokens are {naive:?}").into());
    }
    Ok(())
}

/// Everything stays where it is.
fn on_the_device(program: &Program, bench: &Bench) -> Result<Vec<i64>> {
    let mut prefill = program.load_method("prefill", &bench.environment)?;
    let mut decode = program.load_method("decode", &bench.environment)?;
    for (index, input) in prompt(program)?.iter().enumerate() {
        prefill.set_input(index, input)?;
    }
    prefill.execute()?;
    // Where each sampled token is put: made once.
    let mut token = Tensor::zeros(TensorMeta::contiguous(ScalarType::Long, &[1, 1])?)?;
    prefill.output_into(0, &mut token)?;
    let mut tokens = vec![token.as_slice::<i64>()?[0]];
    for value in 0..VALUES {
        prefill.hand_over(value, &mut decode, value)?;
    }
    bench.start();
    for _ in 0..STEPS {
        decode.execute()?;
        // The one copy of a step; behind it the step's work is done.
        decode.output_into(0, &mut token)?;
        tokens.push(token.as_slice::<i64>()?[0]);
        for value in 0..VALUES {
            decode.feed_back(value, value)?;
        }
        bench.report("on the device");
    }
    Ok(tokens)
}

/// Every value goes to the host and back.
fn through_the_host(program: &Program, bench: &Bench) -> Result<Vec<i64>> {
    let mut module = Module::new(program.clone(), bench.environment.clone());
    let mut values = module.execute("prefill", &prompt(program)?)?;
    let mut tokens = vec![first(&values)?];
    bench.start();
    for _ in 0..STEPS {
        values = module.execute("decode", &values)?;
        tokens.push(first(&values)?);
        bench.report("through the host");
    }
    Ok(tokens)
}

fn first(values: &[Value]) -> Result<i64> {
    let token = values[0].as_tensor().ok_or("the token is a tensor")?;
    Ok(token.as_slice::<i64>()?[0])
}

/// The prompt at position 0, and empty caches.
fn prompt(program: &Program) -> Result<Vec<Value>> {
    let meta = program.method_meta("prefill")?;
    let cache = |index| -> Result<Value> {
        let tensor = meta.input(index)?.tensor.ok_or("the caches are tensors")?;
        Ok(Tensor::zeros(tensor.meta.on(Device::CPU))?.into())
    };
    let tokens = Tensor::from_slice(&PROMPT, &[1, PROMPT.len()])?;
    let position = Tensor::from_slice(&[0i64], &[1])?;
    Ok(vec![tokens.into(), position.into(), cache(2)?, cache(3)?])
}

/// A simulated device, and the count of its copies. Those inside of delegates are counted apart: the delegate of this example
/// computes on the host, so it fetches its arguments and stores its results.
struct Bench {
    environment: Environment,
    copies: Arc<CopyMeter>,
}

impl Bench {
    fn new() -> Result<Self> {
        let device = Arc::new(SimAllocator::new(SimOptions::new(DeviceType::CUDA)));
        let registry = DeviceAllocatorRegistry::new();
        registry.register(AllocatorHandle::from(Arc::clone(&device)))?;
        let copies = Arc::new(CopyMeter::new(move || device.counters().copies()));
        let environment = Environment::linked()?
            .with_devices(registry)
            .with_hook(copies.clone());
        Ok(Self {
            environment,
            copies,
        })
    }

    /// Forgets what was counted.
    fn start(&self) {
        self.copies.take();
    }

    /// Prints the copies since the last time.
    fn report(&self, what: &str) {
        let copies = self.copies.take();
        let ways = |copies: CopyCounts| {
            let (up, down) = (copies.host_to_device, copies.device_to_host);
            [up, down, copies.device_to_device]
        };
        let (outside, inside) = (ways(copies.outside_delegates()), ways(copies.delegate));
        println!("{what:16} {outside:?}, and inside of the delegate {inside:?}");
    }
}
