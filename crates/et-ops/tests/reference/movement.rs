//! Elements moved about: views made real.

use crate::array::{Array, resized, with};
use crate::call::Call;
use crate::choice::{Choices, Fill, TYPES, check};
use crate::number::Number::Whole;

/// A tensor of any type, and one of its dimensions.
pub(crate) fn tensor_and_dim(choices: &mut Choices) -> (Array, usize, i64) {
    let dtype = choices.pick(&TYPES);
    let (shape, dim) = choices.shape_and_dim();
    let name = choices.named(dim, shape.len());
    (choices.array(dtype, &shape, Fill::Any), dim, name)
}

fn tensor(choices: &mut Choices) -> Array {
    let dtype = choices.pick(&TYPES);
    let shape = choices.shape();
    choices.array(dtype, &shape, Fill::Any)
}

/// Compares with elements that are found where `from` says.
fn moved(
    choices: &mut Choices,
    call: Call,
    x: &Array,
    sizes: &[usize],
    from: impl Fn(&[usize]) -> Vec<usize>,
) {
    let expected = Array::new(x.dtype, sizes, |i| x.at(&from(i)));
    call.out(choices, x.dtype, sizes.len())
        .gives(choices, &[&expected], 0.0);
}

#[test]
fn permutations() {
    check(300, |choices| {
        let x = tensor(choices);
        let rank = x.rank();
        let mut dims: Vec<usize> = (0..rank).collect();
        for dim in 1..rank {
            dims.swap(dim, choices.below(dim + 1));
        }
        let names: Vec<i64> = dims.iter().map(|&dim| choices.named(dim, rank)).collect();
        let sizes: Vec<usize> = dims.iter().map(|&dim| x.sizes[dim]).collect();
        let call = Call::new("aten::permute_copy.out").tensor(&x).ints(&names);
        moved(choices, call, &x, &sizes, |i| {
            let mut from = vec![0; rank];
            dims.iter().zip(i).for_each(|(&dim, &at)| from[dim] = at);
            from
        });
    });
}

/// As many dimensions as a tensor may have.
#[test]
fn permutations_of_many_dimensions() {
    check(100, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = choices.within(7, 16) as usize;
        let sizes: Vec<usize> = (0..rank).map(|dim| if dim < 8 { 2 } else { 1 }).collect();
        let x = choices.array(dtype, &sizes, Fill::Any);
        let mut dims: Vec<usize> = (0..rank).collect();
        for dim in 1..rank {
            dims.swap(dim, choices.below(dim + 1));
        }
        let sizes: Vec<usize> = dims.iter().map(|&dim| x.sizes[dim]).collect();
        let call = Call::new("aten::permute_copy.out").tensor(&x).ints(&dims);
        moved(choices, call, &x, &sizes, |i| {
            let mut from = vec![0; rank];
            dims.iter().zip(i).for_each(|(&dim, &at)| from[dim] = at);
            from
        });
    });
}

#[test]
fn transpositions() {
    check(200, |choices| {
        let (x, a, a_name) = tensor_and_dim(choices);
        let b = choices.below(x.rank());
        let b_name = choices.named(b, x.rank());
        let matrix = x.rank() <= 2 && choices.truth();
        let [a, b] = if matrix { [0, x.rank() - 1] } else { [a, b] };
        let mut sizes = x.sizes.clone();
        sizes.swap(a, b);
        let call = match matrix {
            true => Call::new("aten::t_copy.out").tensor(&x),
            false => Call::new("aten::transpose_copy.int_out")
                .tensor(&x)
                .int(a_name)
                .int(b_name),
        };
        moved(choices, call, &x, &sizes, |i| {
            let mut from = i.to_vec();
            from.swap(a, b);
            from
        });
    });
}

#[test]
fn copies() {
    check(150, |choices| {
        let x = tensor(choices);
        let name = choices.pick(&[
            "aten::clone.out",
            "aten::alias_copy.out",
            "aten::detach_copy.out",
            "aten::lift_fresh_copy.out",
            "dim_order_ops::_clone_dim_order.out",
        ]);
        let call = Call::new(name).tensor(&x);
        let call = match name {
            "aten::clone.out" => call.none(),
            "dim_order_ops::_clone_dim_order.out" => call.truth(false).none(),
            _ => call,
        };
        let sizes = x.sizes.clone();
        moved(choices, call, &x, &sizes, <[usize]>::to_vec);
    });
}

