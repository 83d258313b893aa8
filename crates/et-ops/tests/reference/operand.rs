//! Operands of two sorts, tensors and plain numbers, and the type that they are computed in.

use et_kernel::ScalarType;

use crate::array::{Array, broadcast};
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, TYPES};
use crate::number::Number::{self, Float, Whole};
use crate::number::{precision, promote};

/// What an operand is before its width counts.
pub(crate) fn category(dtype: ScalarType) -> usize {
    match dtype {
        ScalarType::Bool => 0,
        _ if FLOATS.contains(&dtype) => 2,
        _ => 1,
    }
}

/// The type that operators compute a common type in: operands of half width are not rounded to it before, as in the C++ runtime.
pub(crate) fn computed(common: ScalarType) -> ScalarType {
    match common {
        ScalarType::Half | ScalarType::BFloat16 => ScalarType::Float,
        _ => common,
    }
}

/// An operand that is not a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plain {
    Int(i64),
    Double(f64),
    Truth(bool),
}

impl Plain {
    pub(crate) fn draw(choices: &mut Choices) -> Self {
        match choices.below(3) {
            0 => Self::Int(choices.within(-9, 9)),
            1 => Self::Double(choices.within(-18, 18) as f64 / 4.0),
            _ => Self::Truth(choices.truth()),
        }
    }

    pub(crate) fn dtype(self) -> ScalarType {
        match self {
            Self::Int(_) => ScalarType::Long,
            Self::Double(_) => ScalarType::Float,
            Self::Truth(_) => ScalarType::Bool,
        }
    }

    pub(crate) fn number(self) -> Number {
        match self {
            Self::Int(x) => Whole(x.into()),
            Self::Double(x) => Float(x),
            Self::Truth(x) => x.into(),
        }
    }

    pub(crate) fn add(self, call: Call) -> Call {
        match self {
            Self::Int(x) => call.int(x),
            Self::Double(x) => call.double(x),
            Self::Truth(x) => call.truth(x),
        }
    }
}

/// An operand of either sort.
pub(crate) enum Operand {
    Tensor(Array),
    Plain(Plain),
}

impl Operand {
    pub(crate) fn add(&self, call: Call) -> Call {
        match self {
            Self::Tensor(array) => call.tensor(array),
            Self::Plain(plain) => plain.add(call),
        }
    }

    pub(crate) fn at(&self, index: &[usize], common: ScalarType) -> Number {
        match self {
            Self::Tensor(array) => array.spread(index),
            Self::Plain(plain) => plain.number(),
        }
        .cast(computed(common))
    }

    /// Without numbers whose multiples may not be numbers any more.
    pub(crate) fn tame(&mut self) {
        if let Self::Tensor(array) = self {
            let large = |x: &&mut Number| matches!(x, Float(x) if x.is_finite() && x.abs() > 1e37);
            array
                .elements
                .iter_mut()
                .filter(large)
                .for_each(|x| *x = Float(1.0));
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Self::Tensor(array) => &array.sizes,
            Self::Plain(_) => &[],
        }
    }
}

/// The type for operands: tensors with dimensions first, then those without, then plain numbers.
pub(crate) fn common(operands: &[&Operand]) -> ScalarType {
    let mut groups: [Option<ScalarType>; 3] = [None; 3];
    for operand in operands {
        let (group, dtype) = match operand {
            Operand::Tensor(array) => (usize::from(array.rank() == 0), array.dtype),
            Operand::Plain(plain) => (2, plain.dtype()),
        };
        groups[group] = Some(groups[group].map_or(dtype, |other| promote(other, dtype)));
    }
    let found = groups.into_iter().flatten();
    found
        .reduce(|high, low| {
            if category(low) > category(high) {
                promote(high, low)
            } else {
                high
            }
        })
        .unwrap()
}

/// Two operands that broadcast, one or both tensors, of any types.
pub(crate) fn operands(
    choices: &mut Choices,
    fill: Fill,
    plain: bool,
) -> ([Operand; 2], Vec<usize>) {
    let shape = choices.shape();
    let (a_type, b_type) = match choices.below(3) {
        0 => {
            let dtype = choices.pick(&TYPES);
            (dtype, dtype)
        }
        _ => (choices.pick(&TYPES), choices.pick(&TYPES)),
    };
    let a_shape = choices.narrower(&shape);
    let a = Operand::Tensor(choices.array(a_type, &a_shape, fill));
    let b = if plain {
        Operand::Plain(Plain::draw(choices))
    } else {
        let b_shape = choices.narrower(&shape);
        Operand::Tensor(choices.array(b_type, &b_shape, fill))
    };
    let shape = broadcast(&[a.shape(), b.shape()]).unwrap();
    ([a, b], shape)
}

/// Runs an operator whose operands are followed by `rest`, and compares with `f` of the operands in their common type.
pub(crate) fn compare(
    choices: &mut Choices,
    name: &'static str,
    ([a, b], shape): ([Operand; 2], Vec<usize>),
    (common, out): (ScalarType, ScalarType),
    rest: impl FnOnce(Call) -> Call,
    f: impl Fn(Number, Number) -> Number,
) {
    // A result that is stored in a wider type is not rounded to the common one before.
    let exact = if category(common) == 2 {
        ScalarType::Double
    } else {
        common
    };
    let expected = Array::new(exact, &shape, |i| f(a.at(i, common), b.at(i, common))).cast(out);
    let slack = (precision(common) / precision(out)).max(1.0);
    let call = rest(b.add(a.add(Call::new(name))));
    call.out(choices, out, shape.len())
        .gives(choices, &[&expected], 4.0 * slack);
}
