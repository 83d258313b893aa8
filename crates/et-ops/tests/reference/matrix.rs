//! Products of matrices, of batches of them, and what is added to them.

use et_kernel::ScalarType;

use crate::array::{Array, broadcast};
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, TYPES, check};
use crate::number::Number::{self, Float, Whole};

/// The sum of products of pairs.
fn dot(pairs: impl Iterator<Item = (Number, Number)>, dtype: ScalarType) -> Number {
    if dtype == ScalarType::Bool {
        return pairs
            .fold(false, |any, (a, b)| any | (a.truth() & b.truth()))
            .into();
    }
    match FLOATS.contains(&dtype) {
        true => Float(pairs.map(|(a, b)| a.float() * b.float()).sum()),
        false => Whole(pairs.map(|(a, b)| a.whole() * b.whole()).sum()),
    }
}

/// `beta * bias + alpha * product`.
fn blend(product: Number, alpha: i128, bias: Number, beta: i128, dtype: ScalarType) -> Number {
    match FLOATS.contains(&dtype) {
        // What is multiplied by 0 is not looked at.
        true if beta == 0 => Float(alpha as f64 * product.float()),
        true => Float(beta as f64 * bias.float() + alpha as f64 * product.float()),
        false => Whole(beta * bias.whole() + alpha * product.whole()),
    }
}

/// Sizes of a product: rows, columns, length of the sums. Large enough now and then for every blocking.
fn extent(choices: &mut Choices) -> [usize; 3] {
    [0; 3].map(|_| match choices.below(6) {
        0 => choices.below(40),
        _ => choices.below(7),
    })
}

fn product(a: &Array, b: &Array, sizes: &[usize], dtype: ScalarType) -> Array {
    let (rows, columns) = (a.rank() > 1, b.rank() > 1);
    let k = *a.sizes.last().unwrap();
    Array::new(exact(dtype), sizes, |i| {
        let (batch, inner) = i.split_at(i.len() - usize::from(rows) - usize::from(columns));
        let pairs = (0..k).map(|l| {
            let left = match rows {
                true => [batch, &[inner[0], l]].concat(),
                false => vec![l],
            };
            let right = match columns {
                true => [batch, &[l, *inner.last().unwrap()]].concat(),
                false => vec![l],
            };
            (spread_matrix(a, &left), spread_matrix(b, &right))
        });
        dot(pairs, dtype)
    })
}

/// The element of a matrix whose batch is broadcast.
fn spread_matrix(array: &Array, index: &[usize]) -> Number {
    let index = &index[index.len() - array.rank()..];
    let batch = array.rank().saturating_sub(2);
    let own = index.iter().enumerate();
    let own: Vec<usize> = own
        .map(|(dim, &i)| {
            if dim < batch && array.sizes[dim] == 1 {
                0
            } else {
                i
            }
        })
        .collect();
    array.at(&own)
}

/// The type in which nothing is rounded.
fn exact(dtype: ScalarType) -> ScalarType {
    if FLOATS.contains(&dtype) {
        ScalarType::Double
    } else {
        dtype
    }
}

#[test]
fn products() {
    check(400, |choices| {
        let dtype = choices.pick(&TYPES);
        let [m, n, k] = extent(choices);
        let batch = choices.below(3);
        let (name, a, b, sizes): (_, _, _, Vec<usize>) = match choices.below(4) {
            0 => ("aten::mm.out", vec![m, k], vec![k, n], vec![m, n]),
            1 => (
                "aten::bmm.out",
                vec![batch, m, k],
                vec![batch, k, n],
                vec![batch, m, n],
            ),
            2 => ("aten::mv.out", vec![m, k], vec![k], vec![m]),
            _ => ("aten::dot.out", vec![k], vec![k], vec![]),
        };
        let a = choices.array(dtype, &a, Fill::Small);
        let b = choices.array(dtype, &b, Fill::Small);
        let expected = product(&a, &b, &sizes, dtype).cast(dtype);
        Call::new(name)
            .tensor(&a)
            .tensor(&b)
            .out(choices, dtype, sizes.len())
            .gives(choices, &[&expected], 40.0);
    });
}

#[test]
fn batches_broadcast() {
    check(300, |choices| {
        let dtype = choices.pick(&TYPES);
        let [m, n, k] = extent(choices).map(|size| size.min(6));
        let rank = choices.below(3);
        let batch = choices
            .sizes(rank)
            .iter()
            .map(|&size| size.min(3))
            .collect::<Vec<_>>();
        let (a_batch, b_batch) = (choices.narrower(&batch), choices.narrower(&batch));
        let a_sizes = match choices.below(4) {
            0 => vec![k],
            _ => [&a_batch[..], &[m, k]].concat(),
        };
        let b_sizes = match choices.below(4) {
            0 => vec![k],
            _ => [&b_batch[..], &[k, n]].concat(),
        };
        let batch_of = |sizes: &[usize]| sizes[..sizes.len().saturating_sub(2)].to_vec();
        let batch = broadcast(&[&batch_of(&a_sizes), &batch_of(&b_sizes)]).unwrap();
        let mut sizes = batch;
        sizes.extend((a_sizes.len() > 1).then_some(m));
        sizes.extend((b_sizes.len() > 1).then_some(n));
        let a = choices.array(dtype, &a_sizes, Fill::Small);
        let b = choices.array(dtype, &b_sizes, Fill::Small);
        let expected = product(&a, &b, &sizes, dtype).cast(dtype);
        Call::new("aten::matmul.out")
            .tensor(&a)
            .tensor(&b)
            .out(choices, dtype, sizes.len())
            .gives(choices, &[&expected], 40.0);
    });
}

