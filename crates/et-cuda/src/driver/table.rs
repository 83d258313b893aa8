//! The driver's functions that this crate calls, looked up by name.
//!
//! The bindings' own functions are not used: they panic where a symbol is missing, and take status codes for an
//! enum, which is undefined behaviour once a driver returns a code that the enum lacks. Handles are integers of pointer
//! size here: they are opaque, and integers may cross threads as the driver allows.

use super::DriverError;
use super::library::{self, library};
use super::status::{NO_DEVICE, STUB_LIBRARY, Status};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// What a pool shall be like; the driver's `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PoolProperties {
    /// 1: pinned to the device, the only kind.
    pub(crate) allocation_type: c_int,
    /// 0: not shared with other processes.
    pub(crate) handle_types: c_int,
    /// 1: a device.
    pub(crate) location_type: c_int,
    /// Its ordinal.
    pub(crate) location: c_int,
    pub(crate) security_attributes: usize,
    /// 0: as the system has it.
    pub(crate) max_bytes: usize,
    pub(crate) reserved: [u64; 7],
}

#[cfg(feature = "cuda-13000")]
const _: () =
    assert!(size_of::<PoolProperties>() == size_of::<cudarc::driver::sys::CUmemPoolProps>());

macro_rules! functions {
    (
        required { $($name:ident = $symbol:ident($($arg:ident: $ty:ty),*);)* }
        optional { $($oname:ident = $osymbol:ident($($oarg:ident: $oty:ty),*);)* }
    ) => {
        /// The opened driver.
        pub(crate) struct Driver {
            $($name: unsafe extern "system" fn($($ty),*) -> u32,)*
            $($oname: Option<unsafe extern "system" fn($($oty),*) -> u32>,)*
        }

        impl Driver {
            /// Looks every function up.
            fn look_up(library: &'static Library) -> Result<Self, DriverError> {
                Ok(Driver {
                    $($name: {
                        // SAFETY: the signature is the documented one of this symbol.
                        let found = unsafe { symbol(library, concat!(stringify!($symbol), "\0")) };
                        found.ok_or_else(|| library::without(stringify!($symbol)))?
                    },)*
                    $($oname: {
                        // SAFETY: the signature is the documented one of this symbol.
                        unsafe { symbol(library, concat!(stringify!($osymbol), "\0")) }
                    },)*
                })
            }

            $(
                /// Calls the driver's function of this name.
                ///
                /// # Safety
                /// Pointers are valid for what the function does with them, handles are live, and device addresses
                /// lie in live memory that the calling context may use so.
                pub(crate) unsafe fn $name(&self, $($arg: $ty),*) -> Status {
                    // SAFETY: this function's contract is the C function's.
                    let code = unsafe { (self.$name)($($arg),*) };
                    Status { operation: stringify!($symbol), code }
                }
            )*
            $(
                /// Calls the driver's function of this name; a driver without it does not support it.
                ///
                /// # Safety
                /// As for the other functions.
                pub(crate) unsafe fn $oname(&self, $($oarg: $oty),*) -> Status {
                    let code = match self.$oname {
                        // SAFETY: this function's contract is the C function's.
                        Some(call) => unsafe { call($($oarg),*) },
                        None => super::NOT_SUPPORTED,
                    };
                    Status { operation: stringify!($osymbol), code }
                }
            )*
        }
    };
}

