//! Tensors: a description, a place, and (for tensors of one's own) the memory.
#![expect(
    unsafe_code,
    reason = "a tensor points into memory that it owns or that its table does"
)]

mod error;
mod make;
mod view;

use core::fmt;
use core::slice;
use std::sync::Arc;

use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry};
use et_memory::{DeviceMemoryBuffer, HostBuffer, Place};
use smallvec::SmallVec;

use crate::copy::{Located, copy_located};
use crate::dtype::{from_bytes, from_bytes_mut};
use crate::{ArgumentPlace, Element, MAX_RANK, ScalarType, TensorMeta};

pub use error::TensorError;

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
    #[inline]
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

    /// Whether the tensor's memory is its table's and stays so.
    #[inline]
    pub(crate) fn is_planned(&self) -> bool {
        matches!(self.owner, Owner::Table)
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
