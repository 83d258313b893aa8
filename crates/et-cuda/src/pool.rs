//! A device's pool of memory: freed blocks stay mapped, so that the next allocation costs nothing.

use crate::context::{Context, Current};
use crate::driver::{NOT_SUPPORTED, PoolProperties, Status};
use crate::options::CudaOptions;
use crate::stream::StreamId;
use et_device::DeviceError;
use std::ffi::c_int;
use std::sync::Arc;

const RELEASE_THRESHOLD: c_int = 4;
const RESERVED: c_int = 5;
const RESERVED_HIGH: c_int = 6;
const USED: c_int = 7;
const USED_HIGH: c_int = 8;

pub(crate) struct Pool {
    context: Arc<Context>,
    handle: usize,
}

/// Bytes of a pool.
#[derive(Clone, Copy, Default)]
pub(crate) struct PoolBytes {
    pub(crate) reserved: u64,
    pub(crate) reserved_peak: u64,
    pub(crate) used: u64,
    pub(crate) used_peak: u64,
}

impl Pool {
    /// A pool on the device, or `None` where the driver or the device has no such thing.
    pub(crate) fn create(
        context: &Arc<Context>,
        options: &CudaOptions,
    ) -> Result<Option<Self>, DeviceError> {
        const MEMORY_POOLS_SUPPORTED: c_int = 115;
        if !options.use_pools
            || !context.driver.has_pools()
            || context.attribute(MEMORY_POOLS_SUPPORTED)? == 0
        {
            return Ok(None);
        }
        let limit = options
            .pool_limit_bytes
            .map_or(0, |n| usize::try_from(n.get()).unwrap_or(usize::MAX));
        let properties = PoolProperties {
            allocation_type: 1,
            handle_types: 0,
            location_type: 1,
            location: context.ordinal(),
            security_attributes: 0,
            max_bytes: limit,
            reserved: [0; 7],
        };
        let mut handle = 0;
        // SAFETY: the properties live for the call.
        let status = unsafe { context.driver.pool_create(&mut handle, &properties) };
        if status.code == NOT_SUPPORTED {
            return Ok(None);
        }
        context.check(status)?;
        let pool = Pool {
            context: Arc::clone(context),
            handle,
        };
        pool.set_release_threshold(options.release_threshold_bytes)?;
        Ok(Some(pool))
    }

    fn set_release_threshold(&self, mut nbytes: u64) -> Result<(), DeviceError> {
        let value = (&raw mut nbytes).cast();
        // SAFETY: the pool lives as long as `self`; this attribute is a u64, which the driver only reads.
        let status = unsafe {
            self.context
                .driver
                .pool_set_attribute(self.handle, RELEASE_THRESHOLD, value)
        };
        self.context.check(status)
    }

    fn attribute(&self, number: c_int) -> Result<u64, DeviceError> {
        let mut value = 0u64;
        let place = (&raw mut value).cast();
        // SAFETY: the pool lives as long as `self`; the attributes asked for here are u64s.
        let status = unsafe {
            self.context
                .driver
                .pool_get_attribute(self.handle, number, place)
        };
        self.context.check(status)?;
        Ok(value)
    }

    pub(crate) fn bytes(&self) -> Result<PoolBytes, DeviceError> {
        Ok(PoolBytes {
            reserved: self.attribute(RESERVED)?,
            reserved_peak: self.attribute(RESERVED_HIGH)?,
            used: self.attribute(USED)?,
            used_peak: self.attribute(USED_HIGH)?,
        })
    }

    /// Bytes that the pool holds and nobody uses.
    pub(crate) fn idle_bytes(&self) -> Result<u64, DeviceError> {
        Ok(self
            .attribute(RESERVED)?
            .saturating_sub(self.attribute(USED)?))
    }

    /// Gives unused memory back to the system, down to `keep_bytes`.
    pub(crate) fn trim(&self, keep_bytes: u64) -> Result<(), DeviceError> {
        let keep = usize::try_from(keep_bytes).unwrap_or(usize::MAX);
        // SAFETY: the pool was made in `create` and lives as long as `self`.
        self.context
            .check(unsafe { self.context.driver.pool_trim(self.handle, keep) })
    }

    /// Queues the allocation of a block on `stream`; its address is known at once.
    pub(crate) fn allocate(
        &self,
        current: &Current<'_>,
        nbytes: usize,
        stream: StreamId,
    ) -> Result<u64, Status> {
        let mut address = 0;
        // SAFETY: the pool is live, and so is the stream by whoever made its id; `current` stands for a context.
        let status = unsafe {
            current
                .driver()
                .pool_alloc(&mut address, nbytes, self.handle, stream.raw())
        };
        if status.is_ok() {
            Ok(address)
        } else {
            Err(status)
        }
    }
}

/// Queues the release of a pool's block on `stream`.
///
/// # Safety
/// The block is live, is freed only here, and only work that `stream` is ordered behind uses it.
pub(crate) unsafe fn free_on(
    current: &Current<'_>,
    address: u64,
    stream: StreamId,
) -> Result<(), DeviceError> {
    // SAFETY: by this function's contract; `current` stands for a context that is current.
    current.check(unsafe { current.driver().free_async(address, stream.raw()) })
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: created in `create` and destroyed only here; blocks still out keep their memory until they are
        // freed. A failure has no one to go to.
        let _ = unsafe { self.context.driver.pool_destroy(self.handle) };
    }
}
