//! Scratch memory: handed out piece by piece, taken back all at once.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
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
    #[inline]
    pub fn reset(&mut self) {
        if self.blocks.get_mut().len() > 1 {
            self.merge();
        }
        self.cursor.set(0);
        self.used.set(0);
    }

    /// One block for all, which are given back before: the most that the host must have is not more for it. Where the host cannot,
    /// the arena grows again next time.
    #[cold]
    fn merge(&mut self) {
        let total = self.capacity();
        let blocks = self.blocks.get_mut();
        blocks.clear();
        blocks.extend(HostBuffer::zeroed(total, Alignment::HOST));
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
            limit: self.limit,
        }
    }
}

/// How far into a block at address `base` a piece starts, if the first `cursor` bytes are taken.
fn start_of_piece(base: u64, cursor: u64, alignment: Alignment) -> Option<u64> {
    let aligned = alignment.round_up(base.checked_add(cursor)?)?;
    aligned.checked_sub(base)
}

/// The arena has no room: it may not grow, or the host has no more memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for {nbytes} bytes of scratch memory: {}", Why(self))]
#[non_exhaustive]
pub struct ArenaError {
    /// Bytes asked for.
    pub nbytes: usize,
    /// Bytes in use.
    pub used: u64,
    /// Bytes of the arena.
    pub capacity: u64,
    /// Bytes that it may have at most; without a limit it is the host that has no more.
    pub limit: Option<u64>,
}

/// What an [`ArenaError`] says of the cause.
struct Why<'a>(&'a ArenaError);

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArenaError {
            used,
            capacity,
            limit,
            ..
        } = self.0;
        match limit {
            Some(_) => write!(f, "{used} of {capacity} bytes are in use"),
            None => write!(f, "the host has not enough memory, {used} bytes are in use"),
        }
    }
}
