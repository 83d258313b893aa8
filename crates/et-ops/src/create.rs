//! Operators that make tensors out of numbers.

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, RunFn, Scalar, ScalarTypeSet, TensorId,
};

use crate::arguments::output;
use crate::convert::{element_bytes, fill, write_compute};
use crate::dims::{self, Sizes};
use crate::dispatch::{NUMBERS, compute, word};
use crate::memo;
use crate::number::Number;
use crate::view::words_mut;

const ALL: ScalarTypeSet = NUMBERS;

pub(crate) const KERNELS: &[Kernel] = &[
    filling("aten::full.out", |c| {
        fill_with(c, |c| Ok((output(c, 2)?, sizes(c, 0)?, c.scalar(1)?)))
    }),
    filling("aten::full_like.out", |c| {
        fill_with(c, |c| Ok((output(c, 3)?, sizes_of(c, 0)?, c.scalar(1)?)))
    }),
    filling("aten::zeros.out", |c| {
        fill_with(c, |c| Ok((output(c, 1)?, sizes(c, 0)?, Scalar::Int(0))))
    }),
    filling("aten::ones.out", |c| {
        fill_with(c, |c| Ok((output(c, 1)?, sizes(c, 0)?, Scalar::Int(1))))
    }),
    filling("aten::zeros_like.out", |c| {
        fill_with(c, |c| Ok((output(c, 2)?, sizes_of(c, 0)?, Scalar::Int(0))))
    }),
    filling("aten::ones_like.out", |c| {
        fill_with(c, |c| Ok((output(c, 2)?, sizes_of(c, 0)?, Scalar::Int(1))))
    }),
    // What an empty tensor holds is unspecified; zeros are as good as anything.
    filling("aten::empty.out", |c| {
        fill_with(c, |c| Ok((output(c, 2)?, sizes(c, 0)?, Scalar::Int(0))))
    }),
    filling("dim_order_ops::_empty_dim_order.out", |c| {
        fill_with(c, |c| Ok((output(c, 2)?, sizes(c, 0)?, Scalar::Int(0))))
    }),
    filling("aten::scalar_tensor.out", |c| {
        fill_with(c, |c| Ok((output(c, 1)?, Sizes::new(), c.scalar(0)?)))
    }),
    filling("aten::fill.Scalar_out", |c| {
        fill_with(c, |c| Ok((output(c, 2)?, sizes_of(c, 0)?, c.scalar(1)?)))
    }),
    Kernel::new(
        "aten::fill.Tensor_out",
        ScalarTypeSet::REAL_AND_BOOL,
        fill_tensor,
    ),
    Kernel::new("aten::arange.out", ScalarTypeSet::REAL_AND_BOOL, |c| {
        let out = output(c, 1)?;
        count_up(c, out, Scalar::Int(0), c.scalar(0)?, Scalar::Int(1))
    }),
    Kernel::new(
        "aten::arange.start_out",
        ScalarTypeSet::REAL_AND_BOOL,
        |c| {
            let out = output(c, 3)?;
            count_up(c, out, c.scalar(0)?, c.scalar(1)?, c.scalar(2)?)
        },
    ),
];

fn sizes(context: &KernelContext<'_>, at: usize) -> Result<Sizes, KernelError> {
    let sizes = dims::sizes("size", &context.int_list(at)?)?;
    dims::numel(&sizes)?;
    Ok(sizes)
}

fn sizes_of(context: &KernelContext<'_>, at: usize) -> Result<Sizes, KernelError> {
    Ok(context.meta(context.tensor(at)?).sizes().into())
}

/// A kernel that keeps a [`Filling`].
const fn filling(name: &'static str, run: RunFn) -> Kernel {
    Kernel::new(name, ALL, run).with_prepare(memo::prepare::<Filling>)
}

/// An output and the bytes of the element that it is made of.
struct Filling {
    out: TensorId,
    element: [u8; 8],
}

/// Makes an output of a shape and all of one number.
fn fill_with(
    context: &mut KernelContext<'_>,
    read: impl FnOnce(&KernelContext<'_>) -> Result<(TensorId, Sizes, Scalar), KernelError>,
) -> Result<(), KernelError> {
    let make = |context: &mut KernelContext<'_>| {
        let (out, sizes, number) = read(context)?;
        context.resize(out, &sizes)?;
        let element = element_bytes(context.meta(out).dtype(), number)?;
        Ok(Filling { out, element })
    };
    memo::keep(context, make, |context, filling| {
        let ([mut out], []) = context.disjoint([filling.out], [])?;
        word!(out.meta.dtype(), T => {
            fill(words_mut::<T>(&mut out)?, filling.element);
            Ok(())
        })
    })
}

fn fill_tensor(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (sizes, value, out) = (
        sizes_of(context, 0)?,
        context.tensor(1)?,
        output(context, 2)?,
    );
    if context.meta(value).numel() != 1 {
        return Err(KernelError::invalid(
            "the value to fill with is not one element",
        ));
    }
    context.resize(out, &sizes)?;
    compute!(real_and_bool, "the output", context.meta(out).dtype(), C => {
        crate::elementwise::walk(context, out, [value], &|[x]: [&[C]; 1], to: &mut [C]| {
            to.copy_from_slice(x);
        })
    })
}

/// `start`, `start + step`, … up to but without `end`.
fn count_up(
    context: &mut KernelContext<'_>,
    out: TensorId,
    start: Scalar,
    end: Scalar,
    step: Scalar,
) -> Result<(), KernelError> {
    let len = match (start, end, step) {
        (Scalar::Int(start), Scalar::Int(end), Scalar::Int(step)) => whole_steps(start, end, step),
        _ => fraction_steps(start.to_f64(), end.to_f64(), step.to_f64()),
    };
    let len = len.ok_or_else(|| {
        KernelError::invalid("arange whose step leads away from its end, or nowhere")
    })?;
    context.resize(out, &[len])?;
    let temp = context.temp();
    let ([out], []) = context.disjoint([out], [])?;
    compute!(real_and_bool, "the output", out.meta.dtype(), C => {
        write_compute::<C>(temp, out, |to| {
            for (i, to) in to.iter_mut().enumerate() {
                *to = nth::<C>(start, step, i);
            }
            Ok(())
        })
    })
}

fn whole_steps(start: i64, end: i64, step: i64) -> Option<usize> {
    let (distance, step) = (i128::from(end) - i128::from(start), i128::from(step));
    if step == 0 || distance.signum() * step.signum() < 0 {
        return None;
    }
    let (distance, step) = (distance.unsigned_abs(), step.unsigned_abs());
    usize::try_from(distance.div_ceil(step)).ok()
}

fn fraction_steps(start: f64, end: f64, step: f64) -> Option<usize> {
    let steps = (end - start) / step;
    // Whatever is no number fails both comparisons; less than nothing is not rounded to nothing.
    (steps >= 0.0 && steps < isize::MAX as f64).then_some(steps.ceil() as usize)
}

/// Counted in whole numbers where the output is, else in floating point numbers of full width.
fn nth<C: Number>(start: Scalar, step: Scalar, i: usize) -> C {
    match (start, step) {
        (Scalar::Double(_), _) | (_, Scalar::Double(_)) => {
            C::from_f64(start.to_f64() + i as f64 * step.to_f64())
        }
        _ => C::from_i64(
            start
                .to_i64()
                .wrapping_add((i as i64).wrapping_mul(step.to_i64())),
        ),
    }
}
