//! Elementwise operators.

use et_kernel::{Bool8, ScalarType};
use half::{bf16, f16};

use crate::testing::Op;

const F: ScalarType = ScalarType::Float;
const L: ScalarType = ScalarType::Long;
const B: ScalarType = ScalarType::Bool;

#[test]
fn add_broadcasts_both_ways() {
    Op::new("aten::add.out")
        .tensor(&[1f32, 2., 3.], &[3, 1])
        .tensor(&[10f32, 20.], &[2])
        .int(1)
        .out(F, 2)
        .gives(&[11f32, 21., 12., 22., 13., 23.], &[3, 2]);
}

#[test]
fn add_takes_the_output_named_twice() {
    Op::new("aten::add.out")
        .tensor(&[1f32], &[1])
        .tensor(&[2f32], &[1])
        .double(2.5)
        .out(F, 1)
        .again(3)
        .gives(&[6f32], &[1]);
}

#[test]
fn add_may_write_over_an_operand() {
    Op::new("aten::add.out")
        .tensor(&(0..2000).map(|x| x as f32).collect::<Vec<_>>(), &[2000])
        .tensor(&[1f32], &[1])
        .int(1)
        .again(0)
        .output(0)
        .gives(&(1..2001).map(|x| x as f32).collect::<Vec<_>>(), &[2000]);
}

/// PyTorch compares with 0 on either side, which what is no number is on neither of.
#[test]
fn the_sign_of_no_number_is_zero() {
    Op::new("aten::sign.out")
        .tensor(&[f32::NAN, -f32::NAN, -0.0, -2.0, f32::INFINITY], &[5])
        .out(F, 1)
        .gives(&[0f32, 0., 0., -1., 1.], &[5]);
}

#[test]
fn whole_numbers_wrap() {
    Op::new("aten::add.out")
        .tensor(&[i64::MAX], &[1])
        .tensor(&[1i64], &[])
        .int(1)
        .out(L, 1)
        .gives(&[i64::MIN], &[1]);
}

#[test]
fn half_is_computed_as_float() {
    let halves = [1.5f32, 2.25].map(f16::from_f32);
    Op::new("aten::mul.out")
        .tensor(&halves, &[2])
        .tensor(&halves, &[2])
        .out(ScalarType::Half, 1)
        .gives(&[2.25f32, 5.0625].map(f16::from_f32), &[2]);
    let brain = [3.0f32, -1.0].map(bf16::from_f32);
    Op::new("aten::mul.out")
        .tensor(&brain, &[2])
        .tensor(&[2f32], &[])
        .out(ScalarType::BFloat16, 1)
        .gives(&[6.0f32, -2.0].map(bf16::from_f32), &[2]);
}

#[test]
fn a_channels_last_tensor_takes_a_number_tensor() {
    let x: Vec<f32> = (0..24).map(|x| x as f32).collect();
    let twice: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
    Op::new("aten::mul.out")
        .ordered(&x, &[1, 2, 3, 4], &[0, 2, 3, 1])
        .tensor(&[2f32], &[])
        .out_ordered(F, &[0, 2, 3, 1])
        .gives(&twice, &[1, 2, 3, 4]);
}

#[test]
fn mixed_dim_orders_meet_by_index() {
    let x: Vec<f32> = (0..24).map(|x| x as f32).collect();
    let zero = vec![0f32; 24];
    Op::new("aten::sub.out")
        .ordered(&x, &[1, 2, 3, 4], &[0, 2, 3, 1])
        .tensor(&x, &[1, 2, 3, 4])
        .int(1)
        .out(F, 4)
        .gives(&zero, &[1, 2, 3, 4]);
}

#[test]
fn fractions_are_not_stored_as_whole_numbers() {
    Op::new("aten::add.out")
        .tensor(&[1f32], &[1])
        .tensor(&[1f32], &[1])
        .int(1)
        .out(L, 1)
        .fails("kernel.invalid-argument");
}

#[test]
fn remainder_follows_the_divisor_and_fmod_the_dividend() {
    let (a, b) = ([-7i64, 7, -7, 7], [3i64, -3, -3, 3]);
    let op = |name: &str| Op::new(name).tensor(&a, &[4]).tensor(&b, &[4]).out(L, 1);
    op("aten::remainder.Tensor_out").gives(&[2i64, -2, -1, 1], &[4]);
    op("aten::fmod.Tensor_out").gives(&[-1i64, 1, -1, 1], &[4]);
    op("aten::floor_divide.out").gives(&[-3i64, -3, 2, 2], &[4]);
}

#[test]
fn whole_division_by_zero_is_an_error_and_overflow_wraps() {
    let op = |b: i64| {
        Op::new("aten::div.out_mode")
            .tensor(&[i64::MIN], &[1])
            .tensor(&[b], &[1])
            .text("trunc")
            .out(L, 1)
    };
    op(0).fails("kernel.invalid-argument");
    op(-1).gives(&[i64::MIN], &[1]);
}

