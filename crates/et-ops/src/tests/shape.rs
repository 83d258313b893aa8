//! Operators that move elements.

use et_kernel::ScalarType;

use crate::testing::Op;

const F: ScalarType = ScalarType::Float;

fn count(n: usize) -> Vec<f32> {
    (0..n).map(|x| x as f32).collect()
}

#[test]
fn permute_moves_dimensions() {
    Op::new("aten::permute_copy.out")
        .tensor(&count(6), &[2, 3])
        .ints(&[1, -2])
        .out(F, 2)
        .gives(&[0f32, 3., 1., 4., 2., 5.], &[3, 2]);
}

#[test]
fn a_large_transposition_is_right_in_every_block() {
    let (rows, columns) = (37, 41);
    let expected: Vec<f32> = (0..columns)
        .flat_map(|j| (0..rows).map(move |i| (i * columns + j) as f32))
        .collect();
    Op::new("aten::permute_copy.out")
        .tensor(&count(rows * columns), &[rows, columns])
        .ints(&[1, 0])
        .out(F, 2)
        .gives(&expected, &[columns, rows]);
}

#[test]
fn a_transposition_of_nothing_ends_however_far_it_goes() {
    Op::new("aten::permute_copy.out")
        .tensor::<f32>(&[], &[0, 1 << 50])
        .ints(&[1, 0])
        .out(F, 2)
        .gives::<f32>(&[], &[1 << 50, 0]);
}

#[test]
fn permute_refuses_a_dimension_named_twice() {
    Op::new("aten::permute_copy.out")
        .tensor(&count(6), &[2, 3])
        .ints(&[1, 1])
        .out(F, 2)
        .fails("kernel.invalid-argument");
}

#[test]
fn slices_are_brought_inside() {
    let op = |start, end, step| {
        Op::new("aten::slice_copy.Tensor_out")
            .tensor(&count(5), &[5])
            .int(0)
            .int(start)
            .int(end)
            .int(step)
            .out(F, 1)
    };
    op(1, i64::MAX, 2).gives(&[1f32, 3.], &[2]);
    op(-2, -1, 1).gives(&[3f32], &[1]);
    op(4, 2, 1).gives::<f32>(&[], &[0]);
    op(i64::MIN, i64::MAX, i64::MAX).gives(&[0f32], &[1]);
    op(0, 5, 0).fails("kernel.invalid-argument");
}

#[test]
fn repeat_adds_dimensions() {
    Op::new("aten::repeat.out")
        .tensor(&[1f32, 2.], &[2])
        .ints(&[2, 2])
        .out(F, 2)
        .gives(&[1f32, 2., 1., 2., 1., 2., 1., 2.], &[2, 4]);
}

#[test]
fn flip_goes_backward() {
    Op::new("aten::flip.out")
        .tensor(&count(6), &[2, 3])
        .ints(&[-1])
        .out(F, 2)
        .gives(&[2f32, 1., 0., 5., 4., 3.], &[2, 3]);
}

#[test]
fn expand_keeps_sizes_of_minus_one() {
    Op::new("aten::expand_copy.out")
        .tensor(&[1f32, 2.], &[2, 1])
        .ints(&[-1, 3])
        .boolean(false)
        .out(F, 2)
        .gives(&[1f32, 1., 1., 2., 2., 2.], &[2, 3]);
}

#[test]
fn a_view_of_a_channels_last_tensor_goes_by_index() {
    Op::new("aten::view_copy.out")
        .ordered(&count(8), &[1, 2, 2, 2], &[0, 2, 3, 1])
        .ints(&[2, -1])
        .out(F, 2)
        .gives(&count(8), &[2, 4]);
}

#[test]
fn pixel_shuffle_and_back() {
    let op = |name: &str, x: &[f32], sizes: &[usize]| {
        Op::new(name)
            .tensor(x, sizes)
            .int(2)
            .out(F, 4)
            .run()
            .unwrap()
    };
    let done = op("aten::pixel_shuffle.out", &count(16), &[1, 4, 2, 2]);
    assert_eq!(done.sizes(0), [1, 1, 4, 4]);
    assert_eq!(done.elements::<f32>(0)[..4], [0.0, 4.0, 1.0, 5.0]);
    let back = op(
        "aten::pixel_unshuffle.out",
        &done.elements::<f32>(0),
        &[1, 1, 4, 4],
    );
    assert_eq!(back.elements::<f32>(0), count(16));
}

#[test]
fn diagonals_and_windows() {
    Op::new("aten::diagonal_copy.out")
        .tensor(&count(9), &[3, 3])
        .int(1)
        .int(0)
        .int(1)
        .out(F, 1)
        .gives(&[1f32, 5.], &[2]);
    Op::new("aten::unfold_copy.out")
        .tensor(&count(5), &[5])
        .int(0)
        .int(3)
        .int(2)
        .out(F, 2)
        .gives(&[0f32, 1., 2., 2., 3., 4.], &[2, 3]);
}

#[test]
fn strides_that_leave_the_tensor_are_refused() {
    let op = |stride| {
        Op::new("aten::as_strided_copy.out")
            .tensor(&count(4), &[4])
            .ints(&[2, 2])
            .ints(&[stride, 1])
            .none()
            .out(F, 2)
    };
    op(2).gives(&count(4), &[2, 2]);
    op(3).fails("kernel.invalid-argument");
    op(i64::MAX).fails("kernel.invalid-argument");
}
