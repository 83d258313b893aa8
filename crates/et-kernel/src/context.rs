//! What a kernel or a delegate is called with.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, RangeInclusive};

use et_device::Device;
use et_memory::{Arena, HostSpan, Place};
use smallvec::SmallVec;

use crate::access::{self, LockstepIn, LockstepOut, TensorIn, TensorOut};
use crate::{
    ArgumentPlace, EValue, Environment, KernelError, MAX_RANK, Scalar, StepState, Tensor,
    TensorMeta, ValueIndex, ValueKind,
};

/// A tensor in the value table of the method that is running: a name, not a reference. Two names may mean the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorId(pub(crate) ValueIndex);

impl TensorId {
    /// Its place in the value table.
    pub fn value(self) -> ValueIndex {
        self.0
    }
}

/// Whole numbers from a list argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntList(SmallVec<[i64; 8]>);

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
    fn argument_count(&self) -> usize {
        self.indices().len()
    }

    /// Fails unless the instruction has a number of arguments in `expected`.
    ///
    /// # Errors
    /// [`KernelError::ArgumentCount`].
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
        items
            .iter()
            .map(number)
            .collect::<Result<_, _>>()
            .map(IntList)
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
    fn meta(&self, id: TensorId) -> &TensorMeta {
        self.table_tensor(id).meta()
    }

    /// The tensor behind an id.
    #[doc(hidden)]
    fn table_tensor(&self, id: TensorId) -> &Tensor {
        // Ids are made for tensors of this table, and `set` never replaces a tensor.
        self.values()[id.0.position()]
            .as_tensor()
            .expect("a tensor id names a tensor of its method")
    }
}

fn wrong_kind(argument: usize, expected: &'static str, found: &EValue) -> KernelError {
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

/// What a call brings apart from the values.
#[derive(Debug)]
struct Call<'a> {
    arguments: &'a [ValueIndex],
    temp: &'a Arena,
    state: Option<&'a mut StepState>,
    environment: &'a Environment,
    /// The tensors that were made another name for other bytes, for the table to end that before the next run.
    views: &'a RefCell<Vec<ValueIndex>>,
}

/// What a kernel or a delegate is called with: arguments, scratch memory, the step's state.
pub struct KernelContext<'a> {
    values: &'a mut [EValue],
    call: Call<'a>,
}

impl Arguments for KernelContext<'_> {
    fn values(&self) -> &[EValue] {
        self.values
    }

    fn indices(&self) -> &[ValueIndex] {
        self.call.arguments
    }
}

impl<'a> KernelContext<'a> {
    /// A call on a method's value table; see [`ValueTable::call`](crate::ValueTable::call).
    pub(crate) fn new(
        values: &'a mut [EValue],
        arguments: &'a [ValueIndex],
        temp: &'a Arena,
        state: Option<&'a mut StepState>,
        environment: &'a Environment,
        views: &'a RefCell<Vec<ValueIndex>>,
    ) -> Self {
        Self {
            values,
            call: Call {
                arguments,
                temp,
                state,
                environment,
                views,
            },
        }
    }

