//! Operators that put tensors together, take them apart, or put one into another.

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet, TensorId, TensorIn,
    TensorMeta, TensorOut,
};
use et_memory::Arena;

use crate::arguments::output;
use crate::convert::{convert, element_bytes, fill};
use crate::copies::copy_beside;
use crate::dims::{self, Sizes, dim_index};
use crate::dispatch::{MOVABLE, NUMBERS, word};
use crate::elementwise::scratch;
use crate::plan::{NewPlan, keep, moving};
use crate::promote::promote;
use crate::shape::{Slice, cut_dim, index_into};
use crate::view::{self, View, expect_same_dtype, overlap, words_mut};

const ANY: ScalarTypeSet = MOVABLE;

pub(crate) const KERNELS: &[Kernel] = &[
    moving("aten::cat.out", ANY, |c| keep(c, cat)),
    moving("aten::stack.out", ANY, |c| keep(c, stack)),
    moving("aten::split_copy.Tensor_out", ANY, |c| keep(c, split)),
    moving("aten::split_with_sizes_copy.out", ANY, |c| {
        keep(c, split_with_sizes)
    }),
    moving("aten::unbind_copy.int_out", ANY, |c| keep(c, unbind)),
    Kernel::new("aten::constant_pad_nd.out", NUMBERS, pad),
    moving("aten::slice_scatter.out", ANY, |c| keep(c, slice_scatter)),
    moving("aten::select_scatter.out", ANY, |c| keep(c, select_scatter)),
];

/// Copies `input` to the part of `out` along `dim`. Elements are converted to the output's type.
fn put(
    temp: &Arena,
    out: TensorOut<'_>,
    input: TensorIn<'_>,
    dim: usize,
    part: &Slice,
) -> Result<(), KernelError> {
    let (from, to) = (input.meta.dtype(), out.meta.dtype());
    let mut region = View::of(out.meta);
    part.cut(&mut region, dim);
    let view = View::of(input.meta);
    if from == to {
        return view::copy_region(out, &region, input.bytes, &view);
    }
    let nbytes = input.meta.numel() * to.nbytes();
    // Aligned for any element: scratch memory is.
    let converted = scratch::<u8>(temp, nbytes)?;
    convert((from, input.bytes), (to, converted))?;
    view::copy_region(out, &region, converted, &view)
}

/// Copies the tensors of list 0 to parts of `out` along `dim`; `part` says which, or that the tensor counts for nothing.
fn join(
    context: &mut KernelContext<'_>,
    mut plan: NewPlan<'_>,
    out: TensorId,
    dim: usize,
    mut part: impl FnMut(usize, &TensorMeta) -> Option<Slice>,
) -> Result<(), KernelError> {
    let (mut shared, mut alike) = (false, true);
    for id in tensors(context)? {
        let id = id?;
        shared |= overlap(context, out, id)?;
        alike &= context.meta(out).dtype() == context.meta(id).dtype();
    }
    if !alike || shared {
        return join_aside(context, out, dim, part);
    }
    for i in 0..tensor_count(context, 0)? {
        let Some(id) = context.tensor_in_list(0, i)? else {
            break;
        };
        let part = part(i, context.meta(id));
        let mut region = View::of(context.meta(out));
        let mut view = View::of(context.meta(id));
        part.unwrap_or(Slice::run(0, 0)).cut(&mut region, dim);
        if part.is_none() {
            view.clone_from(&region);
        }
        let walk = view::walk_region(context.meta(out), &region, &view);
        plan.add(context, out, id, walk)?;
    }
    Ok(())
}

