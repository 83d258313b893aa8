//! How methods are loaded and kept: budgets, device maps, shared arenas, state, stepping, limits.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

use std::sync::{Arc, OnceLock};

use et_device::{Device, DeviceMap};
use et_kernel::{Event, EventHook, SizeLimits, Tensor};
use et_memory::{Budget, BufferSpec, MemoryPlan, PlannedMemory};
use et_module::{
    CancelHandle, Error, ErrorKind, LoadOptions, Method, Module, ModuleOptions, Program, Value,
};
use et_tests::{Case, Run, Simulation};

fn cuda(index: u8) -> Device {
    Device::cuda(index).unwrap()
}

fn options(change: impl FnOnce(&mut ModuleOptions)) -> ModuleOptions {
    let mut options = ModuleOptions::default();
    change(&mut options);
    options
}

fn device_map(pairs: &[(Device, Device)]) -> DeviceMap {
    let mut map = DeviceMap::new();
    for &(from, to) in pairs {
        map.insert(from, to);
    }
    map
}

#[track_caller]
fn check(module: &mut Module, run: &Run) {
    let outputs = module.execute(&run.method, &run.inputs).unwrap();
    assert_eq!(run.difference(&outputs), None);
}

fn set_inputs(method: &mut Method, run: &Run) {
    for (index, input) in run.inputs.iter().enumerate() {
        method.set_input(index, input).unwrap();
    }
}

