//! Tensors put together and taken apart.

use crate::array::{Array, resized, with};
use crate::call::Call;
use crate::choice::{Fill, TYPES, check};
use crate::movement::tensor_and_dim;
use crate::number::promote;

#[test]
fn joined() {
    check(300, |choices| {
        let (shape, dim) = choices.shape_and_dim();
        let name = choices.named(dim, shape.len());
        let count = choices.within(1, 4) as usize;
        let same = choices.truth();
        let mut dtype = choices.pick(&TYPES);
        let fill = if same { Fill::Any } else { Fill::Small };
        let mut parts = Vec::new();
        for _ in 0..count {
            let own = if same { dtype } else { choices.pick(&TYPES) };
            let sizes = match choices.below(6) {
                // A tensor of one dimension and no element goes with any shape.
                0 => vec![0],
                _ => resized(&shape, dim, choices.below(4)),
            };
            parts.push(choices.array(own, &sizes, fill));
        }
        let types = parts.iter().map(|part| part.dtype);
        dtype = types.reduce(promote).unwrap_or(dtype);
        let real: Vec<&Array> = parts.iter().filter(|part| part.sizes != [0]).collect();
        let total = real.iter().map(|part| part.sizes[dim]).sum();
        let sizes = match real.is_empty() {
            true => vec![0],
            false => resized(&shape, dim, total),
        };
        if real.is_empty() && shape.len() > 1 {
            return;
        }
        let expected = Array::new(dtype, &sizes, |i| {
            let mut at = i[dim];
            let mut parts = real.iter();
            loop {
                let part = parts.next().unwrap();
                if at < part.sizes[dim] {
                    return part.at(&with(i, dim, at));
                }
                at -= part.sizes[dim];
            }
        });
        Call::new("aten::cat.out")
            .tensors(&parts)
            .int(name)
            .out(choices, dtype, sizes.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn stacked() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = choices.below(5);
        let shape = choices.sizes(rank);
        let count = choices.within(1, 4) as usize;
        let parts: Vec<Array> = (0..count)
            .map(|_| choices.array(dtype, &shape, Fill::Any))
            .collect();
        let dim = choices.below(rank + 1);
        let name = choices.named(dim, rank + 1);
        let mut sizes = shape;
        sizes.insert(dim, count);
        let expected = Array::new(dtype, &sizes, |i| {
            let mut from = i.to_vec();
            let part = from.remove(dim);
            parts[part].at(&from)
        });
        Call::new("aten::stack.out")
            .tensors(&parts)
            .int(name)
            .out(choices, dtype, sizes.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn cut() {
    check(250, |choices| {
        let (x, dim, name) = tensor_and_dim(choices);
        let size = x.sizes[dim];
        let rank = x.rank();
        let mut lens: Vec<usize> = Vec::new();
        let call = match choices.below(3) {
            0 => {
                let part = choices.within(1, 4) as usize;
                let mut rest = size;
                while rest > 0 || lens.is_empty() {
                    lens.push(part.min(rest));
                    rest -= part.min(rest);
                }
                Call::new("aten::split_copy.Tensor_out")
                    .tensor(&x)
                    .int(part)
                    .int(name)
            }
            1 => {
                let mut rest = size;
                while rest > 0 {
                    lens.push(choices.below(rest + 1));
                    rest -= lens.last().unwrap();
                    if lens.len() == 4 {
                        lens.push(rest);
                        rest = 0;
                    }
                }
                Call::new("aten::split_with_sizes_copy.out")
                    .tensor(&x)
                    .ints(&lens)
                    .int(name)
            }
            _ => {
                let mut small = x.sizes.clone();
                small.remove(dim);
                let parts: Vec<Array> = (0..size)
                    .map(|at| {
                        Array::new(x.dtype, &small, |i| {
                            x.at(&[&i[..dim], &[at], &i[dim..]].concat())
                        })
                    })
                    .collect();
                let parts: Vec<&Array> = parts.iter().collect();
                return Call::new("aten::unbind_copy.int_out")
                    .tensor(&x)
                    .int(name)
                    .outs(choices, x.dtype, &vec![rank - 1; size])
                    .gives(choices, &parts, 0.0);
            }
        };
        let mut start = 0;
        let mut parts = Vec::new();
        for &len in &lens {
            parts.push(Array::new(x.dtype, &resized(&x.sizes, dim, len), |i| {
                x.at(&with(i, dim, start + i[dim]))
            }));
            start += len;
        }
        let parts: Vec<&Array> = parts.iter().collect();
        call.outs(choices, x.dtype, &vec![rank; lens.len()])
            .gives(choices, &parts, 0.0);
    });
}
