//! Operators where each output dimension has a table of the input's indices: rolls, and paddings by the input's own elements.

use et_kernel::{Arguments, Kernel, KernelContext, KernelError, ScalarTypeSet, TensorId};
use et_memory::Arena;

use crate::arguments::output;
use crate::dims::{Dims, Sizes, dim_index};
use crate::dispatch::word;
use crate::elementwise::scratch;
use crate::view::{expect_same_dtype, words, words_mut};

const ANY: ScalarTypeSet = crate::dispatch::MOVABLE;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::reflection_pad1d.out", ANY, |c| {
        pad(c, 1, Edge::Reflect)
    }),
    Kernel::new("aten::reflection_pad2d.out", ANY, |c| {
        pad(c, 2, Edge::Reflect)
    }),
    Kernel::new("aten::reflection_pad3d.out", ANY, |c| {
        pad(c, 3, Edge::Reflect)
    }),
    Kernel::new("aten::replication_pad1d.out", ANY, |c| {
        pad(c, 1, Edge::Repeat)
    }),
    Kernel::new("aten::replication_pad2d.out", ANY, |c| {
        pad(c, 2, Edge::Repeat)
    }),
    Kernel::new("aten::replication_pad3d.out", ANY, |c| {
        pad(c, 3, Edge::Repeat)
    }),
    Kernel::new("aten::roll.out", ANY, roll),
];

/// For each dimension, the input's index for each index of the output.
type Tables<'a> = Dims<&'a [u64]>;

fn table(temp: &Arena, len: usize, index: impl Fn(usize) -> usize) -> Result<&[u64], KernelError> {
    let table = scratch::<u64>(temp, len)?;
    for (i, to) in table.iter_mut().enumerate() {
        *to = index(i) as u64;
    }
    Ok(table)
}

/// `out[i, j, …] = input[tables[0][i], tables[1][j], …]`, for an output that has elements and its shape.
fn remap(
    context: &mut KernelContext<'_>,
    out: TensorId,
    input: TensorId,
    tables: &Tables<'_>,
) -> Result<(), KernelError> {
    let ([mut out], [input]) = context.disjoint([out], [input])?;
    let (own, of) = (out.meta.strides(), input.meta.strides());
    let (sizes, numel) = (out.meta.sizes(), out.meta.numel());
    word!(out.meta.dtype(), T => {
        let (to, from) = (words_mut::<T>(&mut out)?, words::<T>(input.bytes)?);
        let Some((inner, outer)) = tables.split_last() else {
            to.copy_from_slice(from);
            return Ok(());
        };
        let last = outer.len();
        for line in 0..numel / inner.len() {
            let (mut rest, mut at, mut source) = (line, 0, 0);
            for d in (0..last).rev() {
                let i = rest % sizes[d];
                rest /= sizes[d];
                at += i * own[d];
                source += outer[d][i] as usize * of[d];
            }
            for (x, place) in inner.iter().enumerate() {
                to[at + x * own[last]] = from[source + *place as usize * of[last]];
            }
        }
        Ok(())
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Edge {
    /// The input turned around at its edge, which is not repeated.
    Reflect,
    /// The element at the edge over and over.
    Repeat,
}

/// Pads the last `rank` dimensions; pairs of paddings come from the last dimension on.
fn pad(context: &mut KernelContext<'_>, rank: usize, edge: Edge) -> Result<(), KernelError> {
    let (input, padding, out) = (
        context.tensor(0)?,
        context.int_list(1)?,
        output(context, 2)?,
    );
    let sizes: Sizes = context.meta(input).sizes().into();
    if !(rank + 1..=rank + 2).contains(&sizes.len()) || padding.len() != 2 * rank {
        return Err(KernelError::invalid(format!(
            "{} paddings of {rank} dimensions of shape {sizes:?}",
            padding.len()
        )));
    }
    let pair = |dim: usize| match (sizes.len() - 1 - dim) * 2 {
        at if at < padding.len() => [padding[at], padding[at + 1]],
        _ => [0, 0],
    };
    let padded = sizes
        .iter()
        .enumerate()
        .map(|(dim, &size)| padded_size(size, pair(dim), edge))
        .collect::<Result<Sizes, _>>()?;
    // Before the tables, which are as long as its dimensions.
    expect_same_dtype(context, out, input)?;
    context.resize(out, &padded)?;
    if context.meta(out).numel() == 0 {
        return Ok(());
    }
    let temp = context.temp();
    let mut tables = Tables::new();
    for (dim, &size) in sizes.iter().enumerate() {
        let [before, _] = pair(dim);
        let index = |i: usize| edge_index(i as i64 - before, size as i64, edge);
        tables.push(table(temp, padded[dim], index)?);
    }
    remap(context, out, input, &tables)
}

fn padded_size(size: usize, pair: [i64; 2], edge: Edge) -> Result<usize, KernelError> {
    let padded = (size as i64)
        .checked_add(pair[0])
        .and_then(|size| size.checked_add(pair[1]))
        .and_then(|size| usize::try_from(size).ok());
    let reach = match edge {
        Edge::Reflect => size as i64 - 1,
        Edge::Repeat if size == 0 => 0,
        Edge::Repeat => i64::MAX,
    };
    let inside = pair.iter().all(|&pad| pad <= reach.max(0));
    padded
        .filter(|_| inside)
        .ok_or_else(|| KernelError::invalid(format!("paddings {pair:?} of size {size}")))
}

fn edge_index(at: i64, size: i64, edge: Edge) -> usize {
    let last = (size - 1).max(0);
    let inside = match edge {
        Edge::Repeat => at,
        Edge::Reflect if at < 0 => -at,
        Edge::Reflect if at > last => 2 * last - at,
        Edge::Reflect => at,
    };
    inside.clamp(0, last) as usize
}

/// `roll(self, shifts, dims)`; without dimensions the elements in index order.
fn roll(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, shifts, dims) = (
        context.tensor(0)?,
        context.int_list(1)?,
        context.int_list(2)?,
    );
    let out = output(context, 3)?;
    let meta = context.meta(input);
    if dims.is_empty() && meta.rank() != 1 || !dims.is_empty() && dims.len() != shifts.len() {
        return Err(KernelError::invalid(
            "roll takes a shift for each dimension that it names; without any only a tensor of one dimension",
        ));
    }
    let sizes: Sizes = meta.sizes().into();
    let mut totals: Dims<i64> = Dims::from_elem(0, sizes.len());
    for (i, &shift) in shifts.iter().enumerate() {
        let dim = match dims.get(i) {
            Some(&dim) => dim_index("dimension", dim, sizes.len())?,
            None => 0,
        };
        if let (Some(total), Some(&size)) = (totals.get_mut(dim), sizes.get(dim)) {
            let size = size.max(1) as i64;
            *total = (*total + shift.rem_euclid(size)) % size;
        }
    }
    expect_same_dtype(context, out, input)?;
    context.resize(out, &sizes)?;
    if context.meta(out).numel() == 0 {
        return Ok(());
    }
    let temp = context.temp();
    let mut tables = Tables::new();
    for (&size, &shift) in sizes.iter().zip(&totals) {
        let shift = shift as usize;
        tables.push(table(temp, size, |i| (i + size - shift) % size)?);
    }
    remap(context, out, input, &tables)
}
