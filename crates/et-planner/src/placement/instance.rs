//! The question: buffers with lifetimes, sizes, alignments and, where given, fixed offsets.

use thiserror::Error;

/// The largest number of bytes that all buffers of an instance may need together.
///
/// Far above any memory, and low enough that no sum in this crate can wrap.
const MAX_TOTAL_NBYTES: u64 = 1 << 60;

/// When a buffer is alive: at every time `t` with `lower <= t < upper`.
///
/// Lifetimes that only touch do not overlap. An empty one (`lower == upper`) overlaps nothing; its buffer needs only
/// to be inside of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lifetime {
    /// The first time at which the buffer is alive.
    pub lower: u64,
    /// The first time at which it is no longer alive.
    pub upper: u64,
}

impl Lifetime {
    /// The lifetime `lower <= t < upper`.
    pub const fn new(lower: u64, upper: u64) -> Self {
        Self { lower, upper }
    }

    /// Whether no time belongs to the lifetime.
    pub const fn is_empty(self) -> bool {
        self.lower >= self.upper
    }

    /// The number of times in it.
    pub const fn len(self) -> u64 {
        self.upper.saturating_sub(self.lower)
    }

    /// Whether some time belongs to both.
    pub fn overlaps(self, other: Self) -> bool {
        self.lower.max(other.lower) < self.upper.min(other.upper)
    }
}

/// One buffer of an [`Instance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// When it is alive.
    pub lifetime: Lifetime,
    /// Its size in bytes.
    pub nbytes: u64,
    /// Its offset is a multiple of this; at least 1, not necessarily a power of two.
    pub alignment: u64,
    /// The offset that it must have, if it may not be moved.
    pub fixed_offset: Option<u64>,
}

impl Buffer {
    /// A buffer that may lie at any offset.
    pub const fn new(lifetime: Lifetime, nbytes: u64) -> Self {
        Self {
            lifetime,
            nbytes,
            alignment: 1,
            fixed_offset: None,
        }
    }

    /// The same buffer at multiples of `alignment` only.
    #[must_use]
    pub const fn aligned(self, alignment: u64) -> Self {
        Self { alignment, ..self }
    }

    /// The same buffer at `offset` only.
    #[must_use]
    pub const fn fixed(self, offset: u64) -> Self {
        Self {
            fixed_offset: Some(offset),
            ..self
        }
    }

    /// Whether no other buffer can be in its way: no bytes, or never alive.
    pub(crate) const fn is_vacant(&self) -> bool {
        self.nbytes == 0 || self.lifetime.is_empty()
    }
}

/// One placement problem: the buffers of one arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    buffers: Vec<Buffer>,
    ids: Vec<String>,
}

impl Instance {
    /// The instance of these buffers, named by their position.
    ///
    /// # Errors
    ///
    /// [`InstanceError`] for a lifetime that ends before it begins, an alignment of 0, a fixed offset that is not
    /// aligned, two fixed buffers that collide, and sizes beyond 2^60 bytes together.
    pub fn new(buffers: Vec<Buffer>) -> Result<Self, InstanceError> {
        let ids = (0..buffers.len()).map(|index| index.to_string()).collect();
        Self::with_ids(buffers, ids)
    }

    /// The same, with names from a file. `ids` has one entry per buffer.
    pub(crate) fn with_ids(buffers: Vec<Buffer>, ids: Vec<String>) -> Result<Self, InstanceError> {
        debug_assert_eq!(buffers.len(), ids.len());
        for (index, buffer) in buffers.iter().enumerate() {
            check_buffer(index, buffer)?;
        }
        check_total(&buffers)?;
        check_fixed(&buffers)?;
        Ok(Self { buffers, ids })
    }

    /// The buffers, in input order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The names of the buffers, in the same order.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }
}

