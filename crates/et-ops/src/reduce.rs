//! Operators that make one number of many, along some dimensions.

mod extreme;
mod fold;

use et_kernel::{
    Arguments, Bool8, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet, TensorId,
    TensorIn, TensorOut,
};
use et_memory::Arena;

use crate::arguments::{output, two_outputs};
use crate::convert::{as_compute, write_compute};
use crate::dims::{DimSet, Sizes, Walk, dim_index, dim_set};
use crate::dispatch::{NUMBERS, REAL, compute, expect_dtype};
use crate::number::{Compute, Number};
use crate::view::expect_same_dtype;
use fold::{All, Any, Deviation, Deviations, Fold, Least, Most, Product, Sum};

pub(crate) use extreme::KERNELS as EXTREME_KERNELS;
pub(crate) use fold::lanes;

const ALL: ScalarTypeSet = ScalarTypeSet::REAL_AND_BOOL;
const FLOATING: ScalarTypeSet = ScalarTypeSet::FLOATING;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::sum.IntList_out", NUMBERS, |c| {
        let out = output(c, 4)?;
        total(c, out, Along::listed(c, 1, 2)?, Total::Sum)
    }),
    Kernel::new("aten::sum.out", NUMBERS, |c| {
        let out = output(c, 2)?;
        total(c, out, Along::everything(c)?, Total::Sum)
    }),
    Kernel::new("aten::mean.out", FLOATING, |c| {
        let out = output(c, 4)?;
        total(c, out, Along::listed(c, 1, 2)?, Total::Mean)
    }),
    Kernel::new("aten::mean.dtype_out", FLOATING, |c| {
        let out = output(c, 2)?;
        total(c, out, Along::everything(c)?, Total::Mean)
    }),
    Kernel::new("aten::prod.int_out", NUMBERS, |c| {
        let out = output(c, 4)?;
        total(c, out, Along::one(c, 1, 2)?, Total::Product)
    }),
    Kernel::new("aten::prod.out", NUMBERS, |c| {
        let out = output(c, 2)?;
        total(c, out, Along::everything(c)?, Total::Product)
    }),
    Kernel::new("aten::amax.out", ALL, |c| {
        let out = output(c, 3)?;
        most(c, out, Along::listed(c, 1, 2)?, true)
    }),
    Kernel::new("aten::amin.out", ALL, |c| {
        let out = output(c, 3)?;
        most(c, out, Along::listed(c, 1, 2)?, false)
    }),
    Kernel::new("aten::max.unary_out", ALL, |c| {
        let out = output(c, 1)?;
        most(c, out, Along::everything(c)?, true)
    }),
    Kernel::new("aten::min.unary_out", ALL, |c| {
        let out = output(c, 1)?;
        most(c, out, Along::everything(c)?, false)
    }),
    Kernel::new("aten::any.out", ALL, |c| {
        let out = output(c, 3)?;
        truth(c, out, Along::one(c, 1, 2)?, true)
    }),
    Kernel::new("aten::any.dims_out", ALL, |c| {
        let out = output(c, 3)?;
        truth(c, out, Along::listed(c, 1, 2)?, true)
    }),
    Kernel::new("aten::any.all_out", ALL, |c| {
        let out = output(c, 1)?;
        truth(c, out, Along::everything(c)?, true)
    }),
    Kernel::new("aten::all.out", ALL, |c| {
        let out = output(c, 3)?;
        truth(c, out, Along::one(c, 1, 2)?, false)
    }),
    Kernel::new("aten::all.dims_out", ALL, |c| {
        let out = output(c, 3)?;
        truth(c, out, Along::listed(c, 1, 2)?, false)
    }),
    Kernel::new("aten::all.all_out", ALL, |c| {
        let out = output(c, 1)?;
        truth(c, out, Along::everything(c)?, false)
    }),
    Kernel::new("aten::var.correction_out", FLOATING, |c| {
        let out = output(c, 4)?;
        spread(c, out, Along::listed(c, 1, 3)?, correction(c)?, false)
    }),
    Kernel::new("aten::var_mean.correction_out", FLOATING, spread_and_mean),
    Kernel::new("aten::var.out", FLOATING, |c| {
        let out = output(c, 4)?;
        spread(c, out, Along::listed(c, 1, 3)?, unbiased(c)?, false)
    }),
    Kernel::new("aten::std.correction_out", FLOATING, |c| {
        let out = output(c, 4)?;
        spread(c, out, Along::listed(c, 1, 3)?, correction(c)?, true)
    }),
    Kernel::new("aten::std.out", FLOATING, |c| {
        let out = output(c, 4)?;
        spread(c, out, Along::listed(c, 1, 3)?, unbiased(c)?, true)
    }),
];

