//! Copies from, to and between devices.

use super::DeviceState;
use crate::context::Current;
use crate::event::Event;
use crate::stream::StreamId;
use et_device::{Device, DeviceError, DeviceSpan, LengthMismatch, StreamHandle};

impl DeviceState {
    /// # Safety
    /// As for [`et_device::DeviceAllocator::copy_host_to_device`].
    pub(crate) unsafe fn copy_in(&self, dst: DeviceSpan, src: &[u8]) -> Result<(), DeviceError> {
        if self.same_length(dst, src.len())? == 0 {
            return Ok(());
        }
        let current = self.context.enter()?;
        let stream = self.copy_stream();
        // SAFETY: the target is the caller's promise; the source is borrowed until the stream was waited for below.
        unsafe { stream.copy_in(&current, dst.base().get(), src.as_ptr(), src.len())? };
        self.counters.host_to_device.add(src.len());
        stream.settle(&current)
    }

    /// # Safety
    /// As for [`et_device::DeviceAllocator::copy_host_to_device_on`].
    pub(crate) unsafe fn copy_in_on(
        &self,
        dst: DeviceSpan,
        src: &[u8],
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        if self.same_length(dst, src.len())? == 0 {
            return Ok(());
        }
        let current = self.context.enter()?;
        // SAFETY: a live stream, by the contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        // SAFETY: both sides stay as they must until the stream was waited for, by the contract.
        unsafe { stream.copy_in(&current, dst.base().get(), src.as_ptr(), src.len())? };
        self.counters.host_to_device.add(src.len());
        Ok(())
    }

    /// # Safety
    /// As for [`et_device::DeviceAllocator::copy_device_to_host`].
    pub(crate) unsafe fn copy_out(
        &self,
        dst: &mut [u8],
        src: DeviceSpan,
    ) -> Result<(), DeviceError> {
        if self.same_length(src, dst.len())? == 0 {
            return Ok(());
        }
        let current = self.context.enter()?;
        let stream = self.copy_stream();
        // SAFETY: the source is the caller's promise; the target is borrowed until the stream was waited for below.
        unsafe { stream.copy_out(&current, dst.as_mut_ptr(), src.base().get(), dst.len())? };
        self.counters.device_to_host.add(dst.len());
        stream.settle(&current)
    }

    /// # Safety
    /// As for [`et_device::DeviceAllocator::copy_device_to_host_on`].
    pub(crate) unsafe fn copy_out_on(
        &self,
        dst: &mut [u8],
        src: DeviceSpan,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        if self.same_length(src, dst.len())? == 0 {
            return Ok(());
        }
        let current = self.context.enter()?;
        // SAFETY: a live stream, by the contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        // SAFETY: both sides stay as they must until the stream was waited for, by the contract.
        unsafe { stream.copy_out(&current, dst.as_mut_ptr(), src.base().get(), dst.len())? };
        self.counters.device_to_host.add(dst.len());
        Ok(())
    }

    /// Copies from this device to `to`, which may be this one.
    ///
    /// # Safety
    /// As for [`et_device::DeviceAllocator::copy_device_to_device`].
    pub(crate) unsafe fn copy_to(
        &self,
        to: &Self,
        dst: DeviceSpan,
        src: DeviceSpan,
    ) -> Result<(), DeviceError> {
        let behind = self.selected_elsewhere(to)?;
        let current = self.context.enter()?;
        let stream = self.copy_stream();
        if let Some(event) = behind {
            stream.wait_for(&current, &event)?;
        }
        // SAFETY: by this function's contract.
        unsafe { self.queue_copy(&current, to, dst, src, stream)? };
        stream.settle(&current)
    }

    /// Where the stream is now that the thread selected for another device, if it did.
    fn selected_elsewhere(&self, other: &Self) -> Result<Option<Event>, DeviceError> {
        if self.device() == other.device() {
            return Ok(None);
        }
        let Some(stream) = other.selected_stream() else {
            return Ok(None);
        };
        let current = other.context.enter()?;
        Event::record(&other.context, &current, stream).map(Some)
    }

    /// # Safety
    /// As for [`et_device::DeviceAllocator::copy_device_to_device_on`].
    pub(crate) unsafe fn copy_to_on(
        &self,
        to: &Self,
        dst: DeviceSpan,
        src: DeviceSpan,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let current = self.context.enter()?;
        // SAFETY: a live stream, by the contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        // SAFETY: by this function's contract.
        unsafe { self.queue_copy(&current, to, dst, src, stream) }
    }

    /// # Safety
    /// Both sides are live memory of their devices, and stay unused until the stream was waited for.
    unsafe fn queue_copy(
        &self,
        current: &Current<'_>,
        to: &Self,
        dst: DeviceSpan,
        src: DeviceSpan,
        stream: StreamId,
    ) -> Result<(), DeviceError> {
        let nbytes = host_size(self.device(), src)?;
        if self.same_length(dst, nbytes)? == 0 {
            return Ok(());
        }
        let (to_address, from_address) = (dst.base().get(), src.base().get());
        if self.device() == to.device() {
            // SAFETY: by this function's contract.
            unsafe { stream.copy_within(current, to_address, from_address, nbytes)? };
        } else {
            // SAFETY: by this function's contract.
            unsafe { stream.copy_to_peer(current, &to.context, to_address, from_address, nbytes)? };
        }
        self.counters.device_to_device.add(nbytes);
        Ok(())
    }

    /// # Safety
    /// As for [`et_device::DeviceAllocator::fill`].
    pub(crate) unsafe fn fill(&self, dst: DeviceSpan, value: u8) -> Result<(), DeviceError> {
        let nbytes = host_size(self.device(), dst)?;
        if nbytes == 0 {
            return Ok(());
        }
        let current = self.context.enter()?;
        let stream = self.copy_stream();
        // SAFETY: by this function's contract.
        unsafe { stream.fill(&current, dst.base().get(), value, nbytes)? };
        self.counters.fills.add(nbytes);
        stream.settle(&current)
    }

    /// The common length. The request's fields may have changed since they were compared.
    pub(super) fn same_length(&self, span: DeviceSpan, host: usize) -> Result<usize, DeviceError> {
        if host_size(self.device(), span)? == host {
            return Ok(host);
        }
        Err(LengthMismatch {
            dst: span.len(),
            src: host as u64,
        }
        .into())
    }
}

/// A span's length as the host counts bytes.
fn host_size(device: Device, span: DeviceSpan) -> Result<usize, DeviceError> {
    usize::try_from(span.len()).map_err(|_| DeviceError::OutOfBounds {
        device,
        address: span.base(),
        nbytes: span.len(),
    })
}