/// The error and its causes, as a person sees them.
fn shown(error: &Error) -> String {
    let first: &dyn std::error::Error = error;
    let chain = std::iter::successors(Some(first), |error| error.source());
    chain
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

#[test]
fn i_01_a_budget_of_exactly_what_is_needed_is_enough_and_a_byte_less_is_not() {
    for name in ["mlp", "dev_single_all", "dev_two_cross", "dev_lm_resident"] {
        let case = Case::fixture(name);
        let simulation = Simulation::new();
        let run = &case.runs()[0];
        let module = || case.module(&simulation.environment).unwrap();
        let needed = module()
            .method_meta(&run.method)
            .unwrap()
            .memory_needed(&DeviceMap::new())
            .unwrap();
        assert!(!needed.is_empty(), "{name}");
        for (device, nbytes) in needed {
            if device.is_cpu() && name.starts_with("dev_") {
                // The delegates of these need memory of the host besides.
                continue;
            }
            let mut enough = module();
            enough.set_options(options(|o| {
                o.budget = Budget::unlimited().limit(device, nbytes)
            }));
            check(&mut enough, run);
            let peak = simulation.counters().live_bytes;
            drop(enough);

            let before = simulation.counters().allocations;
            let mut short = module();
            short.set_options(options(|o| {
                o.budget = Budget::unlimited().limit(device, nbytes - 1)
            }));
            let error = short.method(&run.method).unwrap_err();
            assert_eq!(
                error.id(),
                "memory.over-budget",
                "{name}: {}",
                shown(&error)
            );
            assert_eq!(simulation.counters().allocations, before);
            if name.starts_with("dev_lm") {
                // Nothing is planned there, and yet all of it was foreseen.
                assert_eq!(peak, nbytes);
            }
        }
    }
}

#[test]
fn a_device_map_moves_every_buffer_and_tensor() {
    let case = Case::fixture("dev_two_cross");
    let mut simulation = Simulation::new();
    let map = device_map(&[(cuda(1), cuda(0))]);
    simulation.environment = simulation.environment.with_device_map(map);
    let mut module = case.module(&simulation.environment).unwrap();
    check(&mut module, &case.runs()[0]);
    let method = module.method("forward").unwrap();
    let devices: Vec<_> = method
        .planned_memory()
        .buffers()
        .iter()
        .map(|b| b.device())
        .collect();
    assert!(
        devices.contains(&cuda(0)) && !devices.contains(&cuda(1)),
        "{devices:?}"
    );
}

#[test]
fn a_device_map_to_the_host_runs_without_any_device() {
    let case = Case::fixture("dev_two_cross");
    let mut simulation = Simulation::new();
    let map = device_map(&[(cuda(0), Device::CPU), (cuda(1), Device::CPU)]);
    simulation.environment = simulation.environment.with_device_map(map);
    let mut module = case.module(&simulation.environment).unwrap();
    check(&mut module, &case.runs()[0]);
    assert_eq!(simulation.counters().allocations, 0);
}

#[test]
fn r_mod_09_methods_with_shared_arenas_share_state_in_any_order_of_loading() {
    let case = Case::fixture("mut_shared_methods");
    let simulation = Simulation::new();
    for first in ["get", "put"] {
        let mut module = case.module(&simulation.environment).unwrap();
        module.method(first).unwrap();
        for run in case.runs() {
            check(&mut module, &run);
        }
    }
}

#[test]
fn r_mod_09_a_method_that_is_loaded_again_finds_the_state_that_the_others_left() {
    let case = Case::fixture("mut_shared_methods");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    for run in case.runs() {
        check(&mut module, &run);
        assert!(module.unload_method(&run.method).unwrap());
        assert!(!module.unload_method(&run.method).unwrap());
    }
}

fn bytes(value: &Value) -> &[u8] {
    value.as_tensor().unwrap().bytes().unwrap()
}

#[test]
fn without_shared_arenas_each_method_has_state_of_its_own() {
    let case = Case::fixture("mut_shared_methods");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    module.set_options(ModuleOptions::default());
    let put = case
        .runs()
        .into_iter()
        .find(|run| run.method == "put")
        .unwrap();
    let get = case
        .runs()
        .into_iter()
        .find(|run| run.method == "get")
        .unwrap();
    let before = module.execute("get", &get.inputs).unwrap();
    module.execute("put", &put.inputs).unwrap();
    let after = module.execute("get", &get.inputs).unwrap();
    assert_eq!(bytes(&before[0]), bytes(&after[0]));
}

#[test]
fn a_method_in_the_middle_of_a_run_keeps_its_shared_arenas() {
    let case = Case::fixture("mut_shared_methods");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let put = case
        .runs()
        .into_iter()
        .find(|run| run.method == "put")
        .unwrap();
    let method = module.method("put").unwrap();
    set_inputs(method, &put);
    assert!(method.step().unwrap());
    let error = module.method("get").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InProgress), "{error:?}");
    assert_eq!(error.place().method.as_deref(), Some("put"));
    module.method("put").unwrap().reset_execution();
    module.method("get").unwrap();
}

#[test]
fn g_11_arenas_are_shared_on_devices_too() {
    let case = Case::fixture("dev_two_same");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    module.set_options(options(|o| o.share_arenas = true));
    check(&mut module, &case.runs()[0]);
    let live = simulation.counters().live_blocks;
    assert!(live > 0);
    assert!(module.unload_method("forward").unwrap());
    // The arenas stay for the next one.
    assert_eq!(simulation.counters().live_blocks, live);
    check(&mut module, &case.runs()[0]);
    assert_eq!(simulation.counters().live_blocks, live);
    module.unload();
    simulation.expect_empty();
    check(&mut module, &case.runs()[0]);
}

#[test]
fn b_42_unloading_gives_everything_back_and_reloading_works_any_number_of_times() {
    let case = Case::fixture("dev_same_and_cross");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    for _ in 0..20 {
        assert!(!module.is_loaded("forward"));
        check(&mut module, &case.runs()[0]);
        assert!(module.is_loaded("forward"));
        assert!(module.unload_method("forward").unwrap());
        simulation.expect_empty();
    }
}

