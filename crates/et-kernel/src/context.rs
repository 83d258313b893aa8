//! What a kernel or a delegate is called with.
#![expect(
    unsafe_code,
    reason = "a call copies between arguments whose places it has compared"
)]

use std::cell::{Cell, RefCell};
use std::fmt;

use et_device::Device;
use et_memory::{Arena, HostSpan, Place};
use smallvec::SmallVec;

use crate::access::{self, LockstepIn, LockstepOut, TensorIn, TensorOut};
use crate::arguments::wrong_kind;
use crate::{
    ArgumentPlace, Arguments, EValue, Environment, Interrupt, Kernel, KernelError, Located,
    MAX_RANK, StepState, Tensor, TensorId, ValueIndex,
};

/// What a call brings apart from the values.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) arguments: &'a [ValueIndex],
    pub(crate) temp: &'a Arena,
    pub(crate) state: Option<&'a mut StepState>,
    pub(crate) environment: &'a Environment,
    pub(crate) interrupt: &'a Interrupt,
    /// The tensors that were made another name for other bytes, for the table to end that before the next run.
    pub(crate) views: &'a RefCell<Vec<ValueIndex>>,
}

/// What a kernel or a delegate is called with: arguments, scratch memory, the step's state.
pub struct KernelContext<'a> {
    values: &'a mut [EValue],
    call: Call<'a>,
}

impl Arguments for KernelContext<'_> {
    #[inline]
    fn values(&self) -> &[EValue] {
        self.values
    }

    #[inline]
    fn indices(&self) -> &[ValueIndex] {
        self.call.arguments
    }
}

impl<'a> KernelContext<'a> {
    /// A call on a method's value table; see [`ValueTable::call`](crate::ValueTable::call).
    #[inline(always)]
    pub(crate) fn new(values: &'a mut [EValue], call: Call<'a>) -> Self {
        Self { values, call }
    }

    /// Scratch memory, taken back after the call. What it holds at first is unspecified.
    #[inline]
    pub fn temp(&self) -> &'a Arena {
        self.call.temp
    }

    /// What the method was loaded with.
    pub fn environment(&self) -> &'a Environment {
        self.call.environment
    }

    /// Whether the run should end. Long work may look now and then, and give [`KernelError::Interrupted`].
    pub fn interrupt(&self) -> &'a Interrupt {
        self.call.interrupt
    }

    /// What `prepare` made for this instruction, if that is a `T`. Can be taken once per call.
    #[inline]
    pub fn take_state<T: 'static>(&mut self) -> Option<&'a mut T> {
        // Of another type it stays where it is.
        if !self.call.state.as_ref()?.is::<T>() {
            return None;
        }
        self.call.state.take()?.downcast_mut()
    }

    /// Gives an output the shape `sizes`.
    ///
    /// # Errors
    /// [`KernelError::Shape`]; nothing changes.
    #[inline]
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
    #[inline]
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
    #[inline(always)] // What kind of value it is, callers know.
    pub fn set(&mut self, argument: usize, value: impl Into<EValue>) -> Result<(), KernelError> {
        let value = value.into();
        let slot = self
            .call
            .arguments
            .get(argument)
            .and_then(|index| self.values.get_mut(index.position()));
        if slot.is_some_and(|slot| slot.take_number(&value)) {
            return Ok(());
        }
        self.replace(argument, value)
    }

    #[cold]
    fn replace(&mut self, argument: usize, value: EValue) -> Result<(), KernelError> {
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
    #[inline]
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
    #[inline]
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
    #[inline]
    pub fn place(&self, id: TensorId) -> Result<Option<Place>, KernelError> {
        access::place(self.table_tensor(id), id)
    }

    /// As [`place`](Self::place), with the allocator that reaches it.
    ///
    /// # Errors
    /// As there.
    pub fn located(&self, id: TensorId) -> Result<Option<Located<'_>>, KernelError> {
        let tensor = self.table_tensor(id);
        let memory = |place: Place| tensor.first(place.nbytes());
        Ok(access::place(tensor, id)?.and_then(memory))
    }

    /// Copies the bytes of a tensor, wherever it is, to `bytes`.
    ///
    /// # Errors
    /// [`KernelError::NoMemory`], or the device's; `bytes` must be as many as the present shape has.
    pub fn read_bytes(&self, id: TensorId, bytes: &mut [u8]) -> Result<(), KernelError> {
        let Some(from) = self.located(id)? else {
            return expect_empty(bytes);
        };
        let to = Located::Host(HostSpan::of_mut(bytes));
        // SAFETY: the table's tensors are live; `bytes` is exclusively borrowed, so it is none of theirs.
        Ok(unsafe { crate::copy_located(to, from) }?)
    }

    /// Copies `bytes` to a tensor, wherever it is.
    ///
    /// # Errors
    /// As [`read_bytes`](Self::read_bytes), or if the tensor is read-only.
    pub fn write_bytes(&mut self, id: TensorId, bytes: &[u8]) -> Result<(), KernelError> {
        self.expect_writable(id)?;
        let Some(to) = self.located(id)? else {
            return expect_empty(bytes);
        };
        let from = Located::Host(HostSpan::of(bytes));
        // SAFETY: the table's tensors are live and, behind `&mut self`, used by nobody else.
        Ok(unsafe { crate::copy_located(to, from) }?)
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
        let (Some(to), Some(from)) = (self.located(to)?, self.located(from)?) else {
            return Ok(());
        };
        if to.is_same(from) {
            return Ok(());
        }
        if to.allocator().is_some() && to.overlaps(from) {
            return Err(crate::TensorError::Overlap.into());
        }
        // SAFETY: the table's tensors are live and, while this kernel runs, used by nobody else; device places do not
        // overlap by the check above.
        Ok(unsafe { crate::copy_located(to, from) }?)
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
        let shown = self.located(source)?;
        let memory = shown.map(|memory| (memory.place(), memory.allocator().cloned()));
        let guard = self.table_tensor(source).shared_owner();
        // A view that became another one is known already.
        if !self.table_tensor(view).is_view() {
            self.call.views.borrow_mut().push(view.0);
        }
        // SAFETY: the bytes are those of another tensor of this table, with room for the present shape, and live as long
        // as the table; a read-only source hands its owner on, so that the view is read-only too.
        unsafe { self.table_tensor_mut(view).become_view(memory, guard) };
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

    #[inline]
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

/// An instruction that reads the result of the one before it.
#[derive(Clone, Copy, Debug)]
pub struct Follower<'a> {
    kernel: Kernel,
    arguments: &'a [ValueIndex],
}

