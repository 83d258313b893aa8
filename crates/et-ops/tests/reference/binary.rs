//! Arithmetic on two operands, broadcast and promoted.

use et_kernel::ScalarType;

use crate::array::Array;
use crate::call::Call;
use crate::choice::{Choices, Fill, TYPES, check};
use crate::number::Number::{self, Float, Whole};
use crate::operand::{Operand, category, common, compare, operands};

/// An output type that may hold a `common`, most often that itself.
fn output(choices: &mut Choices, common: ScalarType) -> ScalarType {
    match choices.below(4) {
        0 => ScalarType::Double,
        _ => common,
    }
}

fn arithmetic(
    a: Number,
    b: Number,
    whole: impl Fn(i128, i128) -> i128,
    float: impl Fn(f64, f64) -> f64,
) -> Number {
    match (a, b) {
        (Whole(a), Whole(b)) => Whole(whole(a, b)),
        (a, b) => Float(float(a.float(), b.float())),
    }
}

#[test]
fn sums_and_differences() {
    check(400, |choices| {
        let fill = choices.fill();
        let plain = choices.truth();
        let reverse = plain && choices.truth();
        let minus = reverse || choices.truth();
        let (mut pair, shape) = operands(choices, fill, plain);
        pair.iter_mut().for_each(Operand::tame);
        let common = common(&[&pair[0], &pair[1]]);
        if minus && common == ScalarType::Bool {
            return;
        }
        let alpha = match category(common) {
            0 => 1,
            _ => choices.within(-2, 3),
        };
        let name = match (minus, plain, reverse) {
            (true, true, true) => "aten::rsub.Scalar_out",
            (true, true, false) => "aten::sub.Scalar_out",
            (true, false, _) => "aten::sub.out",
            (false, true, _) => "aten::add.Scalar_out",
            (false, false, _) => "aten::add.out",
        };
        let out = output(choices, common);
        let sign = if minus { -1 } else { 1 };
        compare(
            choices,
            name,
            (pair, shape),
            (common, out),
            |call| call.int(alpha),
            |a, b| {
                let (a, b) = if reverse { (b, a) } else { (a, b) };
                let factor = sign * i128::from(alpha);
                if common == ScalarType::Bool {
                    return (a.truth() || b.truth()).into();
                }
                arithmetic(a, b, |a, b| a + factor * b, |a, b| a + factor as f64 * b)
            },
        );
    });
}

type Two = (
    &'static str,
    &'static str,
    fn(i128, i128) -> i128,
    fn(f64, f64) -> f64,
);

/// Floor and remainder as Python has them.
fn floor_whole(a: i128, b: i128) -> i128 {
    a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)
}

fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
        rest + b
    } else {
        rest
    }
}

fn nan_or(a: f64, b: f64, f: fn(f64, f64) -> f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        f(a, b)
    }
}

/// Operators by their names with a tensor and with a number (the same where there is none).
const ARITHMETIC: [Two; 5] = [
    (
        "aten::mul.out",
        "aten::mul.Scalar_out",
        |a, b| a * b,
        |a, b| a * b,
    ),
    (
        "aten::maximum.out",
        "aten::maximum.out",
        i128::max,
        |a, b| nan_or(a, b, f64::max),
    ),
    (
        "aten::minimum.out",
        "aten::minimum.out",
        i128::min,
        |a, b| nan_or(a, b, f64::min),
    ),
    ("aten::fmax.out", "aten::fmax.out", i128::max, f64::max),
    ("aten::fmin.out", "aten::fmin.out", i128::min, f64::min),
];

#[test]
fn products_and_extremes() {
    check(400, |choices| {
        let (tensor, plain, whole, float) = choices.pick(&ARITHMETIC);
        let with_plain = tensor != plain && choices.truth();
        let fill = choices.fill();
        let (pair, shape) = operands(choices, fill, with_plain);
        let common = common(&[&pair[0], &pair[1]]);
        let out = output(choices, common);
        let name = if with_plain { plain } else { tensor };
        compare(
            choices,
            name,
            (pair, shape),
            (common, out),
            |call| call,
            |a, b| arithmetic(a, b, whole, float),
        );
    });
}

const DIVISIONS: [Two; 2] = [
    (
        "aten::remainder.Tensor_out",
        "aten::remainder.Scalar_out",
        |a, b| a - b * floor_whole(a, b),
        remainder,
    ),
    (
        "aten::fmod.Tensor_out",
        "aten::fmod.Scalar_out",
        |a, b| a % b,
        |a, b| a % b,
    ),
];

