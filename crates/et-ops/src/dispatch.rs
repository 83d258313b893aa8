//! From an element type that is known when a program runs to a Rust type.

use et_kernel::{KernelError, ScalarType, ScalarTypeSet};

/// Integers and truth values.
pub(crate) const INTEGRAL_AND_BOOL: ScalarTypeSet = ScalarTypeSet::of(&[
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::Bool,
]);

/// All numbers.
pub(crate) const REAL: ScalarTypeSet = ScalarTypeSet::of(&[
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::Half,
    ScalarType::BFloat16,
    ScalarType::Float,
    ScalarType::Double,
]);

/// Everything that has a Rust type: what can be converted.
pub(crate) const NUMBERS: ScalarTypeSet = ScalarTypeSet::of(&[
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Long,
    ScalarType::UInt16,
    ScalarType::UInt32,
    ScalarType::UInt64,
    ScalarType::Half,
    ScalarType::BFloat16,
    ScalarType::Float,
    ScalarType::Double,
    ScalarType::Bool,
]);

/// Everything of up to 8 bytes: what can be moved about without looking at it.
pub(crate) const MOVABLE: ScalarTypeSet = ScalarTypeSet::ALL.without(ScalarType::ComplexDouble);

/// What indices may be.
pub(crate) const INDEX: ScalarTypeSet = ScalarTypeSet::of(&[ScalarType::Int, ScalarType::Long]);

/// The error for a tensor (which one is `what`) whose element type is not in `expected`.
#[cold]
pub(crate) fn unsupported(
    what: &'static str,
    found: ScalarType,
    expected: ScalarTypeSet,
) -> KernelError {
    let names: Vec<_> = expected.iter().map(ScalarType::name).collect();
    KernelError::Dtype {
        what,
        expected: names.join(", ").into(),
        found,
    }
}

/// Fails unless the element type of `what` is in `expected`.
pub(crate) fn expect_dtype(
    what: &'static str,
    found: ScalarType,
    expected: ScalarTypeSet,
) -> Result<(), KernelError> {
    if expected.contains(found) {
        Ok(())
    } else {
        Err(unsupported(what, found, expected))
    }
}

/// Evaluates an expression with a type name bound to the type that elements of `$dtype` are computed in. The first word is
/// the set of element types that are taken.
macro_rules! compute {
    (@ $set:expr, $what:expr, $dtype:expr, $T:ident => $body:expr; $($variant:pat => $type:ty),+) => {
        match $dtype {
            $($variant => { type $T = $type; $body })+
            #[allow(unreachable_patterns, reason = "not of each set")]
            other => Err($crate::dispatch::unsupported($what, other, $set)),
        }
    };
    (floating, $what:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch::compute!(@ et_kernel::ScalarTypeSet::FLOATING, $what, $dtype, $T => $body;
            et_kernel::ScalarType::Half | et_kernel::ScalarType::BFloat16 | et_kernel::ScalarType::Float => f32,
            et_kernel::ScalarType::Double => f64)
    };
    (integral_and_bool, $what:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch::compute!(@ $crate::dispatch::INTEGRAL_AND_BOOL, $what, $dtype, $T => $body;
            et_kernel::ScalarType::Byte => u8,
            et_kernel::ScalarType::Char => i8,
            et_kernel::ScalarType::Short => i16,
            et_kernel::ScalarType::Int => i32,
            et_kernel::ScalarType::Long => i64,
            et_kernel::ScalarType::Bool => et_kernel::Bool8)
    };
    (real, $what:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch::compute!(@ $crate::dispatch::REAL, $what, $dtype, $T => $body;
            et_kernel::ScalarType::Byte => u8,
            et_kernel::ScalarType::Char => i8,
            et_kernel::ScalarType::Short => i16,
            et_kernel::ScalarType::Int => i32,
            et_kernel::ScalarType::Long => i64,
            et_kernel::ScalarType::Half | et_kernel::ScalarType::BFloat16 | et_kernel::ScalarType::Float => f32,
            et_kernel::ScalarType::Double => f64)
    };
    (real_and_bool, $what:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch::compute!(@ et_kernel::ScalarTypeSet::REAL_AND_BOOL, $what, $dtype, $T => $body;
            et_kernel::ScalarType::Byte => u8,
            et_kernel::ScalarType::Char => i8,
            et_kernel::ScalarType::Short => i16,
            et_kernel::ScalarType::Int => i32,
            et_kernel::ScalarType::Long => i64,
            et_kernel::ScalarType::Half | et_kernel::ScalarType::BFloat16 | et_kernel::ScalarType::Float => f32,
            et_kernel::ScalarType::Double => f64,
            et_kernel::ScalarType::Bool => et_kernel::Bool8)
    };
}
pub(crate) use compute;

/// Evaluates an expression with a type name bound to the Rust type of the elements of `$dtype`, any number or truth value.
macro_rules! element {
    ($what:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::dispatch::compute!(@ $crate::dispatch::NUMBERS, $what, $dtype, $T => $body;
            et_kernel::ScalarType::Byte => u8,
            et_kernel::ScalarType::Char => i8,
            et_kernel::ScalarType::Short => i16,
            et_kernel::ScalarType::Int => i32,
            et_kernel::ScalarType::Long => i64,
            et_kernel::ScalarType::UInt16 => u16,
            et_kernel::ScalarType::UInt32 => u32,
            et_kernel::ScalarType::UInt64 => u64,
            et_kernel::ScalarType::Half => half::f16,
            et_kernel::ScalarType::BFloat16 => half::bf16,
            et_kernel::ScalarType::Float => f32,
            et_kernel::ScalarType::Double => f64,
            et_kernel::ScalarType::Bool => et_kernel::Bool8)
    };
}
pub(crate) use element;

/// Evaluates an expression with a type name bound to an unsigned type of the size of `$dtype`: for moving elements about.
macro_rules! word {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.nbytes() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            _ => Err($crate::dispatch::unsupported(
                "the input",
                $dtype,
                $crate::dispatch::MOVABLE,
            )),
        }
    };
}
pub(crate) use word;
