//! A method's values together with the memory that they live in.
#![expect(
    unsafe_code,
    reason = "a table vouches for the memory that its tensors point into"
)]

mod error;
mod exchange;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;

use et_memory::{Arena, MemoryError, MemoryManager, PlannedMemory, PlannedMemoryId, PlannedSlot};

use crate::context::Call;
use crate::{
    ArgumentPlace, EValue, Environment, Interrupt, KernelContext, Located, PrepareContext,
    SharedBytes, StepState, Tensor, TensorError, TensorMeta, ValueIndex, copy_located,
};

pub use error::TableError;

/// The values of one loaded method, and the memory they live in.
///
/// Tensors in planned memory point into buffers that the table owns, so neither is ever given away while the other is in use:
/// safe code can read and write values, but not take a tensor out of the table.
///
/// Planned memory can be [detached](Self::detach_memory) and given to another table that was made for the same buffers; that is
/// how methods share arenas. Until it is attached again the table's tensors cannot be used.
pub struct ValueTable {
    values: Vec<EValue>,
    /// For each value, whether it is the same in every run.
    constants: Vec<bool>,
    memory: MemoryManager,
    /// The memory that the planned tensors point into, wherever it is now.
    home: PlannedMemoryId,
    attached: bool,
    interrupt: Interrupt,
    views: RefCell<Vec<ValueIndex>>,
    /// Bytes that kernels may keep in all, and how many more those are than they keep; see [`PrepareContext::may_keep`].
    allowed: u64,
    allowance: Cell<u64>,
}

impl ValueTable {
    /// A table without values, over planned memory of its own.
    pub fn new(planned: PlannedMemory) -> Self {
        Self {
            values: Vec::new(),
            constants: Vec::new(),
            home: planned.id(),
            memory: MemoryManager::new(planned),
            attached: true,
            interrupt: Interrupt::default(),
            views: RefCell::new(Vec::new()),
            allowed: 0,
            allowance: Cell::new(0),
        }
    }

    /// Adds a value that is not a tensor.
    pub fn push(&mut self, value: EValue) {
        self.values.push(value);
        self.constants.push(false);
    }

    /// Adds a tensor that owns its memory.
    pub fn push_owned(&mut self, tensor: Tensor) {
        self.push(EValue::Tensor(Box::new(tensor)));
    }

    /// Adds a tensor that lives in planned memory.
    ///
    /// # Errors
    /// As [`PlannedMemory::resolve`].
    pub fn push_planned(
        &mut self,
        meta: TensorMeta,
        slot: &PlannedSlot,
    ) -> Result<(), MemoryError> {
        let place = self.memory.planned.resolve(slot)?;
        let room = place.map_or(0, |place| place.nbytes());
        if room < meta.bound_nbytes() as u64
            || slot.device != meta.device()
            || slot.alignment < meta.alignment()
        {
            return Err(MemoryError::OutOfRange {
                memory_id: slot.memory_id,
                offset_bytes: slot.offset_bytes,
                nbytes: meta.bound_nbytes() as u64,
                available: room,
            });
        }
        let buffer = self.memory.planned.buffer(slot.memory_id);
        let allocator = buffer.and_then(|buffer| buffer.allocator());
        let memory = place.and_then(|place| Located::new(place, allocator));
        // SAFETY: the place was resolved in a buffer that this table owns and never gives away while attached, and the allocator
        // is that buffer's; it has room for the bound, on the tensor's device, aligned for its elements; buffers are zeroed, so it is initialised. References
        // to it are made only through `&self` and `&mut self` of this table (see `access`), and not while it is detached.
        let tensor = unsafe { Tensor::planned(meta, memory) };
        self.push_owned(tensor);
        Ok(())
    }

    /// Adds a read-only tensor over shared bytes, which are copied only if they are not aligned for its elements.
    ///
    /// # Errors
    /// [`TensorError::Length`] if there are fewer bytes than the tensor has, or no memory for the copy.
    pub fn push_shared(
        &mut self,
        meta: TensorMeta,
        bytes: &SharedBytes,
    ) -> Result<(), TensorError> {
        self.push_owned(Tensor::constant(meta, bytes)?);
        self.mark_constant();
        Ok(())
    }