functions! {
    required {
        init = cuInit(flags: c_uint);
        device_get_count = cuDeviceGetCount(count: &mut c_int);
        device_get = cuDeviceGet(device: &mut c_int, ordinal: c_int);
        device_get_attribute = cuDeviceGetAttribute(value: &mut c_int, attribute: c_int, device: c_int);
        primary_context_retain = cuDevicePrimaryCtxRetain(context: &mut usize, device: c_int);
        primary_context_release = cuDevicePrimaryCtxRelease_v2(device: c_int);
        context_get_current = cuCtxGetCurrent(context: &mut usize);
        context_set_current = cuCtxSetCurrent(context: usize);
        context_push = cuCtxPushCurrent_v2(context: usize);
        context_pop = cuCtxPopCurrent_v2(context: &mut usize);
        context_synchronize = cuCtxSynchronize();
        memory_get_info = cuMemGetInfo_v2(free: &mut usize, total: &mut usize);
        memory_alloc = cuMemAlloc_v2(address: &mut u64, nbytes: usize);
        memory_free = cuMemFree_v2(address: u64);
        host_alloc = cuMemHostAlloc(place: &mut *mut c_void, nbytes: usize, flags: c_uint);
        host_free = cuMemFreeHost(place: *mut c_void);
        copy_host_to_device = cuMemcpyHtoDAsync_v2(dst: u64, src: *const c_void, nbytes: usize, stream: usize);
        copy_device_to_host = cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: u64, nbytes: usize, stream: usize);
        copy_device_to_device = cuMemcpyDtoDAsync_v2(dst: u64, src: u64, nbytes: usize, stream: usize);
        copy_peer = cuMemcpyPeerAsync(
            dst: u64, dst_context: usize, src: u64, src_context: usize, nbytes: usize, stream: usize
        );
        fill_bytes = cuMemsetD8Async(dst: u64, value: u8, nbytes: usize, stream: usize);
        stream_create = cuStreamCreate(stream: &mut usize, flags: c_uint);
        stream_destroy = cuStreamDestroy_v2(stream: usize);
        stream_synchronize = cuStreamSynchronize(stream: usize);
        stream_get_context = cuStreamGetCtx(stream: usize, context: &mut usize);
        stream_wait_event = cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint);
        event_create = cuEventCreate(event: &mut usize, flags: c_uint);
        event_record = cuEventRecord(event: usize, stream: usize);
        event_query = cuEventQuery(event: usize);
        event_synchronize = cuEventSynchronize(event: usize);
        event_destroy = cuEventDestroy_v2(event: usize);
    }
    optional {
        driver_get_version = cuDriverGetVersion(version: &mut c_int);
        device_get_name = cuDeviceGetName(name: *mut c_char, room: c_int, device: c_int);
        error_name = cuGetErrorName(code: u32, name: &mut *const c_char);
        pool_create = cuMemPoolCreate(pool: &mut usize, properties: &PoolProperties);
        pool_destroy = cuMemPoolDestroy(pool: usize);
        pool_set_attribute = cuMemPoolSetAttribute(pool: usize, attribute: c_int, value: *mut c_void);
        pool_get_attribute = cuMemPoolGetAttribute(pool: usize, attribute: c_int, value: *mut c_void);
        pool_trim = cuMemPoolTrimTo(pool: usize, keep_bytes: usize);
        pool_alloc = cuMemAllocFromPoolAsync(address: &mut u64, nbytes: usize, pool: usize, stream: usize);
        free_async = cuMemFreeAsync(address: u64, stream: usize);
    }
}

/// A function of the driver, if it has it. `name` ends with a NUL.
///
/// # Safety
/// `F` is the type of a pointer to a function with the symbol's signature.
unsafe fn symbol<F: Copy>(library: &'static Library, name: &'static str) -> Option<F> {
    // SAFETY: the type is right by this function's contract.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.ok().map(|f| *f)
}

impl Driver {
    /// Finds the library and its functions.
    pub(super) fn open() -> Result<Self, DriverError> {
        Self::look_up(library()?)
    }

    /// Initialises the driver; doing it again does nothing.
    pub(super) fn start(&self) -> Result<(), DriverError> {
        // SAFETY: no precondition.
        let status = unsafe { self.init(0) };
        match status.code {
            0 => Ok(()),
            NO_DEVICE => Err(DriverError::NoDevice),
            STUB_LIBRARY => Err(DriverError::StubLibrary),
            _ => Err(self.failed(status)),
        }
    }

    /// The CUDA version it supports; 0 if it does not say.
    pub(super) fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: no precondition but a place for the number.
        let status = unsafe { self.driver_get_version(&mut version) };
        if status.is_ok() {
            version.unsigned_abs()
        } else {
            0
        }
    }

    pub(crate) fn device_count(&self) -> Result<u32, DriverError> {
        let mut count = 0;
        // SAFETY: the driver was started before anyone got hold of it.
        let status = unsafe { self.device_get_count(&mut count) };
        match status.code {
            0 => Ok(u32::try_from(count).unwrap_or(0)),
            _ => Err(self.failed(status)),
        }
    }

    /// The driver's name for a status.
    pub(crate) fn name_of(&self, status: Status) -> &'static str {
        const UNKNOWN: &str = "unknown status";
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: no precondition but a place for the pointer.
        let found = unsafe { self.error_name(status.code, &mut name) };
        if !found.is_ok() || name.is_null() {
            return UNKNOWN;
        }
        // SAFETY: on success the driver gives a NUL-terminated constant of its own, and it is never unloaded.
        let name: &'static CStr = unsafe { CStr::from_ptr(name) };
        name.to_str().unwrap_or(UNKNOWN)
    }

    fn failed(&self, status: Status) -> DriverError {
        DriverError::Failed {
            operation: status.operation,
            code: status.code,
            name: self.name_of(status),
        }
    }

    /// Whether it has all functions that pools need.
    pub(crate) fn has_pools(&self) -> bool {
        self.pool_create.is_some()
            && self.pool_destroy.is_some()
            && self.pool_set_attribute.is_some()
            && self.pool_get_attribute.is_some()
            && self.pool_trim.is_some()
            && self.pool_alloc.is_some()
            && self.free_async.is_some()
    }
}
