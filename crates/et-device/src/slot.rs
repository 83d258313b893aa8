//! A cell that is written at most once and read without a lock.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU8, Ordering};
#[cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU8, Ordering},
};

const EMPTY: u8 = 0;
const WRITING: u8 = 1;
const READY: u8 = 2;

/// Written by whoever first takes it from `EMPTY` to `WRITING`; readable once it is `READY`.
///
/// The writer stores the value and then `READY` with release ordering; a reader that loads `READY` with acquire
/// ordering therefore sees the whole value. `READY` is final, so a reference handed out stays valid.
pub(crate) struct Slot<T> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: `value` is written by one thread only (the one that won the exchange in `set`) and read only after its
// release store of `READY`; sharing the cell shares `&T` and moves a `T` in from any thread.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slot<T> {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            value: UnsafeCell::new(None),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            value: UnsafeCell::new(None),
        }
    }

    /// Stores `value`, or gives it back if the slot is taken (or being taken).
    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let won = self
            .state
            .compare_exchange(EMPTY, WRITING, Ordering::Acquire, Ordering::Relaxed);
        if won.is_err() {
            return Err(value);
        }
        self.value.with_mut(|cell| {
            // SAFETY: the exchange from EMPTY succeeds once in the slot's life, and nobody reads before READY.
            unsafe { *cell = Some(value) };
        });
        self.state.store(READY, Ordering::Release);
        Ok(())
    }

    /// The value, once `set` has returned (on any thread).
    pub(crate) fn get(&self) -> Option<&T> {
        if self.state.load(Ordering::Acquire) != READY {
            return None;
        }
        self.value.with(|cell| {
            // SAFETY: READY was loaded with acquire ordering, so the write happened before and is the last one.
            unsafe { (*cell).as_ref() }
        })
    }
}

/// The standard cell with the shape of loom's.
#[cfg(not(loom))]
struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn one_writer_wins_and_readers_see_nothing_or_all_of_it() {
        loom::model(|| {
            let slot = Arc::new(Slot::new());
            let writers: std::vec::Vec<_> = (1..=2)
                .map(|n| {
                    let slot = Arc::clone(&slot);
                    loom::thread::spawn(move || slot.set(std::boxed::Box::new((n, n))).is_ok())
                })
                .collect();
            if let Some(value) = slot.get() {
                assert_eq!(value.0, value.1);
            }
            let wins = writers
                .into_iter()
                .filter(|_| true)
                .map(|w| w.join().unwrap());
            assert_eq!(wins.filter(|&won| won).count(), 1);
            assert!(slot.get().is_some());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_stays() {
        let slot = Slot::new();
        assert_eq!(slot.get(), None);
        assert_eq!(slot.set(1), Ok(()));
        assert_eq!(slot.set(2), Err(2));
        assert_eq!(slot.get(), Some(&1));
    }
}
