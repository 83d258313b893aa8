//! Scratch memory: handed out piece by piece, taken back all at once.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use core::slice;

use et_device::Alignment;

use crate::{HostBuffer, HostSpan, MemoryError};

/// A bump allocator on the host.
///
/// Pieces are cut off a block one after the other. When the block is full another is added, and the next
/// [`reset`](Arena::reset) replaces them by one that holds everything: after a few rounds of the same work the arena
/// allocates nothing any more.
#[derive(Debug, Default)]
pub struct Arena {
    blocks: RefCell<Vec<HostBuffer>>,
    /// Bytes used of the last block.
    cursor: Cell<usize>,
    /// Bytes used of all blocks, padding included.
    used: Cell<u64>,
    high_water: Cell<u64>,
    limit: Option<u64>,
}

impl Arena {
    /// An empty arena that grows at need.
    pub const fn new() -> Self {
        Self {
            blocks: RefCell::new(Vec::new()),
            cursor: Cell::new(0),
            used: Cell::new(0),
            high_water: Cell::new(0),
            limit: None,
        }
    }

    /// An arena with a block of `nbytes` bytes, that never holds more than that.
    ///
    /// # Errors
    /// [`MemoryError::HostOutOfMemory`].
    pub fn bounded(nbytes: u64) -> Result<Self, MemoryError> {
        let arena = Self {
            limit: Some(nbytes),
            ..Self::new()
        };
        arena
            .blocks
            .borrow_mut()
            .push(HostBuffer::zeroed(nbytes, Alignment::HOST)?);
        Ok(arena)
    }

    /// Makes sure that `nbytes` bytes can be handed out before the arena has to grow.
    ///
    /// Takes all pieces back.
    ///
    /// # Errors
    /// [`MemoryError::HostOutOfMemory`], or [`MemoryError::ArenaLimit`] if the arena is [bounded](Self::bounded) and may
    /// never hold so much. It holds what it held then.
    pub fn reserve(&mut self, nbytes: u64) -> Result<(), MemoryError> {
        if let Some(limit) = self.limit.filter(|&limit| nbytes > limit) {
            return Err(MemoryError::ArenaLimit { nbytes, limit });
        }
        self.reset();
        if self.capacity() < nbytes {
            let block = HostBuffer::zeroed(nbytes, Alignment::HOST)?;
            *self.blocks.get_mut() = alloc::vec![block];
        }
        Ok(())
    }

