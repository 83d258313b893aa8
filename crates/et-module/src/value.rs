//! Values as callers give and get them.

use std::fmt;

use et_kernel::{EValue, Scalar, Tensor, ValueKind};

/// An input or output of a method.
#[derive(Debug)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "values are few, and nearly all of them are tensors"
)]
pub enum Value {
    /// Nothing.
    None,
    /// A whole number.
    Int(i64),
    /// A floating point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Str(String),
    /// A tensor, on any device.
    Tensor(Tensor),
}

impl Value {
    /// The tensor, if this is one.
    pub const fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The tensor, if this is one, to change it.
    pub const fn as_tensor_mut(&mut self) -> Option<&mut Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The number or truth value, if this is one.
    pub const fn as_scalar(&self) -> Option<Scalar> {
        match *self {
            Self::Int(value) => Some(Scalar::Int(value)),
            Self::Double(value) => Some(Scalar::Double(value)),
            Self::Bool(value) => Some(Scalar::Bool(value)),
            _ => None,
        }
    }

    /// What kind of value this is.
    pub const fn kind(&self) -> ValueKind {
        match self {
            Self::None => ValueKind::None,
            Self::Int(_) => ValueKind::Int,
            Self::Double(_) => ValueKind::Double,
            Self::Bool(_) => ValueKind::Bool,
            Self::Str(_) => ValueKind::Str,
            Self::Tensor(_) => ValueKind::Tensor,
        }
    }

    /// Whether this may stand for the value `traced` that the program was made with. Programs are specialised for the numbers
    /// they were exported with: whole numbers, truth values and texts must be the same, floating point numbers nearly.
    pub(crate) fn matches(&self, traced: &EValue) -> bool {
        match (self, traced) {
            (Self::None, EValue::None) => true,
            // Exporters write a text input that the program does not depend on as nothing.
            (Self::Str(_), EValue::None) => true,
            (Self::Int(given), EValue::Int(traced)) => given == traced,
            (Self::Bool(given), EValue::Bool(traced)) => given == traced,
            (Self::Str(given), EValue::Str(traced)) => **given == **traced,
            (Self::Double(given), EValue::Double(traced)) => nearly_equal(*given, *traced),
            _ => false,
        }
    }
}

/// As the C++ runtime compares a given with a traced floating point number.
fn nearly_equal(given: f64, traced: f64) -> bool {
    given == traced
        || (given.is_nan() && traced.is_nan())
        || (given - traced).abs() <= 1e-4 + 1e-5 * traced.abs()
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// Short: what messages call it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("nothing"),
            Self::Int(value) => write!(f, "the whole number {value}"),
            Self::Double(value) => write!(f, "the number {value}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Str(text) => write!(f, "the text {text:?}"),
            Self::Tensor(tensor) => write!(f, "a tensor {:?}", tensor.meta()),
        }
    }
}

/// What messages call a value of a program.
pub(crate) fn describe(value: &EValue) -> String {
    match value {
        EValue::None => "nothing".to_owned(),
        EValue::Int(value) => format!("the whole number {value}"),
        EValue::Double(value) => format!("a number near {value}"),
        EValue::Bool(value) => value.to_string(),
        EValue::Str(text) => format!("the text {text:?}"),
        EValue::Tensor(tensor) => format!("a tensor {:?}", tensor.meta()),
        other => format!("a {}", other.kind()),
    }
}
