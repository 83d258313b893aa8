//! Stepping, limits, cancelled runs, and where outputs go.

use super::*;

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
    assert!(
        matches!(error.kind(), ErrorKind::Output { .. }),
        "{error:?}"
    );
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
