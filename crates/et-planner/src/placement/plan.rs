//! The answer: an offset per buffer, and the check that trusts nobody.

use std::collections::BTreeMap;

use thiserror::Error;

use super::instance::{Buffer, Instance};

/// An offset for every buffer of an [`Instance`], in the same order.
///
/// A plan is a claim; [`validate`] says whether it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    offsets: Vec<u64>,
    height: u64,
}

impl Plan {
    /// A plan that claims these offsets in bytes and an arena of `height` bytes.
    pub fn new(offsets: Vec<u64>, height: u64) -> Self {
        Self { offsets, height }
    }

    /// The plan of these offsets, with the arena that they need.
    pub(crate) fn of(instance: &Instance, offsets: Vec<u64>) -> Self {
        let ends = instance.buffers().iter().zip(&offsets);
        let height = ends
            .map(|(buffer, offset)| end(buffer, *offset))
            .max()
            .unwrap_or(0);
        Self { offsets, height }
    }

    /// The offsets in bytes, one per buffer.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The size of the arena in bytes.
    pub fn height(&self) -> u64 {
        self.height
    }
}

/// Why a plan does not answer an instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Not one offset per buffer.
    #[error("the plan has {found} offsets for {expected} buffers")]
    Count {
        /// Buffers of the instance.
        expected: usize,
        /// Offsets of the plan.
        found: usize,
    },
    /// An offset that is not a multiple of the buffer's alignment.
    #[error("buffer {index} is at {offset}, which is not a multiple of {alignment}")]
    Unaligned {
        /// Position of the buffer.
        index: usize,
        /// Its offset in the plan.
        offset: u64,
        /// Its alignment.
        alignment: u64,
    },
    /// A fixed buffer that was moved.
    #[error("buffer {index} must be at {expected}, and is at {found}")]
    Moved {
        /// Position of the buffer.
        index: usize,
        /// Where it must be.
        expected: u64,
        /// Where the plan has it.
        found: u64,
    },
    /// A buffer that ends outside of the arena.
    #[error("buffer {index} is at {offset} with {nbytes} bytes in an arena of {height}")]
    OutOfArena {
        /// Position of the buffer.
        index: usize,
        /// Its offset in the plan.
        offset: u64,
        /// Its size in bytes.
        nbytes: u64,
        /// The arena that the plan claims.
        height: u64,
    },
    /// Two buffers that share bytes while both are alive.
    #[error("buffers {first} and {second} share bytes while both are alive")]
    Overlap {
        /// Position of one buffer.
        first: usize,
        /// Position of the other.
        second: usize,
    },
}

/// Checks that `plan` answers `instance`: every buffer aligned, where it was fixed, inside the arena (even one that
/// is never alive), and apart from all others that are alive at the same time.
///
/// It shares nothing with the algorithms that make plans.
///
/// # Errors
///
/// The first [`PlanError`] found.
pub fn validate(instance: &Instance, plan: &Plan) -> Result<(), PlanError> {
    let (expected, found) = (instance.buffers().len(), plan.offsets.len());
    if expected != found {
        return Err(PlanError::Count { expected, found });
    }
    for (index, (buffer, &offset)) in instance.buffers().iter().zip(&plan.offsets).enumerate() {
        check_place(index, buffer, offset, plan.height)?;
    }
    let placed = instance.buffers().iter().zip(&plan.offsets).enumerate();
    let occupied = placed
        .filter(|(_, (buffer, _))| !buffer.is_vacant())
        .map(|(index, (buffer, offset))| (index, *offset, buffer));
    match first_collision(occupied) {
        Some((first, second)) => Err(PlanError::Overlap { first, second }),
        None => Ok(()),
    }
}

fn check_place(index: usize, buffer: &Buffer, offset: u64, height: u64) -> Result<(), PlanError> {
    let Buffer {
        nbytes, alignment, ..
    } = *buffer;
    if !offset.is_multiple_of(alignment) {
        return Err(PlanError::Unaligned {
            index,
            offset,
            alignment,
        });
    }
    if let Some(expected) = buffer.fixed_offset.filter(|&expected| expected != offset) {
        return Err(PlanError::Moved {
            index,
            expected,
            found: offset,
        });
    }
    match offset.checked_add(nbytes) {
        Some(end) if end <= height => Ok(()),
        _ => Err(PlanError::OutOfArena {
            index,
            offset,
            nbytes,
            height,
        }),
    }
}

