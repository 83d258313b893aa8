//! Programs built for the purpose: every kind of instruction, state, constants on devices, delegates.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

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
use et_tests::Simulation;

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
            .unwrap_or_else(|error| panic!("{}", shown(&error)))
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

fn shown(error: &Error) -> String {
    let first: &dyn std::error::Error = error;
    let chain = std::iter::successors(Some(first), |error| error.source());
    chain
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
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

#[test]
fn b_49_moves_and_frees_do_not_outlive_their_run() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(48);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]).planned(memory, 16));
    let other = forward.tensor(floats(&[2]).planned(memory, 32));
    forward.kernel("test::add_one", &[x, other]);
    forward.kernel("test::add_one", &[other, out]);
    // From here on `other` is `x`, and then has no memory at all.
    forward.move_value(x, other);
    forward.free(other);
    let mut method = bench.load(forward, ProgramBuilder::new());
    for _ in 0..3 {
        assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [3.0, 4.0]);
    }
}

#[test]
fn plain_values_are_the_same_at_the_start_of_each_run() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let (number, other, spare) = (forward.int(3), forward.int(7), forward.int(0));
    let (text, another, aside) = (
        forward.string("one"),
        forward.string("two"),
        forward.string(""),
    );
    forward.mark_output(number);
    forward.mark_output(text);
    for (a, b, c) in [(number, other, spare), (text, another, aside)] {
        // An exchange: a second run on what the first left would undo it.
        forward.move_value(a, c);
        forward.move_value(b, a);
        forward.move_value(c, b);
    }
    let mut method = bench.load(forward, ProgramBuilder::new());
    for _ in 0..3 {
        method.execute().unwrap();
        assert!(matches!(method.output_to_host(0).unwrap(), Value::Int(7)));
        assert!(matches!(method.output_to_host(1).unwrap(), Value::Str(text) if text == "two"));
    }
}

/// Adds 1 if the condition holds, and 2 if not.
fn branch(condition: impl FnOnce(&mut MethodBuilder) -> i32) -> MethodBuilder {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(48);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]).planned(memory, 16));
    let no = forward.bool(false);
    let condition = condition(&mut forward);
    forward.jump_false(condition, 3);
    forward.kernel("test::add_one", &[x, out]);
    forward.jump_false(no, 5);
    forward.kernel("test::add_one", &[x, out]);
    forward.kernel("test::add_one", &[out, out]);
    forward
}

#[test]
fn r_ins_03_conditions_are_bools_or_tensors_that_are_all_true() {
    let bench = Bench::new();
    for (elements, expected) in [
        (&[1u8][..], 1.0),
        (&[0], 2.0),
        (&[1, 1, 0], 2.0),
        (&[1, 7, 255], 1.0),
        (&[], 1.0),
    ] {
        let mut program = ProgramBuilder::new();
        let data = program.constant(elements);
        let size = elements.len() as i32;
        let tensor = FileTensor::new(ScalarType::Bool, &[size]).with_data(data);
        let forward = branch(|forward| forward.tensor(tensor));
        let mut method = bench.load(forward, program);
        assert_eq!(
            run(&mut method, &[pair(0.0, 0.0)]),
            [expected; 2],
            "{elements:?}"
        );
    }
    for value in [true, false] {
        let mut method = bench.load(branch(|forward| forward.bool(value)), ProgramBuilder::new());
        let expected = if value { 1.0 } else { 2.0 };
        assert_eq!(run(&mut method, &[pair(0.0, 0.0)]), [expected; 2]);
    }
}

#[test]
fn b_12_a_condition_on_a_device_is_fetched() {
    let bench = Bench::new();
    for (elements, expected) in [([1u8, 1], 1.0), ([1, 0], 2.0)] {
        let mut program = ProgramBuilder::new();
        let data = program.constant(&elements);
        let tensor = FileTensor::new(ScalarType::Bool, &[2])
            .with_data(data)
            .on_device(CUDA, 1);
        let mut method = bench.load(branch(|forward| forward.tensor(tensor)), program);
        let before = bench.simulation.counters().device_to_host;
        assert_eq!(run(&mut method, &[pair(0.0, 0.0)]), [expected; 2]);
        assert_eq!(bench.simulation.counters().device_to_host, before + 1);
    }
}

