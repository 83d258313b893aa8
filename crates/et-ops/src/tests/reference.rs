//! Families of operators against plain code in `f64`, over shapes, broadcasts, dimension orders.

use et_kernel::{ScalarType, Tensor, TensorMeta};
use proptest::prelude::*;

use crate::testing::{Op, assert_close, ordered, positions};

const F: ScalarType = ScalarType::Float;

/// A shape of few elements and an order of its dimensions.
fn shapes() -> impl Strategy<Value = (Vec<usize>, Vec<u8>)> {
    prop::collection::vec(0usize..5, 0..5).prop_flat_map(|sizes| {
        let order: Vec<u8> = (0..sizes.len() as u8).collect();
        (Just(sizes), Just(order).prop_shuffle())
    })
}

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 11 + seed * 17) % 37) as f32 * 0.5 - 9.0)
        .collect()
}

/// The index of element `flat` of a shape.
fn index(mut flat: usize, sizes: &[usize]) -> Vec<usize> {
    let mut index = vec![0; sizes.len()];
    for d in (0..sizes.len()).rev() {
        index[d] = flat % sizes[d];
        flat /= sizes[d];
    }
    index
}

/// The place of an index in a smaller shape that is broadcast to that of the index.
fn place(index: &[usize], sizes: &[usize]) -> usize {
    let index = &index[index.len() - sizes.len()..];
    index.iter().zip(sizes).fold(0, |at, (i, size)| {
        at * size + if *size == 1 { 0 } else { *i }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn binary_operators_broadcast(
        (sizes, order) in shapes(), hide in any::<u8>(), drop in 0usize..3, out_order in any::<u64>(),
    ) {
        // The second operand has ones for some dimensions, and misses some in front.
        let other: Vec<usize> = sizes.iter().enumerate()
            .map(|(d, &size)| if hide >> d & 1 == 1 { 1 } else { size })
            .skip(drop)
            .collect();
        let numel = sizes.iter().product();
        let (a, b) = (numbers(numel, 1), numbers(other.iter().product(), 2));
        let expected: Vec<f32> = (0..numel)
            .map(|i| a[i] - 2.0 * b[place(&index(i, &sizes), &other)])
            .collect();
        let mut turned = order.clone();
        turned.rotate_left(out_order as usize % order.len().max(1));
        Op::new("aten::sub.out")
            .ordered(&a, &sizes, &order)
            .tensor(&b, &other)
            .int(2)
            .out_ordered(F, &turned)
            .gives(&expected, &sizes);
    }

    #[test]
    fn reductions_follow_their_definition((sizes, order) in shapes(), chosen in any::<u8>(), keep: bool) {
        let dims: Vec<i64> = (0..sizes.len()).filter(|d| chosen >> d & 1 == 1).map(|d| d as i64).collect();
        let reduced = |d: usize| dims.is_empty() || dims.contains(&(d as i64));
        let numel: usize = sizes.iter().product();
        let x = numbers(numel, 3);
        let kept: Vec<usize> = (0..sizes.len()).map(|d| if reduced(d) { 1 } else { sizes[d] }).collect();
        let mut sums = vec![0f64; kept.iter().product()];
        let mut most = vec![f32::NEG_INFINITY; sums.len()];
        for (i, x) in x.iter().enumerate() {
            let at = place(&index(i, &sizes), &kept);
            sums[at] += f64::from(*x);
            most[at] = most[at].max(*x);
        }
        let out: Vec<usize> = (0..sizes.len()).filter(|&d| keep || !reduced(d)).map(|d| kept[d]).collect();
        let sums: Vec<f32> = sums.into_iter().map(|x| x as f32).collect();
        Op::new("aten::sum.IntList_out")
            .ordered(&x, &sizes, &order)
            .ints(&dims)
            .boolean(keep)
            .none()
            .out(F, out.len())
            .gives_about(&sums, &out, 1e-5);
        if numel > 0 {
            Op::new("aten::amax.out")
                .ordered(&x, &sizes, &order)
                .ints(&dims)
                .boolean(keep)
                .out(F, out.len())
                .gives(&most, &out);
        }
    }

    #[test]
    fn permutations_move_every_element((sizes, order) in shapes(), turn in any::<u64>()) {
        let x = numbers(sizes.iter().product(), 4);
        let mut dims: Vec<i64> = (0..sizes.len() as i64).collect();
        if !dims.is_empty() {
            let rank = dims.len();
            dims.rotate_left(turn as usize % rank);
            dims.swap(0, (turn >> 8) as usize % rank);
        }
        let out: Vec<usize> = dims.iter().map(|&d| sizes[d as usize]).collect();
        let expected: Vec<f32> = (0..x.len())
            .map(|i| {
                let to = index(i, &out);
                let mut from = vec![0; sizes.len()];
                dims.iter().zip(to).for_each(|(&d, i)| from[d as usize] = i);
                x[place_full(&from, &sizes)]
            })
            .collect();
        Op::new("aten::permute_copy.out")
            .ordered(&x, &sizes, &order)
            .ints(&dims)
            .out(F, sizes.len())
            .gives(&expected, &out);
    }

    #[test]
    fn softmax_of_any_dimension((sizes, order) in shapes(), dim in 0usize..5) {
        prop_assume!(!sizes.is_empty());
        let dim = dim % sizes.len();
        let x = numbers(sizes.iter().product(), 5);
        let mut line = sizes.clone();
        line[dim] = 1;
        let mut totals = vec![0f64; line.iter().product()];
        let value = |i: usize| f64::from(x[i] * 0.1).exp();
        (0..x.len()).for_each(|i| totals[place(&index(i, &sizes), &line)] += value(i));
        let expected: Vec<f32> = (0..x.len())
            .map(|i| (value(i) / totals[place(&index(i, &sizes), &line)]) as f32)
            .collect();
        let tenth: Vec<f32> = x.iter().map(|x| x * 0.1).collect();
        Op::new("aten::_softmax.out")
            .ordered(&tenth, &sizes, &order)
            .int(dim as i64)
            .boolean(false)
            .out(F, sizes.len())
            .gives_about(&expected, &sizes, 1e-5);
    }

    #[test]
    fn products_of_matrices(
        [m, n, k] in [0usize..9, 0usize..9, 0usize..9], a_order: bool, b_order: bool, out_order: bool, batch in 0usize..3,
    ) {
        let turn = |turned: bool| -> &[u8] { if turned { &[0, 2, 1] } else { &[0, 1, 2] } };
        let (a, b) = (numbers(batch * m * k, 6), numbers(batch * k * n, 7));
        let expected: Vec<f32> = (0..batch * m * n)
            .map(|i| {
                let [z, row, column] = [i / n / m, i / n % m, i % n];
                (0..k).map(|l| f64::from(a[(z * m + row) * k + l]) * f64::from(b[(z * k + l) * n + column])).sum::<f64>() as f32
            })
            .collect();
        Op::new("aten::bmm.out")
            .ordered(&a, &[batch, m, k], turn(a_order))
            .ordered(&b, &[batch, k, n], turn(b_order))
            .out_ordered(F, turn(out_order))
            .gives_about(&expected, &[batch, m, n], 1e-5);
    }

    #[test]
    fn slices_take_every_step((sizes, order) in shapes(), dim in 0usize..5, start in -6i64..6, end in -6i64..8, step in 1i64..4) {
        prop_assume!(!sizes.is_empty());
        let dim = dim % sizes.len();
        let size = sizes[dim] as i64;
        let inside = |bound: i64| (if bound < 0 { bound + size } else { bound }).clamp(0, size);
        let taken: Vec<usize> = (inside(start)..inside(end)).step_by(step as usize).map(|i| i as usize).collect();
        let x = numbers(sizes.iter().product(), 8);
        let mut out = sizes.clone();
        out[dim] = taken.len();
        let expected: Vec<f32> = (0..out.iter().product())
            .map(|i| {
                let mut from = index(i, &out);
                from[dim] = taken[from[dim]];
                x[place_full(&from, &sizes)]
            })
            .collect();
        Op::new("aten::slice_copy.Tensor_out")
            .ordered(&x, &sizes, &order)
            .int(dim as i64)
            .int(start)
            .int(end)
            .int(step)
            .out(F, sizes.len())
            .gives(&expected, &out);
    }

    #[test]
    fn unary_operators_in_every_float_type(x in prop::collection::vec(-20f32..20.0, 0..700)) {
        let expected: Vec<f32> = x.iter().map(|x| (1.0 / (1.0 + (-f64::from(*x)).exp())) as f32).collect();
        let doubles: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let halves: Vec<half::f16> = x.iter().map(|x| half::f16::from_f32(*x)).collect();
        Op::new("aten::sigmoid.out").tensor(&x, &[x.len()]).out(F, 1).gives_about(&expected, &[x.len()], 1e-6);
        Op::new("aten::sigmoid.out").tensor(&doubles, &[x.len()]).out(F, 1).gives_about(&expected, &[x.len()], 1e-6);
        let done = Op::new("aten::sigmoid.out").tensor(&halves, &[x.len()]).out(ScalarType::Half, 1).run().unwrap();
        let found: Vec<f32> = done.elements::<half::f16>(0).into_iter().map(f32::from).collect();
        assert_close(&found, &expected, 5e-3);
    }
}

fn place_full(index: &[usize], sizes: &[usize]) -> usize {
    index
        .iter()
        .zip(sizes)
        .fold(0, |at, (i, size)| at * size + i)
}

#[test]
fn the_harness_lays_elements_out_by_order() {
    let tensor: Tensor = ordered(&[1f32, 2., 3., 4., 5., 6.], &[2, 3], &[1, 0]);
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [1., 4., 2., 5., 3., 6.]);
    let meta = TensorMeta::new(F, &[2, 3], &[1, 0]).unwrap();
    assert_eq!(positions(&meta), [0, 2, 4, 1, 3, 5]);
}
