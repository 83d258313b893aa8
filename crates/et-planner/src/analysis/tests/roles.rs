//! What each value is to a method, and what is needed when.

use super::*;

#[track_caller]
fn roles(step: &Step, reads: &[i32], writes: &[i32], updates: &[i32]) {
    let numbers = |values: &[ValueIndex]| -> Vec<i32> {
        values
            .iter()
            .map(|value| i32::try_from(value.get()).unwrap())
            .collect()
    };
    let found = (
        numbers(&step.reads),
        numbers(&step.writes),
        numbers(&step.updates),
    );
    assert_eq!(found, (reads.to_vec(), writes.to_vec(), updates.to_vec()));
}

#[test]
fn roles_of_kernels_follow_from_their_form() {
    let mut method = method();
    let [a, b, c, d] = [0, 16, 32, 48].map(|offset| method.input(at(offset)));
    let alpha = method.int(1);
    let pair = method.tensor_list(&[a, b]);
    let same_pair = method.tensor_list(&[a, b]);
    method.kernel("aten::add.out", &[a, b, alpha, c, c]);
    method.kernel("aten::cat.out", &[pair, alpha, d, d]);
    method.kernel("aten::add.out", &[a, b, alpha, a, a]);
    method.kernel("aten::topk.values", &[c, alpha, a, b, pair]);
    method.kernel(
        "aten::split_with_sizes_copy.out",
        &[c, alpha, alpha, pair, same_pair],
    );
    method.kernel("aten::copy_", &[a, b, alpha, a]);
    method.kernel("aten::sym_size.int", &[a, alpha, alpha]);
    method.kernel("executorch_prim::et_copy_index.tensor", &[a, b, alpha]);
    method.kernel("my::mystery", &[a, b, alpha]);
    let plan = plan(method);
    let analysis = analyse(&plan);
    let steps = analysis.steps();
    roles(&steps[0], &[a, b], &[c], &[]);
    roles(&steps[1], &[a, b], &[d], &[]);
    roles(&steps[2], &[b], &[], &[a]);
    roles(&steps[3], &[c], &[a, b], &[]);
    roles(&steps[4], &[c], &[a, b], &[]);
    roles(&steps[5], &[b], &[], &[a]);
    roles(&steps[6], &[a], &[], &[]);
    roles(&steps[7], &[b], &[], &[a]);
    roles(&steps[8], &[], &[], &[a, b]);
    let guesses: Vec<bool> = steps.iter().map(|step| step.is_guess).collect();
    assert_eq!(
        guesses,
        [false, false, false, false, false, false, false, false, true]
    );
}

#[test]
fn a_chain_is_needed_step_by_step() {
    let mut method = method();
    let x = method.input(at(0));
    let [a, b] = [16, 32].map(|offset| method.tensor(at(offset)));
    let y = method.output(at(48));
    unary(&mut method, x, a);
    unary(&mut method, a, b);
    unary(&mut method, b, y);
    let plan = plan(method);
    let analysis = analyse(&plan);
    let expected = [(0, 1), (0, 2), (1, 3), (2, 4)].map(|(from, to)| Lifetime::new(from, to));
    assert_eq!(analysis.lifetimes(), expected);
    assert_eq!(analysis.audit().unwrap().findings, []);
    assert!(!analysis.is_persistent(index(a)));
}

#[test]
fn hazard_01_a_view_keeps_its_base() {
    let mut method = method();
    let x = method.input(at(0));
    let base = method.tensor(at(16));
    let view = method.tensor(Tensor {
        sizes: vec![2, 2],
        dim_order: vec![0, 1],
        ..at(16)
    });
    let other = method.tensor(at(32));
    let y = method.output(at(48));
    unary(&mut method, x, base);
    unary(&mut method, x, other);
    binary(&mut method, [view, other], y);
    let plan = plan(method);
    let analysis = analyse(&plan);
    assert_eq!(analysis.bases(index(view)), [index(base)]);
    assert_eq!(analysis.group(index(view)), analysis.group(index(base)));
    assert_eq!(analysis.lifetimes()[index(base).get()], Lifetime::new(0, 3));
    assert!(analysis.lifetimes()[index(view).get()].is_empty());
    assert_eq!(analysis.audit().unwrap().findings, []);
}

