//! Operators that make one number of many, along some dimensions.

mod extreme;
mod fold;

use et_kernel::{
    Arguments, Bool8, Kernel, KernelContext, KernelError, RunFn, ScalarTypeSet, TensorId, TensorIn,
    TensorMeta, TensorOut,
};
use et_memory::Arena;

use crate::arguments::{output, two_outputs};
use crate::convert::{as_compute, write_compute};
use crate::dims::{DimSet, Sizes, Walk, dim_index, dim_set};
use crate::dispatch::{NUMBERS, REAL, compute, expect_dtype};
use crate::memo;
use crate::number::{Compute, Number};
use crate::view::expect_same_dtype;
use fold::{All, Any, Deviation, Deviations, Fold, Least, Most, Product, Sum};

pub(crate) use extreme::KERNELS as EXTREME_KERNELS;
pub(crate) use fold::lanes;

const ALL: ScalarTypeSet = ScalarTypeSet::REAL_AND_BOOL;
const FLOATING: ScalarTypeSet = ScalarTypeSet::FLOATING;

pub(crate) const KERNELS: &[Kernel] = &[
    reduction("aten::sum.IntList_out", NUMBERS, |c| {
        total(
            c,
            |c| Ok((output(c, 4)?, Along::listed(c, 1, 2)?)),
            Total::Sum,
        )
    }),
    reduction("aten::sum.out", NUMBERS, |c| {
        total(
            c,
            |c| Ok((output(c, 2)?, Along::everything(c)?)),
            Total::Sum,
        )
    }),
    reduction("aten::mean.out", FLOATING, |c| {
        total(
            c,
            |c| Ok((output(c, 4)?, Along::listed(c, 1, 2)?)),
            Total::Mean,
        )
    }),
    reduction("aten::mean.dtype_out", FLOATING, |c| {
        total(
            c,
            |c| Ok((output(c, 2)?, Along::everything(c)?)),
            Total::Mean,
        )
    }),
    reduction("aten::prod.int_out", NUMBERS, |c| {
        total(
            c,
            |c| Ok((output(c, 4)?, Along::one(c, 1, 2)?)),
            Total::Product,
        )
    }),
    reduction("aten::prod.out", NUMBERS, |c| {
        total(
            c,
            |c| Ok((output(c, 2)?, Along::everything(c)?)),
            Total::Product,
        )
    }),
    reduction("aten::amax.out", ALL, |c| {
        most(c, |c| Ok((output(c, 3)?, Along::listed(c, 1, 2)?)), true)
    }),
    reduction("aten::amin.out", ALL, |c| {
        most(c, |c| Ok((output(c, 3)?, Along::listed(c, 1, 2)?)), false)
    }),
    reduction("aten::max.unary_out", ALL, |c| {
        most(c, |c| Ok((output(c, 1)?, Along::everything(c)?)), true)
    }),
    reduction("aten::min.unary_out", ALL, |c| {
        most(c, |c| Ok((output(c, 1)?, Along::everything(c)?)), false)
    }),
    reduction("aten::any.out", ALL, |c| {
        truth(c, |c| Ok((output(c, 3)?, Along::one(c, 1, 2)?)), true)
    }),
    reduction("aten::any.dims_out", ALL, |c| {
        truth(c, |c| Ok((output(c, 3)?, Along::listed(c, 1, 2)?)), true)
    }),
    reduction("aten::any.all_out", ALL, |c| {
        truth(c, |c| Ok((output(c, 1)?, Along::everything(c)?)), true)
    }),
    reduction("aten::all.out", ALL, |c| {
        truth(c, |c| Ok((output(c, 3)?, Along::one(c, 1, 2)?)), false)
    }),
    reduction("aten::all.dims_out", ALL, |c| {
        truth(c, |c| Ok((output(c, 3)?, Along::listed(c, 1, 2)?)), false)
    }),
    reduction("aten::all.all_out", ALL, |c| {
        truth(c, |c| Ok((output(c, 1)?, Along::everything(c)?)), false)
    }),
    reduction("aten::var.correction_out", FLOATING, |c| {
        spread(
            c,
            |c| Ok((output(c, 4)?, Along::listed(c, 1, 3)?)),
            correction(c)?,
            false,
        )
    }),
    Kernel::new("aten::var_mean.correction_out", FLOATING, spread_and_mean),
    reduction("aten::var.out", FLOATING, |c| {
        spread(
            c,
            |c| Ok((output(c, 4)?, Along::listed(c, 1, 3)?)),
            unbiased(c)?,
            false,
        )
    }),
    reduction("aten::std.correction_out", FLOATING, |c| {
        spread(
            c,
            |c| Ok((output(c, 4)?, Along::listed(c, 1, 3)?)),
            correction(c)?,
            true,
        )
    }),
    reduction("aten::std.out", FLOATING, |c| {
        spread(
            c,
            |c| Ok((output(c, 4)?, Along::listed(c, 1, 3)?)),
            unbiased(c)?,
            true,
        )
    }),
];

