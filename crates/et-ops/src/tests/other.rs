//! Pooling, resizing, sorting, creation, copies, quantisation.

use et_kernel::{Bool8, ScalarType};

use crate::testing::Op;

const F: ScalarType = ScalarType::Float;
const L: ScalarType = ScalarType::Long;

fn count(n: usize) -> Vec<f32> {
    (0..n).map(|x| x as f32).collect()
}

#[test]
fn max_pool_gives_values_and_places() {
    let op = |padding: &[i64], ceil| {
        Op::new("aten::max_pool2d_with_indices.out")
            .tensor(&count(9), &[1, 1, 3, 3])
            .ints(&[2, 2])
            .ints(&[2])
            .ints(padding)
            .ints(&[1, 1])
            .boolean(ceil)
            .out(F, 4)
            .out(L, 4)
    };
    let done = op(&[0, 0], false).run().unwrap();
    assert_eq!(
        (done.elements::<f32>(0), done.elements::<i64>(1)),
        (vec![4.0], vec![4])
    );
    let done = op(&[0, 0], true).run().unwrap();
    assert_eq!(done.elements::<f32>(0), [4.0, 5.0, 7.0, 8.0]);
    let done = op(&[1, 1], false).run().unwrap();
    assert_eq!(done.elements::<f32>(0), [0.0, 2.0, 6.0, 8.0]);
    op(&[2, 2], false).fails("kernel.invalid-argument");
}

#[test]
fn average_pool_counts_padding_or_not() {
    let op = |include, divisor: Option<i64>| {
        let op = Op::new("aten::avg_pool2d.out")
            .tensor(&[4f32; 4], &[1, 2, 2])
            .ints(&[2, 2])
            .ints(&[2, 2])
            .ints(&[1, 1])
            .boolean(false)
            .boolean(include);
        divisor
            .map_or_else(|| op_none(include), |divisor| op.int(divisor))
            .out(F, 3)
    };
    fn op_none(include: bool) -> Op {
        Op::new("aten::avg_pool2d.out")
            .tensor(&[4f32; 4], &[1, 2, 2])
            .ints(&[2, 2])
            .ints(&[2, 2])
            .ints(&[1, 1])
            .boolean(false)
            .boolean(include)
            .none()
    }
    op(true, None).gives(&[1f32; 4], &[1, 2, 2]);
    op(false, None).gives(&[4f32; 4], &[1, 2, 2]);
    op(false, Some(2)).gives(&[2f32; 4], &[1, 2, 2]);
    op(false, Some(0)).fails("kernel.invalid-argument");
}

#[test]
fn adaptive_windows_share_the_input() {
    Op::new("aten::_adaptive_avg_pool2d.out")
        .tensor(&count(5), &[1, 1, 1, 5])
        .ints(&[1, 2])
        .out(F, 4)
        .gives(&[1f32, 3.], &[1, 1, 1, 2]);
}

#[test]
fn images_are_resized() {
    Op::new("aten::upsample_nearest2d.vec_out")
        .tensor(&[1f32, 2.], &[1, 1, 1, 2])
        .none()
        .value(et_kernel::EValue::DoubleList([2.0, 2.0].into()))
        .out(F, 4)
        .gives(&[1f32, 1., 2., 2., 1., 1., 2., 2.], &[1, 1, 2, 4]);
    let bilinear = |corners| {
        Op::new("aten::upsample_bilinear2d.vec_out")
            .tensor(&[0f32, 3.], &[1, 1, 1, 2])
            .ints(&[1, 4])
            .boolean(corners)
            .none()
            .out(F, 4)
    };
    bilinear(true).gives_about(&[0., 1., 2., 3.], &[1, 1, 1, 4], 1e-6);
    bilinear(false).gives_about(&[0., 0.75, 2.25, 3.], &[1, 1, 1, 4], 1e-6);
}

#[test]
fn the_largest_few_and_running_sums() {
    let top = |k| {
        Op::new("aten::topk.values")
            .tensor(&[3f32, 9., f32::NAN, 9., 1., 2.], &[2, 3])
            .int(k)
            .int(1)
            .boolean(true)
            .boolean(true)
            .out(F, 2)
            .out(L, 2)
    };
    let done = top(2).run().unwrap();
    assert_eq!(done.elements::<i64>(1), [2, 1, 0, 2]);
    assert_eq!(done.elements::<f32>(0)[1..], [9.0, 9.0, 2.0]);
    top(4).fails("kernel.invalid-argument");
    top(-1).fails("kernel.invalid-argument");
    let done = Op::new("aten::sort.values")
        .tensor(&[2i64, 1, 2, 0], &[4])
        .int(0)
        .boolean(false)
        .out(L, 1)
        .out(L, 1)
        .run()
        .unwrap();
    assert_eq!(
        (done.elements::<i64>(0), done.elements::<i64>(1)),
        (vec![0, 1, 2, 2], vec![3, 1, 0, 2])
    );
    Op::new("aten::cumsum.out")
        .tensor(&count(6), &[2, 3])
        .int(0)
        .none()
        .out(F, 2)
        .gives(&[0f32, 1., 2., 3., 5., 7.], &[2, 3]);
}