#[test]
fn r_mod_04_options_for_a_method_that_is_loaded_are_an_error() {
    let case = Case::fixture("mlp");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    module
        .load_method("forward", LoadOptions::default())
        .unwrap();
    let again = module
        .load_method("forward", LoadOptions::default())
        .unwrap_err();
    assert!(matches!(again.kind(), ErrorKind::AlreadyLoaded));
    assert_eq!(again.code(), 0x04);
    check(&mut module, &case.runs()[0]);
}

#[test]
fn b_58_planned_memory_of_the_caller_is_checked_against_the_plan() {
    let case = Case::fixture("dev_single_add");
    let simulation = Simulation::new();
    let registry = &simulation.environment.devices;
    let mut module = case.module(&simulation.environment).unwrap();
    let plan = module
        .method_meta("forward")
        .unwrap()
        .memory_plan(&DeviceMap::new())
        .unwrap();
    let allocate = |buffers: Vec<BufferSpec>| {
        PlannedMemory::allocate(&MemoryPlan::new(buffers), registry, &Budget::unlimited()).unwrap()
    };
    let mut short = plan.buffers().to_vec();
    short[0].nbytes -= 1;
    let mut elsewhere = plan.buffers().to_vec();
    for buffer in &mut elsewhere {
        if !buffer.device.is_cpu() {
            buffer.device = cuda(1);
        }
    }
    let missing = plan.buffers()[1..].to_vec();
    for wrong in [short, elsewhere, missing] {
        let options = LoadOptions::default().with_planned_memory(allocate(wrong));
        let error = module.load_method("forward", options).unwrap_err();
        assert!(error.id().starts_with("memory.wrong-buffer"), "{error:?}");
    }
    simulation.expect_empty();
    let given = allocate(plan.buffers().to_vec());
    let blocks = simulation.counters().allocations;
    module
        .load_method("forward", LoadOptions::default().with_planned_memory(given))
        .unwrap();
    assert_eq!(simulation.counters().allocations, blocks);
    check(&mut module, &case.runs()[0]);
}

#[test]
fn reset_state_starts_over() {
    let case = Case::fixture("mut_counter_init");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    for _ in 0..3 {
        for run in case.runs() {
            check(&mut module, &run);
        }
        module.method("forward").unwrap().reset_state().unwrap();
    }
    let method = module.method("forward").unwrap();
    let error = method.execute().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InputsMissing { .. }),
        "{error:?}"
    );
}

#[test]
fn b_39_a_method_loaded_later_does_not_reset_shared_state_and_a_reset_restores_all_of_it() {
    let case = Case::fixture("mut_counter_init");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    module.set_options(options(|o| o.share_arenas = true));
    for _ in 0..2 {
        for run in case.runs() {
            check(&mut module, &run);
            // The arenas keep the count while the method goes and comes.
            assert!(module.unload_method("forward").unwrap());
        }
        module.method("forward").unwrap().reset_state().unwrap();
    }
}

#[test]
fn r_step_01_stepping_gives_what_execute_gives() {
    for name in ["mlp", "cond", "dev_two_cross"] {
        let case = Case::fixture(name);
        let simulation = Simulation::new();
        let mut module = case.module(&simulation.environment).unwrap();
        for run in case.runs() {
            let method = module.method(&run.method).unwrap();
            set_inputs(method, &run);
            let mut steps = 1;
            assert!(!method.in_progress());
            while method.step().unwrap() {
                assert!(method.in_progress());
                let busy = method.set_input(0, &Value::None).unwrap_err();
                assert!(matches!(busy.kind(), ErrorKind::InProgress));
                let busy = method.execute().unwrap_err();
                assert!(matches!(busy.kind(), ErrorKind::InProgress));
                steps += 1;
            }
            assert!(steps <= method.meta().num_instructions());
            let outputs: Vec<_> = (0..method.num_outputs())
                .map(|i| method.output_to_host(i).unwrap())
                .collect();
            assert_eq!(run.difference(&outputs), None, "{name}");
        }
    }
}