impl<'a> Follower<'a> {
    /// A call of this kernel.
    pub const fn new(kernel: Kernel, arguments: &'a [ValueIndex]) -> Self {
        Self { kernel, arguments }
    }
}

/// What a kernel's `prepare` is called with, once, when the method is loaded. Shapes are the bounds.
#[derive(Debug)]
pub struct PrepareContext<'a> {
    values: &'a [EValue],
    arguments: &'a [ValueIndex],
    constants: &'a [bool],
    allowance: &'a Cell<u64>,
    environment: &'a Environment,
    followers: &'a [Follower<'a>],
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
        allowance: &'a Cell<u64>,
        environment: &'a Environment,
    ) -> Self {
        Self {
            values,
            arguments,
            constants,
            allowance,
            environment,
            followers: &[],
        }
    }

    /// The same with the instructions behind this one, each of which alone sees the result of the one before it.
    #[must_use]
    pub const fn with_followers(mut self, followers: &'a [Follower<'a>]) -> Self {
        self.followers = followers;
        self
    }

    /// The kernel and the arguments of a follower: an instruction behind this one which alone sees the result of the
    /// one before it. A kernel may do such instructions in one go, see [`Prepared::absorbing`](crate::Prepared::absorbing);
    /// only the result of the last is written then. It does what that kernel does, and not what its name means elsewhere: see
    /// [`Kernel::is_same`](crate::Kernel::is_same).
    pub fn follower(&self, index: usize) -> Option<(Kernel, Self)> {
        let follower = self.followers.get(index)?;
        let context = Self {
            arguments: follower.arguments,
            followers: &[],
            ..*self
        };
        Some((follower.kernel, context))
    }

    /// Whether the kernel may keep `nbytes` bytes more in its state. All kernels of a method together may keep about as much
    /// as the method has constants, so that no program makes them keep more than it brings.
    pub fn may_keep(&self, nbytes: usize) -> bool {
        let left = u64::try_from(nbytes)
            .ok()
            .and_then(|nbytes| self.allowance.get().checked_sub(nbytes));
        left.inspect(|&left| self.allowance.set(left)).is_some()
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

    /// Whether an argument is the same in every run. A list of tensors is if all of them are, which takes a look at each.
    pub fn is_constant(&self, argument: usize) -> bool {
        let constant = |index: &ValueIndex| self.is_marked(*index);
        self.is_kept(argument)
            && match self.value(argument) {
                Ok(EValue::TensorList(items)) => items.iter().all(constant),
                Ok(EValue::OptionalTensorList(items)) => items.iter().flatten().all(constant),
                _ => true,
            }
    }

    /// Whether an argument is the same in every run, or a list that names the same tensors in every run.
    pub fn is_kept(&self, argument: usize) -> bool {
        let index = self.arguments.get(argument);
        index.is_some_and(|index| self.is_marked(*index))
    }

    fn is_marked(&self, index: ValueIndex) -> bool {
        self.constants
            .get(index.position())
            .copied()
            .unwrap_or(false)
    }

    /// How the memory of two tensor arguments relates, by the plan.
    pub fn overlap(&self, one: TensorId, other: TensorId) -> Overlap {
        let memory = |id: TensorId| self.table_tensor(id).located();
        match (memory(one), memory(other)) {
            (Some(a), Some(b)) if a.is_same(b) => Overlap::Exact,
            (Some(a), Some(b)) if a.overlaps(b) => Overlap::Partial,
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
