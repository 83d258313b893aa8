//! Ways to a tensor: from elements, in memory of the caller's, on a device, over shared bytes.

use core::ptr::NonNull;
use std::sync::Arc;

use et_device::{Alignment, Device, DeviceAllocatorRegistry};
use et_memory::{DeviceMemoryBuffer, HostBuffer, HostSpan};

use super::{Lease, Owner, Tensor, TensorError};
use crate::copy::Located;
use crate::dtype::as_bytes;
use crate::{Element, SharedBytes, TensorMeta};

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
        // The owner is asked once, as it might not give the same the next time.
        let all: &[u8] = bytes;
        let (expected, found) = (meta.bound_nbytes(), all.len());
        let part = all
            .get(..expected)
            .ok_or(TensorError::Length { expected, found })?;
        let span = HostSpan::of(part);
        if span.is_aligned(meta.alignment()) {
            let owner: Arc<dyn Send + Sync> = bytes.owner();
            // SAFETY: the span was borrowed from `owner`, which is shared and so neither moved nor mutably borrowed while it exists: a
            // borrow of it may last as long, and so the bytes do. Nobody writes through a shared tensor.
            return Ok(unsafe { Self::from_shared(meta, Located::Host(span), owner) });
        }
        let mut copy = HostBuffer::zeroed(expected as u64, meta.alignment())?;
        // SAFETY: the buffer is new, so nothing else uses it.
        unsafe { copy.bytes_mut() }.copy_from_slice(part);
        let memory = Located::Host(copy.span());
        // SAFETY: that is all of the buffer, which the owner keeps alive and nobody writes any more.
        Ok(unsafe { Self::from_shared(meta, memory, Arc::new(copy)) })
    }

    /// Another read-only tensor over the same bytes.
    ///
    /// # Errors
    /// [`TensorError::Unlike`] if this one is not read-only, is on another device, or has fewer bytes.
    pub(crate) fn share_constant(&self, meta: TensorMeta) -> Result<Self, TensorError> {
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
        let mut buffer =
            DeviceMemoryBuffer::create_in(registry, expected as u64, device, Alignment::DEVICE)?;
        buffer.write(0, bytes)?;
        let Some(span) = buffer.span() else {
            return Self::on_device(meta, registry);
        };
        let allocator = buffer.allocator().clone();
        let memory = Located::Device(&allocator, device.index(), span);
        // SAFETY: that is all of the buffer, which the owner keeps alive and nobody writes any more.
        Ok(unsafe { Self::from_shared(meta, memory, Arc::new(buffer)) })
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
}
