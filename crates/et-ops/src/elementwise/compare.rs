//! Comparisons, logic and choice.

use et_kernel::{Arguments, Bool8, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet};

use super::{Compute, binary, resize_broadcast, unary, walk};
use crate::arguments::{number, output, tensor};
use crate::dispatch::{INTEGRAL_AND_BOOL, NUMBERS, compute, expect_dtype};
use crate::number::Number;
use crate::promote::{Operand, expect_castable, result_type};

const ALL: ScalarTypeSet = ScalarTypeSet::REAL_AND_BOOL;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::eq.Tensor_out", ALL, |c| {
        compare(c, tensor(c, 1)?, Order::Equal)
    }),
    Kernel::new("aten::eq.Scalar_out", ALL, |c| {
        compare(c, number(c, 1)?, Order::Equal)
    }),
    Kernel::new("aten::ne.Tensor_out", ALL, |c| {
        compare(c, tensor(c, 1)?, Order::Unequal)
    }),
    Kernel::new("aten::ne.Scalar_out", ALL, |c| {
        compare(c, number(c, 1)?, Order::Unequal)
    }),
    Kernel::new("aten::lt.Tensor_out", ALL, |c| {
        compare(c, tensor(c, 1)?, Order::Less)
    }),
    Kernel::new("aten::lt.Scalar_out", ALL, |c| {
        compare(c, number(c, 1)?, Order::Less)
    }),
    Kernel::new("aten::le.Tensor_out", ALL, |c| {
        compare(c, tensor(c, 1)?, Order::AtMost)
    }),
    Kernel::new("aten::le.Scalar_out", ALL, |c| {
        compare(c, number(c, 1)?, Order::AtMost)
    }),
    Kernel::new("aten::gt.Tensor_out", ALL, |c| {
        compare(c, tensor(c, 1)?, Order::Greater)
    }),
    Kernel::new("aten::gt.Scalar_out", ALL, |c| {
        compare(c, number(c, 1)?, Order::Greater)
    }),
    Kernel::new("aten::ge.Tensor_out", ALL, |c| {
        compare(c, tensor(c, 1)?, Order::AtLeast)
    }),
    Kernel::new("aten::ge.Scalar_out", ALL, |c| {
        compare(c, number(c, 1)?, Order::AtLeast)
    }),
    Kernel::new("aten::logical_and.out", NUMBERS, |c| {
        logical(c, |a, b| a & b)
    }),
    Kernel::new("aten::logical_or.out", NUMBERS, |c| {
        logical(c, |a, b| a | b)
    }),
    Kernel::new("aten::logical_xor.out", NUMBERS, |c| {
        logical(c, |a, b| a ^ b)
    }),
    Kernel::new("aten::logical_not.out", NUMBERS, logical_not),
    Kernel::new("aten::bitwise_not.out", INTEGRAL_AND_BOOL, bitwise_not),
    Kernel::new("aten::where.self_out", ALL, choose),
    Kernel::new("aten::masked_fill.Scalar_out", ALL, |c| {
        masked_fill(c, number(c, 2)?)
    }),
    Kernel::new("aten::masked_fill.Tensor_out", ALL, |c| {
        masked_fill(c, tensor(c, 2)?)
    }),
    Kernel::new("aten::clamp.out", ScalarTypeSet::REAL_AND_BOOL, clamp),
    Kernel::new("aten::clamp.Tensor_out", ALL, clamp_tensors),
    Kernel::new("aten::clamp_min.out", ALL, |c| clamp_one(c, true)),
    Kernel::new("aten::clamp_max.out", ALL, |c| clamp_one(c, false)),
];

#[derive(Clone, Copy)]
enum Order {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

fn compare(context: &mut KernelContext<'_>, b: Operand, order: Order) -> Result<(), KernelError> {
    let (out, operands) = (output(context, 2)?, [tensor(context, 0)?, b]);
    let common = result_type(context, &operands);
    compute!(real_and_bool, "the operands", common, C => match order {
        Order::Equal => binary(context, out, operands, |a: C, b: C| Bool8::from(a.equal(b))),
        Order::Unequal => binary(context, out, operands, |a: C, b: C| Bool8::from(!a.equal(b))),
        Order::Less => binary(context, out, operands, |a: C, b: C| Bool8::from(a.less(b))),
        Order::AtMost => {
            binary(context, out, operands, |a: C, b: C| Bool8::from(a.less(b) | a.equal(b)))
        }
        Order::Greater => binary(context, out, operands, |a: C, b: C| Bool8::from(b.less(a))),
        Order::AtLeast => {
            binary(context, out, operands, |a: C, b: C| Bool8::from(b.less(a) | a.equal(b)))
        }
    })
}

/// Logic on the truth of each operand, whatever its type.
fn logical(
    context: &mut KernelContext<'_>,
    f: impl Fn(bool, bool) -> bool,
) -> Result<(), KernelError> {
    let (out, operands) = (
        output(context, 2)?,
        [tensor(context, 0)?, tensor(context, 1)?],
    );
    binary(context, out, operands, |a: Bool8, b: Bool8| {
        Bool8::from(f(a.get(), b.get()))
    })
}

fn logical_not(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 1)?);
    unary(context, out, input, |x: Bool8| Bool8::from(!x.get()))
}

