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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{Environment, Event, EventHook, ScalarType, Tensor, TensorMeta};
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
    let resident = on_the_device(&program, &Meter::new()?)?;
    let naive = through_the_host(&program, &Meter::new()?)?;
    println!("tokens: {resident:?}");
    if resident != naive {
        return Err(format!("through the host the tokens are {naive:?}").into());
    }
    Ok(())
}

/// Everything stays where it is.
fn on_the_device(program: &Program, meter: &Meter) -> Result<Vec<i64>> {
    let mut prefill = program.load_method("prefill", &meter.environment)?;
    let mut decode = program.load_method("decode", &meter.environment)?;
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
    meter.start();
    for _ in 0..STEPS {
        decode.execute()?;
        // The one copy of a step; behind it the step's work is done.
        decode.output_into(0, &mut token)?;
        tokens.push(token.as_slice::<i64>()?[0]);
        for value in 0..VALUES {
            decode.feed_back(value, value)?;
        }
        meter.report("on the device");
    }
    Ok(tokens)
}

/// Every value goes to the host and back.
fn through_the_host(program: &Program, meter: &Meter) -> Result<Vec<i64>> {
    let mut module = Module::new(program.clone(), meter.environment.clone());
    let mut values = module.execute("prefill", &prompt(program)?)?;
    let mut tokens = vec![first(&values)?];
    meter.start();
    for _ in 0..STEPS {
        values = module.execute("decode", &values)?;
        tokens.push(first(&values)?);
        meter.report("through the host");
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

/// Copies from the host, to the host, and between devices.
type Copies = [u64; 3];

/// A simulated device, whose copies inside of delegates are counted apart: the delegate of this example computes on the host,
/// so it fetches its arguments and stores its results.
struct Meter {
    environment: Environment,
    copies: Arc<CopyCounter>,
}

struct CopyCounter {
    device: Arc<SimAllocator>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reported: Copies,
    delegate_began: Copies,
    inside: Copies,
}

impl Meter {
    fn new() -> Result<Self> {
        let device = Arc::new(SimAllocator::new(SimOptions::new(DeviceType::CUDA)));
        let registry = DeviceAllocatorRegistry::new();
        registry.register(AllocatorHandle::from(Arc::clone(&device)))?;
        let copies = Arc::new(CopyCounter {
            device,
            state: Mutex::default(),
        });
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
        let mut state = self.copies.state();
        state.reported = self.copies.total();
        state.inside = Copies::default();
    }

    /// Prints the copies since the last time.
    fn report(&self, what: &str) {
        let (total, mut state) = (self.copies.total(), self.copies.state());
        let all = difference(total, state.reported);
        let (outside, inside) = (difference(all, state.inside), state.inside);
        println!("{what:16} {outside:?}, and inside of the delegate {inside:?}");
        state.reported = total;
        state.inside = Copies::default();
    }
}

impl CopyCounter {
    fn total(&self) -> Copies {
        let counters = self.device.counters();
        [
            counters.host_to_device,
            counters.device_to_host,
            counters.device_to_device,
        ]
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventHook for CopyCounter {
    fn event(&self, event: &Event<'_>) {
        let (total, mut state) = (self.total(), self.state());
        match event {
            Event::DelegateBegin { .. } => state.delegate_began = total,
            Event::DelegateEnd => {
                let staged = difference(total, state.delegate_began);
                state.inside = std::array::from_fn(|way| state.inside[way] + staged[way]);
            }
            _ => {}
        }
    }
}

fn difference(after: Copies, before: Copies) -> Copies {
    std::array::from_fn(|way| after[way] - before[way])
}
