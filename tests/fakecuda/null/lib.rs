//! A CUDA driver that does nothing and says that all went well: what is measured on it is the cost of the layer above.
//!
//! Blocks are numbers, and copies move nothing. One device, one context, one thread at a time.
#![allow(non_snake_case, reason = "the exported names are NVIDIA's")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The one context.
const CONTEXT: usize = 0x10;

/// The context that is current, or 0.
static CURRENT: AtomicUsize = AtomicUsize::new(0);
/// The last address or handle given out. What is free is not used again.
static LAST: AtomicU64 = AtomicU64::new(1 << 20);
/// The next address: blocks of up to 1 MiB do not overlap.
fn next() -> u64 {
    LAST.fetch_add(1 << 20, Relaxed)
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $ty:ty),*) $body:block)*) => {$(
        /// The driver's function of this name, as far as the layer above can tell.
        ///
        /// # Safety
        /// As for the driver: places are valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $ty),*) -> u32 {
            $body
            0
        }
    )*};
}

/// Functions of which nobody wants more than that they succeed.
macro_rules! nothing {
    ($($name:ident($($ty:ty),*))*) => {$(
        /// Succeeds.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $ty),*) -> u32 {
            0
        }
    )*};
}

nothing! {
    cuInit(c_uint)
    cuDevicePrimaryCtxRelease_v2(c_int)
    cuCtxSynchronize()
    cuMemFree_v2(u64)
    cuMemFreeHost(*mut c_void)
    cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, usize)
    cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, usize)
    cuMemcpyDtoDAsync_v2(u64, u64, usize, usize)
    cuMemcpyPeerAsync(u64, usize, u64, usize, usize, usize)
    cuMemsetD8Async(u64, u8, usize, usize)
    cuStreamDestroy_v2(usize)
    cuStreamSynchronize(usize)
    cuStreamWaitEvent(usize, usize, c_uint)
    cuEventRecord(usize, usize)
    cuEventQuery(usize)
    cuEventSynchronize(usize)
    cuEventDestroy_v2(usize)
    cuMemPoolDestroy(usize)
    cuMemPoolSetAttribute(usize, c_int, *mut c_void)
    cuMemPoolGetAttribute(usize, c_int, *mut c_void)
    cuMemPoolTrimTo(usize, usize)
    cuMemFreeAsync(u64, usize)
    cuGetErrorName(c_uint, *mut *const c_char)
}

functions! {
    cuDriverGetVersion(version: &mut c_int) { *version = 13000; }
    cuDeviceGetCount(count: &mut c_int) { *count = 1; }
    cuDeviceGet(device: &mut c_int, ordinal: c_int) { *device = ordinal; }
    cuDeviceGetAttribute(value: &mut c_int, _attribute: c_int, _device: c_int) { *value = 1; }
    cuDevicePrimaryCtxRetain(context: &mut usize, _device: c_int) { *context = CONTEXT; }
    cuCtxGetCurrent(context: &mut usize) { *context = CURRENT.load(Relaxed); }
    cuCtxSetCurrent(context: usize) { CURRENT.store(context, Relaxed); }
    cuCtxPushCurrent_v2(context: usize) { CURRENT.store(context, Relaxed); }
    cuCtxPopCurrent_v2(context: &mut usize) { *context = CURRENT.swap(0, Relaxed); }
    cuMemGetInfo_v2(free: &mut usize, total: &mut usize) { (*free, *total) = (1 << 30, 1 << 30); }
    cuMemAlloc_v2(address: &mut u64, _nbytes: usize) { *address = next(); }
    cuMemHostAlloc(place: &mut *mut c_void, nbytes: usize, _flags: c_uint) {
        *place = Vec::<u8>::with_capacity(nbytes).leak().as_mut_ptr().cast();
    }
    cuStreamCreate(stream: &mut usize, _flags: c_uint) { *stream = next() as usize; }
    cuStreamGetCtx(_stream: usize, context: &mut usize) { *context = CONTEXT; }
    cuEventCreate(event: &mut usize, _flags: c_uint) { *event = next() as usize; }
    cuMemPoolCreate(pool: &mut usize, _properties: *const c_void) { *pool = next() as usize; }
    cuMemAllocFromPoolAsync(address: &mut u64, _nbytes: usize, _pool: usize, _stream: usize) { *address = next(); }
}
