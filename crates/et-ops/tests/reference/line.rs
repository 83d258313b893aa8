//! Along lines: running sums and products, sorting, the largest few.

use et_kernel::ScalarType;

use crate::array::{Array, resized, with};
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, TYPES, check};
use crate::number::Number::{self, Float, Whole};

#[test]
fn running_sums_and_products() {
    check(250, |choices| {
        let dtype = choices.pick(&TYPES);
        let out = match FLOATS.contains(&dtype) {
            true => dtype,
            false => choices.pick(&[ScalarType::Long, ScalarType::Float, ScalarType::Int]),
        };
        let (shape, dim) = choices.shape_and_dim();
        let x = choices.array(dtype, &shape, Fill::Small);
        let product = choices.truth();
        let line = |i: &[usize]| {
            (0..=i[dim])
                .map(|at| x.at(&with(i, dim, at)).cast(out))
                .collect::<Vec<_>>()
        };
        let expected = Array::new(out, &shape, |i| {
            let line = line(i);
            match (FLOATS.contains(&out), product) {
                (true, true) => Float(line.iter().map(|x| x.float()).product()),
                (true, false) => Float(line.iter().map(|x| x.float()).sum()),
                (false, true) => Whole(line.iter().map(|x| x.whole()).product()),
                (false, false) => Whole(line.iter().map(|x| x.whole()).sum()),
            }
        });
        let name = choices.named(dim, shape.len());
        Call::new(if product {
            "aten::cumprod.out"
        } else {
            "aten::cumsum.out"
        })
        .tensor(&x)
        .int(name)
        .none()
        .out(choices, out, shape.len())
        .gives(choices, &[&expected], 8.0);
    });
}

/// What is no number is larger than all numbers.
fn before(a: Number, b: Number) -> bool {
    a.less(b) || b.is_nan() && !a.is_nan()
}

/// The indices of a line in order, equals as they were.
fn sorted(line: &[Number], descending: bool) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    for (i, &x) in line.iter().enumerate() {
        let later = |&other: &usize| match descending {
            true => before(line[other], x),
            false => before(x, line[other]),
        };
        let at = order.iter().position(later).unwrap_or(order.len());
        order.insert(at, i);
    }
    order
}

/// Values and indices along `dim`, the first `count` of each line.
fn ranked(x: &Array, dim: usize, count: usize, descending: bool) -> [Array; 2] {
    let sizes = match x.rank() {
        0 => Vec::new(),
        _ => resized(&x.sizes, dim, count),
    };
    let at = |i: &[usize]| -> usize {
        match x.rank() {
            0 => 0,
            _ => {
                let line: Vec<Number> = (0..x.sizes[dim])
                    .map(|at| x.at(&with(i, dim, at)))
                    .collect();
                sorted(&line, descending)[i[dim]]
            }
        }
    };
    let value = |i: &[usize]| match x.rank() {
        0 => x.at(&[]),
        _ => x.at(&with(i, dim, at(i))),
    };
    [
        Array::new(x.dtype, &sizes, value),
        Array::new(ScalarType::Long, &sizes, |i| Whole(at(i) as i128)),
    ]
}

fn line_case(choices: &mut Choices) -> (Array, usize, i64) {
    let dtype = choices.pick(&TYPES);
    let shape = choices.shape();
    let dim = choices.below(shape.len().max(1));
    let fill: Fill = choices.fill();
    let x = choices.array(dtype, &shape, fill);
    let name = choices.named(dim, shape.len().max(1));
    (x, dim, name)
}

#[test]
fn lines_are_sorted() {
    check(250, |choices| {
        let (x, dim, name) = line_case(choices);
        let descending = choices.truth();
        let len = x.sizes.get(dim).copied().unwrap_or(1);
        let [values, places] = ranked(&x, dim, len, descending);
        let call = match choices.truth() {
            true => Call::new("aten::sort.values_stable").tensor(&x).truth(true),
            false => Call::new("aten::sort.values").tensor(&x),
        };
        call.int(name)
            .truth(descending)
            .out(choices, x.dtype, x.rank())
            .out(choices, ScalarType::Long, x.rank())
            .gives(choices, &[&values, &places], 0.0);
    });
}

#[test]
fn the_largest_few() {
    check(250, |choices| {
        let (x, dim, name) = line_case(choices);
        let largest = choices.truth();
        let len = x.sizes.get(dim).copied().unwrap_or(1);
        let k = choices.below(len + 2);
        let call = Call::new("aten::topk.values")
            .tensor(&x)
            .int(k)
            .int(name)
            .truth(largest)
            .truth(true)
            .out(choices, x.dtype, x.rank())
            .out(choices, ScalarType::Long, x.rank());
        if k > len {
            return call.fails(choices);
        }
        if x.rank() == 0 && k == 0 {
            return;
        }
        let [values, places] = ranked(&x, dim, k, largest);
        call.gives(choices, &[&values, &places], 0.0);
    });
}