/// Why buffers do not make an instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// A lifetime that ends before it begins.
    #[error("buffer {index} lives from {lower} to {upper}, which is backwards")]
    BackwardLifetime {
        /// Position of the buffer.
        index: usize,
        /// Begin of its lifetime.
        lower: u64,
        /// End of its lifetime.
        upper: u64,
    },
    /// An alignment of 0.
    #[error("buffer {index} has alignment 0")]
    ZeroAlignment {
        /// Position of the buffer.
        index: usize,
    },
    /// A fixed offset that its own alignment forbids.
    #[error(
        "buffer {index} is fixed at {offset}, which is not a multiple of its alignment {alignment}"
    )]
    UnalignedFixedOffset {
        /// Position of the buffer.
        index: usize,
        /// The offset asked for.
        offset: u64,
        /// The alignment asked for.
        alignment: u64,
    },
    /// Two buffers fixed so that they overlap while both are alive.
    #[error("buffers {first} and {second} are fixed at overlapping bytes and alive together")]
    FixedCollision {
        /// Position of one buffer.
        first: usize,
        /// Position of the other.
        second: usize,
    },
    /// More bytes than this crate's arithmetic covers.
    #[error("the buffers with their alignments and fixed offsets need more than 2^60 bytes")]
    TooLarge,
}

fn check_buffer(index: usize, buffer: &Buffer) -> Result<(), InstanceError> {
    let Lifetime { lower, upper } = buffer.lifetime;
    if lower > upper {
        return Err(InstanceError::BackwardLifetime {
            index,
            lower,
            upper,
        });
    }
    if buffer.alignment == 0 {
        return Err(InstanceError::ZeroAlignment { index });
    }
    match buffer.fixed_offset {
        Some(offset) if !offset.is_multiple_of(buffer.alignment) => {
            let alignment = buffer.alignment;
            Err(InstanceError::UnalignedFixedOffset {
                index,
                offset,
                alignment,
            })
        }
        _ => Ok(()),
    }
}

/// Bounds every height that any algorithm here can reach: all buffers in a stack, above all fixed ones.
fn check_total(buffers: &[Buffer]) -> Result<(), InstanceError> {
    let sum = buffers.iter().try_fold(0_u64, |sum, buffer| {
        sum.checked_add(buffer.nbytes)?
            .checked_add(buffer.alignment)?
            .checked_add(buffer.fixed_offset.unwrap_or(0))
    });
    match sum {
        Some(sum) if sum <= MAX_TOTAL_NBYTES => Ok(()),
        _ => Err(InstanceError::TooLarge),
    }
}

fn check_fixed(buffers: &[Buffer]) -> Result<(), InstanceError> {
    let occupied = buffers.iter().enumerate().filter_map(|(index, buffer)| {
        let offset = buffer.fixed_offset.filter(|_| !buffer.is_vacant())?;
        Some((index, offset, buffer))
    });
    match super::plan::first_collision(occupied) {
        Some((first, second)) => Err(InstanceError::FixedCollision { first, second }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(lower: u64, upper: u64, nbytes: u64) -> Buffer {
        Buffer::new(Lifetime::new(lower, upper), nbytes)
    }

    #[test]
    fn touching_lifetimes_do_not_overlap() {
        assert!(!Lifetime::new(0, 2).overlaps(Lifetime::new(2, 4)));
        assert!(Lifetime::new(0, 3).overlaps(Lifetime::new(2, 4)));
        assert!(!Lifetime::new(1, 1).overlaps(Lifetime::new(0, 4)));
    }

    #[test]
    fn bad_buffers_are_refused() {
        let refused = |buffer| Instance::new(vec![buffer]).unwrap_err();
        assert_eq!(
            refused(buffer(2, 1, 4)),
            InstanceError::BackwardLifetime {
                index: 0,
                lower: 2,
                upper: 1
            }
        );
        assert_eq!(
            refused(buffer(0, 1, 4).aligned(0)),
            InstanceError::ZeroAlignment { index: 0 }
        );
        assert_eq!(
            refused(buffer(0, 1, 4).aligned(16).fixed(8)),
            InstanceError::UnalignedFixedOffset {
                index: 0,
                offset: 8,
                alignment: 16
            }
        );
        assert_eq!(refused(buffer(0, 1, u64::MAX)), InstanceError::TooLarge);
    }

    #[test]
    fn fixed_buffers_may_collide_only_at_different_times() {
        let at = |lower, upper, offset| buffer(lower, upper, 8).fixed(offset);
        assert!(Instance::new(vec![at(0, 2, 0), at(2, 4, 4)]).is_ok());
        assert_eq!(
            Instance::new(vec![at(0, 2, 0), at(1, 4, 4)]).unwrap_err(),
            InstanceError::FixedCollision {
                first: 0,
                second: 1
            }
        );
    }
}