    /// Scratch memory, taken back after the call. What it holds at first is unspecified.
    pub fn temp(&self) -> &'a Arena {
        self.call.temp
    }

    /// What the method was loaded with.
    pub fn environment(&self) -> &'a Environment {
        self.call.environment
    }

    /// What `prepare` made for this instruction, if that is a `T`. Can be taken once per call.
    pub fn take_state<T: 'static>(&mut self) -> Option<&'a mut T> {
        self.call.state.take()?.downcast_mut()
    }

    /// Gives an output the shape `sizes`.
    ///
    /// # Errors
    /// [`KernelError::Shape`]; nothing changes.
    pub fn resize(&mut self, id: TensorId, sizes: &[usize]) -> Result<(), KernelError> {
        self.table_tensor_mut(id)
            .resize(sizes)
            .map_err(|error| match error {
                crate::TensorError::Shape(shape) => KernelError::Shape(shape),
                other => other.into(),
            })
    }

    /// Gives an output the shape of another tensor.
    ///
    /// # Errors
    /// As [`resize`](Self::resize).
    pub fn resize_like(&mut self, id: TensorId, like: TensorId) -> Result<(), KernelError> {
        if self.meta(id).sizes() == self.meta(like).sizes() {
            return Ok(());
        }
        let sizes: SmallVec<[usize; MAX_RANK]> = self.meta(like).sizes().into();
        self.resize(id, &sizes)
    }

    /// Replaces the value of an output that is not a tensor.
    ///
    /// # Errors
    /// [`KernelError::ArgumentKind`] if a tensor is there or given, [`KernelError::ArgumentCount`].
    pub fn set(&mut self, argument: usize, value: impl Into<EValue>) -> Result<(), KernelError> {
        let value = value.into();
        let present = self.value(argument)?;
        for side in [present, &value] {
            if matches!(side, EValue::Tensor(_)) {
                return Err(wrong_kind(argument, "a number", side));
            }
        }
        let index = self.call.arguments[argument];
        self.values[index.position()] = value;
        Ok(())
    }

    /// The bytes of outputs to write and of inputs to read, all of them on the host and proven apart: an input that shares
    /// bytes with an output is copied to scratch memory first.
    ///
    /// # Errors
    /// [`KernelError::OnDevice`], [`KernelError::NoMemory`], [`KernelError::OverlappingOutputs`], or if an output is
    /// read-only.
    pub fn disjoint<const OUT: usize, const IN: usize>(
        &mut self,
        outputs: [TensorId; OUT],
        inputs: [TensorId; IN],
    ) -> Result<([TensorOut<'_>; OUT], [TensorIn<'_>; IN]), KernelError> {
        access::disjoint(self.values, self.call.temp, outputs, inputs)
    }

    /// An output to write and inputs to read, element by element in memory order: element `i` of every input is read before
    /// element `i` of the output is written. An input may be the output itself, which is then done in place.
    ///
    /// # Errors
    /// As [`disjoint`](Self::disjoint).
    pub fn lockstep<const IN: usize>(
        &mut self,
        output: TensorId,
        inputs: [TensorId; IN],
    ) -> Result<(LockstepOut<'_>, [LockstepIn<'_>; IN]), KernelError> {
        access::lockstep(self.values, self.call.temp, output, inputs)
    }

    /// Where the bytes of a tensor's present shape are.
    ///
    /// # Errors
    /// [`KernelError::NoMemory`].
    pub fn place(&self, id: TensorId) -> Result<Option<Place>, KernelError> {
        access::place(self.table_tensor(id), id)
    }

    /// Copies the bytes of a tensor, wherever it is, to `bytes`.
    ///
    /// # Errors
    /// [`KernelError::NoMemory`], or the device's; `bytes` must be as many as the present shape has.
    pub fn read_bytes(&self, id: TensorId, bytes: &mut [u8]) -> Result<(), KernelError> {
        let Some(from) = self.place(id)? else {
            return expect_empty(bytes);
        };
        let to = Place::Host(HostSpan::of_mut(bytes));
        // SAFETY: the table's tensors are live; `bytes` is exclusively borrowed, so it is none of theirs.
        Ok(unsafe { crate::copy_place(to, from, &self.call.environment.devices) }?)
    }

    /// Copies `bytes` to a tensor, wherever it is.
    ///
    /// # Errors
    /// As [`read_bytes`](Self::read_bytes), or if the tensor is read-only.
    pub fn write_bytes(&mut self, id: TensorId, bytes: &[u8]) -> Result<(), KernelError> {
        self.expect_writable(id)?;
        let Some(to) = self.place(id)? else {
            return expect_empty(bytes);
        };
        let from = Place::Host(HostSpan::of(bytes));
        // SAFETY: the table's tensors are live and, behind `&mut self`, used by nobody else.
        Ok(unsafe { crate::copy_place(to, from, &self.call.environment.devices) }?)
    }

    /// Gives `to` the shape of `from` and copies the bytes, wherever the two are. A failed copy leaves the old shape.
    ///
    /// # Errors
    /// [`KernelError::Shape`], [`KernelError::NoMemory`], or the device's.
    pub fn copy_resizing(&mut self, to: TensorId, from: TensorId) -> Result<(), KernelError> {
        self.expect_writable(to)?;
        let before: SmallVec<[usize; MAX_RANK]> = self.meta(to).sizes().into();
        self.resize_like(to, from)?;
        let copied = self.copy_whole(to, from);
        if copied.is_err() {
            self.resize(to, &before)?;
        }
        copied
    }

    fn copy_whole(&self, to: TensorId, from: TensorId) -> Result<(), KernelError> {
        let (Some(to), Some(from)) = (self.place(to)?, self.place(from)?) else {
            return Ok(());
        };
        if to == from {
            return Ok(());
        }
        if !to.device().is_cpu() && to.overlaps(&from) {
            return Err(KernelError::invalid(
                "cannot copy between parts of one device buffer that overlap",
            ));
        }
        // SAFETY: the table's tensors are live and, while this kernel runs, used by nobody else; device places do not
        // overlap by the check above.
        Ok(unsafe { crate::copy_place(to, from, &self.call.environment.devices) }?)
    }

    /// Makes `view` another name for the bytes of `source`, keeping its own shape.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] if the two are of different size, element type or device.
    pub fn alias(&mut self, view: TensorId, source: TensorId) -> Result<(), KernelError> {
        let (of, to) = (self.meta(source), self.meta(view));
        if of.nbytes() != to.nbytes() || of.dtype() != to.dtype() || of.device() != to.device() {
            return Err(KernelError::invalid(format!(
                "{to:?} cannot be a view of {of:?}"
            )));
        }
        let place = self.place(source)?;
        let guard = self.table_tensor(source).shared_owner();
        // SAFETY: the bytes are those of another tensor of this table, with room for the present shape, and live as long
        // as the table; a read-only source hands its owner on, so that the view is read-only too.
        unsafe { self.table_tensor_mut(view).become_view(place, guard) };
        self.call.views.borrow_mut().push(view.0);
        Ok(())
    }

    /// Copies argument 1 to argument 0, which must be alike.
    pub(crate) fn copy_argument(&mut self) -> Result<(), KernelError> {
        let (to, from) = (self.tensor(0)?, self.tensor(1)?);
        let (target, source) = (self.meta(to), self.meta(from));
        if target.dtype() != source.dtype() || target.dim_order() != source.dim_order() {
            return Err(crate::TensorError::Unlike {
                from: Box::new(source.clone()),
                to: Box::new(target.clone()),
            }
            .into());
        }
        self.copy_resizing(to, from)
    }

    /// Makes argument 0 another name for the bytes of argument 1, in its shape.
    pub(crate) fn assign_tensor(&mut self) -> Result<(), KernelError> {
        let (to, from) = (self.tensor(0)?, self.tensor(1)?);
        self.resize_like(to, from)?;
        self.alias(to, from)
    }

    /// Where each tensor argument is, for events.
    pub fn argument_places(&self) -> Vec<ArgumentPlace> {
        let tensors = self
            .call
            .arguments
            .iter()
            .filter_map(|index| self.values.get(index.position())?.as_tensor());
        tensors.map(Tensor::argument_place).collect()
    }

    fn table_tensor_mut(&mut self, id: TensorId) -> &mut Tensor {
        self.values[id.0.position()]
            .as_tensor_mut()
            .expect("a tensor id names a tensor of its method")
    }

    fn expect_writable(&self, id: TensorId) -> Result<(), KernelError> {
        access::expect_writable(self.table_tensor(id))
    }
}

