//! How much memory is in use, and how much ever was.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, with a count. The worker has one thread, so nothing is missed between the two numbers.
pub(crate) struct Meter;

#[global_allocator]
static METER: Meter = Meter;

/// Forgets the peak, and gives the bytes in use now.
pub(crate) fn restart() -> u64 {
    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    live
}

/// The most bytes in use since the last restart.
pub(crate) fn peak() -> u64 {
    PEAK.load(Ordering::Relaxed)
}

fn add(nbytes: usize) {
    let live = LIVE.fetch_add(nbytes as u64, Ordering::Relaxed) + nbytes as u64;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            add(layout.size());
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            add(layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(block, layout) };
    }
}
