//! Functions of one operand, activations among them.

use et_kernel::{
    Arguments, Bool8, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet, TensorId,
};

use super::{Compute, unary};
use crate::arguments::output;
use crate::dispatch::{NUMBERS, REAL, compute};
use crate::math;
use crate::number::Number;
use crate::promote::{expect_castable, floating};

const ALL: ScalarTypeSet = ScalarTypeSet::REAL_AND_BOOL;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::abs.out", ALL, |c| same(c, Same::Abs)),
    Kernel::new("aten::neg.out", REAL, |c| same(c, Same::Neg)),
    Kernel::new("aten::relu.out", REAL, |c| same(c, Same::Relu)),
    Kernel::new("aten::sign.out", ALL, |c| same(c, Same::Sign)),
    Kernel::new("aten::square.out", REAL, |c| same(c, Same::Square)),
    Kernel::new("aten::ceil.out", REAL, |c| rounded(c, f32::ceil, f64::ceil)),
    Kernel::new("aten::floor.out", REAL, |c| {
        rounded(c, f32::floor, f64::floor)
    }),
    Kernel::new("aten::round.out", REAL, |c| {
        rounded(c, f32::round_ties_even, f64::round_ties_even)
    }),
    Kernel::new("aten::trunc.out", REAL, |c| {
        rounded(c, f32::trunc, f64::trunc)
    }),
    Kernel::new("aten::exp.out", NUMBERS, |c| float(c, math::exp, f64::exp)),
    Kernel::new("aten::exp2.out", NUMBERS, |c| {
        float(c, f32::exp2, f64::exp2)
    }),
    Kernel::new("aten::expm1.out", NUMBERS, |c| {
        float(c, f32::exp_m1, f64::exp_m1)
    }),
    Kernel::new("aten::log.out", NUMBERS, |c| float(c, f32::ln, f64::ln)),
    Kernel::new("aten::log10.out", NUMBERS, |c| {
        float(c, f32::log10, f64::log10)
    }),
    Kernel::new("aten::log1p.out", NUMBERS, |c| {
        float(c, f32::ln_1p, f64::ln_1p)
    }),
    Kernel::new("aten::log2.out", NUMBERS, |c| {
        float(c, f32::log2, f64::log2)
    }),
    Kernel::new("aten::sqrt.out", NUMBERS, |c| {
        float(c, f32::sqrt, f64::sqrt)
    }),
    Kernel::new("aten::rsqrt.out", NUMBERS, |c| {
        float(c, |x| 1.0 / x.sqrt(), |x| 1.0 / x.sqrt())
    }),
    Kernel::new("aten::reciprocal.out", NUMBERS, |c| {
        float(c, |x| 1.0 / x, |x| 1.0 / x)
    }),
    Kernel::new("aten::sin.out", NUMBERS, |c| float(c, f32::sin, f64::sin)),
    Kernel::new("aten::cos.out", NUMBERS, |c| float(c, f32::cos, f64::cos)),
    Kernel::new("aten::tan.out", NUMBERS, |c| float(c, f32::tan, f64::tan)),
    Kernel::new("aten::sinh.out", NUMBERS, |c| {
        float(c, f32::sinh, f64::sinh)
    }),
    Kernel::new("aten::cosh.out", NUMBERS, |c| {
        float(c, f32::cosh, f64::cosh)
    }),
    Kernel::new("aten::tanh.out", NUMBERS, |c| {
        float(c, math::tanh, f64::tanh)
    }),
    Kernel::new("aten::asin.out", NUMBERS, |c| {
        float(c, f32::asin, f64::asin)
    }),
    Kernel::new("aten::acos.out", NUMBERS, |c| {
        float(c, f32::acos, f64::acos)
    }),
    Kernel::new("aten::atan.out", NUMBERS, |c| {
        float(c, f32::atan, f64::atan)
    }),
    // Those of `std` overflow for the largest numbers.
    Kernel::new("aten::asinh.out", NUMBERS, |c| {
        float(c, libm::asinhf, libm::asinh)
    }),
    Kernel::new("aten::acosh.out", NUMBERS, |c| float(c, acosh_f32, acosh)),
    Kernel::new("aten::atanh.out", NUMBERS, |c| {
        float(c, f32::atanh, f64::atanh)
    }),
    Kernel::new("aten::erf.out", NUMBERS, |c| float(c, math::erf, libm::erf)),
    Kernel::new("aten::erfc.out", NUMBERS, |c| {
        float(c, libm::erfcf, libm::erfc)
    }),
    Kernel::new("aten::sigmoid.out", NUMBERS, |c| {
        float(c, math::sigmoid, math::sigmoid_f64)
    }),
    Kernel::new("aten::silu.out", ScalarTypeSet::FLOATING, |c| {
        float(c, |x| x * math::sigmoid(x), |x| x * math::sigmoid_f64(x))
    }),
    Kernel::new("aten::hardswish.out", ScalarTypeSet::FLOATING, |c| {
        float(
            c,
            |x| x * (x + 3.0).max_nan(0.0).min_nan(6.0) / 6.0,
            |x| x * (x + 3.0).max_nan(0.0).min_nan(6.0) / 6.0,
        )
    }),
    Kernel::new("aten::hardsigmoid.out", ScalarTypeSet::FLOATING, |c| {
        float(
            c,
            |x| (x + 3.0).max_nan(0.0).min_nan(6.0) / 6.0,
            |x| (x + 3.0).max_nan(0.0).min_nan(6.0) / 6.0,
        )
    }),
    Kernel::new("aten::isnan.out", NUMBERS, |c| {
        is(c, |x| x.is_nan(), |x| x.is_nan())
    }),
    Kernel::new("aten::isinf.out", NUMBERS, |c| {
        is(c, f32::is_infinite, f64::is_infinite)
    }),
    Kernel::new("aten::isfinite.out", NUMBERS, |c| {
        is(c, f32::is_finite, f64::is_finite)
    }),
    Kernel::new("aten::gelu.out", ScalarTypeSet::FLOATING, gelu),
    Kernel::new("aten::leaky_relu.out", ScalarTypeSet::FLOATING, leaky_relu),
    Kernel::new("aten::elu.out", ScalarTypeSet::FLOATING, elu),
    Kernel::new("aten::hardtanh.out", REAL, hardtanh),
    Kernel::new("aten::logit.out", NUMBERS, logit),
];

