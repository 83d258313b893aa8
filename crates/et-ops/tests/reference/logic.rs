//! Functions of two operands that do not calculate: bits, comparisons, logic.

use et_kernel::ScalarType;

use crate::array::Array;
use crate::call::Call;
use crate::choice::check;
use crate::number::Number::{self, Whole};
use crate::operand::{Operand, category, common, compare, operands};

/// By tensor and by number.
const BITS: [(&str, &str); 5] = [
    (
        "aten::bitwise_and.Tensor_out",
        "aten::bitwise_and.Scalar_out",
    ),
    ("aten::bitwise_or.Tensor_out", "aten::bitwise_or.Scalar_out"),
    (
        "aten::bitwise_xor.Tensor_out",
        "aten::bitwise_xor.Scalar_out",
    ),
    (
        "aten::bitwise_left_shift.Tensor_out",
        "aten::bitwise_left_shift.Tensor_Scalar_out",
    ),
    (
        "aten::bitwise_right_shift.Tensor_out",
        "aten::bitwise_right_shift.Tensor_Scalar_out",
    ),
];

#[test]
fn bits() {
    check(300, |choices| {
        let which = choices.below(5);
        let plain = choices.truth();
        let fill = choices.fill();
        let (pair, shape) = operands(choices, fill, plain);
        let common = common(&[&pair[0], &pair[1]]);
        let name = if plain { BITS[which].1 } else { BITS[which].0 };
        if category(common) == 2 || which > 2 && common == ScalarType::Bool {
            let [a, b] = &pair;
            let call = b.add(a.add(Call::new(name)));
            return call.out(choices, common, shape.len()).fails(choices);
        }
        let width = 8 * common.nbytes() as i128;
        compare(
            choices,
            name,
            (pair, shape),
            (common, common),
            |call| call,
            |a, b| {
                let (a, b) = (a.whole(), b.whole());
                Whole(match which {
                    0 => a & b,
                    1 => a | b,
                    2 => a ^ b,
                    3 if (0..width).contains(&b) => a << b,
                    3 => 0,
                    // Of a negative number nothing but its sign is left.
                    _ if (0..width).contains(&b) => a >> b,
                    _ => -i128::from(a < 0),
                })
            },
        );
    });
}

type Comparison = (&'static str, &'static str, fn(Number, Number) -> bool);

const COMPARISONS: [Comparison; 6] = [
    ("aten::eq.Tensor_out", "aten::eq.Scalar_out", |a, b| {
        a.equal(b)
    }),
    ("aten::ne.Tensor_out", "aten::ne.Scalar_out", |a, b| {
        !a.equal(b)
    }),
    ("aten::lt.Tensor_out", "aten::lt.Scalar_out", |a, b| {
        a.less(b)
    }),
    ("aten::le.Tensor_out", "aten::le.Scalar_out", |a, b| {
        a.less(b) || a.equal(b)
    }),
    ("aten::gt.Tensor_out", "aten::gt.Scalar_out", |a, b| {
        b.less(a)
    }),
    ("aten::ge.Tensor_out", "aten::ge.Scalar_out", |a, b| {
        b.less(a) || a.equal(b)
    }),
];

#[test]
fn comparisons() {
    check(300, |choices| {
        let (tensor, number, f) = choices.pick(&COMPARISONS);
        let plain = choices.truth();
        let fill = choices.fill();
        let (pair, shape) = operands(choices, fill, plain);
        let common = common(&[&pair[0], &pair[1]]);
        let [a, b] = &pair;
        let expected = Array::new(ScalarType::Bool, &shape, |i| {
            f(a.at(i, common), b.at(i, common)).into()
        });
        let call = b.add(a.add(Call::new(if plain { number } else { tensor })));
        call.out(choices, ScalarType::Bool, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

type Logic = (&'static str, fn(bool, bool) -> bool);

const LOGIC: [Logic; 3] = [
    ("aten::logical_and.out", |a, b| a & b),
    ("aten::logical_or.out", |a, b| a | b),
    ("aten::logical_xor.out", |a, b| a ^ b),
];

#[test]
fn logic() {
    check(150, |choices| {
        let (name, f) = choices.pick(&LOGIC);
        let fill = choices.fill();
        let ([a, b], shape) = operands(choices, fill, false);
        let truth = |operand: &Operand, i: &[usize]| match operand {
            Operand::Tensor(array) => array.spread(i).truth(),
            Operand::Plain(plain) => plain.number().truth(),
        };
        let expected = Array::new(ScalarType::Bool, &shape, |i| {
            f(truth(&a, i), truth(&b, i)).into()
        });
        b.add(a.add(Call::new(name)))
            .out(choices, ScalarType::Bool, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}
