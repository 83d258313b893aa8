//! The entries of a method's value table.

use std::fmt;
use std::sync::Arc;

use crate::Tensor;

/// A place in a method's value table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ValueIndex(pub u32);

impl ValueIndex {
    #[inline]
    pub(crate) fn position(self) -> usize {
        // A `u32` fits a `usize` wherever this runs with a memory worth planning.
        self.0 as usize
    }
}

impl fmt::Display for ValueIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One value of a program. Lists of numbers and tensors hold the places of their items, which are looked up at each use.
#[derive(Debug)]
#[non_exhaustive]
pub enum EValue {
    /// Nothing.
    None,
    /// A whole number.
    Int(i64),
    /// A floating point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Str(Arc<str>),
    /// A tensor (boxed: most values are small numbers).
    Tensor(Box<Tensor>),
    /// Whole numbers, each the `Int` at its place.
    IntList(Arc<[ValueIndex]>),
    /// Floating point numbers.
    DoubleList(Arc<[f64]>),
    /// Truth values.
    BoolList(Arc<[bool]>),
    /// Tensors, each the `Tensor` at its place.
    TensorList(Arc<[ValueIndex]>),
    /// Tensors or nothing.
    OptionalTensorList(Arc<[Option<ValueIndex>]>),
}

impl EValue {
    /// Which kind of value this is.
    pub const fn kind(&self) -> ValueKind {
        match self {
            Self::None => ValueKind::None,
            Self::Int(_) => ValueKind::Int,
            Self::Double(_) => ValueKind::Double,
            Self::Bool(_) => ValueKind::Bool,
            Self::Str(_) => ValueKind::Str,
            Self::Tensor(_) => ValueKind::Tensor,
            Self::IntList(_) => ValueKind::IntList,
            Self::DoubleList(_) => ValueKind::DoubleList,
            Self::BoolList(_) => ValueKind::BoolList,
            Self::TensorList(_) => ValueKind::TensorList,
            Self::OptionalTensorList(_) => ValueKind::OptionalTensorList,
        }
    }

    /// The tensor, if this is one.
    #[inline]
    pub const fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The tensor, if this is one.
    #[inline]
    pub const fn as_tensor_mut(&mut self) -> Option<&mut Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The number or truth value, if this is one.
    #[inline]
    pub const fn as_scalar(&self) -> Option<Scalar> {
        match *self {
            Self::Int(value) => Some(Scalar::Int(value)),
            Self::Double(value) => Some(Scalar::Double(value)),
            Self::Bool(value) => Some(Scalar::Bool(value)),
            _ => None,
        }
    }

    /// Takes the content of `from` if both are the same kind of number or truth value, which most values that change are; says
    /// whether they are.
    #[inline(always)]
    pub(crate) fn take_number(&mut self, from: &Self) -> bool {
        match (self, from) {
            (Self::Int(to), Self::Int(from)) => *to = *from,
            (Self::Double(to), Self::Double(from)) => *to = *from,
            (Self::Bool(to), Self::Bool(from)) => *to = *from,
            _ => return false,
        }
        true
    }

    /// The same value again, without a new block on the heap; `None` for a tensor.
    pub fn share(&self) -> Option<Self> {
        Some(match self {
            Self::Tensor(_) => return None,
            Self::None => Self::None,
            Self::Int(value) => Self::Int(*value),
            Self::Double(value) => Self::Double(*value),
            Self::Bool(value) => Self::Bool(*value),
            Self::Str(value) => Self::Str(Arc::clone(value)),
            Self::IntList(items) => Self::IntList(Arc::clone(items)),
            Self::DoubleList(items) => Self::DoubleList(Arc::clone(items)),
            Self::BoolList(items) => Self::BoolList(Arc::clone(items)),
            Self::TensorList(items) => Self::TensorList(Arc::clone(items)),
            Self::OptionalTensorList(items) => Self::OptionalTensorList(Arc::clone(items)),
        })
    }
}

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "named as the variants of EValue")]
pub enum ValueKind {
    None,
    Int,
    Double,
    Bool,
    Str,
    Tensor,
    IntList,
    DoubleList,
    BoolList,
    TensorList,
    OptionalTensorList,
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A number or truth value, as operators take for their `Scalar` arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A whole number.
    Int(i64),
    /// A floating point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// The value as a floating point number; truth values are 0 and 1.
    pub const fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Double(value) => value,
            Self::Bool(value) => value as u8 as f64,
        }
    }

    /// The value as a whole number, truncated toward zero and saturated.
    pub const fn to_i64(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Double(value) => value as i64,
            Self::Bool(value) => value as i64,
        }
    }

    /// Whether the value is not zero.
    pub fn to_bool(self) -> bool {
        match self {
            Self::Int(value) => value != 0,
            Self::Double(value) => value != 0.0,
            Self::Bool(value) => value,
        }
    }
}

impl From<Scalar> for EValue {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Int(value) => Self::Int(value),
            Scalar::Double(value) => Self::Double(value),
            Scalar::Bool(value) => Self::Bool(value),
        }
    }
}
