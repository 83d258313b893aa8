//! Moves, frees, jumps, kernels that fail or are not there.

use super::*;

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
            with_causes(&error).contains("expected a Bool"),
            "{}",
            with_causes(&error)
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
        with_causes(&error),
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

/// An operator that nobody says anything of may write any of its arguments, so none of them is a constant.
#[test]
fn what_an_unknown_operator_may_write_is_no_constant() {
    let bench = Bench::new();
    let mut program = ProgramBuilder::new();
    let data = program.constant(&raw(&[0.0, 0.0]));
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(16);
    let constant = forward.tensor(floats(&[2]).with_data(data));
    let n = forward.int(5);
    let out = forward.output(floats(&[2]).planned(memory, 0));
    let sum = forward.tensor(floats(&[2]));
    forward.kernel("test::bump", &[n, constant]);
    forward.kernel("aten::fill.Scalar_out", &[constant, n, sum]);
    forward.kernel("aten::relu.out", &[sum, out]);
    let mut method = bench.load(forward, program);
    for _ in 0..3 {
        assert_eq!(run(&mut method, &[]), [6.0, 6.0]);
    }
}

/// What is read at load is counted, and the sizes of tensors that are nowhere yet may be anything.
#[test]
fn arguments_of_no_size_that_can_be_added_up_are_no_constants() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(16);
    let huge = forward.input(floats(&[1 << 30, 1 << 30]));
    let sum = forward.tensor(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]));
    forward.kernel("aten::add.out", &[huge, huge, huge, huge, huge, huge, sum]);
    forward.kernel("aten::relu.out", &[sum, out]);
    let mut method = bench.load(forward, ProgramBuilder::new());
    assert!(method.execute().is_err());
}
