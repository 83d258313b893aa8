//! Matrix products.

use et_kernel::ScalarType;
use half::f16;

use crate::testing::Op;

const F: ScalarType = ScalarType::Float;

#[test]
fn mm_multiplies() {
    Op::new("aten::mm.out")
        .tensor(&[1f32, 2., 3., 4., 5., 6.], &[2, 3])
        .tensor(&[1f32, 0., 0., 1., 1., 1.], &[3, 2])
        .out(F, 2)
        .gives(&[4f32, 5., 10., 11.], &[2, 2]);
}

#[test]
fn mm_of_whole_numbers_and_of_halves() {
    Op::new("aten::mm.out")
        .tensor(&[1i64, 2], &[1, 2])
        .tensor(&[3i64, i64::MAX], &[2, 1])
        .out(ScalarType::Long, 2)
        .gives(&[1i64], &[1, 1]);
    Op::new("aten::mm.out")
        .tensor(&[1f32, 2.].map(f16::from_f32), &[1, 2])
        .tensor(&[3f32, 0.5].map(f16::from_f32), &[2, 1])
        .out(ScalarType::Half, 2)
        .gives(&[f16::from_f32(4.0)], &[1, 1]);
}

#[test]
fn addmm_scales_and_broadcasts_its_bias() {
    let op = |beta: f64, bias: f32| {
        Op::new("aten::addmm.out")
            .tensor(&[bias, 1.], &[2])
            .tensor(&[1f32, 2.], &[2, 1])
            .tensor(&[3f32, 4.], &[1, 2])
            .double(beta)
            .double(2.0)
            .out(F, 2)
    };
    op(10.0, 0.0).gives(&[6f32, 18., 12., 26.], &[2, 2]);
    // A factor of 0 hides whatever the bias is.
    op(0.0, f32::NAN).gives(&[6f32, 8., 12., 16.], &[2, 2]);
}

#[test]
fn a_sum_over_nothing_is_zero() {
    Op::new("aten::mm.out")
        .tensor::<f32>(&[], &[2, 0])
        .tensor::<f32>(&[], &[0, 2])
        .out(F, 2)
        .gives(&[0f32; 4], &[2, 2]);
    Op::new("aten::bmm.out")
        .tensor::<f32>(&[], &[2, 0, 3])
        .tensor(&[1f32; 18], &[2, 3, 3])
        .out(F, 3)
        .gives::<f32>(&[], &[2, 0, 3]);
}

#[test]
fn linear_takes_batches_and_transposes_its_weight() {
    Op::new("aten::linear.out")
        .tensor(&[1f32, 2., 3., 4.], &[2, 1, 2])
        .tensor(&[1f32, 1., 0., 1., 2., 0.], &[3, 2])
        .tensor(&[0f32, 0., 1.], &[3])
        .out(F, 3)
        .gives(&[3f32, 2., 3., 7., 4., 7.], &[2, 1, 3]);
}

#[test]
fn a_transposed_operand_is_read_by_its_strides() {
    Op::new("aten::mm.out")
        .ordered(&[1f32, 2., 3., 4., 5., 6.], &[2, 3], &[1, 0])
        .ordered(&[1f32, 0., 0., 1., 1., 1.], &[3, 2], &[1, 0])
        .out_ordered(F, &[1, 0])
        .gives(&[4f32, 5., 10., 11.], &[2, 2]);
}

#[test]
fn matrices_that_do_not_chain_are_refused() {
    Op::new("aten::mm.out")
        .tensor(&[1f32; 6], &[2, 3])
        .tensor(&[1f32; 6], &[2, 3])
        .out(F, 2)
        .fails("kernel.invalid-argument");
    Op::new("aten::bmm.out")
        .tensor(&[1f32; 4], &[1, 2, 2])
        .tensor(&[1f32; 8], &[2, 2, 2])
        .out(F, 3)
        .fails("kernel.invalid-argument");
}