#[test]
fn b_18_stepping_needs_inputs_and_can_always_be_reset() {
    let case = Case::fixture("mlp");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let run = &case.runs()[0];
    let method = module.method("forward").unwrap();
    assert!(matches!(
        method.step().unwrap_err().kind(),
        ErrorKind::InputsMissing { .. }
    ));
    set_inputs(method, run);
    assert!(method.step().unwrap());
    method.reset_execution();
    assert!(!method.in_progress());
    method.reset_execution();
    method.execute().unwrap();
    assert_eq!(run.difference(&[method.output_to_host(0).unwrap()]), None);
}

#[test]
fn r_exe_03_a_run_takes_no_more_instructions_than_it_may() {
    let case = Case::fixture("mlp");
    let simulation = Simulation::new();
    let run = &case.runs()[0];
    let count = case
        .module(&simulation.environment)
        .unwrap()
        .method_meta("forward")
        .unwrap();
    let count = count.num_instructions() as u64;
    for (limit, enough) in [(count, true), (count - 1, false), (0, false)] {
        let mut module = case.module(&simulation.environment).unwrap();
        module.set_options(options(|o| o.instruction_limit = limit));
        let method = module.method("forward").unwrap();
        set_inputs(method, run);
        let stepped = loop {
            match method.step() {
                Ok(true) => {}
                other => break other.is_ok(),
            }
        };
        let executed = method.execute();
        assert_eq!((executed.is_ok(), stepped), (enough, enough), "{limit}");
        if let Err(error) = executed {
            assert!(matches!(error.kind(), ErrorKind::InstructionLimit { .. }));
            assert_eq!((error.code(), method.in_progress()), (0x23, false));
        }
    }
}

#[test]
fn a_method_larger_than_allowed_is_refused_and_so_is_one_nested_in_it() {
    let simulation = Simulation::new();
    let program = |name: &str| Program::open(Case::fixture(name).path()).unwrap();
    let load = |program: &Program, size: SizeLimits| {
        let options = LoadOptions::default().with_size_limits(size);
        let files = et_module::DataFiles::new();
        program.load_method_with("forward", &simulation.environment, &files, options)
    };
    // Sizes of the multi-layer perceptron: three constants are its weights, and others their biases.
    let mlp = program("mlp");
    for (size, message) in [
        (
            SizeLimits::default().with_values(3),
            "values, and 3 are allowed",
        ),
        (
            SizeLimits::default().with_instructions(1),
            "instructions, and 1 are allowed",
        ),
        (
            SizeLimits::default().with_constant_bytes(64),
            "bytes of constants, and 64 are allowed",
        ),
    ] {
        let error = load(&mlp, size).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::TooLarge { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(message), "{error}");
    }
    assert!(load(&mlp, SizeLimits::default()).is_ok());

    // Four instructions around a delegate whose own program has one: three values are too few for it.
    let outer = program("dev_skip_d2h");
    let values = |limit| load(&outer, SizeLimits::default().with_values(limit));
    let allowed: Vec<bool> = (1..20).map(|limit| values(limit).is_ok()).collect();
    let first = allowed.iter().position(|allowed| *allowed).unwrap();
    assert!(first > 0 && allowed[first..].iter().all(|allowed| *allowed));
    simulation.expect_empty();
}

#[test]
fn a_cancelled_run_ends_and_the_next_one_does_not() {
    let case = Case::fixture("mlp");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let run = &case.runs()[0];
    let method = module.method("forward").unwrap();
    set_inputs(method, run);
    let handle = method.cancel_handle();
    assert!(method.step().unwrap());
    handle.cancel();
    let error = method.step().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cancelled));
    assert!(!method.in_progress());
    method.execute().unwrap();
}

/// Cancels the run as soon as it is inside of a delegate.
#[derive(Default)]
struct CancelInside(OnceLock<CancelHandle>);

