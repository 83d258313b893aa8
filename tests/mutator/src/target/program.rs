//! Programs: every method is loaded on simulated devices, and perhaps run.

use std::sync::Arc;

use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{Environment, Tensor, TensorMeta};
use et_memory::Budget;
use et_module::{DataFiles, LoadOptions, Method, Program, Value};
use et_ops as _;
use et_schema::ParsedProgram;
use et_sim::{SimAllocator, SimOptions};

use super::Outcome;

/// Planned memory that a method may have on a device, so that large declarations cost nothing.
const BUDGET: u64 = 32 << 20;
/// Instructions that a run may take.
const INSTRUCTIONS: u64 = 300;

/// Loads programs, and runs them if wanted.
pub(super) struct Programs {
    environment: Environment,
    run: bool,
}

impl Programs {
    pub(super) fn new(run: bool) -> Self {
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

    /// Accepted is a program whose methods were all loaded, and came to their end if they were to run.
    pub(super) fn check(&self, bytes: Vec<u8>) -> Outcome {
        let Ok(program) = Program::from_bytes(bytes) else {
            return Outcome::Refused;
        };
        let names: Vec<String> = program.method_names().map(str::to_owned).collect();
        let mut outcome = Outcome::Accepted;
        for name in names {
            let done = match self.load(&program, &name) {
                Ok(mut method) => !self.run || run(&mut method),
                Err(_) => false,
            };
            if !done {
                outcome = Outcome::Partly;
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
pub(super) fn declared(bytes: &[u8]) -> u64 {
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

/// Accepted is a program without problems; all of them are collected.
pub(super) fn verify(bytes: &[u8]) -> Outcome {
    match ParsedProgram::from_file_bytes(bytes) {
        Err(_) => Outcome::Refused,
        Ok(parsed) if parsed.problems().is_usable() => Outcome::Accepted,
        Ok(_) => Outcome::Partly,
    }
}