#[test]
fn r_ins_03_anything_else_is_no_condition() {
    let bench = Bench::new();
    for forward in [
        branch(|forward| forward.int(1)),
        branch(|forward| forward.none()),
    ] {
        let error = bench.try_load(forward, ProgramBuilder::new()).unwrap_err();
        assert!(
            shown(&error).contains("expected a Bool"),
            "{}",
            shown(&error)
        );
        assert_eq!(error.code(), 0x23);
    }
    let mut program = ProgramBuilder::new();
    let data = program.constant(&[1, 0, 0, 0]);
    let ints = FileTensor::new(ScalarType::Int, &[1]).with_data(data);
    let mut method = bench.load(branch(|forward| forward.tensor(ints)), program);
    method.set_input(0, &pair(0.0, 0.0)).unwrap();
    let error = method.execute().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Condition { .. }),
        "{error:?}"
    );
    assert_eq!(error.code(), 0x23);
    assert_eq!(
        error.to_string(),
        "method `forward`: instruction 0 (jump_false): the condition is a tensor Int[1] on cpu, and must be a Bool or a tensor of Bool"
    );
}

#[test]
fn r_exe_03_an_endless_loop_is_stopped() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let no = forward.bool(false);
    forward.jump_false(no, 0);
    let mut program = ProgramBuilder::new();
    program.method(forward);
    let program = Program::from_bytes(program.to_bytes().unwrap()).unwrap();
    let options = LoadOptions::default().with_instruction_limit(1000);
    let mut method = program
        .load_method_with(
            "forward",
            &bench.environment,
            &et_module::DataFiles::new(),
            options,
        )
        .unwrap();
    for _ in 0..2 {
        let error = method.execute().unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::InstructionLimit { limit: 1000 }
        ));
        assert_eq!(
            error.to_string(),
            "method `forward`: the run was stopped after 1000 instructions"
        );
    }
    let handle = method.cancel_handle();
    while method.step().is_ok() {
        handle.cancel();
    }
    assert!(!method.in_progress());
}

#[test]
fn r_exe_04_a_failed_kernel_is_named_and_the_method_runs_again() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(32);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]).planned(memory, 16));
    forward.kernel("test::add_one", &[x, out]);
    forward.kernel("test::fail", &[x]);
    let mut method = bench.load(forward, ProgramBuilder::new());
    method.set_input(0, &pair(-1.0, 0.0)).unwrap();
    let error = method.execute().unwrap_err();
    assert_eq!(
        shown(&error),
        "method `forward`: instruction 1 (test::fail): the instruction failed: the first element is negative"
    );
    assert_eq!(
        (error.id(), error.code()),
        ("kernel.invalid-argument", 0x12)
    );
    assert!(!method.in_progress());
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [2.0, 3.0]);
}

#[test]
fn r_init_12_all_missing_operators_are_named_at_once() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(32);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    for name in ["my::b.out", "test::fail", "my::a", "my::b.out"] {
        forward.kernel(name, &[x]);
    }
    let error = bench.try_load(forward, ProgramBuilder::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "method `forward`: 2 operators are not available: my::a, my::b.out"
    );
    assert_eq!(error.code(), 0x14);
}

/// Adds 1 to a state of two floats that lives where it is told to.
fn counter(program: &mut ProgramBuilder, device: i8, first: Option<[f32; 2]>) -> MethodBuilder {
    let mut forward = MethodBuilder::new("forward");
    let host = forward.buffer(16);
    let data = first.map_or(0, |first| program.initial_data(&raw(&first)));
    let state = floats(&[2]).with_data(data).named("count");
    if device == 0 {
        let state = forward.tensor(state.planned(host, 0));
        forward.kernel("test::add_one", &[state, state]);
        forward.mark_output(state);
    } else {
        let there = forward.device_buffer(16, device, 1);
        let state = forward.tensor(state.planned(there, 0).on_device(device, 1));
        let here = forward.tensor(floats(&[2]).planned(host, 0));
        forward.kernel("et_copy::_d2h_copy.out", &[state, here, here]);
        forward.kernel("test::add_one", &[here, here]);
        forward.kernel("et_copy::_h2d_copy.out", &[here, state, state]);
        forward.mark_output(state);
    }
    forward
}

