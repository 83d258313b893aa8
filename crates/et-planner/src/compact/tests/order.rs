//! Instructions in another order.

use super::*;
use et_schema::owned::{Frame, FrameList, Instruction};

fn reorder() -> CompactOptions {
    CompactOptions {
        reorder: true,
        ..CompactOptions::default()
    }
}

/// A tensor of so many kilobytes, nowhere in particular: places are made up afterwards.
fn large(kilobytes: i32) -> Tensor {
    Tensor::new(ScalarType::Float, &[256 * kilobytes]).planned(1, 0)
}

/// Gives every value a place of its own.
fn spread(method: MethodBuilder) -> ExecutionPlan {
    let mut method = method.finish();
    let mut end = 0;
    for tensor in method.values.iter_mut().filter_map(Value::as_tensor_mut) {
        if let Some(place) = &mut tensor.allocation_info {
            place.memory_offset = end;
            end += tensor.nbytes().unwrap().next_multiple_of(16);
        }
    }
    method.non_const_buffer_sizes[1] = i64::try_from(end).unwrap();
    method
}

fn first_arguments(method: &ExecutionPlan) -> Vec<i32> {
    let instructions = &method.chains[0].instructions;
    let result = |instruction: &Instruction| match instruction {
        Instruction::KernelCall(call) => *call.args.last().unwrap(),
        Instruction::DelegateCall(call) => *call.args.last().unwrap(),
        other => panic!("{other:?}"),
    };
    instructions.iter().map(result).collect()
}

/// Four large values made first, and each reduced to a small one afterwards.
fn wide() -> ExecutionPlan {
    let mut method = method(0);
    let x = method.input(large(1));
    let made: Vec<i32> = (0..4).map(|_| method.tensor(large(64))).collect();
    let kept: Vec<i32> = (0..4).map(|_| method.tensor(large(1))).collect();
    let y = method.output(large(1));
    for &value in &made {
        method.kernel("aten::expand_copy.out", &[x, value, value]);
    }
    for (&value, &small) in made.iter().zip(&kept) {
        method.kernel("aten::sum.out", &[value, small, small]);
    }
    let list = method.tensor_list(&kept);
    method.kernel("aten::cat.out", &[list, y, y]);
    spread(method)
}

#[test]
fn large_values_are_made_when_they_are_needed() {
    let mut method = wide();
    let (plain, all) = (
        run_all(&mut wide(), &CompactOptions::default()).unwrap(),
        run_all(&mut method, &reorder()).unwrap(),
    );
    assert!(plain.order.is_none());
    let order = all.order.unwrap();
    assert!(
        order.moved() > 0 && order.bound_after < order.bound_before,
        "{order:?}"
    );
    let [before, after] = [&plain.buffers, &all.buffers].map(|buffers| buffers[0].nbytes_after);
    assert!(3 * after < before, "{after} of {before}");
    assert_eq!(first_arguments(&method).last(), Some(&9));
    let again = method.clone();
    assert!(run_all(&mut method, &reorder()).unwrap().order.is_none());
    assert_eq!(method, again);
}

#[test]
fn source_lines_move_along() {
    let mut method = wide();
    let frame = |line: i32| FrameList {
        items: vec![Frame {
            lineno: line,
            ..Frame::default()
        }],
    };
    method.chains[0].stacktrace = Some((0..9).map(frame).collect());
    let order = run_all(&mut method, &reorder()).unwrap().order.unwrap();
    let lines = method.chains[0].stacktrace.as_ref().unwrap();
    let lines = lines.iter().map(|frames| frames.items[0].lineno);
    assert!(
        lines.eq(order
            .origins
            .iter()
            .map(|&origin| i32::try_from(origin).unwrap()))
    );
}

/// Instructions of `wide`, but with something that must stay where it is.
fn stays(change: impl FnOnce(&mut ExecutionPlan)) {
    let mut method = wide();
    change(&mut method);
    let before = first_arguments(&method);
    let report = run_all(&mut method, &reorder()).unwrap();
    assert_eq!(report.order, None);
    assert_eq!(first_arguments(&method), before);
}

#[test]
fn operators_that_nobody_knows_stay_in_order() {
    for name in ["my::op", "aten::rand", "llama::update_cache"] {
        stays(|method| {
            for operator in &mut method.operators {
                operator.name = name.into();
            }
        });
    }
}

