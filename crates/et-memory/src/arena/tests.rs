//! The rules of arenas, and pieces against `u128`.

use super::*;
use proptest::prelude::*;

fn align(n: u64) -> Alignment {
    Alignment::new(n).unwrap()
}

#[test]
fn r_ma_04_a_piece_that_does_not_fit_leaves_the_cursor() {
    let arena = Arena::bounded(10).unwrap();
    assert_eq!(
        arena.allocate(12, Alignment::ONE).unwrap_err(),
        ArenaError {
            nbytes: 12,
            used: 0,
            capacity: 10,
            limit: Some(10),
        }
    );
    assert!(arena.allocate(9, Alignment::ONE).is_ok());
}

#[test]
fn errors_say_whether_the_arena_or_the_host_is_full() {
    let arena = Arena::bounded(10).unwrap();
    arena.allocate(4, Alignment::ONE).unwrap();
    let text = arena.allocate(7, Alignment::ONE).unwrap_err().to_string();
    let expected = "no room for 7 bytes of scratch memory: 4 of 10 bytes are in use";
    assert_eq!(text, expected);
    let arena = Arena::new();
    let error = arena.allocate(usize::MAX / 2, Alignment::ONE).unwrap_err();
    assert_eq!(error.limit, None);
    assert!(error.to_string().contains("the host has not enough memory"));
}

#[test]
fn r_ma_04_sizes_that_wrap_are_refused() {
    let arena = Arena::bounded(1024).unwrap();
    let one = usize::MAX / 2 + 1;
    for nbytes in [usize::MAX - 8, one, one, usize::MAX] {
        assert!(arena.allocate(nbytes, align(16)).is_err());
        assert_eq!((arena.used(), arena.high_water()), (0, 0));
        assert!(Arena::new().allocate(nbytes, align(16)).is_err());
    }
    assert!(arena.allocate(16, align(16)).is_ok());
    assert_eq!(arena.used(), 16);
}

#[test]
fn r_ma_07_used_counts_padding_and_reset_rewinds() {
    let mut arena = Arena::bounded(64).unwrap();
    arena.allocate(1, align(1)).unwrap();
    arena.allocate(16, align(16)).unwrap();
    assert_eq!(arena.used(), 32);
    arena.reset();
    assert_eq!((arena.used(), arena.high_water()), (0, 32));
    assert!(arena.allocate(64, align(64)).is_ok());
}

#[test]
fn growth_stops_once_the_work_repeats() {
    let mut arena = Arena::new();
    let mut capacities = Vec::new();
    for _ in 0..4 {
        for nbytes in [100, 5000, 3] {
            arena.allocate(nbytes, align(64)).unwrap().fill(1);
        }
        arena.reset();
        capacities.push(arena.capacity());
    }
    assert_eq!(capacities[1..], [capacities[1]; 3]);
}

#[test]
fn b_24_an_arena_may_be_larger_than_4_gib() {
    // The pages are never touched, so this takes addresses and no memory.
    if cfg!(miri) || cfg!(not(target_pointer_width = "64")) {
        return;
    }
    let arena = Arena::bounded((5 << 30) + 64).unwrap();
    arena.allocate(5 << 30, align(64)).unwrap();
    assert_eq!(arena.allocate(64, align(64)).unwrap().len(), 64);
    assert_eq!(arena.used(), (5 << 30) + 64);
    assert!(arena.allocate(1, Alignment::ONE).is_err());
}

#[test]
fn r_ma_01_an_arena_may_hold_nothing() {
    let mut arena = Arena::bounded(0).unwrap();
    assert_eq!((arena.used(), arena.capacity()), (0, 0));
    assert!(arena.reserve(0).is_ok());
}

#[test]
fn r_ma_02_only_powers_of_two_can_be_asked_for() {
    for nbytes in [0, 5, 6, 12, 34] {
        assert_eq!(Alignment::new(nbytes), None);
    }
    let arena = Arena::bounded(4096).unwrap();
    for (shift, nbytes) in [7, 9, 2, 3, 5, 1].into_iter().enumerate() {
        let alignment = align(1 << shift);
        let piece = arena.allocate(nbytes, alignment).unwrap();
        assert!(HostSpan::of_mut(piece).is_aligned(alignment));
    }
}

#[test]
fn r_ma_03_an_arena_of_nothing_has_no_room() {
    let arena = Arena::bounded(0).unwrap();
    for nbytes in [1, 2, 16, usize::MAX] {
        assert!(arena.allocate(nbytes, Alignment::ONE).is_err());
    }
    assert_eq!((arena.used(), arena.high_water()), (0, 0));
}

#[test]
fn r_ma_05_nothing_at_the_start_is_the_start() {
    let arena = Arena::bounded(16).unwrap();
    let nothing = arena.allocate(0, Alignment::ONE).unwrap().as_ptr();
    assert_eq!(arena.used(), 0);
    assert_eq!(
        arena.allocate(16, Alignment::ONE).unwrap().as_ptr(),
        nothing
    );
}

