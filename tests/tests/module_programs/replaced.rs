//! Lists that a program replaces: nothing that was worked out for one may be used for another.

use super::*;
use et_kernel::Bool8;

/// Calls an operator on x of 2x2x2 elements from 0 on and a list, which is replaced by another one if a condition holds. Both lists may
/// name x and its negative.
#[track_caller]
fn check(
    sizes: &[i32],
    lists: impl FnOnce(&mut MethodBuilder, [i32; 2]) -> [i32; 2],
    call: impl FnOnce(&mut MethodBuilder, i32, i32, i32),
    expected: [&[f32]; 2],
) {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(256);
    let x = forward.input(floats(&[2, 2, 2]).planned(memory, 0));
    let condition = FileTensor::new(ScalarType::Bool, &[1]).planned(memory, 32);
    let condition = forward.input(condition);
    let out = forward.output(floats(sizes).planned(memory, 128));
    let negative = forward.tensor(floats(&[2, 2, 2]).planned(memory, 64));
    let [list, other] = lists(&mut forward, [x, negative]);
    forward.kernel("aten::neg.out", &[x, negative, negative]);
    forward.jump_false(condition, 3);
    forward.move_value(other, list);
    call(&mut forward, x, list, out);
    let mut method = Bench::new().load(forward, ProgramBuilder::new());
    let elements: Vec<f32> = (0..8u8).map(f32::from).collect();
    for holds in [false, false, true, true, false] {
        let x = Tensor::from_slice(&elements, &[2, 2, 2]).unwrap();
        let condition = Tensor::from_slice(&[Bool8::from(holds)], &[1]).unwrap();
        let outputs = run(&mut method, &[x.into(), condition.into()]);
        assert_eq!(outputs, expected[usize::from(holds)], "{holds}");
    }
}

#[test]
fn a_list_of_numbers() {
    check(
        &[2, 2, 2],
        |forward, _| [&[1, 0, 2], &[0, 2, 1]].map(|order| forward.int_list(order)),
        |forward, x, list, out| {
            forward.kernel("aten::permute_copy.out", &[x, list, out, out]);
        },
        [
            &[0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0],
            &[0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0],
        ],
    );
}

#[test]
fn a_list_of_dimensions_to_sum_up() {
    check(
        &[2, 2],
        |forward, _| [&[0], &[2]].map(|dims| forward.int_list(dims)),
        |forward, x, list, out| {
            let (keep, dtype) = (forward.bool(false), forward.none());
            forward.kernel("aten::sum.IntList_out", &[x, list, keep, dtype, out, out]);
        },
        [&[4.0, 6.0, 8.0, 10.0], &[1.0, 5.0, 9.0, 13.0]],
    );
}

#[test]
fn a_list_of_tensors() {
    check(
        &[2, 2, 4],
        |forward, [x, y]| [[x, y], [y, x]].map(|list| forward.tensor_list(&list)),
        |forward, _, list, out| {
            let last = forward.int(-1);
            forward.kernel("aten::cat.out", &[list, last, out, out]);
        },
        [
            &[
                0.0, 1.0, 0.0, -1.0, 2.0, 3.0, -2.0, -3.0, 4.0, 5.0, -4.0, -5.0, 6.0, 7.0, -6.0,
                -7.0,
            ],
            &[
                0.0, -1.0, 0.0, 1.0, -2.0, -3.0, 2.0, 3.0, -4.0, -5.0, 4.0, 5.0, -6.0, -7.0, 6.0,
                7.0,
            ],
        ],
    );
}
