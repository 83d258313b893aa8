//! Tensors: a description, a place, and (for tensors of one's own) the memory.

use core::fmt;
use core::ptr::NonNull;
use core::slice;
use std::sync::Arc;

use et_device::{Alignment, AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceError};
use et_memory::{DeviceMemoryBuffer, HostBuffer, HostSpan, MemoryError, Place};
use smallvec::SmallVec;

use crate::copy::{Located, copy_located};
use crate::dtype::{as_bytes, from_bytes, from_bytes_mut};
use crate::{ArgumentPlace, Element, MAX_RANK, ScalarType, ShapeError, TensorMeta};

/// A tensor on the host or on a device.
///
/// Tensors made by the safe constructors own their memory. Those in a method's value table point into planned memory
/// or at constants; the method only lends them out while nothing runs.
pub struct Tensor {
    meta: TensorMeta,
    place: Option<Place>,
    /// The allocator that `place` is from, if that is on a device.
    allocator: Option<AllocatorHandle>,
    owner: Owner,
    /// Another tensor's bytes, used instead of the tensor's own until the view ends.
    view: Option<View>,
}

/// Bytes that belong to another tensor of the same table.
struct View {
    place: Option<Place>,
    allocator: Option<AllocatorHandle>,
    /// Keeps them, if they are read-only.
    guard: Option<Arc<dyn Send + Sync>>,
}

/// What keeps a tensor's bytes alive.
#[expect(dead_code, reason = "memory is held to be dropped with the tensor")]
enum Owner {
    /// Whoever made the tensor (see [`Tensor::from_located`]).
    Elsewhere,
    /// The value table that the tensor is in.
    Table,
    /// The caller, who is told when the bytes are not needed any more.
    Lent(Lease),
    Host(HostBuffer),
    Device(DeviceMemoryBuffer),
    /// Shared bytes that are only read.
    Shared(Arc<dyn Send + Sync>),
}

