//! One index tensor, along one dimension.

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, Scalar, TensorId, TensorMeta, TensorOut,
};

use super::{expect_index, inside, read_indices};
use crate::arguments::output;
use crate::blocks::Blocks;
use crate::convert::as_dense;
use crate::copies::copy_beside;
use crate::dims::{self, Dims, Sizes, Walk, dim_index};
use crate::dispatch::{MOVABLE, NUMBERS, element, word};
use crate::memo;
use crate::number::{Compute, Number};
use crate::view::{View, copy_walk, expect_same_dtype, words, words_mut};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::index_select.out", MOVABLE, |c| {
        let (input, dim, index, out) = (c.tensor(0)?, c.int(1)?, c.tensor(2)?, output(c, 3)?);
        let dim = dim_index("dimension", dim, c.meta(input).rank())?;
        if c.meta(index).rank() > 1 {
            return Err(KernelError::invalid("an index of more than one dimension"));
        }
        let count = c.meta(index).numel();
        take(c, out, input, dim, (index, &[count]), inside)
    }),
    Kernel::new("aten::embedding.out", MOVABLE, |c| {
        let (weight, index, out) = (c.tensor(0)?, c.tensor(1)?, output(c, 5)?);
        if c.meta(weight).rank() != 2 {
            return Err(KernelError::invalid(
                "a table of embeddings has 2 dimensions",
            ));
        }
        let mut shape = Sizes::new();
        shape.extend_from_slice(c.meta(index).sizes());
        take(c, out, weight, 0, (index, &shape), inside)
    }),
    Kernel::new("aten::gather.out", MOVABLE, |c| {
        memo::keep(c, gather, gather_elements)
    })
    .with_prepare(memo::prepare::<Gather>),
    Kernel::new("aten::scatter.src_out", NUMBERS, |c| {
        let (source, out) = (c.tensor(3)?, output(c, 4)?);
        expect_same_dtype(c, out, source)?;
        scatter(c, out, Source::Tensor(source), Put::Set)
    }),
    Kernel::new("aten::scatter.value_out", NUMBERS, |c| {
        let (value, out) = (c.scalar(3)?, output(c, 4)?);
        scatter(c, out, Source::Number(value), Put::Set)
    }),
    Kernel::new("aten::scatter_add.out", NUMBERS, |c| {
        let (source, out) = (c.tensor(3)?, output(c, 4)?);
        expect_same_dtype(c, out, source)?;
        scatter(c, out, Source::Tensor(source), Put::Add)
    }),
];

/// The parts of `input` that the indices name along `dim`, in place of which the output has the dimensions of `shape`.
pub(super) fn take(
    context: &mut KernelContext<'_>,
    out: TensorId,
    input: TensorId,
    dim: usize,
    (index, shape): (TensorId, &[usize]),
    place: impl Fn(i64, usize) -> Result<usize, KernelError>,
) -> Result<(), KernelError> {
    expect_same_dtype(context, out, input)?;
    expect_index(context, index)?;
    let temp = context.temp();
    let rank = context.meta(out).rank() + 1;
    if let Some(blocks) = ready_blocks(context, out, input, dim, shape)
        && rank == context.meta(input).rank() + shape.len()
        && out != index
    {
        let ([mut out], [input, index]) = context.disjoint([out], [input, index])?;
        let indices = as_dense::<i64>(temp, index)?;
        return word!(out.meta.dtype(), T => {
            take_blocks(words_mut::<T>(&mut out)?, words::<T>(input.bytes)?, blocks, indices, place)
        });
    }
    // Its new shape would be the index's as well.
    let aside = match out == index {
        true => Some(read_indices(context, temp, index)?),
        false => None,
    };
    // A tensor without dimensions is one of a single index here, and its result too.
    let is_single = context.meta(input).rank() == 0;
    let mut sizes = Sizes::new();
    if !is_single {
        let own = context.meta(input).sizes();
        sizes.extend_from_slice(&own[..dim]);
        sizes.extend_from_slice(shape);
        sizes.extend_from_slice(&own[dim + 1..]);
    }
    dims::numel(&sizes)?;
    if out == input && sizes[..] != *context.meta(input).sizes() {
        // Its new shape would be the input's as well.
        return Err(KernelError::invalid(
            "parts of another shape in place of their input",
        ));
    }
    context.resize(out, &sizes)?;
    let ([mut out], [input, index]) = context.disjoint([out], [input, index])?;
    let indices = match aside {
        Some(aside) => aside,
        None => as_dense::<i64>(temp, index)?,
    };
    let mut of = View::of(input.meta);
    if is_single {
        of.insert(0, 1, 0);
    }
    let (size, step) = (of.sizes[dim], of.strides[dim]);
    // The output's strides of the index dimensions and of the others.
    let own = dims::strides(out.meta);
    let width = if is_single { 0 } else { shape.len() };
    let rest = (0..of.sizes.len())
        .filter(|&other| other != dim)
        .map(|other| {
            let at = if other < dim {
                other
            } else {
                other - 1 + width
            };
            (of.sizes[other], [own[at], of.strides[other]])
        });
    let rest: Dims<_> = rest.collect();
    let mut walk = Walk::new(in_memory_order(rest));
    let index_walk = Walk::new((0..width).map(|i| (shape[i], [own[dim + i]])));
    word!(out.meta.dtype(), T => {
        let (to, from) = (words_mut::<T>(&mut out)?, words::<T>(input.bytes)?);
        let mut next = indices.iter();
        index_walk.each(|[at]| {
            let Some(&index) = next.next() else {
                return Ok(());
            };
            let source = step * place(index, size)? as isize;
            walk.start_at([at, source]);
            copy_walk(&walk, to, from)
        })
    })
}