#[test]
fn b_02_state_starts_as_the_file_says_on_the_device_where_it_lives() {
    for device in [0, CUDA] {
        for first in [None, Some([5.0, 7.0])] {
            let bench = Bench::new();
            let mut program = ProgramBuilder::new();
            let forward = counter(&mut program, device, first);
            let mut method = bench.load(forward, program);
            let [a, b] = first.unwrap_or_default();
            for _ in 0..2 {
                for turn in 1..4u8 {
                    let count = f32::from(turn);
                    assert_eq!(
                        run(&mut method, &[]),
                        [a + count, b + count],
                        "{device} {first:?}"
                    );
                }
                method.reset_state().unwrap();
            }
        }
    }
}

#[test]
fn r_att_01_state_is_read_and_written_by_name_wherever_it_is() {
    for device in [0, CUDA] {
        let bench = Bench::new();
        let mut program = ProgramBuilder::new();
        let forward = counter(&mut program, device, None);
        let mut method = bench.load(forward, program);
        let nine = Tensor::from_slice(&[9.0f32, 90.0], &[2]).unwrap();
        method.set_attribute("count", &nine).unwrap();
        assert_eq!(run(&mut method, &[]), [10.0, 91.0]);
        let saved = method.attribute("count").unwrap().to_host().unwrap();
        assert_eq!(saved.as_slice::<f32>().unwrap(), [10.0, 91.0]);
        assert_eq!(run(&mut method, &[]), [11.0, 92.0]);
        // State of one session goes to another.
        let mut program = ProgramBuilder::new();
        let forward = counter(&mut program, device, None);
        let mut second = bench.load(forward, program);
        second
            .set_attribute("count", method.attribute("count").unwrap())
            .unwrap();
        assert_eq!(run(&mut second, &[]), [12.0, 93.0]);

        let wrong = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
        assert!(method.set_attribute("count", &wrong).is_err());
        let mut own = nine.to_host().unwrap();
        assert!(
            matches!(method.exchange_attribute("count", &mut own), Err(e) if shown(&e).contains("planned"))
        );
        let error = method.attribute("coun").unwrap_err();
        assert_eq!(
            error.to_string(),
            "method `forward`: there is no tensor named `coun`; the method has count"
        );
        assert_eq!(error.code(), 0x20);
    }
}

#[test]
fn state_without_a_plan_is_made_zeroed_and_can_be_the_callers() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let state = forward.tensor(floats(&[2]).named("count"));
    forward.kernel("test::add_one", &[state, state]);
    forward.mark_output(state);
    // An output is made at the first run; this one is state, and is there before.
    let mut method = bench.load(forward, ProgramBuilder::new());
    assert_eq!(run(&mut method, &[]), [1.0; 2]);
    let mut own = Tensor::from_slice(&[10.0f32, 20.0], &[2]).unwrap();
    method.exchange_attribute("count", &mut own).unwrap();
    assert_eq!(own.as_slice::<f32>().unwrap(), [1.0; 2]);
    assert_eq!(run(&mut method, &[]), [11.0, 21.0]);
    method.reset_state().unwrap();
    assert_eq!(run(&mut method, &[]), [1.0; 2]);
}

