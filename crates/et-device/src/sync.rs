//! The primitives that `Slot` is written with.
//!
//! They have the shape of loom's, so that the very same `slot.rs` can be checked against every order in which a
//! memory model lets threads see each other's writes.

pub(crate) use core::sync::atomic::{AtomicU8, Ordering};

/// The standard cell with the shape of loom's.
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

impl<T> crate::slot::Slot<T> {
    /// An empty slot.
    pub(crate) const fn new() -> Self {
        Self::from_parts(AtomicU8::new(crate::slot::EMPTY), UnsafeCell::new(None))
    }
}

#[cfg(test)]
mod tests {
    use crate::slot::Slot;

    #[test]
    fn the_first_value_stays() {
        let slot = Slot::new();
        assert_eq!(slot.get(), None);
        assert_eq!(slot.set(1), Ok(()));
        assert_eq!(slot.set(2), Err(2));
        assert_eq!(slot.get(), Some(&1));
    }
}
