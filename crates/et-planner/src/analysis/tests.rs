//! Methods in a few lines, and what must be found out about them.

use et_schema::builder::MethodBuilder;
use et_schema::owned::{BackendDelegateDataReference, ExecutionPlan, Program, Tensor, Value};
use et_schema::{ScalarType, VerifiedProgram};

use super::*;

/// A 16-byte tensor in buffer 1.
fn at(offset: u64) -> Tensor {
    anywhere().planned(1, offset)
}

fn anywhere() -> Tensor {
    Tensor::new(ScalarType::Float, &[4])
}

fn method() -> MethodBuilder {
    let mut method = MethodBuilder::new("forward");
    method.buffer(1024);
    method
}

fn unary(method: &mut MethodBuilder, input: i32, output: i32) {
    method.kernel("aten::relu.out", &[input, output, output]);
}

fn binary(method: &mut MethodBuilder, inputs: [i32; 2], output: i32) {
    method.kernel("aten::mul.out", &[inputs[0], inputs[1], output, output]);
}

fn plan(method: MethodBuilder) -> ExecutionPlan {
    method.finish()
}

fn delegate(method: &mut MethodBuilder) -> i32 {
    method.delegate("Backend", BackendDelegateDataReference::default(), &[])
}

fn index(value: i32) -> ValueIndex {
    ValueIndex::new(usize::try_from(value).unwrap())
}

fn analyse(plan: &ExecutionPlan) -> Analysis<'_> {
    Analysis::new(plan, &Hints::default()).unwrap()
}

#[track_caller]
fn clobbers(plan: &ExecutionPlan, expected: &[(i32, i32, usize)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|&(first, second, instruction)| Finding::Clobber {
            first: index(first),
            second: index(second),
            instruction,
        })
        .collect();
    assert_eq!(analyse(plan).audit(), expected);
}

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
    assert_eq!(analysis.audit(), []);
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
    assert_eq!(analysis.audit(), []);
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
    assert_eq!(analysis.audit(), []);
}

#[test]
fn an_overwritten_value_is_reported_where_it_is_overwritten() {
    let mut method = method();
    let x = method.input(at(0));
    let [a, b] = [16, 24].map(|offset| method.tensor(at(offset)));
    let y = method.output(at(48));
    unary(&mut method, x, a);
    unary(&mut method, x, b);
    binary(&mut method, [a, b], y);
    clobbers(&plan(method), &[(a, b, 1)]);
}

#[test]
fn a_result_over_an_input_that_dies_there_is_in_place() {
    let mut method = method();
    let x = method.input(at(0));
    let y = method.output(at(0));
    unary(&mut method, x, y);
    clobbers(&plan(method), &[]);
}

#[test]
fn a_result_over_an_input_that_is_needed_later_is_not() {
    let mut method = method();
    let x = method.input(at(0));
    let a = method.tensor(at(0));
    let y = method.output(at(16));
    unary(&mut method, x, a);
    binary(&mut method, [x, a], y);
    clobbers(&plan(method), &[(x, a, 0)]);
}

/// The reference's exporter forgets uses of a result that it put in place (limit 02): another value takes the place
/// of the original while the result is still to be read.
#[test]
fn limit_02_forgotten_uses_of_an_in_place_result_are_found() {
    let mut method = method();
    let [a, b] = [0, 16].map(|offset| method.input(at(offset)));
    let c = method.tensor(at(32));
    let z = method.tensor(at(32));
    let y = method.output(at(48));
    binary(&mut method, [a, b], c);
    method.kernel("aten::relu_", &[c, c]);
    unary(&mut method, a, z);
    binary(&mut method, [c, z], y);
    clobbers(&plan(method), &[(c, z, 2)]);
}

/// Two branches that each leave a value by a move; `places` of the four values that are left.
fn two_conditions(places: [u64; 4]) -> (ExecutionPlan, [i32; 4]) {
    let mut method = method();
    let x = method.input(at(0));
    let [p, q] =
        [16, 32].map(|offset| method.input(Tensor::new(ScalarType::Bool, &[]).planned(1, offset)));
    let [a, b] = [48, 64].map(|offset| method.tensor(at(offset)));
    let left = places.map(|offset| method.tensor(at(offset)));
    let never = method.bool(false);
    let y = method.output(at(80));
    method.mark_output(a);
    for (condition, result, branch) in [(p, a, 0), (q, b, 2)] {
        let start = if branch == 0 { 0 } else { 6 };
        method.jump_false(condition, start + 4);
        unary(&mut method, x, left[branch]);
        method.move_value(left[branch], result);
        method.jump_false(never, start + 6);
        unary(&mut method, x, left[branch + 1]);
        method.move_value(left[branch + 1], result);
    }
    binary(&mut method, [a, b], y);
    (plan(method), left)
}

