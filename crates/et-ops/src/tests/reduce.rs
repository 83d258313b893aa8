//! Reductions.

use et_kernel::{Bool8, ScalarType};

use crate::testing::Op;

const F: ScalarType = ScalarType::Float;
const L: ScalarType = ScalarType::Long;

fn count(n: usize) -> Vec<f32> {
    (0..n).map(|x| x as f32).collect()
}

fn reduce(name: &str, x: &[f32], sizes: &[usize], dims: &[i64], keep: bool) -> Op {
    let op = Op::new(name).tensor(x, sizes).ints(dims).boolean(keep);
    if name.contains("sum") || name.contains("mean") {
        op.none()
    } else {
        op
    }
}

#[test]
fn sums_along_any_dimensions() {
    let sum = |dims: &[i64], keep, rank| {
        reduce("aten::sum.IntList_out", &count(24), &[2, 3, 4], dims, keep).out(F, rank)
    };
    sum(&[2], false, 2).gives(&[6f32, 22., 38., 54., 70., 86.], &[2, 3]);
    sum(&[0], false, 2).gives(
        &(0..12).map(|x| (2 * x + 12) as f32).collect::<Vec<_>>(),
        &[3, 4],
    );
    sum(&[0, -1], true, 3).gives(&[60f32, 92., 124.], &[1, 3, 1]);
    sum(&[1], true, 3).gives(&[12f32, 15., 18., 21., 48., 51., 54., 57.], &[2, 1, 4]);
    sum(&[], false, 0).gives(&[276f32], &[]);
    sum(&[1, 1], false, 1).fails("kernel.invalid-argument");
    sum(&[3], false, 2).fails("kernel.invalid-argument");
}

#[test]
fn a_channels_last_input_is_reduced_by_index() {
    Op::new("aten::mean.out")
        .ordered(&count(24), &[1, 2, 3, 4], &[0, 2, 3, 1])
        .ints(&[2, 3])
        .boolean(false)
        .none()
        .out(F, 2)
        .gives(&[5.5f32, 17.5], &[1, 2]);
}

#[test]
fn sums_of_whole_numbers_wrap_and_become_long() {
    Op::new("aten::sum.IntList_out")
        .tensor(&[i64::MAX, 1], &[2])
        .ints(&[0])
        .boolean(false)
        .none()
        .out(L, 0)
        .gives(&[i64::MIN], &[]);
    Op::new("aten::sum.IntList_out")
        .tensor(&[true, true, false].map(Bool8::from), &[3])
        .none()
        .boolean(false)
        .none()
        .out(L, 0)
        .gives(&[2i64], &[]);
}

#[test]
fn of_nothing() {
    let op = |name: &str| reduce(name, &[], &[0, 2], &[0], false).out(F, 1);
    op("aten::sum.IntList_out").gives(&[0f32, 0.], &[2]);
    let done = op("aten::mean.out").run().unwrap();
    assert!(done.elements::<f32>(0).iter().all(|x| x.is_nan()));
    op("aten::amax.out").fails("kernel.invalid-argument");
    reduce("aten::amax.out", &[], &[0, 2], &[1], false)
        .out(F, 1)
        .gives::<f32>(&[], &[0]);
}

#[test]
fn a_long_sum_keeps_its_digits() {
    let x = vec![0.1f32; 4000];
    reduce("aten::sum.IntList_out", &x, &[4000], &[0], false)
        .out(F, 0)
        .gives_about(&[400.0], &[], 1e-6);
    reduce("aten::sum.IntList_out", &x, &[2000, 2], &[0], false)
        .out(F, 1)
        .gives_about(&[200.0; 2], &[2], 1e-6);
}

#[test]
fn extremes_keep_what_is_no_number() {
    let x = [1f32, f32::NAN, 3., 4., 5., 2.];
    let done = reduce("aten::amax.out", &x, &[2, 3], &[1], false)
        .out(F, 1)
        .run()
        .unwrap();
    let found = done.elements::<f32>(0);
    assert!(found[0].is_nan() && found[1] == 5.0);
    reduce("aten::amin.out", &[3., 1., 2.], &[3], &[], false)
        .out(F, 0)
        .gives(&[1f32], &[]);
}

#[test]
fn positions_of_extremes() {
    let arg = |name: &str, x: &[f32], sizes: &[usize], dim| {
        Op::new(name)
            .tensor(x, sizes)
            .int(dim)
            .boolean(false)
            .out(L, sizes.len() - 1)
    };
    arg("aten::argmax.out", &[1., 5., 5., 2., 9., 0.], &[2, 3], 1).gives(&[1i64, 1], &[2]);
    arg("aten::argmax.out", &[1., 5., 5., 2., 9., 0.], &[2, 3], 0).gives(&[1i64, 1, 0], &[3]);
    arg("aten::argmin.out", &[1., f32::NAN, 0.], &[3], 0).gives(&[1i64], &[]);
    Op::new("aten::argmax.out")
        .ordered(&[1f32, 2., 9., 4.], &[2, 2], &[1, 0])
        .none()
        .boolean(false)
        .out(L, 0)
        .gives(&[2i64], &[]);
}

#[test]
fn max_gives_values_and_positions() {
    let done = Op::new("aten::max.dim_max")
        .tensor(&[1f32, 7., 3., 4., 4., 0.], &[2, 3])
        .int(1)
        .boolean(true)
        .out(F, 2)
        .out(L, 2)
        .run()
        .unwrap();
    assert_eq!(done.elements::<f32>(0), [7.0, 4.0]);
    assert_eq!(
        (done.elements::<i64>(1), done.sizes(1)),
        (vec![1, 0], &[2, 1][..])
    );
}

#[test]
fn truth_of_some_and_of_all() {
    let x = [true, false, true, true].map(Bool8::from);
    let op = |name: &str| {
        Op::new(name)
            .tensor(&x, &[2, 2])
            .int(1)
            .boolean(false)
            .out(ScalarType::Bool, 1)
    };
    op("aten::any.out").gives(&[true, true].map(Bool8::from), &[2]);
    op("aten::all.out").gives(&[false, true].map(Bool8::from), &[2]);
    Op::new("aten::any.all_out")
        .tensor(&[f32::NAN], &[1])
        .out(ScalarType::Bool, 0)
        .gives(&[Bool8(1)], &[]);
}

#[test]
fn variances() {
    let var = |correction, dims: &[i64], rank| {
        Op::new("aten::var.correction_out")
            .tensor(&[1f32, 2., 3., 4., 1e4, 1e4 + 2.], &[3, 2])
            .ints(dims)
            .double(correction)
            .boolean(false)
            .out(F, rank)
    };
    var(1.0, &[1], 1).gives_about(&[0.5, 0.5, 2.0], &[3], 1e-6);
    var(0.0, &[1], 1).gives_about(&[0.25, 0.25, 1.0], &[3], 1e-6);
    let done = var(2.0, &[1], 1).run().unwrap();
    assert!(done.elements::<f32>(0)[0].is_infinite());
    Op::new("aten::std.correction_out")
        .tensor(&[1f32, 3., 1., 3.], &[2, 2])
        .ints(&[0])
        .none()
        .boolean(false)
        .out(F, 1)
        .gives_about(&[0.0, 0.0], &[2], 1e-6);
}

#[test]
fn products() {
    Op::new("aten::prod.int_out")
        .tensor(&[1f32, 2., 3., 4.], &[2, 2])
        .int(0)
        .boolean(false)
        .none()
        .out(F, 1)
        .gives(&[3f32, 8.], &[2]);
}