/// A kernel that keeps a [`Reduction`].
const fn reduction(name: &'static str, dtypes: ScalarTypeSet, run: RunFn) -> Kernel {
    Kernel::new(name, dtypes, run).with_prepare(memo::prepare::<Reduction>)
}

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

/// What is reduced to what.
struct Reduction {
    out: TensorId,
    input: TensorId,
    along: Walks,
}

impl Reduction {
    /// Of argument 0. The output gets its shape.
    fn new(
        context: &mut KernelContext<'_>,
        out: TensorId,
        along: Along,
    ) -> Result<Self, KernelError> {
        let input = context.tensor(0)?;
        let sizes = along.sizes(context.meta(input).sizes());
        context.resize(out, &sizes)?;
        let along = Walks::new(context.meta(out), context.meta(input), along);
        Ok(Self { out, input, along })
    }

    /// Reduces in `C`, to results of type `O`.
    fn run<C: Compute, O: Number, F: Fold<C>>(
        &self,
        context: &mut KernelContext<'_>,
        fold: F,
        finish: impl Fn(F::State, usize) -> O,
    ) -> Result<(), KernelError> {
        let temp = context.temp();
        let ([out], [input]) = context.disjoint([self.out], [self.input])?;
        self.along.reduce(temp, out, input, fold, finish)
    }
}

/// The elements of a result along with where its first element is, and the elements of each result from there.
struct Walks {
    kept: Walk<2>,
    reduced: Walk<1>,
}

impl Walks {
    /// Both follow the input's memory.
    fn new(out: &TensorMeta, input: &TensorMeta, along: Along) -> Self {
        let order = || input.dim_order().iter().map(|&dim| usize::from(dim));
        let mut place = Sizes::new();
        let mut next = 0;
        for dim in 0..input.rank() {
            place.push(next);
            next += usize::from(along.keep || !along.dims.contains(dim));
        }
        let stride = |dim: usize| input.strides()[dim] as isize;
        let kept = order().filter(|&dim| !along.dims.contains(dim)).map(|dim| {
            let out_stride = out.strides()[place[dim]] as isize;
            (input.sizes()[dim], [out_stride, stride(dim)])
        });
        let reduced = order().filter(|&dim| along.dims.contains(dim));
        Self {
            kept: Walk::new(kept),
            reduced: Walk::new(reduced.map(|dim| (input.sizes()[dim], [stride(dim)]))),
        }
    }

