//! The driver's functions, as a program without any layer calls them.
#![allow(dead_code, reason = "each example uses its part")]

use libloading::Library;
use std::error::Error;
use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};

/// The device that the examples use.
pub(crate) const ORDINAL: c_int = 0;

macro_rules! functions {
    ($($name:ident = $symbol:ident($($ty:ty),*);)*) => {
        /// Pointers to functions of the driver. Each gives a status.
        pub(crate) struct Driver {
            $(pub(crate) $name: unsafe extern "system" fn($($ty),*) -> u32,)*
        }

        impl Driver {
            fn look_up(library: &'static Library) -> Result<Self, libloading::Error> {
                Ok(Driver {
                    $($name: {
                        // SAFETY: the signature is the documented one.
                        let symbol = unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes())? };
                        *symbol
                    },)*
                })
            }
        }
    };
}

functions! {
    init = cuInit(c_uint);
    device_count = cuDeviceGetCount(&mut c_int);
    device = cuDeviceGet(&mut c_int, c_int);
    device_name = cuDeviceGetName(*mut c_char, c_int, c_int);
    version = cuDriverGetVersion(&mut c_int);
    error_name = cuGetErrorName(u32, &mut *const c_char);
    retain_context = cuDevicePrimaryCtxRetain(&mut usize, c_int);
    get_current = cuCtxGetCurrent(&mut usize);
    set_current = cuCtxSetCurrent(usize);
    push_current = cuCtxPushCurrent_v2(usize);
    pop_current = cuCtxPopCurrent_v2(&mut usize);
    allocate = cuMemAlloc_v2(&mut u64, usize);
    free = cuMemFree_v2(u64);
    allocate_async = cuMemAllocAsync(&mut u64, usize, usize);
    free_async = cuMemFreeAsync(u64, usize);
    default_pool = cuDeviceGetDefaultMemPool(&mut usize, c_int);
    pool_get_attribute = cuMemPoolGetAttribute(usize, c_int, &mut u64);
    pool_set_attribute = cuMemPoolSetAttribute(usize, c_int, &mut u64);
    host_allocate = cuMemHostAlloc(&mut *mut c_void, usize, c_uint);
    host_free = cuMemFreeHost(*mut c_void);
    copy_in_now = cuMemcpyHtoD_v2(u64, *const c_void, usize);
    copy_in = cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, usize);
    copy_out = cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, usize);
    pointer_attribute = cuPointerGetAttribute(&mut u64, c_int, u64);
    create_stream = cuStreamCreate(&mut usize, c_uint);
    destroy_stream = cuStreamDestroy_v2(usize);
    synchronize = cuStreamSynchronize(usize);
    query_stream = cuStreamQuery(usize);
    stream_context = cuStreamGetCtx(usize, &mut usize);
    create_event = cuEventCreate(&mut usize, c_uint);
    record = cuEventRecord(usize, usize);
    query_event = cuEventQuery(usize);
    wait_for_event = cuEventSynchronize(usize);
    destroy_event = cuEventDestroy_v2(usize);
}

impl Driver {
    /// The driver that `ET_CUDA_DRIVER` names, or the system's; started.
    pub(crate) fn open() -> Result<&'static Self, Box<dyn Error>> {
        let named = std::env::var_os("ET_CUDA_DRIVER").filter(|name| !name.is_empty());
        let names: Vec<OsString> = match named {
            Some(name) => vec![name],
            None => vec!["libcuda.so".into(), "libcuda.so.1".into()],
        };
        let found = names.iter().find_map(|name| {
            // SAFETY: loading NVIDIA's driver, or what the user names, runs its initialisers.
            unsafe { Library::new(name) }.ok()
        });
        let library = found.ok_or("no CUDA driver was found")?;
        let driver = Driver::look_up(Box::leak(Box::new(library)))?;
        // SAFETY: no precondition.
        driver.expect("cuInit", unsafe { (driver.init)(0) })?;
        Ok(Box::leak(Box::new(driver)))
    }

    /// The primary context of the device, current from now on.
    pub(crate) fn enter(&self) -> Result<usize, Box<dyn Error>> {
        let (mut device, mut context) = (0, 0);
        // SAFETY: places for results.
        self.expect("cuDeviceGet", unsafe {
            (self.device)(&mut device, ORDINAL)
        })?;
        // SAFETY: as above.
        let status = unsafe { (self.retain_context)(&mut context, device) };
        self.expect("cuDevicePrimaryCtxRetain", status)?;
        // SAFETY: the context was retained just now.
        self.expect("cuCtxSetCurrent", unsafe { (self.set_current)(context) })?;
        Ok(context)
    }

    /// A stream that is not ordered against the NULL stream.
    pub(crate) fn stream(&self) -> Result<usize, Box<dyn Error>> {
        let mut stream = 0;
        // SAFETY: a place for the result; a context is current, else this is an error.
        self.expect("cuStreamCreate", unsafe {
            (self.create_stream)(&mut stream, 1)
        })?;
        Ok(stream)
    }

    /// A failed status as an error.
    pub(crate) fn expect(&self, operation: &str, status: u32) -> Result<(), String> {
        match status {
            0 => Ok(()),
            _ => Err(format!("{operation} failed: {}", self.name(status))),
        }
    }

    /// A status as the driver calls it.
    pub(crate) fn name(&self, status: u32) -> String {
        if status == 0 {
            return "ok".into();
        }
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: a place for the result.
        let known = unsafe { (self.error_name)(status, &mut name) };
        if known != 0 || name.is_null() {
            return status.to_string();
        }
        // SAFETY: on success the driver gives a constant of its own.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        format!("{status} {}", name.trim_start_matches("CUDA_ERROR_"))
    }
}

/// Calls a function of the driver whose arguments are live and of the right kind where that matters; its status.
macro_rules! call {
    ($driver:ident.$name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments are places for results, or handles and addresses that this program owns; where they are
        // wrong on purpose, the driver is documented to say so.
        unsafe { ($driver.$name)($($argument),*) }
    }};
}
pub(crate) use call;
