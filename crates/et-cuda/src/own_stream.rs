//! Streams for callers who have none of their own.

use crate::caller_stream::CallerStream;
use crate::event::{CudaEvent, Event};
use crate::stream::Stream;
use et_device::{Device, DeviceError, StreamHandle};
use std::fmt;
use std::sync::Arc;

/// A stream of a device. Clones are the same stream, and the last of them destroys it: work that is queued still runs.
///
/// It is not ordered against the NULL stream. Made by [`create_stream`](crate::CudaAllocator::create_stream).
#[derive(Clone)]
pub struct CudaStream(pub(crate) Arc<Stream>);

impl CudaStream {
    /// Its device.
    pub fn device(&self) -> Device {
        self.0.context().device
    }

    /// What methods that take a caller's stream know it by: live as long as a clone of this.
    pub fn handle(&self) -> StreamHandle {
        StreamHandle::from_raw(self.0.id().raw() as u64)
    }

    /// Waits until all that is queued is done.
    ///
    /// # Errors
    /// A failure of the queued work, or the driver's.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        self.0.id().synchronize(&self.0.context().enter()?)
    }

    /// An event behind all that is queued now.
    ///
    /// # Errors
    /// The driver's.
    pub fn record(&self) -> Result<CudaEvent, DeviceError> {
        let context = self.0.context();
        let event = Event::record(context, &context.enter()?, self.0.id())?;
        Ok(CudaEvent(Arc::new(event)))
    }

    /// Has work that is queued from now on wait for an event, which may be of another device.
    ///
    /// # Errors
    /// The driver's.
    pub fn wait_for(&self, event: &CudaEvent) -> Result<(), DeviceError> {
        let current = self.0.context().enter()?;
        self.0.id().wait_for(&current, &event.0)
    }

    /// Has the calling thread's synchronous copies and fills on the device happen on this stream, as long as the guard
    /// lives. The guard keeps the stream.
    pub fn select(&self) -> CallerStream {
        CallerStream::select_own(self.clone())
    }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaStream")
            .field("device", &self.device())
            .field("handle", &self.handle())
            .finish_non_exhaustive()
    }
}