#[test]
fn b_03_one_constant_on_a_device_is_uploaded_once_however_often_it_is_named() {
    let bench = Bench::new();
    let mut program = ProgramBuilder::new();
    let data = program.constant(&raw(&[1.0, 2.0]));
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(16);
    let out = forward.output(floats(&[2]).planned(memory, 0));
    let weight = |forward: &mut MethodBuilder, index| {
        forward.tensor(floats(&[2]).with_data(data).on_device(CUDA, index))
    };
    let (first, _second) = (weight(&mut forward, 0), weight(&mut forward, 0));
    let _elsewhere = weight(&mut forward, 1);
    forward.kernel("et_copy::_d2h_copy.out", &[first, out, out]);
    let mut method = bench.load(forward, program);
    let counters = bench.simulation.counters();
    assert_eq!((counters.allocations, counters.host_to_device), (2, 2));
    assert_eq!(run(&mut method, &[]), [1.0, 2.0]);
    let needed = method.meta().memory_needed(&DeviceMap::new()).unwrap();
    let bytes: Vec<_> = needed
        .iter()
        .map(|(device, nbytes)| (device.to_string(), *nbytes))
        .collect();
    assert_eq!(
        bytes,
        [
            ("cpu".to_owned(), 16),
            ("cuda:0".to_owned(), 8),
            ("cuda:1".to_owned(), 8)
        ]
    );
}

#[test]
fn b_04_a_tensor_in_a_buffer_of_another_device_is_refused() {
    let bench = Bench::new();
    for (buffer, tensor) in [((CUDA, 0), (0, 0)), ((CUDA, 0), (CUDA, 1))] {
        let mut forward = MethodBuilder::new("forward");
        let memory = forward.device_buffer(16, buffer.0, buffer.1);
        forward.input(
            floats(&[2])
                .planned(memory, 0)
                .on_device(tensor.0, tensor.1),
        );
        let error = bench.try_load(forward, ProgramBuilder::new()).unwrap_err();
        // Either the file is found wrong, or its loading is; never does it run.
        assert!(!shown(&error).is_empty());
        assert!(shown(&error).contains("cuda:0"), "{}", shown(&error));
    }
}

#[test]
fn a_result_that_is_a_view_can_be_handed_on() {
    let bench = Bench::new();
    let mut method = bench.load(moved_output(), ProgramBuilder::new());
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [2.0, 3.0]);
    let mut own = Tensor::from_slice(&[0.0f32; 2], &[2]).unwrap();
    method.exchange_output(0, &mut own).unwrap();
    assert_eq!(own.as_slice::<f32>().unwrap(), [2.0, 3.0]);
    let mut next = bench.load(moved_output(), ProgramBuilder::new());
    assert_eq!(run(&mut method, &[pair(5.0, 6.0)]), [6.0, 7.0]);
    assert_eq!(method.hand_over(0, &mut next, 0).unwrap(), Handover::Copied);
    next.execute().unwrap();
    assert_eq!(output(&next, 0), [7.0, 8.0]);
    assert_eq!(next.feed_back(0, 0).unwrap(), Handover::Copied);
    next.execute().unwrap();
    assert_eq!(output(&next, 0), [8.0, 9.0]);
}

#[test]
fn tensors_are_handed_on_only_to_their_like() {
    let bench = Bench::new();
    let mut method = bench.load(moved_output(), ProgramBuilder::new());
    run(&mut method, &[pair(1.0, 2.0)]);
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(64);
    forward.input(floats(&[3]).planned(memory, 0));
    forward.input(FileTensor::new(ScalarType::Int, &[2]));
    let mut other = bench.load(forward, ProgramBuilder::new());
    for input in 0..2 {
        let error = method.hand_over(0, &mut other, input).unwrap_err();
        assert_eq!(error.place().value, Some(input as u32), "{error:?}");
    }
    assert!(matches!(
        method.feed_back(1, 0).unwrap_err().kind(),
        ErrorKind::NoSuchOutput { .. }
    ));
    assert!(matches!(
        method.feed_back(0, 1).unwrap_err().kind(),
        ErrorKind::NoSuchInput { .. }
    ));
    assert_eq!(output(&method, 0), [2.0, 3.0]);
}