#[test]
fn one_place_at_different_times_is_no_view() {
    let mut method = method();
    let x = method.input(at(0));
    let [a, b] = [16, 16].map(|offset| method.tensor(at(offset)));
    let [y, z] = [32, 48].map(|offset| method.output(at(offset)));
    unary(&mut method, x, a);
    unary(&mut method, a, y);
    unary(&mut method, x, b);
    unary(&mut method, b, z);
    let plan = plan(method);
    let analysis = analyse(&plan);
    assert_ne!(analysis.group(index(a)), analysis.group(index(b)));
    assert_eq!(analysis.audit().unwrap().findings, []);
}

#[test]
fn hazard_03_alternatives_of_one_branch_may_share() {
    let (plan, _) = two_conditions([96, 96, 112, 112]);
    clobbers(&plan, &[]);
    let analysis = analyse(&plan);
    assert!(
        analysis.lifetimes()[3].is_empty(),
        "a target of moves needs no bytes of its own"
    );
    assert!((0..plan.values.len()).all(|value| !analysis.is_persistent(ValueIndex::new(value))));
}

/// A loop that reads `x` in each round and fills a table; `temporary` is written in each round.
fn row_loop(temporary: u64) -> (ExecutionPlan, [i32; 3]) {
    let mut method = method();
    let x = method.input(at(0));
    let row = method.tensor(at(temporary));
    let table = method.output(at(64));
    let done = method.bool(false);
    let (count, step) = (method.int(0), method.int(1));
    unary(&mut method, x, row);
    method.kernel(
        "executorch_prim::et_copy_index.tensor",
        &[table, row, count],
    );
    method.kernel("executorch_prim::add.Scalar", &[count, step, count]);
    method.kernel("executorch_prim::eq.Scalar", &[count, step, done]);
    method.jump_false(done, 0);
    (plan(method), [x, row, table])
}

#[test]
fn hazard_02_what_the_next_round_reads_is_kept() {
    let (plan, [x, row, table]) = row_loop(16);
    let analysis = analyse(&plan);
    assert_eq!(analysis.lifetimes()[index(x).get()], Lifetime::new(0, 5));
    assert!(
        !analysis.is_persistent(index(table)),
        "the first round fills it anew"
    );
    assert!(!analysis.is_persistent(index(row)));
    clobbers(&plan, &[]);
    let (plan, [x, row, _]) = row_loop(8);
    clobbers(&plan, &[(x, row, 0)]);
}

#[test]
fn state_is_what_is_read_before_it_is_written() {
    let mut method = method();
    let state = method.tensor(at(16));
    let x = method.input(at(0));
    let [sum, y] = [method.tensor(at(32)), method.output(at(48))];
    let none = method.none();
    binary(&mut method, [x, state], sum);
    method.kernel("aten::copy_", &[state, sum, none, state]);
    unary(&mut method, sum, y);
    let plan = plan(method);
    let analysis = analyse(&plan);
    assert!(analysis.is_persistent(index(state)));
    assert_eq!(
        analysis.lifetimes()[index(state).get()],
        Lifetime::new(0, 4)
    );
    assert_eq!(analysis.audit().unwrap().findings, []);
}

