//! The slot with all orderings relaxed: a model that passes this proves nothing.

mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::AtomicU8;

    use loom::sync::atomic::Ordering as Real;

    /// Orderings that order nothing, by the names of those that do.
    pub(crate) struct Ordering;

    #[expect(non_upper_case_globals, reason = "they stand in for enum variants")]
    impl Ordering {
        pub(crate) const Relaxed: Real = Real::Relaxed;
        pub(crate) const Acquire: Real = Real::Relaxed;
        pub(crate) const Release: Real = Real::Relaxed;
    }
}

#[path = "../../../crates/et-device/src/slot.rs"]
mod slot;

use loom::sync::Arc;
use slot::{EMPTY, Slot};

#[test]
#[should_panic(expected = "Causality violation")]
fn without_orderings_a_read_races_with_the_write() {
    loom::model(|| {
        let slot = Arc::new(Slot::from_parts(
            sync::AtomicU8::new(EMPTY),
            sync::UnsafeCell::new(None),
        ));
        let writer = {
            let slot = Arc::clone(&slot);
            loom::thread::spawn(move || slot.set(1))
        };
        let found = slot.get().copied();
        assert!(found.is_none_or(|value| value == 1));
        assert_eq!(writer.join().unwrap(), Ok(()));
    });
}
