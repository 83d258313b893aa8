//! Softmax and normalisations.

use et_kernel::ScalarType;

use crate::array::{Array, indices, with};
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, check};
use crate::number::Number::{self, Float};

#[test]
fn softmax() {
    check(300, |choices| {
        let dtype = choices.pick(&FLOATS);
        let shape = choices.shape();
        let dim = choices.below(shape.len().max(1));
        let name = choices.named(dim, shape.len().max(1));
        let fill = choices.fill();
        let x = choices.array(dtype, &shape, fill);
        let log = choices.truth();
        let line = |i: &[usize]| -> Vec<f64> {
            match shape.get(dim) {
                Some(&len) => (0..len).map(|at| x.at(&with(i, dim, at)).float()).collect(),
                None => vec![x.at(i).float()],
            }
        };
        // Elements of minus infinity count for nothing, as masks want it; infinity makes a line no numbers.
        let expected = Array::new(dtype, &shape, |i| {
            let line = line(i);
            let most = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = line.iter().map(|x| (x - most).exp()).sum();
            let shifted = x.at(i).float() - most;
            Float(if log {
                shifted - total.ln()
            } else {
                shifted.exp() / total
            })
        });
        Call::new(if log {
            "aten::_log_softmax.out"
        } else {
            "aten::_softmax.out"
        })
        .tensor(&x)
        .int(name)
        .truth(false)
        .out(choices, dtype, shape.len())
        .gives(choices, &[&expected], 2.0);
    });
}

/// Mean and reciprocal deviation.
fn moments(xs: &[f64], eps: f64) -> (f64, f64) {
    let n = xs.len() as f64;
    let mean = xs.iter().sum::<f64>() / n;
    let variance = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    (mean, 1.0 / (variance + eps).sqrt())
}

/// A weight or bias of each of `sizes`, or none.
fn parameter(choices: &mut Choices, dtype: ScalarType, sizes: &[usize]) -> Option<Array> {
    choices
        .truth()
        .then(|| choices.array(dtype, sizes, Fill::Small))
}

fn scaled(x: f64, weight: Option<Number>, bias: Option<Number>) -> Number {
    Float(x * weight.map_or(1.0, Number::float) + bias.map_or(0.0, Number::float))
}

#[test]
fn layer_norm() {
    check(200, |choices| {
        let dtype = choices.pick(&FLOATS);
        let (shape, kept) = choices.shape_and_dim();
        let x = choices.array(dtype, &shape, Fill::Small);
        let normal = &shape[kept..];
        let [weight, bias] = [0; 2].map(|_| parameter(choices, dtype, normal));
        let eps = 0.01;
        let row = |i: &[usize]| -> Vec<f64> {
            let row = indices(normal).map(|inner| [&i[..kept], &inner[..]].concat());
            row.map(|index| x.at(&index).float()).collect()
        };
        let expected = Array::new(dtype, &shape, |i| {
            let (mean, rstd) = moments(&row(i), eps);
            let of = |array: &Option<Array>| array.as_ref().map(|array| array.at(&i[kept..]));
            scaled((x.at(i).float() - mean) * rstd, of(&weight), of(&bias))
        });
        let mut small = shape.clone();
        small[kept..].fill(1);
        let means = Array::new(dtype, &small, |i| Float(moments(&row(i), eps).0));
        let rstds = Array::new(dtype, &small, |i| Float(moments(&row(i), eps).1));
        Call::new("aten::native_layer_norm.out")
            .tensor(&x)
            .ints(normal)
            .optional(weight.as_ref())
            .optional(bias.as_ref())
            .double(eps)
            .out(choices, dtype, shape.len())
            .out(choices, dtype, shape.len())
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected, &means, &rstds], 30.0);
    });
}

