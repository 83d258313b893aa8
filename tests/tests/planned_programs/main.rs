//! Random programs, run with every value in memory of its own and run planned: the same bits come out.
//!
//! The planned run begins with poisoned memory, on the host and on every device, but for the state, which begins with
//! zeros. Whatever a plan or a copy gets wrong is then read as poison, or as what another value left there.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod repaired;
mod sketch;

use et_device::{Alignment, DeviceMap};
use et_kernel::{Bool8, Tensor};
use et_memory::{DeviceMemoryBuffer, HostBuffer, PlannedBuffer, PlannedMemory};
use et_module::{DataFiles, LoadOptions, Method, Program, Value};
use et_planner::analysis::{Analysis, Hints, ValueIndex};
use et_planner::compact::{CompactOptions, SharedBuffers, compact_method};
use et_planner::placement::Algorithm;
use et_planner::propagate::{MethodOptions, propagate_method};
use et_schema::builder::ProgramBuilder;
use et_schema::owned::ExecutionPlan;
use et_tests::Simulation;
use proptest::prelude::*;
use sketch::{INPUTS, Statement, build};

/// As a float this is 3.4e38: nothing that it gets into stays as it was.
const POISON: u8 = 0x7f;
/// Runs on one loaded method, so that state carries over.
const RUNS: u32 = 3;

/// How a program is planned.
#[derive(Clone, Debug)]
struct Settings {
    skip_h2d: bool,
    skip_d2h: bool,
    reuse_uploads: bool,
    compact: bool,
    naive: bool,
    reorder: bool,
    in_place: bool,
}

fn settings() -> impl Strategy<Value = Settings> {
    any::<[bool; 7]>().prop_map(
        |[
            skip_h2d,
            skip_d2h,
            reuse_uploads,
            compact,
            naive,
            reorder,
            in_place,
        ]| Settings {
            skip_h2d,
            skip_d2h,
            reuse_uploads,
            compact,
            // Naive cannot keep state where it is.
            naive,
            reorder,
            in_place,
        },
    )
}

fn plan(method: &mut ExecutionPlan, settings: &Settings) {
    let mut options = MethodOptions::default();
    options.skip_h2d = settings.skip_h2d;
    options.skip_d2h = settings.skip_d2h;
    options.reuse_uploads = settings.reuse_uploads;
    if settings.naive {
        options.algorithm = Algorithm::Naive;
    }
    propagate_method(method, &options).unwrap();
    if settings.compact {
        let mut options = CompactOptions::default();
        options.reorder = settings.reorder;
        options.in_place = settings.in_place;
        compact_method(method, &SharedBuffers::none(), &options).unwrap();
    }
}

/// Every buffer full of poison, but for state.
fn poisoned(program: &Program, method: &ExecutionPlan, simulation: &Simulation) -> PlannedMemory {
    let meta = program.method_meta("forward").unwrap();
    let plan = meta.memory_plan(&DeviceMap::new()).unwrap();
    let registry = &simulation.environment.devices;
    let buffers = (1..).zip(plan.buffers()).map(|(memory_id, spec)| {
        if !spec.device.is_cpu() {
            let alignment = Alignment::new(256).unwrap();
            let mut buffer =
                DeviceMemoryBuffer::create_in(registry, spec.nbytes, spec.device, alignment)
                    .unwrap();
            buffer.fill(POISON).unwrap();
            return PlannedBuffer::Device(buffer);
        }
        let mut buffer = HostBuffer::zeroed(spec.nbytes, Alignment::new(64).unwrap()).unwrap();
        // SAFETY: nobody has seen the buffer yet.
        let bytes = unsafe { buffer.bytes_mut() };
        bytes.fill(POISON);
        for state in state(method, memory_id) {
            bytes[state].fill(0);
        }
        PlannedBuffer::Host(buffer)
    });
    PlannedMemory::from_buffers(&plan, buffers.collect()).unwrap()
}

/// Where the state of a method is in a buffer.
fn state(method: &ExecutionPlan, memory_id: u32) -> Vec<std::ops::Range<usize>> {
    let analysis = Analysis::new(method, &Hints::default()).unwrap();
    let values = method.values.iter().enumerate();
    let place = values.filter_map(|(number, value)| {
        let tensor = value.as_tensor()?;
        let place = tensor.allocation_info?;
        let is_state = analysis.is_persistent(ValueIndex::new(number));
        let start = usize::try_from(place.memory_offset).unwrap();
        let nbytes = usize::try_from(tensor.nbytes()?).unwrap();
        (is_state && place.memory_id == memory_id).then(|| start..start + nbytes)
    });
    place.collect()
}