#[test]
fn delegate_outputs_are_what_nothing_gave_bytes_before() {
    let mut method = method();
    let weight = method.tensor(anywhere().with_data(1));
    let state = method.tensor(at(16));
    let x = method.input(at(0));
    let [a, b, y] = [32, 48, 64].map(|offset| method.tensor(at(offset)));
    method.mark_output(y);
    let delegate = delegate(&mut method);
    unary(&mut method, x, a);
    method.delegate_call(delegate, &[a, weight, state, b, y]);
    let plan = plan(method);
    roles(
        &analyse(&plan).steps()[1],
        &[a, weight, state],
        &[b, y],
        &[],
    );
    let hints = Hints {
        delegate_inputs: [(0, 4)].into(),
    };
    let hinted = Analysis::new(&plan, &hints).unwrap();
    roles(&hinted.steps()[1], &[a, weight, state, b], &[y], &[]);
}

#[test]
fn a_view_as_last_input_of_a_delegate_is_found_by_who_needs_its_base() {
    let mut method = method();
    let x = method.input(at(0));
    let base = method.tensor(at(16));
    let view = method.tensor(Tensor {
        sizes: vec![2, 2],
        dim_order: vec![0, 1],
        ..at(16)
    });
    let y = method.output(at(32));
    let delegate = delegate(&mut method);
    unary(&mut method, x, base);
    method.delegate_call(delegate, &[x, view, y]);
    let plan = plan(method);
    let analysis = analyse(&plan);
    roles(&analysis.steps()[1], &[x, view], &[y], &[]);
    assert_eq!(analysis.bases(index(view)), [index(base)]);
}

#[test]
fn hazard_05_view_or_output_is_taken_for_both() {
    let mut method = method();
    let x = method.input(at(0));
    let [base, used] = [16, 32].map(|offset| method.tensor(at(offset)));
    let either = method.tensor(at(16));
    let y = method.output(at(48));
    let delegate = delegate(&mut method);
    unary(&mut method, x, base);
    unary(&mut method, base, used);
    method.delegate_call(delegate, &[used, either, y]);
    let plan = plan(method);
    let analysis = analyse(&plan);
    let step = &analysis.steps()[2];
    roles(step, &[used], &[y], &[]);
    assert_eq!(step.either, [(index(either), index(base))]);
    assert_eq!(analysis.lifetimes()[index(base).get()], Lifetime::new(0, 3));
    assert_eq!(analysis.audit().unwrap().findings, []);
}

#[test]
fn wrong_places_and_devices_are_found() {
    let mut method = method();
    let device = method.device_buffer(0, 1, 0);
    let x = method.input(anywhere().planned(device, 0).on_device(1, 0));
    let y = method.output(at(1020));
    let z = method.output(anywhere().planned(0, 0));
    unary(&mut method, x, y);
    unary(&mut method, x, z);
    let plan = plan(method);
    let expected = [
        Finding::OutsideBuffer {
            value: index(x),
            memory_id: device,
            end: 16,
            nbytes: 0,
        },
        Finding::OutsideBuffer {
            value: index(y),
            memory_id: 1,
            end: 1036,
            nbytes: 1024,
        },
        Finding::OutsideBuffer {
            value: index(z),
            memory_id: 0,
            end: 16,
            nbytes: 0,
        },
        Finding::HostTouchesDevice {
            instruction: 0,
            value: index(x),
        },
        Finding::HostTouchesDevice {
            instruction: 1,
            value: index(x),
        },
        Finding::PlannedDeviceInput { value: index(x) },
        Finding::EmptyDeviceBuffer { memory_id: device },
    ];
    assert_eq!(analyse(&plan).audit().unwrap().findings, expected);
}