#[test]
fn tensors_from_numbers() {
    Op::new("aten::full.out")
        .ints(&[2, 1])
        .double(1.5)
        .out(F, 2)
        .gives(&[1.5f32, 1.5], &[2, 1]);
    Op::new("aten::full.out")
        .ints(&[-1])
        .double(1.5)
        .out(F, 1)
        .fails("kernel.invalid-argument");
    Op::new("aten::full.out")
        .ints(&[i64::MAX, i64::MAX])
        .int(1)
        .out(F, 2)
        .fails("kernel.invalid-argument");
    Op::new("aten::scalar_tensor.out")
        .int(3)
        .out(L, 0)
        .gives(&[3i64], &[]);
    let arange = |start, end, step| {
        Op::new("aten::arange.start_out")
            .int(start)
            .int(end)
            .int(step)
            .out(L, 1)
    };
    arange(1, 6, 2).gives(&[1i64, 3, 5], &[3]);
    arange(3, 0, -1).gives(&[3i64, 2, 1], &[3]);
    arange(2, 2, 1).gives::<i64>(&[], &[0]);
    arange(0, 3, 0).fails("kernel.invalid-argument");
    arange(0, 3, -1).fails("kernel.invalid-argument");
    arange(i64::MIN, i64::MAX, 1).fails("kernel.shape");
    Op::new("aten::arange.start_out")
        .double(0.0)
        .double(1.0)
        .double(0.25)
        .out(F, 1)
        .gives(&[0f32, 0.25, 0.5, 0.75], &[4]);
}

#[test]
fn copies_convert_and_reorder() {
    Op::new("dim_order_ops::_to_dim_order_copy.out")
        .tensor(&count(8), &[1, 2, 2, 2])
        .boolean(false)
        .ints(&[0, 2, 3, 1])
        .out_ordered(F, &[0, 2, 3, 1])
        .gives(&count(8), &[1, 2, 2, 2]);
    Op::new("aten::_to_copy.out")
        .tensor(&[1.9f32, -1.9, 0., f32::NAN], &[4])
        .boolean(false)
        .none()
        .out(ScalarType::Bool, 1)
        .gives(&[true, true, false, true].map(Bool8::from), &[4]);
    Op::new("aten::_to_copy.out")
        .tensor(&[1.9f32, -1.9, 300.], &[3])
        .boolean(false)
        .none()
        .out(ScalarType::Byte, 1)
        .gives(&[1u8, 255, 44], &[3]);
    Op::new("aten::copy_")
        .tensor(&count(4), &[2, 2])
        .output(0)
        .tensor(&[7i64, 8], &[2])
        .boolean(false)
        .again(0)
        .gives(&[7f32, 8., 7., 8.], &[2, 2]);
}

#[test]
fn quantisation_and_back() {
    let quantise = |low| {
        Op::new("quantized_decomposed::quantize_per_tensor.out")
            .tensor(&[0f32, 0.26, -0.25, 1e9, f32::NAN], &[5])
            .double(0.1)
            .int(1)
            .int(low)
            .int(127)
            .int(1)
            .out(ScalarType::Char, 1)
    };
    let done = quantise(-128).run().unwrap();
    assert_eq!(done.elements::<i8>(0)[..4], [1, 4, -1, 127]);
    quantise(128).fails("kernel.invalid-argument");
    Op::new("quantized_decomposed::dequantize_per_channel.out")
        .tensor(&[1i8, 2, 3, 4], &[2, 2])
        .tensor(&[1f32, 0.5], &[2])
        .tensor(&[0i64, 1], &[2])
        .int(0)
        .int(-128)
        .int(127)
        .int(1)
        .none()
        .out(F, 2)
        .gives(&[1f32, 2., 1., 1.5], &[2, 2]);
    let done = Op::new("quantized_decomposed::choose_qparams_per_token_asymmetric.out")
        .tensor(&[0f32, 2.55, -1.0, 1.55], &[2, 2])
        .int(1)
        .out(ScalarType::Double, 2)
        .out(L, 2)
        .run()
        .unwrap();
    let scales = done.elements::<f64>(0);
    assert!((scales[0] - 0.01).abs() < 1e-6 && (scales[1] - 0.01).abs() < 1e-6);
    assert_eq!(done.elements::<i64>(1), [-128, -28]);
}

