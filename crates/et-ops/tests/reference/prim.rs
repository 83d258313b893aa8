//! Numbers of programs, and tensors that give or take them.

use et_kernel::{EValue, ScalarType};

use crate::array::Array;
use crate::call::Call;
use crate::choice::{Choices, Fill, TYPES, check};
use crate::number::Number::Whole;

/// A number that a program computes with.
fn number(choices: &mut Choices) -> i64 {
    match choices.below(4) {
        0 => choices.pick(&[i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1, 1 << 40]),
        _ => choices.within(-12, 12),
    }
}

/// The quotient, rounded down.
fn floor(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    quotient - i128::from(a % b != 0 && (a < 0) != (b < 0))
}

/// The remainder. There is none where the quotient is too large.
fn rest(a: i128, b: i128) -> Option<i128> {
    (b != 0 && i64::try_from(a / b).is_ok()).then(|| a % b)
}

/// What the operator makes of two whole numbers; nothing if it cannot be.
type Whole2 = (&'static str, fn(i128, i128) -> Option<i128>);

const WHOLE: [Whole2; 9] = [
    ("executorch_prim::add.Scalar", |a, b| Some(a + b)),
    ("executorch_prim::sub.Scalar", |a, b| Some(a - b)),
    ("executorch_prim::mul.Scalar", |a, b| Some(a * b)),
    ("executorch_prim::floordiv.Scalar", |a, b| {
        (b != 0).then(|| floor(a, b))
    }),
    ("executorch_prim::floordiv.int", |a, b| {
        (b != 0).then(|| a / b)
    }),
    ("executorch_prim::mod.Scalar", rest),
    ("executorch_prim::mod.int", rest),
    ("executorch_prim::sym_max.Scalar", |a, b| Some(a.max(b))),
    ("executorch_prim::sym_min.Scalar", |a, b| Some(a.min(b))),
];

#[test]
fn whole_numbers() {
    check(300, |choices| {
        let (name, f) = choices.pick(&WHOLE);
        let (a, b) = (number(choices), number(choices));
        let call = Call::new(name).int(a).int(b).none();
        match f(a.into(), b.into()).map(i64::try_from) {
            Some(Ok(expected)) => call.sets(&EValue::Int(expected)),
            _ => call.fails(choices),
        }
    });
}

type Fraction2 = (&'static str, fn(f64, f64) -> f64);

const FRACTIONS: [Fraction2; 4] = [
    ("executorch_prim::add.Scalar", |a, b| a + b),
    ("executorch_prim::sub.Scalar", |a, b| a - b),
    ("executorch_prim::mul.Scalar", |a, b| a * b),
    ("executorch_prim::truediv.Scalar", |a, b| a / b),
];

#[test]
fn fractions() {
    check(150, |choices| {
        let (name, f) = choices.pick(&FRACTIONS);
        let (a, b) = (
            choices.within(-20, 20),
            choices.within(-20, 20) as f64 / 4.0,
        );
        if b == 0.0 {
            return;
        }
        let expected = EValue::Double(f(a as f64, b));
        Call::new(name).int(a).double(b).none().sets(&expected);
    });
}

type Comparison = (&'static str, fn(f64, f64) -> bool);

const COMPARISONS: [Comparison; 5] = [
    ("executorch_prim::eq.Scalar", |a, b| a == b),
    ("executorch_prim::gt.Scalar", |a, b| a > b),
    ("executorch_prim::lt.Scalar", |a, b| a < b),
    ("executorch_prim::ge.Scalar", |a, b| a >= b),
    ("executorch_prim::le.Scalar", |a, b| a <= b),
];

#[test]
fn comparisons() {
    check(150, |choices| {
        let (name, f) = choices.pick(&COMPARISONS);
        let (a, b) = (choices.within(-3, 3), choices.within(-3, 3));
        let call = Call::new(name).int(a);
        let (call, b) = match choices.truth() {
            true => (call.int(b), b as f64),
            false => (call.double(b as f64 / 2.0), b as f64 / 2.0),
        };
        call.none().sets(&EValue::Bool(f(a as f64, b)));
    });
}

#[test]
fn one_number() {
    check(200, |choices| {
        let whole = number(choices);
        let fraction = choices.within(-40, 40) as f64 / 8.0;
        let truth = choices.truth();
        let (call, expected) = match choices.below(9) {
            0 if whole == i64::MIN => {
                return Call::new("executorch_prim::neg.Scalar")
                    .int(whole)
                    .none()
                    .fails(choices);
            }
            0 => (
                Call::new("executorch_prim::neg.Scalar").int(whole),
                EValue::Int(-whole),
            ),
            1 => (
                Call::new("executorch_prim::neg.Scalar").double(fraction),
                EValue::Double(-fraction),
            ),
            2 => (
                Call::new("executorch_prim::sym_not.Scalar").truth(truth),
                EValue::Bool(!truth),
            ),
            3 => (
                Call::new("executorch_prim::sym_float.Scalar").int(whole),
                EValue::Double(whole as f64),
            ),
            4 => (
                Call::new("executorch_prim::sym_int.Scalar").double(fraction),
                EValue::Int(fraction.trunc() as i64),
            ),
            5 => (
                Call::new("executorch_prim::sym_ite.Scalar")
                    .truth(truth)
                    .int(whole)
                    .double(fraction),
                if truth {
                    EValue::Int(whole)
                } else {
                    EValue::Double(fraction)
                },
            ),
            6 => (
                Call::new("executorch_prim::ceil.Scalar").double(fraction),
                EValue::Int(fraction.ceil() as i64),
            ),
            7 => (
                Call::new("executorch_prim::round.Scalar").double(fraction),
                EValue::Int(fraction.round_ties_even() as i64),
            ),
            _ => (
                Call::new("executorch_prim::trunc.Scalar").double(fraction),
                EValue::Int(fraction.trunc() as i64),
            ),
        };
        call.none().sets(&expected);
    });
}

#[test]
fn sizes_and_elements() {
    check(150, |choices| {
        let dtype = choices.pick(&TYPES);
        let (shape, dim) = choices.shape_and_dim();
        let x = choices.array(dtype, &shape, Fill::Small);
        let name = choices.named(dim, shape.len());
        Call::new("aten::sym_size.int")
            .tensor(&x)
            .int(name)
            .none()
            .sets(&EValue::Int(shape[dim] as i64));
        Call::new("aten::sym_numel")
            .tensor(&x)
            .none()
            .sets(&EValue::Int(x.numel() as i64));
        let call = Call::new("aten::_local_scalar_dense").tensor(&x).none();
        let [element] = x.elements[..] else {
            return call.fails(choices);
        };
        let expected = match dtype {
            ScalarType::Bool => EValue::Bool(element.truth()),
            _ if dtype.is_floating() => EValue::Double(element.float()),
            _ => EValue::Int(element.whole() as i64),
        };
        call.sets(&expected);
    });
}

#[test]
fn rows_are_added() {
    check(100, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = choices.below(3);
        let row = choices.sizes(rank);
        let rows = choices.below(4);
        let at = choices.below(rows.max(1));
        let mut table = choices.array(dtype, &[&[rows.max(1)], &row[..]].concat(), Fill::Any);
        let mut from = choices.array(dtype, &row, Fill::Any);
        table.order.sort_unstable();
        from.order.sort_unstable();
        let sizes = [&[at + 1], &row[..]].concat();
        let expected = Array::new(dtype, &sizes, |i| {
            if i[0] == at {
                from.at(&i[1..])
            } else {
                table.at(i)
            }
        });
        let call = Call::new("executorch_prim::et_copy_index.tensor");
        // A tensor of fixed shape only takes its last row.
        let call = call.tensor(&table).tensor(&from).int(at).out_is_too(0);
        match at + 1 == rows.max(1) {
            true => call.gives(choices, &[&expected], 0.0),
            false => call.fails(choices),
        }
    });
}

#[test]
fn nothing_is_dropped() {
    check(60, |choices| {
        let dtype = choices.pick(&crate::choice::FLOATS);
        let shape = choices.shape();
        let x = choices.array(dtype, &shape, Fill::Any);
        let all = Array::new(ScalarType::Bool, &shape, |_| Whole(1));
        let call = Call::new("aten::native_dropout.out").tensor(&x).double(0.5);
        let call = match choices.truth() {
            true => call.truth(false),
            false => call.none(),
        };
        call.out(choices, dtype, shape.len())
            .out(choices, ScalarType::Bool, shape.len())
            .gives(choices, &[&x, &all], 0.0);
    });
}

/// What an empty tensor holds is not said.
#[test]
fn empty_tensors_have_their_shape() {
    check(60, |choices| {
        let dtype = choices.pick(&TYPES);
        let shape = choices.shape();
        let name = choices.pick(&["aten::empty.out", "dim_order_ops::_empty_dim_order.out"]);
        let call = Call::new(name).ints(&shape).none();
        let found = call.out(choices, dtype, shape.len()).run(choices).unwrap();
        assert_eq!(found[0].sizes, shape);
    });
}