/// Tells the caller, once, that memory of theirs is free again.
struct Lease(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

impl Tensor {
    /// A tensor of zeros on the host, as `meta` describes it. The block has room for the bound.
    ///
    /// # Errors
    /// [`TensorError::Memory`], or [`TensorError::OnDevice`] if `meta` says so.
    pub fn zeros(meta: TensorMeta) -> Result<Self, TensorError> {
        if !meta.device().is_cpu() {
            return Err(TensorError::OnDevice {
                device: meta.device(),
            });
        }
        let buffer = HostBuffer::zeroed(meta.bound_nbytes() as u64, meta.alignment())?;
        let located = Some(Located::Host(buffer.span()));
        Ok(Self::new(meta, located, Owner::Host(buffer)))
    }

    /// A host tensor with a copy of `bytes`, which are in memory order (that of `meta.dim_order()`).
    ///
    /// # Errors
    /// [`TensorError::Length`] if there are more or fewer bytes than `meta` says.
    pub fn from_bytes(meta: TensorMeta, bytes: &[u8]) -> Result<Self, TensorError> {
        let mut tensor = Self::zeros(meta)?;
        tensor.bytes_mut()?.copy_from(bytes)?;
        Ok(tensor)
    }

    /// A contiguous host tensor with a copy of `elements`.
    ///
    /// ```
    /// use et_kernel::Tensor;
    ///
    /// let tensor = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    /// assert_eq!(tensor.as_slice::<f32>()?[4], 5.0);
    /// assert!(tensor.as_slice::<i32>().is_err());
    /// # Ok::<(), et_kernel::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::Length`] if there are more or fewer elements than `sizes` says.
    pub fn from_slice<T: Element>(elements: &[T], sizes: &[usize]) -> Result<Self, TensorError> {
        Self::from_bytes(TensorMeta::contiguous(T::DTYPE, sizes)?, as_bytes(elements))
    }

    /// A contiguous host tensor of these elements, where they are: nothing is copied.
    ///
    /// ```
    /// use et_kernel::Tensor;
    ///
    /// let elements = vec![1.0f32, 2.0];
    /// let address = elements.as_ptr();
    /// let tensor = Tensor::from_vec(elements, &[2])?;
    /// assert_eq!(tensor.as_slice::<f32>()?.as_ptr(), address);
    /// # Ok::<(), et_kernel::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::Length`] if there are more or fewer elements than `sizes` says.
    pub fn from_vec<T: Element>(elements: Vec<T>, sizes: &[usize]) -> Result<Self, TensorError> {
        let meta = TensorMeta::contiguous(T::DTYPE, sizes)?;
        let (expected, found) = (meta.nbytes(), size_of_val(&elements[..]));
        if expected != found {
            return Err(TensorError::Length { expected, found });
        }
        // From here on the block is reached through this pointer alone, until the release makes a vector of it again.
        let mut elements = std::mem::ManuallyDrop::new(elements);
        let (len, capacity) = (elements.len(), elements.capacity());
        let base = NonNull::new(elements.as_mut_ptr()).expect("a vector's pointer is never null");
        let span = HostSpan::new(base.cast(), found);
        let release = move || {
            let base = span.base().as_ptr().cast::<T>();
            // SAFETY: pointer, length and capacity are those of the vector that was taken apart above, and this happens once.
            drop(unsafe { Vec::from_raw_parts(base, len, capacity) });
        };
        // SAFETY: the span is the vector's initialised elements, which live until `release` and are reached in no other way.
        Ok(unsafe { Self::from_lent(meta, Located::Host(span), release) })
    }

    /// A tensor in memory of the caller's, on the host or on a device. `release` is called when no tensor needs it any more:
    /// when this one is dropped, or the one that its memory was exchanged with.
    ///
    /// # Safety
    /// Until `release` is called, `memory` is live and initialised on `meta.device()`, of the allocator it names, aligned for its
    /// elements and with room for the bound, and nobody else uses it.
    pub unsafe fn from_lent(
        meta: TensorMeta,
        memory: Located<'_>,
        release: impl FnOnce() + Send + Sync + 'static,
    ) -> Self {
        let owner = Owner::Lent(Lease(Some(Box::new(release))));
        Self::new(meta, Some(memory), owner)
    }

    /// A tensor on `meta.device()`, a device, with room for the bound. The contents are unspecified.
    ///
    /// # Errors
    /// [`TensorError::Device`].
    pub fn on_device(
        meta: TensorMeta,
        registry: &DeviceAllocatorRegistry,
    ) -> Result<Self, TensorError> {
        let (nbytes, device) = (meta.bound_nbytes() as u64, meta.device());
        let buffer = DeviceMemoryBuffer::create_in(registry, nbytes, device, Alignment::DEVICE)?;
        let allocator = buffer.allocator().clone();
        let located = buffer
            .span()
            .map(|span| Located::Device(&allocator, device.index(), span));
        Ok(Self::new(meta, located, Owner::Device(buffer)))
    }

    /// A tensor whose bytes somebody else keeps, such as planned memory. `None` means that it has no memory (yet).
    ///
    /// # Safety
    /// As long as the tensor exists (or one that its memory was exchanged with), `memory` is live and initialised on
    /// `meta.device()`, of the allocator it names, with room for the bound; what safe code can do with a `&Tensor` or
    /// `&mut Tensor` (read, or write) may be done to it for as long as such a reference is lent out.
    pub unsafe fn from_located(meta: TensorMeta, memory: Option<Located<'_>>) -> Self {
        Self::new(meta, memory, Owner::Elsewhere)
    }

    /// A tensor in planned memory of its value table, from which its memory is never taken away.
    ///
    /// # Safety
    /// As [`from_located`](Self::from_located).
    pub(crate) unsafe fn planned(meta: TensorMeta, memory: Option<Located<'_>>) -> Self {
        Self::new(meta, memory, Owner::Table)
    }

    /// A read-only tensor over bytes that `owner` keeps alive and unchanged.
    ///
    /// # Safety
    /// `memory` has room for `meta`, is on its device and of the allocator it names, and stays alive and unchanged while `owner`
    /// exists.
    pub unsafe fn from_shared(
        meta: TensorMeta,
        memory: Located<'_>,
        owner: Arc<dyn Send + Sync>,
    ) -> Self {
        Self::new(meta, Some(memory), Owner::Shared(owner))
    }

    fn new(meta: TensorMeta, memory: Option<Located<'_>>, owner: Owner) -> Self {
        Self {
            meta,
            place: memory.map(Located::place),
            allocator: memory.and_then(Located::allocator).cloned(),
            owner,
            view: None,
        }
    }

    /// The description.
    #[inline]
    pub fn meta(&self) -> &TensorMeta {
        &self.meta
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> ScalarType {
        self.meta.dtype()
    }

    /// Elements along each dimension.
    #[inline]
    pub fn sizes(&self) -> &[usize] {
        self.meta.sizes()
    }

    /// The device the bytes are on.
    #[inline]
    pub fn device(&self) -> Device {
        self.meta.device()
    }

    /// Where the memory is (all of it, not only the present shape's); `None` if the tensor has none.
    #[inline]
    pub fn place(&self) -> Option<Place> {
        self.view.as_ref().map_or(self.place, |view| view.place)
    }

    /// As [`place`](Self::place), with the allocator that the memory is from.
    pub fn located(&self) -> Option<Located<'_>> {
        let allocator = match &self.view {
            Some(view) => &view.allocator,
            None => &self.allocator,
        };
        Located::new(self.place()?, allocator.as_ref())
    }

    /// Gives the tensor the shape `sizes`. The bytes stay where they are and are not rearranged.
    ///
    /// # Errors
    /// [`TensorError::Shape`]; nothing changes.
    pub fn resize(&mut self, sizes: &[usize]) -> Result<(), TensorError> {
        Ok(self.meta.resize(sizes)?)
    }

    /// The bytes of the present shape, in memory order.
    ///
    /// # Errors
    /// [`TensorError::OnDevice`], [`TensorError::NoMemory`].
    pub fn bytes(&self) -> Result<&[u8], TensorError> {
        let Some((base, nbytes)) = self.host()? else {
            return Ok(&[]);
        };
        // SAFETY: the constructors guarantee live, initialised memory of at least the bound's bytes while the tensor
        // exists, and `&self` that nobody writes it meanwhile.
        Ok(unsafe { slice::from_raw_parts(base, nbytes) })
    }

    /// The bytes of the present shape, in memory order, to write.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), and [`TensorError::ReadOnly`] for shared bytes.
    pub fn bytes_mut(&mut self) -> Result<BytesMut<'_>, TensorError> {
        if self.is_read_only() {
            return Err(TensorError::ReadOnly);
        }
        let Some((base, nbytes)) = self.host()? else {
            return Ok(BytesMut(&mut []));
        };
        // SAFETY: as in `bytes`, and `&mut self` excludes other users of the memory.
        Ok(BytesMut(unsafe { slice::from_raw_parts_mut(base, nbytes) }))
    }

    /// The elements, in memory order.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), and [`TensorError::Dtype`] if they are not `T`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        self.expect_dtype(T::DTYPE)?;
        from_bytes(self.bytes()?).ok_or(TensorError::Misaligned)
    }

    /// The elements, in memory order, to write.
    ///
    /// # Errors
    /// As [`as_slice`](Self::as_slice).
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], TensorError> {
        self.expect_dtype(T::DTYPE)?;
        from_bytes_mut(self.bytes_mut()?.0).ok_or(TensorError::Misaligned)
    }

    /// A copy on the host. For a tensor on a device this is one copy from there, behind which all earlier work is done.
    ///
    /// # Errors
    /// [`TensorError::NoMemory`], or the device's.
    pub fn to_host(&self) -> Result<Self, TensorError> {
        let mut host = Self::zeros(self.meta.clone().on(Device::CPU))?;
        self.copy_into(&mut host)?;
        Ok(host)
    }

    /// A copy on `device`, in memory of the registry's allocator for it.
    ///
    /// # Errors
    /// As [`to_host`](Self::to_host).
    pub fn to_device(
        &self,
        device: Device,
        registry: &DeviceAllocatorRegistry,
    ) -> Result<Self, TensorError> {
        if device.is_cpu() {
            return self.to_host();
        }
        let mut copy = Self::on_device(self.meta.clone().on(device), registry)?;
        self.copy_into(&mut copy)?;
        Ok(copy)
    }

    /// The same elements on the host, laid out in `dim_order`.
    ///
    /// # Errors
    /// [`TensorError::Shape`] if that is no order of the tensor's dimensions, or as [`bytes`](Self::bytes).
    pub fn in_dim_order(&self, dim_order: &[u8]) -> Result<Self, TensorError> {
        let meta = TensorMeta::new(self.dtype(), self.sizes(), dim_order)?;
        let from = self.bytes()?;
        let mut copy = Self::zeros(meta)?;
        let (width, strides) = (self.dtype().nbytes(), copy.meta.strides().to_vec());
        let to = copy.bytes_mut()?.0;
        // Walks the elements of `self` in memory order, counting along its innermost dimension fastest.
        let mut index = vec![0usize; self.sizes().len()];
        for element in from.chunks_exact(width) {
            let at: usize = index
                .iter()
                .zip(&strides)
                .map(|(i, stride)| i * stride * width)
                .sum();
            to[at..at + width].copy_from_slice(element);
            for &dim in self.meta.dim_order().iter().rev() {
                let dim = usize::from(dim);
                index[dim] += 1;
                if index[dim] < self.sizes()[dim] {
                    break;
                }
                index[dim] = 0;
            }
        }
        Ok(copy)
    }

    /// Copies this tensor's bytes to `target`, wherever the two are. The shapes and element types must be equal.
    ///
    /// # Errors
    /// [`TensorError::Unlike`] if they are not, [`TensorError::NoMemory`], [`TensorError::ReadOnly`], or the device's.
    pub fn copy_into(&self, target: &mut Self) -> Result<(), TensorError> {
        let alike = self.dtype() == target.dtype()
            && self.sizes() == target.sizes()
            && self.meta.dim_order() == target.meta.dim_order();
        if !alike {
            return Err(TensorError::Unlike {
                from: self.meta.clone().into(),
                to: target.meta.clone().into(),
            });
        }
        if self.meta.nbytes() == 0 {
            return Ok(());
        }
        if target.is_read_only() {
            return Err(TensorError::ReadOnly);
        }
        let nbytes = self.meta.nbytes() as u64;
        let (Some(from), Some(to)) = (self.first(nbytes), target.first(nbytes)) else {
            return Err(TensorError::NoMemory);
        };
        // SAFETY: both are live and of their allocators by the constructors' guarantee; `&self` excludes writers of the one
        // and `&mut target` all other users of the other, so they cannot overlap either.
        Ok(unsafe { copy_located(to, from) }?)
    }

    /// Takes the shape of `source` and a copy of its bytes, wherever the two are. On an error the shape is as before.
    ///
    /// # Errors
    /// As [`copy_into`](Self::copy_into), and [`TensorError::Shape`] if this tensor cannot have that shape.
    pub fn copy_from(&mut self, source: &Self) -> Result<(), TensorError> {
        let before: SmallVec<[usize; MAX_RANK]> = self.sizes().into();
        self.resize(source.sizes())?;
        let copied = source.copy_into(self);
        if copied.is_err() {
            self.resize(&before)?;
        }
        copied
    }

    /// Whether the bytes may not be written.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        match &self.view {
            Some(view) => view.guard.is_some(),
            None => matches!(self.owner, Owner::Shared(_)),
        }
    }

    /// Exchanges the memory of two tensors that are of one element type, dimension order and device, and each with room for
    /// the other's bound. This tensor also takes the present shape of `other`, and keeps its own bound.
    ///
    /// # Errors
    /// [`TensorError::Unlike`] if they do not fit, [`TensorError::Shape`] if the shape does not; nothing changes.
    pub(crate) fn exchange_memory(&mut self, other: &mut Self) -> Result<(), TensorError> {
        // What is read-only stays where it is; a tensor that was never given memory has nothing to lose.
        let movable = |tensor: &Self| {
            tensor.view.is_none() && !matches!(tensor.owner, Owner::Shared(_) | Owner::Table)
        };
        let room = |tensor: &Self| tensor.place.map_or(0, |place| place.nbytes());
        let (ours, theirs) = (&self.meta, &other.meta);
        let alike = ours.dtype() == theirs.dtype()
            && ours.dim_order() == theirs.dim_order()
            && ours.device() == theirs.device()
            && room(other) >= ours.bound_nbytes() as u64
            && (self.place.is_none() || room(self) >= theirs.bound_nbytes() as u64);
        if !alike || !movable(self) || !movable(other) {
            return Err(TensorError::Unlike {
                from: Box::new(theirs.clone()),
                to: Box::new(ours.clone()),
            });
        }
        self.meta.resize(other.meta.sizes())?;
        std::mem::swap(&mut self.place, &mut other.place);
        std::mem::swap(&mut self.allocator, &mut other.allocator);
        std::mem::swap(&mut self.owner, &mut other.owner);
        Ok(())
    }

    /// Ends what [`KernelContext::alias`](crate::KernelContext::alias) began: the tensor has its own memory again.
    pub(crate) fn end_view(&mut self) {
        self.view = None;
    }

    /// Takes the tensor's memory away, as an instruction of a program may ask; [`end_view`](Self::end_view) gives it back.
    pub(crate) fn hide_memory(&mut self) {
        self.view = Some(View {
            place: None,
            allocator: None,
            guard: None,
        });
    }

    /// Nobody writes the tensor's own memory any more.
    pub(crate) fn make_read_only(&mut self) {
        self.owner = match std::mem::replace(&mut self.owner, Owner::Elsewhere) {
            Owner::Host(buffer) => Owner::Shared(Arc::new(buffer)),
            other => other,
        };
    }

    /// Whether the tensor's memory is its table's and stays so.
    #[inline]
    pub(crate) fn is_planned(&self) -> bool {
        matches!(self.owner, Owner::Table)
    }

    /// Ends a view, with a copy of what it showed in the tensor's own memory.
    pub(crate) fn settle(&mut self, registry: &DeviceAllocatorRegistry) -> Result<(), TensorError> {
        if self.view.is_none() {
            return Ok(());
        }
        if self.located().is_none() {
            return Err(TensorError::NoMemory);
        }
        if self.place.is_none() {
            let fresh = Self::allocate(self.meta.clone(), registry)?;
            (self.place, self.allocator, self.owner) = (fresh.place, fresh.allocator, fresh.owner);
        }
        let nbytes = self.meta.nbytes() as u64;
        if nbytes > 0 {
            let own = self.own().and_then(|own| own.first(nbytes));
            let (Some(to), Some(from)) = (own, self.first(nbytes)) else {
                return Err(TensorError::NoMemory);
            };
            if !to.is_same(from) {
                if to.allocator().is_some() && to.overlaps(from) {
                    return Err(TensorError::Overlap);
                }
                // SAFETY: both are live: the one is the tensor's, the other that of a tensor of the same table, by the view's
                // contract; `&mut self` stands for the only use of the table. On a device they are apart by the check above.
                unsafe { copy_located(to, from) }?;
            }
        }
        self.view = None;
        Ok(())
    }

    /// Sets all of the tensor's memory to zero, unless it is planned or read-only.
    pub(crate) fn zero_owned(&mut self) -> Result<(), TensorError> {
        if matches!(self.owner, Owner::Table | Owner::Shared(_)) {
            return Ok(());
        }
        match self.own() {
            None => {}
            Some(Located::Host(span)) => {
                // SAFETY: the place is live memory of this tensor by the constructors' guarantee, and `&mut self` excludes
                // other users of it.
                unsafe { core::ptr::write_bytes(span.base().as_ptr(), 0, span.len()) };
            }
            Some(Located::Device(allocator, index, span)) => {
                // SAFETY: as above.
                unsafe { allocator.fill(span, 0, index) }?;
            }
        }
        Ok(())
    }

    /// Where the tensor is, for events.
    pub fn argument_place(&self) -> ArgumentPlace {
        ArgumentPlace::new(self.device(), self.place(), self.meta.nbytes() as u64)
    }

    /// What keeps read-only bytes alive.
    pub(crate) fn shared_owner(&self) -> Option<Arc<dyn Send + Sync>> {
        match (&self.view, &self.owner) {
            (Some(view), _) => view.guard.clone(),
            (None, Owner::Shared(owner)) => Some(Arc::clone(owner)),
            (None, _) => None,
        }
    }

    /// Uses another tensor's bytes, which are read-only if there is a guard.
    ///
    /// # Safety
    /// Until the view ends, what [`from_located`](Self::from_located) asks for holds, or, if there is a guard, what
    /// [`from_shared`](Self::from_shared) asks for.
    pub(crate) unsafe fn become_view(
        &mut self,
        memory: Option<(Place, Option<AllocatorHandle>)>,
        guard: Option<Arc<dyn Send + Sync>>,
    ) {
        let (place, allocator) = memory.unzip();
        self.view = Some(View {
            place,
            allocator: allocator.flatten(),
            guard,
        });
    }

    /// The tensor's own memory, whatever it is a view of.
    fn own(&self) -> Option<Located<'_>> {
        Located::new(self.place?, self.allocator.as_ref())
    }

    /// The first `nbytes` of the tensor's memory.
    pub(crate) fn first(&self, nbytes: u64) -> Option<Located<'_>> {
        self.located()?.first(nbytes)
    }

    fn expect_dtype(&self, expected: ScalarType) -> Result<(), TensorError> {
        let found = self.dtype();
        if found == expected {
            Ok(())
        } else {
            Err(TensorError::Dtype { expected, found })
        }
    }

    /// Address and length of the present shape's bytes in host memory; `None` if there are none.
    fn host(&self) -> Result<Option<(*mut u8, usize)>, TensorError> {
        let nbytes = self.meta.nbytes();
        match self.place() {
            Some(Place::Device(device, _)) => Err(TensorError::OnDevice { device }),
            None if !self.meta.device().is_cpu() => Err(TensorError::OnDevice {
                device: self.meta.device(),
            }),
            _ if nbytes == 0 => Ok(None),
            None => Err(TensorError::NoMemory),
            Some(Place::Host(span)) if span.len() < nbytes => Err(TensorError::Length {
                expected: nbytes,
                found: span.len(),
            }),
            Some(Place::Host(span)) => Ok(Some((span.base().as_ptr(), nbytes))),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?})", self.meta)
    }
}