#[test]
fn b_10_a_dynamic_output_that_shrank_still_wants_room_for_its_bound() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(64);
    let x = forward.input(
        floats(&[8])
            .dynamic(Dynamism::DynamicBound)
            .planned(memory, 0),
    );
    let out = forward.output(floats(&[8]).dynamic(Dynamism::DynamicBound));
    forward.kernel("test::add_one", &[x, out]);
    let mut method = bench.load(forward, ProgramBuilder::new());
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [2.0, 3.0]);
    let mut small = Tensor::from_slice(&[0.0f32; 2], &[2]).unwrap();
    assert!(method.exchange_output(0, &mut small).is_err());
    assert_eq!(output(&method, 0), [2.0, 3.0]);
    let eight = Tensor::from_slice(&[1.0f32; 8], &[8]).unwrap();
    assert_eq!(run(&mut method, &[eight.into()]), [2.0; 8]);
    let nine = Tensor::from_slice(&[1.0f32; 9], &[9]).unwrap();
    assert!(method.set_input(0, &nine.into()).is_err());
    method.execute().unwrap();
    assert_eq!(output(&method, 0), [2.0; 8]);
}

#[test]
fn b_36_an_input_is_brought_into_the_dimension_order_of_the_program() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(64);
    let x = forward.input(floats(&[2, 2]).planned(memory, 0));
    let out = forward.output(floats(&[2, 2]).planned(memory, 16));
    forward.kernel("test::add_one", &[x, out]);
    let mut method = bench.load(forward, ProgramBuilder::new());
    let rows = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let columns = rows.in_dim_order(&[1, 0]).unwrap();
    assert_eq!(run(&mut method, &[columns.into()]), [2.0, 3.0, 4.0, 5.0]);
}

/// Records how delegates are made, and adds 1 when they run.
#[derive(Default)]
struct Recording {
    seen: Mutex<Vec<String>>,
    live: Arc<AtomicU32>,
    blobs: Mutex<Vec<SharedBytes>>,
    fails_at: Option<usize>,
    missing: bool,
}

struct AddOne(Arc<AtomicU32>);

impl Drop for AddOne {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Delegate for AddOne {
    fn execute(&mut self, context: &mut KernelContext<'_>) -> Result<(), KernelError> {
        add_one(context)
    }
}

impl Backend for Recording {
    fn id(&self) -> &str {
        "Recording"
    }

    fn is_available(&self) -> Result<(), BackendError> {
        if self.missing {
            return Err(BackendError::Unavailable(
                "there is no such machine".to_owned(),
            ));
        }
        Ok(())
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        blob: SharedBytes,
    ) -> Result<Box<dyn Delegate>, BackendError> {
        let mut seen = self.seen.lock().unwrap();
        if self.fails_at == Some(seen.len()) {
            return Err(BackendError::InvalidBlob(
                "the blob is not to be had".to_owned(),
            ));
        }
        let level = context
            .environment
            .backend_options
            .get("Recording", "level");
        let level = level.and_then(|level| level.as_int());
        let named = context
            .named_data
            .bytes("extra")
            .unwrap()
            .map(|bytes| bytes.to_vec());
        seen.push(format!(
            "{} {:?} {:?} {level:?} {named:?} {}",
            context.method,
            context.compile_spec("mode"),
            &blob[..],
            context.limits.depth
        ));
        self.blobs.lock().unwrap().push(blob);
        self.live.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(AddOne(Arc::clone(&self.live))))
    }
}

/// Two delegates, one with its blob in a segment and one inline, called one after the other.
fn delegates() -> (MethodBuilder, ProgramBuilder) {
    let mut program = ProgramBuilder::new();
    program.named_data("extra", &[4, 2]);
    let blobs = [
        program.delegate_data(&[1, 2, 3]),
        program.inline_delegate_data(&[9]),
    ];
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(32);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]).planned(memory, 16));
    let mut from = x;
    for blob in blobs {
        let delegate = forward.delegate("Recording", blob, &[("mode", b"fast")]);
        forward.delegate_call(delegate, &[from, out]);
        from = out;
    }
    (forward, program)
}

fn with_backend(bench: &mut Bench, backend: Recording) -> Arc<Recording> {
    let backend = Arc::new(backend);
    let mut backends = BackendRegistry::new();
    backends.register(backend.clone(), "test").unwrap();
    bench.environment = bench.environment.clone().with_backends(backends);
    backend
}

