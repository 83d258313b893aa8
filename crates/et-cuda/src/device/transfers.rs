//! Copies of one device that run by themselves, and the events that tell of them.

use super::DeviceState;
use crate::context::Current;
use crate::event::{CudaEvent, Event};
use crate::own_stream::CudaStream;
use crate::pinned::{PinnedBuffer, PinnedKind};
use crate::stream::{Stream, StreamId};
use et_device::{DeviceError, DeviceSpan, LengthMismatch, StreamHandle};
use std::sync::Arc;

impl DeviceState {
    pub(crate) fn pinned(
        &self,
        nbytes: usize,
        kind: PinnedKind,
    ) -> Result<PinnedBuffer, DeviceError> {
        PinnedBuffer::allocate(&self.context, nbytes, kind)
    }

    pub(crate) fn create_stream(&self) -> Result<CudaStream, DeviceError> {
        Ok(CudaStream(Arc::new(Stream::create(&self.context)?)))
    }

    /// # Safety
    /// As for [`crate::CudaAllocator::upload`]; `src` stays as it is until the event is done, if there is one.
    pub(crate) unsafe fn upload(
        &self,
        dst: DeviceSpan,
        src: &PinnedBuffer,
        offset: usize,
        stream: StreamHandle,
    ) -> Result<CudaEvent, DeviceError> {
        let nbytes = self.length_in(src, offset, dst)?;
        let current = self.context.enter()?;
        // SAFETY: a live stream, by the contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        if nbytes > 0 {
            // SAFETY: by this function's contract, and the bytes are inside of the buffer.
            unsafe { stream.copy_in(&current, dst.base().get(), src.at(offset), nbytes)? };
            self.counters.host_to_device.add(nbytes);
        }
        self.finish(&current, dst, stream)
    }

    /// # Safety
    /// As for [`crate::CudaAllocator::download`]; nobody uses `dst` until the event is done, if there is one.
    pub(crate) unsafe fn download(
        &self,
        dst: &PinnedBuffer,
        offset: usize,
        src: DeviceSpan,
        stream: StreamHandle,
    ) -> Result<CudaEvent, DeviceError> {
        let nbytes = self.length_in(dst, offset, src)?;
        let current = self.context.enter()?;
        // SAFETY: a live stream, by the contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        if nbytes > 0 {
            // SAFETY: by this function's contract, and the bytes are inside of the buffer.
            unsafe { stream.copy_out(&current, dst.at(offset), src.base().get(), nbytes)? };
            self.counters.device_to_host.add(nbytes);
        }
        self.finish(&current, src, stream)
    }

    /// # Safety
    /// As for [`crate::CudaAllocator::upload_staged`].
    pub(crate) unsafe fn upload_staged(
        &self,
        dst: DeviceSpan,
        src: &[u8],
        stream: StreamHandle,
    ) -> Result<CudaEvent, DeviceError> {
        let nbytes = self.same_length(dst, src.len())?;
        let current = self.context.enter()?;
        // SAFETY: a live stream, by the contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        if nbytes == 0 {
            return self.finish(&current, dst, stream);
        }
        let to = dst.base().get();
        // SAFETY: by this function's contract.
        let queued = unsafe {
            self.staging
                .upload(&self.context, &current, to, src, stream)?
        };
        self.counters.host_to_device.add(nbytes);
        self.counters.staged.add(nbytes);
        match queued {
            Some(event) => Ok(self.keep_under(&current, dst, event)),
            None => self.finish(&current, dst, stream),
        }
    }

    /// # Safety
    /// As for [`crate::CudaAllocator::download_staged`].
    pub(crate) unsafe fn download_staged(
        &self,
        dst: &mut [u8],
        src: DeviceSpan,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let nbytes = self.same_length(src, dst.len())?;
        if nbytes == 0 {
            return Ok(());
        }
        let current = self.context.enter()?;
        // SAFETY: a live stream, by the contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        let from = src.base().get();
        // SAFETY: by this function's contract.
        unsafe {
            self.staging
                .download(&self.context, &current, dst, from, stream)?
        };
        self.counters.device_to_host.add(nbytes);
        self.counters.staged.add(nbytes);
        Ok(())
    }

    /// # Safety
    /// As for [`crate::CudaAllocator::record`].
    pub(crate) unsafe fn record(&self, stream: StreamHandle) -> Result<CudaEvent, DeviceError> {
        let current = self.context.enter()?;
        // SAFETY: by this function's contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        Ok(CudaEvent(Arc::new(Event::record(
            &self.context,
            &current,
            stream,
        )?)))
    }

    /// # Safety
    /// As for [`crate::CudaAllocator::wait_for`].
    pub(crate) unsafe fn wait_for(
        &self,
        stream: StreamHandle,
        event: &CudaEvent,
    ) -> Result<(), DeviceError> {
        let current = self.context.enter()?;
        // SAFETY: by this function's contract.
        unsafe { StreamId::of_caller(&current, stream)? }.wait_for(&current, &event.0)
    }

    /// # Safety
    /// As for [`crate::CudaAllocator::record_use`].
    pub(crate) unsafe fn record_use(
        &self,
        part: DeviceSpan,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let current = self.context.enter()?;
        // SAFETY: by this function's contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        let event = Arc::new(Event::record(&self.context, &current, stream)?);
        self.add_use(&current, part, &event)
    }

    pub(crate) fn keep_until(
        &self,
        part: DeviceSpan,
        event: &CudaEvent,
    ) -> Result<(), DeviceError> {
        self.add_use(&self.context.enter()?, part, &event.0)
    }

    fn add_use(
        &self,
        current: &Current<'_>,
        part: DeviceSpan,
        event: &Arc<Event>,
    ) -> Result<(), DeviceError> {
        if self.blocks.add_use(current, part, event) {
            return Ok(());
        }
        Err(DeviceError::UnknownBlock {
            device: self.device(),
            address: part.base(),
        })
    }

    /// Whether a stream belongs to this device.
    ///
    /// # Safety
    /// The stream is live.
    pub(crate) unsafe fn check_stream(&self, stream: StreamHandle) -> Result<(), DeviceError> {
        let current = self.context.enter()?;
        // SAFETY: by this function's contract.
        unsafe { StreamId::of_caller(&current, stream)? };
        Ok(())
    }

    /// Marks the end of a queued copy. Where that fails, the copy is waited for, so that nothing is under way.
    fn finish(
        &self,
        current: &Current<'_>,
        part: DeviceSpan,
        stream: StreamId,
    ) -> Result<CudaEvent, DeviceError> {
        let event = Event::record(&self.context, current, stream).inspect_err(|_| {
            // The error that brought us here is the one to report.
            let _ = stream.settle(current);
        })?;
        Ok(self.keep_under(current, part, Arc::new(event)))
    }

    /// Has the block that holds `part` outlive what `event` stands for.
    fn keep_under(&self, current: &Current<'_>, part: DeviceSpan, event: Arc<Event>) -> CudaEvent {
        // A block of another allocator is none of ours to keep.
        let _ = self.blocks.add_use(current, part, &event);
        CudaEvent(event)
    }

    /// How many bytes `span` has, if the buffer has as many from `offset` on.
    fn length_in(
        &self,
        buffer: &PinnedBuffer,
        offset: usize,
        span: DeviceSpan,
    ) -> Result<usize, DeviceError> {
        let room = buffer.len().saturating_sub(offset);
        match usize::try_from(span.len()) {
            Ok(nbytes) if nbytes <= room && offset <= buffer.len() => Ok(nbytes),
            _ => Err(LengthMismatch {
                dst: span.len(),
                src: room as u64,
            }
            .into()),
        }
    }
}
