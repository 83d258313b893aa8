//! How much memory and time one thread takes: hostile files must cost little of both.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Counts the bytes that each thread holds, and the most it held.
pub(crate) struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn change(by: isize) {
    // A thread that is going away has no counters any more, and nobody to read them.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + by);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

fn signed(nbytes: usize) -> isize {
    isize::try_from(nbytes).expect("layouts are at most isize::MAX bytes")
}

// SAFETY: every call goes on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        change(signed(layout.size()));
        // SAFETY: our caller keeps the same promises to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        change(signed(layout.size()));
        // SAFETY: our caller keeps the same promises to us.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        change(-signed(layout.size()));
        // SAFETY: our caller keeps the same promises to us.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        change(signed(new_size) - signed(layout.size()));
        // SAFETY: our caller keeps the same promises to us.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// Time that this thread has spent computing, where the system tells: what others do on the same
/// machine must not fail a test. Else the time on the clock.
fn now(clock: Instant) -> Duration {
    let computing = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = computing.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| clock.elapsed(), Duration::from_nanos)
}

/// The most memory that something took on this thread, over what was held before, and its time.
pub(crate) fn cost<T>(work: impl FnOnce() -> T) -> (T, usize, Duration) {
    let clock = Instant::now();
    let start = now(clock);
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    let peak = PEAK.get();
    let time = now(clock).saturating_sub(start);
    (result, usize::try_from(peak - before).unwrap_or(0), time)
}

/// Runs something that must be cheap whatever the file holds: under a second, under 64 MiB.
#[track_caller]
pub(crate) fn cheap<T>(work: impl FnOnce() -> T) -> T {
    let (result, nbytes, time) = cost(work);
    assert!(nbytes < 64 << 20, "took {nbytes} bytes");
    assert!(time < Duration::from_secs(1), "took {time:?}");
    result
}