    /// A piece of `nbytes` bytes at a multiple of `alignment`. What it holds is unspecified (but initialised).
    ///
    /// # Errors
    /// [`ArenaError`] if the arena may not grow so far, or cannot. Nothing is used up then.
    #[expect(
        clippy::mut_from_ref,
        reason = "every piece is handed out once between two resets, which take &mut self"
    )]
    pub fn allocate(&self, nbytes: usize, alignment: Alignment) -> Result<&mut [u8], ArenaError> {
        let span = match self.bump(nbytes, alignment) {
            Some(span) => span,
            None => {
                self.grow(nbytes, alignment)?;
                self.bump(nbytes, alignment)
                    .ok_or_else(|| self.full(nbytes))?
            }
        };
        // SAFETY: `bump` cut the bytes off a live, initialised block and moved the cursor past them, so no other piece
        // overlaps; blocks are only dropped or reused by methods that take `&mut self`, which end this borrow.
        Ok(unsafe { slice::from_raw_parts_mut(span.base().as_ptr(), span.len()) })
    }

    /// Room for `len` values of type `T`, at a multiple of `alignment` and of what the type needs. Values that are put
    /// there are never dropped.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); also if the size in bytes is no number.
    #[expect(
        clippy::mut_from_ref,
        reason = "every piece is handed out once between two resets, which take &mut self"
    )]
    pub fn allocate_list<T>(
        &self,
        len: usize,
        alignment: Alignment,
    ) -> Result<&mut [MaybeUninit<T>], ArenaError> {
        let too_large = || self.full(usize::MAX);
        let nbytes = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
        let natural = u64::try_from(align_of::<T>()).ok().and_then(Alignment::new);
        let alignment = natural.ok_or_else(too_large)?.max(alignment);
        let bytes = self.allocate(nbytes, alignment)?;
        let base = bytes.as_mut_ptr().cast::<MaybeUninit<T>>();
        // SAFETY: `bytes` is `len` times the size of `T`, aligned for `T` as asked just above, and borrowed for as long as
        // the list, since the borrow is passed on. `MaybeUninit` may hold any bytes.
        Ok(unsafe { slice::from_raw_parts_mut(base, len) })
    }

    /// Takes all pieces back.
    pub fn reset(&mut self) {
        let blocks = self.blocks.get_mut();
        if blocks.len() > 1 {
            let total = blocks
                .iter()
                .map(|b| u64::try_from(b.nbytes()).unwrap_or(u64::MAX))
                .fold(0, u64::saturating_add);
            // Merge; where the host cannot, keep the largest block and grow again next time.
            match HostBuffer::zeroed(total, Alignment::HOST) {
                Ok(merged) => *blocks = alloc::vec![merged],
                Err(_) => {
                    blocks.sort_by_key(HostBuffer::nbytes);
                    blocks.drain(..blocks.len().saturating_sub(1));
                }
            }
        }
        self.cursor.set(0);
        self.used.set(0);
    }

    /// Bytes handed out since the last reset, padding included.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// The largest [`used`](Self::used) so far.
    pub fn high_water(&self) -> u64 {
        self.high_water.get()
    }

    /// Bytes of all blocks.
    pub fn capacity(&self) -> u64 {
        let blocks = self.blocks.borrow();
        blocks
            .iter()
            .map(|b| u64::try_from(b.nbytes()).unwrap_or(u64::MAX))
            .fold(0, u64::saturating_add)
    }

    /// Cuts a piece off the last block, if it has room.
    fn bump(&self, nbytes: usize, alignment: Alignment) -> Option<HostSpan> {
        let blocks = self.blocks.borrow();
        let block = blocks.last()?.span();
        let base = u64::try_from(block.base().addr().get()).ok()?;
        let cursor = u64::try_from(self.cursor.get()).ok()?;
        let start = usize::try_from(start_of_piece(base, cursor, alignment)?).ok()?;
        let piece = block.subspan(start, nbytes)?;
        let end = start.checked_add(nbytes)?;
        let taken = u64::try_from(end.checked_sub(self.cursor.get())?).ok()?;
        self.cursor.set(end);
        self.used.set(self.used.get().saturating_add(taken));
        self.high_water
            .set(self.high_water.get().max(self.used.get()));
        Some(piece)
    }

    /// Adds a block with room for the piece.
    fn grow(&self, nbytes: usize, alignment: Alignment) -> Result<(), ArenaError> {
        let wanted = u64::try_from(nbytes)
            .ok()
            .and_then(|n| n.checked_add(alignment.get()));
        let wanted = wanted.ok_or_else(|| self.full(nbytes))?;
        if self.limit.is_some() {
            return Err(self.full(nbytes));
        }
        let block = HostBuffer::zeroed(wanted.max(self.capacity()), Alignment::HOST)
            .map_err(|_| self.full(nbytes))?;
        self.blocks.borrow_mut().push(block);
        self.cursor.set(0);
        Ok(())
    }

    fn full(&self, nbytes: usize) -> ArenaError {
        ArenaError {
            nbytes,
            used: self.used(),
            capacity: self.capacity(),
        }
    }
}

/// How far into a block at address `base` a piece starts, if the first `cursor` bytes are taken.
fn start_of_piece(base: u64, cursor: u64, alignment: Alignment) -> Option<u64> {
    let aligned = alignment.round_up(base.checked_add(cursor)?)?;
    aligned.checked_sub(base)
}

/// The arena has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for {nbytes} bytes of scratch memory: {used} of {capacity} bytes are in use")]
pub struct ArenaError {
    /// Bytes asked for.
    pub nbytes: usize,
    /// Bytes in use.
    pub used: u64,
    /// Bytes of the arena.
    pub capacity: u64,
}

#[cfg(test)]
mod tests {
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
                capacity: 10
            }
        );
        assert!(arena.allocate(9, Alignment::ONE).is_ok());
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
        if cfg!(miri) {
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
}