/// The same by way of scratch memory, since the first must not be written over what is still to be read; or of tensors of other
/// element types.
fn join_aside(
    context: &mut KernelContext<'_>,
    out: TensorId,
    dim: usize,
    mut part: impl FnMut(usize, &TensorMeta) -> Option<Slice>,
) -> Result<(), KernelError> {
    let temp = context.temp();
    let meta = context.meta(out).clone();
    let bytes = scratch::<u8>(temp, meta.nbytes())?;
    for i in 0..tensor_count(context, 0)? {
        let Some(id) = context.tensor_in_list(0, i)? else {
            break;
        };
        let Some(part) = part(i, context.meta(id)) else {
            continue;
        };
        let ([], [input]) = context.disjoint([], [id])?;
        let out = TensorOut {
            meta: &meta,
            bytes: &mut *bytes,
        };
        put(temp, out, input, dim, &part)?;
    }
    let ([out], []) = context.disjoint([out], [])?;
    out.bytes.copy_from_slice(bytes);
    Ok(())
}

/// The length of a list of tensors, which an empty list of something else is not.
fn tensor_count(context: &KernelContext<'_>, at: usize) -> Result<usize, KernelError> {
    context.tensor_in_list(at, 0)?;
    context.list_len(at)
}

fn tensors(
    context: &KernelContext<'_>,
) -> Result<impl Iterator<Item = Result<TensorId, KernelError>>, KernelError> {
    let count = tensor_count(context, 0)?;
    Ok((0..count).map(move |i| {
        context
            .tensor_in_list(0, i)?
            .ok_or_else(|| KernelError::invalid("the list of tensors became shorter"))
    }))
}

/// Whether a tensor counts for nothing in a concatenation: one dimension without elements goes with any shape.
fn is_nothing(sizes: &[usize]) -> bool {
    sizes == [0]
}

fn cat(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let out = output(context, 2)?;
    let mut like = None;
    let mut dtype: Option<ScalarType> = None;
    for id in tensors(context)? {
        let meta = context.meta(id?);
        dtype = Some(dtype.map_or(meta.dtype(), |other| promote(other, meta.dtype())));
        if !is_nothing(meta.sizes()) && like.is_none() {
            like = Some(id_sizes(meta.sizes()));
        }
    }
    let dtype = dtype.ok_or_else(|| KernelError::invalid("a concatenation of no tensors"))?;
    crate::promote::expect_castable(dtype, context.meta(out).dtype())?;
    let Some(mut sizes) = like else {
        return context.resize(out, &[0]);
    };
    if sizes.is_empty() {
        return Err(KernelError::invalid(
            "tensors without dimensions cannot be concatenated",
        ));
    }
    let dim = dim_index("dimension", context.int(1)?, sizes.len())?;
    sizes[dim] = 0;
    for id in tensors(context)? {
        let own = context.meta(id?).sizes();
        if is_nothing(own) {
            continue;
        }
        let fits =
            own.len() == sizes.len() && (0..own.len()).all(|d| d == dim || own[d] == sizes[d]);
        let sum = fits.then(|| sizes[dim].checked_add(own[dim])).flatten();
        sizes[dim] = sum.ok_or_else(|| {
            KernelError::invalid(format!(
                "shape {own:?} cannot be joined to {sizes:?} along {dim}"
            ))
        })?;
    }
    dims::numel(&sizes)?;
    context.resize(out, &sizes)?;
    let mut start = 0;
    join(context, plan, out, dim, |_, meta| {
        if is_nothing(meta.sizes()) {
            return None;
        }
        let len = meta.sizes()[dim];
        start += len;
        Some(Slice::run(start - len, len))
    })
}

fn id_sizes(sizes: &[usize]) -> Sizes {
    sizes.into()
}

fn stack(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let out = output(context, 2)?;
    let count = tensor_count(context, 0)?;
    let mut sizes: Option<Sizes> = None;
    let mut dtype: Option<ScalarType> = None;
    for id in tensors(context)? {
        let meta = context.meta(id?);
        dtype = Some(dtype.map_or(meta.dtype(), |other| promote(other, meta.dtype())));
        match &sizes {
            None => sizes = Some(id_sizes(meta.sizes())),
            Some(sizes) if sizes[..] == *meta.sizes() => {}
            Some(sizes) => {
                return Err(KernelError::invalid(format!(
                    "shapes {sizes:?} and {:?} cannot be stacked",
                    meta.sizes()
                )));
            }
        }
    }
    let (Some(mut sizes), Some(dtype)) = (sizes, dtype) else {
        return Err(KernelError::invalid("a stack of no tensors"));
    };
    crate::promote::expect_castable(dtype, context.meta(out).dtype())?;
    let dim = dim_index("dimension", context.int(1)?, sizes.len() + 1)?;
    sizes.insert(dim, count);
    dims::numel(&sizes)?;
    context.resize(out, &sizes)?;
    join(context, plan, out, dim, |i, _| Some(Slice::index(i)))
}