/// The dimensions to reduce, and whether they stay as ones of size 1.
#[derive(Clone, Copy)]
struct Along {
    dims: DimSet,
    keep: bool,
}

impl Along {
    /// Those that a list names. No list, or an empty one, names all.
    fn listed(
        context: &KernelContext<'_>,
        dims_at: usize,
        keep_at: usize,
    ) -> Result<Self, KernelError> {
        let rank = context.meta(context.tensor(0)?).rank();
        let dims = context.optional_int_list(dims_at)?.unwrap_or_default();
        Ok(Self {
            dims: dim_set("dimension", &dims, rank)?,
            keep: context.boolean(keep_at)?,
        })
    }

    fn one(
        context: &KernelContext<'_>,
        dim_at: usize,
        keep_at: usize,
    ) -> Result<Self, KernelError> {
        let rank = context.meta(context.tensor(0)?).rank();
        Ok(Self {
            dims: DimSet::one(dim_index("dimension", context.int(dim_at)?, rank)?),
            keep: context.boolean(keep_at)?,
        })
    }

    fn everything(context: &KernelContext<'_>) -> Result<Self, KernelError> {
        Ok(Self {
            dims: DimSet::all(context.meta(context.tensor(0)?).rank()),
            keep: false,
        })
    }

    /// The output's shape.
    fn sizes(self, input: &[usize]) -> Sizes {
        let mut sizes = Sizes::new();
        for (dim, &size) in input.iter().enumerate() {
            match (self.dims.contains(dim), self.keep) {
                (false, _) => sizes.push(size),
                (true, true) => sizes.push(1),
                (true, false) => {}
            }
        }
        sizes
    }
}

/// Reduces in `C`, to results of type `O`.
fn reduce<C: Compute, O: Number, F: Fold<C>>(
    context: &mut KernelContext<'_>,
    out: TensorId,
    along: Along,
    fold: F,
    finish: impl Fn(F::State, usize) -> O,
) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let sizes = along.sizes(context.meta(input).sizes());
    context.resize(out, &sizes)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    reduce_to(temp, out, input, along, fold, finish)
}

/// The same of tensors that are apart, to an output of the right shape.
fn reduce_to<C: Compute, O: Number, F: Fold<C>>(
    temp: &Arena,
    out: TensorOut<'_>,
    input: TensorIn<'_>,
    along: Along,
    fold: F,
    finish: impl Fn(F::State, usize) -> O,
) -> Result<(), KernelError> {
    let meta = input.meta;
    // Both walks follow the input's memory.
    let order = || meta.dim_order().iter().map(|&dim| usize::from(dim));
    let mut place = Sizes::new();
    let mut next = 0;
    for dim in 0..meta.rank() {
        place.push(next);
        next += usize::from(along.keep || !along.dims.contains(dim));
    }
    let stride = |dim: usize| meta.strides()[dim] as isize;
    let kept = Walk::new(order().filter(|&dim| !along.dims.contains(dim)).map(|dim| {
        let out_stride = out.meta.strides()[place[dim]] as isize;
        (meta.sizes()[dim], [out_stride, stride(dim)])
    }));
    let reduced = Walk::new(
        order()
            .filter(|&dim| along.dims.contains(dim))
            .map(|dim| (meta.sizes()[dim], [stride(dim)])),
    );
    let elements = as_compute::<C>(temp, input)?;
    write_compute::<O>(temp, out, |out| {
        let count = reduced.count();
        fold::run(elements, &kept, &reduced, &fold, |at, state| {
            out[at] = finish(state, count);
        });
        Ok(())
    })
}

#[derive(Clone, Copy)]
enum Total {
    Sum,
    Mean,
    Product,
}