/// The inputs of a run.
fn inputs(run: u32, flags: [bool; 2]) -> Vec<Value> {
    let number = |input: usize, element: usize| {
        let odd = u16::try_from((7 * input + 13 * element + 29) % 31).unwrap();
        f32::from(odd) / 8.0 - 2.0 + run as f32 / 4.0
    };
    let flag = |flag: bool| -> Value {
        Tensor::from_slice(&[Bool8::from(flag ^ (run == 1))], &[])
            .unwrap()
            .into()
    };
    let mut all: Vec<Value> = flags.map(flag).into();
    for input in 0..INPUTS {
        let elements: Vec<f32> = (0..6).map(|element| number(input, element)).collect();
        all.push(Tensor::from_slice(&elements, &[2, 3]).unwrap().into());
    }
    all
}

/// The bits of all outputs of all runs.
fn run(method: &mut Method, flags: [bool; 2]) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    for run in 0..RUNS {
        for (index, input) in inputs(run, flags).iter().enumerate() {
            method.set_input(index, input).unwrap();
        }
        method.execute().unwrap();
        for output in 0..method.num_outputs() {
            let value = method.output_to_host(output).unwrap();
            let elements = value
                .as_tensor()
                .unwrap()
                .as_slice::<f32>()
                .unwrap()
                .to_vec();
            all.push(elements.iter().map(|element| element.to_bits()).collect());
        }
    }
    all
}

fn unplanned(program: &ProgramBuilder, flags: [bool; 2]) -> Vec<Vec<u32>> {
    let simulation = Simulation::new();
    let program = Program::from_bytes(program.to_bytes().unwrap()).unwrap();
    let mut method = program
        .load_method("forward", &simulation.environment)
        .unwrap();
    run(&mut method, flags)
}

fn planned(
    mut program: ProgramBuilder,
    flags: [bool; 2],
    plan: impl FnOnce(&mut ExecutionPlan),
) -> Vec<Vec<u32>> {
    let simulation = Simulation::new();
    let method = &mut program.program_mut().execution_plan[0];
    plan(method);
    let method = method.clone();
    let program = Program::from_bytes(program.to_bytes().unwrap()).unwrap();
    let memory = poisoned(&program, &method, &simulation);
    let options = LoadOptions::default().with_planned_memory(memory);
    let mut loaded = program
        .load_method_with(
            "forward",
            &simulation.environment,
            &DataFiles::new(),
            options,
        )
        .unwrap();
    let outputs = run(&mut loaded, flags);
    drop(loaded);
    simulation.expect_empty();
    outputs
}

fn statements() -> impl Strategy<Value = Vec<Statement>> {
    let statement =
        (0..14_u8, any::<[u16; 3]>()).prop_map(|(kind, picks)| Statement { kind, picks });
    prop::collection::vec(statement, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn planned_programs_compute_the_same(
        statements in statements(),
        settings in settings(),
        flags in any::<[bool; 2]>(),
    ) {
        let program = build(&statements);
        let expected = unplanned(&program, flags);
        let found = planned(program, flags, |method| plan(method, &settings));
        prop_assert_eq!(found, expected);
    }
}

/// The test above can fail: a plan in which two values share bytes is noticed.
#[test]
fn a_wrong_plan_is_noticed() {
    let statements = [
        Statement::new(0, [0, 0, 0]),
        Statement::new(4, [0, 0, 0]),
        Statement::new(2, [3, 4, 0]),
    ];
    let flags = [false, false];
    let expected = unplanned(&build(&statements), flags);
    let kept = planned(build(&statements), flags, |_| {});
    assert_eq!(kept, expected);
    let corrupted = planned(build(&statements), flags, |method| {
        let tensors = method
            .values
            .iter_mut()
            .filter_map(|value| value.as_tensor_mut());
        for tensor in tensors {
            if let Some(place) = &mut tensor.allocation_info {
                place.memory_offset %= 64;
            }
        }
    });
    assert_ne!(corrupted, expected);
}
