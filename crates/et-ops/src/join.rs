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
use crate::promote::promote;
use crate::shape::{Slice, index_into};
use crate::view::{self, View, expect_same_dtype, words_mut};

const ANY: ScalarTypeSet = MOVABLE;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::cat.out", ANY, cat),
    Kernel::new("aten::stack.out", ANY, stack),
    Kernel::new("aten::split_copy.Tensor_out", ANY, split),
    Kernel::new("aten::split_with_sizes_copy.out", ANY, split_with_sizes),
    Kernel::new("aten::unbind_copy.int_out", ANY, unbind),
    Kernel::new("aten::constant_pad_nd.out", NUMBERS, pad),
    Kernel::new("aten::slice_scatter.out", ANY, slice_scatter),
    Kernel::new("aten::select_scatter.out", ANY, select_scatter),
];

/// Copies `input` to a region of `out`. Elements are converted to the output's type.
fn put(
    temp: &Arena,
    out: TensorOut<'_>,
    input: TensorIn<'_>,
    region: &View,
) -> Result<(), KernelError> {
    let view = View::of(input.meta);
    let (from, to) = (input.meta.dtype(), out.meta.dtype());
    if from == to {
        return view::copy_region(out, region, input.bytes, &view);
    }
    let nbytes = input.meta.numel() * to.nbytes();
    // Aligned for any element: scratch memory is.
    let converted = scratch::<u8>(temp, nbytes)?;
    convert((from, input.bytes), (to, converted))?;
    view::copy_region(out, region, converted, &view)
}

/// Whether two tensors share bytes.
fn overlap(context: &KernelContext<'_>, a: TensorId, b: TensorId) -> Result<bool, KernelError> {
    let places = context.place(a)?.zip(context.place(b)?);
    Ok(places.is_some_and(|(a, b)| a.overlaps(&b)))
}

