//! Arithmetic on two operands.

use et_kernel::{
    Arguments, Element, Kernel, KernelContext, KernelError, Scalar, ScalarType, ScalarTypeSet,
    TensorId,
};

use super::{Compute, binary, unary};
use crate::arguments::{number, output, tensor};
use crate::dispatch::{INTEGRAL_AND_BOOL, NUMBERS, REAL, compute, expect_dtype};
use crate::number::Number;
use crate::promote::{Operand, expect_castable, floating, result_type};

const ALL: ScalarTypeSet = ScalarTypeSet::REAL_AND_BOOL;
const FLOATING: ScalarTypeSet = ScalarTypeSet::FLOATING;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::add.out", ALL, |c| sum(c, tensor(c, 1)?, Sign::Plus)),
    Kernel::new("aten::add.Scalar_out", ALL, |c| {
        sum(c, number(c, 1)?, Sign::Plus)
    }),
    Kernel::new("aten::sub.out", REAL, |c| {
        sum(c, tensor(c, 1)?, Sign::Minus)
    }),
    Kernel::new("aten::sub.Scalar_out", REAL, |c| {
        sum(c, number(c, 1)?, Sign::Minus)
    }),
    Kernel::new("aten::rsub.Scalar_out", REAL, reverse_sub),
    Kernel::new("aten::mul.out", ALL, |c| product(c, tensor(c, 1)?)),
    Kernel::new("aten::mul.Scalar_out", ALL, |c| product(c, number(c, 1)?)),
    Kernel::new("aten::div.out", NUMBERS, |c| quotient(c, tensor(c, 1)?, 2)),
    Kernel::new("aten::div.Scalar_out", NUMBERS, |c| {
        quotient(c, number(c, 1)?, 2)
    }),
    Kernel::new("aten::div.out_mode", NUMBERS, |c| {
        quotient_mode(c, tensor(c, 1)?)
    }),
    Kernel::new("aten::div.Scalar_mode_out", NUMBERS, |c| {
        quotient_mode(c, number(c, 1)?)
    }),
    Kernel::new("aten::floor_divide.out", REAL, |c| {
        floor_quotient(c, [tensor(c, 0)?, tensor(c, 1)?], output(c, 2)?)
    }),
    Kernel::new("aten::remainder.Tensor_out", REAL, |c| {
        remainder(c, [tensor(c, 0)?, tensor(c, 1)?])
    }),
    Kernel::new("aten::remainder.Scalar_out", REAL, |c| {
        remainder(c, [tensor(c, 0)?, number(c, 1)?])
    }),
    Kernel::new("aten::remainder.Scalar_Tensor_out", REAL, |c| {
        remainder(c, [number(c, 0)?, tensor(c, 1)?])
    }),
    Kernel::new("aten::fmod.Tensor_out", REAL, |c| fmod(c, tensor(c, 1)?)),
    Kernel::new("aten::fmod.Scalar_out", REAL, |c| fmod(c, number(c, 1)?)),
    Kernel::new("aten::pow.Tensor_Tensor_out", REAL, |c| {
        power(c, [tensor(c, 0)?, tensor(c, 1)?])
    }),
    Kernel::new("aten::pow.Tensor_Scalar_out", REAL, |c| {
        power(c, [tensor(c, 0)?, number(c, 1)?])
    }),
    Kernel::new("aten::pow.Scalar_out", REAL, |c| {
        power(c, [number(c, 0)?, tensor(c, 1)?])
    }),
    Kernel::new("aten::maximum.out", ALL, |c| extreme(c, Extreme::Most)),
    Kernel::new("aten::minimum.out", ALL, |c| extreme(c, Extreme::Least)),
    Kernel::new("aten::fmax.out", ALL, |c| extreme(c, Extreme::MostNumber)),
    Kernel::new("aten::fmin.out", ALL, |c| extreme(c, Extreme::LeastNumber)),
    Kernel::new("aten::atan2.out", FLOATING, |c| {
        two_floats(c, f32::atan2, f64::atan2)
    }),
    Kernel::new("aten::hypot.out", FLOATING, |c| {
        two_floats(c, f32::hypot, f64::hypot)
    }),
    Kernel::new("aten::copysign.out", FLOATING, |c| {
        two_floats(c, f32::copysign, f64::copysign)
    }),
    Kernel::new("aten::bitwise_and.Tensor_out", INTEGRAL_AND_BOOL, |c| {
        bits(c, tensor(c, 1)?, Bits::And)
    }),
    Kernel::new("aten::bitwise_and.Scalar_out", INTEGRAL_AND_BOOL, |c| {
        bits(c, number(c, 1)?, Bits::And)
    }),
    Kernel::new("aten::bitwise_or.Tensor_out", INTEGRAL_AND_BOOL, |c| {
        bits(c, tensor(c, 1)?, Bits::Or)
    }),
    Kernel::new("aten::bitwise_or.Scalar_out", INTEGRAL_AND_BOOL, |c| {
        bits(c, number(c, 1)?, Bits::Or)
    }),
    Kernel::new("aten::bitwise_xor.Tensor_out", INTEGRAL_AND_BOOL, |c| {
        bits(c, tensor(c, 1)?, Bits::Xor)
    }),
    Kernel::new("aten::bitwise_xor.Scalar_out", INTEGRAL_AND_BOOL, |c| {
        bits(c, number(c, 1)?, Bits::Xor)
    }),
    Kernel::new(
        "aten::bitwise_left_shift.Tensor_out",
        ScalarTypeSet::INTEGRAL,
        |c| bits(c, tensor(c, 1)?, Bits::Left),
    ),
    Kernel::new(
        "aten::bitwise_left_shift.Tensor_Scalar_out",
        ScalarTypeSet::INTEGRAL,
        |c| bits(c, number(c, 1)?, Bits::Left),
    ),
    Kernel::new(
        "aten::bitwise_right_shift.Tensor_out",
        ScalarTypeSet::INTEGRAL,
        |c| bits(c, tensor(c, 1)?, Bits::Right),
    ),
    Kernel::new(
        "aten::bitwise_right_shift.Tensor_Scalar_out",
        ScalarTypeSet::INTEGRAL,
        |c| bits(c, number(c, 1)?, Bits::Right),
    ),
];