impl EventHook for CancelInside {
    fn event(&self, event: &Event<'_>) {
        if let (Event::DelegateBegin { .. }, Some(handle)) = (event, self.0.get()) {
            handle.cancel();
        }
    }
}

#[test]
fn a_cancelled_run_ends_inside_of_a_nested_program_too() {
    let case = Case::fixture("dev_single_add");
    let simulation = Simulation::new();
    let hook = Arc::new(CancelInside::default());
    let environment = simulation
        .environment
        .clone()
        .with_hook(Arc::clone(&hook) as _);
    let mut module = case.module(&environment).unwrap();
    let run = &case.runs()[0];
    let method = module.method("forward").unwrap();
    set_inputs(method, run);
    let uploads = || simulation.counters().host_to_device;
    let before = uploads();
    method.execute().unwrap();
    // Two inputs, and the result of the nested program.
    assert_eq!(uploads() - before, 3);

    assert!(hook.0.set(method.cancel_handle()).is_ok());
    let before = uploads();
    let error = method.execute().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    assert_eq!(error.place().name.as_deref(), Some("NestedProgramBackend"));
    assert_eq!(uploads() - before, 2);
    assert!(!method.in_progress());
    // What was asked for is done: a handle that is not used again ends no other run.
    method.step().unwrap();
    method.reset_execution();
}

#[test]
fn j_13_results_stay_when_the_next_call_is_made() {
    let case = Case::fixture("dyn_batch_mlp");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let runs = case.runs();
    let results: Vec<_> = runs
        .iter()
        .map(|run| module.execute(&run.method, &run.inputs).unwrap())
        .collect();
    drop(module);
    for (run, result) in runs.iter().zip(&results) {
        assert_eq!(run.difference(result), None);
    }
}

#[test]
fn outputs_can_be_left_on_the_device_or_copied_into_the_callers_tensor() {
    let case = Case::fixture("dev_skip_d2h");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let run = &case.runs()[0];
    let before = simulation.counters().device_to_host;
    let outputs = module.execute_in_place("forward", &run.inputs).unwrap();
    let there = outputs[0].as_tensor().unwrap();
    assert_eq!(there.device(), cuda(0));
    // The simulated delegate fetches its two arguments; nothing else came to the host.
    assert_eq!(simulation.counters().device_to_host - before, 2);
    let host = there.to_host().unwrap();
    assert_eq!(run.difference(&[host.into()]), None);

    let mut own = Tensor::zeros(there.meta().clone().on(Device::CPU)).unwrap();
    let address = own.bytes().unwrap().as_ptr();
    module
        .method("forward")
        .unwrap()
        .output_into(0, &mut own)
        .unwrap();
    assert_eq!(own.bytes().unwrap().as_ptr(), address);
    assert_eq!(run.difference(&[own.into()]), None);
    let mut small = Tensor::from_slice(&[0.0f32], &[1]).unwrap();
    let error = module
        .method("forward")
        .unwrap()
        .output_into(0, &mut small)
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Value(_)), "{error:?}");
}

#[test]
fn r_inp_04_inputs_come_from_wherever_they_are() {
    let case = Case::fixture("dev_single_add");
    let simulation = Simulation::new();
    let registry = &simulation.environment.devices;
    let mut module = case.module(&simulation.environment).unwrap();
    let run = &case.runs()[0];
    for device in [Device::CPU, cuda(0), cuda(1)] {
        let there: Vec<Value> = run
            .inputs
            .iter()
            .map(|input| {
                input
                    .as_tensor()
                    .unwrap()
                    .to_device(device, registry)
                    .unwrap()
                    .into()
            })
            .collect();
        let outputs = module.execute("forward", &there).unwrap();
        assert_eq!(run.difference(&outputs), None, "{device}");
    }
}

