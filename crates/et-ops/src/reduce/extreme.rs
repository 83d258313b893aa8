//! Where the largest or smallest element is.

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet, TensorId, TensorMeta,
};

use super::Along;
use crate::arguments::{output, two_outputs};
use crate::convert::{as_compute, write_compute};
use crate::dims::{DimSet, dim_index};
use crate::dispatch::{INDEX, compute, expect_dtype};
use crate::number::{Compute, Number};
use crate::view::{Lines, View, dense_copy, expect_same_dtype, words};

const ALL: ScalarTypeSet = ScalarTypeSet::REAL_AND_BOOL;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::argmax.out", ALL, |c| position(c, true)),
    Kernel::new("aten::argmin.out", ALL, |c| position(c, false)),
    Kernel::new("aten::max.dim_max", ALL, |c| both(c, true)),
    Kernel::new("aten::min.dim_min", ALL, |c| both(c, false)),
];

/// The best element so far and where it is. What is no number is better than any number; of equals the first is best.
#[derive(Clone, Copy)]
struct Best<C> {
    value: C,
    index: usize,
}

impl<C: Compute> Best<C> {
    fn of(len: usize, largest: bool, at: impl Fn(usize) -> C) -> Self {
        let mut best = Self {
            value: at(0),
            index: 0,
        };
        for index in 1..len {
            let value = at(index);
            let better = if largest {
                best.value.less(value)
            } else {
                value.less(best.value)
            };
            if (better || value.is_nan()) && !best.value.is_nan() {
                best = Self { value, index };
            }
        }
        best
    }
}

/// `argmax(self, dim, keepdim, out)`.
fn position(context: &mut KernelContext<'_>, largest: bool) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 3)?);
    let keep = context.boolean(2)?;
    expect_dtype("the output", context.meta(out).dtype(), INDEX)?;
    let Some(dim) = context.optional_int(1)? else {
        return position_of_all(context, input, out, keep, largest);
    };
    let dim = dim_index("dimension", dim, context.meta(input).rank())?;
    let along = Along {
        dims: DimSet::one(dim),
        keep,
    };
    let sizes = along.sizes(context.meta(input).sizes());
    expect_some(context, input, dim, &sizes)?;
    context.resize(out, &sizes)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let lines = Lines::new([&with_dim(out.meta, dim, keep), &View::of(input.meta)], dim);
    compute!(real_and_bool, "the input", input.meta.dtype(), C => {
        let elements = as_compute::<C>(temp, input)?;
        write_compute::<i64>(temp, out, |out| {
            lines.each(|[to, at], [_, step], len| {
                let best = Best::of(len, largest, |i| elements[(at + step * i as isize) as usize]);
                out[to as usize] = best.index as i64;
                Ok(())
            })
        })
    })
}

/// The position among all elements, in index order.
fn position_of_all(
    context: &mut KernelContext<'_>,
    input: TensorId,
    out: TensorId,
    keep: bool,
    largest: bool,
) -> Result<(), KernelError> {
    let meta = context.meta(input);
    let along = Along {
        dims: DimSet::all(meta.rank()),
        keep,
    };
    let sizes = along.sizes(meta.sizes());
    if meta.numel() == 0 {
        return Err(KernelError::invalid(
            "the position of the largest or smallest of no elements",
        ));
    }
    context.resize(out, &sizes)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let dense = dense_copy(temp, input)?;
    let index = crate::dispatch::element!("the input", input.meta.dtype(), T => {
        let elements = words::<T>(dense)?;
        Ok(first_best(elements, largest))
    })?;
    write_compute::<i64>(temp, out, |out| {
        out.fill(index as i64);
        Ok(())
    })
}

fn first_best<T: Number>(elements: &[T], largest: bool) -> usize {
    if T::DTYPE.is_floating() {
        Best::of(elements.len(), largest, |i| elements[i].cast::<f64>()).index
    } else {
        Best::of(elements.len(), largest, |i| elements[i].cast::<i64>()).index
    }
}

/// `max(self, dim, keepdim, values, indices)`.
fn both(context: &mut KernelContext<'_>, largest: bool) -> Result<(), KernelError> {
    let (input, [values, indices]) = (context.tensor(0)?, two_outputs(context, 3)?);
    expect_same_dtype(context, values, input)?;
    expect_dtype(
        "the indices",
        context.meta(indices).dtype(),
        ScalarTypeSet::of(&[ScalarType::Long]),
    )?;
    let dim = dim_index("dimension", context.int(1)?, context.meta(input).rank())?;
    let along = Along {
        dims: DimSet::one(dim),
        keep: context.boolean(2)?,
    };
    let sizes = along.sizes(context.meta(input).sizes());
    expect_some(context, input, dim, &sizes)?;
    context.resize(values, &sizes)?;
    context.resize(indices, &sizes)?;
    let temp = context.temp();
    let ([values, mut indices], [input]) = context.disjoint([values, indices], [input])?;
    let [values_view, indices_view] =
        [values.meta, indices.meta].map(|meta| with_dim(meta, dim, along.keep));
    let lines = Lines::new([&values_view, &indices_view, &View::of(input.meta)], dim);
    let indices = indices.elements_mut::<i64>()?;
    compute!(real_and_bool, "the input", input.meta.dtype(), C => {
        let elements = as_compute::<C>(temp, input)?;
        write_compute::<C>(temp, values, |values| {
            lines.each(|[value_at, index_at, at], [_, _, step], len| {
                let best = Best::of(len, largest, |i| elements[(at + step * i as isize) as usize]);
                values[value_at as usize] = best.value;
                indices[index_at as usize] = best.index as i64;
                Ok(())
            })
        })
    })
}

/// There must be something to choose from, unless nothing is to be chosen.
fn expect_some(
    context: &KernelContext<'_>,
    input: TensorId,
    dim: usize,
    sizes: &[usize],
) -> Result<(), KernelError> {
    let len = context.meta(input).sizes().get(dim).copied().unwrap_or(1);
    if len == 0 && sizes.iter().all(|&size| size > 0) {
        return Err(KernelError::invalid(
            "the position of the largest or smallest of no elements",
        ));
    }
    Ok(())
}

/// An output in which `dim` may be missing, seen with one index there.
fn with_dim(meta: &TensorMeta, dim: usize, keep: bool) -> View {
    let mut view = View::of(meta);
    if !keep {
        view.insert(dim.min(meta.rank()), 1, 0);
    }
    view
}