#[test]
fn products_with_something_added() {
    check(300, |choices| {
        let dtype = choices.pick(&TYPES[..9]);
        let [m, n, k] = extent(choices);
        let batch = choices.truth().then(|| 1 + choices.below(2));
        let of = |sizes: [usize; 2]| -> Vec<usize> { batch.into_iter().chain(sizes).collect() };
        let sizes = of([m, n]);
        let a = choices.array(dtype, &of([m, k]), Fill::Small);
        let b = choices.array(dtype, &of([k, n]), Fill::Small);
        let own = choices.narrower(&sizes);
        let bias = choices.array(dtype, &own, Fill::Small);
        let (beta, alpha) = (choices.within(-1, 2), choices.within(-2, 2));
        let product = product(&a, &b, &sizes, dtype);
        let expected = Array::new(dtype, &sizes, |i| {
            blend(
                product.at(i),
                alpha.into(),
                bias.spread(i),
                beta.into(),
                dtype,
            )
        });
        Call::new(match batch {
            Some(_) => "aten::baddbmm.out",
            None => "aten::addmm.out",
        })
        .tensor(&bias)
        .tensor(&a)
        .tensor(&b)
        .int(beta)
        .int(alpha)
        .out(choices, dtype, sizes.len())
        .gives(choices, &[&expected], 80.0);
    });
}

#[test]
fn linear_layers() {
    check(300, |choices| {
        let dtype = choices.pick(&TYPES[..9]);
        let [_, n, k] = extent(choices);
        let rank = choices.below(4);
        let outer = choices.sizes(rank);
        let sizes = [&outer[..], &[n]].concat();
        let input = choices.array(dtype, &[&outer[..], &[k]].concat(), Fill::Small);
        let weight = choices.array(dtype, &[n, k], Fill::Small);
        let bias = choices
            .truth()
            .then(|| choices.array(dtype, &[n], Fill::Small));
        let expected = Array::new(dtype, &sizes, |i| {
            let (outer, column) = i.split_at(rank);
            let pairs = (0..k).map(|l| {
                (
                    input.at(&[outer, &[l]].concat()),
                    weight.at(&[column[0], l]),
                )
            });
            let product = dot(pairs, dtype);
            match &bias {
                Some(bias) => blend(product, 1, bias.at(column), 1, dtype),
                None => product,
            }
        });
        Call::new("aten::linear.out")
            .tensor(&input)
            .tensor(&weight)
            .optional(bias.as_ref())
            .out(choices, dtype, sizes.len())
            .gives(choices, &[&expected], 60.0);
    });
}

/// Packed parts of matrices are in scratch memory.
#[test]
fn large_products_take_no_heap_block() {
    check(2, |choices| {
        for dtype in [ScalarType::Float, ScalarType::Half] {
            for [m, n, k] in [[64, 64, 64], [1, 70, 300], [5, 70, 300], [40, 200, 100]] {
                let a = choices.array(dtype, &[m, k], Fill::Small);
                let b = choices.array(dtype, &[n, k], Fill::Small);
                let bias = choices.array(dtype, &[n], Fill::Small);
                Call::new("aten::linear.out")
                    .tensor(&a)
                    .tensor(&b)
                    .tensor(&bias)
                    .out(choices, dtype, 2)
                    .settles();
            }
        }
    });
}

#[test]
fn matrices_that_do_not_chain_are_refused() {
    check(60, |choices| {
        let a = choices.array(ScalarType::Float, &[2, 3], Fill::Small);
        let b = choices.array(ScalarType::Float, &[4, 2], Fill::Small);
        let name = choices.pick(&["aten::mm.out", "aten::matmul.out"]);
        Call::new(name)
            .tensor(&a)
            .tensor(&b)
            .out(choices, ScalarType::Float, 2)
            .fails(choices);
    });
}

/// What is no number is not lost, nor made by elements that are not there.
#[test]
fn infinities_go_through_products() {
    check(150, |choices| {
        let dtype = choices.pick(&FLOATS[..2]);
        let [m, n, k] = extent(choices);
        let a = choices.array(dtype, &[m, k], Fill::Any);
        let mut b = choices.array(dtype, &[k, n], Fill::Small);
        for x in b.elements.iter_mut().filter(|x| !x.truth()) {
            *x = Float(0.5);
        }
        let mut a = a;
        for x in a
            .elements
            .iter_mut()
            .filter(|x| x.float().is_finite() && x.float().abs() > 100.0)
        {
            *x = Float(1.0);
        }
        let expected = product(&a, &b, &[m, n], dtype).cast(dtype);
        Call::new("aten::mm.out")
            .tensor(&a)
            .tensor(&b)
            .out(choices, dtype, 2)
            .gives(choices, &[&expected], 200.0);
    });
}