/// The outputs of an operator that makes several: a list at `at`, which may be named once more.
fn part_output(
    context: &KernelContext<'_>,
    at: usize,
    part: usize,
) -> Result<TensorId, KernelError> {
    context
        .tensor_in_list(at, part)?
        .ok_or_else(|| KernelError::invalid("there are fewer outputs than parts"))
}

fn expect_outputs(context: &KernelContext<'_>, at: usize, parts: usize) -> Result<(), KernelError> {
    context.expect_arguments(at + 1..=at + 2)?;
    let outputs = tensor_count(context, at)?;
    if outputs == parts {
        return Ok(());
    }
    Err(KernelError::invalid(format!(
        "{parts} parts for {outputs} outputs"
    )))
}

/// Makes the outputs of list `at` copies of parts of `input` along `dim`.
fn take_apart(
    context: &mut KernelContext<'_>,
    mut plan: NewPlan<'_>,
    input: TensorId,
    at: usize,
    dim: usize,
    parts: usize,
    part: impl Fn(usize) -> Slice,
) -> Result<(), KernelError> {
    expect_outputs(context, at, parts)?;
    let mut shared = false;
    for i in 0..parts {
        let out = part_output(context, at, i)?;
        expect_same_dtype(context, out, input)?;
        part(i).resize(context, out, input, dim)?;
        shared |= overlap(context, out, input)?;
    }
    let view = |context: &KernelContext<'_>, i: usize| {
        let mut view = View::of(context.meta(input));
        part(i).cut(&mut view, dim);
        view
    };
    if !shared || parts == 1 {
        for i in 0..parts {
            let out = part_output(context, at, i)?;
            let walk = view::walk_whole(context.meta(out), &view(context, i));
            plan.add(context, out, input, walk)?;
        }
        return Ok(());
    }
    // The first must not be written over what is still to be read.
    let nbytes = context.meta(input).nbytes();
    let aside = scratch::<u8>(context.temp(), nbytes)?;
    let ([], [from]) = context.disjoint([], [input])?;
    aside.copy_from_slice(from.bytes);
    for i in 0..parts {
        let out = part_output(context, at, i)?;
        let view = view(context, i);
        let ([out], []) = context.disjoint([out], [])?;
        view::copy_whole(out, aside, &view)?;
    }
    Ok(())
}

fn split(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let part = dims::size("the size of a part", context.int(1)?)?;
    let (dim, size) = cut_dim(context, input, 2)?;
    if part == 0 && size > 0 {
        return Err(KernelError::invalid("parts of size 0"));
    }
    let parts = if part == 0 {
        1
    } else {
        size.div_ceil(part).max(1)
    };
    take_apart(context, plan, input, 3, dim, parts, |i| {
        let start = i * part;
        Slice::run(start, part.min(size - start))
    })
}

fn split_with_sizes(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, wanted) = (context.tensor(0)?, context.int_list(1)?);
    let sizes = dims::sizes("the size of a part", &wanted)?;
    let (dim, size) = cut_dim(context, input, 2)?;
    let sum = sizes
        .iter()
        .try_fold(0usize, |sum, &part| sum.checked_add(part));
    if sum != Some(size) {
        return Err(KernelError::invalid(format!(
            "parts {sizes:?} do not make up a size of {size}"
        )));
    }
    take_apart(context, plan, input, 3, dim, sizes.len(), |i| {
        Slice::run(sizes[..i].iter().sum(), sizes[i])
    })
}

fn unbind(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let (dim, size) = cut_dim(context, input, 1)?;
    take_apart(context, plan, input, 2, dim, size, Slice::index)
}