/// How `whole` is cut along `dim`, if it and `parts` are in index order, and `parts` has the dimensions of `shape` in that one's
/// place. Dimensions of size 1 in front may be missing.
pub(super) fn ready_blocks(
    context: &KernelContext<'_>,
    parts: TensorId,
    whole: TensorId,
    dim: usize,
    shape: &[usize],
) -> Option<Blocks> {
    let (parts, whole) = (context.meta(parts), context.meta(whole));
    let (own, of) = (parts.sizes(), whole.sizes());
    if dim >= of.len() || own.len() + 1 > of.len() + shape.len() {
        return None;
    }
    let expected = of[dim + 1..].iter().rev();
    let expected = expected
        .chain(shape.iter().rev())
        .chain(of[..dim].iter().rev());
    let own = own.iter().rev().chain(std::iter::repeat(&1));
    let fits = expected.zip(own).all(|(expected, own)| expected == own);
    let blocks = Blocks::of(whole, dim)?;
    (fits && parts.is_contiguous()).then_some(Blocks {
        inner: blocks.inner / whole.dtype().nbytes(),
        ..blocks
    })
}

/// [`take`] of tensors in index order, of which `inner` counts the elements.
fn take_blocks<T: Copy>(
    to: &mut [T],
    from: &[T],
    blocks: Blocks,
    indices: &[i64],
    place: impl Fn(i64, usize) -> Result<usize, KernelError>,
) -> Result<(), KernelError> {
    each_block(blocks, indices, place, |part, whole, inner| match inner {
        1 => to[part] = from[whole],
        _ => to[part..part + inner].copy_from_slice(&from[whole..whole + inner]),
    })
}

/// Puts `from` over the parts of `to` that the indices name.
pub(super) fn put_blocks<T: Copy>(
    to: &mut [T],
    from: &[T],
    blocks: Blocks,
    indices: &[i64],
    place: impl Fn(i64, usize) -> Result<usize, KernelError>,
) -> Result<(), KernelError> {
    each_block(blocks, indices, place, |part, whole, inner| match inner {
        1 => to[whole] = from[part],
        _ => to[whole..whole + inner].copy_from_slice(&from[part..part + inner]),
    })
}

/// Calls `visit` with where each block of the parts is, where that is in the whole, and how many elements it has.
#[inline(always)]
fn each_block(
    blocks: Blocks,
    indices: &[i64],
    place: impl Fn(i64, usize) -> Result<usize, KernelError>,
    mut visit: impl FnMut(usize, usize, usize),
) -> Result<(), KernelError> {
    let Blocks { outer, size, inner } = blocks;
    for (i, &index) in indices.iter().enumerate() {
        let index = place(index, size)?;
        for row in 0..outer {
            let [part, whole] = [row * indices.len() + i, row * size + index];
            visit(part * inner, whole * inner, inner);
        }
    }
    Ok(())
}

/// Dimensions sorted so that the output is written in the order of its memory.
fn in_memory_order(mut dims: Dims<(usize, [isize; 2])>) -> Dims<(usize, [isize; 2])> {
    dims.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
    dims
}

/// A tensor's strides with that of `dim` set to 0, and that stride.
fn without(view: &View, dim: usize) -> (dims::Strides, isize, usize) {
    let mut strides = view.strides.clone();
    match strides.get_mut(dim) {
        Some(stride) => {
            let step = std::mem::replace(stride, 0);
            (strides, step, view.sizes[dim])
        }
        None => (strides, 0, 1),
    }
}

/// Index dimensions must be inside of the tensor's but for `dim`.
fn expect_index_inside(index: &[usize], tensor: &[usize], dim: usize) -> Result<(), KernelError> {
    let ranks = index.len().max(1) == tensor.len().max(1);
    let inside = ranks
        && index
            .iter()
            .zip(tensor)
            .enumerate()
            .all(|(d, (index, size))| d == dim || index <= size);
    if inside || index.contains(&0) && ranks {
        return Ok(());
    }
    Err(KernelError::invalid(format!(
        "an index of shape {index:?} for a tensor of shape {tensor:?}"
    )))
}

/// Where elements are gathered from.
struct Gather {
    out: TensorId,
    input: TensorId,
    index: TensorId,
    /// Along the output and the input, at index 0 of the dimension.
    walk: Walk<2>,
    /// Of the dimension in the input.
    step: isize,
    size: usize,
}

