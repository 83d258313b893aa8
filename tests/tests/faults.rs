//! Faults that others had, and what comes of the same input here. `docs/rules-faults.md` has the list; most of its rows are tested beside
//! the code in question, and these need several crates.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;

use et_kernel::{Environment, Tensor};
use et_module::{ErrorKind, MappedSource, Method, PageLock, Program, Value};
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::Tensor as FileTensor;
use et_schema::{Dynamism, ScalarType};
use et_tests::{Case, Simulation, with_causes};

const CUDA: i8 = 1;

fn floats(sizes: &[i32]) -> FileTensor {
    FileTensor::new(ScalarType::Float, sizes)
}

fn program(methods: impl IntoIterator<Item = MethodBuilder>) -> Program {
    let mut program = ProgramBuilder::new();
    for method in methods {
        program.method(method);
    }
    Program::from_bytes(program.to_bytes().unwrap()).unwrap()
}

/// `relu` of a pair, with everything in one buffer of `nbytes`.
fn relu(name: &str, nbytes: i64) -> MethodBuilder {
    let mut method = MethodBuilder::new(name);
    let memory = method.buffer(nbytes);
    let x = method.input(floats(&[2]).planned(memory, 0));
    let out = method.output(floats(&[2]).planned(memory, 16));
    method.kernel("aten::relu.out", &[x, out, out]);
    method
}

#[track_caller]
fn check_relu(method: &mut Method) {
    let input = Tensor::from_slice(&[-1.0f32, 2.0], &[2]).unwrap();
    method.set_input(0, &input.into()).unwrap();
    method.execute().unwrap();
    let output = method.output_tensor(0).unwrap();
    assert_eq!(output.as_slice::<f32>().unwrap(), [0.0, 2.0]);
}

/// More than any machine has: 2^62 bytes. The process goes on and loads another program.
#[test]
fn b19_a_buffer_larger_than_any_memory_is_an_error() {
    let simulation = Simulation::new();
    for device in [None, Some(CUDA)] {
        let mut forward = relu("forward", 32);
        match device {
            None => forward.buffer(1 << 62),
            Some(device) => forward.device_buffer(1 << 62, device, 0),
        };
        let error = program([forward])
            .load_method("forward", &simulation.environment)
            .unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Memory(_)), "{error}");
        let text = with_causes(&error);
        assert!(text.contains("4611686018427387904 bytes"), "{text}");
        assert!(text.contains("planned buffer 2"), "{text}");
        let fine = program([relu("forward", 32)]);
        check_relu(
            &mut fine
                .load_method("forward", &simulation.environment)
                .unwrap(),
        );
    }
    simulation.expect_empty();
}

/// A result may not have more dimensions than a tensor can have, though its operand has as many as it can.
#[test]
fn c12_a_17th_dimension_is_an_error_of_the_operator() {
    let simulation = Simulation::new();
    let sizes = [1; 16];
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(32);
    let x = forward.input(floats(&sizes).planned(memory, 0));
    let (dim, out) = (
        forward.int(0),
        forward.output(floats(&sizes).planned(memory, 16)),
    );
    forward.kernel("aten::unsqueeze_copy.out", &[x, dim, out, out]);
    let loaded = program([forward]).load_method("forward", &simulation.environment);
    let result = loaded.and_then(|mut method| {
        let input = Tensor::from_slice(&[1.0f32], &[1; 16]).unwrap();
        method.set_input(0, &input.into())?;
        method.execute()
    });
    let error = result.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Kernel(_)), "{error}");
    assert_eq!(
        error.place().name.as_deref(),
        Some("aten::unsqueeze_copy.out")
    );
}

