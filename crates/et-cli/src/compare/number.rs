//! The numbers in a tensor.

use crate::value::Tensor;
use et_schema::ScalarType;
use half::{bf16, f16};
use std::fmt;

/// One number of a tensor. Integers stay exact.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    /// The distance: 0 for two NaNs or equal infinities, infinite where only one is special.
    pub(super) fn difference(self, other: Self) -> f64 {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => (a - b).unsigned_abs() as f64,
            (Self::Float(a), Self::Float(b)) if a == b || a.is_nan() && b.is_nan() => 0.0,
            (Self::Float(a), Self::Float(b)) if a.is_finite() && b.is_finite() => (a - b).abs(),
            _ => f64::INFINITY,
        }
    }

    /// The number in a few digits, for a look.
    pub(crate) fn short(self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Float(value) if value == 0.0 || !value.is_finite() => value.to_string(),
            Self::Float(value) if (1e-3..1e6).contains(&value.abs()) => {
                let text = format!("{value:.4}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            Self::Float(value) => format!("{value:.3e}"),
        }
    }

    /// The finite magnitude; 0 for NaN and infinities.
    pub(super) fn magnitude(self) -> f64 {
        match self {
            Self::Int(value) => value.unsigned_abs() as f64,
            Self::Float(value) if value.is_finite() => value.abs(),
            Self::Float(_) => 0.0,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

/// The numbers of a tensor in logical order; complex ones count as two.
pub(crate) fn numbers(tensor: &Tensor) -> impl Iterator<Item = Number> {
    Elements::of(tensor.scalar_type).read(&tensor.bytes)
}

/// How the bytes of a tensor become numbers.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    /// Bytes of a number.
    nbytes: usize,
    /// Numbers of an element: 2 for complex ones.
    pub(super) per_element: usize,
    convert: fn(&[u8]) -> Number,
}

/// A number from exactly as many bytes as its type has.
macro_rules! number {
    ($type:ty, $bytes:expr) => {
        <$type>::from_le_bytes(
            $bytes
                .try_into()
                .expect("invariant: chunks have the type's size"),
        )
    };
}

impl Elements {
    pub(super) fn of(scalar_type: ScalarType) -> Self {
        let (nbytes, convert): (usize, fn(&[u8]) -> Number) = match scalar_type {
            ScalarType::Half | ScalarType::ComplexHalf => {
                (2, |b| Number::Float(f64::from(number!(f16, b))))
            }
            ScalarType::BFloat16 => (2, |b| Number::Float(f64::from(number!(bf16, b)))),
            ScalarType::Float | ScalarType::ComplexFloat => {
                (4, |b| Number::Float(f64::from(number!(f32, b))))
            }
            ScalarType::Double | ScalarType::ComplexDouble => {
                (8, |b| Number::Float(number!(f64, b)))
            }
            ScalarType::Char | ScalarType::QInt8 => (1, |b| Number::Int(number!(i8, b).into())),
            ScalarType::Short => (2, |b| Number::Int(number!(i16, b).into())),
            ScalarType::Int | ScalarType::QInt32 => (4, |b| Number::Int(number!(i32, b).into())),
            ScalarType::Long => (8, |b| Number::Int(number!(i64, b).into())),
            ScalarType::UInt16 | ScalarType::Bits16 => (2, |b| Number::Int(number!(u16, b).into())),
            ScalarType::UInt32 => (4, |b| Number::Int(number!(u32, b).into())),
            ScalarType::UInt64 => (8, |b| Number::Int(number!(u64, b).into())),
            // Bytes, bools, and types whose bits are only ever compared.
            _ => (1, |b| Number::Int(number!(u8, b).into())),
        };
        let complex = matches!(
            scalar_type,
            ScalarType::ComplexHalf | ScalarType::ComplexFloat | ScalarType::ComplexDouble
        );
        Self {
            nbytes,
            per_element: if complex { 2 } else { 1 },
            convert,
        }
    }

    pub(super) fn read(self, bytes: &[u8]) -> impl Iterator<Item = Number> {
        bytes.chunks_exact(self.nbytes).map(self.convert)
    }
}