#[test]
fn what_cannot_be_analysed_is_refused() {
    #[track_caller]
    fn refused(change: impl FnOnce(&mut MethodBuilder), expected: &str) {
        let mut method = method();
        change(&mut method);
        let error = Analysis::new(&plan(method), &Hints::default()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let no_value = "instruction 0 names value 7, the method has 0";
    refused(
        |method| {
            method.kernel("a::b.out", &[7]);
        },
        no_value,
    );
    refused(
        |method| {
            method.jump_false(0, 0);
        },
        "instruction 0 names value 0, the method has 0",
    );
    let no_target = "instruction 0 jumps to 2, the method has 1 instructions";
    refused(
        |method| {
            method.jump_false(0, 2);
        },
        no_target,
    );
    refused(
        |method| method.plan_mut().chains.clear(),
        "the method has 0 chains, not 1",
    );
    refused(
        |method| method.mark_input(-1),
        "inputs names value -1, the method has 0",
    );
    let huge = |method: &mut MethodBuilder| {
        method.tensor(at(u64::MAX - 8));
    };
    refused(huge, "value 0 has no size or place that memory can have");
    let list = |method: &mut MethodBuilder| {
        method.value(Value::TensorList(vec![-2]));
    };
    refused(list, "list 0 names value -2, the method has 1");
}

/// The steps of a call with these arguments: 0 is a constant, 1 and 2 are inputs.
fn changed_by_a_call_of(arguments: &[i32]) -> Vec<usize> {
    let mut method = method();
    method.tensor(anywhere().with_data(1));
    method.input(at(0));
    method.input(at(16));
    let delegate = delegate(&mut method);
    method.delegate_call(delegate, arguments);
    let plan = plan(method);
    let mut changed: Vec<usize> = analyse(&plan).steps()[0]
        .changes()
        .map(ValueIndex::get)
        .collect();
    changed.dedup();
    changed
}

#[test]
fn a_ds_04_a_call_whose_arguments_all_have_bytes_changes_one() {
    assert_eq!(changed_by_a_call_of(&[1, 2]), [2]);
    assert_eq!(changed_by_a_call_of(&[1, 1, 2]), [1]);
    assert!(changed_by_a_call_of(&[1, 2, 0]).is_empty());
}

/// One branch leaves its place to an output of a delegate that comes later; the other branch left it nothing.
#[test]
fn an_output_at_the_place_of_one_branch_is_no_view_of_it() {
    let mut method = method();
    let p = method.input(Tensor::new(ScalarType::Bool, &[]).planned(1, 128));
    let x = method.input(at(0));
    let [one, other] = [16, 32].map(|offset| method.tensor(at(offset)));
    let result = method.tensor(at(48));
    let [used, out, y] = [64, 32, 96].map(|offset| method.tensor(at(offset)));
    method.mark_output(y);
    let never = method.bool(false);
    let delegate = delegate(&mut method);
    method.jump_false(p, 4);
    unary(&mut method, x, one);
    method.move_value(one, result);
    method.jump_false(never, 6);
    unary(&mut method, x, other);
    method.move_value(other, result);
    unary(&mut method, result, used);
    method.delegate_call(delegate, &[used, out, y]);
    let plan = plan(method);
    roles(&analyse(&plan).steps()[7], &[used], &[out, y], &[]);
}

#[test]
fn hints_must_fit_the_method() {
    let mut method = method();
    let x = method.input(at(0));
    let y = method.output(at(16));
    let delegate = delegate(&mut method);
    method.delegate_call(delegate, &[x, y]);
    let plan = plan(method);
    let with = |delegate: u32, inputs: usize| {
        let hints = Hints {
            delegate_inputs: [(delegate, inputs)].into(),
        };
        Analysis::new(&plan, &hints).map(drop)
    };
    assert_eq!(with(0, 0), Ok(()));
    assert_eq!(with(0, 1), Ok(()));
    for inputs in [2, 3, usize::MAX] {
        let bad = AnalysisError::BadHint {
            delegate: 0,
            inputs,
            arguments: 2,
        };
        assert_eq!(with(0, inputs), Err(bad));
    }
    let nothing = |delegate| AnalysisError::HintOnNothing { delegate, count: 1 };
    assert_eq!(with(1, 1), Err(nothing(1)));
    assert_eq!(with(u32::MAX, 1), Err(nothing(u32::MAX)));
}