/// Copies the tensors of list 0 to regions of `out`; `region` says which, or that the tensor counts for nothing.
fn join(
    context: &mut KernelContext<'_>,
    out: TensorId,
    mut region: impl FnMut(usize, &TensorMeta, View) -> Option<View>,
) -> Result<(), KernelError> {
    let temp = context.temp();
    let mut shared = false;
    for id in tensors(context)? {
        shared |= overlap(context, out, id?)?;
    }
    // The first must not be written over what is still to be read.
    let mut aside = None;
    if shared {
        let meta = context.meta(out).clone();
        let bytes = scratch::<u8>(temp, meta.nbytes())?;
        aside = Some((meta, bytes));
    }
    for i in 0..tensor_count(context, 0)? {
        let Some(id) = context.tensor_in_list(0, i)? else {
            break;
        };
        let whole = View::of(context.meta(out));
        let Some(region) = region(i, context.meta(id), whole) else {
            continue;
        };
        if let Some((meta, bytes)) = &mut aside {
            let ([], [input]) = context.disjoint([], [id])?;
            put(temp, TensorOut { meta, bytes }, input, &region)?;
        } else {
            let ([out], [input]) = context.disjoint([out], [id])?;
            put(temp, out, input, &region)?;
        }
    }
    if let Some((_, bytes)) = aside {
        let ([out], []) = context.disjoint([out], [])?;
        out.bytes.copy_from_slice(bytes);
    }
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

fn cat(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
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
    join(context, out, |_, meta, whole| {
        if is_nothing(meta.sizes()) {
            return None;
        }
        let len = meta.sizes()[dim];
        start += len;
        Some(whole.slice(dim, start - len, 1, len))
    })
}

fn id_sizes(sizes: &[usize]) -> Sizes {
    sizes.into()
}

fn stack(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
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
    join(context, out, |i, _, whole| Some(whole.select(dim, i)))
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

/// Makes the outputs of list `at` copies of parts of `input`; `part` is a part's view of the whole.
fn take_apart(
    context: &mut KernelContext<'_>,
    input: TensorId,
    at: usize,
    parts: usize,
    part: impl Fn(usize, View) -> View,
) -> Result<(), KernelError> {
    expect_outputs(context, at, parts)?;
    let whole = View::of(context.meta(input));
    let mut shared = false;
    for i in 0..parts {
        let out = part_output(context, at, i)?;
        expect_same_dtype(context, out, input)?;
        context.resize(out, &part(i, whole.clone()).sizes)?;
        shared |= overlap(context, out, input)?;
    }
    if !shared || parts == 1 {
        for i in 0..parts {
            let out = part_output(context, at, i)?;
            view::copy(context, out, input, &part(i, whole.clone()))?;
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
        let ([out], []) = context.disjoint([out], [])?;
        let region = View::of(out.meta);
        view::copy_region(out, &region, aside, &part(i, whole.clone()))?;
    }
    Ok(())
}

fn split(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let part = dims::size("the size of a part", context.int(1)?)?;
    let (dim, size) = cut_dim(context, input)?;
    if part == 0 && size > 0 {
        return Err(KernelError::invalid("parts of size 0"));
    }
    let parts = if part == 0 {
        1
    } else {
        size.div_ceil(part).max(1)
    };
    take_apart(context, input, 3, parts, |i, whole| {
        let start = i * part;
        whole.slice(dim, start, 1, part.min(size - start))
    })
}

/// Argument 2 as a dimension of the input, and its size.
fn cut_dim(context: &KernelContext<'_>, input: TensorId) -> Result<(usize, usize), KernelError> {
    let meta = context.meta(input);
    let dim = dim_index("dimension", context.int(2)?, meta.rank())?;
    match meta.sizes().get(dim) {
        Some(&size) => Ok((dim, size)),
        None => Err(KernelError::invalid("the input has no dimension to cut")),
    }
}

fn split_with_sizes(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, wanted) = (context.tensor(0)?, context.int_list(1)?);
    let sizes = dims::sizes("the size of a part", &wanted)?;
    let (dim, size) = cut_dim(context, input)?;
    let sum = sizes
        .iter()
        .try_fold(0usize, |sum, &part| sum.checked_add(part));
    if sum != Some(size) {
        return Err(KernelError::invalid(format!(
            "parts {sizes:?} do not make up a size of {size}"
        )));
    }
    take_apart(context, input, 3, sizes.len(), |i, whole| {
        let start = sizes[..i].iter().sum();
        whole.slice(dim, start, 1, sizes[i])
    })
}

fn unbind(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let meta = context.meta(input);
    let dim = dim_index("dimension", context.int(1)?, meta.rank())?;
    let Some(&size) = meta.sizes().get(dim) else {
        return Err(KernelError::invalid("the input has no dimension to cut"));
    };
    take_apart(context, input, 2, size, |i, whole| whole.select(dim, i))
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
        view = view.slice(dim, start as usize, 1, kept);
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
        region = region.slice(dim, region_start[dim], 1, view.sizes[dim]);
    }
    view::copy_region(out, &region, input.bytes, &view)
}

/// Copies the input to `out` and `source` over a region of it.
fn scatter_view(
    context: &mut KernelContext<'_>,
    out: TensorId,
    region: impl Fn(View) -> View,
) -> Result<(), KernelError> {
    let (input, source) = (context.tensor(0)?, context.tensor(1)?);
    expect_same_dtype(context, out, input)?;
    let wanted = region(View::of(context.meta(input))).sizes;
    if wanted[..] != *context.meta(source).sizes() {
        return Err(KernelError::invalid(format!(
            "a source of shape {:?} for a part of shape {wanted:?}",
            context.meta(source).sizes()
        )));
    }
    let temp = context.temp();
    let (out, source) = copy_beside(context, out, input, source)?;
    let region = region(View::of(out.meta));
    put(temp, out, source, &region)
}

fn slice_scatter(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 6)?);
    let (dim, size) = cut_dim(context, input)?;
    let (start, end) = (context.optional_int(3)?, context.optional_int(4)?);
    let part = Slice::new(size, start, end, context.int(5)?)?;
    scatter_view(context, out, |view| part.of(view, dim))
}

fn select_scatter(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 4)?);
    let (dim, size) = cut_dim(context, input)?;
    let index = index_into(size, context.int(3)?)?;
    scatter_view(context, out, |view| view.select(dim, index))
}