/// The type the operands are computed in; the output must be able to hold it.
fn common_type(
    context: &KernelContext<'_>,
    operands: &[Operand],
    out: TensorId,
) -> Result<ScalarType, KernelError> {
    let common = result_type(context, operands);
    expect_castable(common, context.meta(out).dtype())?;
    Ok(common)
}

#[derive(Clone, Copy, PartialEq)]
enum Sign {
    Plus,
    Minus,
}

/// `a ± alpha * b`.
fn sum(context: &mut KernelContext<'_>, b: Operand, sign: Sign) -> Result<(), KernelError> {
    let (out, operands) = (output(context, 3)?, [tensor(context, 0)?, b]);
    let alpha = context.scalar(2)?;
    let common = common_type(context, &operands, out)?;
    expect_alpha(common, alpha)?;
    compute!(real_and_bool, "the operands", common, C => {
        let alpha = C::from_scalar(alpha);
        match sign {
            Sign::Plus if alpha.equal(C::one()) => binary(context, out, operands, C::plus),
            Sign::Minus if C::DTYPE == ScalarType::Bool => Err(KernelError::invalid(
                "truth values cannot be subtracted",
            )),
            Sign::Minus if alpha.equal(C::one()) => binary(context, out, operands, C::minus),
            Sign::Plus => binary(context, out, operands, move |a: C, b| a.plus(alpha.times(b))),
            Sign::Minus => binary(context, out, operands, move |a: C, b| a.minus(alpha.times(b))),
        }
    })
}

/// `number - alpha * a`.
fn reverse_sub(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (out, operands) = (
        output(context, 3)?,
        [tensor(context, 0)?, number(context, 1)?],
    );
    let alpha = context.scalar(2)?;
    let common = common_type(context, &operands, out)?;
    expect_alpha(common, alpha)?;
    compute!(real, "the operand", common, C => {
        let alpha = C::from_scalar(alpha);
        binary(context, out, operands, move |a: C, b| b.minus(alpha.times(a)))
    })
}