#[test]
fn group_norm() {
    check(150, |choices| {
        let dtype = choices.pick(&FLOATS);
        let groups = choices.within(1, 3) as usize;
        let each = choices.within(1, 3) as usize;
        let extra = choices.below(3);
        let mut shape = choices.sizes(2 + extra);
        shape[1] = groups * each;
        let area: usize = shape[2..].iter().product();
        let x = choices.array(dtype, &shape, Fill::Small);
        let [weight, bias] = [0; 2].map(|_| parameter(choices, dtype, &shape[1..2]));
        let eps = 0.01;
        let group = |n: usize, group: usize| -> Vec<f64> {
            let all = indices(&shape).filter(|i| i[0] == n && i[1] / each == group);
            all.map(|i| x.at(&i).float()).collect()
        };
        let expected = Array::new(dtype, &shape, |i| {
            let (mean, rstd) = moments(&group(i[0], i[1] / each), eps);
            let of = |array: &Option<Array>| array.as_ref().map(|array| array.at(&i[1..2]));
            scaled((x.at(i).float() - mean) * rstd, of(&weight), of(&bias))
        });
        let small = [shape[0], groups];
        let means = Array::new(dtype, &small, |i| Float(moments(&group(i[0], i[1]), eps).0));
        let rstds = Array::new(dtype, &small, |i| Float(moments(&group(i[0], i[1]), eps).1));
        Call::new("aten::native_group_norm.out")
            .tensor(&x)
            .optional(weight.as_ref())
            .optional(bias.as_ref())
            .int(shape[0])
            .int(shape[1])
            .int(area)
            .int(groups)
            .double(eps)
            .out(choices, dtype, shape.len())
            .out(choices, dtype, 2)
            .out(choices, dtype, 2)
            .gives(choices, &[&expected, &means, &rstds], 30.0);
    });
}

#[test]
fn batch_norm() {
    check(150, |choices| {
        let dtype = choices.pick(&FLOATS);
        let extra = choices.below(4);
        let shape = choices.sizes(2 + extra);
        let x = choices.array(dtype, &shape, Fill::Small);
        let [weight, bias] = [0; 2].map(|_| parameter(choices, dtype, &shape[1..2]));
        let mean = choices.array(dtype, &shape[1..2], Fill::Small);
        let variance = choices.wholes(dtype, &shape[1..2], 1, 5);
        let eps = 0.01;
        let own = choices.truth();
        let of_channel = |channel: usize| -> (f64, f64) {
            if own {
                let all = indices(&shape).filter(|i| i[1] == channel);
                return moments(&all.map(|i| x.at(&i).float()).collect::<Vec<_>>(), eps);
            }
            let at = [channel];
            (
                mean.at(&at).float(),
                1.0 / (variance.at(&at).float() + eps).sqrt(),
            )
        };
        let expected = Array::new(dtype, &shape, |i| {
            let (mean, rstd) = of_channel(i[1]);
            let of = |array: &Option<Array>| array.as_ref().map(|array| array.at(&i[1..2]));
            scaled((x.at(i).float() - mean) * rstd, of(&weight), of(&bias))
        });
        let small = if own { &shape[1..2] } else { &[0] };
        let means = Array::new(dtype, small, |i| Float(of_channel(i[0]).0));
        let rstds = Array::new(dtype, small, |i| Float(of_channel(i[0]).1));
        let call = match own {
            true => Call::new("aten::_native_batch_norm_legit.no_stats_out")
                .tensor(&x)
                .optional(weight.as_ref())
                .optional(bias.as_ref())
                .truth(true),
            false => Call::new("aten::_native_batch_norm_legit_no_training.out")
                .tensor(&x)
                .optional(weight.as_ref())
                .optional(bias.as_ref())
                .tensor(&mean)
                .tensor(&variance),
        };
        call.double(0.1)
            .double(eps)
            .out(choices, dtype, shape.len())
            .out(choices, dtype, 1)
            .out(choices, dtype, 1)
            .gives(choices, &[&expected, &means, &rstds], 30.0);
    });
}