#[test]
fn planned_outputs_are_fed_back_by_one_copy_on_the_device() {
    let case = Case::fixture("dev_skip_d2h");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let run = &case.runs()[0];
    let method = module.method("forward").unwrap();
    set_inputs(method, run);
    method.execute().unwrap();
    let before = simulation.counters();
    let how = method.feed_back(0, 0).unwrap();
    assert_eq!(how, et_module::Handover::Copied);
    let after = simulation.counters();
    assert_eq!(
        after.device_to_device + after.device_to_host
            - before.device_to_device
            - before.device_to_host,
        1
    );
    method.execute().unwrap();
}

#[test]
fn errors_say_what_was_wanted_and_what_was_given() {
    let simulation = Simulation::new();
    let case = Case::fixture("mlp");
    let mut module = case.module(&simulation.environment).unwrap();
    let floats = |sizes: &[usize]| {
        let elements = vec![0.0f32; sizes.iter().product()];
        Value::from(Tensor::from_slice(&elements, sizes).unwrap())
    };
    let program = |name: &str| Program::open(Case::fixture(name).path()).unwrap();
    let none = et_device::DeviceAllocatorRegistry::new();
    let bare = simulation.environment.clone().with_devices(none);
    let method = module.method("forward").unwrap();
    let messages = [
        shown(&method.execute().unwrap_err()),
        shown(&method.set_input(0, &floats(&[2, 3])).unwrap_err()),
        shown(&method.set_input(0, &Value::Int(3)).unwrap_err()),
        shown(&method.set_input(7, &Value::Int(3)).unwrap_err()),
        shown(&method.output(5).unwrap_err()),
        shown(&method.attribute("k_cache").unwrap_err()),
        shown(
            &module
                .execute("forward", &[Value::None, Value::None, Value::None])
                .unwrap_err(),
        ),
        shown(&module.method("backward").unwrap_err()),
        shown(
            &program("dev_single_add")
                .load_method("forward", &bare)
                .unwrap_err(),
        ),
        shown(
            &program("ext_weights")
                .load_method("forward", &bare)
                .unwrap_err(),
        ),
        shown(
            &program("mlp")
                .load_method("forward", &et_kernel::Environment::default())
                .unwrap_err(),
        ),
        shown(
            &program("dev_single_add")
                .load_method("forward", &et_kernel::Environment::default())
                .unwrap_err(),
        ),
    ];
    for message in &messages {
        println!("{message}");
    }
    let parts = [
        "method `forward`: 1 input was not set: [0]",
        "method `forward`: input 0 cannot be set: a tensor of fixed shape",
        "method `forward`: input 0 is the whole number 3, and the method takes a tensor Float",
        "method `forward`: there is no input 7: the method has 1",
        "method `forward`: there is no output 5: the method has 1",
        "method `forward`: there is no tensor named `k_cache`; the method has",
        "method `forward`: 3 inputs were given, and the method takes 1",
        "there is no method `backward`; the program has forward",
        "use et_cuda as _",
        "not in any data file given:",
        "operators are not available: aten::",
        "not available: ",
    ];
    for (message, part) in messages.iter().zip(parts) {
        assert!(
            message.contains(part),
            "{message:?} does not contain {part:?}"
        );
    }
}

#[test]
fn j_05_refusals_are_for_the_caller_and_leave_the_method_as_it_was() {
    let case = Case::fixture("mlp");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let run = &case.runs()[0];
    let method = module.method("forward").unwrap();
    set_inputs(method, run);
    let sizes = method.output_tensor(0).unwrap().sizes().to_vec();
    let elements = vec![0.0f32; sizes.iter().product()];
    let mut own = Tensor::from_slice(&elements, &sizes).unwrap();
    for _ in 0..1000 {
        let error = method.exchange_output(0, &mut own).unwrap_err();
        assert!(
            shown(&error).contains("lives in planned memory"),
            "{}",
            shown(&error)
        );
    }
    assert!(method.set_input(0, &Value::None).is_err());
    method.execute().unwrap();
    assert_eq!(run.difference(&[method.output_to_host(0).unwrap()]), None);
}
