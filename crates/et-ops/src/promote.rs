//! The element type that mixed operands are computed in, by PyTorch's rules.

use et_kernel::{Arguments, KernelError, Scalar, ScalarType, TensorId};

/// An operand: a tensor or a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A tensor.
    Tensor(TensorId),
    /// A number.
    Number(Scalar),
}

/// What a type is before its width counts. In order: the later wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    Bool,
    Integral,
    Floating,
}

fn category(dtype: ScalarType) -> Category {
    match dtype {
        ScalarType::Bool => Category::Bool,
        _ if dtype.is_floating() => Category::Floating,
        _ => Category::Integral,
    }
}

/// The type for `operands`: that of the tensors with dimensions, unless tensors without, or else numbers, are of a higher
/// category (truth value, whole number, floating point number).
pub(crate) fn result_type(context: &impl Arguments, operands: &[Operand]) -> ScalarType {
    // Most operands are tensors of one type.
    if let [Operand::Tensor(a), Operand::Tensor(b)] = *operands
        && context.meta(a).dtype() == context.meta(b).dtype()
    {
        return context.meta(a).dtype();
    }
    let mut groups: [Option<ScalarType>; 3] = [None; 3];
    for operand in operands {
        let (group, dtype) = match *operand {
            Operand::Tensor(id) => {
                let meta = context.meta(id);
                (usize::from(meta.rank() == 0), meta.dtype())
            }
            Operand::Number(number) => (2, number_type(number)),
        };
        groups[group] = Some(groups[group].map_or(dtype, |other| promote(other, dtype)));
    }
    let [dimensioned, single, number] = groups;
    let tensors = prefer(dimensioned, single);
    prefer(tensors, number).unwrap_or(ScalarType::Float)
}

/// `high`'s type, unless `low` is of a higher category.
fn prefer(high: Option<ScalarType>, low: Option<ScalarType>) -> Option<ScalarType> {
    match (high, low) {
        (Some(high), Some(low)) if category(low) > category(high) => {
            // A floating point number beside whole tensors means the default type, beside nothing its own.
            Some(low)
        }
        (Some(high), _) => Some(high),
        (None, low) => low,
    }
}

/// The type that a number of a program stands for in arithmetic with tensors.
pub(crate) fn number_type(number: Scalar) -> ScalarType {
    match number {
        Scalar::Bool(_) => ScalarType::Bool,
        Scalar::Int(_) => ScalarType::Long,
        Scalar::Double(_) => ScalarType::Float,
    }
}

/// The smallest type that takes the values of both.
pub(crate) fn promote(a: ScalarType, b: ScalarType) -> ScalarType {
    use ScalarType::{BFloat16, Bool, Byte, Char, Double, Float, Half, Int, Long, Short};
    if a == b {
        return a;
    }
    let has = |dtype| a == dtype || b == dtype;
    match category(a).max(category(b)) {
        Category::Bool => Bool,
        Category::Floating if has(Double) => Double,
        Category::Floating if has(Float) || (has(Half) && has(BFloat16)) => Float,
        Category::Floating if has(Half) => Half,
        Category::Floating => BFloat16,
        Category::Integral if has(Bool) => {
            if a == Bool {
                b
            } else {
                a
            }
        }
        Category::Integral if has(Long) => Long,
        Category::Integral if has(Int) => Int,
        // What is left is two of Byte, Char and Short, or a type that PyTorch promotes with nothing but itself.
        Category::Integral if [a, b].iter().all(|t| [Byte, Char, Short].contains(t)) => Short,
        Category::Integral => Long,
    }
}

/// `dtype`, or `Float` for whole numbers and truth values: the type of operators that make fractions.
pub(crate) fn floating(dtype: ScalarType) -> ScalarType {
    if dtype.is_floating() {
        dtype
    } else {
        ScalarType::Float
    }
}

/// Fails if a result computed as `from` may not be stored as `to`: fractions in whole numbers, or numbers in truth values.
pub(crate) fn expect_castable(from: ScalarType, to: ScalarType) -> Result<(), KernelError> {
    if category(from) <= category(to) {
        return Ok(());
    }
    Err(KernelError::invalid(format!(
        "a result of type {from} cannot be stored in an output of type {to}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_count_within_a_category_only() {
        use ScalarType::{BFloat16, Bool, Byte, Char, Double, Float, Half, Int, Long, Short};
        let cases = [
            (Byte, Char, Short),
            (Byte, Bool, Byte),
            (Int, Half, Half),
            (Long, BFloat16, BFloat16),
            (Half, BFloat16, Float),
            (Half, Double, Double),
            (Short, Byte, Short),
            (Int, Long, Long),
        ];
        for (a, b, expected) in cases {
            assert_eq!(promote(a, b), expected, "{a} with {b}");
            assert_eq!(promote(b, a), expected, "{b} with {a}");
        }
    }
}
