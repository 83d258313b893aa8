//! Functions of one operand.

use et_kernel::ScalarType;

use crate::array::Array;
use crate::call::Call;
use crate::choice::{FLOATS, Fill, TYPES, check};
use crate::number::Number::{self, Float, Whole};

/// A function and its operator.
type Function = (&'static str, fn(f64) -> f64);

/// Functions whose result has a fraction.
const FRACTIONS: [Function; 26] = [
    ("aten::exp.out", f64::exp),
    ("aten::exp2.out", f64::exp2),
    ("aten::expm1.out", f64::exp_m1),
    ("aten::log.out", f64::ln),
    ("aten::log10.out", f64::log10),
    ("aten::log1p.out", f64::ln_1p),
    ("aten::log2.out", f64::log2),
    ("aten::sqrt.out", f64::sqrt),
    ("aten::rsqrt.out", |x| 1.0 / x.sqrt()),
    ("aten::reciprocal.out", |x| 1.0 / x),
    ("aten::sin.out", f64::sin),
    ("aten::cos.out", f64::cos),
    ("aten::tan.out", f64::tan),
    ("aten::sinh.out", f64::sinh),
    ("aten::cosh.out", f64::cosh),
    ("aten::tanh.out", f64::tanh),
    ("aten::asin.out", f64::asin),
    ("aten::acos.out", f64::acos),
    ("aten::atan.out", f64::atan),
    ("aten::asinh.out", asinh),
    ("aten::acosh.out", f64::acosh),
    ("aten::atanh.out", f64::atanh),
    ("aten::erf.out", erf),
    ("aten::erfc.out", |x| 1.0 - erf(x)),
    ("aten::sigmoid.out", sigmoid),
    ("aten::logit.out", |x| (x / (1.0 - x)).ln()),
];

/// Functions of floating point numbers alone.
const ACTIVATIONS: [Function; 3] = [
    ("aten::silu.out", |x| x * sigmoid(x)),
    ("aten::hardswish.out", |x| {
        x * (x + 3.0).clamp(0.0, 6.0) / 6.0
    }),
    ("aten::hardsigmoid.out", |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
];

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Without what the usual formula loses far below 0.
fn asinh(x: f64) -> f64 {
    if x.is_infinite() {
        return x;
    }
    (x.abs() + x.hypot(1.0)).ln().copysign(x)
}

/// The error function by its series near 0, and by a continued fraction far from it.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let size = x.abs();
    let value = if size > 6.0 {
        1.0
    } else if size < 2.5 {
        let (mut term, mut sum, mut n) = (size, size, 0.0);
        while term.abs() > 1e-18 {
            n += 1.0;
            term *= -size * size / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let fraction = (1..60)
            .rev()
            .fold(0.0, |below, n| f64::from(n) / 2.0 / (size + below));
        1.0 - (-size * size).exp() / ((size + fraction) * std::f64::consts::PI.sqrt())
    };
    value.copysign(x)
}

/// The type that fractions are computed and stored in.
fn fractions_of(dtype: ScalarType) -> ScalarType {
    if FLOATS.contains(&dtype) {
        dtype
    } else {
        ScalarType::Float
    }
}

/// Functions near whose poles and turns a last digit of the operand decides are only asked about exact operands.
#[test]
fn functions_with_fractions() {
    check(700, |choices| {
        let (name, f) = choices.pick(&FRACTIONS);
        let dtype = choices.pick(&TYPES);
        let shape = choices.shape();
        let fill = choices.fill();
        let mut x = choices.array(dtype, &shape, fill);
        if matches!(name, "aten::sin.out" | "aten::cos.out" | "aten::tan.out") {
            // Far from 0 the period itself would have to be known to many digits.
            x.elements
                .iter_mut()
                .filter(|x| x.float().abs() > 1e4)
                .for_each(|x| *x = Whole(1).cast(dtype));
        }
        let out = fractions_of(dtype);
        // Whole numbers are made floating point numbers of single width first.
        let expected = Array::new(out, &shape, |i| Float(f(x.at(i).cast(out).float())));
        let call = Call::new(name).tensor(&x);
        let call = if name == "aten::logit.out" {
            call.none()
        } else {
            call
        };
        call.out(choices, out, shape.len())
            .gives(choices, &[&expected], 2.0);
    });
}

#[test]
fn activations() {
    check(150, |choices| {
        let (name, f) = choices.pick(&ACTIVATIONS);
        let dtype = choices.pick(&FLOATS);
        let shape = choices.shape();
        let fill = choices.fill();
        let mut x = choices.array(dtype, &shape, fill);
        // The product overflows before it is divided.
        x.elements
            .iter_mut()
            .filter(|x| x.float().abs() > 1e37)
            .for_each(|x| *x = Float(1.0));
        let expected = Array::new(dtype, &shape, |i| Float(f(x.at(i).float())));
        Call::new(name)
            .tensor(&x)
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 2.0);
    });
}

/// A call that lacks its output, and what it computes.
type Activation = (Call, Box<dyn Fn(f64) -> f64>);

#[test]
fn activations_with_parameters() {
    check(200, |choices| {
        let dtype = choices.pick(&FLOATS);
        let shape = choices.shape();
        let fill = choices.fill();
        let x = choices.array(dtype, &shape, fill);
        let [a, b, c] = [0; 3].map(|_| choices.within(1, 8) as f64 / 4.0);
        let (call, f): Activation = match choices.below(6) {
            0 => {
                let f = |x: f64| x * 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2));
                (
                    Call::new("aten::gelu.out").tensor(&x).text("none"),
                    Box::new(f),
                )
            }
            1 => {
                let f = |x: f64| {
                    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                    0.5 * x * (1.0 + inner.tanh())
                };
                (
                    Call::new("aten::gelu.out").tensor(&x).text("tanh"),
                    Box::new(f),
                )
            }
            2 => {
                let f = move |x: f64| if x > 0.0 { x } else { x * a };
                (
                    Call::new("aten::leaky_relu.out").tensor(&x).double(a),
                    Box::new(f),
                )
            }
            3 => {
                let f = move |x: f64| {
                    if x > 0.0 {
                        x * b
                    } else {
                        a * b * (x * c).exp_m1()
                    }
                };
                let call = Call::new("aten::elu.out").tensor(&x);
                (call.double(a).double(b).double(c), Box::new(f))
            }
            4 => {
                let f = move |x: f64| if x.is_nan() { x } else { x.max(-a).min(b) };
                (
                    Call::new("aten::hardtanh.out")
                        .tensor(&x)
                        .double(-a)
                        .double(b),
                    Box::new(f),
                )
            }
            _ => {
                let eps = a / 10.0;
                let f = move |x: f64| {
                    let x = if x.is_nan() {
                        x
                    } else {
                        x.max(eps).min(1.0 - eps)
                    };
                    (x / (1.0 - x)).ln()
                };
                (
                    Call::new("aten::logit.out").tensor(&x).double(eps),
                    Box::new(f),
                )
            }
        };
        let expected = Array::new(dtype, &shape, |i| Float(f(x.at(i).float())));
        call.out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 2.0);
    });
}

