//! Results that lie on an input which nobody needs any more.

use super::*;

fn in_place() -> CompactOptions {
    CompactOptions {
        in_place: true,
        ..CompactOptions::default()
    }
}

#[track_caller]
fn check(method: ExecutionPlan, shared: &[(usize, usize)], nbytes: u64) -> ExecutionPlan {
    let mut planned = method;
    let ends = planned.values.iter().filter_map(|value| {
        let tensor = value.as_tensor()?;
        Some(tensor.allocation_info?.memory_offset + tensor.nbytes()?)
    });
    let end = ends.max().unwrap().next_multiple_of(16);
    planned.non_const_buffer_sizes[1] = i64::try_from(end).unwrap();
    let report = run(&mut planned, &in_place()).unwrap().remove(0);
    let found: Vec<(usize, usize)> = report
        .shared
        .iter()
        .map(|(input, result)| (input.get(), result.get()))
        .collect();
    assert_eq!((found.as_slice(), report.nbytes_after), (shared, nbytes));
    let place = |value: usize| planned.values[value].as_tensor().unwrap().allocation_info;
    for (input, result) in found {
        assert_eq!(place(input), place(result));
    }
    planned
}

/// A chain of values, each of the last by the operator; 16 bytes each, in places of their own.
fn chain_of(operator: &str, length: u64) -> ExecutionPlan {
    let mut method = method(1024);
    let mut last = method.input(at(0));
    for step in 1..=length {
        let next = method.tensor(at(16 * step));
        method.kernel(operator, &[last, next, next]);
        last = next;
    }
    method.mark_output(last);
    method.finish()
}

#[test]
fn a_chain_of_elementwise_operators_needs_one_place() {
    check(chain_of("aten::relu.out", 3), &[(0, 1), (1, 2), (2, 3)], 16);
}

#[test]
fn operators_that_mix_elements_need_two() {
    for operator in ["aten::softmax.out", "aten::cumsum.out", "my::relu.out"] {
        check(chain_of(operator, 3), &[], 32);
    }
}

#[test]
fn what_is_needed_later_is_not_written_over() {
    let mut method = method(64);
    let x = method.input(at(0));
    let [a, y] = [method.tensor(at(16)), method.output(at(32))];
    unary(&mut method, x, a);
    method.kernel("aten::mul.out", &[a, x, y, y]);
    // `x` is needed by the second instruction; there both end, and the result can lie on one of them.
    check(method.finish(), &[(1, 2)], 32);
}

#[test]
fn views_of_an_input_keep_it() {
    let mut method = method(64);
    let x = method.input(at(0));
    let a = method.tensor(at(16));
    let view = method.tensor(Tensor {
        sizes: vec![2, 2],
        dim_order: vec![0, 1],
        ..at(16)
    });
    let [b, y] = [method.tensor(at(32)), method.output(at(48))];
    unary(&mut method, x, a);
    unary(&mut method, a, b);
    method.kernel("aten::cat.out", &[view, b, y, y]);
    // Sharing one place, `a` and `b` would need 32.
    check(method.finish(), &[], 48);
}

#[test]
fn an_operand_that_shows_the_same_bytes_otherwise_forbids_it() {
    let mut method = method(64);
    let x = method.input(at(0));
    let a = method.tensor(at(16));
    let view = method.tensor(Tensor {
        sizes: vec![1, 4],
        dim_order: vec![0, 1],
        ..at(16)
    });
    let y = method.output(at(32));
    method.kernel("aten::cumsum.out", &[x, a, a]);
    method.kernel("aten::add.out", &[a, view, y, y]);
    check(method.finish(), &[], 32);
}

#[test]
fn other_elements_or_shapes_forbid_it() {
    let long = Tensor::new(ScalarType::Int, &[4]).planned(1, 16);
    let wide = Tensor::new(ScalarType::Float, &[1, 4]).planned(1, 16);
    let dynamic = at(16).dynamic(et_schema::Dynamism::DynamicBound);
    for result in [long, wide, dynamic] {
        let mut method = method(32);
        let x = method.input(at(0));
        let y = method.output(result);
        unary(&mut method, x, y);
        check(method.finish(), &[], 32);
    }
}