fn expect_empty(bytes: &[u8]) -> Result<(), KernelError> {
    if bytes.is_empty() {
        return Ok(());
    }
    Err(crate::TensorError::Length {
        expected: 0,
        found: bytes.len(),
    }
    .into())
}

impl fmt::Debug for KernelContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelContext")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

/// What a kernel's `prepare` is called with, once, when the method is loaded. Shapes are the bounds.
#[derive(Debug)]
pub struct PrepareContext<'a> {
    values: &'a [EValue],
    arguments: &'a [ValueIndex],
    constants: &'a [bool],
    environment: &'a Environment,
}

impl Arguments for PrepareContext<'_> {
    fn values(&self) -> &[EValue] {
        self.values
    }

    fn indices(&self) -> &[ValueIndex] {
        self.arguments
    }
}

impl<'a> PrepareContext<'a> {
    /// An instruction with these arguments; `constants` says for each value whether it is the same in every run.
    pub(crate) const fn new(
        values: &'a [EValue],
        arguments: &'a [ValueIndex],
        constants: &'a [bool],
        environment: &'a Environment,
    ) -> Self {
        Self {
            values,
            arguments,
            constants,
            environment,
        }
    }

    /// What the method is loaded with.
    pub const fn environment(&self) -> &'a Environment {
        self.environment
    }

    /// The bytes of a tensor that is the same in every run, on the host; `None` for any other.
    pub fn constant_bytes(&self, id: TensorId) -> Option<&'a [u8]> {
        let position = id.0.position();
        if !self.constants.get(position).copied().unwrap_or(false) {
            return None;
        }
        self.values.get(position)?.as_tensor()?.bytes().ok()
    }

    /// Whether an argument is the same in every run. Lists are if all their items are.
    pub fn is_constant(&self, argument: usize) -> bool {
        let constant = |index: &ValueIndex| {
            self.constants
                .get(index.position())
                .copied()
                .unwrap_or(false)
        };
        match self.value(argument) {
            Ok(EValue::IntList(items) | EValue::TensorList(items)) => items.iter().all(constant),
            Ok(_) => self.arguments.get(argument).is_some_and(constant),
            Err(_) => false,
        }
    }

    /// Where the bytes of each tensor argument are, and whether two of them are the same bytes or share some.
    pub fn overlap(&self, one: TensorId, other: TensorId) -> Overlap {
        let place = |id: TensorId| self.table_tensor(id).place();
        match (place(one), place(other)) {
            (Some(a), Some(b)) if a == b => Overlap::Exact,
            (Some(a), Some(b)) if a.overlaps(&b) => Overlap::Partial,
            _ => Overlap::Disjoint,
        }
    }

    /// The device a tensor argument is on.
    pub fn device(&self, id: TensorId) -> Device {
        self.meta(id).device()
    }
}

/// How the memory of two arguments relates, for their largest shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// No byte in common.
    Disjoint,
    /// The same bytes.
    Exact,
    /// Some bytes in common.
    Partial,
}

impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value {}", self.0)
    }
}

impl ValueKind {
    /// Whether a value of this kind has bytes of its own.
    pub const fn is_tensor(self) -> bool {
        matches!(self, Self::Tensor)
    }
}