    /// Says that the value added last is the same in every run. Of a list of tensors it says that the list is, whatever becomes of
    /// the tensors; of one of numbers that they are too, see [`settle_lists`](Self::settle_lists).
    pub fn mark_constant(&mut self) {
        if let Some(last) = self.constants.last_mut() {
            *last = true;
        }
    }

    /// Takes back what was said of lists of numbers that have items which are not the same in every run.
    pub fn settle_lists(&mut self) {
        for (at, value) in self.values.iter().enumerate() {
            if let EValue::IntList(items) = value
                && self.constants[at]
            {
                let constant =
                    |item: &ValueIndex| self.constants.get(item.position()) == Some(&true);
                self.constants[at] = items.iter().all(constant);
            }
        }
    }

    /// Says that the value added last is not the same in every run, though its bytes are.
    pub fn mark_changing(&mut self) {
        if let Some(last) = self.constants.last_mut() {
            *last = false;
        }
    }

    /// Adds a read-only tensor over the bytes of another one.
    ///
    /// # Errors
    /// [`TableError::Tensor`] if that one is not read-only, is on another device, or has fewer bytes.
    pub fn push_alias(&mut self, meta: TensorMeta, of: ValueIndex) -> Result<(), TableError> {
        let tensor = self.tensor(of)?.share_constant(meta)?;
        self.push_owned(tensor);
        Ok(())
    }