/// `out[.., i, ..] = input[.., index[.., i, ..], ..]`.
fn gather(context: &mut KernelContext<'_>) -> Result<Gather, KernelError> {
    let (input, index, out) = (context.tensor(0)?, context.tensor(2)?, output(context, 4)?);
    expect_same_dtype(context, out, input)?;
    let dim = dim_index("dimension", context.int(1)?, context.meta(input).rank())?;
    let shape: Sizes = context.meta(index).sizes().into();
    expect_index_inside(&shape, context.meta(input).sizes(), dim)?;
    expect_index(context, index)?;
    context.resize(out, &shape)?;
    let (of, own) = (context.meta(input), context.meta(out));
    let along = |meta: &TensorMeta, d: usize| meta.strides().get(d).map_or(0, |&s| s as isize);
    let walk = Walk::new((0..shape.len()).map(|d| {
        let from = if d == dim { 0 } else { along(of, d) };
        (shape[d], [along(own, d), from])
    }));
    Ok(Gather {
        out,
        input,
        index,
        walk,
        step: along(of, dim),
        size: of.sizes().get(dim).copied().unwrap_or(1),
    })
}

fn gather_elements(context: &mut KernelContext<'_>, call: &Gather) -> Result<(), KernelError> {
    let temp = context.temp();
    let ([mut out], [input, index]) = context.disjoint([call.out], [call.input, call.index])?;
    let indices = as_dense::<i64>(temp, index)?;
    word!(out.meta.dtype(), T => {
        let (to, from) = (words_mut::<T>(&mut out)?, words::<T>(input.bytes)?);
        let mut next = indices.iter();
        call.walk.each(|[at, source]| {
            let Some(&index) = next.next() else {
                return Ok(());
            };
            let source = source + call.step * inside(index, call.size)? as isize;
            to[at as usize] = *from.get(source as usize).ok_or_else(lost)?;
            Ok(())
        })
    })
}

#[cold]
fn lost() -> KernelError {
    KernelError::invalid("an index leads outside of its tensor")
}

#[derive(Clone, Copy)]
enum Source {
    Tensor(TensorId),
    Number(Scalar),
}

#[derive(Clone, Copy)]
pub(super) enum Put {
    Set,
    Add,
}

/// `out = input; out[.., index[.., i, ..], ..] = source[.., i, ..]`.
fn scatter(
    context: &mut KernelContext<'_>,
    out: TensorId,
    source: Source,
    put: Put,
) -> Result<(), KernelError> {
    let (input, index) = (context.tensor(0)?, context.tensor(2)?);
    expect_same_dtype(context, out, input)?;
    let dim = dim_index("dimension", context.int(1)?, context.meta(input).rank())?;
    let shape: Sizes = context.meta(index).sizes().into();
    expect_index_inside(&shape, context.meta(input).sizes(), dim)?;
    if let Source::Tensor(source) = source {
        let sizes = context.meta(source).sizes();
        // Along `dim` too: an element for each index.
        expect_index_inside(&shape, sizes, usize::MAX)?;
    }
    let temp = context.temp();
    let indices = read_indices(context, temp, index)?;
    let source_view = match source {
        Source::Tensor(id) => Some(View::of(context.meta(id))),
        Source::Number(_) => None,
    };
    let source_id = match source {
        Source::Tensor(id) => id,
        Source::Number(_) => index,
    };
    let (out, from) = copy_beside(context, out, input, source_id)?;
    let walk = scatter_walk(&out, &shape, dim, source_view.as_ref());
    let (_, step, size) = without(&View::of(out.meta), dim);
    element!("the output", out.meta.dtype(), T => {
        let mut out = out;
        let to = out.elements_mut::<T>()?;
        let value = match source {
            Source::Number(number) => Some([T::from_scalar(number)]),
            Source::Tensor(_) => None,
        };
        let from = match &value {
            Some(value) => &value[..],
            None => from.elements::<T>()?,
        };
        let mut next = indices.iter();
        walk.each(|[at, source]| {
            let Some(&index) = next.next() else {
                return Ok(());
            };
            let at = at + step * inside(index, size)? as isize;
            let to = to.get_mut(at as usize).ok_or_else(lost)?;
            let from = *from.get(source as usize).ok_or_else(lost)?;
            *to = match put {
                Put::Set => from,
                Put::Add => added(*to, from),
            };
            Ok(())
        })
    })
}

fn scatter_walk(
    out: &TensorOut<'_>,
    shape: &[usize],
    dim: usize,
    source: Option<&View>,
) -> Walk<2> {
    let (strides, _, _) = without(&View::of(out.meta), dim);
    Walk::new((0..shape.len()).map(|d| {
        let from = source.and_then(|view| view.strides.get(d)).copied();
        (
            shape[d],
            [strides.get(d).copied().unwrap_or(0), from.unwrap_or(0)],
        )
    }))
}

/// The sum of two elements, computed in floating point numbers or whole ones of full width.
pub(super) fn added<T: Number>(a: T, b: T) -> T {
    if T::DTYPE.is_floating() {
        (a.cast::<f64>() + b.cast::<f64>()).cast()
    } else {
        a.cast::<i64>().plus(b.cast::<i64>()).cast()
    }
}
