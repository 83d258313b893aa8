//! The driver as a program sees it: found by the name `libcuda.so`, called through C signatures.
//!
//! The wrappers are safe to call from these tests because the fake checks every address it is given; host buffers
//! are passed as slices, and the tests keep those of queued copies alive until the stream was synchronised.

use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        fakecuda::force();
        // SAFETY: `force` has loaded the fake, and its SONAME is this name.
        unsafe { Library::new("libcuda.so") }.expect("the loaded fake answers for libcuda.so")
    })
}

macro_rules! calls {
    ($($name:ident = $symbol:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "NVIDIA's signatures")]
        pub(crate) fn $name($($arg: $ty),*) -> u32 {
            type Function = unsafe extern "C" fn($($ty),*) -> u32;
            // SAFETY: the signature is the documented one.
            let f = unsafe { library().get::<Function>(concat!(stringify!($symbol), "\0").as_bytes()) };
            let f = f.expect(stringify!($symbol));
            // SAFETY: pointers come from references or from the test's own buffers; the fake checks addresses.
            unsafe { f($($arg),*) }
        }
    )*};
}

calls! {
    init = cuInit(flags: u32);
    retain = cuDevicePrimaryCtxRetain(context: &mut usize, device: c_int);
    release = cuDevicePrimaryCtxRelease_v2(device: c_int);
    attribute = cuDeviceGetAttribute(value: &mut c_int, number: c_int, device: c_int);
    get_current = cuCtxGetCurrent(context: &mut usize);
    push = cuCtxPushCurrent_v2(context: usize);
    pop = cuCtxPopCurrent_v2(context: &mut usize);
    alloc = cuMemAlloc_v2(at: &mut u64, nbytes: usize);
    free = cuMemFree_v2(at: u64);
    alloc_async = cuMemAllocAsync(at: &mut u64, nbytes: usize, stream: usize);
    free_async = cuMemFreeAsync(at: u64, stream: usize);
    mem_info = cuMemGetInfo_v2(free: &mut usize, total: &mut usize);
    pin = cuMemHostAlloc(at: &mut usize, nbytes: usize, flags: u32);
    unpin = cuMemFreeHost(at: usize);
    h2d = cuMemcpyHtoD_v2(dst: u64, src: *const u8, nbytes: usize);
    d2h = cuMemcpyDtoH_v2(dst: *mut u8, src: u64, nbytes: usize);
    h2d_async = cuMemcpyHtoDAsync_v2(dst: u64, src: *const u8, nbytes: usize, stream: usize);
    peer_async = cuMemcpyPeerAsync(dst: u64, to: usize, src: u64, from: usize, nbytes: usize, stream: usize);
    set_async = cuMemsetD8Async(at: u64, value: u8, nbytes: usize, stream: usize);
    stream_create = cuStreamCreate(stream: &mut usize, flags: u32);
    stream_destroy = cuStreamDestroy_v2(stream: usize);
    stream_synchronize = cuStreamSynchronize(stream: usize);
    stream_query = cuStreamQuery(stream: usize);
    stream_wait = cuStreamWaitEvent(stream: usize, event: usize, flags: u32);
    host_function = cuLaunchHostFunc(stream: usize, f: extern "C" fn(*mut c_void), argument: *mut c_void);
    event_create = cuEventCreate(event: &mut usize, flags: u32);
    event_record = cuEventRecord(event: usize, stream: usize);
    event_destroy = cuEventDestroy_v2(event: usize);
    default_pool = cuDeviceGetDefaultMemPool(pool: &mut usize, device: c_int);
    pool_set = cuMemPoolSetAttribute(pool: usize, number: c_int, value: &u64);
    module_load = cuModuleLoadData(module: &mut usize, image: *const c_char);
    module_unload = cuModuleUnload(module: usize);
    function = cuModuleGetFunction(function: &mut usize, module: usize, name: *const c_char);
    launch = cuLaunchKernel(
        f: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32,
        shared: u32, stream: usize, arguments: *const *const c_void, extra: *const c_void
    );
    error_name = cuGetErrorName(code: u32, name: &mut *const c_char);
}

/// Whether the driver has a symbol.
pub(crate) fn has(symbol: &str) -> bool {
    let name = format!("{symbol}\0");
    // SAFETY: the symbol is only looked up.
    unsafe { library().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
}

/// Asserts success.
#[track_caller]
pub(crate) fn ok(status: u32) {
    assert_eq!(status, 0, "the driver call failed");
}

/// What a call that fills one place gave.
#[track_caller]
pub(crate) fn got<T: Default>(call: impl FnOnce(&mut T) -> u32) -> T {
    let mut value = T::default();
    ok(call(&mut value));
    value
}

/// A device's primary context, current on this thread while this lives.
pub(crate) struct Context {
    pub(crate) handle: usize,
    device: c_int,
}

impl Context {
    pub(crate) fn of(device: &fakecuda::Device) -> Self {
        ok(init(0));
        let device = device.ordinal() as c_int;
        let handle = got(|c| retain(c, device));
        ok(push(handle));
        Context { handle, device }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        pop(&mut 0);
        release(self.device);
    }
}

/// A new stream, not ordered against the NULL stream.
pub(crate) fn non_blocking_stream() -> usize {
    got(|s| stream_create(s, 1))
}
