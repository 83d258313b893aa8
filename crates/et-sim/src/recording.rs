//! Any allocator, watched.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use et_device::{
    AllocationRequest, AllocatorHandle, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan,
    DeviceToDevice, DeviceToHost, DeviceType, HostToDevice, StreamHandle,
};

use crate::TraceEvent;

/// Where watched allocators write what they did, all of them in one order.
#[derive(Debug, Default)]
pub struct TraceLog(Mutex<Vec<TraceEvent>>);

impl TraceLog {
    /// What happened since the last time, which is forgotten with this.
    pub fn take(&self) -> Vec<TraceEvent> {
        std::mem::take(&mut *self.lock())
    }

    fn push(&self, event: TraceEvent) {
        self.lock().push(event);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TraceEvent>> {
        // A list of plain numbers is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes every call on to another allocator, simulated or real, and logs those that worked. Stream-ordered calls are logged when
/// they are queued.
///
/// ```
/// use std::sync::Arc;
/// use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceType};
/// use et_sim::{RecordingAllocator, SimAllocator, SimOptions, TraceLog};
///
/// let (log, sim) = (Arc::new(TraceLog::default()), SimAllocator::new(SimOptions::new(DeviceType::CUDA)));
/// let watched = RecordingAllocator::new(AllocatorHandle::from(Arc::new(sim)), Arc::clone(&log));
/// let registry = DeviceAllocatorRegistry::new();
/// registry.register(AllocatorHandle::from(Arc::new(watched)))?;
/// assert!(log.take().is_empty());
/// # Ok::<(), et_device::RegisterError>(())
/// ```
pub struct RecordingAllocator {
    inner: AllocatorHandle,
    log: Arc<TraceLog>,
}

impl RecordingAllocator {
    /// Watches `inner`, and writes to `log`.
    pub fn new(inner: AllocatorHandle, log: Arc<TraceLog>) -> Self {
        Self { inner, log }
    }

    /// Logs `event` if the call worked.
    fn note<T>(&self, event: TraceEvent, done: Result<T, DeviceError>) -> Result<T, DeviceError> {
        if done.is_ok() {
            self.log.push(event);
        }
        done
    }
}

impl fmt::Debug for RecordingAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingAllocator")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

const fn allocated(request: &AllocationRequest) -> TraceEvent {
    TraceEvent::Alloc {
        index: request.index,
        nbytes: request.nbytes.get(),
    }
}

const fn freed(block: DeviceSpan, index: DeviceIndex) -> TraceEvent {
    TraceEvent::Free {
        index,
        nbytes: block.len(),
    }
}

const fn uploaded(copy: &HostToDevice<'_>) -> TraceEvent {
    TraceEvent::HostToDevice {
        index: copy.index,
        nbytes: copy.dst.len(),
    }
}

const fn downloaded(copy: &DeviceToHost<'_>) -> TraceEvent {
    TraceEvent::DeviceToHost {
        index: copy.index,
        nbytes: copy.src.len(),
    }
}

const fn moved(copy: &DeviceToDevice) -> TraceEvent {
    TraceEvent::DeviceToDevice {
        src: copy.src_index,
        dst: copy.dst_index,
        nbytes: copy.src.len(),
    }
}

// SAFETY: every method is the wrapped allocator's, which keeps the contract and is the same for good; the log touches no memory of devices.
unsafe impl DeviceAllocator for RecordingAllocator {
    fn device_type(&self) -> DeviceType {
        self.inner.device_type()
    }

    fn wrapped(&self) -> Option<&dyn DeviceAllocator> {
        Some(&*self.inner)
    }

    fn device_count(&self) -> Result<u32, DeviceError> {
        self.inner.device_count()
    }

    fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
        self.note(allocated(request), self.inner.allocate(request))
    }

    unsafe fn deallocate(&self, block: DeviceSpan, index: DeviceIndex) -> Result<(), DeviceError> {
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.deallocate(block, index) };
        self.note(freed(block, index), done)
    }

    unsafe fn copy_host_to_device(&self, copy: HostToDevice<'_>) -> Result<(), DeviceError> {
        let event = uploaded(&copy);
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.copy_host_to_device(copy) };
        self.note(event, done)
    }

    unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError> {
        let event = downloaded(&copy);
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.copy_device_to_host(copy) };
        self.note(event, done)
    }

    unsafe fn copy_device_to_device(&self, copy: DeviceToDevice) -> Result<(), DeviceError> {
        let event = moved(&copy);
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.copy_device_to_device(copy) };
        self.note(event, done)
    }

    unsafe fn fill(
        &self,
        dst: DeviceSpan,
        value: u8,
        index: DeviceIndex,
    ) -> Result<(), DeviceError> {
        let nbytes = dst.len();
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.fill(dst, value, index) };
        self.note(TraceEvent::Fill { index, nbytes }, done)
    }

    unsafe fn allocate_on(
        &self,
        request: &AllocationRequest,
        stream: StreamHandle,
    ) -> Result<DeviceSpan, DeviceError> {
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.allocate_on(request, stream) };
        self.note(allocated(request), done)
    }

    unsafe fn deallocate_on(
        &self,
        block: DeviceSpan,
        index: DeviceIndex,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.deallocate_on(block, index, stream) };
        self.note(freed(block, index), done)
    }

    unsafe fn copy_host_to_device_on(
        &self,
        copy: HostToDevice<'_>,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let event = uploaded(&copy);
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.copy_host_to_device_on(copy, stream) };
        self.note(event, done)
    }

    unsafe fn copy_device_to_host_on(
        &self,
        copy: DeviceToHost<'_>,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let event = downloaded(&copy);
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.copy_device_to_host_on(copy, stream) };
        self.note(event, done)
    }

    unsafe fn copy_device_to_device_on(
        &self,
        copy: DeviceToDevice,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let event = moved(&copy);
        // SAFETY: the contract is the caller's.
        let done = unsafe { self.inner.copy_device_to_device_on(copy, stream) };
        self.note(event, done)
    }
}
