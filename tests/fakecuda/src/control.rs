//! The driver's own control functions.

use crate::library::control;
use libloading::Library;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};

/// Version of the control interface that this crate speaks.
const ABI: u32 = 2;

/// Counters of one device.
#[repr(C)]
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Blocks allocated and not freed.
    pub live_allocs: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// The most there ever were.
    pub peak_bytes: u64,
    /// Allocations that succeeded.
    pub total_allocs: u64,
    /// Blocks freed.
    pub total_frees: u64,
    /// Blocks lost because their context was destroyed.
    pub lost_at_reset: u64,
    /// How often a pool had to map more memory.
    pub pool_grows: u64,
    /// Bytes that pools hold, used or not.
    pub pool_reserved: u64,
    /// Streams created and not destroyed.
    pub live_streams: u64,
    /// Events created and not destroyed.
    pub live_events: u64,
    /// Operations queued and not run.
    pub pending_ops: u64,
    /// Misuses seen.
    pub violations: u64,
    /// Retains of the primary context not released.
    pub ctx_refs: u64,
    /// Copies with pageable host memory.
    pub pageable_copies: u64,
    /// Copies with pinned host memory.
    pub pinned_copies: u64,
}

/// A kernel's host version: pointers to the arguments, six grid and block sizes, and a function that gives,
/// for its context, a device address and a length, the bytes there or null.
pub type HostKernel = unsafe extern "C" fn(
    *const *const u8,
    *const u32,
    unsafe extern "C" fn(*mut c_void, u64, usize) -> *mut u8,
    *mut c_void,
);

macro_rules! control_functions {
    ($($field:ident: $symbol:literal $type:ty,)*) => {
        pub(crate) struct Control { $(pub(crate) $field: $type,)* }

        impl Control {
            /// Looks everything up.
            pub(crate) fn new(library: &'static Library) -> Self {
                // SAFETY: the signature is the one in the driver's `control` module.
                let abi = unsafe { library.get::<extern "C" fn() -> u32>(b"fakecuda_abi\0") };
                let abi = abi.expect("the loaded library is a fake driver")();
                assert_eq!(abi, ABI, "the fake driver is of another version");
                $(
                    // SAFETY: the signature is the one in the driver's `control` module, of this version.
                    let $field = unsafe { library.get::<$type>($symbol.as_bytes()) };
                )*
                Control { $($field: *$field.expect("this version of the driver has it"),)* }
            }
        }
    };
}

control_functions! {
    device_count: "fakecuda_device_count" extern "C" fn() -> usize,
    stats: "fakecuda_stats" extern "C" fn(c_int, &mut Stats) -> bool,
    calls: "fakecuda_calls" unsafe extern "C" fn(*const c_char) -> u64,
    all_calls: "fakecuda_all_calls" unsafe extern "C" fn(*mut u8, usize) -> usize,
    violations: "fakecuda_violations" unsafe extern "C" fn(c_int, *mut u8, usize) -> usize,
    set_mem: "fakecuda_set_mem" extern "C" fn(c_int, u64),
    set_sched: "fakecuda_set_sched" extern "C" fn(u64),
    defer_pageable: "fakecuda_defer_pageable" extern "C" fn(bool),
    set_pools: "fakecuda_set_pools" extern "C" fn(bool),
    inject: "fakecuda_inject" unsafe extern "C" fn(*const c_char, c_int, u64, u64, u32),
    clear: "fakecuda_clear" extern "C" fn(c_int),
    poison: "fakecuda_poison" extern "C" fn(c_int, u32),
    peek: "fakecuda_peek" unsafe extern "C" fn(u64, *mut u8, usize) -> bool,
    kernel: "fakecuda_kernel" unsafe extern "C" fn(*const c_char, HostKernel),
}

/// Any device, or none.
pub(crate) const ANY_DEVICE: c_int = -1;

pub(crate) fn c_name(name: &str) -> CString {
    CString::new(name).expect("symbol names hold no NUL")
}

/// Collects a text of which `fill` writes as much as fits and tells the whole length.
pub(crate) fn text(fill: impl Fn(*mut u8, usize) -> usize) -> String {
    let mut bytes = Vec::new();
    loop {
        let needed = fill(bytes.as_mut_ptr(), bytes.len());
        if needed <= bytes.len() {
            bytes.truncate(needed);
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        bytes.resize(needed, 0);
    }
}

/// Plans a failure on `device`: see [`crate::Device::fail`].
pub(crate) fn inject(symbol: &str, device: c_int, skip: u64, times: u64, code: u32) {
    let symbol = c_name(symbol);
    // SAFETY: `symbol` is a NUL-terminated string that outlives the call.
    unsafe { (control().inject)(symbol.as_ptr(), device, skip, times, code) };
}

/// Devices that the fake driver has.
pub fn device_count() -> usize {
    (control().device_count)()
}

/// Calls of `symbol` in this process so far, on all devices, failed ones included.
pub fn calls(symbol: &str) -> u64 {
    let symbol = c_name(symbol);
    // SAFETY: `symbol` is a NUL-terminated string that outlives the call.
    unsafe { (control().calls)(symbol.as_ptr()) }
}

/// Calls of every symbol that was called in this process.
pub fn all_calls() -> BTreeMap<String, u64> {
    // SAFETY: `text` passes a place for as many bytes as it says.
    let lines = text(|at, room| unsafe { (control().all_calls)(at, room) });
    lines
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?)))
        .collect()
}

/// From now on queued work runs: 0 as late as allowed, 1 at once, anything else in an order with that seed.
pub fn schedule(number: u64) {
    (control().set_sched)(number);
}

/// Withdraws, or gives back, the guarantees that copies of pageable memory have.
pub fn defer_pageable(on: bool) {
    (control().defer_pageable)(on);
}

/// Whether devices have stream-ordered pools.
pub fn set_pools(on: bool) {
    (control().set_pools)(on);
}

/// Like [`crate::Device::fail`], whichever device is current, and also where none is.
pub fn fail_everywhere(symbol: &str, skip: u64, times: u64, code: u32) {
    inject(symbol, ANY_DEVICE, skip, times, code);
}

/// Withdraws what [`fail_everywhere`] planned.
pub fn clear_everywhere() {
    (control().clear)(ANY_DEVICE);
}

/// The bytes at a device address as they are now, if a block holds them all.
pub fn peek(at: u64, nbytes: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; nbytes];
    // SAFETY: `bytes` has room for `nbytes`.
    unsafe { (control().peek)(at, bytes.as_mut_ptr(), nbytes) }.then_some(bytes)
}

/// Gives kernels of this name a host version.
///
/// # Safety
/// Every launch of such a kernel must pass the parameters that the function reads.
pub unsafe fn kernel(name: &str, host: HostKernel) {
    let name = c_name(name);
    // SAFETY: the name is NUL-terminated; the rest is this function's contract.
    unsafe { (control().kernel)(name.as_ptr(), host) };
}