#[test]
fn r_del_08_a_backend_learns_what_it_needs_and_delegates_go_with_their_method() {
    let mut bench = Bench::new();
    let backend = with_backend(&mut bench, Recording::default());
    let options = BackendOptions::new()
        .with("Recording", "level", 3)
        .with("Other", "level", 9);
    bench.environment = bench.environment.clone().with_backend_options(options);
    let (forward, program) = delegates();
    let mut method = bench.load(forward, program);
    let expected =
        |blob: &str| format!("forward Some([102, 97, 115, 116]) {blob} Some(3) Some([4, 2]) 0");
    assert_eq!(
        *backend.seen.lock().unwrap(),
        [expected("[1, 2, 3]"), expected("[9]")]
    );
    assert_eq!(backend.live.load(Ordering::Relaxed), 2);
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [3.0, 4.0]);
    drop(method);
    assert_eq!(backend.live.load(Ordering::Relaxed), 0);
    // Whoever still holds a blob keeps it alive, without the program.
    assert_eq!(*backend.blobs.lock().unwrap()[0], [1, 2, 3]);
}

#[test]
fn r_del_04_a_delegate_that_fails_to_initialise_takes_the_earlier_ones_with_it() {
    let mut bench = Bench::new();
    let backend = with_backend(
        &mut bench,
        Recording {
            fails_at: Some(1),
            ..Recording::default()
        },
    );
    let (forward, program) = delegates();
    let error = bench.try_load(forward, program).unwrap_err();
    assert_eq!(
        shown(&error),
        "method `forward`: the delegate could not be initialised: the blob is not to be had"
    );
    assert_eq!(
        (error.code(), error.place().name.as_deref()),
        (0x30, Some("Recording"))
    );
    assert_eq!(backend.seen.lock().unwrap().len(), 1);
    assert_eq!(backend.live.load(Ordering::Relaxed), 0);
}

#[test]
fn r_del_01_a_backend_that_is_missing_or_not_available_is_told_apart() {
    let mut bench = Bench::new();
    let (forward, program) = delegates();
    let error = bench.try_load(forward, program).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::MissingBackend { id, .. } if id == "Recording"));
    assert_eq!(error.code(), 0x20);
    with_backend(
        &mut bench,
        Recording {
            missing: true,
            ..Recording::default()
        },
    );
    let (forward, program) = delegates();
    let error = bench.try_load(forward, program).unwrap_err();
    assert_eq!(
        shown(&error),
        "method `forward`: the delegate could not be initialised: the backend is not available: there is no such machine"
    );
}

#[test]
fn r_step_02_chains_run_in_order_and_may_be_empty() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(32);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]).planned(memory, 16));
    forward.kernel("test::add_one", &[x, out]);
    let plan = forward.plan_mut();
    let mut second = plan.chains[0].clone();
    let mut empty = second.clone();
    empty.instructions.clear();
    // The second chain goes on from where the first ended.
    for instruction in &mut second.instructions {
        if let et_schema::owned::Instruction::KernelCall(call) = instruction {
            call.args = vec![out, out];
        }
    }
    plan.chains.push(empty);
    plan.chains.push(second);
    let mut method = bench.load(forward, ProgramBuilder::new());
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [3.0, 4.0]);
    let mut steps = 1;
    while method.step().unwrap() {
        steps += 1;
    }
    assert_eq!(steps, 3);
    assert_eq!(output(&method, 0), [3.0, 4.0]);
}

#[test]
fn j_01_more_inputs_than_the_method_takes_set_none() {
    let bench = Bench::new();
    let mut program = ProgramBuilder::new();
    program.method(moved_output());
    let program = Program::from_bytes(program.to_bytes().unwrap()).unwrap();
    let mut module = et_module::Module::new(program, bench.environment.clone());
    module.execute("forward", &[pair(1.0, 2.0)]).unwrap();
    let many: Vec<Value> = (0..1000).map(|_| pair(7.0, 7.0)).collect();
    let error = module.execute("forward", &many).unwrap_err();
    assert!(matches!(
        error.kind(),
        ErrorKind::TooManyInputs {
            expected: 1,
            found: 1000
        }
    ));
    let outputs = module.execute("forward", &[]).unwrap();
    assert_eq!(
        outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(),
        [2.0, 3.0]
    );
}
