//! Tensors made of numbers.

use et_kernel::ScalarType;

use crate::array::Array;
use crate::call::Call;
use crate::choice::{FLOATS, Fill, TYPES, check};
use crate::number::Number::{Float, Whole};

#[test]
fn one_number_everywhere() {
    check(250, |choices| {
        let dtype = choices.pick(&TYPES);
        let shape = choices.shape();
        let like = choices.array(dtype, &shape, Fill::Small);
        let value = choices.within(-3, 3);
        let tensor = Array::wholes(ScalarType::Char, &[], &[value]);
        let which = choices.below(8);
        let (call, value) = match which {
            0 => (Call::new("aten::full.out").ints(&shape).int(value), value),
            1 => (
                Call::new("aten::full_like.out")
                    .tensor(&like)
                    .int(value)
                    .none(),
                value,
            ),
            2 => (Call::new("aten::zeros.out").ints(&shape), 0),
            3 => (Call::new("aten::ones.out").ints(&shape), 1),
            4 => (Call::new("aten::zeros_like.out").tensor(&like).none(), 0),
            5 => (Call::new("aten::ones_like.out").tensor(&like).none(), 1),
            6 => (
                Call::new("aten::fill.Scalar_out").tensor(&like).int(value),
                value,
            ),
            _ => (
                Call::new("aten::fill.Tensor_out")
                    .tensor(&like)
                    .tensor(&tensor),
                value,
            ),
        };
        let expected = Array::new(dtype, &shape, |_| Whole(value.into()));
        call.out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn a_number_as_a_tensor() {
    check(60, |choices| {
        let dtype = choices.pick(&FLOATS);
        let value = choices.within(-20, 20) as f64 / 8.0;
        let expected = Array::new(dtype, &[], |_| Float(value));
        Call::new("aten::scalar_tensor.out")
            .double(value)
            .out(choices, dtype, 0)
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn numbers_counted_up_or_down() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES[..9]);
        let (start, end) = (choices.within(-20, 20), choices.within(-20, 20));
        let step = choices.pick(&[1, 2, 3, -1, -2, 5]);
        let whole = !dtype.is_floating() || choices.truth();
        let distance = end - start;
        // Quarters, which floating point numbers have without rounding.
        let unit = if whole { 1.0 } else { 0.25 };
        let number = |call: Call, x: i64| match whole {
            true => call.int(x),
            false => call.double(x as f64 * unit),
        };
        if choices.below(4) == 0 {
            let call = number(Call::new("aten::arange.out"), end).out(choices, dtype, 1);
            if end < 0 {
                return call.fails(choices);
            }
            let len = (end as f64 * unit).ceil() as usize;
            let expected = Array::new(dtype, &[len], |i| Whole(i[0] as i128));
            return call.gives(choices, &[&expected], 0.0);
        }
        let call = number(Call::new("aten::arange.start_out"), start);
        let call = number(number(call, end), step).out(choices, dtype, 1);
        if distance != 0 && (distance < 0) != (step < 0) {
            return call.fails(choices);
        }
        let len = (distance.abs() as f64 / step.abs() as f64).ceil() as usize;
        let expected = Array::new(dtype, &[len], |i| {
            Float((start + step * i[0] as i64) as f64 * unit)
        });
        call.gives(choices, &[&expected], 1.0);
    });
}