fn bitwise_not(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 1)?);
    let dtype = context.meta(input).dtype();
    expect_castable(dtype, context.meta(out).dtype())?;
    if dtype == ScalarType::Bool {
        return unary(context, out, input, |x: Bool8| Bool8::from(!x.get()));
    }
    compute!(integral_and_bool, "the input", dtype, C => {
        unary(context, out, input, |x: C| -> C { (!x.cast::<i64>()).cast() })
    })
}

/// `where(condition, a, b)`.
fn choose(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let out = output(context, 3)?;
    let [condition, a, b] = [context.tensor(0)?, context.tensor(1)?, context.tensor(2)?];
    expect_condition(context.meta(condition).dtype())?;
    let common = result_type(context, &[Operand::Tensor(a), Operand::Tensor(b)]);
    expect_castable(common, context.meta(out).dtype())?;
    resize_broadcast(context, out, &[condition, a, b])?;
    compute!(real_and_bool, "the operands", common, C => {
        // The condition is computed as a `C` too: 0 or 1 (or any byte's value, of which only 0 is false).
        walk(context, out, [condition, a, b], &|[condition, a, b]: [&[C]; 3], to: &mut [C]| {
            for (((to, condition), a), b) in to.iter_mut().zip(condition).zip(a).zip(b) {
                *to = if condition.truth() { *a } else { *b };
            }
        })
    })
}

fn expect_condition(dtype: ScalarType) -> Result<(), KernelError> {
    let truth = ScalarTypeSet::of(&[ScalarType::Bool, ScalarType::Byte]);
    expect_dtype("the condition", dtype, truth)
}

/// `value` where the mask is true, else the input.
fn masked_fill(context: &mut KernelContext<'_>, value: Operand) -> Result<(), KernelError> {
    let out = output(context, 3)?;
    let [input, mask] = [context.tensor(0)?, context.tensor(1)?];
    expect_condition(context.meta(mask).dtype())?;
    let dtype = context.meta(input).dtype();
    expect_castable(dtype, context.meta(out).dtype())?;
    resize_broadcast(context, out, &[input, mask])?;
    compute!(real_and_bool, "the input", dtype, C => match value {
        Operand::Number(value) => {
            let value = C::from_scalar(value);
            walk(context, out, [input, mask], &|[x, mask]: [&[C]; 2], to: &mut [C]| {
                for ((to, x), mask) in to.iter_mut().zip(x).zip(mask) {
                    *to = if mask.truth() { value } else { *x };
                }
            })
        }
        Operand::Tensor(value) => {
            walk(context, out, [input, mask, value], &|[x, mask, value]: [&[C]; 3], to: &mut [C]| {
                for (((to, x), mask), value) in to.iter_mut().zip(x).zip(mask).zip(value) {
                    *to = if mask.truth() { *value } else { *x };
                }
            })
        }
    })
}

/// Both bounds are optional, and numbers. What is no number stays.
fn clamp(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 3)?);
    let bounds = [context.optional_scalar(1)?, context.optional_scalar(2)?];
    let operands = bounds.map(|bound| bound.map_or(Operand::Tensor(input), Operand::Number));
    if bounds == [None, None] {
        return Err(KernelError::invalid("clamp without any bound"));
    }
    let common = result_type(context, &[Operand::Tensor(input), operands[0], operands[1]]);
    expect_castable(common, context.meta(out).dtype())?;
    compute!(real_and_bool, "the input", common, C => {
        let [low, high] = bounds.map(|bound| bound.map(C::from_scalar));
        // A bound that is no number makes everything so, as the comparisons of PyTorch do.
        let (low, high) = (low.unwrap_or(C::LOWEST), high.unwrap_or(C::HIGHEST));
        unary(context, out, input, move |x: C| clamped(x, low, high))
    })
}

#[inline(always)]
fn clamped<C: Compute>(x: C, low: C, high: C) -> C {
    x.max_nan(low).min_nan(high)
}

fn clamp_tensors(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 3)?);
    let bounds = [context.optional_tensor(1)?, context.optional_tensor(2)?];
    let [low, high] = bounds.map(|bound| bound.unwrap_or(input));
    let common = result_type(context, &[input, low, high].map(Operand::Tensor));
    expect_castable(common, context.meta(out).dtype())?;
    resize_broadcast(context, out, &[input, low, high])?;
    compute!(real_and_bool, "the input", common, C => match bounds {
        [None, None] => Err(KernelError::invalid("clamp without any bound")),
        [Some(low), None] => {
            binary(context, out, [input, low].map(Operand::Tensor), C::max_nan)
        }
        [None, Some(high)] => {
            binary(context, out, [input, high].map(Operand::Tensor), C::min_nan)
        }
        [Some(low), Some(high)] => {
            walk(context, out, [input, low, high], &|[x, low, high]: [&[C]; 3], to: &mut [C]| {
                for (((to, x), low), high) in to.iter_mut().zip(x).zip(low).zip(high) {
                    *to = clamped(*x, *low, *high);
                }
            })
        }
    })
}

fn clamp_one(context: &mut KernelContext<'_>, from_below: bool) -> Result<(), KernelError> {
    let (out, operands) = (
        output(context, 2)?,
        [tensor(context, 0)?, number(context, 1)?],
    );
    let common = result_type(context, &operands);
    expect_castable(common, context.meta(out).dtype())?;
    compute!(real_and_bool, "the input", common, C => {
        if from_below {
            binary(context, out, operands, C::max_nan)
        } else {
            binary(context, out, operands, C::min_nan)
        }
    })
}
