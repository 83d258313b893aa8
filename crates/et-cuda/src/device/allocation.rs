//! Allocating blocks on one device.

use super::DeviceState;
use crate::blocks::{Block, Source};
use crate::context::Current;
use crate::driver::{OUT_OF_MEMORY, Status};
use crate::event::Event;
use crate::options::OutOfMemory;
use crate::stream::StreamId;
use et_device::{
    AllocationRequest, Device, DeviceError, DevicePtr, DeviceSpan, MemoryInfo, StreamHandle,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Every address of the driver is a multiple of this.
const DRIVER_ALIGNMENT: u64 = 256;

impl DeviceState {
    /// A block that may be used at once, anywhere.
    pub(crate) fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
        let current = self.context.enter()?;
        self.reap(&current);
        let raw = self.obtain(&current, request, self.memory.id())?;
        if raw.source == Source::Pool {
            // Until the stream has come to the allocation, other streams must not touch the block.
            self.memory.id().synchronize(&current)?;
        }
        self.hand_out(raw, request, None)
    }

    /// A block that may be used by later work on the caller's stream.
    ///
    /// # Safety
    /// `stream` is a live stream.
    pub(crate) unsafe fn allocate_on(
        &self,
        request: &AllocationRequest,
        stream: StreamHandle,
    ) -> Result<DeviceSpan, DeviceError> {
        let current = self.context.enter()?;
        // SAFETY: by this function's contract.
        let stream = unsafe { StreamId::of_caller(&current, stream)? };
        self.reap(&current);
        let raw = self.obtain(&current, request, stream)?;
        if raw.source == Source::Driver {
            return self.hand_out(raw, request, None);
        }
        // Whoever frees the block later may do so on another stream, which must not get there first.
        let born = Event::record(&self.context, &current, stream)?;
        self.hand_out(raw, request, Some(Arc::new(born)))
    }

    /// Frees what waited for work that is over. With a pool, hardly anything ever does, and it is not looked for.
    pub(super) fn reap(&self, current: &Current<'_>) {
        if self.pool.is_none() {
            self.deferred.reap(current);
        }
    }

    /// Memory for a request, after giving back what can be given back if there is not enough.
    fn obtain<'a>(
        &'a self,
        current: &'a Current<'a>,
        request: &AllocationRequest,
        stream: StreamId,
    ) -> Result<RawBlock<'a>, DeviceError> {
        let nbytes = driver_bytes(self.device(), request)?;
        let outcome = match self.attempt(current, nbytes, stream) {
            Err(status) if status.code == OUT_OF_MEMORY => {
                self.attempt_with_more_room(current, request, nbytes, stream)
            }
            outcome => outcome,
        };
        outcome.map_err(|status| match current.check(status) {
            Err(error) if status.code != OUT_OF_MEMORY => error,
            _ => self.out_of_memory(current, request).into(),
        })
    }

    /// Asks the driver once.
    fn attempt<'a>(
        &'a self,
        current: &'a Current<'a>,
        nbytes: u64,
        stream: StreamId,
    ) -> Result<RawBlock<'a>, Status> {
        let size = usize::try_from(nbytes).map_err(|_| Status {
            operation: "allocation",
            code: OUT_OF_MEMORY,
        })?;
        let (address, source) = match &self.pool {
            Some(pool) => (pool.allocate(current, size, stream)?, Source::Pool),
            None => (current.allocate(size)?, Source::Driver),
        };
        Ok(RawBlock {
            state: self,
            current,
            address,
            nbytes,
            source,
            stream,
            kept: false,
        })
    }

    /// Gives back what can be given back, cheapest first, and asks again each time.
    #[cold]
    fn attempt_with_more_room<'a>(
        &'a self,
        current: &'a Current<'a>,
        request: &AllocationRequest,
        nbytes: u64,
        stream: StreamId,
    ) -> Result<RawBlock<'a>, Status> {
        self.counters
            .out_of_memory_retries
            .fetch_add(1, Ordering::Relaxed);
        let mut outcome = Err(Status {
            operation: "allocation",
            code: OUT_OF_MEMORY,
        });
        for remedy in [Remedy::Trim, Remedy::Synchronize, Remedy::Ask] {
            if self.apply(remedy, current, request) {
                outcome = self.attempt(current, nbytes, stream);
            }
            if !matches!(&outcome, Err(status) if status.code == OUT_OF_MEMORY) {
                break;
            }
        }
        outcome
    }

    /// Tries to make room; whether another attempt is worthwhile.
    fn apply(&self, remedy: Remedy, current: &Current<'_>, request: &AllocationRequest) -> bool {
        let trim = || match &self.pool {
            Some(pool) => pool.trim(0).is_ok(),
            None => {
                self.deferred.reap(current);
                true
            }
        };
        match remedy {
            Remedy::Trim => trim(),
            Remedy::Synchronize => current.synchronize().is_ok() && trim(),
            Remedy::Ask => {
                let ask = self.options.on_out_of_memory;
                ask.is_some_and(|ask| ask(&self.out_of_memory(current, request)))
            }
        }
    }

    /// The figures of a failed allocation, as far as the driver gives them.
    fn out_of_memory(&self, current: &Current<'_>, request: &AllocationRequest) -> OutOfMemory {
        let info = self
            .memory_info_in(current)
            .unwrap_or(MemoryInfo::new(0, 0));
        OutOfMemory {
            device: self.device(),
            requested_bytes: request.nbytes.get(),
            free_bytes: info.free,
            total_bytes: info.total,
        }
    }

    /// Enters a block into the books. Until that has happened it is freed when dropped.
    fn hand_out(
        &self,
        mut raw: RawBlock<'_>,
        request: &AllocationRequest,
        born: Option<Arc<Event>>,
    ) -> Result<DeviceSpan, DeviceError> {
        let span =
            aligned_part(&raw, request).ok_or_else(|| DeviceError::UnsupportedAlignment {
                device_type: self.device().device_type(),
                requested: request.alignment,
            })?;
        raw.kept = true;
        let block = Block {
            driver_address: raw.address,
            source: raw.source,
            nbytes: request.nbytes.get(),
            uses: born.into_iter().collect(),
        };
        self.blocks.insert(span.base(), block);
        Ok(span)
    }
}

