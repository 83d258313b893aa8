//! Values of a method: numbers, texts, lists, and above all tensors.

use super::{TensorView, numbers};
use crate::generated::pte;
use crate::list::List;

/// A value of a method, as the file has it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ValueView<'a> {
    /// No value (an optional argument that was not given).
    None,
    /// A number; may be computed anew while running.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A number.
    Double(f64),
    /// A tensor.
    Tensor(TensorView<'a>),
    /// A text.
    Str(&'a str),
    /// Indices of `Int` values.
    IntList(List<'a, i64>),
    /// Numbers.
    DoubleList(List<'a, f64>),
    /// Truth values.
    BoolList(List<'a, bool>),
    /// Indices of `Tensor` values.
    TensorList(List<'a, i32>),
    /// Indices of `Tensor` or `None` values, or −1 for none.
    OptionalTensorList(List<'a, i32>),
    /// Nothing, or something that this version does not know (the union's tag). Never in a verified
    /// program.
    Unknown(u8),
}

impl<'a> ValueView<'a> {
    pub(crate) fn new(table: pte::EValue<'a>) -> Self {
        let tag = table.val_type();
        Self::known(table).unwrap_or(Self::Unknown(tag.0))
    }

    fn known(table: pte::EValue<'a>) -> Option<Self> {
        Some(match table.val_type() {
            pte::KernelTypes::Null => Self::None,
            pte::KernelTypes::Int => Self::Int(table.val_as_int()?.int_val()),
            pte::KernelTypes::Bool => Self::Bool(table.val_as_bool()?.bool_val()),
            pte::KernelTypes::Double => Self::Double(table.val_as_double()?.double_val()),
            pte::KernelTypes::Tensor => Self::Tensor(TensorView::new(table.val_as_tensor()?)),
            pte::KernelTypes::String => {
                Self::Str(table.val_as_string()?.string_val().unwrap_or_default())
            }
            pte::KernelTypes::IntList => Self::IntList(numbers(table.val_as_int_list()?.items())),
            pte::KernelTypes::DoubleList => {
                Self::DoubleList(numbers(table.val_as_double_list()?.items()))
            }
            pte::KernelTypes::BoolList => {
                Self::BoolList(numbers(table.val_as_bool_list()?.items()))
            }
            pte::KernelTypes::TensorList => {
                Self::TensorList(numbers(table.val_as_tensor_list()?.items()))
            }
            pte::KernelTypes::OptionalTensorList => {
                Self::OptionalTensorList(numbers(table.val_as_optional_tensor_list()?.items()))
            }
            _ => return None,
        })
    }

    /// What kind of value this is.
    pub fn kind(&self) -> ValueKind {
        match self {
            Self::None => ValueKind::None,
            Self::Int(_) => ValueKind::Int,
            Self::Bool(_) => ValueKind::Bool,
            Self::Double(_) => ValueKind::Double,
            Self::Tensor(_) => ValueKind::Tensor,
            Self::Str(_) => ValueKind::Str,
            Self::IntList(_) => ValueKind::IntList,
            Self::DoubleList(_) => ValueKind::DoubleList,
            Self::BoolList(_) => ValueKind::BoolList,
            Self::TensorList(_) => ValueKind::TensorList,
            Self::OptionalTensorList(_) => ValueKind::OptionalTensorList,
            Self::Unknown(_) => ValueKind::Unknown,
        }
    }

    /// The tensor, if this is one.
    pub fn as_tensor(&self) -> Option<TensorView<'a>> {
        match self {
            Self::Tensor(tensor) => Some(*tensor),
            _ => None,
        }
    }
}

/// The kinds of [`ValueView`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ValueKind {
    /// See [`ValueView::None`].
    None,
    /// See [`ValueView::Int`].
    Int,
    /// See [`ValueView::Bool`].
    Bool,
    /// See [`ValueView::Double`].
    Double,
    /// See [`ValueView::Tensor`].
    Tensor,
    /// See [`ValueView::Str`].
    Str,
    /// See [`ValueView::IntList`].
    IntList,
    /// See [`ValueView::DoubleList`].
    DoubleList,
    /// See [`ValueView::BoolList`].
    BoolList,
    /// See [`ValueView::TensorList`].
    TensorList,
    /// See [`ValueView::OptionalTensorList`].
    OptionalTensorList,
    /// See [`ValueView::Unknown`].
    Unknown,
}

impl ValueKind {
    /// A value of an unknown tag has no contents that anyone may look at; one of a known tag has, as
    /// structural verification saw both or neither.
    pub(crate) fn of(table: pte::EValue<'_>) -> Self {
        match table.val_type() {
            pte::KernelTypes::Null => Self::None,
            pte::KernelTypes::Int => Self::Int,
            pte::KernelTypes::Bool => Self::Bool,
            pte::KernelTypes::Double => Self::Double,
            pte::KernelTypes::Tensor => Self::Tensor,
            pte::KernelTypes::String => Self::Str,
            pte::KernelTypes::IntList => Self::IntList,
            pte::KernelTypes::DoubleList => Self::DoubleList,
            pte::KernelTypes::BoolList => Self::BoolList,
            pte::KernelTypes::TensorList => Self::TensorList,
            pte::KernelTypes::OptionalTensorList => Self::OptionalTensorList,
            _ => Self::Unknown,
        }
    }

    /// The name in the schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "Null",
            Self::Int => "Int",
            Self::Bool => "Bool",
            Self::Double => "Double",
            Self::Tensor => "Tensor",
            Self::Str => "String",
            Self::IntList => "IntList",
            Self::DoubleList => "DoubleList",
            Self::BoolList => "BoolList",
            Self::TensorList => "TensorList",
            Self::OptionalTensorList => "OptionalTensorList",
            Self::Unknown => "unknown",
        }
    }
}