    /// Reduces tensors that are apart.
    fn reduce<C: Compute, O: Number, F: Fold<C>>(
        &self,
        temp: &Arena,
        out: TensorOut<'_>,
        input: TensorIn<'_>,
        fold: F,
        finish: impl Fn(F::State, usize) -> O,
    ) -> Result<(), KernelError> {
        let elements = as_compute::<C>(temp, input)?;
        write_compute::<O>(temp, out, |out| {
            let count = self.reduced.count();
            fold::run(elements, &self.kept, &self.reduced, &fold, |at, state| {
                out[at] = finish(state, count);
            });
            Ok(())
        })
    }
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
    read: impl FnOnce(&KernelContext<'_>) -> Result<(TensorId, Along), KernelError>,
    which: Total,
) -> Result<(), KernelError> {
    let make = |context: &mut KernelContext<'_>| {
        let (out, along) = read(context)?;
        let dtype = context.meta(out).dtype();
        if matches!(which, Total::Mean) {
            expect_dtype("the output", dtype, FLOATING)?;
        }
        expect_dtype("the output", dtype, REAL)?;
        Reduction::new(context, out, along)
    };
    memo::keep(context, make, |context, reduction| {
        compute!(real, "the output", context.meta(reduction.out).dtype(), C => match which {
            Total::Sum => reduction.run::<C, C, _>(context, Sum, |sum, _| sum.cast()),
            Total::Mean => reduction.run::<C, C, _>(context, Sum, mean_of),
            Total::Product => reduction.run::<C, C, _>(context, Product, |product, _| product),
        })
    })
}

fn most(
    context: &mut KernelContext<'_>,
    read: impl FnOnce(&KernelContext<'_>) -> Result<(TensorId, Along), KernelError>,
    largest: bool,
) -> Result<(), KernelError> {
    let make = |context: &mut KernelContext<'_>| {
        let (out, along) = read(context)?;
        let meta = context.meta(context.tensor(0)?);
        if meta.numel() == 0 && along.sizes(meta.sizes()).iter().all(|&size| size > 0) {
            return Err(KernelError::invalid(
                "the largest or smallest of no elements",
            ));
        }
        expect_same_dtype(context, out, context.tensor(0)?)?;
        expect_dtype("the input", meta.dtype(), ALL)?;
        Reduction::new(context, out, along)
    };
    memo::keep(context, make, |context, reduction| {
        compute!(real_and_bool, "the input", context.meta(reduction.input).dtype(), C => {
            if largest {
                reduction.run::<C, C, _>(context, Most, |most, _| most)
            } else {
                reduction.run::<C, C, _>(context, Least, |least, _| least)
            }
        })
    })
}

fn truth(
    context: &mut KernelContext<'_>,
    read: impl FnOnce(&KernelContext<'_>) -> Result<(TensorId, Along), KernelError>,
    any: bool,
) -> Result<(), KernelError> {
    let make = |context: &mut KernelContext<'_>| {
        let (out, along) = read(context)?;
        let dtype = context.meta(context.tensor(0)?).dtype();
        expect_dtype("the input", dtype, ALL)?;
        Reduction::new(context, out, along)
    };
    memo::keep(context, make, |context, reduction| {
        compute!(real_and_bool, "the input", context.meta(reduction.input).dtype(), C => {
            if any {
                reduction.run::<C, Bool8, _>(context, Any, |any, _| any.into())
            } else {
                reduction.run::<C, Bool8, _>(context, All, |all, _| all.into())
            }
        })
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
        let walks = Walks::new(variance.meta, input.meta, along);
        walks.reduce::<C, C, _>(temp, variance, input, Deviation, spread)?;
        let walks = Walks::new(mean.meta, input.meta, along);
        walks.reduce::<C, C, _>(temp, mean, input, Sum, mean_of)
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
    read: impl FnOnce(&KernelContext<'_>) -> Result<(TensorId, Along), KernelError>,
    correction: f64,
    root: bool,
) -> Result<(), KernelError> {
    let make = |context: &mut KernelContext<'_>| {
        let (out, along) = read(context)?;
        let dtype = context.meta(context.tensor(0)?).dtype();
        expect_dtype("the input", dtype, FLOATING)?;
        expect_dtype("the output", context.meta(out).dtype(), FLOATING)?;
        Reduction::new(context, out, along)
    };
    memo::keep(context, make, |context, reduction| {
        compute!(floating, "the output", context.meta(reduction.out).dtype(), C => {
            reduction.run::<C, C, _>(context, Deviation, |state, n| {
                spread_of::<C>(state, n, correction, root)
            })
        })
    })
}