#[test]
fn division_of_whole_numbers_has_fractions() {
    Op::new("aten::div.out")
        .tensor(&[7i64, 1], &[2])
        .tensor(&[2i64, 0], &[2])
        .out(F, 1)
        .gives(&[3.5f32, f32::INFINITY], &[2]);
}

#[test]
fn maximum_keeps_what_is_no_number() {
    let done = Op::new("aten::maximum.out")
        .tensor(&[f32::NAN, 1., 5.], &[3])
        .tensor(&[1., f32::NAN, 2.], &[3])
        .out(F, 1)
        .run()
        .unwrap();
    let found = done.elements::<f32>(0);
    assert!(found[0].is_nan() && found[1].is_nan() && found[2] == 5.0);
}

#[test]
fn comparisons_give_truth_values() {
    Op::new("aten::le.Scalar_out")
        .tensor(&[1f32, 2., f32::NAN], &[3])
        .double(1.5)
        .out(B, 1)
        .gives(&[true, false, false].map(Bool8::from), &[3]);
    Op::new("aten::eq.Scalar_out")
        .tensor(&[i64::MAX, i64::MAX - 1], &[2])
        .int(i64::MAX)
        .out(B, 1)
        .gives(&[true, false].map(Bool8::from), &[2]);
}

#[test]
fn where_broadcasts_its_condition() {
    Op::new("aten::where.self_out")
        .tensor(&[true, false].map(Bool8::from), &[2, 1])
        .tensor(&[1f32, 2.], &[2])
        .tensor(&[0f32], &[])
        .out(F, 2)
        .gives(&[1f32, 2., 0., 0.], &[2, 2]);
}

#[test]
fn relu_and_neg_mind_zeros_and_what_is_no_number() {
    let done = Op::new("aten::relu.out")
        .tensor(&[-1f32, 0., 2., f32::NAN], &[4])
        .out(F, 1)
        .run()
        .unwrap();
    let found = done.elements::<f32>(0);
    assert_eq!(found[..3], [0.0, 0.0, 2.0]);
    assert!(found[3].is_nan());
    let done = Op::new("aten::neg.out")
        .tensor(&[0f32], &[1])
        .out(F, 1)
        .run()
        .unwrap();
    assert!(done.elements::<f32>(0)[0].is_sign_negative());
}

#[test]
fn sigmoid_of_whole_numbers_is_a_fraction() {
    Op::new("aten::sigmoid.out")
        .tensor(&[0i32, 100, -100], &[3])
        .out(F, 1)
        .gives_about(&[0.5, 1.0, 0.0], &[3], 1e-6);
}

#[test]
fn exp_reaches_both_ends() {
    let x = [
        0f32,
        1.,
        -1.,
        88.0,
        -87.0,
        -100.0,
        200.0,
        -200.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        0.3,
    ];
    let expected: Vec<f32> = x.iter().map(|x| f64::from(*x).exp() as f32).collect();
    Op::new("aten::exp.out")
        .tensor(&x, &[12])
        .out(F, 1)
        .gives_about(&expected, &[12], 3e-7);
}

#[test]
fn tanh_is_close_everywhere() {
    let x: Vec<f32> = (-400..=400).map(|i| i as f32 * 0.03125).collect();
    let expected: Vec<f32> = x.iter().map(|x| f64::from(*x).tanh() as f32).collect();
    Op::new("aten::tanh.out")
        .tensor(&x, &[801])
        .out(F, 1)
        .gives_about(&expected, &[801], 4e-7);
}

#[test]
fn shapes_that_do_not_broadcast_are_refused() {
    Op::new("aten::add.out")
        .tensor(&[1f32, 2.], &[2])
        .tensor(&[1f32, 2., 3.], &[3])
        .int(1)
        .out(F, 1)
        .fails("kernel.invalid-argument");
}

#[test]
fn empty_operands_give_empty_results() {
    Op::new("aten::add.out")
        .tensor::<f32>(&[], &[0, 3])
        .tensor(&[1f32], &[])
        .int(1)
        .out(F, 2)
        .gives::<f32>(&[], &[0, 3]);
}

#[test]
fn erf_is_close_everywhere() {
    let x: Vec<f32> = (-600..=600).map(|i| i as f32 * 0.01).collect();
    let expected: Vec<f32> = x.iter().map(|x| libm::erf(f64::from(*x)) as f32).collect();
    Op::new("aten::erf.out")
        .tensor(&x, &[1201])
        .out(F, 1)
        .gives_about(&expected, &[1201], 2e-7);
    let ends = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];
    let done = Op::new("aten::erf.out")
        .tensor(&ends, &[4])
        .out(F, 1)
        .run()
        .unwrap();
    let found = done.elements::<f32>(0);
    assert!(found[0].is_nan() && found[1..] == [1.0, -1.0, -0.0]);
}
