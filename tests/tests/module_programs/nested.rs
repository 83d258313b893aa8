//! Programs inside of programs, and what all of them may take together.

use et_memory::Budget;
use et_module::{DataFiles, Module, ModuleOptions};

use super::*;

const NESTED: &str = "NestedProgramBackend";

/// Adds 1 in planned memory of so many bytes.
fn leaf(nbytes: i64) -> Vec<u8> {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(nbytes);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]).planned(memory, 16));
    let one = forward.double(1.0);
    let alpha = forward.int(1);
    forward.kernel("aten::add.Scalar_out", &[x, one, alpha, out]);
    let mut program = ProgramBuilder::new();
    program.method(forward);
    program.to_bytes().unwrap()
}

/// Calls the program named `name` so many times, one after the other.
fn caller(program: &mut ProgramBuilder, name: &str, times: usize) -> MethodBuilder {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(32);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]).planned(memory, 16));
    let reference = program.inline_delegate_data(format!("key:{name}").as_bytes());
    let mut from = x;
    for _ in 0..times {
        let delegate = forward.delegate(NESTED, reference, &[("nested_in_named_data", b"1")]);
        forward.delegate_call(delegate, &[from, out]);
        from = out;
    }
    forward
}

/// Each level calls the next one by name; the names are all in the outermost program.
fn tower(levels: usize, times: usize) -> (MethodBuilder, ProgramBuilder) {
    let mut program = ProgramBuilder::new();
    program.named_data(&format!("p{levels}"), &leaf(32));
    for level in 1..levels {
        let mut inner = ProgramBuilder::new();
        let forward = caller(&mut inner, &format!("p{}", level + 1), times);
        inner.method(forward);
        program.named_data(&format!("p{level}"), &inner.to_bytes().unwrap());
    }
    let forward = caller(&mut program, "p1", times);
    (forward, program)
}

#[test]
fn programs_that_name_each_other_are_loaded_as_often_as_their_size_allows() {
    let bench = Bench::new();
    let (forward, program) = tower(3, 2);
    let mut method = bench.load(forward, program);
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [9.0, 10.0]);

    // A file of some kilobytes that means 9^8 programs.
    let (forward, program) = tower(8, 9);
    let error = bench.try_load(forward, program).unwrap_err();
    assert_eq!(
        (error.id(), error.code()),
        ("module.nested-too-large", 0x23)
    );
    bench.simulation.expect_empty();

    let (forward, program) = tower(9, 1);
    assert_eq!(
        bench.try_load(forward, program).unwrap_err().id(),
        "module.nesting"
    );
}

#[test]
fn nested_programs_draw_on_one_budget() {
    let bench = Bench::new();
    let load = |times: usize, budget: u64| {
        let mut program = ProgramBuilder::new();
        program.named_data("p1", &leaf(4096));
        let forward = caller(&mut program, "p1", times);
        program.method(forward);
        let options = LoadOptions::default()
            .with_budget(Budget::unlimited().limit(et_device::Device::CPU, budget));
        Program::from_bytes(program.to_bytes().unwrap())
            .unwrap()
            .load_method_with("forward", &bench.environment, &DataFiles::new(), options)
    };
    for times in 1..5u64 {
        let needed = 32 + times * 4096;
        assert!(load(times as usize, needed).is_ok(), "{times}");
        let error = load(times as usize, needed - 1).unwrap_err();
        assert_eq!(error.id(), "memory.over-budget", "{times}");
    }
}

/// Two methods that share memory on a device. Each has a state of its own there, which starts as the file says.
fn sharing(bench: &Bench) -> Module {
    let mut program = ProgramBuilder::new();
    let data = program.initial_data(&raw(&[5.0, 7.0]));
    for (name, offset) in [("a", 0), ("b", 16)] {
        let mut method = MethodBuilder::new(name);
        let host = method.buffer(16);
        let there = method.device_buffer(32, CUDA, 1);
        let state = floats(&[2]).with_data(data).named("count");
        let state = method.tensor(state.planned(there, offset).on_device(CUDA, 1));
        let here = method.tensor(floats(&[2]).planned(host, 0));
        method.kernel("et_copy::_d2h_copy.out", &[state, here, here]);
        method.kernel("test::add_one", &[here, here]);
        method.kernel("et_copy::_h2d_copy.out", &[here, state, state]);
        method.mark_output(state);
        program.method(method);
    }
    let program = Program::from_bytes(program.to_bytes().unwrap()).unwrap();
    let mut module = Module::new(program, bench.environment.clone());
    let mut options = ModuleOptions::default();
    options.share_arenas = true;
    module.set_options(options);
    module
}

fn counted(module: &mut Module, name: &str) -> Result<Vec<f32>, Error> {
    let outputs = module.execute(name, &[])?;
    let tensor = outputs[0].as_tensor().unwrap().to_host().unwrap();
    Ok(tensor.as_slice::<f32>().unwrap().to_vec())
}

#[test]
fn a_state_that_could_not_be_loaded_into_shared_memory_is_loaded_the_next_time() {
    let bench = Bench::new();
    let mut module = sharing(&bench);
    assert_eq!(counted(&mut module, "a").unwrap(), [6.0, 8.0]);
    assert_eq!(counted(&mut module, "b").unwrap(), [6.0, 8.0]);
    assert_eq!(counted(&mut module, "a").unwrap(), [7.0, 9.0]);
    module.method("a").unwrap().reset_state().unwrap();
    // The other method loads the state anew when it gets the arenas.
    let method = module.method("a").unwrap();
    method
        .set_attribute("count", &Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap())
        .unwrap();
    method.reset_state().unwrap();
    let sim = &bench.simulation.devices;
    sim.fail_call(et_sim::Operation::Any, 0);
    assert!(counted(&mut module, "b").is_err());
    assert_eq!(sim.failures_left(), 0);
    assert_eq!(counted(&mut module, "b").unwrap(), [6.0, 8.0]);
}

#[test]
fn a_state_that_was_reset_in_part_is_not_run_with() {
    let bench = Bench::new();
    let mut module = sharing(&bench);
    let sim = Arc::clone(&bench.simulation.devices);
    assert_eq!(counted(&mut module, "a").unwrap(), [6.0, 8.0]);
    for calls_before in 0.. {
        sim.fail_call(et_sim::Operation::Any, calls_before);
        let reset = module.method("a").unwrap().reset_state();
        let all_done = sim.failures_left() > 0;
        sim.clear_failures();
        assert_eq!(reset.is_ok(), all_done);
        if all_done {
            assert!(calls_before > 1, "nothing failed");
            break;
        }
        let error = counted(&mut module, "a").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::HalfReset), "{error}");
    }
    assert_eq!(counted(&mut module, "a").unwrap(), [6.0, 8.0]);
}