#[test]
fn r_ma_06_lists_are_aligned_and_their_sizes_checked() {
    let arena = Arena::new();
    arena.allocate(1, Alignment::ONE).unwrap();
    let list = arena.allocate_list::<u64>(5, Alignment::ONE).unwrap();
    assert_eq!((list.len(), list.as_ptr().addr() % 8), (5, 0));
    let list = list.iter_mut().zip(0..);
    let written: Vec<u64> = list.map(|(place, n)| *place.write(n)).collect();
    assert_eq!(written, [0, 1, 2, 3, 4]);
    let strict = arena.allocate_list::<u16>(5, align(64)).unwrap();
    assert_eq!(strict.as_ptr().addr() % 64, 0);
    assert_eq!(
        arena
            .allocate_list::<()>(usize::MAX, Alignment::ONE)
            .unwrap()
            .len(),
        usize::MAX
    );
    let used = arena.used();
    for len in [usize::MAX / 48 + 2, usize::MAX / 48 + 1, usize::MAX] {
        let error = arena
            .allocate_list::<[u8; 48]>(len, Alignment::ONE)
            .unwrap_err();
        assert_eq!((error.nbytes, error.used), (usize::MAX, used));
    }
    let small = Arena::bounded(16).unwrap();
    assert!(
        small
            .allocate_list::<[u8; 1024]>(1, Alignment::ONE)
            .is_err()
    );
    assert!(small.allocate_list::<[u8; 16]>(1, Alignment::ONE).is_ok());
}

#[test]
fn r_ma_07_a_reset_does_not_clear() {
    let mut arena = Arena::bounded(8).unwrap();
    arena.allocate(8, Alignment::ONE).unwrap().fill(7);
    arena.reset();
    assert_eq!(arena.allocate(8, Alignment::ONE).unwrap(), [7; 8]);
}

#[test]
fn r_ma_10_an_unbounded_arena_honours_any_alignment() {
    let arena = Arena::new();
    for shift in [12, 0, 16, 5] {
        let piece = arena.allocate(3, align(1 << shift)).unwrap();
        assert!(HostSpan::of_mut(piece).is_aligned(align(1 << shift)));
    }
}

#[test]
fn reserving_never_passes_the_limit() {
    let mut arena = Arena::bounded(100).unwrap();
    let error = MemoryError::ArenaLimit {
        nbytes: 101,
        limit: 100,
    };
    assert_eq!(arena.reserve(101), Err(error));
    assert_eq!((arena.reserve(100), arena.capacity()), (Ok(()), 100));
    let mut arena = Arena::new();
    arena.reserve(5000).unwrap();
    let before = arena.capacity();
    arena.allocate(5000, Alignment::HOST).unwrap();
    assert_eq!(arena.capacity(), before);
}

#[test]
fn an_impossible_reservation_leaves_the_arena() {
    let mut arena = Arena::new();
    arena.reserve(64).unwrap();
    assert_eq!(
        arena.reserve(u64::MAX),
        Err(MemoryError::HostOutOfMemory { nbytes: u64::MAX })
    );
    assert_eq!(arena.capacity(), 64);
    assert!(arena.allocate(64, Alignment::ONE).is_ok());
}

fn edge() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..300u64, (u64::MAX - 300)..=u64::MAX]
}

proptest! {
    #[test]
    fn pieces_start_where_u128_says(base in edge(), cursor in edge(), shift in 0..64u32) {
        let expected = (u128::from(base) + u128::from(cursor)).next_multiple_of(1 << shift);
        let expected = u64::try_from(expected).ok().map(|start| start - base);
        prop_assert_eq!(start_of_piece(base, cursor, align(1 << shift)), expected);
    }

    #[test]
    fn a_bounded_arena_has_room_exactly_where_u128_says(pieces in proptest::collection::vec((prop_oneof![0..200usize, any::<usize>()], 0..7u32), 1..30)) {
        let arena = Arena::bounded(1000).unwrap();
        // The block's address is a multiple of 64, so offsets are aligned as addresses are.
        let mut cursor = 0u128;
        for (nbytes, shift) in pieces {
            let end = cursor.next_multiple_of(1 << shift) + nbytes as u128;
            let piece = arena.allocate(nbytes, align(1 << shift));
            prop_assert_eq!(piece.is_ok(), end <= 1000);
            if piece.is_ok() {
                cursor = end;
            }
            prop_assert_eq!(u128::from(arena.used()), cursor);
        }
    }

    #[test]
    fn pieces_are_aligned_and_apart(pieces in proptest::collection::vec((0..300usize, 0..9u32), 1..40), bounded in any::<bool>()) {
        let arena = if bounded { Arena::bounded(4096).unwrap() } else { Arena::new() };
        let mut spans: Vec<HostSpan> = Vec::new();
        for (nbytes, shift) in pieces {
            let Ok(piece) = arena.allocate(nbytes, align(1 << shift)) else {
                prop_assert!(bounded);
                continue;
            };
            prop_assert_eq!(piece.as_ptr() as usize % (1 << shift), 0);
            prop_assert_eq!(piece.len(), nbytes);
            let span = HostSpan::of_mut(piece);
            prop_assert!(spans.iter().all(|other| !other.overlaps(span)));
            spans.push(span);
        }
    }
}
