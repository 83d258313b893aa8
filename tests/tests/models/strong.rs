//! The slot as it is.

mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicU8, Ordering};
}

#[path = "../../../crates/et-device/src/slot.rs"]
mod slot;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use slot::{EMPTY, Slot};

fn slot<T>() -> Arc<Slot<T>> {
    Arc::new(Slot::from_parts(
        sync::AtomicU8::new(EMPTY),
        sync::UnsafeCell::new(None),
    ))
}

#[test]
fn one_writer_wins_and_readers_see_nothing_or_all_of_it() {
    loom::model(|| {
        let slot = slot();
        let writers = [1, 2].map(|n| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.set([n, n]).is_ok())
        });
        let early = slot.get().copied();
        if let Some(value) = early {
            assert_eq!(value[0], value[1]);
        }
        let wins = writers.map(|writer| writer.join().unwrap());
        assert_eq!(wins.iter().filter(|&&won| won).count(), 1);
        let late = *slot.get().unwrap();
        assert_eq!(late, if wins[0] { [1, 1] } else { [2, 2] });
        assert!(early.is_none_or(|value| value == late));
    });
}

#[test]
fn a_value_once_seen_is_seen_by_all_who_hear_of_it_and_never_goes_away() {
    loom::model(|| {
        let slot = slot();
        let reader = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || [slot.get().copied(), slot.get().copied()])
        };
        let writer = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.set(7).unwrap())
        };
        let [first, second] = reader.join().unwrap();
        assert!(first.is_none() || second == first, "the value went away");
        // The reader's view came along with its end.
        let after = slot.get().copied();
        assert!(second.is_none() || after == second);
        assert!(after.is_none_or(|value| value == 7));
        writer.join().unwrap();
    });
}

#[test]
fn what_the_writer_did_before_is_seen_by_who_finds_the_value() {
    loom::model(|| {
        let slot = slot();
        let prepared = Arc::new(AtomicUsize::new(0));
        let writer = {
            let (slot, prepared) = (Arc::clone(&slot), Arc::clone(&prepared));
            thread::spawn(move || {
                prepared.store(42, Ordering::Relaxed);
                slot.set(()).unwrap();
            })
        };
        if slot.get().is_some() {
            assert_eq!(prepared.load(Ordering::Relaxed), 42);
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_lookup_ordered_behind_the_registration_finds_it() {
    loom::model(|| {
        let slot = slot();
        let registered = Arc::new(AtomicBool::new(false));
        let writer = {
            let (slot, registered) = (Arc::clone(&slot), Arc::clone(&registered));
            thread::spawn(move || {
                slot.set(5).unwrap();
                registered.store(true, Ordering::Release);
            })
        };
        if registered.load(Ordering::Acquire) {
            assert_eq!(slot.get(), Some(&5));
        }
        writer.join().unwrap();
    });
}

#[test]
fn the_value_is_dropped_once_with_the_slot() {
    loom::model(|| {
        let slot = slot();
        let (kept, refused) = (Arc::new(1), Arc::new(2));
        let writer = {
            let (slot, kept) = (Arc::clone(&slot), Arc::clone(&kept));
            thread::spawn(move || drop(slot.set(kept)))
        };
        drop(slot.set(Arc::clone(&refused)));
        writer.join().unwrap();
        let held = Arc::strong_count(&kept) + Arc::strong_count(&refused);
        assert_eq!(held, 3);
        drop(slot);
        assert_eq!(Arc::strong_count(&kept) + Arc::strong_count(&refused), 2);
    });
}