fn expect_alpha(common: ScalarType, alpha: Scalar) -> Result<(), KernelError> {
    match alpha {
        Scalar::Double(_) if !common.is_floating() => Err(KernelError::invalid(
            "alpha is a fraction, and the operands are whole numbers",
        )),
        Scalar::Bool(_) if common != ScalarType::Bool => Err(KernelError::invalid(
            "alpha is a truth value, and the operands are not",
        )),
        _ => Ok(()),
    }
}

fn product(context: &mut KernelContext<'_>, b: Operand) -> Result<(), KernelError> {
    let (out, operands) = (output(context, 2)?, [tensor(context, 0)?, b]);
    let common = common_type(context, &operands, out)?;
    compute!(real_and_bool, "the operands", common, C => binary(context, out, operands, C::times))
}

/// The quotient with its fraction.
fn quotient(context: &mut KernelContext<'_>, b: Operand, out_at: usize) -> Result<(), KernelError> {
    let out = output(context, out_at)?;
    let operands = [tensor(context, 0)?, b];
    let common = floating(result_type(context, &operands));
    expect_castable(common, context.meta(out).dtype())?;
    compute!(floating, "the operands", common, C => binary(context, out, operands, |a: C, b: C| a / b))
}

fn quotient_mode(context: &mut KernelContext<'_>, b: Operand) -> Result<(), KernelError> {
    let out = output(context, 3)?;
    let operands = [tensor(context, 0)?, b];
    match context.optional_str(2)? {
        None => quotient(context, b, 3),
        Some("floor") => floor_quotient(context, operands, out),
        Some("trunc") => {
            let common = common_type(context, &operands, out)?;
            expect_divisor(context, common, b)?;
            compute!(real, "the operands", common, C => binary(context, out, operands, C::quotient_trunc))
        }
        Some(_) => Err(KernelError::invalid(
            "the rounding mode is neither \"floor\" nor \"trunc\"",
        )),
    }
}

fn floor_quotient(
    context: &mut KernelContext<'_>,
    operands: [Operand; 2],
    out: TensorId,
) -> Result<(), KernelError> {
    let common = common_type(context, &operands, out)?;
    expect_divisor(context, common, operands[1])?;
    compute!(real, "the operands", common, C => binary(context, out, operands, C::quotient_floor))
}

fn remainder(context: &mut KernelContext<'_>, operands: [Operand; 2]) -> Result<(), KernelError> {
    let out = output(context, 2)?;
    let common = common_type(context, &operands, out)?;
    expect_divisor(context, common, operands[1])?;
    compute!(real, "the operands", common, C => binary(context, out, operands, C::rem_floor))
}

fn fmod(context: &mut KernelContext<'_>, b: Operand) -> Result<(), KernelError> {
    let (out, operands) = (output(context, 2)?, [tensor(context, 0)?, b]);
    let common = common_type(context, &operands, out)?;
    expect_divisor(context, common, b)?;
    compute!(real, "the operands", common, C => binary(context, out, operands, C::rem_trunc))
}

/// Whole numbers cannot be divided by 0.
fn expect_divisor(
    context: &mut KernelContext<'_>,
    common: ScalarType,
    divisor: Operand,
) -> Result<(), KernelError> {
    if common.is_floating() {
        return Ok(());
    }
    let zero = match divisor {
        Operand::Number(number) => !number.to_bool(),
        Operand::Tensor(id) => has_zero(context, id)?,
    };
    if zero {
        return Err(KernelError::invalid("a whole number is divided by 0"));
    }
    Ok(())
}

fn has_zero(context: &mut KernelContext<'_>, id: TensorId) -> Result<bool, KernelError> {
    let ([], [input]) = context.disjoint([], [id])?;
    compute!(integral_and_bool, "the divisor", input.meta.dtype(), C => {
        Ok(input.elements::<C>()?.iter().any(|x| !x.truth()))
    })
}

fn power(context: &mut KernelContext<'_>, operands: [Operand; 2]) -> Result<(), KernelError> {
    let out = output(context, 2)?;
    let common = common_type(context, &operands, out)?;
    if let [Operand::Tensor(base), Operand::Number(exponent)] = operands {
        return number_power(context, common, out, base, exponent);
    }
    compute!(real, "the operands", common, C => binary(context, out, operands, C::power))
}