/// `constant_pad_nd(self, pad, value)`: pairs of paddings from the last dimension on; negative ones cut off.
fn pad(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, pad, value) = (context.tensor(0)?, context.int_list(1)?, context.scalar(2)?);
    let out = output(context, 3)?;
    expect_same_dtype(context, out, input)?;
    let element = element_bytes(context.meta(out).dtype(), value)?;
    let mut view = View::of(context.meta(input));
    let rank = view.sizes.len();
    if !pad.len().is_multiple_of(2) || pad.len() / 2 > rank {
        return Err(KernelError::invalid(format!(
            "{} paddings for {rank} dimensions",
            pad.len()
        )));
    }
    // Per dimension: where the input begins in the output, if it is cut or moved.
    let mut sizes = view.sizes.clone();
    let mut region_start = Sizes::from_elem(0, rank);
    for (i, pair) in pad.chunks_exact(2).enumerate() {
        let dim = rank - 1 - i;
        let size = sizes[dim] as i64;
        let padded = size
            .checked_add(pair[0])
            .and_then(|size| size.checked_add(pair[1]))
            .filter(|&size| size >= 0)
            .ok_or_else(|| KernelError::invalid("paddings that leave a negative size"))?;
        let cut = |by: i64| by.saturating_neg().max(0);
        let (start, end) = (cut(pair[0]).min(size), cut(pair[1]).min(size));
        let kept = (size - start - end).max(0) as usize;
        view.slice(dim, start as usize, 1, kept);
        region_start[dim] = if kept == 0 {
            0
        } else {
            pair[0].max(0) as usize
        };
        sizes[dim] = padded as usize;
    }
    dims::numel(&sizes)?;
    context.resize(out, &sizes)?;
    let ([mut out], [input]) = context.disjoint([out], [input])?;
    if view.sizes != sizes {
        word!(out.meta.dtype(), T => {
            fill(words_mut::<T>(&mut out)?, element);
            Ok(())
        })?;
    }
    let mut region = View::of(out.meta);
    for dim in 0..rank {
        region.slice(dim, region_start[dim], 1, view.sizes[dim]);
    }
    view::copy_region(out, &region, input.bytes, &view)
}

/// Copies the input to `out` and `source` over a part of it along `dim`.
fn scatter_part(
    context: &mut KernelContext<'_>,
    mut plan: NewPlan<'_>,
    out: TensorId,
    dim: usize,
    part: &Slice,
) -> Result<(), KernelError> {
    let (input, source) = (context.tensor(0)?, context.tensor(1)?);
    expect_same_dtype(context, out, input)?;
    let mut region = View::of(context.meta(input));
    part.cut(&mut region, dim);
    if region.sizes[..] != *context.meta(source).sizes() {
        return Err(KernelError::invalid(format!(
            "a source of shape {:?} for a part of shape {:?}",
            context.meta(source).sizes(),
            region.sizes
        )));
    }
    context.resize_like(out, input)?;
    let mut region = View::of(context.meta(out));
    part.cut(&mut region, dim);
    let (meta, of) = (context.meta(out), View::of(context.meta(source)));
    let walk = view::walk_region(meta, &region, &of);
    if overlap(context, out, source)? || context.meta(source).dtype() != meta.dtype() {
        let temp = context.temp();
        let (out, source) = copy_beside(context, out, input, source)?;
        return put(temp, out, source, dim, part);
    }
    let whole = view::walk_whole(meta, &View::of(context.meta(input)));
    plan.add(context, out, input, whole)?;
    plan.add(context, out, source, walk)
}

fn slice_scatter(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 6)?);
    let (dim, size) = cut_dim(context, input, 2)?;
    let (start, end) = (context.optional_int(3)?, context.optional_int(4)?);
    let part = Slice::new(size, start, end, context.int(5)?)?;
    scatter_part(context, plan, out, dim, &part)
}

fn select_scatter(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 4)?);
    let (dim, size) = cut_dim(context, input, 2)?;
    let index = index_into(size, context.int(3)?)?;
    scatter_part(context, plan, out, dim, &Slice::index(index))
}
