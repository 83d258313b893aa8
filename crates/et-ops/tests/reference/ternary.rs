//! Choices by conditions, and bounds.

use et_kernel::ScalarType;

use crate::array::{Array, broadcast};
use crate::call::Call;
use crate::choice::{Choices, TYPES, check};
use crate::number::Number;

/// Tensors of one type that broadcast together.
fn alike<const N: usize>(choices: &mut Choices, dtype: ScalarType) -> ([Array; N], Vec<usize>) {
    let shape = choices.shape();
    let fill = choices.fill();
    let arrays: [Array; N] = std::array::from_fn(|_| {
        let own = choices.narrower(&shape);
        choices.array(dtype, &own, fill)
    });
    let shapes: Vec<&[usize]> = arrays.iter().map(|array| &array.sizes[..]).collect();
    let shape = broadcast(&shapes).unwrap();
    (arrays, shape)
}

fn condition(choices: &mut Choices, shape: &[usize]) -> Array {
    let dtype = choices.pick(&[ScalarType::Bool, ScalarType::Byte]);
    choices.wholes(dtype, shape, 0, 2)
}

#[test]
fn a_condition_chooses() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES);
        let ([a, b], shape) = alike(choices, dtype);
        let own = choices.narrower(&shape);
        let condition = condition(choices, &own);
        let expected = Array::new(dtype, &shape, |i| {
            if condition.spread(i).truth() {
                a.spread(i)
            } else {
                b.spread(i)
            }
        });
        Call::new("aten::where.self_out")
            .tensor(&condition)
            .tensor(&a)
            .tensor(&b)
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn a_mask_is_filled() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES);
        let ([a], shape) = alike(choices, dtype);
        let own = choices.narrower(&shape);
        let mask = condition(choices, &own);
        let value = choices.within(-3, 3);
        let expected = Array::new(dtype, &shape, |i| {
            if mask.spread(i).truth() {
                Number::Whole(value.into())
            } else {
                a.spread(i)
            }
        });
        let by_tensor = choices.truth();
        let call = match by_tensor {
            true => Call::new("aten::masked_fill.Tensor_out")
                .tensor(&a)
                .tensor(&mask)
                .tensor(&Array::wholes(dtype, &[], &[value])),
            false => Call::new("aten::masked_fill.Scalar_out")
                .tensor(&a)
                .tensor(&mask)
                .int(value),
        };
        call.out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

/// The larger of two, or what is no number.
fn most(a: Number, b: Number) -> Number {
    if a.is_nan() || !b.is_nan() && b.less(a) {
        a
    } else {
        b
    }
}

fn least(a: Number, b: Number) -> Number {
    if a.is_nan() || !b.is_nan() && a.less(b) {
        a
    } else {
        b
    }
}

fn clamped(x: Number, low: Option<Number>, high: Option<Number>) -> Number {
    let x = low.map_or(x, |low| most(x, low));
    high.map_or(x, |high| least(x, high))
}

#[test]
fn numbers_are_bounds() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES[..9]);
        let ([x], shape) = alike(choices, dtype);
        let (low, high) = (choices.within(-4, 2), choices.within(-2, 5));
        let kept = choices.below(3);
        let [low_number, high_number] = [low, high].map(|x| Number::Whole(x.into()).cast(dtype));
        let bounds = [
            (kept != 1).then_some(low_number),
            (kept != 2).then_some(high_number),
        ];
        let expected = Array::new(dtype, &shape, |i| clamped(x.at(i), bounds[0], bounds[1]));
        let single = kept > 0 && choices.truth();
        let call = match (single, kept) {
            (true, 1) => Call::new("aten::clamp_max.out").tensor(&x).int(high),
            (true, _) => Call::new("aten::clamp_min.out").tensor(&x).int(low),
            (false, 0) => Call::new("aten::clamp.out").tensor(&x).int(low).int(high),
            (false, 1) => Call::new("aten::clamp.out").tensor(&x).none().int(high),
            (false, _) => Call::new("aten::clamp.out").tensor(&x).int(low).none(),
        };
        call.out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn tensors_are_bounds() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES[..9]);
        let ([x, low, high], _) = alike(choices, dtype);
        let (has_low, has_high) = match choices.below(3) {
            0 => (true, true),
            1 => (true, false),
            _ => (false, true),
        };
        let mut shapes = vec![&x.sizes[..]];
        shapes.extend(has_low.then_some(&low.sizes[..]));
        shapes.extend(has_high.then_some(&high.sizes[..]));
        let shape = broadcast(&shapes).unwrap();
        let expected = Array::new(dtype, &shape, |i| {
            let low = has_low.then(|| low.spread(i));
            clamped(x.spread(i), low, has_high.then(|| high.spread(i)))
        });
        Call::new("aten::clamp.Tensor_out")
            .tensor(&x)
            .optional(has_low.then_some(&low))
            .optional(has_high.then_some(&high))
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}
