//! Host memory that does not move, so that a device can reach it while the host does other things.

use crate::context::Context;
use crate::driver::{OUT_OF_MEMORY, Status};
use et_device::{Device, DeviceError};
use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which kind of pinned memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PinnedKind {
    Cached,
    WriteCombined,
}

/// Page-locked host memory, zeroed when it is made and given back when dropped.
///
/// It is a slice of bytes. A copy that runs by itself takes the buffer for as long as it lasts
/// (see [`Transfer`](crate::Transfer)), so the bytes cannot change, or go, under a copy.
///
/// Pinning is slow and takes memory from the rest of the system: make few buffers, and use them again.
pub struct PinnedBuffer {
    context: Arc<Context>,
    bytes: NonNull<u8>,
    nbytes: usize,
}

// SAFETY: the buffer owns its memory, which is ordinary memory for every thread; the driver lets any thread free it.
unsafe impl Send for PinnedBuffer {}

// SAFETY: a shared buffer can only be read.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// No memory at all.
    pub(crate) fn empty(context: &Arc<Context>) -> Self {
        PinnedBuffer {
            context: Arc::clone(context),
            bytes: NonNull::dangling(),
            nbytes: 0,
        }
    }

    pub(crate) fn allocate(
        context: &Arc<Context>,
        nbytes: usize,
        kind: PinnedKind,
    ) -> Result<Self, DeviceError> {
        const WRITE_COMBINED: u32 = 4;
        let mut buffer = Self::empty(context);
        if nbytes == 0 {
            return Ok(buffer);
        }
        let flags = match kind {
            PinnedKind::Cached => 0,
            PinnedKind::WriteCombined => WRITE_COMBINED,
        };
        let current = context.enter()?;
        if isize::try_from(nbytes).is_err() {
            // More than a slice can have; no machine has it.
            return Err(refusal(context));
        }
        let mut place: *mut c_void = std::ptr::null_mut();
        // SAFETY: a context is current as long as `current` lives, which `Context::enter` saw to.
        current.check(unsafe { current.driver().host_alloc(&mut place, nbytes, flags) })?;
        let Some(bytes) = NonNull::new(place.cast::<u8>()) else {
            return Err(refusal(context));
        };
        (buffer.bytes, buffer.nbytes) = (bytes, nbytes);
        context
            .pinned_bytes
            .fetch_add(nbytes as u64, Ordering::Relaxed);
        // SAFETY: the driver gave this many bytes, and nobody else knows of them.
        unsafe { bytes.write_bytes(0, nbytes) };
        Ok(buffer)
    }

    /// The device for whose copies it was pinned. Other devices can use it as well.
    pub fn device(&self) -> Device {
        self.context.device
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The address of its bytes from `offset` on.
    ///
    /// # Panics
    /// If that is not inside of it.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.nbytes, "invariant: offsets were checked");
        // SAFETY: within the allocation, by the line above.
        unsafe { self.bytes.add(offset) }.as_ptr()
    }
}

/// That there is not so much memory, as the driver would put it.
#[cold]
fn refusal(context: &Context) -> DeviceError {
    let status = Status {
        operation: "cuMemHostAlloc",
        code: OUT_OF_MEMORY,
    };
    status.error(context.device, context.driver.name_of(status))
}

impl Deref for PinnedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: initialised memory of this length, owned by `self`; copies that write it own the buffer meanwhile.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.nbytes) }
    }
}

impl DerefMut for PinnedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.nbytes) }
    }
}

impl fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedBuffer")
            .field("device", &self.device())
            .field("nbytes", &self.nbytes)
            .finish_non_exhaustive()
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if self.nbytes == 0 {
            return;
        }
        self.context
            .pinned_bytes
            .fetch_sub(self.nbytes as u64, Ordering::Relaxed);
        if let Ok(current) = self.context.enter_anyway() {
            // SAFETY: allocated in `allocate` and freed only here; no copy uses it, or the copy would own it. A failure
            // has no one to go to.
            let _ = unsafe { current.driver().host_free(self.bytes.as_ptr().cast()) };
        }
    }
}