/// Small numbers: far apart, whether a quotient is just below or above a whole number is a matter of rounding.
#[test]
fn quotients_and_remainders() {
    check(400, |choices| {
        let plain = choices.truth();
        let (pair, shape) = operands(choices, Fill::Small, plain);
        let common = common(&[&pair[0], &pair[1]]);
        let zero = |operand: &Operand| match operand {
            Operand::Tensor(array) => array.elements.iter().any(|x| !x.cast(common).truth()),
            Operand::Plain(plain) => !plain.number().cast(common).truth(),
        };
        let (floor, trunc) = (choices.truth(), choices.truth());
        let which = choices.below(4);
        if which == 0 {
            let out = if category(common) == 2 {
                common
            } else {
                ScalarType::Float
            };
            let name = if plain {
                "aten::div.Scalar_out"
            } else {
                "aten::div.out"
            };
            return compare(
                choices,
                name,
                (pair, shape),
                (out, out),
                |call| call,
                |a, b| Float(a.float() / b.float()),
            );
        }
        if common == ScalarType::Bool {
            return;
        }
        let divides_by_zero = category(common) < 2 && zero(&pair[1]);
        let rounding = if floor { "floor" } else { "trunc" };
        let (name, mode): (_, Option<&str>) = match (which, plain) {
            (1, true) => ("aten::div.Scalar_mode_out", Some(rounding)),
            (1, false) => ("aten::div.out_mode", Some(rounding)),
            (2, false) if floor => ("aten::floor_divide.out", None),
            _ => {
                let (tensor, number, ..) = DIVISIONS[usize::from(trunc)];
                (if plain { number } else { tensor }, None)
            }
        };
        let rest = |call: Call| match mode {
            Some(mode) => call.text(mode),
            None => call,
        };
        let [a, b] = &pair;
        if divides_by_zero {
            let call = rest(b.add(a.add(Call::new(name))));
            return call.out(choices, common, shape.len()).fails(choices);
        }
        let quotient = mode.is_some() || name == "aten::floor_divide.out";
        let down = mode != Some("trunc");
        compare(
            choices,
            name,
            (pair, shape),
            (common, common),
            rest,
            |a, b| match quotient {
                true if down => arithmetic(a, b, floor_whole, |a, b| (a / b).floor()),
                true => arithmetic(a, b, |a, b| a / b, |a, b| (a / b).trunc()),
                false => {
                    let (_, _, whole, float) = DIVISIONS[usize::from(trunc)];
                    arithmetic(a, b, whole, float)
                }
            },
        );
    });
}

#[test]
fn powers() {
    check(300, |choices| {
        let plain = choices.below(3);
        let (pair, shape) = operands(choices, Fill::Small, plain > 0);
        let common = common(&[&pair[0], &pair[1]]);
        if common == ScalarType::Bool {
            return;
        }
        let [a, b] = pair;
        let (name, [a, b]) = match plain {
            0 => ("aten::pow.Tensor_Tensor_out", [a, b]),
            1 => ("aten::pow.Tensor_Scalar_out", [a, b]),
            _ => ("aten::pow.Scalar_out", [b, a]),
        };
        let negative = matches!(b, Operand::Plain(plain) if plain.number().float() < 0.0);
        if negative && category(common) < 2 {
            let call = b.add(a.add(Call::new(name)));
            return call.out(choices, common, shape.len()).fails(choices);
        }
        compare(
            choices,
            name,
            ([a, b], shape),
            (common, common),
            |call| call,
            |a, b| arithmetic(a, b, whole_power, f64::powf),
        );
    });
}

/// Wraps, and is 0 for a negative power of anything but 1 and -1.
fn whole_power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    (0..exponent).fold(1i128, |product, _| {
        i128::from(product.wrapping_mul(base) as i64)
    })
}

type Floating = (&'static str, fn(f64, f64) -> f64);

const FLOATING: [Floating; 3] = [
    ("aten::atan2.out", f64::atan2),
    ("aten::hypot.out", f64::hypot),
    ("aten::copysign.out", f64::copysign),
];

#[test]
fn functions_of_two_floating_point_numbers() {
    check(200, |choices| {
        let (name, f) = choices.pick(&FLOATING);
        let fill = choices.fill();
        let (pair, shape) = operands(choices, fill, false);
        let found = common(&[&pair[0], &pair[1]]);
        let common = if category(found) == 2 {
            found
        } else {
            ScalarType::Float
        };
        compare(
            choices,
            name,
            (pair, shape),
            (common, common),
            |call| call,
            |a, b| Float(f(a.float(), b.float())),
        );
    });
}

/// As many dimensions as a tensor may have.
#[test]
fn many_dimensions_broadcast() {
    check(100, |choices| {
        let dtype = choices.pick(&TYPES[..9]);
        let rank = choices.within(7, 16) as usize;
        let shape: Vec<usize> = (0..rank)
            .map(|dim| if dim % 2 == 0 { 2 } else { 1 })
            .collect();
        let own = choices.narrower(&shape);
        let a = choices.array(dtype, &shape, Fill::Small);
        let b = choices.array(dtype, &own, Fill::Small);
        let expected = Array::new(dtype, &shape, |i| {
            arithmetic(a.at(i), b.spread(i), |a, b| a + b, |a, b| a + b)
        });
        Call::new("aten::add.out")
            .tensor(&a)
            .tensor(&b)
            .int(1)
            .out(choices, dtype, rank)
            .gives(choices, &[&expected], 1.0);
    });
}

/// An operand may be the output itself.
#[test]
fn operands_may_be_the_output() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES[..9]);
        let shape = choices.shape();
        let [a, b] = [0; 2].map(|_| choices.array(dtype, &shape, Fill::Any));
        let product = Array::new(dtype, &shape, |i| {
            arithmetic(a.at(i), b.at(i), |a, b| a * b, |a, b| a * b)
        });
        let square = Array::new(dtype, &shape, |i| {
            arithmetic(a.at(i), a.at(i), |a, b| a * b, |a, b| a * b)
        });
        let call = Call::new("aten::mul.out").tensor(&a);
        match choices.below(3) {
            0 => call.tensor(&b).out_is(0).gives(choices, &[&product], 1.0),
            1 => call.tensor(&b).out_is(1).gives(choices, &[&product], 1.0),
            _ => call.tensor(&a).out_is(1).gives(choices, &[&square], 1.0),
        }
    });
}

#[test]
fn shapes_that_do_not_broadcast_are_refused() {
    check(100, |choices| {
        let (shape, dim) = choices.shape_and_dim();
        let a = choices.array(
            ScalarType::Float,
            &crate::array::resized(&shape, dim, 3),
            Fill::Small,
        );
        let b = choices.array(
            ScalarType::Float,
            &crate::array::resized(&shape, dim, 4),
            Fill::Small,
        );
        Call::new("aten::mul.out")
            .tensor(&a)
            .tensor(&b)
            .out(choices, ScalarType::Float, shape.len())
            .fails(choices);
    });
}
