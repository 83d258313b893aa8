//! The arguments of an instruction, read by position.

use std::fmt;
use std::ops::{Deref, RangeInclusive};

use smallvec::SmallVec;

use crate::{EValue, KernelError, MAX_RANK, Scalar, Tensor, TensorMeta, ValueIndex};

/// A tensor in the value table of the method that is running: a name, not a reference. Two names may mean the same bytes.
///
/// It may be kept from `prepare` to every run of the same method. Given to a call of any other method it is a mistake of the kernel's
/// (no program can cause it) and names another tensor there, or panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorId(pub(crate) ValueIndex);

impl TensorId {
    /// Its place in the value table.
    pub fn value(self) -> ValueIndex {
        self.0
    }
}

impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value {}", self.0)
    }
}

/// Whole numbers from a list argument. Two for each dimension (paddings) need no heap block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntList(SmallVec<[i64; 2 * MAX_RANK]>);

impl Deref for IntList {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        &self.0
    }
}

/// Reading the arguments of an instruction by position, counted from 0. The last is usually the output.
///
/// Every reader fails with [`KernelError::ArgumentKind`] if the argument is something else, or
/// [`KernelError::ArgumentCount`] if there is none.
pub trait Arguments {
    /// The method's values.
    #[doc(hidden)]
    fn values(&self) -> &[EValue];

    /// Where the arguments are among them.
    #[doc(hidden)]
    fn indices(&self) -> &[ValueIndex];

    /// How many arguments the instruction has.
    #[inline]
    fn argument_count(&self) -> usize {
        self.indices().len()
    }

    /// Fails unless the instruction has a number of arguments in `expected`.
    ///
    /// # Errors
    /// [`KernelError::ArgumentCount`].
    #[inline]
    fn expect_arguments(&self, expected: RangeInclusive<usize>) -> Result<(), KernelError> {
        let found = self.argument_count();
        if expected.contains(&found) {
            return Ok(());
        }
        Err(KernelError::ArgumentCount {
            expected: *expected.start(),
            found,
        })
    }

    /// The value of an argument.
    ///
    /// # Errors
    /// [`KernelError::ArgumentCount`].
    #[inline]
    fn value(&self, argument: usize) -> Result<&EValue, KernelError> {
        let missing = || KernelError::ArgumentCount {
            expected: argument + 1,
            found: self.argument_count(),
        };
        let index = self.indices().get(argument).ok_or_else(missing)?;
        self.values().get(index.position()).ok_or_else(missing)
    }

