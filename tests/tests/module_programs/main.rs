//! Programs built for the purpose: every kind of instruction, state, constants on devices, delegates.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

mod delegates;
mod instructions;
mod nested;
mod replaced;
mod state;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use et_device::DeviceMap;
use et_kernel::{
    Arguments, Backend, BackendError, BackendOptions, BackendRegistry, Delegate, Environment,
    InitContext, Kernel, KernelContext, KernelError, KernelRegistry, ScalarTypeSet, SharedBytes,
    Tensor,
};
use et_module::{Error, ErrorKind, Handover, LoadOptions, Method, Program, Value};
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::Tensor as FileTensor;
use et_schema::{Dynamism, ScalarType};
use et_tests::{Simulation, with_causes};

const CUDA: i8 = 1;

/// `test::add_one(x, out)`
fn add_one(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (x, out) = (context.tensor(0)?, context.tensor(1)?);
    context.resize_like(out, x)?;
    let ([mut out], [x]) = context.disjoint([out], [x])?;
    for (to, from) in out
        .elements_mut::<f32>()?
        .iter_mut()
        .zip(x.elements::<f32>()?)
    {
        *to = from + 1.0;
    }
    Ok(())
}

/// `test::fail(x)` fails if the first element is negative.
fn fail(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let x = context.tensor(0)?;
    let ([], [x]) = context.disjoint([], [x])?;
    match x.elements::<f32>()?.first() {
        Some(first) if *first < 0.0 => Err(KernelError::invalid("the first element is negative")),
        _ => Ok(()),
    }
}

/// `test::bump(n, x)` adds 1 to a number, which is not its last argument.
fn bump(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let n = context.int(0)?;
    context.set(0, et_kernel::EValue::Int(n + 1))
}

fn kernels() -> KernelRegistry {
    let mut kernels = KernelRegistry::linked().unwrap();
    let all = ScalarTypeSet::FLOATING;
    kernels
        .register(Kernel::new("test::add_one", all, add_one), "test")
        .unwrap();
    kernels
        .register(Kernel::new("test::fail", all, fail), "test")
        .unwrap();
    kernels
        .register(Kernel::new("test::bump", ScalarTypeSet::NONE, bump), "test")
        .unwrap();
    kernels
}

struct Bench {
    simulation: Simulation,
    environment: Environment,
}

impl Bench {
    fn new() -> Self {
        let simulation = Simulation::new();
        let environment = simulation.environment.clone().with_kernels(kernels());
        Self {
            simulation,
            environment,
        }
    }

    #[track_caller]
    fn load(&self, forward: MethodBuilder, program: ProgramBuilder) -> Method {
        self.try_load(forward, program)
            .unwrap_or_else(|error| panic!("{}", with_causes(&error)))
    }

    fn try_load(
        &self,
        forward: MethodBuilder,
        mut program: ProgramBuilder,
    ) -> Result<Method, Error> {
        program.method(forward);
        Program::from_bytes(program.to_bytes().unwrap())?.load_method("forward", &self.environment)
    }
}

fn floats(sizes: &[i32]) -> FileTensor {
    FileTensor::new(ScalarType::Float, sizes)
}

fn pair(a: f32, b: f32) -> Value {
    Tensor::from_slice(&[a, b], &[2]).unwrap().into()
}

fn raw(elements: &[f32]) -> Vec<u8> {
    elements
        .iter()
        .flat_map(|element| element.to_le_bytes())
        .collect()
}

#[track_caller]
fn run(method: &mut Method, inputs: &[Value]) -> Vec<f32> {
    for (index, input) in inputs.iter().enumerate() {
        method.set_input(index, input).unwrap();
    }
    method.execute().unwrap();
    output(method, 0)
}

#[track_caller]
fn output(method: &Method, index: usize) -> Vec<f32> {
    let output = method.output_to_host(index).unwrap();
    output
        .as_tensor()
        .unwrap()
        .as_slice::<f32>()
        .unwrap()
        .to_vec()
}

/// Ends with an output that is another name for what was computed.
fn moved_output() -> MethodBuilder {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(48);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    let sum = forward.tensor(floats(&[2]).planned(memory, 16));
    let out = forward.output(floats(&[2]));
    forward.kernel("test::add_one", &[x, sum]);
    forward.move_value(sum, out);
    forward
}