    /// Adds a tensor without memory. It gets some from [`allocate_missing`](Self::allocate_missing) or
    /// [`exchange_memory`](Self::exchange_memory).
    pub fn push_without_memory(&mut self, meta: TensorMeta) {
        // SAFETY: there is no place, so nothing is asked of it.
        let tensor = unsafe { Tensor::from_located(meta, None) };
        self.push_owned(tensor);
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A value.
    ///
    /// # Errors
    /// [`TableError::NoSuchValue`]; [`TableError::Detached`] for a tensor while memory is detached.
    pub fn get(&self, index: ValueIndex) -> Result<&EValue, TableError> {
        let value = self
            .values
            .get(index.position())
            .ok_or(TableError::NoSuchValue { index })?;
        if !self.attached && matches!(value, EValue::Tensor(_)) {
            return Err(TableError::Detached);
        }
        Ok(value)
    }

    /// A tensor.
    ///
    /// # Errors
    /// As [`get`](Self::get), and [`TableError::NotATensor`].
    pub fn tensor(&self, index: ValueIndex) -> Result<&Tensor, TableError> {
        self.get(index)?
            .as_tensor()
            .ok_or(TableError::NotATensor { index })
    }

    /// A tensor's description. Works while memory is detached too.
    pub fn meta(&self, index: ValueIndex) -> Option<&TensorMeta> {
        self.values
            .get(index.position())?
            .as_tensor()
            .map(Tensor::meta)
    }

    /// Replaces a value that is not a tensor by another that is not.
    ///
    /// # Errors
    /// [`TableError::NoSuchValue`], [`TableError::IsATensor`].
    pub fn set(&mut self, index: ValueIndex, value: EValue) -> Result<(), TableError> {
        let slot = self
            .values
            .get_mut(index.position())
            .ok_or(TableError::NoSuchValue { index })?;
        if matches!(slot, EValue::Tensor(_)) || matches!(value, EValue::Tensor(_)) {
            return Err(TableError::IsATensor { index });
        }
        *slot = value;
        Ok(())
    }

    /// Replaces values that are not tensors by others that are not; see [`set`](Self::set).
    ///
    /// # Errors
    /// As there. The values before the one that fails are replaced then.
    pub fn restore(&mut self, values: &[(ValueIndex, EValue)]) -> Result<(), TableError> {
        for (index, value) in values {
            let slot = self.values.get_mut(index.position());
            if !slot.is_some_and(|slot| slot.take_number(value)) {
                let value = value.share();
                self.set(
                    *index,
                    value.ok_or(TableError::IsATensor { index: *index })?,
                )?;
            }
        }
        Ok(())
    }

    /// Gives a tensor the shape `sizes`.
    ///
    /// # Errors
    /// [`TableError::Tensor`]; nothing changes.
    pub fn resize(&mut self, index: ValueIndex, sizes: &[usize]) -> Result<(), TableError> {
        Ok(self.tensor_mut(index)?.resize(sizes)?)
    }

    /// The bytes of a host tensor's present shape, to write.
    ///
    /// # Errors
    /// [`TableError::Tensor`] if it is on a device, read-only or without memory.
    pub fn bytes_mut(&mut self, index: ValueIndex) -> Result<&mut [u8], TableError> {
        Ok(self.tensor_mut(index)?.bytes_mut()?.0)
    }

    /// Gives a tensor the shape of `source` and copies its bytes, wherever the two are. On an error the shape is as before.
    ///
    /// # Errors
    /// [`TableError::Tensor`].
    pub fn copy_from(&mut self, index: ValueIndex, source: &Tensor) -> Result<(), TableError> {
        Ok(self.tensor_mut(index)?.copy_from(source)?)
    }

    /// Copies `bytes` to the start of a tensor, wherever it is.
    ///
    /// # Errors
    /// [`TableError::Tensor`] if there is no room for them, or the device's.
    pub fn write_bytes(&mut self, index: ValueIndex, bytes: &[u8]) -> Result<(), TableError> {
        let tensor = self.tensor_mut(index)?;
        if tensor.is_read_only() {
            return Err(TensorError::ReadOnly.into());
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let memory = tensor.located().ok_or(TensorError::NoMemory)?;
        let found = bytes.len();
        let expected = usize::try_from(memory.nbytes()).unwrap_or(usize::MAX);
        let to = memory
            .first(found as u64)
            .ok_or(TensorError::Length { expected, found })?;
        let from = Located::Host(et_memory::HostSpan::of(bytes));
        // SAFETY: a table's tensors are live, `&mut self` excludes other users, and `bytes` is borrowed for the call.
        Ok(unsafe { copy_located(to, from) }.map_err(TensorError::Device)?)
    }

    /// Sets all planned memory to zero.
    ///
    /// # Errors
    /// The device's; [`TableError::Detached`].
    pub fn zero_planned(&mut self) -> Result<(), TableError> {
        self.expect_attached()?;
        Ok(self.memory.planned.zero().map_err(TensorError::Device)?)
    }

    /// Sets a tensor's memory to zero, unless it is planned or read-only.
    ///
    /// # Errors
    /// [`TableError::Tensor`].
    pub fn zero_owned(&mut self, index: ValueIndex) -> Result<(), TableError> {
        Ok(self.tensor_mut(index)?.zero_owned()?)
    }

    /// The planned memory, to look at.
    pub fn planned(&self) -> &PlannedMemory {
        &self.memory.planned
    }

    /// The scratch memory.
    pub fn temp_mut(&mut self) -> &mut Arena {
        &mut self.memory.temp
    }

    /// Gives the planned memory away. The table's tensors cannot be used until it is back.
    ///
    /// # Errors
    /// [`TableError::Detached`] if it is gone already.
    pub fn detach_memory(&mut self) -> Result<PlannedMemory, TableError> {
        self.expect_attached()?;
        self.end_views();
        self.attached = false;
        Ok(std::mem::take(&mut self.memory.planned))
    }

    /// Takes planned memory back: that which the table was made with, whichever table had it meanwhile.
    ///
    /// # Errors
    /// [`TableError::WrongMemory`] if it is any other, however alike, which is freed then.
    pub fn attach_memory(&mut self, planned: PlannedMemory) -> Result<(), TableError> {
        if self.attached || planned.id() != self.home {
            return Err(TableError::WrongMemory);
        }
        self.memory.planned = planned;
        self.attached = true;
        Ok(())
    }

    /// How calls on this table are told that the run should end.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Makes calls on this table listen to another wish.
    pub fn set_interrupt(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    /// Whether planned memory is here.
    pub fn is_attached(&self) -> bool {
        self.attached
    }

    /// A call of a kernel or a delegate on these values.
    ///
    /// # Errors
    /// [`TableError::Detached`].
    #[inline(always)] // A context that is handed on is copied, which costs more than all that is done here.
    pub fn call<'a>(
        &'a mut self,
        arguments: &'a [ValueIndex],
        state: Option<&'a mut StepState>,
        environment: &'a Environment,
    ) -> Result<KernelContext<'a>, TableError> {
        self.expect_attached()?;
        // What the call before took.
        self.memory.temp.reset();
        let call = Call {
            arguments,
            temp: &self.memory.temp,
            state,
            environment,
            interrupt: &self.interrupt,
            views: &self.views,
        };
        Ok(KernelContext::new(&mut self.values, call))
    }

    /// Where the tensors among some values are, for events. A value that is named again counts where it was first.
    pub fn argument_places(&self, arguments: &[ValueIndex]) -> Vec<ArgumentPlace> {
        let mut seen = BTreeSet::new();
        let first = arguments.iter().filter(|index| seen.insert(**index));
        first
            .filter_map(|&index| Some(self.tensor(index).ok()?.argument_place()))
            .collect()
    }

    /// What a kernel's `prepare` looks at.
    ///
    /// # Errors
    /// [`TableError::Detached`].
    pub fn prepare<'a>(
        &'a self,
        arguments: &'a [ValueIndex],
        environment: &'a Environment,
    ) -> Result<PrepareContext<'a>, TableError> {
        self.expect_attached()?;
        Ok(PrepareContext::new(
            &self.values,
            arguments,
            &self.constants,
            &self.allowance,
            environment,
        ))
    }

    /// Lets kernels keep `nbytes` bytes in their states; see [`PrepareContext::may_keep`]. At first they may keep none.
    pub fn allow(&mut self, nbytes: u64) {
        self.allowed = nbytes;
        self.allowance.set(nbytes);
    }

    /// Takes back that `nbytes` bytes are kept.
    pub fn keep_less(&mut self, nbytes: u64) {
        let left = self.allowance.get().saturating_add(nbytes);
        self.allowance.set(left.min(self.allowed));
    }

    /// Bytes that kernels keep of what they made of constants, the tensors that were [fixed](Self::fix) among them.
    pub fn kept_nbytes(&self) -> u64 {
        self.allowed - self.allowance.get()
    }

    /// Bytes of scratch memory.
    pub fn scratch_nbytes(&self) -> u64 {
        self.memory.temp.capacity()
    }

    /// Lets `fill` write tensor `index` for good: it gets memory of its own and is the same in every run from then on. All views end.
    /// On an error it is as it was, and a tensor that changes.
    ///
    /// # Errors
    /// [`TableError`], of which `fill` makes its own too.
    pub fn fix(
        &mut self,
        index: ValueIndex,
        fill: impl FnOnce(&mut Self) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        // Nobody may look at the old memory while it is away, nor at the new one once it is shared.
        self.end_views();
        let tensor = self.tensor_mut(index)?;
        let fresh = Tensor::zeros(tensor.meta().clone())?;
        let before = std::mem::replace(tensor, fresh);
        let filled = fill(self);
        let tensor = self.tensor_mut(index)?;
        // Bytes of another tensor's are not what it will show for good.
        let filled = filled.and_then(|()| match tensor.is_view() {
            true => Err(TensorError::NoMemory.into()),
            false => Ok(()),
        });
        match filled {
            Ok(()) => tensor.make_read_only(),
            Err(_) => *tensor = before,
        }
        self.end_views();
        filled?;
        if let Some(constant) = self.constants.get_mut(index.position()) {
            *constant = true;
        }
        Ok(())
    }

    fn tensor_mut(&mut self, index: ValueIndex) -> Result<&mut Tensor, TableError> {
        self.expect_attached()?;
        let value = self
            .values
            .get_mut(index.position())
            .ok_or(TableError::NoSuchValue { index })?;
        value
            .as_tensor_mut()
            .ok_or(TableError::NotATensor { index })
    }

    #[inline]
    fn expect_attached(&self) -> Result<(), TableError> {
        if self.attached {
            Ok(())
        } else {
            Err(TableError::Detached)
        }
    }
}

impl fmt::Debug for ValueTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueTable")
            .field("values", &self.values.len())
            .field("memory", &self.memory)
            .field("attached", &self.attached)
            .finish_non_exhaustive()
    }
}