/// The reference plans all branches from one offset on (limit 01), although what they leave is needed later.
#[test]
fn limit_01_results_of_two_branches_that_clobber_are_found() {
    let (plan, [a, b, c, d]) = two_conditions([96, 112, 96, 112]);
    clobbers(&plan, &[(a, c, 7), (b, d, 10)]);
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
    assert_eq!(analysis.audit(), []);
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
    assert_eq!(analysis.audit(), []);
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
    assert_eq!(analyse(&plan).audit(), expected);
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

#[test]
fn plans_of_real_programs_keep_every_value() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
    let mut seen = 0;
    for folder in std::fs::read_dir(fixtures).unwrap() {
        let Ok(bytes) = std::fs::read(folder.unwrap().path().join("model.pte")) else {
            continue;
        };
        let program = VerifiedProgram::from_file_bytes(&bytes).unwrap();
        for method in &Program::from_verified(&program).unwrap().execution_plan {
            let findings = analyse(method).audit();
            let clobber = findings
                .iter()
                .find(|finding| matches!(finding, Finding::Clobber { .. }));
            assert_eq!(clobber, None, "{}", method.name);
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen} methods");
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

/// `base` is overwritten in place by `other`, which the reference forgets when it places what comes in between: all
/// three at offset 0 (limit 22).
#[test]
fn golden_gi1_the_plan_of_the_reference_is_found_wrong() {
    for (place, expected) in [(0, true), (160, false)] {
        let mut method = method();
        let tensor = |offset| Tensor::new(ScalarType::Float, &[40]).planned(1, offset);
        let x = method.input(tensor(320));
        let base = method.tensor(tensor(0));
        let between = method.tensor(tensor(place));
        let second_name = method.tensor(tensor(0));
        let [y, z] = [480, 640].map(|offset| method.output(tensor(offset)));
        unary(&mut method, x, base);
        method.kernel("aten::add_", &[base, x, second_name]);
        unary(&mut method, x, between);
        unary(&mut method, between, z);
        unary(&mut method, second_name, y);
        let plan = plan(method);
        let clobbers = analyse(&plan)
            .audit()
            .into_iter()
            .filter(|finding| matches!(finding, Finding::Clobber { .. }));
        assert_eq!(clobbers.count() > 0, expected);
    }
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

/// A result that nobody reads leaves its place to a delegate's output of the same shape, which is no view of it, or
/// may not be.
#[test]
fn an_output_at_the_place_of_what_was_made_in_vain_is_written() {
    for changed_later in [false, true] {
        let mut method = method();
        let x = method.input(at(0));
        let [vain, out, y] = [16, 16, 32].map(|offset| method.tensor(at(offset)));
        method.mark_output(y);
        method.mark_output(out);
        let none = method.none();
        let delegate = delegate(&mut method);
        unary(&mut method, x, vain);
        method.delegate_call(delegate, &[x, out, y]);
        if changed_later {
            method.kernel("aten::copy_", &[out, x, none, out]);
        }
        let plan = plan(method);
        let analysis = analyse(&plan);
        let changes: Vec<usize> = analysis.steps()[1].changes().map(ValueIndex::get).collect();
        assert!(changes.contains(&index(out).get()));
        assert_eq!(analysis.steps()[1].either.is_empty(), changed_later);
        clobbers(&plan, &[]);
    }
}

/// A file of a few megabytes names so many that a bit for each pair would be gigabytes.
#[test]
fn methods_out_of_all_proportion_are_refused() {
    let mut forward = MethodBuilder::new("forward");
    for number in 0..50_000 {
        forward.int(number);
    }
    for _ in 0..50_000 {
        forward.kernel("executorch_prim::add.Scalar", &[0, 1, 2]);
    }
    let plan = forward.finish();
    let refused = Analysis::new(&plan, &Hints::default()).map(drop);
    assert!(matches!(refused, Err(AnalysisError::TooLarge { .. })));
}
