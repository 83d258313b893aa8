//! Softmax and normalisations.

use et_kernel::ScalarType;
use half::f16;

use crate::testing::Op;

const F: ScalarType = ScalarType::Float;

fn softmax(name: &str, x: &[f32], sizes: &[usize], dim: i64) -> Op {
    Op::new(name)
        .tensor(x, sizes)
        .int(dim)
        .boolean(false)
        .out(F, sizes.len())
}

#[test]
fn softmax_adds_up_to_one_along_its_dimension() {
    let e: f32 = 1f32.exp();
    let (low, high) = (1.0 / (1.0 + e), e / (1.0 + e));
    softmax("aten::_softmax.out", &[0., 1., 0., 1.], &[2, 2], 1).gives_about(
        &[low, high, low, high],
        &[2, 2],
        1e-6,
    );
    softmax("aten::_softmax.out", &[0., 0., 1., 1.], &[2, 2], 0).gives_about(
        &[low, low, high, high],
        &[2, 2],
        1e-6,
    );
    softmax("aten::_log_softmax.out", &[1000., 1001.], &[2], 0).gives_about(
        &[low.ln(), high.ln()],
        &[2],
        1e-6,
    );
    softmax("aten::_softmax.out", &[5.], &[], 0).gives(&[1f32], &[]);
    softmax("aten::_softmax.out", &[f32::NEG_INFINITY, 0.], &[2], 0).gives(&[0f32, 1.], &[2]);
    softmax("aten::_softmax.out", &[], &[0, 3], 1).gives::<f32>(&[], &[0, 3]);
    softmax("aten::_softmax.out", &[], &[3, 0], 1).gives::<f32>(&[], &[3, 0]);
}

#[test]
fn softmax_of_lines_beside_each_other() {
    for sizes in [[2, 30, 66], [1, 150, 20], [3, 2, 1], [2, 5, 4]] {
        let [outer, len, inner] = sizes;
        let x: Vec<f32> = (0..outer * len * inner)
            .map(|i| (i * 37 % 101) as f32 / 25.0 - 2.0)
            .collect();
        let mut expected = vec![0f64; x.len()];
        for line in 0..outer * inner {
            let at = |i: usize| line / inner * len * inner + i * inner + line % inner;
            let total: f64 = (0..len).map(|i| f64::from(x[at(i)]).exp()).sum();
            for i in 0..len {
                expected[at(i)] = f64::from(x[at(i)]).exp() / total;
            }
        }
        let found: Vec<f32> = expected.iter().map(|&x| x as f32).collect();
        let logs: Vec<f32> = expected.iter().map(|&x| x.ln() as f32).collect();
        softmax("aten::_softmax.out", &x, &sizes, 1).gives_about(&found, &sizes, 1e-6);
        softmax("aten::_log_softmax.out", &x, &sizes, 1).gives_about(&logs, &sizes, 1e-6);
    }
}

#[test]
fn softmax_of_halves() {
    let x = [0.0f32, 0.0].map(f16::from_f32);
    Op::new("aten::_softmax.out")
        .tensor(&x, &[2])
        .int(0)
        .boolean(false)
        .out(ScalarType::Half, 1)
        .gives(&[0.5f32, 0.5].map(f16::from_f32), &[2]);
}

#[test]
fn layer_norm_centres_and_scales_each_row() {
    let op = |shape: &[i64]| {
        Op::new("aten::native_layer_norm.out")
            .tensor(&[1f32, 3., -2., 2.], &[2, 2])
            .ints(shape)
            .tensor(&[1f32, 2.], &[2])
            .tensor(&[0f32, 1.], &[2])
            .double(0.0)
            .out(F, 2)
            .out(F, 2)
            .out(F, 2)
    };
    let done = op(&[2]).run().unwrap();
    assert_eq!(done.elements::<f32>(0), [-1., 3., -1., 3.]);
    assert_eq!(
        (done.elements::<f32>(1), done.sizes(1)),
        (vec![2., 0.], &[2, 1][..])
    );
    assert_eq!(done.elements::<f32>(2), [1., 0.5]);
    op(&[3]).fails("kernel.invalid-argument");
    op(&[2, 2, 2]).fails("kernel.invalid-argument");
}

#[test]
fn group_norm_scales_by_channel() {
    let op = |groups| {
        Op::new("aten::native_group_norm.out")
            .tensor(&[1f32, 3., -2., 2.], &[1, 2, 2])
            .tensor(&[1f32, 2.], &[2])
            .none()
            .int(1)
            .int(2)
            .int(2)
            .int(groups)
            .double(0.0)
            .out(F, 3)
            .out(F, 2)
            .out(F, 2)
    };
    let done = op(2).run().unwrap();
    assert_eq!(done.elements::<f32>(0), [-1., 1., -2., 2.]);
    assert_eq!(done.sizes(1), [1, 2]);
    op(0).fails("kernel.invalid-argument");
    op(3).fails("kernel.invalid-argument");
}

#[test]
fn batch_norm_in_both_layouts() {
    let x = [1f32, 2., 3., 4.];
    let expected = [0.0, 1.0, 2.0, 2.5];
    let rest = |op: Op, order: &[u8]| {
        op.tensor(&[1f32, 0.5], &[2])
            .tensor(&[0f32, 2.], &[2])
            .tensor(&[1f32, 3.], &[2])
            .tensor(&[1f32, 1.], &[2])
            .double(0.1)
            .double(0.0)
            .out_ordered(F, order)
            .out(F, 1)
            .out(F, 1)
    };
    let name = "aten::_native_batch_norm_legit_no_training.out";
    let plain = rest(Op::new(name).tensor(&x, &[1, 2, 1, 2]), &[0, 1, 2, 3])
        .run()
        .unwrap();
    assert_eq!(plain.elements::<f32>(0), expected);
    assert_eq!(plain.sizes(1), [0]);
    let last = [0, 2, 3, 1];
    let last = rest(Op::new(name).ordered(&x, &[1, 2, 1, 2], &last), &last)
        .run()
        .unwrap();
    assert_eq!(last.elements::<f32>(0), expected);
}

#[test]
fn an_input_that_is_given_the_shape_of_an_output_is_refused() {
    // The averages have fewer elements than the input, which is where they shall go.
    Op::new("aten::native_layer_norm.out")
        .out_of(F, &[0, 1], 8)
        .ints(&[8, 1])
        .none()
        .none()
        .double(1e-5)
        .out(F, 2)
        .again(0)
        .out(F, 2)
        .fails("kernel.invalid-argument");
    Op::new("aten::native_group_norm.out")
        .out_of(F, &[0, 1], 8)
        .none()
        .none()
        .int(2)
        .int(4)
        .int(1)
        .int(1)
        .double(1e-5)
        .out(F, 2)
        .again(0)
        .out(F, 2)
        .fails("kernel.invalid-argument");
}