/// Every tensor that a program needs from a data file is named when the method is loaded, not when it runs.
#[test]
fn e5_missing_data_is_named_at_load() {
    let simulation = Simulation::new();
    let case = Case::fixture("ext_weights");
    let program = Program::open(case.path()).unwrap();
    let error = program
        .load_method("forward", &simulation.environment)
        .unwrap_err();
    let ErrorKind::MissingData { names } = error.kind() else {
        panic!("{error}");
    };
    assert!(names.len() > 1, "{names:?}");
    for name in names {
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// Each method's memory is what its own plan says.
#[test]
fn f17_every_method_is_allocated_by_its_own_plan() {
    let simulation = Simulation::new();
    let program = program([relu("small", 32), relu("large", 4096)]);
    for (name, nbytes) in [("small", 32), ("large", 4096)] {
        let meta = program.method_meta(name).unwrap();
        let plan = meta.memory_plan(&Default::default()).unwrap();
        let sizes: Vec<u64> = plan.buffers().iter().map(|buffer| buffer.nbytes).collect();
        assert_eq!(sizes, [nbytes], "{name}");
        check_relu(&mut program.load_method(name, &simulation.environment).unwrap());
    }
}

/// After ten thousand runs there is as much device memory in use as after the first.
#[test]
fn h15_ten_thousand_runs_take_no_more_device_memory() {
    let simulation = Simulation::new();
    let case = Case::fixture("dev_single_add");
    let run = &case.runs()[0];
    let program = Program::open(case.path()).unwrap();
    let mut method = program
        .load_method("forward", &simulation.environment)
        .unwrap();
    let mut call = || {
        for (index, input) in run.inputs.iter().enumerate() {
            method.set_input(index, input).unwrap();
        }
        method.execute().unwrap();
    };
    call();
    let live = simulation.counters().live_bytes;
    (0..10_000).for_each(|_| call());
    assert_eq!(simulation.counters().live_bytes, live);
    assert_eq!(run.difference(&[method.output_to_host(0).unwrap()]), None);
    drop(method);
    simulation.expect_empty();
}

/// The caller's memory may lie anywhere; what cannot be read as elements there says so.
#[test]
fn i6_memory_that_is_not_aligned_is_told() {
    let block = et_memory::HostBuffer::zeroed(32, et_device::Alignment::HOST).unwrap();
    let meta = et_kernel::TensorMeta::contiguous(et_kernel::ScalarType::Float, &[2]).unwrap();
    let span = block.span().subspan(1, 8).unwrap();
    let keep = move || drop(block);
    // SAFETY: the block is zeroed, lives until the release, and nobody else uses it.
    let tensor = unsafe { Tensor::from_lent(meta, et_kernel::Located::Host(span), keep) };
    let error = tensor.as_slice::<f32>().unwrap_err();
    assert!(error.to_string().contains("not aligned"), "{error}");
    // As an input it is copied byte by byte, wherever it is.
    let simulation = Simulation::new();
    let program = program([relu("forward", 32)]);
    let mut method = program
        .load_method("forward", &simulation.environment)
        .unwrap();
    method.set_input(0, &tensor.into()).unwrap();
    method.execute().unwrap();
}

/// Every shape up to the bound gives what the same rows give at the bound.
#[test]
fn j10_a_dynamic_method_runs_below_its_bound() {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(2048);
    let bounded = |offset| {
        floats(&[64, 4])
            .planned(memory, offset)
            .dynamic(Dynamism::DynamicBound)
    };
    let x = forward.input(bounded(0));
    let out = forward.output(bounded(1024));
    forward.kernel("aten::relu.out", &[x, out, out]);
    let simulation = Simulation::new();
    let program = program([forward]);
    let mut method = program
        .load_method("forward", &simulation.environment)
        .unwrap();
    let all: Vec<f32> = (0..256u16).map(|i| f32::from(i) - 128.0).collect();
    let mut run = |rows: usize| {
        let input = Tensor::from_slice(&all[..rows * 4], &[rows, 4]).unwrap();
        method.set_input(0, &input.into()).unwrap();
        method.execute().unwrap();
        let output = method.output_tensor(0).unwrap();
        assert_eq!(output.sizes(), [rows, 4]);
        output.as_slice::<f32>().unwrap().to_vec()
    };
    let whole = run(64);
    for rows in [0, 1, 3, 63, 64] {
        assert_eq!(run(rows), whole[..rows * 4], "{rows} rows");
    }
}

/// Whoever gives a wrong shape learns which was wanted and which was given, and how to have both.
#[test]
fn j9_a_fixed_shape_says_that_it_is_fixed_and_which_it_is() {
    let simulation = Simulation::new();
    let program = program([relu("forward", 32)]);
    let mut method = program
        .load_method("forward", &simulation.environment)
        .unwrap();
    let set = |method: &mut Method, sizes: &[usize]| {
        let wrong = Tensor::from_slice(&vec![0.0f32; sizes.iter().product()], sizes).unwrap();
        with_causes(&method.set_input(0, &wrong.into()).unwrap_err())
    };
    let text = set(&mut method, &[4]);
    for part in [
        "input 0",
        "fixed shape [2]",
        "[4]",
        "exported with dynamic dimensions",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = set(&mut method, &[2, 4]);
    for part in ["input 0", "[2]", "[2, 4]"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Mapping works where locking is not allowed, and a lock that must be had gives the system's reason.
#[cfg(target_os = "linux")]
#[test]
fn l1_pages_that_cannot_be_locked_are_no_reason_to_fail_unless_asked() {
    const CHILD: &str = "ET_TESTS_LOCKED_CHILD";
    if std::env::var_os(CHILD).is_none() {
        // Root may lock what it likes, so the limit is for somebody else.
        let test = "l1_pages_that_cannot_be_locked_are_no_reason_to_fail_unless_asked";
        let script = "ulimit -l 0 && exec \"$0\" --exact \"$1\"";
        let exe = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new("sh");
        child
            .args(["-c", script])
            .arg(exe)
            .arg(test)
            .env(CHILD, "1");
        let output = child.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let path = Case::fixture("mlp").path();
    let open = |lock| {
        // SAFETY: nobody changes the fixtures while tests run.
        unsafe { MappedSource::open(&path, lock) }
    };
    for lock in [PageLock::None, PageLock::IfAllowed] {
        let program = Program::load(open(lock).unwrap()).unwrap();
        let environment = Environment::linked().unwrap();
        assert!(program.load_method("forward", &environment).is_ok());
    }
    if let Err(error) = open(PageLock::Required) {
        let text = with_causes(&error);
        assert!(text.contains("os error"), "{text}");
    }
}

/// Threads may hand a method over; the program is shared.
#[test]
fn m1_methods_move_between_threads_and_programs_are_shared() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<Method>();
    moves::<Value>();
    is_shared::<Program>();
    is_shared::<Environment>();
}

/// Two programs one after the other, and side by side.
#[test]
fn m4_programs_do_not_disturb_each_other() {
    let cases = ["mlp", "dev_single_add", "mut_counter_init"].map(Case::fixture);
    let simulation = Simulation::new();
    let alone: Vec<_> = cases
        .iter()
        .map(|case| outputs(case, &simulation))
        .collect();
    simulation.expect_empty();
    let mut modules: Vec<_> = cases
        .iter()
        .map(|case| case.module(&simulation.environment).unwrap())
        .collect();
    for run in 0.. {
        let mut any = false;
        for ((case, module), alone) in cases.iter().zip(&mut modules).zip(&alone) {
            if let (Some(run), Some(expected)) = (case.runs().get(run), alone.get(run)) {
                let outputs = module.execute(&run.method, &run.inputs).unwrap();
                assert_eq!(format!("{outputs:?}"), *expected);
                assert_eq!(run.difference(&outputs), None);
                any = true;
            }
        }
        if !any {
            break;
        }
    }
    drop(modules);
    simulation.expect_empty();
}

/// The outputs of every run of a case, as text.
fn outputs(case: &Case, simulation: &Simulation) -> Vec<String> {
    let mut module = case.module(&simulation.environment).unwrap();
    let call = |run: &et_tests::Run| module.execute(&run.method, &run.inputs).unwrap();
    let outputs: Vec<_> = case.runs().iter().map(call).collect();
    outputs
        .iter()
        .map(|outputs| format!("{outputs:?}"))
        .collect()
}

/// Load, run, run, drop, load, run: each time from a new thread.
#[test]
fn m5_programs_load_again_and_run_again_from_any_thread() {
    let simulation = Arc::new(Simulation::new());
    for name in [
        "mlp",
        "cond",
        "dev_single_add",
        "dev_lm_resident",
        "ext_weights",
    ] {
        for runs in [2, 1] {
            let simulation = Arc::clone(&simulation);
            let thread = std::thread::spawn(move || {
                let case = Case::fixture(name);
                let run = &case.runs()[0];
                for _ in 0..runs {
                    // State of a case goes on from run to run, so each is the first of a module.
                    let mut module = case.module(&simulation.environment).unwrap();
                    let outputs = module.execute(&run.method, &run.inputs).unwrap();
                    assert_eq!(run.difference(&outputs), None, "{name}");
                    module.execute(&run.method, &run.inputs).unwrap();
                }
            });
            thread.join().unwrap();
        }
    }
    simulation.expect_empty();
}
