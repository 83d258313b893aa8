//! What is done with a mutant: verify, load every method on simulated devices, and perhaps run it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{Environment, Tensor, TensorMeta};
use et_memory::Budget;
use et_module::{DataFiles, LoadOptions, Method, Program, Value};
use et_ops as _;
use et_schema::ParsedProgram;
use et_sim::{SimAllocator, SimOptions};

use crate::meter;

/// The longest a case may take.
const TIME: Duration = Duration::from_secs(1);
/// Bytes a case may use on top of its file and the planned memory that the file declares.
const EXTRA: u64 = 64 << 20;
/// Planned memory that a method may have on a device, so that large declarations cost nothing.
const BUDGET: u64 = 32 << 20;
/// Instructions that a run may take.
const INSTRUCTIONS: u64 = 300;

/// How far a mutant got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file was refused.
    Refused,
    /// It was read, and some method was refused.
    NotLoaded,
    /// Every method was loaded.
    Loaded,
    /// Every method was loaded and run to its end.
    Ran,
}

pub(crate) struct Target {
    environment: Environment,
    run: bool,
}

impl Target {
    pub(crate) fn new(run: bool) -> Self {
        let sim = SimAllocator::new(
            SimOptions::new(DeviceType::CUDA)
                .devices(2)
                .capacity(BUDGET),
        );
        let registry = DeviceAllocatorRegistry::new();
        registry
            .register(AllocatorHandle::from(Arc::new(sim)))
            .expect("the registry is empty");
        let environment = Environment::linked()
            .expect("no operator is linked twice")
            .with_devices(registry);
        Self { environment, run }
    }

    /// What became of a mutant, or what went wrong with it.
    pub(crate) fn check(&self, bytes: Vec<u8>) -> Result<Outcome, String> {
        let allowed = bytes.len() as u64 + declared(&bytes) + EXTRA;
        let before = meter::restart();
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.work(bytes)));
        let (took, used) = (start.elapsed(), meter::peak().saturating_sub(before));
        let outcome = outcome.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or(panic.downcast_ref::<&str>().copied())
                .unwrap_or("?");
            format!("panic: {text}")
        })?;
        if took > TIME {
            return Err(format!("took {took:?}"));
        }
        if used > allowed {
            return Err(format!("used {used} bytes, and {allowed} are allowed"));
        }
        Ok(outcome)
    }

    fn work(&self, bytes: Vec<u8>) -> Outcome {
        let Ok(program) = Program::from_bytes(bytes) else {
            return Outcome::Refused;
        };
        let names: Vec<String> = program.method_names().map(str::to_owned).collect();
        let mut outcome = if self.run {
            Outcome::Ran
        } else {
            Outcome::Loaded
        };
        for name in names {
            match self.load(&program, &name) {
                Err(_) => outcome = Outcome::NotLoaded,
                Ok(mut method) if self.run => {
                    if !run(&mut method) && outcome == Outcome::Ran {
                        outcome = Outcome::Loaded;
                    }
                }
                Ok(_) => {}
            }
        }
        outcome
    }

    fn load(&self, program: &Program, name: &str) -> Result<Method, et_module::Error> {
        let options = LoadOptions::default()
            .with_budget(Budget::unlimited().limit(Device::CPU, BUDGET))
            .with_instruction_limit(INSTRUCTIONS);
        program.load_method_with(name, &self.environment, &DataFiles::new(), options)
    }
}

/// Runs a method with zeros for tensors, and the numbers it was made with. Says whether it came to its end.
fn run(method: &mut Method) -> bool {
    for index in 0..method.num_inputs() {
        let Ok(info) = method.meta().input(index) else {
            return false;
        };
        let value = match info.tensor {
            Some(tensor) if tensor.meta.bound_nbytes() as u64 > BUDGET => return false,
            Some(tensor) => {
                let like = TensorMeta::new(
                    tensor.meta.dtype(),
                    tensor.meta.sizes(),
                    tensor.meta.dim_order(),
                );
                let Ok(zeros) = like.map_err(Into::into).and_then(Tensor::zeros) else {
                    return false;
                };
                Value::Tensor(zeros)
            }
            None => Value::None,
        };
        if method.set_input(index, &value).is_err() {
            return false;
        }
    }
    method.execute().is_ok()
}

/// Planned bytes that the file declares, as far as the budget lets them be allocated.
fn declared(bytes: &[u8]) -> u64 {
    let Ok(program) = ParsedProgram::from_file_bytes(bytes) else {
        return 0;
    };
    let sizes = |plan: et_schema::PlanView<'_>| {
        plan.buffer_sizes()
            .iter()
            .map(|size| u64::try_from(size).unwrap_or(0))
            .fold(0u64, u64::saturating_add)
    };
    program
        .root()
        .plans()
        .map(sizes)
        .fold(0u64, u64::saturating_add)
        .min(1 << 40)
}