/// The exponents that models use most are products.
fn number_power(
    context: &mut KernelContext<'_>,
    common: ScalarType,
    out: TensorId,
    base: TensorId,
    exponent: Scalar,
) -> Result<(), KernelError> {
    if !common.is_floating() && exponent.to_i64() < 0 {
        return Err(KernelError::invalid(
            "a whole number is raised to a negative power",
        ));
    }
    compute!(real, "the base", common, C => match exponent.to_f64() {
        1.0 => unary(context, out, base, |x: C| x),
        2.0 => unary(context, out, base, |x: C| x.times(x)),
        3.0 => unary(context, out, base, |x: C| x.times(x).times(x)),
        _ => {
            let exponent = C::from_scalar(exponent);
            unary(context, out, base, move |x: C| x.power(exponent))
        }
    })
}

#[derive(Clone, Copy)]
enum Extreme {
    Most,
    Least,
    MostNumber,
    LeastNumber,
}

/// The larger or smaller operand. What is no number wins, or loses where a number is asked for.
fn extreme(context: &mut KernelContext<'_>, which: Extreme) -> Result<(), KernelError> {
    let (out, operands) = (
        output(context, 2)?,
        [tensor(context, 0)?, tensor(context, 1)?],
    );
    let common = common_type(context, &operands, out)?;
    compute!(real_and_bool, "the operands", common, C => match which {
        Extreme::Most => binary(context, out, operands, C::max_nan),
        Extreme::Least => binary(context, out, operands, C::min_nan),
        Extreme::MostNumber => binary(context, out, operands, |a: C, b: C| {
            if a.is_nan() || a.less(b) { b } else { a }
        }),
        Extreme::LeastNumber => binary(context, out, operands, |a: C, b: C| {
            if a.is_nan() || b.less(a) { b } else { a }
        }),
    })
}

/// A function of two floating point numbers.
fn two_floats(
    context: &mut KernelContext<'_>,
    single: impl Fn(f32, f32) -> f32,
    double: impl Fn(f64, f64) -> f64,
) -> Result<(), KernelError> {
    let (out, operands) = (
        output(context, 2)?,
        [tensor(context, 0)?, tensor(context, 1)?],
    );
    let common = floating(result_type(context, &operands));
    expect_castable(common, context.meta(out).dtype())?;
    match common {
        ScalarType::Double => binary(context, out, operands, double),
        _ => binary(context, out, operands, single),
    }
}

#[derive(Clone, Copy)]
enum Bits {
    And,
    Or,
    Xor,
    Left,
    Right,
}

fn bits(context: &mut KernelContext<'_>, b: Operand, which: Bits) -> Result<(), KernelError> {
    let (out, operands) = (output(context, 2)?, [tensor(context, 0)?, b]);
    let common = common_type(context, &operands, out)?;
    if matches!(which, Bits::Left | Bits::Right) {
        expect_dtype("the operands", common, ScalarTypeSet::INTEGRAL)?;
    }
    compute!(integral_and_bool, "the operands", common, C => match which {
        // Bits of a narrower type are the low bits of its value.
        Bits::And => binary(context, out, operands, |a: C, b: C| -> C { wide(a, b, |a, b| a & b) }),
        Bits::Or => binary(context, out, operands, |a: C, b: C| -> C { wide(a, b, |a, b| a | b) }),
        Bits::Xor => binary(context, out, operands, |a: C, b: C| -> C { wide(a, b, |a, b| a ^ b) }),
        Bits::Left => binary(context, out, operands, shift_left::<C>),
        Bits::Right => binary(context, out, operands, shift_right::<C>),
    })
}

#[inline(always)]
fn wide<C: Compute>(a: C, b: C, f: impl Fn(i64, i64) -> i64) -> C {
    f(a.cast(), b.cast()).cast()
}

/// Bits that are pushed out are gone; a shift by the width or more, or backward, leaves none.
#[inline(always)]
fn shift_left<C: Compute>(a: C, b: C) -> C {
    wide(a, b, |a, by| match by {
        0..64 if (by as usize) < 8 * size_of::<C>() => a << by,
        _ => 0,
    })
}

/// Keeps the sign; a shift by the width or more, or backward, leaves nothing else.
#[inline(always)]
fn shift_right<C: Compute>(a: C, b: C) -> C {
    wide(a, b, |a, by| {
        a >> if (0..64).contains(&by) { by } else { 63 }
    })
}
