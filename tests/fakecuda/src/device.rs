//! Devices lent to one test at a time.

use crate::control::{Stats, device_count, inject, text};
use crate::library::control;
use std::ffi::c_int;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// What a device has until a test says otherwise, in bytes.
const MEMORY_BYTES: u64 = 8 << 30;

/// A device that no other test of this process uses. Dropping it fails the test if anything is left on it.
pub struct Device {
    ordinal: c_int,
    leftovers_allowed: bool,
    contexts_before: u64,
}

static RETURNED: Condvar = Condvar::new();

fn free_ordinals() -> MutexGuard<'static, Vec<c_int>> {
    static FREE: OnceLock<Mutex<Vec<c_int>>> = OnceLock::new();
    let free = FREE.get_or_init(|| Mutex::new((0..device_count() as c_int).rev().collect()));
    free.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `count` devices are free and takes them. Take all that a test needs in one call, or two tests can
/// wait for each other; taking all of them makes a test run alone.
///
/// # Panics
/// If the driver has fewer, or cannot be loaded.
pub fn devices(count: usize) -> Vec<Device> {
    assert!(
        count <= device_count(),
        "the fake driver has {} devices",
        device_count()
    );
    let mut free = free_ordinals();
    while free.len() < count {
        free = RETURNED.wait(free).unwrap_or_else(PoisonError::into_inner);
    }
    let at = free.len() - count;
    let mut taken = free.split_off(at);
    // They came back in any order.
    taken.sort_unstable();
    taken.into_iter().map(Device::new).collect()
}

/// Waits for a free device and takes it.
///
/// # Panics
/// If the driver cannot be loaded or has none.
pub fn device() -> Device {
    devices(1).remove(0)
}

impl Device {
    fn new(ordinal: c_int) -> Self {
        let contexts_before = stats(ordinal).ctx_refs;
        Device {
            ordinal,
            leftovers_allowed: false,
            contexts_before,
        }
    }

    /// Its number for the driver.
    pub fn ordinal(&self) -> usize {
        self.ordinal as usize
    }

    /// Its counters now.
    pub fn stats(&self) -> Stats {
        stats(self.ordinal)
    }

    /// Limits its memory.
    pub fn set_memory(&self, nbytes: u64) {
        (control().set_mem)(self.ordinal, nbytes);
    }

    /// Plans a failure: while this device is current, `skip` more calls of `symbol` succeed, then `times` calls
    /// fail with `code`.
    pub fn fail(&self, symbol: &str, skip: u64, times: u64, code: u32) {
        inject(symbol, self.ordinal, skip, times, code);
    }

    /// Puts the device into the state after an error that a context does not survive.
    pub fn poison(&self, code: u32) {
        (control().poison)(self.ordinal, code);
    }

    /// Misuses seen on it, one a line.
    pub fn violations(&self) -> String {
        // SAFETY: `text` passes a place for as many bytes as it says.
        text(|at, room| unsafe { (control().violations)(self.ordinal, at, room) })
    }

    /// Forgets violations, planned failures and a sticky error.
    pub fn clear(&self) {
        (control().clear)(self.ordinal);
    }

    /// For tests that plant a mistake, or use state that lives as long as the process: nothing is checked at the end.
    pub fn allow_leftovers(&mut self) {
        self.leftovers_allowed = true;
    }

    fn give_back(&self) {
        self.clear();
        self.set_memory(MEMORY_BYTES);
        free_ordinals().push(self.ordinal);
        RETURNED.notify_all();
    }
}

fn stats(ordinal: c_int) -> Stats {
    let mut stats = Stats::default();
    assert!(
        (control().stats)(ordinal, &mut stats),
        "no device {ordinal}"
    );
    stats
}

impl Drop for Device {
    fn drop(&mut self) {
        let (stats, violations) = (self.stats(), self.violations());
        self.give_back();
        if self.leftovers_allowed || std::thread::panicking() {
            return;
        }
        let ordinal = self.ordinal;
        assert!(violations.is_empty(), "device {ordinal}: {violations}");
        assert_eq!(
            stats.live_allocs, 0,
            "device {ordinal}: {} bytes leaked",
            stats.live_bytes
        );
        assert_eq!(stats.live_streams, 0, "device {ordinal}: streams leaked");
        assert_eq!(stats.live_events, 0, "device {ordinal}: events leaked");
        assert_eq!(
            stats.ctx_refs, self.contexts_before,
            "device {ordinal}: context still retained"
        );
    }
}
