//! Channels made pixels, and pixels made channels.

use et_kernel::{Arguments, Kernel, KernelContext, KernelError, TensorId};

use crate::arguments::output;
use crate::dims::{self, Strides};
use crate::dispatch::MOVABLE;
use crate::plan::{NewPlan, keep, moving};
use crate::shape::times;
use crate::view::{self, View};

pub(crate) const KERNELS: &[Kernel] = &[
    moving("aten::pixel_shuffle.out", MOVABLE, |c| keep(c, shuffle)),
    moving("aten::pixel_unshuffle.out", MOVABLE, |c| keep(c, unshuffle)),
];

/// Channels `[.., c·f·f, h, w]` become pixels `[.., c, h·f, w·f]`.
fn shuffle(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, factor, out) = pixel_arguments(context)?;
    let of = View::of(context.meta(input));
    let rank = of.sizes.len();
    let [c, h, w] = last_three(&of.sizes);
    let square = factor
        .checked_mul(factor)
        .filter(|&square| c.is_multiple_of(square));
    let square = square.ok_or_else(|| {
        KernelError::invalid(format!(
            "{c} channels do not make pixels of factor {factor}"
        ))
    })?;
    let mut sizes = of.sizes.clone();
    sizes[rank - 3] = c / square;
    sizes[rank - 2] = h.saturating_mul(factor);
    sizes[rank - 1] = w.saturating_mul(factor);
    // Seen as [.., c, h, f, w, f] on both sides.
    let mut view = of.clone();
    let [cs, hs, ws] = last_three(&of.strides);
    view.sizes.truncate(rank - 3);
    view.strides.truncate(rank - 3);
    view.sizes.extend([c / square, h, factor, w, factor]);
    view.strides
        .extend([times(cs, square), hs, times(cs, factor), ws, cs]);
    copy_split(context, plan, out, input, &sizes, |[c, h, w]| {
        let inner = [c, times(h, factor), h, times(w, factor), w];
        (inner.into_iter().collect(), view)
    })
}

/// Pixels `[.., c, h·f, w·f]` become channels `[.., c·f·f, h, w]`.
fn unshuffle(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, factor, out) = pixel_arguments(context)?;
    let of = View::of(context.meta(input));
    let rank = of.sizes.len();
    let [c, h, w] = last_three(&of.sizes);
    if !h.is_multiple_of(factor) || !w.is_multiple_of(factor) {
        return Err(KernelError::invalid(format!(
            "{h} by {w} pixels do not divide by {factor}"
        )));
    }
    let mut sizes = of.sizes.clone();
    sizes[rank - 3] = c.saturating_mul(factor).saturating_mul(factor);
    sizes[rank - 2] = h / factor;
    sizes[rank - 1] = w / factor;
    // Seen as [.., c, f, f, h, w] on both sides.
    let mut view = of.clone();
    let [cs, hs, ws] = last_three(&of.strides);
    view.sizes.truncate(rank - 3);
    view.strides.truncate(rank - 3);
    view.sizes
        .extend([c, factor, factor, h / factor, w / factor]);
    view.strides
        .extend([cs, hs, ws, times(hs, factor), times(ws, factor)]);
    copy_split(context, plan, out, input, &sizes, |[c, h, w]| {
        let row = times(c, factor);
        let inner = [times(row, factor), row, c, h, w];
        (inner.into_iter().collect(), view)
    })
}

/// What is said of channels, rows and columns.
fn last_three<T: Copy>(dims: &[T]) -> [T; 3] {
    let last = dims.last_chunk();
    *last.expect("`pixel_arguments` saw 3 dimensions, and outputs keep their rank")
}

fn pixel_arguments(
    context: &KernelContext<'_>,
) -> Result<(TensorId, usize, TensorId), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 2)?);
    let factor = dims::size("the factor", context.int(1)?)?;
    if factor == 0 || context.meta(input).rank() < 3 {
        return Err(KernelError::invalid(
            "pixels need 3 dimensions and a factor above 0",
        ));
    }
    Ok((input, factor, out))
}

/// Resizes `out` to `sizes` and copies a view whose last 3 dimensions are seen as 5 on both sides. `split` is given the
/// output's strides of the 3 and returns those of the 5, and the view.
fn copy_split(
    context: &mut KernelContext<'_>,
    mut plan: NewPlan<'_>,
    out: TensorId,
    input: TensorId,
    sizes: &[usize],
    split: impl FnOnce([isize; 3]) -> (Strides, View),
) -> Result<(), KernelError> {
    view::expect_same_dtype(context, out, input)?;
    dims::numel(sizes)?;
    context.resize(out, sizes)?;
    let mut region = View::of(context.meta(out));
    let rank = region.strides.len();
    let (inner, view) = split(last_three(&region.strides));
    region.strides.truncate(rank - 3);
    region.strides.extend(inner);
    region.sizes.clone_from(&view.sizes);
    let walk = view::walk_region(context.meta(out), &region, &view);
    plan.add(context, out, input, walk)
}