#[test]
fn state_and_preserved_inputs_are_not_written_over() {
    let mut method = method(64);
    let state = method.tensor(at(0));
    let x = method.input(at(16));
    let y = method.output(at(32));
    unary(&mut method, state, y);
    unary(&mut method, x, y);
    let mut method = method.finish();
    method.non_const_buffer_sizes[1] = 48;
    let options = CompactOptions {
        preserve_inputs: true,
        ..in_place()
    };
    let report = run(&mut method, &options).unwrap().remove(0);
    assert!(report.shared.is_empty() && report.kept, "{report:?}");
}

/// Inputs of one branch may be needed in the other.
#[test]
fn branches_and_loops_are_respected() {
    let mut method = method(64);
    let p = method.input(Tensor::new(ScalarType::Bool, &[]).planned(1, 48));
    let x = method.input(at(0));
    let [a, y] = [method.tensor(at(16)), method.output(at(32))];
    unary(&mut method, x, a);
    // The loop needs `a` in every round.
    unary(&mut method, a, y);
    method.jump_false(p, 1);
    check(method.finish(), &[], 48);
}

/// What the reference places wrongly comes out right: the value in between lies elsewhere.
#[test]
fn golden_gi1_what_is_overwritten_in_place_lives_until_the_end() {
    let mut method = method(640);
    let tensor = |offset| Tensor::new(ScalarType::Float, &[40]).planned(1, offset);
    let x = method.tensor(Tensor::new(ScalarType::Float, &[40]).with_data(1));
    let [base, other, between] = [0, 160, 320].map(|offset| method.tensor(tensor(offset)));
    let y = method.output(tensor(480));
    unary(&mut method, x, base);
    unary(&mut method, base, other);
    method.kernel("aten::cumsum.out", &[other, between, between]);
    method.kernel("aten::add.out", &[other, between, y, y]);
    let planned = check(method.finish(), &[(1, 2), (2, 4)], 320);
    let offset = |value: i32| {
        let tensor = planned.values[usize::try_from(value).unwrap()].as_tensor();
        tensor.unwrap().allocation_info.unwrap().memory_offset
    };
    assert_eq!(offset(base), offset(other));
    assert_ne!(offset(base), offset(between));
}

#[test]
fn a_second_time_changes_nothing() {
    let mut method = chain_of("aten::exp.out", 5);
    run(&mut method, &in_place()).unwrap();
    let once = method.clone();
    for options in [in_place(), CompactOptions::default()] {
        assert!(run(&mut method, &options).unwrap()[0].kept);
        assert_eq!(method, once);
    }
}

#[test]
fn results_may_have_lower_numbers_than_inputs() {
    let mut method = method(48);
    let y = method.tensor(at(0));
    let a = method.tensor(at(16));
    let x = method.tensor(Tensor::new(ScalarType::Float, &[4]).with_data(1));
    method.kernel("aten::cumsum.out", &[x, a, a]);
    unary(&mut method, a, y);
    method.mark_output(y);
    check(method.finish(), &[(1, 0)], 16);
}

/// Where sharing does not help, everything is as without it, whatever the order of values.
#[test]
fn what_does_not_help_is_left_out() {
    let build = || {
        let mut method = method(256);
        let wide = |offset| Tensor::new(ScalarType::Float, &[16]).planned(1, offset);
        let x = method.input(wide(0));
        let [mean, sum] = [64, 80].map(|offset| method.tensor(at(offset)));
        let [scaled, y] = [method.tensor(wide(96)), method.output(wide(160))];
        method.kernel("aten::mean.out", &[x, mean, mean]);
        unary(&mut method, mean, sum);
        method.kernel("aten::cat.out", &[x, sum, scaled, scaled]);
        method.kernel("aten::cumsum.out", &[scaled, y, y]);
        method.finish()
    };
    let planned = check(build(), &[], 144);
    let mut plain = build();
    plain.non_const_buffer_sizes[1] = 224;
    run(&mut plain, &CompactOptions::default()).unwrap();
    assert_eq!(planned.non_const_buffer_sizes, plain.non_const_buffer_sizes);
}
