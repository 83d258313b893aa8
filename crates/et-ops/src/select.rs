//! Operators that keep some elements: triangles of matrices, elements under a mask, halves by gates.

use et_kernel::{
    Arguments, Bool8, EValue, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet,
};

use crate::arguments::{output, two_outputs};
use crate::convert::{as_compute, write_compute};
use crate::copies::convert_to;
use crate::dims::{self, Sizes, Walk, broadcast_strides, dim_index};
use crate::dispatch::{INDEX, MOVABLE, compute, expect_dtype, word};
use crate::elementwise::scratch;
use crate::number::{Compute, Float};
use crate::plan::NewPlan;
use crate::view::{expect_same_dtype, words, words_mut};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::tril.out", MOVABLE, |c| triangle(c, true)),
    Kernel::new("aten::triu.out", MOVABLE, |c| triangle(c, false)),
    Kernel::new("aten::masked_select.out", MOVABLE, masked_select),
    Kernel::new("aten::masked_scatter.out", MOVABLE, masked_scatter),
    Kernel::new(
        "aten::repeat_interleave.Tensor_out",
        INDEX,
        repeat_interleave,
    ),
    Kernel::new("aten::glu.out", ScalarTypeSet::FLOATING, gated),
    Kernel::new("aten::native_dropout.out", ScalarTypeSet::FLOATING, dropout),
];

/// `tril(self, diagonal)`: zeros above the diagonal; `triu`: below.
fn triangle(context: &mut KernelContext<'_>, lower: bool) -> Result<(), KernelError> {
    let (input, diagonal, out) = (context.tensor(0)?, context.int(1)?, output(context, 2)?);
    expect_same_dtype(context, out, input)?;
    let rank = context.meta(input).rank();
    if rank < 2 {
        return Err(KernelError::invalid(
            "a triangle of a tensor of less than 2 dimensions",
        ));
    }
    convert_to(context, NewPlan::UNKEPT, out, input)?;
    let ([mut out], []) = context.disjoint([out], [])?;
    let meta = out.meta;
    let (sizes, strides) = (meta.sizes(), meta.strides());
    let (rows, columns) = (sizes[rank - 2], sizes[rank - 1]);
    let [row_stride, column_stride] = [strides[rank - 2], strides[rank - 1]];
    let batch = Walk::new((0..rank - 2).map(|d| (sizes[d], [strides[d] as isize])));
    // The first column of a row that is above the diagonal.
    let above = |row: usize| {
        let first = (row as i64).saturating_add(diagonal).saturating_add(1);
        first.clamp(0, columns as i64) as usize
    };
    let below = |row: usize| {
        let first = (row as i64).saturating_add(diagonal);
        first.clamp(0, columns as i64) as usize
    };
    word!(meta.dtype(), T => {
        let to = words_mut::<T>(&mut out)?;
        if to.is_empty() {
            return Ok(());
        }
        batch.each(|[start]| {
            for row in 0..rows {
                let cleared = if lower { above(row)..columns } else { 0..below(row) };
                for column in cleared {
                    to[start as usize + row * row_stride + column * column_stride] = 0;
                }
            }
            Ok(())
        })
    })
}

/// Where two tensors that are broadcast together are, element by element in index order.
fn together(
    context: &KernelContext<'_>,
    ids: [et_kernel::TensorId; 2],
) -> Result<(Sizes, Walk<2>), KernelError> {
    let metas = ids.map(|id| context.meta(id));
    let sizes = dims::broadcast(metas.map(|meta| meta.sizes()))?;
    let [a, b] = [
        broadcast_strides(metas[0], &sizes)?,
        broadcast_strides(metas[1], &sizes)?,
    ];
    let walk = Walk::new((0..sizes.len()).map(|d| (sizes[d], [a[d], b[d]])));
    Ok((sizes, walk))
}

const TRUTH: ScalarTypeSet = ScalarTypeSet::of(&[ScalarType::Bool]);

/// `masked_select(self, mask)`: the elements where the mask is true, in index order.
fn masked_select(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, mask, out) = (context.tensor(0)?, context.tensor(1)?, output(context, 2)?);
    expect_same_dtype(context, out, input)?;
    expect_dtype("the mask", context.meta(mask).dtype(), TRUTH)?;
    let (_, walk) = together(context, [input, mask])?;
    let ([], [truths]) = context.disjoint([], [mask])?;
    let mut count = 0;
    walk.each(|[_, at]| {
        count += usize::from(truths.bytes[at as usize] != 0);
        Ok::<_, KernelError>(())
    })?;
    context.resize(out, &[count])?;
    let ([mut out], [input, mask]) = context.disjoint([out], [input, mask])?;
    word!(out.meta.dtype(), T => {
        let (to, from) = (words_mut::<T>(&mut out)?, words::<T>(input.bytes)?);
        let mut to = to.iter_mut();
        walk.each(|[at, truth]| {
            if mask.bytes[truth as usize] != 0
                && let Some(to) = to.next()
            {
                *to = from[at as usize];
            }
            Ok(())
        })
    })
}