/// Sums and products, computed in the output's type.
fn total(
    context: &mut KernelContext<'_>,
    out: TensorId,
    along: Along,
    which: Total,
) -> Result<(), KernelError> {
    let dtype = context.meta(out).dtype();
    if matches!(which, Total::Mean) {
        expect_dtype("the output", dtype, FLOATING)?;
    }
    if dtype == ScalarType::Bool {
        return Err(crate::dispatch::unsupported("the output", dtype, REAL));
    }
    compute!(real, "the output", dtype, C => match which {
        Total::Sum => reduce::<C, C, _>(context, out, along, Sum, |sum, _| sum.cast()),
        Total::Mean => reduce::<C, C, _>(context, out, along, Sum, mean_of),
        Total::Product => reduce::<C, C, _>(context, out, along, Product, |product, _| product),
    })
}

fn most(
    context: &mut KernelContext<'_>,
    out: TensorId,
    along: Along,
    largest: bool,
) -> Result<(), KernelError> {
    let meta = context.meta(context.tensor(0)?);
    let dtype = meta.dtype();
    if meta.numel() == 0 && along.sizes(meta.sizes()).iter().all(|&size| size > 0) {
        return Err(KernelError::invalid(
            "the largest or smallest of no elements",
        ));
    }
    expect_same_dtype(context, out, context.tensor(0)?)?;
    compute!(real_and_bool, "the input", dtype, C => {
        if largest {
            reduce::<C, C, _>(context, out, along, Most, |most, _| most)
        } else {
            reduce::<C, C, _>(context, out, along, Least, |least, _| least)
        }
    })
}

fn truth(
    context: &mut KernelContext<'_>,
    out: TensorId,
    along: Along,
    any: bool,
) -> Result<(), KernelError> {
    let dtype = context.meta(context.tensor(0)?).dtype();
    compute!(real_and_bool, "the input", dtype, C => {
        if any {
            reduce::<C, Bool8, _>(context, out, along, Any, |any, _| any.into())
        } else {
            reduce::<C, Bool8, _>(context, out, along, All, |all, _| all.into())
        }
    })
}

/// Argument 2 as what is subtracted from the number of elements; 1 if it is missing.
fn correction(context: &KernelContext<'_>) -> Result<f64, KernelError> {
    Ok(context
        .optional_scalar(2)?
        .map_or(1.0, |correction| correction.to_f64()))
}

fn unbiased(context: &KernelContext<'_>) -> Result<f64, KernelError> {
    Ok(f64::from(u8::from(context.boolean(2)?)))
}

/// `var_mean(self, dim, correction, keepdim, variance, mean)`. The input is read twice before either is written over it.
fn spread_and_mean(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, outputs) = (context.tensor(0)?, two_outputs(context, 4)?);
    let (along, correction) = (Along::listed(context, 1, 3)?, correction(context)?);
    let dtype = context.meta(input).dtype();
    expect_dtype("the input", dtype, FLOATING)?;
    let sizes = along.sizes(context.meta(input).sizes());
    for out in outputs {
        expect_same_dtype(context, out, input)?;
        context.resize(out, &sizes)?;
    }
    let temp = context.temp();
    let ([variance, mean], [input]) = context.disjoint(outputs, [input])?;
    compute!(floating, "the input", dtype, C => {
        let spread = |state, n| spread_of::<C>(state, n, correction, false);
        reduce_to::<C, C, _>(temp, variance, input, along, Deviation, spread)?;
        reduce_to::<C, C, _>(temp, mean, input, along, Sum, mean_of)
    })
}

fn mean_of<T: Compute, C: Compute>(sum: T, n: usize) -> C {
    C::from_f64(sum.cast::<f64>() / n as f64)
}

fn spread_of<C: Compute>(state: Deviations, n: usize, correction: f64, root: bool) -> C {
    let variance = state.squares / (n as f64 - correction).max(0.0);
    C::from_f64(if root { variance.sqrt() } else { variance })
}

/// The variance, or its square root.
fn spread(
    context: &mut KernelContext<'_>,
    out: TensorId,
    along: Along,
    correction: f64,
    root: bool,
) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    expect_dtype("the input", context.meta(input).dtype(), FLOATING)?;
    compute!(floating, "the output", context.meta(out).dtype(), C => {
        reduce::<C, C, _>(context, out, along, Deviation, |state, n| {
            spread_of::<C>(state, n, correction, root)
        })
    })
}