/// The first two buffers, in time, that share bytes while alive. None of them may be vacant, and no end may wrap.
pub(super) fn first_collision<'a>(
    placed: impl Iterator<Item = (usize, u64, &'a Buffer)>,
) -> Option<(usize, usize)> {
    let mut events = Vec::new();
    for (index, offset, buffer) in placed {
        let end = end(buffer, offset);
        // At one time, ends sort before begins: lifetimes that touch may share bytes.
        events.push((buffer.lifetime.upper, false, index, offset, end));
        events.push((buffer.lifetime.lower, true, index, offset, end));
    }
    events.sort_unstable();
    let mut alive: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for (_, begins, index, offset, end) in events {
        if !begins {
            alive.remove(&offset);
            continue;
        }
        let below = alive.range(..end).next_back();
        if let Some((_, &(_, other))) = below.filter(|(_, (top, _))| *top > offset) {
            return Some((other.min(index), other.max(index)));
        }
        alive.insert(offset, (end, index));
    }
    None
}

fn end(buffer: &Buffer, offset: u64) -> u64 {
    offset.saturating_add(buffer.nbytes)
}

#[cfg(test)]
mod tests {
    use super::super::instance::Lifetime;
    use super::*;

    fn instance() -> Instance {
        Instance::new(vec![
            Buffer::new(Lifetime::new(0, 2), 8),
            Buffer::new(Lifetime::new(1, 3), 8).aligned(4),
            Buffer::new(Lifetime::new(2, 4), 8).fixed(0),
            Buffer::new(Lifetime::new(0, 4), 0),
        ])
        .unwrap()
    }

    #[track_caller]
    fn check(offsets: [u64; 4], height: u64, expected: Result<(), PlanError>) {
        assert_eq!(
            validate(&instance(), &Plan::new(offsets.to_vec(), height)),
            expected
        );
    }

    #[test]
    fn a_right_plan_passes() {
        check([0, 8, 0, 3], 16, Ok(()));
    }

    #[test]
    fn each_wrong_plan_is_named() {
        check(
            [0, 10, 0, 0],
            32,
            Err(PlanError::Unaligned {
                index: 1,
                offset: 10,
                alignment: 4,
            }),
        );
        check(
            [0, 8, 8, 0],
            16,
            Err(PlanError::Moved {
                index: 2,
                expected: 0,
                found: 8,
            }),
        );
        check(
            [0, 4, 0, 0],
            16,
            Err(PlanError::Overlap {
                first: 0,
                second: 1,
            }),
        );
        let outside = PlanError::OutOfArena {
            index: 1,
            offset: 8,
            nbytes: 8,
            height: 15,
        };
        check([0, 8, 0, 0], 15, Err(outside));
        let wraps = PlanError::OutOfArena {
            index: 0,
            offset: u64::MAX,
            nbytes: 8,
            height: 16,
        };
        check([u64::MAX, 8, 0, 0], 16, Err(wraps));
    }

    #[test]
    fn plans_of_another_length_are_refused() {
        let plan = Plan::new(vec![0], 8);
        assert_eq!(
            validate(&instance(), &plan),
            Err(PlanError::Count {
                expected: 4,
                found: 1
            })
        );
    }

    #[test]
    fn an_overlap_with_a_distant_lower_neighbour_is_found() {
        let buffers = vec![
            Buffer::new(Lifetime::new(0, 9), 100),
            Buffer::new(Lifetime::new(1, 2), 10),
            Buffer::new(Lifetime::new(3, 4), 10),
        ];
        let instance = Instance::new(buffers).unwrap();
        let plan = Plan::new(vec![0, 100, 50], 110);
        assert_eq!(
            validate(&instance, &plan),
            Err(PlanError::Overlap {
                first: 0,
                second: 2
            })
        );
    }
}
