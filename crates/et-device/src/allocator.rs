//! What a device must be able to do.

use core::any::TypeId;
use core::fmt;

use crate::{
    AllocationRequest, Device, DeviceError, DeviceIndex, DeviceSpan, DeviceToDevice, DeviceToHost,
    DeviceType, HostToDevice, MemoryInfo, StreamHandle,
};

/// Bytes moved at a time by the default implementations, through a buffer on the stack.
const STAGING: usize = 4096;

/// Allocates memory on the devices of one type, frees it, and copies to and from it.
///
/// # When memory is usable
///
/// - The plain methods are *synchronous*: when they return, the work is done and visible to every thread and every
///   stream of the device. `allocate` returns a block that may be used at once, anywhere.
/// - The methods that end in `_on` are *stream-ordered*: they only queue the work. A block from `allocate_on` may be
///   used by work queued later on the same stream; anything else must wait for that stream first. The defaults wait
///   for the stream and then do the work synchronously, which is correct on any device.
/// - A stream handle that was not made for the allocator's device is an error, as far as the allocator can tell.
///
/// # Threads
///
/// All methods may be called from any thread at any time. A block may be freed on another thread than it was allocated
/// on, and an allocator must not leave a thread's current device (or the like) other than it found it.
///
/// # Sizes
///
/// No method is called for 0 bytes: requests hold a non-zero size, and callers leave out empty copies. Both sides of a copy are
/// equally long, as the request's constructor saw to; whoever assigns to its fields afterwards vouches for that. There is no
/// upper limit to alignments in this contract; an allocator that cannot satisfy one returns
/// [`DeviceError::UnsupportedAlignment`].
///
/// # Safety
///
/// Callers rely on this for memory safety. An implementation must see to it that
/// - a span from `allocate` is at least as long and as aligned as asked for, and overlaps no other live block;
/// - it stays usable until it is given to `deallocate`, however long the allocator's other blocks live;
/// - copies read and write the given bytes only, and `copy_device_to_host` writes all of `dst` or returns an error;
/// - [`identity`](Self::identity) is the default, and [`wrapped`](Self::wrapped) the same allocator whenever it is asked for, if any.
pub unsafe trait DeviceAllocator: Send + Sync + 'static {
    /// The type of all devices that this allocator serves.
    fn device_type(&self) -> DeviceType;

    /// The allocator whose blocks these are, if this one is a wrapper that hands them out as they are (to count or log calls, say).
    /// Methods that a wrapper does not implement are then those of what it wraps, streams and waiting with them: only what it
    /// watches has to be written down.
    fn wrapped(&self) -> Option<&dyn DeviceAllocator> {
        None
    }

    /// Which allocator's blocks these are: equal addresses of equal identities are the same bytes, and those of others are not.
    fn identity(&self) -> AllocatorIdentity {
        if let Some(wrapped) = self.wrapped() {
            return wrapped.identity();
        }
        AllocatorIdentity {
            address: core::ptr::from_ref(self).addr(),
            // Allocators without fields may share an address.
            kind: TypeId::of::<Self>(),
        }
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] if the driver is not there.
    fn device_count(&self) -> Result<u32, DeviceError>;

    /// A block of memory for the request. Its contents are unspecified. The span has exactly the requested length.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if there is not enough now, [`DeviceError::NoSuchDevice`],
    /// [`DeviceError::UnsupportedAlignment`], or the driver's.
    fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError>;

    /// Gives a block back.
    ///
    /// # Errors
    /// [`DeviceError::UnknownBlock`] if the allocator keeps track and `block` is not live, or the driver's. The block
    /// must not be used again even then.
    ///
    /// # Safety
    /// `block` came from `allocate` of this allocator with this `index`, has not been given back, and no work that
    /// uses it is running or queued.
    unsafe fn deallocate(&self, block: DeviceSpan, index: DeviceIndex) -> Result<(), DeviceError>;

    /// Copies host bytes to the device.
    ///
    /// # Errors
    /// The driver's, or [`DeviceError::OutOfBounds`] from allocators that check.
    ///
    /// # Safety
    /// `copy.dst` lies inside a live block of device `copy.index`, and nothing else uses those bytes meanwhile.
    unsafe fn copy_host_to_device(&self, copy: HostToDevice<'_>) -> Result<(), DeviceError>;

    /// Copies device bytes to the host.
    ///
    /// # Errors
    /// As for [`copy_host_to_device`](Self::copy_host_to_device). `copy.dst` then holds unspecified bytes.
    ///
    /// # Safety
    /// `copy.src` lies inside a live block of device `copy.index`, and nothing writes those bytes meanwhile.
    unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError>;

    /// Copies bytes within a device, or between two devices of this type. The default goes through the host.
    ///
    /// # Errors
    /// As for the other copies.
    ///
    /// # Safety
    /// As for the other copies, for both sides; the two sides do not overlap.
    unsafe fn copy_device_to_device(&self, copy: DeviceToDevice) -> Result<(), DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            // SAFETY: the contract is the caller's.
            return unsafe { wrapped.copy_device_to_device(copy) };
        }
        let mut staging = [0; STAGING];
        for part in chunks(copy.dst.len()) {
            let (offset, bytes) = part.of(&mut staging);
            let (src, dst) = (
                copy.src.subspan(offset, part.len)?,
                copy.dst.subspan(offset, part.len)?,
            );
            let fetch = DeviceToHost::new(copy.src_index, bytes, src)?;
            // SAFETY: a part of the source that the caller vouches for.
            unsafe { self.copy_device_to_host(fetch)? };
            let store = HostToDevice::new(copy.dst_index, dst, bytes)?;
            // SAFETY: a part of the target that the caller vouches for.
            unsafe { self.copy_host_to_device(store)? };
        }
        Ok(())
    }

    /// Sets every byte of `dst` to `value`. The default copies from the host.
    ///
    /// # Errors
    /// As for the copies.
    ///
    /// # Safety
    /// As for [`copy_host_to_device`](Self::copy_host_to_device).
    unsafe fn fill(
        &self,
        dst: DeviceSpan,
        value: u8,
        index: DeviceIndex,
    ) -> Result<(), DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            // SAFETY: the contract is the caller's.
            return unsafe { wrapped.fill(dst, value, index) };
        }
        let mut staging = [value; STAGING];
        for part in chunks(dst.len()) {
            let (offset, bytes) = part.of(&mut staging);
            let store = HostToDevice::new(index, dst.subspan(offset, part.len)?, bytes)?;
            // SAFETY: a part of the target that the caller vouches for.
            unsafe { self.copy_host_to_device(store)? };
        }
        Ok(())
    }

    /// How much memory device `index` has, and how much of it is free.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the allocator cannot tell (the default), or the driver's.
    fn memory_info(&self, index: DeviceIndex) -> Result<MemoryInfo, DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            return wrapped.memory_info(index);
        }
        let _ = index;
        Err(self.unsupported("asking for free memory"))
    }

    /// Writes the name of device `index`, such as a product name. The default writes its type and index.
    ///
    /// # Errors
    /// [`DeviceError::NoSuchDevice`], or the driver's. An error of `out` ends the text early.
    fn describe(&self, index: DeviceIndex, out: &mut dyn fmt::Write) -> Result<(), DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            return wrapped.describe(index, out);
        }
        let device = Device::new(self.device_type(), index);
        // A full buffer cuts the name short; that is no failure of the device.
        let _ = write!(out, "{device}");
        Ok(())
    }

    /// Waits until all work queued on device `index` is done. The default has nothing to wait for.
    ///
    /// # Errors
    /// A failure of the queued work, or the driver's.
    fn synchronize(&self, index: DeviceIndex) -> Result<(), DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            return wrapped.synchronize(index);
        }
        let _ = index;
        Ok(())
    }

    /// Waits until the work queued on `stream` so far is done. The default waits for the whole device.
    ///
    /// # Errors
    /// As for [`synchronize`](Self::synchronize).
    ///
    /// # Safety
    /// `stream` is a live stream of device `index`, as this allocator understands it.
    unsafe fn synchronize_stream(
        &self,
        index: DeviceIndex,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            // SAFETY: the contract is the caller's.
            return unsafe { wrapped.synchronize_stream(index, stream) };
        }
        let _ = stream;
        self.synchronize(index)
    }

    /// Stream-ordered [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// `stream` is a live stream of device `request.index`.
    unsafe fn allocate_on(
        &self,
        request: &AllocationRequest,
        stream: StreamHandle,
    ) -> Result<DeviceSpan, DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            // SAFETY: the contract is the caller's.
            return unsafe { wrapped.allocate_on(request, stream) };
        }
        let _ = stream;
        self.allocate(request)
    }

    /// Stream-ordered [`deallocate`](Self::deallocate): the block is freed behind the work queued on `stream`.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there, but work queued on `stream` may still use the block. `stream` is a live stream of device `index`.
    unsafe fn deallocate_on(
        &self,
        block: DeviceSpan,
        index: DeviceIndex,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            // SAFETY: the contract is the caller's.
            return unsafe { wrapped.deallocate_on(block, index, stream) };
        }
        // SAFETY: the caller vouches for the stream.
        unsafe { self.synchronize_stream(index, stream)? };
        // SAFETY: the caller vouches for the block, and the work that used it is done now.
        unsafe { self.deallocate(block, index) }
    }

    /// Stream-ordered [`copy_host_to_device`](Self::copy_host_to_device).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there, until the copy has happened: `copy.src` must stay alive and unchanged until `stream` was waited for.
    /// `stream` is a live stream of device `copy.index`.
    unsafe fn copy_host_to_device_on(
        &self,
        copy: HostToDevice<'_>,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            // SAFETY: the contract is the caller's.
            return unsafe { wrapped.copy_host_to_device_on(copy, stream) };
        }
        // SAFETY: the caller vouches for the stream.
        unsafe { self.synchronize_stream(copy.index, stream)? };
        // SAFETY: the caller vouches for the copy.
        unsafe { self.copy_host_to_device(copy) }
    }

    /// Stream-ordered [`copy_device_to_host`](Self::copy_device_to_host).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there, until the copy has happened: `copy.dst` must stay alive and unused until `stream` was waited for.
    /// `stream` is a live stream of device `copy.index`.
    unsafe fn copy_device_to_host_on(
        &self,
        copy: DeviceToHost<'_>,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            // SAFETY: the contract is the caller's.
            return unsafe { wrapped.copy_device_to_host_on(copy, stream) };
        }
        // SAFETY: the caller vouches for the stream.
        unsafe { self.synchronize_stream(copy.index, stream)? };
        // SAFETY: the caller vouches for the copy.
        unsafe { self.copy_device_to_host(copy) }
    }

    /// Stream-ordered [`copy_device_to_device`](Self::copy_device_to_device).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there, until the copy has happened. `stream` is a live stream of device `copy.src_index`.
    unsafe fn copy_device_to_device_on(
        &self,
        copy: DeviceToDevice,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        if let Some(wrapped) = self.wrapped() {
            // SAFETY: the contract is the caller's.
            return unsafe { wrapped.copy_device_to_device_on(copy, stream) };
        }
        // SAFETY: the caller vouches for the stream.
        unsafe { self.synchronize_stream(copy.src_index, stream)? };
        // SAFETY: the caller vouches for the copy.
        unsafe { self.copy_device_to_device(copy) }
    }

    /// The error for something that this allocator does not offer.
    fn unsupported(&self, operation: &'static str) -> DeviceError {
        DeviceError::Unsupported {
            device_type: self.device_type(),
            operation,
        }
    }
}

/// Tells an allocator from all others that live at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllocatorIdentity {
    address: usize,
    kind: TypeId,
}

impl fmt::Debug for dyn DeviceAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceAllocator({})", self.device_type())
    }
}

/// A part of a transfer that fits the staging buffer.
#[derive(Clone, Copy)]
struct Chunk {
    offset: u64,
    len: u64,
}

impl Chunk {
    /// The chunk's offset, and as much of `staging` as it needs.
    fn of(self, staging: &mut [u8; STAGING]) -> (u64, &mut [u8]) {
        let len = usize::try_from(self.len).unwrap_or(STAGING);
        (self.offset, staging.split_at_mut(len.min(STAGING)).0)
    }
}

/// Splits `nbytes` into chunks of at most [`STAGING`] bytes.
fn chunks(nbytes: u64) -> impl Iterator<Item = Chunk> {
    let step = u64::try_from(STAGING).unwrap_or(u64::MAX);
    let mut offset = 0;
    core::iter::from_fn(move || {
        let len = nbytes
            .checked_sub(offset)
            .filter(|&left| left > 0)?
            .min(step);
        let chunk = Chunk { offset, len };
        offset = offset.checked_add(len)?;
        Some(chunk)
    })
}