/// The area cosine, which numbers below 1 do not have (and for which `libm` has a number all the same).
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// The same in single width.
fn acosh_f32(x: f32) -> f32 {
    if x < 1.0 { f32::NAN } else { libm::acoshf(x) }
}

#[derive(Clone, Copy)]
enum Same {
    Abs,
    Neg,
    Relu,
    Sign,
    Square,
}

/// Functions whose result has the input's type.
fn same(context: &mut KernelContext<'_>, which: Same) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 1)?);
    let dtype = context.meta(input).dtype();
    expect_castable(dtype, context.meta(out).dtype())?;
    if dtype == ScalarType::Bool && matches!(which, Same::Abs | Same::Sign) {
        return unary(context, out, input, |x: Bool8| x);
    }
    compute!(real, "the input", dtype, C => match which {
        Same::Abs => unary(context, out, input, |x: C| {
            if C::FLOATING {
                absolute(x)
            } else if x.less(C::zero()) {
                C::zero().minus(x)
            } else {
                x
            }
        }),
        // A floating point zero changes its sign too.
        Same::Neg if C::FLOATING => {
            unary(context, out, input, |x: C| C::zero().minus(C::one()).times(x))
        }
        Same::Neg => unary(context, out, input, |x: C| C::zero().minus(x)),
        Same::Relu => unary(context, out, input, |x: C| x.max_nan(C::zero())),
        // 0 for what is no number, as in PyTorch; the C++ runtime passes it on.
        Same::Sign => unary(context, out, input, |x: C| {
            if C::zero().less(x) {
                C::one()
            } else if x.less(C::zero()) {
                C::zero().minus(C::one())
            } else {
                C::zero()
            }
        }),
        Same::Square => unary(context, out, input, |x: C| x.times(x)),
    })
}

/// Without its sign, which a zero and what is no number have too.
#[inline(always)]
fn absolute<C: Compute>(x: C) -> C {
    match C::DTYPE {
        ScalarType::Double => x.cast::<f64>().abs().cast(),
        _ => x.cast::<f32>().abs().cast(),
    }
}