#[test]
fn copies_of_another_type() {
    check(300, |choices| {
        let dtype = choices.pick(&TYPES);
        let out = choices.pick(&TYPES);
        let shape = choices.shape();
        // What fractions beyond the ends of whole types become is not said.
        let fill = match dtype.is_floating() && !out.is_floating() {
            true => Fill::Small,
            false => choices.fill(),
        };
        let x = choices.array(dtype, &shape, fill);
        let expected = x.cast(out);
        let which = choices.below(4);
        let (call, expected) = match which {
            0 => (
                Call::new("aten::_to_copy.out")
                    .tensor(&x)
                    .truth(false)
                    .none(),
                expected,
            ),
            1 => (
                Call::new("dim_order_ops::_to_dim_order_copy.out")
                    .tensor(&x)
                    .truth(false)
                    .none(),
                expected,
            ),
            _ => {
                let wide = [&[2], &shape[..]].concat();
                let like = choices.array(out, &wide, Fill::Small);
                let expected = Array::new(out, &wide, |i| expected.at(&i[1..]));
                let call = Call::new(if which == 2 {
                    "aten::copy.out"
                } else {
                    "aten::copy_"
                });
                (call.tensor(&like).tensor(&x).truth(false), expected)
            }
        };
        let call = match which {
            3 => call.out_is(0),
            _ => call.out(choices, out, expected.rank()),
        };
        call.gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn slices() {
    check(300, |choices| {
        let (x, dim, name) = tensor_and_dim(choices);
        let size = x.sizes[dim] as i64;
        let mut sizes = x.sizes.clone();
        match choices.below(3) {
            0 => {
                let (start, end) = (choices.within(-7, 7), choices.within(-7, 9));
                let step = choices.within(1, 3);
                let inside = |at: i64| (if at < 0 { at + size } else { at }).clamp(0, size);
                let (from, until) = (inside(start), inside(end));
                sizes[dim] = ((until - from).max(0) as usize).div_ceil(step as usize);
                let call = Call::new("aten::slice_copy.Tensor_out").tensor(&x);
                let call = call.int(name).int(start).int(end).int(step);
                moved(choices, call, &x, &sizes, |i| {
                    with(i, dim, from as usize + i[dim] * step as usize)
                });
            }
            1 => {
                let start = choices.below(size as usize + 1);
                let len = choices.below(size as usize - start + 1);
                sizes[dim] = len;
                let call = Call::new("aten::narrow_copy.out").tensor(&x);
                let call = call.int(name).int(start).int(len);
                moved(choices, call, &x, &sizes, |i| with(i, dim, start + i[dim]));
            }
            _ if size > 0 => {
                let at = choices.below(size as usize);
                let index = choices.named(at, size as usize);
                sizes.remove(dim);
                let call = Call::new("aten::select_copy.int_out")
                    .tensor(&x)
                    .int(name)
                    .int(index);
                moved(choices, call, &x, &sizes, |i| {
                    [&i[..dim], &[at], &i[dim..]].concat()
                });
            }
            _ => {
                let call = Call::new("aten::select_copy.int_out")
                    .tensor(&x)
                    .int(name)
                    .int(0);
                call.out(choices, x.dtype, x.rank() - 1).fails(choices);
            }
        }
    });
}

#[test]
fn diagonals_and_windows() {
    check(250, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = 1 + choices.below(4);
        let shape = choices.sizes(rank);
        let x = choices.array(dtype, &shape, Fill::Any);
        let a = choices.below(rank);
        let a_name = choices.named(a, rank);
        if rank > 1 && choices.truth() {
            let b = (a + 1 + choices.below(rank - 1)) % rank;
            let offset = choices.within(-4, 4);
            let (down, right) = ((-offset).max(0) as usize, offset.max(0) as usize);
            let len = shape[a]
                .saturating_sub(down)
                .min(shape[b].saturating_sub(right));
            let others: Vec<usize> = (0..rank).filter(|&dim| dim != a && dim != b).collect();
            let sizes: Vec<usize> = others.iter().map(|&dim| shape[dim]).chain([len]).collect();
            let b_name = choices.named(b, rank);
            let call = Call::new("aten::diagonal_copy.out")
                .tensor(&x)
                .int(offset)
                .int(a_name)
                .int(b_name);
            return moved(choices, call, &x, &sizes, |i| {
                let mut from = vec![0; rank];
                others.iter().zip(i).for_each(|(&dim, &at)| from[dim] = at);
                from[a] = i[others.len()] + down;
                from[b] = i[others.len()] + right;
                from
            });
        }
        let (size, step) = (choices.below(shape[a] + 1), choices.within(1, 3) as usize);
        let mut sizes = resized(&shape, a, (shape[a] - size) / step + 1);
        sizes.push(size);
        let call = Call::new("aten::unfold_copy.out")
            .tensor(&x)
            .int(a_name)
            .int(size)
            .int(step);
        moved(choices, call, &x, &sizes, |i| {
            with(&i[..rank], a, i[a] * step + i[rank])
        });
    });
}

#[test]
fn repetitions() {
    check(250, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = choices.below(4);
        let shape = choices.sizes(rank);
        let x = choices.array(dtype, &shape, Fill::Any);
        let added = choices.below(3);
        let front: Vec<usize> = (0..added).map(|_| choices.below(3)).collect();
        if choices.truth() {
            let repeats: Vec<usize> = (0..rank).map(|_| choices.below(3)).collect();
            let sizes: Vec<usize> = front
                .iter()
                .copied()
                .chain(repeats.iter().zip(&shape).map(|(a, b)| a * b))
                .collect();
            let call = Call::new("aten::repeat.out")
                .tensor(&x)
                .ints(&[&front[..], &repeats].concat());
            return moved(choices, call, &x, &sizes, |i| {
                i[added..]
                    .iter()
                    .zip(&shape)
                    .map(|(i, size)| i % size)
                    .collect()
            });
        }
        let mut wanted: Vec<i64> = front.iter().map(|&size| size as i64).collect();
        let mut sizes = front;
        for &size in &shape {
            let grown = if size == 1 { choices.below(4) } else { size };
            let kept = grown == size && choices.truth();
            wanted.push(if kept { -1 } else { grown as i64 });
            sizes.push(grown);
        }
        let call = Call::new("aten::expand_copy.out")
            .tensor(&x)
            .ints(&wanted)
            .truth(false);
        moved(choices, call, &x, &sizes, |i| {
            let own = i[added..].iter().zip(&shape);
            own.map(|(&i, &size)| if size == 1 { 0 } else { i })
                .collect()
        });
    });
}

#[test]
fn dimensions_of_size_one() {
    check(200, |choices| {
        let (mut x, dim, name) = tensor_and_dim(choices);
        match choices.below(3) {
            0 => {
                let at = choices.below(x.rank() + 1);
                let name = choices.named(at, x.rank() + 1);
                let mut sizes = x.sizes.clone();
                sizes.insert(at, 1);
                let call = Call::new("aten::unsqueeze_copy.out").tensor(&x).int(name);
                moved(choices, call, &x, &sizes, |i| {
                    let mut from = i.to_vec();
                    from.remove(at);
                    from
                });
            }
            which => {
                let shape = resized(&x.sizes, dim, 1);
                x = choices.array(x.dtype, &shape, Fill::Any);
                let mut sizes = shape;
                sizes.remove(dim);
                let call = match which {
                    1 => Call::new("aten::squeeze_copy.dim_out").tensor(&x).int(name),
                    _ => Call::new("aten::squeeze_copy.dims_out")
                        .tensor(&x)
                        .ints(&[name]),
                };
                moved(choices, call, &x, &sizes, |i| {
                    [&i[..dim], &[0], &i[dim..]].concat()
                });
            }
        }
    });
}

#[test]
fn other_shapes() {
    check(250, |choices| {
        let x = tensor(choices);
        // Sizes split up or taken together.
        let mut sizes: Vec<usize> = Vec::new();
        for &size in &x.sizes {
            match choices.below(3) {
                0 if size % 2 == 0 && sizes.len() < 6 => sizes.extend([size / 2, 2]),
                1 if !sizes.is_empty() => *sizes.last_mut().unwrap() *= size,
                _ => sizes.push(size),
            }
        }
        let mut wanted: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        if !wanted.is_empty() && x.numel() > 0 && choices.truth() {
            let open = choices.below(wanted.len());
            wanted[open] = -1;
        }
        let name = choices.pick(&["aten::view_copy.out", "aten::_unsafe_view.out"]);
        let call = Call::new(name).tensor(&x).ints(&wanted);
        let mut elements = x.elements.iter();
        let expected = Array::new(x.dtype, &sizes, |_| *elements.next().unwrap());
        call.out(choices, x.dtype, sizes.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn turned_around_and_rolled() {
    check(250, |choices| {
        let (x, dim, name) = tensor_and_dim(choices);
        let sizes = x.sizes.clone();
        if choices.truth() {
            let other = choices.below(x.rank());
            let mut dims = vec![dim, other];
            dims.dedup();
            let mut names = vec![name];
            if dims.len() > 1 {
                names.push(choices.named(other, x.rank()));
            }
            let call = Call::new("aten::flip.out").tensor(&x).ints(&names);
            return moved(choices, call, &x, &sizes, |i| {
                let mut from = i.to_vec();
                dims.iter()
                    .for_each(|&dim| from[dim] = sizes[dim] - 1 - i[dim]);
                from
            });
        }
        let shift = choices.within(-9, 9);
        let call = Call::new("aten::roll.out")
            .tensor(&x)
            .ints(&[shift])
            .ints(&[name]);
        moved(choices, call, &x, &sizes, |i| {
            with(
                i,
                dim,
                (i[dim] as i64 - shift).rem_euclid(sizes[dim] as i64) as usize,
            )
        });
    });
}

#[test]
fn triangles() {
    check(150, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = 2 + choices.below(3);
        let shape = choices.sizes(rank);
        let x = choices.array(dtype, &shape, Fill::Any);
        let diagonal = choices.within(-4, 4);
        let lower = choices.truth();
        let expected = Array::new(dtype, &shape, |i| {
            let beyond = i[rank - 1] as i64 - i[rank - 2] as i64 - diagonal;
            let kept = if lower { beyond <= 0 } else { beyond >= 0 };
            if kept { x.at(i) } else { Whole(0) }
        });
        Call::new(if lower {
            "aten::tril.out"
        } else {
            "aten::triu.out"
        })
        .tensor(&x)
        .int(diagonal)
        .out(choices, dtype, rank)
        .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn pixels() {
    check(150, |choices| {
        let dtype = choices.pick(&TYPES);
        let f = choices.within(1, 3) as usize;
        let extra = choices.below(3);
        let outer = choices.sizes(extra);
        let [c, h, w] = [0; 3].map(|_| choices.below(4));
        let [deep, wide] =
            [[c * f * f, h, w], [c, h * f, w * f]].map(|inner| [&outer[..], &inner].concat());
        if choices.truth() {
            let x = choices.array(dtype, &deep, Fill::Any);
            let call = Call::new("aten::pixel_shuffle.out").tensor(&x).int(f);
            return moved(choices, call, &x, &wide, |i| {
                let (outer, i) = i.split_at(extra);
                let channel = i[0] * f * f + i[1] % f * f + i[2] % f;
                [outer, &[channel, i[1] / f, i[2] / f]].concat()
            });
        }
        let x = choices.array(dtype, &wide, Fill::Any);
        let call = Call::new("aten::pixel_unshuffle.out").tensor(&x).int(f);
        moved(choices, call, &x, &deep, |i| {
            let (outer, i) = i.split_at(extra);
            let (channel, inside) = (i[0] / (f * f), i[0] % (f * f));
            [
                outer,
                &[channel, i[1] * f + inside / f, i[2] * f + inside % f],
            ]
            .concat()
        });
    });
}

/// Strides lead through the memory of the tensor, in whatever order it is.
#[test]
fn strides_lead_through_memory() {
    check(150, |choices| {
        let dtype = choices.pick(&TYPES);
        let len = 1 + choices.below(40);
        let x = choices.array(dtype, &[len], Fill::Any);
        let rank = choices.below(4);
        let sizes = choices.sizes(rank);
        let strides: Vec<usize> = sizes.iter().map(|_| choices.below(5)).collect();
        let start = choices.below(4);
        let reach: usize = sizes
            .iter()
            .zip(&strides)
            .map(|(size, stride)| size.saturating_sub(1) * stride)
            .sum();
        let call = Call::new("aten::as_strided_copy.out").tensor(&x);
        let call = call.ints(&sizes).ints(&strides).int(start);
        if !sizes.contains(&0) && start + reach >= len {
            return call.out(choices, dtype, rank).fails(choices);
        }
        moved(choices, call, &x, &sizes, |i| {
            vec![
                start
                    + i.iter()
                        .zip(&strides)
                        .map(|(i, stride)| i * stride)
                        .sum::<usize>(),
            ]
        });
    });
}

/// The output becomes another name for the bytes of the input.
#[test]
fn a_view_of_memory_keeps_its_bytes() {
    check(60, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = choices.below(4);
        let shape = choices.sizes(rank);
        let mut x = choices.array(dtype, &shape, Fill::Any);
        x.order.sort_unstable();
        let numel = x.numel();
        let mut elements = x.elements.iter();
        let expected = Array::new(dtype, &[numel, 1], |_| *elements.next().unwrap());
        Call::new("executorch_prim::et_view.default")
            .tensor(&x)
            .ints(&[numel, 1])
            .flat_out(dtype, 2)
            .gives(choices, &[&expected], 0.0);
    });
}
