//! Edges: constants, the input turned around, its last elements over and over.

use crate::array::Array;
use crate::call::Call;
use crate::choice::{Fill, TYPES, check};
use crate::number::Number::Whole;

/// Pairs of paddings from the last dimension on, as programs have them.
fn pairs(paddings: &[[i64; 2]]) -> Vec<i64> {
    paddings.iter().rev().flatten().copied().collect()
}

#[test]
fn constants_around_or_parts_cut_off() {
    check(250, |choices| {
        let dtype = choices.pick(&TYPES);
        let shape = choices.shape();
        let x = choices.array(dtype, &shape, Fill::Any);
        let padded = choices.below(shape.len() + 1);
        let first = shape.len() - padded;
        let paddings: Vec<[i64; 2]> = shape[first..]
            .iter()
            .map(|&size| {
                let before = choices.within(-(size as i64), 2);
                [before, choices.within(-(size as i64 + before.min(0)), 2)]
            })
            .collect();
        let padding = |dim: usize| {
            if dim < first {
                [0, 0]
            } else {
                paddings[dim - first]
            }
        };
        let sizes: Vec<usize> = shape
            .iter()
            .enumerate()
            .map(|(dim, &size)| (size as i64 + padding(dim)[0] + padding(dim)[1]) as usize)
            .collect();
        let value = choices.within(-2, 2);
        let expected = Array::new(dtype, &sizes, |i| {
            let from = i.iter().enumerate().map(|(dim, &at)| {
                let at = usize::try_from(at as i64 - padding(dim)[0]).ok()?;
                (at < shape[dim]).then_some(at)
            });
            match from.collect::<Option<Vec<usize>>>() {
                Some(from) => x.at(&from),
                None => Whole(value.into()),
            }
        });
        Call::new("aten::constant_pad_nd.out")
            .tensor(&x)
            .ints(&pairs(&paddings))
            .int(value)
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

const NAMES: [[&str; 2]; 3] = [
    ["aten::reflection_pad1d.out", "aten::replication_pad1d.out"],
    ["aten::reflection_pad2d.out", "aten::replication_pad2d.out"],
    ["aten::reflection_pad3d.out", "aten::replication_pad3d.out"],
];

#[test]
fn the_input_goes_on_at_its_edges() {
    check(250, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = choices.within(1, 3) as usize;
        let outer = 1 + choices.below(2);
        let mut shape = choices.sizes(outer + rank);
        shape[outer..]
            .iter_mut()
            .for_each(|size| *size = (*size).max(1));
        let x = choices.array(dtype, &shape, Fill::Any);
        let repeat = choices.truth();
        let paddings: Vec<[i64; 2]> = shape[outer..]
            .iter()
            .map(|&size| {
                let most = if repeat { 3 } else { size as i64 - 1 };
                let before = choices.within(0, most);
                // As much may be cut off as there is.
                let least = -(size as i64 + before - 1).min(2);
                [before, choices.within(least, most)]
            })
            .collect();
        let sizes: Vec<usize> = shape
            .iter()
            .enumerate()
            .map(|(dim, &size)| match dim.checked_sub(outer) {
                Some(d) => (size as i64 + paddings[d][0] + paddings[d][1]) as usize,
                None => size,
            })
            .collect();
        let from = |dim: usize, at: usize| -> usize {
            let Some(d) = dim.checked_sub(outer) else {
                return at;
            };
            let (at, last) = (at as i64 - paddings[d][0], shape[dim] as i64 - 1);
            let inside = match repeat {
                true => at.clamp(0, last),
                false if at < 0 => -at,
                false if at > last => 2 * last - at,
                false => at,
            };
            inside as usize
        };
        let expected = Array::new(dtype, &sizes, |i| {
            x.at(&i
                .iter()
                .enumerate()
                .map(|(dim, &at)| from(dim, at))
                .collect::<Vec<_>>())
        });
        Call::new(NAMES[rank - 1][usize::from(repeat)])
            .tensor(&x)
            .ints(&pairs(&paddings))
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}
