//! The host's own memory and process calls.

use crate::status::{OUT_OF_MEMORY, Outcome};
use std::ffi::{c_int, c_void};

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        nbytes: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, nbytes: usize) -> c_int;
    fn atexit(f: extern "C" fn()) -> c_int;
    fn _exit(code: c_int) -> !;
}

const PAGE: usize = 4096;
const NO_ACCESS: c_int = 0;
const READ_WRITE: c_int = 3;
/// MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
const FLAGS: c_int = 0x2 | 0x20 | 0x4000;

fn map(nbytes: usize, protection: c_int) -> Option<usize> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let at = unsafe { mmap(std::ptr::null_mut(), nbytes, protection, FLAGS, -1, 0) };
    (at as usize != usize::MAX).then_some(at as usize)
}

/// A range of addresses that nobody can read or write: up to 1 TiB, less where the system refuses.
pub fn reserve_addresses() -> Option<(u64, u64)> {
    (30..=40)
        .rev()
        .find_map(|bits| map(1 << bits, NO_ACCESS).map(|base| (base as u64, 1u64 << bits)))
}

/// Host memory by whole pages, zeroed.
pub fn map_pages(nbytes: usize) -> Outcome<usize> {
    let rounded = nbytes.checked_next_multiple_of(PAGE).ok_or(OUT_OF_MEMORY)?;
    map(rounded, READ_WRITE).ok_or(OUT_OF_MEMORY)
}

/// Gives back what [`map_pages`] gave for the same number of bytes.
pub fn unmap_pages(at: usize, nbytes: usize) {
    // SAFETY: the caller removed this mapping, made by `map_pages`, from its books just before.
    unsafe { munmap(at as *mut c_void, nbytes.next_multiple_of(PAGE)) };
}

/// A copy of host bytes that a caller of the driver named.
pub fn read(at: usize, nbytes: usize) -> Box<[u8]> {
    // SAFETY: the C contract of the copy calls: `nbytes` readable bytes at the host address.
    unsafe { std::slice::from_raw_parts(at as *const u8, nbytes) }.into()
}

/// Writes host bytes where a caller of the driver asked for them.
pub fn write(at: usize, bytes: &[u8]) {
    // SAFETY: the C contract of the copy calls: that many writable bytes at the host address.
    unsafe { std::ptr::copy(bytes.as_ptr(), at as *mut u8, bytes.len()) };
}

/// Has `f` run when the process ends normally.
pub fn at_exit(f: extern "C" fn()) {
    // SAFETY: registering a function has no precondition.
    unsafe { atexit(f) };
}

/// Ends the process at once with `code`.
pub fn exit_now(code: c_int) -> ! {
    // SAFETY: no precondition.
    unsafe { _exit(code) }
}
