//! A cell that is written at most once and read without a lock.
//!
//! # Why a reader never sees half a value
//!
//! The state goes from `EMPTY` over `WRITING` to `READY` and never back.
//!
//! 1. *One writer.* Only the exchange from `EMPTY` starts a write. All changes of one atomic happen in one order that
//!    every thread agrees on, and no change leads back to `EMPTY`, so one exchange succeeds in the slot's life. Whoever
//!    loses gives the value back and touches nothing.
//! 2. *Nobody reads while it writes.* A reader touches the value only after it has loaded `READY`, and the writer stores
//!    `READY` after it has written.
//! 3. *Who reads sees all of it.* The store of `READY` is a release, the load is an acquire. A load that returns `READY`
//!    synchronises with that store, the only one of this value, so the write happened before the read, and so did
//!    everything that the writer did before.
//! 4. *A reference stays good.* `READY` is final and nothing writes after it. A `&T` lives as long as the borrow of the
//!    slot; only dropping the slot drops the value, and that needs the slot to be borrowed by nobody.
//!
//! The exchange itself need not order anything: the value it guards was never touched before, and what follows it is
//! published by the store of `READY`. It is relaxed in both outcomes.
//!
//! A lookup that runs while the writer is between 1 and 2 finds nothing. That is the answer from before the
//! registration, and the two are not ordered by anything the caller did.
//!
//! The cross-crate test `models` includes this file and checks these claims in every interleaving of three threads, and
//! that it notices when the orderings are weaker.

use super::sync::{AtomicU8, Ordering, UnsafeCell};

/// Nothing was stored yet.
pub(crate) const EMPTY: u8 = 0;
const WRITING: u8 = 1;
const READY: u8 = 2;

/// Written by whoever first takes it from `EMPTY` to `WRITING`; readable once it is `READY`.
pub(crate) struct Slot<T> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: `value` is written by one thread only (the one that won the exchange in `set`) and read only after its
// release store of `READY`; sharing the cell shares `&T` and moves a `T` in from any thread.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slot<T> {
    /// A slot of a state and a cell that nobody else holds. `state` is `EMPTY` and `value` holds `None`.
    pub(crate) const fn from_parts(state: AtomicU8, value: UnsafeCell<Option<T>>) -> Self {
        Self { state, value }
    }

    /// Stores `value`, or gives it back if the slot is taken (or being taken).
    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let won = self
            .state
            .compare_exchange(EMPTY, WRITING, Ordering::Relaxed, Ordering::Relaxed);
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
    #[inline]
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