/// What to do about a lack of memory, cheapest first.
#[derive(Clone, Copy)]
enum Remedy {
    Trim,
    Synchronize,
    Ask,
}

impl From<OutOfMemory> for DeviceError {
    fn from(figures: OutOfMemory) -> Self {
        DeviceError::OutOfMemory {
            device: figures.device,
            requested: figures.requested_bytes,
            free: figures.free_bytes,
            total: figures.total_bytes,
        }
    }
}

/// Memory from the driver that is freed again unless it is handed out.
struct RawBlock<'a> {
    state: &'a DeviceState,
    current: &'a Current<'a>,
    address: u64,
    nbytes: u64,
    source: Source,
    stream: StreamId,
    kept: bool,
}

impl Drop for RawBlock<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let block = Block {
            driver_address: self.address,
            source: self.source,
            nbytes: self.nbytes,
            uses: Vec::new(),
        };
        let behind = (self.source == Source::Pool).then_some(self.stream);
        // SAFETY: nobody has seen the address, and it is freed on the stream on which it was allocated. The error that
        // brought us here is the one to report.
        let _ = unsafe { self.state.release(self.current, block, behind) };
    }
}

/// What to ask the driver for: enough to find an address as aligned as requested.
fn driver_bytes(device: Device, request: &AllocationRequest) -> Result<u64, DeviceError> {
    let slack = request.alignment.get().saturating_sub(DRIVER_ALIGNMENT);
    request
        .nbytes
        .get()
        .checked_add(slack)
        .ok_or_else(|| DeviceError::UnsupportedAlignment {
            device_type: device.device_type(),
            requested: request.alignment,
        })
}

/// The part of a block that satisfies the request.
fn aligned_part(raw: &RawBlock<'_>, request: &AllocationRequest) -> Option<DeviceSpan> {
    let alignment = request.alignment;
    let whole = DeviceSpan::new(DevicePtr::new(raw.address)?, raw.nbytes).ok()?;
    let offset = alignment.round_up(raw.address)?.checked_sub(raw.address)?;
    whole.subspan(offset, request.nbytes.get()).ok()
}
