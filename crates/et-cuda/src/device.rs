//! One device in use: its context, streams, pool and blocks, and questions about it.

mod allocation;
mod copies;
mod deferred;
mod frees;
mod transfers;

use crate::blocks::Blocks;
use crate::caller_stream::caller_stream;
use crate::context::{Context, Current};
use crate::driver::Driver;
use crate::options::CudaOptions;
use crate::pool::{Pool, PoolBytes};
use crate::staging::Staging;
use crate::statistics::{Counters, CudaStatistics};
use crate::stream::{Stream, StreamId};
use deferred::Deferred;
use et_device::{Device, DeviceError, DeviceSpan, MemoryInfo, StreamHandle};
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Fields are dropped in this order; the context goes with its last holder.
pub(crate) struct DeviceState {
    blocks: Blocks,
    deferred: Deferred,
    counters: Counters,
    pool: Option<Pool>,
    staging: Staging,
    /// Orders allocations and frees, so that they do not queue behind long copies.
    memory: Stream,
    /// Frees that wait for other streams' work, so that no allocation waits behind them.
    retired: Stream,
    copies: Stream,
    context: Arc<Context>,
    options: CudaOptions,
}

impl DeviceState {
    pub(crate) fn open(
        driver: &'static Driver,
        device: Device,
        options: CudaOptions,
    ) -> Result<Self, DeviceError> {
        let context = Arc::new(Context::retain(driver, device)?);
        Ok(DeviceState {
            blocks: Blocks::default(),
            deferred: Deferred::default(),
            counters: Counters::default(),
            pool: Pool::create(&context, &options)?,
            staging: Staging::new(options.staging_chunk_bytes),
            memory: Stream::create(&context)?,
            retired: Stream::create(&context)?,
            copies: Stream::create(&context)?,
            context,
            options,
        })
    }

    fn device(&self) -> Device {
        self.context.device
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.context.is_poisoned()
    }

    /// Where synchronous copies happen: on the stream that the thread selected, or on ours.
    fn copy_stream(&self) -> StreamId {
        self.selected_stream().unwrap_or(self.copies.id())
    }

    fn selected_stream(&self) -> Option<StreamId> {
        caller_stream(self.device().index()).and_then(StreamId::selected)
    }

    /// Whether blocks are out. Their memory must then outlive this.
    pub(crate) fn has_live_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    pub(crate) fn live_blocks(&self) -> Vec<DeviceSpan> {
        self.blocks.spans()
    }

    pub(crate) fn synchronize(&self) -> Result<(), DeviceError> {
        let current = self.context.enter()?;
        current.synchronize()?;
        self.deferred.reap(&current);
        Ok(())
    }

    /// # Safety
    /// `stream` is a live stream.
    pub(crate) unsafe fn synchronize_stream(
        &self,
        stream: StreamHandle,
    ) -> Result<(), DeviceError> {
        let current = self.context.enter()?;
        // SAFETY: by this function's contract.
        unsafe { StreamId::of_caller(&current, stream)? }.synchronize(&current)
    }

    pub(crate) fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        self.memory_info_in(&self.context.enter()?)
    }

    /// What the driver calls free, and what the pool holds without using it.
    fn memory_info_in(&self, current: &Current<'_>) -> Result<MemoryInfo, DeviceError> {
        let (free, total) = current.memory_info()?;
        let idle = self.pool.as_ref().map_or(Ok(0), Pool::idle_bytes)?;
        Ok(MemoryInfo::new(free.saturating_add(idle).min(total), total))
    }

    pub(crate) fn trim(&self, keep_bytes: u64) -> Result<(), DeviceError> {
        // Frees that are still queued would keep their memory in the pool.
        let current = self.context.enter()?;
        self.memory.id().synchronize(&current)?;
        self.retired.id().synchronize(&current)?;
        self.deferred.reap(&current);
        self.pool
            .as_ref()
            .map_or(Ok(()), |pool| pool.trim(keep_bytes))
    }

    pub(crate) fn statistics(&self) -> Result<CudaStatistics, DeviceError> {
        let pool = self
            .pool
            .as_ref()
            .map_or(Ok(PoolBytes::default()), Pool::bytes)?;
        Ok(CudaStatistics {
            out_of_memory_retries: self.counters.out_of_memory_retries.load(Ordering::Relaxed),
            pool_reserved_bytes: pool.reserved,
            pool_reserved_peak_bytes: pool.reserved_peak,
            pool_used_bytes: pool.used,
            pool_used_peak_bytes: pool.used_peak,
            host_to_device: self.counters.host_to_device.get(),
            device_to_host: self.counters.device_to_host.get(),
            device_to_device: self.counters.device_to_device.get(),
            fills: self.counters.fills.get(),
            deferred_bytes: self.deferred.nbytes(),
            pinned_bytes: self.context.pinned_bytes.load(Ordering::Relaxed),
            staged: self.counters.staged.get(),
            ..self.blocks.statistics()
        })
    }

    /// The product's name, if the driver gives one.
    pub(crate) fn name(&self) -> Result<String, DeviceError> {
        let mut name = [0u8; 128];
        let (place, room) = (name.as_mut_ptr().cast(), name.len() as i32 - 1);
        // SAFETY: `place` has room for that many bytes and one more, which stays 0.
        let status = unsafe {
            self.context
                .driver
                .device_get_name(place, room, self.context.ordinal())
        };
        self.context.check(status)?;
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }
}

impl Drop for DeviceState {
    fn drop(&mut self) {
        if let Ok(current) = self.context.enter_anyway() {
            // Queued frees run before their pool and context go. After a fault nothing runs any more.
            let _ = self.memory.id().settle(&current);
            let _ = self.retired.id().settle(&current);
            if !self.deferred.drain(&current) {
                // Another device may still use a block, so its memory must not go with the context.
                std::mem::forget(Arc::clone(&self.context));
            }
        }
    }
}
