//! A method's values together with the memory that they live in.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

use et_device::{Device, DeviceAllocatorRegistry, DeviceError};
use et_memory::{
    Arena, DeviceMemoryBuffer, HostBuffer, MemoryError, MemoryManager, PlannedMemory,
    PlannedMemoryId, PlannedSlot,
};

use crate::context::Call;
use crate::{
    ArgumentPlace, EValue, Environment, Interrupt, KernelContext, Located, PrepareContext,
    SharedBytes, StepState, Tensor, TensorError, TensorMeta, ValueIndex, copy_located,
};

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
    /// Bytes that kernels may still keep; see [`PrepareContext::may_keep`].
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

    /// Says that the value added last is the same in every run.
    pub fn mark_constant(&mut self) {
        if let Some(last) = self.constants.last_mut() {
            *last = true;
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

    /// Exchanges a tensor's own memory with that of `other`: the two must be of one element type, dimension order and device,
    /// each with room for the other's bound. The tensor takes the present shape of `other`. All views end; the contents of
    /// a tensor that was a view are lost unless [`settle`](Self::settle) was called.
    ///
    /// # Errors
    /// [`TableError::Tensor`]; [`TableError::Planned`] if the tensor lives in planned memory, which is never given away.
    pub fn exchange_memory(
        &mut self,
        index: ValueIndex,
        other: &mut Tensor,
    ) -> Result<(), TableError> {
        self.end_views();
        self.expect_unplanned(index)?;
        Ok(self.tensor_mut(index)?.exchange_memory(other)?)
    }

    /// Exchanges the memory of tensor `index` with that of tensor `other_index` of another table, under the same conditions.
    ///
    /// # Errors
    /// As [`exchange_memory`](Self::exchange_memory).
    pub fn exchange_between(
        &mut self,
        index: ValueIndex,
        other: &mut Self,
        other_index: ValueIndex,
    ) -> Result<(), TableError> {
        other.end_views();
        other.expect_unplanned(other_index)?;
        self.exchange_memory(index, other.tensor_mut(other_index)?)
    }

    /// Exchanges the memory of two tensors of this table, under the same conditions; `index` takes the shape of `other`.
    ///
    /// # Errors
    /// As [`exchange_memory`](Self::exchange_memory).
    pub fn exchange_within(
        &mut self,
        index: ValueIndex,
        other: ValueIndex,
    ) -> Result<(), TableError> {
        if index == other {
            return Ok(());
        }
        self.end_views();
        self.expect_unplanned(index)?;
        self.expect_unplanned(other)?;
        let pair = self
            .values
            .get_disjoint_mut([index.position(), other.position()]);
        match pair {
            Ok([EValue::Tensor(one), EValue::Tensor(two)]) => Ok(one.exchange_memory(two)?),
            // Both were found to be tensors just now.
            _ => Err(TableError::NotATensor { index }),
        }
    }

    /// Gives a tensor that is a view of other bytes a copy of these in its own memory.
    ///
    /// # Errors
    /// [`TableError::Tensor`]; nothing changes.
    pub fn settle(
        &mut self,
        index: ValueIndex,
        registry: &DeviceAllocatorRegistry,
    ) -> Result<(), TableError> {
        Ok(self.tensor_mut(index)?.settle(registry)?)
    }

    /// Whether a tensor lives in planned memory.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn is_planned(&self, index: ValueIndex) -> Result<bool, TableError> {
        Ok(self.tensor(index)?.is_planned())
    }

    fn expect_unplanned(&self, index: ValueIndex) -> Result<(), TableError> {
        if self.tensor(index)?.is_planned() {
            return Err(TableError::Planned { index });
        }
        Ok(())
    }

    /// Gives tensor `to` the shape of tensor `from` and copies the bytes, wherever the two are.
    ///
    /// # Errors
    /// [`TableError::Kernel`]; `to` has its old shape then.
    pub fn copy_within(
        &mut self,
        to: ValueIndex,
        from: ValueIndex,
        environment: &Environment,
    ) -> Result<(), TableError> {
        let arguments = [to, from];
        let mut context = self.call(&arguments, None, environment)?;
        Ok(context.copy_argument()?)
    }

    /// Gives memory of its own to a tensor that has none: zeroed, on its device, with room for the bound.
    ///
    /// # Errors
    /// [`TableError::Tensor`].
    pub fn allocate_missing(
        &mut self,
        index: ValueIndex,
        registry: &DeviceAllocatorRegistry,
    ) -> Result<(), TableError> {
        let tensor = self.tensor_mut(index)?;
        if tensor.place().is_some() || tensor.is_planned() {
            return Ok(());
        }
        let mut fresh = Tensor::allocate(tensor.meta().clone(), registry)?;
        Ok(tensor.exchange_memory(&mut fresh)?)
    }

    /// `table[to] = table[from]`, as an instruction: a tensor becomes another name for the same bytes, anything else is copied.
    ///
    /// # Errors
    /// [`TableError::Kernel`] if `to` cannot be a view of `from`.
    pub fn assign(
        &mut self,
        to: ValueIndex,
        from: ValueIndex,
        environment: &Environment,
    ) -> Result<(), TableError> {
        if to == from {
            return Ok(());
        }
        match self.get(from)?.share() {
            Some(copy) => self.set(to, copy),
            None => {
                let arguments = [to, from];
                let mut context = self.call(&arguments, None, environment)?;
                Ok(context.assign_tensor()?)
            }
        }
    }

    /// Takes a tensor's memory away until the views end, as an instruction may ask.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn hide_memory(&mut self, index: ValueIndex) -> Result<(), TableError> {
        self.tensor_mut(index)?.hide_memory();
        self.views.get_mut().push(index);
        Ok(())
    }

    /// Ends the view that an instruction may have made of a tensor: it has its own memory again.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn end_view_of(&mut self, index: ValueIndex) -> Result<(), TableError> {
        self.tensor_mut(index)?.end_view();
        Ok(())
    }

    /// Ends every view that instructions made: each tensor has its own memory again.
    pub fn end_views(&mut self) {
        for index in self.views.get_mut().drain(..) {
            if let Some(tensor) = self
                .values
                .get_mut(index.position())
                .and_then(EValue::as_tensor_mut)
            {
                tensor.end_view();
            }
        }
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
    #[inline]
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
        let first =
            |&(position, index): &(usize, &ValueIndex)| !arguments[..position].contains(index);
        let places = arguments.iter().enumerate().filter(first);
        places
            .filter_map(|(_, &index)| Some(self.tensor(index).ok()?.argument_place()))
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
        self.allowance.set(nbytes);
    }

    /// Bytes that kernels may still keep.
    pub fn allowance(&self) -> u64 {
        self.allowance.get()
    }

    /// Lets `fill` write tensor `index` for good: it gets memory of its own and is the same in every run from then on. On an
    /// error it stays a tensor that changes.
    ///
    /// # Errors
    /// [`TableError`], of which `fill` makes its own too.
    pub fn fix(
        &mut self,
        index: ValueIndex,
        fill: impl FnOnce(&mut Self) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let tensor = self.tensor_mut(index)?;
        *tensor = Tensor::zeros(tensor.meta().clone())?;
        fill(self)?;
        self.tensor_mut(index)?.make_read_only();
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

/// Something that cannot be done with a value table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There is no such value.
    #[error("there is no value {index}")]
    NoSuchValue {
        /// The index.
        index: ValueIndex,
    },
    /// The value is not a tensor.
    #[error("value {index} is not a tensor")]
    NotATensor {
        /// The index.
        index: ValueIndex,
    },
    /// A tensor cannot be replaced.
    #[error("value {index} is a tensor, which cannot be replaced")]
    IsATensor {
        /// The index.
        index: ValueIndex,
    },
    /// The tensor's memory is planned.
    #[error("value {index} lives in planned memory, which cannot be exchanged")]
    Planned {
        /// The index.
        index: ValueIndex,
    },
    /// Planned memory is in use by another method.
    #[error("the planned memory is in use by another method")]
    Detached,
    /// Planned memory of other buffers.
    #[error("this is not the planned memory that the method was loaded with")]
    WrongMemory,
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// An instruction failed.
    #[error(transparent)]
    Kernel(#[from] crate::KernelError),
}

impl Tensor {
    /// A tensor of zeros on its device, with room for the bound.
    ///
    /// # Errors
    /// [`TensorError::Memory`] or [`TensorError::Device`].
    pub fn allocate(
        meta: TensorMeta,
        registry: &DeviceAllocatorRegistry,
    ) -> Result<Self, TensorError> {
        if meta.device().is_cpu() {
            return Self::zeros(meta);
        }
        let mut tensor = Self::on_device(meta, registry)?;
        tensor.zero_owned()?;
        Ok(tensor)
    }

    /// A read-only host tensor of shared bytes, which are copied only if they are not aligned for its elements.
    ///
    /// # Errors
    /// [`TensorError::Length`] if there are fewer bytes than the tensor has, [`TensorError::OnDevice`].
    pub fn constant(meta: TensorMeta, bytes: &SharedBytes) -> Result<Self, TensorError> {
        if !meta.device().is_cpu() {
            return Err(TensorError::OnDevice {
                device: meta.device(),
            });
        }
        let (expected, found) = (meta.bound_nbytes(), bytes.len());
        let bytes = bytes
            .slice(0..expected)
            .ok_or(TensorError::Length { expected, found })?;
        let span = et_memory::HostSpan::of(&bytes);
        if span.is_aligned(meta.alignment()) {
            let owner: Arc<dyn Send + Sync> = bytes.owner();
            // SAFETY: the span is the bytes of `owner`, which are the same from call to call and so stay alive and unchanged
            // while it exists; nobody writes through a shared tensor.
            return Ok(unsafe { Self::from_shared(meta, Located::Host(span), owner) });
        }
        let mut copy = HostBuffer::zeroed(expected as u64, meta.alignment())?;
        // SAFETY: the buffer is new, so nothing else uses it.
        unsafe { copy.bytes_mut() }.copy_from_slice(&bytes);
        let memory = Located::Host(copy.span());
        // SAFETY: that is all of the buffer, which the owner keeps alive and nobody writes any more.
        Ok(unsafe { Self::from_shared(meta, memory, Arc::new(copy)) })
    }

    /// Another read-only tensor over the same bytes.
    ///
    /// # Errors
    /// [`TensorError::Unlike`] if this one is not read-only, is on another device, or has fewer bytes.
    fn share_constant(&self, meta: TensorMeta) -> Result<Self, TensorError> {
        let fits = |memory: &Located<'_>| {
            memory.place().device() == meta.device()
                && memory.nbytes() >= meta.bound_nbytes() as u64
        };
        match (self.located().filter(fits), self.shared_owner()) {
            // SAFETY: the owner keeps the memory alive and unchanged, and it has room for the tensor.
            (Some(memory), Some(owner)) => Ok(unsafe { Self::from_shared(meta, memory, owner) }),
            _ => Err(TensorError::Unlike {
                from: Box::new(self.meta().clone()),
                to: Box::new(meta),
            }),
        }
    }

    /// A read-only copy of host bytes on a device.
    ///
    /// # Errors
    /// [`TensorError::Length`] if there are fewer bytes than the tensor has, or the device's.
    pub fn device_constant(
        meta: TensorMeta,
        bytes: &[u8],
        registry: &DeviceAllocatorRegistry,
    ) -> Result<Self, TensorError> {
        let (expected, found) = (meta.bound_nbytes(), bytes.len());
        let bytes = bytes
            .get(..expected)
            .ok_or(TensorError::Length { expected, found })?;
        let device: Device = meta.device();
        let mut buffer = DeviceMemoryBuffer::create_in(
            registry,
            expected as u64,
            device,
            et_device::Alignment::DEVICE,
        )?;
        buffer.write(0, bytes)?;
        let Some(span) = buffer.span() else {
            return Self::on_device(meta, registry);
        };
        let allocator = buffer.allocator().clone();
        let memory = Located::Device(&allocator, device.index(), span);
        // SAFETY: that is all of the buffer, which the owner keeps alive and nobody writes any more.
        Ok(unsafe { Self::from_shared(meta, memory, Arc::new(buffer)) })
    }
}

impl From<DeviceError> for TableError {
    fn from(error: DeviceError) -> Self {
        Self::Tensor(TensorError::Device(error))
    }
}
