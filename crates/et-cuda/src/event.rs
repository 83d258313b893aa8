//! Events: points in streams that hosts and other streams can wait for.

use crate::context::{Context, Current};
use crate::driver::NOT_READY;
use crate::stream::StreamId;
use et_device::{Device, DeviceError};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A point in a stream: all that was queued before it. Copies of it are the same point.
///
/// Waiting for one orders the host behind the stream, and [`wait_for`](crate::CudaAllocator::wait_for) orders another
/// stream behind it. Dropping it waits for nothing.
#[derive(Clone)]
pub struct CudaEvent(pub(crate) Arc<Event>);

impl CudaEvent {
    /// The device of the stream.
    pub fn device(&self) -> Device {
        self.0.context.device
    }

    /// Whether everything before the point is done.
    ///
    /// # Errors
    /// A failure of the queued work, or the driver's.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        self.0.is_done(&self.0.context.enter()?)
    }

    /// Waits until everything before the point is done.
    ///
    /// # Errors
    /// A failure of the queued work, or the driver's.
    pub fn wait(&self) -> Result<(), DeviceError> {
        self.0.wait(&self.0.context.enter()?)
    }

    /// See [`Event::settle`].
    pub(crate) fn settle(&self) -> bool {
        self.0.settle()
    }
}

impl fmt::Debug for CudaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaEvent")
            .field("device", &self.device())
            .finish_non_exhaustive()
    }
}

/// A recorded event of the driver. Its handle is used again once nobody holds it.
pub(crate) struct Event {
    context: Arc<Context>,
    handle: usize,
}

impl Event {
    /// An event at what is queued on `stream` now.
    pub(crate) fn record(
        context: &Arc<Context>,
        current: &Current<'_>,
        stream: StreamId,
    ) -> Result<Self, DeviceError> {
        let handle = match context.idle_events.take() {
            Some(handle) => handle,
            None => create(current)?,
        };
        let event = Event {
            context: Arc::clone(context),
            handle,
        };
        // SAFETY: the event is live; the stream is live by whoever made its id.
        current.check(unsafe { current.driver().event_record(handle, stream.raw()) })?;
        Ok(event)
    }

    /// The driver's handle, live as long as this.
    pub(crate) fn handle(&self) -> usize {
        self.handle
    }

    /// Whether it is an event of this context.
    pub(crate) fn belongs_to(&self, context: &Context) -> bool {
        self.context.handle() == context.handle()
    }

    /// Whether everything before it is done. Some context must be current; a failure is one of the event's own.
    pub(crate) fn is_done(&self, current: &Current<'_>) -> Result<bool, DeviceError> {
        // SAFETY: the event is live.
        let status = unsafe { current.driver().event_query(self.handle) };
        if status.code == NOT_READY {
            return Ok(false);
        }
        self.context.check(status).map(|()| true)
    }

    /// Waits until everything before it is done, as for [`Event::is_done`].
    pub(crate) fn wait(&self, current: &Current<'_>) -> Result<(), DeviceError> {
        // SAFETY: the event is live.
        self.context
            .check(unsafe { current.driver().event_synchronize(self.handle) })
    }

    /// Waits for the sake of memory that is about to go; whether nothing before it uses that any more. If the driver
    /// cannot say so, all of the event's device is waited for.
    pub(crate) fn settle(&self) -> bool {
        let Ok(current) = self.context.enter_anyway() else {
            return false;
        };
        self.wait(&current).is_ok() || current.settle()
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // Waits that are queued keep the point that they were made for.
        if self.context.idle_events.put(self.handle) {
            return;
        }
        if let Ok(current) = self.context.enter_anyway() {
            destroy(&current, self.handle);
        }
    }
}

fn create(current: &Current<'_>) -> Result<usize, DeviceError> {
    /// Without time stamps, which cost more than the rest.
    const DISABLE_TIMING: u32 = 2;
    let mut handle = 0;
    // SAFETY: a context is current as long as `current` lives, which `Context::enter` saw to.
    current.check(unsafe { current.driver().event_create(&mut handle, DISABLE_TIMING) })?;
    Ok(handle)
}

/// Destroys an event that nobody holds. A failure has no one to go to.
fn destroy(current: &Current<'_>, handle: usize) {
    // SAFETY: the caller held the last mention of the event; the driver keeps what queued waits need.
    let _ = unsafe { current.driver().event_destroy(handle) };
}

/// Handles to use again: creating an event costs several times as much as recording it.
#[derive(Default)]
pub(crate) struct IdleEvents(Mutex<Vec<usize>>);

impl IdleEvents {
    /// More than this many are not kept.
    const MOST: usize = 256;

    fn take(&self) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a handle if there is room; whether it did.
    fn put(&self, handle: usize) -> bool {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = idle.len() < Self::MOST;
        if room {
            idle.push(handle);
        }
        room
    }

    /// Destroys all of them.
    pub(crate) fn destroy(&self, current: &Current<'_>) {
        while let Some(handle) = self.take() {
            destroy(current, handle);
        }
    }
}
