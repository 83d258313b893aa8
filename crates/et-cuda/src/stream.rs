//! Streams: those of our own, and those that callers bring.

use crate::context::{Context, Current};
use crate::driver::{INVALID_HANDLE, Status};
use crate::event::Event;
use et_device::{DeviceError, StreamHandle};
use std::sync::Arc;

/// A stream of the current context, as the driver numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamId(usize);

impl StreamId {
    /// The caller's stream, once it is known to belong to the current context.
    ///
    /// # Safety
    /// `handle` is a live stream.
    pub(crate) unsafe fn of_caller(
        current: &Current<'_>,
        handle: StreamHandle,
    ) -> Result<Self, DeviceError> {
        /// NULL, legacy and per-thread streams: they belong to whatever context is current.
        const LAST_IMPLICIT: usize = 2;
        const QUESTION: &str = "cuStreamGetCtx";
        let foreign = Status {
            operation: QUESTION,
            code: INVALID_HANDLE,
        };
        let raw =
            usize::try_from(handle.as_raw()).or_else(|_| current.check(foreign).map(|()| 0))?;
        if raw <= LAST_IMPLICIT {
            return Ok(StreamId(raw));
        }
        let mut context = 0;
        // SAFETY: a live stream, by this function's contract.
        current.check(unsafe { current.driver().stream_get_context(raw, &mut context) })?;
        if context != current.context().handle() {
            current.check(foreign)?;
        }
        Ok(StreamId(raw))
    }

    /// A stream that a [`CallerStream`](crate::CallerStream) guard holds, which was checked when the guard was made.
    pub(crate) fn selected(handle: StreamHandle) -> Option<Self> {
        usize::try_from(handle.as_raw()).ok().map(StreamId)
    }

    /// Queues a wait for `event`.
    pub(crate) fn wait_for(self, current: &Current<'_>, event: &Event) -> Result<(), DeviceError> {
        // SAFETY: the stream is live by whoever made this id; the event is live while it is borrowed.
        let status = unsafe {
            current
                .driver()
                .stream_wait_event(self.0, event.handle(), 0)
        };
        if event.belongs_to(current.context()) {
            return current.check(status);
        }
        // A fault of the other device is none of this one.
        current.context().without_blame(status)
    }

    /// Waits until the stream has done all that is queued.
    pub(crate) fn synchronize(self, current: &Current<'_>) -> Result<(), DeviceError> {
        // SAFETY: the stream is live by whoever made this id.
        current.check(unsafe { current.driver().stream_synchronize(self.0) })
    }

    /// Waits until the stream no longer touches memory that is about to go. If the driver cannot say so, the whole
    /// device is waited for; if not even that works, it is not used again.
    pub(crate) fn settle(self, current: &Current<'_>) -> Result<(), DeviceError> {
        let outcome = self.synchronize(current);
        if outcome.is_err() {
            current.settle();
        }
        outcome
    }

    /// Queues a copy from the host.
    ///
    /// # Safety
    /// `dst` starts `nbytes` bytes of live device memory that nothing else uses; the host bytes at `src` stay alive and
    /// unchanged until the stream was waited for.
    pub(crate) unsafe fn copy_in(
        self,
        current: &Current<'_>,
        dst: u64,
        src: *const u8,
        nbytes: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: by this function's contract.
        current.check(unsafe {
            current
                .driver()
                .copy_host_to_device(dst, src.cast(), nbytes, self.0)
        })
    }

    /// Queues a copy to the host.
    ///
    /// # Safety
    /// `src` starts `nbytes` bytes of live device memory that nothing writes; the host bytes at `dst` stay alive and
    /// unused until the stream was waited for.
    pub(crate) unsafe fn copy_out(
        self,
        current: &Current<'_>,
        dst: *mut u8,
        src: u64,
        nbytes: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: by this function's contract.
        current.check(unsafe {
            current
                .driver()
                .copy_device_to_host(dst.cast(), src, nbytes, self.0)
        })
    }

    /// Queues a copy within the current device.
    ///
    /// # Safety
    /// Both addresses start `nbytes` bytes of live memory of this device, used by nothing else meanwhile.
    pub(crate) unsafe fn copy_within(
        self,
        current: &Current<'_>,
        dst: u64,
        src: u64,
        nbytes: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: by this function's contract.
        current.check(unsafe {
            current
                .driver()
                .copy_device_to_device(dst, src, nbytes, self.0)
        })
    }

    /// Queues a copy from the current device to another.
    ///
    /// # Safety
    /// `src` starts `nbytes` bytes of live memory of the current device and `dst` as many of `to`'s, used by nothing
    /// else meanwhile.
    pub(crate) unsafe fn copy_to_peer(
        self,
        current: &Current<'_>,
        to: &Context,
        dst: u64,
        src: u64,
        nbytes: usize,
    ) -> Result<(), DeviceError> {
        let from = current.context().handle();
        // SAFETY: by this function's contract; both contexts are retained.
        let status = unsafe {
            current
                .driver()
                .copy_peer(dst, to.handle(), src, from, nbytes, self.0)
        };
        // Either device may be at fault.
        current.context().without_blame(status)
    }

    /// Queues a fill.
    ///
    /// # Safety
    /// `dst` starts `nbytes` bytes of live memory of this device, used by nothing else meanwhile.
    pub(crate) unsafe fn fill(
        self,
        current: &Current<'_>,
        dst: u64,
        value: u8,
        nbytes: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: by this function's contract.
        current.check(unsafe { current.driver().fill_bytes(dst, value, nbytes, self.0) })
    }

    /// The driver's handle.
    pub(crate) fn raw(self) -> usize {
        self.0
    }
}

/// A stream of our own. It is not ordered against the NULL stream.
pub(crate) struct Stream {
    context: Arc<Context>,
    id: StreamId,
}

impl Stream {
    pub(crate) fn create(context: &Arc<Context>) -> Result<Self, DeviceError> {
        const NON_BLOCKING: u32 = 1;
        let current = context.enter()?;
        let mut handle = 0;
        // SAFETY: a context is current as long as `current` lives, which `Context::enter` saw to.
        current.check(unsafe { current.driver().stream_create(&mut handle, NON_BLOCKING) })?;
        Ok(Stream {
            context: Arc::clone(context),
            id: StreamId(handle),
        })
    }

    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Ok(current) = self.context.enter_anyway() {
            // SAFETY: created in `create` and destroyed only here. Queued work still runs; a failure has no one to
            // go to, and the handle is not used again.
            let _ = unsafe { current.driver().stream_destroy(self.id.0) };
        }
    }
}