#[test]
fn what_is_written_twice_stays_in_order() {
    let mut method = method(0);
    let [x, big, small] = [large(1), large(64), large(1)].map(|tensor| method.input(tensor));
    let [a, y] = [method.tensor(large(64)), method.output(large(1))];
    // Writing `big` again must stay behind the reading of it.
    method.kernel("aten::expand_copy.out", &[x, a, a]);
    method.kernel("aten::sum.out", &[big, small, small]);
    method.kernel("aten::expand_copy.out", &[small, big, big]);
    method.kernel("aten::cat.out", &[a, big, small, y, y]);
    let mut method = spread(method);
    run_all(&mut method, &reorder()).unwrap();
    let order = first_arguments(&method);
    let place = |value: i32| order.iter().position(|&other| other == value).unwrap();
    assert!(place(small) < place(big) && place(big) < place(y));
}

/// A number that one instruction sets and another uses.
#[test]
fn numbers_are_set_before_they_are_used() {
    let mut method = method(0);
    let x = method.input(large(1));
    let size = method.int(0);
    let [big, small, y] = [
        method.tensor(large(64)),
        method.tensor(large(1)),
        method.output(large(1)),
    ];
    let dim = method.int(1);
    method.kernel("aten::expand_copy.out", &[x, big, big]);
    method.kernel("aten::sym_size.int", &[x, dim, size]);
    method.kernel("aten::narrow_copy.out", &[x, size, small, small]);
    method.kernel("aten::cat.out", &[big, small, y, y]);
    let mut method = spread(method);
    run_all(&mut method, &reorder()).unwrap();
    let order = first_arguments(&method);
    let place = |value: i32| order.iter().position(|&other| other == value).unwrap();
    assert!(place(size) < place(small));
}

#[test]
fn nothing_moves_over_a_jump() {
    let mut method = method(0);
    let p = method.input(Tensor::new(ScalarType::Bool, &[]).planned(1, 0));
    let x = method.input(large(1));
    let [big, small, y] = [
        method.tensor(large(64)),
        method.tensor(large(1)),
        method.output(large(1)),
    ];
    method.kernel("aten::expand_copy.out", &[x, big, big]);
    method.jump_false(p, 3);
    method.kernel("aten::expand_copy.out", &[x, small, small]);
    method.kernel("aten::cat.out", &[big, small, y, y]);
    let mut method = spread(method);
    let report = run_all(&mut method, &reorder()).unwrap();
    assert_eq!(report.order, None);
}

/// Views, results in place and moved results stay with what they show.
#[test]
fn other_names_of_a_value_are_followed() {
    let mut method = method(0);
    let x = method.input(large(64));
    let base = method.tensor(large(64));
    let flat = method.tensor(Tensor {
        sizes: vec![64, 256],
        dim_order: vec![0, 1],
        ..large(64)
    });
    let [big, small, y] = [
        method.tensor(large(64)),
        method.tensor(large(1)),
        method.output(large(1)),
    ];
    let none = method.none();
    method.kernel("aten::relu.out", &[x, base, base]);
    method.kernel("aten::expand_copy.out", &[x, big, big]);
    method.kernel("aten::add_", &[base, x, base]);
    method.kernel("aten::sum.out", &[flat, none, small, small]);
    method.kernel("aten::cat.out", &[big, small, y, y]);
    let mut method = spread(method);
    // `flat` is a view of `base`.
    let place = method.values[1].as_tensor().unwrap().allocation_info;
    method.values[2].as_tensor_mut().unwrap().allocation_info = place;
    let before = Analysis::new(&method, &Hints::default())
        .unwrap()
        .bases(ValueIndex::new(2));
    run_all(&mut method, &reorder()).unwrap();
    let order = first_arguments(&method);
    let at = |value: i32| order.iter().position(|&other| other == value).unwrap();
    assert!(order.iter().position(|&value| value == base).unwrap() < at(small));
    assert!(order.iter().rposition(|&value| value == base).unwrap() < at(small));
    let after = Analysis::new(&method, &Hints::default()).unwrap();
    assert_eq!(after.bases(ValueIndex::new(2)), before);
}