/// `masked_scatter(self, mask, source)`: the source's elements one after the other where the mask is true.
fn masked_scatter(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let [input, mask, source] = [context.tensor(0)?, context.tensor(1)?, context.tensor(2)?];
    let out = output(context, 3)?;
    expect_same_dtype(context, out, input)?;
    expect_same_dtype(context, out, source)?;
    expect_dtype("the mask", context.meta(mask).dtype(), TRUTH)?;
    let (sizes, walk) = together(context, [input, mask])?;
    context.resize(out, &sizes)?;
    let temp = context.temp();
    let ([mut out], [input, mask, source]) = context.disjoint([out], [input, mask, source])?;
    let places = dims::strides(out.meta);
    let out_walk = Walk::new((0..sizes.len()).map(|d| (sizes[d], [places[d]])));
    let source = crate::view::dense_copy(temp, source)?;
    word!(out.meta.dtype(), T => {
        let (to, from) = (words_mut::<T>(&mut out)?, words::<T>(input.bytes)?);
        // Positions of the output, in the same order.
        let positions = scratch::<u64>(temp, to.len())?;
        let mut next = positions.iter_mut();
        out_walk.each(|[at]| {
            if let Some(position) = next.next() {
                *position = at as u64;
            }
            Ok::<_, KernelError>(())
        })?;
        let (mut positions, mut source) = (positions.iter(), words::<T>(source)?.iter());
        walk.each(|[at, truth]| {
            let Some(position) = positions.next() else {
                return Ok(());
            };
            to[*position as usize] = if mask.bytes[truth as usize] == 0 {
                from[at as usize]
            } else {
                *source.next().ok_or_else(|| {
                    KernelError::invalid("the source has fewer elements than the mask takes")
                })?
            };
            Ok(())
        })
    })
}

/// `repeat_interleave(repeats)`: each index as often as its element says.
fn repeat_interleave(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (repeats, out) = (context.tensor(0)?, output(context, 2)?);
    let wanted = context.optional_int(1)?;
    expect_dtype("the repeats", context.meta(repeats).dtype(), INDEX)?;
    expect_same_dtype(context, out, repeats)?;
    if context.meta(repeats).rank() != 1 {
        return Err(KernelError::invalid("repeats of other than one dimension"));
    }
    let temp = context.temp();
    let ([], [input]) = context.disjoint([], [repeats])?;
    let counts = scratch::<i64>(temp, input.meta.numel())?;
    counts.copy_from_slice(as_compute::<i64>(temp, input)?);
    let total = counts.iter().try_fold(0usize, |sum, &count| {
        sum.checked_add(usize::try_from(count).ok()?)
    });
    let total = total
        .filter(|&total| wanted.is_none_or(|wanted| usize::try_from(wanted) == Ok(total)))
        .ok_or_else(|| KernelError::invalid("repeats that are negative, or not as many as said"))?;
    context.resize(out, &[total])?;
    let ([out], []) = context.disjoint([out], [])?;
    write_compute::<i64>(temp, out, |to| {
        let mut start = 0;
        for (i, &count) in counts.iter().enumerate() {
            // Their sum is the number of elements.
            let end = start + count as usize;
            to[start..end].fill(i as i64);
            start = end;
        }
        Ok(())
    })
}

/// `glu(self, dim)`: the first half times the sigmoid of the second.
fn gated(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 2)?);
    expect_same_dtype(context, out, input)?;
    if out == input {
        // Its new shape would be the input's as well.
        return Err(KernelError::invalid(
            "a gate of half the size in place of its input",
        ));
    }
    let mut sizes: Sizes = context.meta(input).sizes().into();
    let dim = dim_index("dimension", context.int(1)?, sizes.len())?;
    match sizes.get_mut(dim) {
        Some(size) if size.is_multiple_of(2) => *size /= 2,
        _ => return Err(KernelError::invalid("a gate for a dimension of odd size")),
    }
    context.resize(out, &sizes)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let (own, of) = (out.meta, input.meta);
    let gate = sizes[dim] * of.strides()[dim];
    let walk = Walk::new(own.dim_order().iter().map(|&d| {
        let d = usize::from(d);
        (
            sizes[d],
            [own.strides()[d] as isize, of.strides()[d] as isize],
        )
    }));
    compute!(floating, "the input", of.dtype(), C => {
        let from = as_compute::<C>(temp, input)?;
        write_compute::<C>(temp, out, |to| walk.each(|[at, source]| {
            let (x, gate) = (from[source as usize], from[source as usize + gate]);
            let opening = C::one().plus(C::zero().minus(gate).exp());
            to[at as usize] = x.over(opening);
            Ok(())
        }))
    })
}

/// `native_dropout(input, p, train, out, mask)` of a model that is not in training: nothing is dropped.
fn dropout(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, [out, mask]) = (context.tensor(0)?, two_outputs(context, 3)?);
    context.double(1)?;
    let training = !matches!(context.value(2)?, EValue::None) && context.boolean(2)?;
    if training {
        return Err(KernelError::invalid(
            "dropout in training, which takes random numbers",
        ));
    }
    let floating = ScalarTypeSet::FLOATING;
    expect_dtype("the input", context.meta(input).dtype(), floating)?;
    expect_same_dtype(context, out, input)?;
    expect_dtype("the mask", context.meta(mask).dtype(), TRUTH)?;
    convert_to(context, NewPlan::UNKEPT, out, input)?;
    context.resize_like(mask, input)?;
    let ([mut mask], []) = context.disjoint([mask], [])?;
    mask.elements_mut::<Bool8>()?.fill(Bool8(1));
    Ok(())
}