/// A whole number or a floating point number in, the same out.
type Same = (&'static str, fn(i128) -> i128, fn(f64) -> f64);

const SAME: [Same; 9] = [
    ("aten::abs.out", i128::abs, f64::abs),
    ("aten::neg.out", |x| -x, |x| -x),
    (
        "aten::relu.out",
        |x| x.max(0),
        |x| if x.is_nan() { x } else { x.max(0.0) },
    ),
    ("aten::sign.out", i128::signum, |x| {
        if x.is_nan() || x == 0.0 {
            0.0
        } else {
            x.signum()
        }
    }),
    ("aten::square.out", |x| x * x, |x| x * x),
    ("aten::ceil.out", |x| x, f64::ceil),
    ("aten::floor.out", |x| x, f64::floor),
    ("aten::round.out", |x| x, f64::round_ties_even),
    ("aten::trunc.out", |x| x, f64::trunc),
];

fn apply(x: Number, whole: fn(i128) -> i128, float: fn(f64) -> f64) -> Number {
    match x {
        Whole(x) => Whole(whole(x)),
        Float(x) => Float(float(x)),
    }
}

#[test]
fn functions_that_keep_the_type() {
    check(300, |choices| {
        let (name, whole, float) = choices.pick(&SAME);
        let dtype = choices.pick(&TYPES[..9]);
        let shape = choices.shape();
        let fill = choices.fill();
        let x = choices.array(dtype, &shape, fill);
        let expected = Array::new(dtype, &shape, |i| apply(x.at(i), whole, float));
        let in_place = choices.truth();
        let call = Call::new(name).tensor(&x);
        let call = match in_place {
            true => call.out_is(0),
            false => call.out(choices, dtype, shape.len()),
        };
        call.gives(choices, &[&expected], 1.0);
    });
}

/// An output may be wider than the operand, or of another kind where nothing is lost.
#[test]
fn results_are_converted_to_the_output() {
    check(150, |choices| {
        let (name, whole, float) = choices.pick(&SAME);
        let dtype = choices.pick(&TYPES[..9]);
        let out = choices.pick(&FLOATS);
        let shape = choices.shape();
        let x = choices.array(dtype, &shape, Fill::Small);
        let expected = Array::new(dtype, &shape, |i| apply(x.at(i), whole, float)).cast(out);
        Call::new(name)
            .tensor(&x)
            .out(choices, out, shape.len())
            .gives(choices, &[&expected], 2.0);
    });
}

type Question = (&'static str, fn(f64) -> bool);

const QUESTIONS: [Question; 4] = [
    ("aten::isnan.out", f64::is_nan),
    ("aten::isinf.out", f64::is_infinite),
    ("aten::isfinite.out", f64::is_finite),
    ("aten::logical_not.out", |x| x == 0.0),
];

#[test]
fn questions() {
    check(150, |choices| {
        let (name, f) = choices.pick(&QUESTIONS);
        let dtype = choices.pick(&TYPES);
        let shape = choices.shape();
        let fill = choices.fill();
        let x = choices.array(dtype, &shape, fill);
        let expected = Array::new(ScalarType::Bool, &shape, |i| f(x.at(i).float()).into());
        Call::new(name)
            .tensor(&x)
            .out(choices, ScalarType::Bool, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn bits_are_turned_around() {
    check(100, |choices| {
        let dtype = choices.pick(&[
            ScalarType::Byte,
            ScalarType::Char,
            ScalarType::Short,
            ScalarType::Int,
            ScalarType::Long,
            ScalarType::Bool,
        ]);
        let shape = choices.shape();
        let x = choices.array(dtype, &shape, Fill::Any);
        let expected = Array::new(dtype, &shape, |i| match dtype {
            ScalarType::Bool => Whole(1 - x.at(i).whole()),
            _ => Whole(!x.at(i).whole()),
        });
        Call::new("aten::bitwise_not.out")
            .tensor(&x)
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}