    /// A tensor.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn tensor(&self, argument: usize) -> Result<TensorId, KernelError> {
        let value = self.value(argument)?;
        value
            .as_tensor()
            .ok_or_else(|| wrong_kind(argument, "a tensor", value))?;
        Ok(TensorId(self.indices()[argument]))
    }

    /// A tensor or nothing.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn optional_tensor(&self, argument: usize) -> Result<Option<TensorId>, KernelError> {
        match self.value(argument)? {
            EValue::None => Ok(None),
            _ => self.tensor(argument).map(Some),
        }
    }

    /// The tensors of a list, item `item`; `None` behind the last.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn tensor_in_list(
        &self,
        argument: usize,
        item: usize,
    ) -> Result<Option<TensorId>, KernelError> {
        let value = self.value(argument)?;
        let EValue::TensorList(items) = value else {
            return Err(wrong_kind(argument, "a list of tensors", value));
        };
        items
            .get(item)
            .map(|&index| tensor_at(self.values(), argument, index))
            .transpose()
    }

    /// How many items a list of any kind has.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn list_len(&self, argument: usize) -> Result<usize, KernelError> {
        let value = self.value(argument)?;
        match value {
            EValue::IntList(items) => Ok(items.len()),
            EValue::TensorList(items) => Ok(items.len()),
            EValue::OptionalTensorList(items) => Ok(items.len()),
            EValue::DoubleList(items) => Ok(items.len()),
            EValue::BoolList(items) => Ok(items.len()),
            _ => Err(wrong_kind(argument, "a list", value)),
        }
    }

    /// Item `item` of a list of tensors where some may be missing: the inner `None` means so, the outer one "no such item".
    ///
    /// # Errors
    /// See [`Arguments`].
    fn optional_tensor_in_list(
        &self,
        argument: usize,
        item: usize,
    ) -> Result<Option<Option<TensorId>>, KernelError> {
        let value = self.value(argument)?;
        let index = match value {
            EValue::OptionalTensorList(items) => items.get(item).copied(),
            EValue::TensorList(items) => items.get(item).map(|&index| Some(index)),
            _ => return Err(wrong_kind(argument, "a list of optional tensors", value)),
        };
        match index {
            None => Ok(None),
            Some(None) => Ok(Some(None)),
            Some(Some(index))
                if matches!(self.values().get(index.position()), Some(EValue::None)) =>
            {
                Ok(Some(None))
            }
            Some(Some(index)) => tensor_at(self.values(), argument, index).map(|id| Some(Some(id))),
        }
    }

    /// A number or truth value.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn scalar(&self, argument: usize) -> Result<Scalar, KernelError> {
        let value = self.value(argument)?;
        value
            .as_scalar()
            .ok_or_else(|| wrong_kind(argument, "a number", value))
    }

    /// A number, truth value or nothing.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn optional_scalar(&self, argument: usize) -> Result<Option<Scalar>, KernelError> {
        match self.value(argument)? {
            EValue::None => Ok(None),
            _ => self.scalar(argument).map(Some),
        }
    }

    /// A whole number.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn int(&self, argument: usize) -> Result<i64, KernelError> {
        match self.value(argument)? {
            EValue::Int(value) => Ok(*value),
            value => Err(wrong_kind(argument, "a whole number", value)),
        }
    }

    /// A whole number or nothing.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn optional_int(&self, argument: usize) -> Result<Option<i64>, KernelError> {
        match self.value(argument)? {
            EValue::None => Ok(None),
            _ => self.int(argument).map(Some),
        }
    }

    /// A floating point number; a whole one is taken too.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn double(&self, argument: usize) -> Result<f64, KernelError> {
        match self.value(argument)? {
            EValue::Double(value) => Ok(*value),
            EValue::Int(value) => Ok(*value as f64),
            value => Err(wrong_kind(argument, "a floating point number", value)),
        }
    }

    /// A floating point number or nothing.
    ///
    /// # Errors
    /// See [`Arguments`].
    fn optional_double(&self, argument: usize) -> Result<Option<f64>, KernelError> {
        match self.value(argument)? {
            EValue::None => Ok(None),
            _ => self.double(argument).map(Some),
        }
    }

    /// A truth value.
    ///
    /// # Errors
    /// See [`Arguments`].
    #[inline]
    fn boolean(&self, argument: usize) -> Result<bool, KernelError> {
        match self.value(argument)? {
            EValue::Bool(value) => Ok(*value),
            value => Err(wrong_kind(argument, "a truth value", value)),
        }
    }

    /// A text or nothing.
    ///
    /// # Errors
    /// See [`Arguments`].
    fn optional_str(&self, argument: usize) -> Result<Option<&str>, KernelError> {
        match self.value(argument)? {
            EValue::None => Ok(None),
            EValue::Str(text) => Ok(Some(text)),
            value => Err(wrong_kind(argument, "a text", value)),
        }
    }

    /// Whole numbers, as they are now: the items of a list may be computed by the program.
    ///
    /// # Errors
    /// See [`Arguments`].
    fn int_list(&self, argument: usize) -> Result<IntList, KernelError> {
        let value = self.value(argument)?;
        let EValue::IntList(items) = value else {
            return Err(wrong_kind(argument, "a list of whole numbers", value));
        };
        let number = |index: &ValueIndex| match self.values().get(index.position()) {
            Some(EValue::Int(number)) => Ok(*number),
            Some(other) => Err(wrong_kind(argument, "a list of whole numbers", other)),
            None => Err(wrong_kind(
                argument,
                "a list of whole numbers",
                &EValue::None,
            )),
        };
        // The list is large, so it is filled where it stays.
        let mut list = IntList::default();
        for index in items.iter() {
            list.0.push(number(index)?);
        }
        Ok(list)
    }

    /// Whole numbers or nothing.
    ///
    /// # Errors
    /// See [`Arguments`].
    fn optional_int_list(&self, argument: usize) -> Result<Option<IntList>, KernelError> {
        match self.value(argument)? {
            EValue::None => Ok(None),
            _ => self.int_list(argument).map(Some),
        }
    }

    /// Floating point numbers, or nothing.
    ///
    /// # Errors
    /// See [`Arguments`].
    fn optional_double_list(&self, argument: usize) -> Result<Option<&[f64]>, KernelError> {
        match self.value(argument)? {
            EValue::None => Ok(None),
            EValue::DoubleList(items) => Ok(Some(items)),
            value => Err(wrong_kind(
                argument,
                "a list of floating point numbers",
                value,
            )),
        }
    }

    /// Truth values, or nothing.
    ///
    /// # Errors
    /// See [`Arguments`].
    fn optional_bool_list(&self, argument: usize) -> Result<Option<&[bool]>, KernelError> {
        match self.value(argument)? {
            EValue::None => Ok(None),
            EValue::BoolList(items) => Ok(Some(items)),
            value => Err(wrong_kind(argument, "a list of truth values", value)),
        }
    }

    /// A tensor's description.
    #[inline]
    fn meta(&self, id: TensorId) -> &TensorMeta {
        self.table_tensor(id).meta()
    }

    /// The tensor behind an id.
    #[doc(hidden)]
    #[inline]
    fn table_tensor(&self, id: TensorId) -> &Tensor {
        // Ids are made for tensors of this table, and `set` never replaces a tensor.
        self.values()[id.0.position()]
            .as_tensor()
            .expect("a tensor id names a tensor of its method")
    }
}

#[cold]
pub(crate) fn wrong_kind(argument: usize, expected: &'static str, found: &EValue) -> KernelError {
    KernelError::ArgumentKind {
        argument,
        expected,
        found: found.kind(),
    }
}

fn tensor_at(
    values: &[EValue],
    argument: usize,
    index: ValueIndex,
) -> Result<TensorId, KernelError> {
    match values.get(index.position()) {
        Some(EValue::Tensor(_)) => Ok(TensorId(index)),
        Some(other) => Err(wrong_kind(argument, "a list of tensors", other)),
        None => Err(wrong_kind(argument, "a list of tensors", &EValue::None)),
    }
}