/// Rounding, which leaves whole numbers as they are.
fn rounded(
    context: &mut KernelContext<'_>,
    single: impl Fn(f32) -> f32,
    double: impl Fn(f64) -> f64,
) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 1)?);
    let dtype = context.meta(input).dtype();
    expect_castable(dtype, context.meta(out).dtype())?;
    match dtype {
        ScalarType::Double => unary(context, out, input, double),
        _ if dtype.is_floating() => unary(context, out, input, single),
        _ => compute!(real, "the input", dtype, C => unary(context, out, input, |x: C| x)),
    }
}

/// Functions whose result has a fraction.
fn float(
    context: &mut KernelContext<'_>,
    single: impl Fn(f32) -> f32,
    double: impl Fn(f64) -> f64,
) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 1)?);
    apply_float(context, out, input, single, double)
}

/// As [`float`], for operators with more arguments.
fn apply_float(
    context: &mut KernelContext<'_>,
    out: TensorId,
    input: TensorId,
    single: impl Fn(f32) -> f32,
    double: impl Fn(f64) -> f64,
) -> Result<(), KernelError> {
    let common = floating(context.meta(input).dtype());
    expect_castable(common, context.meta(out).dtype())?;
    match common {
        ScalarType::Double => unary(context, out, input, double),
        _ => unary(context, out, input, single),
    }
}

/// Questions about a floating point number.
fn is(
    context: &mut KernelContext<'_>,
    single: impl Fn(f32) -> bool,
    double: impl Fn(f64) -> bool,
) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 1)?);
    match floating(context.meta(input).dtype()) {
        ScalarType::Double => unary(context, out, input, |x: f64| Bool8::from(double(x))),
        _ => unary(context, out, input, |x: f32| Bool8::from(single(x))),
    }
}

fn gelu(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 2)?);
    match context.optional_str(1)? {
        None | Some("none") => apply_float(context, out, input, math::gelu_erf, math::gelu_erf_f64),
        Some("tanh") => apply_float(context, out, input, math::gelu_tanh, math::gelu_tanh_f64),
        Some(_) => Err(KernelError::invalid(
            "the approximation is neither \"none\" nor \"tanh\"",
        )),
    }
}

fn leaky_relu(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 2)?);
    let slope = context.scalar(1)?.to_f64();
    let single = slope as f32;
    apply_float(
        context,
        out,
        input,
        |x| if x > 0.0 { x } else { x * single },
        |x| if x > 0.0 { x } else { x * slope },
    )
}

fn elu(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 4)?);
    let [alpha, scale, input_scale] =
        [context.scalar(1)?, context.scalar(2)?, context.scalar(3)?].map(|s| s.to_f64());
    let below = alpha * scale;
    let (below_f32, scale_f32, input_f32) = (below as f32, scale as f32, input_scale as f32);
    apply_float(
        context,
        out,
        input,
        |x| {
            if x > 0.0 {
                x * scale_f32
            } else {
                (x * input_f32).exp_m1() * below_f32
            }
        },
        |x| {
            if x > 0.0 {
                x * scale
            } else {
                (x * input_scale).exp_m1() * below
            }
        },
    )
}

fn hardtanh(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 3)?);
    let (low, high) = (context.scalar(1)?, context.scalar(2)?);
    let dtype = context.meta(input).dtype();
    expect_castable(dtype, context.meta(out).dtype())?;
    compute!(real, "the input", dtype, C => {
        let (low, high) = (C::from_scalar(low), C::from_scalar(high));
        unary(context, out, input, move |x: C| x.max_nan(low).min_nan(high))
    })
}

/// `ln(x / (1 - x))`, of `x` kept `eps` away from 0 and 1.
fn logit(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 2)?);
    let eps = context.optional_double(1)?;
    let kept = |x: f64| eps.map_or(x, |eps| x.max_nan(eps).min_nan(1.0 - eps));
    apply_float(
        context,
        out,
        input,
        |x| {
            let x = eps.map_or(x, |eps| x.max_nan(eps as f32).min_nan(1.0 - eps as f32));
            (x / (1.0 - x)).ln()
        },
        |x| (kept(x) / (1.0 - kept(x))).ln(),
    )
}