#[test]
fn rolls_and_paddings_by_the_input() {
    let roll = |shifts: &[i64], dims: &[i64]| {
        Op::new("aten::roll.out")
            .tensor(&count(6), &[2, 3])
            .ints(shifts)
            .ints(dims)
            .out(F, 2)
    };
    roll(&[1], &[1]).gives(&[2f32, 0., 1., 5., 3., 4.], &[2, 3]);
    roll(&[-1, 4], &[0, -1]).gives(&[5f32, 3., 4., 2., 0., 1.], &[2, 3]);
    roll(&[i64::MIN], &[1]).gives(&[2f32, 0., 1., 5., 3., 4.], &[2, 3]);
    roll(&[1], &[]).fails("kernel.invalid-argument");
    let pad = |name: &str, pads: &[i64]| {
        Op::new(name)
            .tensor(&count(3), &[1, 3])
            .ints(pads)
            .out(F, 2)
    };
    pad("aten::reflection_pad1d.out", &[2, 1]).gives(&[2f32, 1., 0., 1., 2., 1.], &[1, 6]);
    pad("aten::replication_pad1d.out", &[2, 1]).gives(&[0f32, 0., 0., 1., 2., 2.], &[1, 6]);
    pad("aten::reflection_pad1d.out", &[3, 0]).fails("kernel.invalid-argument");
    pad("aten::replication_pad1d.out", &[-1, 0]).gives(&[1f32, 2.], &[1, 2]);
    pad("aten::replication_pad1d.out", &[1 << 40, 0]).fails("kernel.shape");
}

#[test]
fn triangles_masks_gates() {
    let triangle = |name: &str, diagonal| {
        Op::new(name)
            .tensor(&[1f32; 6], &[2, 3])
            .int(diagonal)
            .out(F, 2)
    };
    triangle("aten::tril.out", 0).gives(&[1f32, 0., 0., 1., 1., 0.], &[2, 3]);
    triangle("aten::triu.out", 1).gives(&[0f32, 1., 1., 0., 0., 1.], &[2, 3]);
    triangle("aten::tril.out", i64::MAX).gives(&[1f32; 6], &[2, 3]);
    triangle("aten::triu.out", i64::MIN).gives(&[1f32; 6], &[2, 3]);
    let mask = [true, false].map(Bool8::from);
    Op::new("aten::masked_select.out")
        .tensor(&count(4), &[2, 2])
        .tensor(&mask, &[2])
        .out(F, 1)
        .gives(&[0f32, 2.], &[2]);
    let scatter = |source: &[f32]| {
        Op::new("aten::masked_scatter.out")
            .tensor(&count(4), &[2, 2])
            .tensor(&mask, &[2])
            .tensor(source, &[source.len()])
            .out(F, 2)
    };
    scatter(&[8., 9.]).gives(&[8f32, 1., 9., 3.], &[2, 2]);
    scatter(&[8.]).fails("kernel.invalid-argument");
    Op::new("aten::glu.out")
        .tensor(&[2f32, 4., 0., 1e9], &[1, 4])
        .int(1)
        .out(F, 2)
        .gives_about(&[1., 4.], &[1, 2], 1e-6);
    // In place the input would shrink while it is read.
    Op::new("aten::glu.out")
        .out(F, 2)
        .int(0)
        .again(0)
        .fails("kernel.invalid-argument");
    Op::new("aten::repeat_interleave.Tensor_out")
        .tensor(&[2i64, 0, 1], &[3])
        .none()
        .out(L, 1)
        .gives(&[0i64, 0, 2], &[3]);
}

#[test]
fn norm_by_the_inputs_own_statistics() {
    let done = Op::new("aten::_native_batch_norm_legit.no_stats_out")
        .tensor(&[1f32, 3., -2., 2.], &[1, 2, 2])
        .none()
        .none()
        .boolean(true)
        .double(0.1)
        .double(0.0)
        .out(F, 3)
        .out(F, 1)
        .out(F, 1)
        .run()
        .unwrap();
    assert_eq!(done.elements::<f32>(0), [-1., 1., -1., 1.]);
    assert_eq!(
        (done.elements::<f32>(1), done.elements::<f32>(2)),
        (vec![2., 0.], vec![1., 0.5])
    );
}

/// Of a window that is as large as its padding allows only the taps over the input count.
#[test]
fn huge_windows_take_no_time() {
    let (kernel, padding) = (1 << 40, 1 << 39);
    let done = Op::new("aten::max_pool2d_with_indices.out")
        .tensor(&count(9), &[1, 1, 3, 3])
        .ints(&[kernel])
        .ints(&[1])
        .ints(&[padding])
        .ints(&[1])
        .boolean(false)
        .out(F, 4)
        .out(L, 4)
        .run()
        .unwrap();
    assert_eq!(done.sizes(0), [1, 1, 4, 4]);
    assert_eq!(done.elements::<f32>(0), [8.0; 16]);
}

#[test]
fn adaptive_pools_of_no_pixels_are_refused() {
    Op::new("aten::_adaptive_avg_pool2d.out")
        .tensor::<f32>(&[], &[1, 1 << 40, 0])
        .ints(&[2, 2])
        .out(F, 3)
        .fails("kernel.invalid-argument");
}