/// The bytes of a tensor, to write.
#[derive(Debug)]
pub struct BytesMut<'a>(pub &'a mut [u8]);

impl BytesMut<'_> {
    /// Overwrites all of them.
    ///
    /// # Errors
    /// [`TensorError::Length`] if there are more or fewer.
    pub fn copy_from(self, bytes: &[u8]) -> Result<(), TensorError> {
        if self.0.len() != bytes.len() {
            return Err(TensorError::Length {
                expected: self.0.len(),
                found: bytes.len(),
            });
        }
        self.0.copy_from_slice(bytes);
        Ok(())
    }
}

/// Something that cannot be done with a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The shape cannot be.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Host memory ran out.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Host access to device memory.
    #[error("the tensor is on {device}; copy it to the host first")]
    OnDevice {
        /// The device.
        device: Device,
    },
    /// The tensor has no memory.
    #[error("the tensor has no memory")]
    NoMemory,
    /// A copy on a device would read and write the same bytes.
    #[error("cannot copy between parts of one device buffer that overlap")]
    Overlap,
    /// The bytes are a constant's.
    #[error("the tensor's bytes are shared and can only be read")]
    ReadOnly,
    /// Another element type was asked for.
    #[error("the elements are {found}, not {expected}")]
    Dtype {
        /// The type asked for.
        expected: ScalarType,
        /// The tensor's.
        found: ScalarType,
    },
    /// A different number of bytes.
    #[error("the tensor has {expected} bytes, and {found} were given")]
    Length {
        /// The tensor's.
        expected: usize,
        /// Those given.
        found: usize,
    },
    /// The address does not suit the element type.
    #[error("the tensor's address is not aligned for its elements")]
    Misaligned,
    /// A copy between tensors of different description.
    #[error("cannot copy {from:?} to {to:?}")]
    Unlike {
        /// The source.
        from: Box<TensorMeta>,
        /// The target.
        to: Box<TensorMeta>,
    },
}
