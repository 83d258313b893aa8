//! Copies, to another element type or dimension order too.

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, ScalarTypeSet, TensorId, TensorIn, TensorOut,
};

use crate::arguments::output;
use crate::convert::convert;
use crate::dispatch::{MOVABLE, compute, expect_dtype};
use crate::elementwise::walk;
use crate::plan::{NewPlan, keep, moving};
use crate::view::{self, View};

const ALL: ScalarTypeSet = ScalarTypeSet::REAL_AND_BOOL;

pub(crate) const KERNELS: &[Kernel] = &[
    moving("aten::clone.out", MOVABLE, |c| copy(c, 2)),
    moving("aten::_to_copy.out", MOVABLE, |c| copy(c, 3)),
    moving("dim_order_ops::_clone_dim_order.out", MOVABLE, |c| {
        copy(c, 3)
    }),
    moving("dim_order_ops::_to_dim_order_copy.out", MOVABLE, |c| {
        copy(c, 3)
    }),
    Kernel::new("aten::copy.out", ALL, |c| {
        let (like, source, out) = (c.tensor(0)?, c.tensor(1)?, output(c, 3)?);
        copy_over(c, NewPlan::UNKEPT, out, like, source)
    }),
    moving("aten::copy_", ALL, |c| {
        keep(c, |c, plan| {
            c.expect_arguments(3..=4)?;
            let (out, source) = (c.tensor(0)?, c.tensor(1)?);
            copy_over(c, plan, out, out, source)
        })
    }),
];

/// The output says which element type and dimension order the copy has.
fn copy(context: &mut KernelContext<'_>, out_at: usize) -> Result<(), KernelError> {
    keep(context, |context, plan| {
        let (input, out) = (context.tensor(0)?, output(context, out_at)?);
        convert_to(context, plan, out, input)
    })
}

/// Makes `out` the same as `input` in its own element type and dimension order.
pub(crate) fn convert_to(
    context: &mut KernelContext<'_>,
    plan: NewPlan<'_>,
    out: TensorId,
    input: TensorId,
) -> Result<(), KernelError> {
    if context.meta(out).dtype() == context.meta(input).dtype() {
        let view = View::of(context.meta(input));
        return plan.copy(context, out, input, &view);
    }
    context.resize_like(out, input)?;
    convert_elements(context, out, input)
}

/// Makes `out` the same as `input`, of the same type, and lends it along with `source` as that was before: `source` may lie over
/// the output, and the output may be the input.
pub(crate) fn copy_beside<'c>(
    context: &'c mut KernelContext<'_>,
    out: TensorId,
    input: TensorId,
    source: TensorId,
) -> Result<(TensorOut<'c>, TensorIn<'c>), KernelError> {
    view::expect_same_dtype(context, out, input)?;
    context.resize_like(out, input)?;
    let in_place = context.place(out)? == context.place(input)?
        && context.meta(out).dim_order() == context.meta(input).dim_order();
    if in_place {
        let ([out], [source]) = context.disjoint([out], [source])?;
        return Ok((out, source));
    }
    let ([out], [input, source]) = context.disjoint([out], [input, source])?;
    let to = TensorOut {
        meta: out.meta,
        bytes: &mut *out.bytes,
    };
    view::copy_region(to, &View::of(out.meta), input.bytes, &View::of(input.meta))?;
    Ok((out, source))
}

/// `source`, broadcast to the shape of `like`, in the element type of `out`.
fn copy_over(
    context: &mut KernelContext<'_>,
    plan: NewPlan<'_>,
    out: TensorId,
    like: TensorId,
    source: TensorId,
) -> Result<(), KernelError> {
    if context.meta(like).sizes() == context.meta(source).sizes() {
        return convert_to(context, plan, out, source);
    }
    context.resize_like(out, like)?;
    convert_elements(context, out, source)
}

/// The output has its shape, which the input's broadcasts to.
fn convert_elements(
    context: &mut KernelContext<'_>,
    out: TensorId,
    input: TensorId,
) -> Result<(), KernelError> {
    expect_dtype("the output", context.meta(out).dtype(), ALL)?;
    if context.meta(out).is_laid_out_as(context.meta(input)) {
        let ([out], [input]) = context.disjoint([out], [input])?;
        return convert(
            (input.meta.dtype(), input.bytes),
            (out.meta.dtype(), out.bytes),
        );
    }
    compute!(real_and_bool, "the output", context.meta(out).dtype(), C => {
        walk(context, out, [input], &|[x]: [&[C]; 1], to: &mut [C]| to.copy_from_slice(x))
    })
}
