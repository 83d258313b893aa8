//! The two planners of the reference, for one arena.

use thiserror::Error;

use super::instance::{Buffer, Instance};
use super::plan::Plan;
use super::pools::{Algorithm, PoolBuffer, PoolOptions, plan_pools};

/// Why the reference's planners cannot plan an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GreedyError {
    /// They have no notion of a fixed offset.
    #[error("buffer {index} has a fixed offset, which naive and greedy cannot respect")]
    FixedOffset {
        /// Position of the buffer.
        index: usize,
    },
    /// Sizes rounded up to the common alignment of all buffers do not fit 64 bits.
    #[error("no offsets of 64 bits satisfy the alignments of all buffers at once")]
    TooLarge,
}

/// Every buffer after the one before it, nothing shared.
///
/// # Errors
///
/// [`GreedyError`]
pub fn naive(instance: &Instance) -> Result<Plan, GreedyError> {
    plan(instance, Algorithm::Naive)
}

/// ExecuTorch's `greedy`: decreasing size, equal sizes in reverse order, each into the first object that is free.
///
/// Like there, one alignment holds for all buffers: the least common multiple of theirs.
///
/// # Errors
///
/// [`GreedyError`]
pub fn greedy(instance: &Instance) -> Result<Plan, GreedyError> {
    plan(instance, Algorithm::Greedy)
}

fn plan(instance: &Instance, algorithm: Algorithm) -> Result<Plan, GreedyError> {
    let buffers = instance.buffers();
    if let Some(index) = buffers
        .iter()
        .position(|buffer| buffer.fixed_offset.is_some())
    {
        return Err(GreedyError::FixedOffset { index });
    }
    let alignment = common_alignment(buffers).ok_or(GreedyError::TooLarge)?;
    let buffers: Vec<PoolBuffer> = buffers
        .iter()
        .map(
            |&Buffer {
                 lifetime, nbytes, ..
             }| PoolBuffer {
                lifetime,
                nbytes,
                pool: None,
            },
        )
        .collect();
    let options = PoolOptions {
        alignment,
        ..PoolOptions::default()
    };
    let plan = plan_pools(algorithm, &buffers, &options).ok_or(GreedyError::TooLarge)?;
    let offsets = plan.slots.iter().map(|slot| slot.offset).collect();
    // The arena is the pool that the planner asks for, rounding included.
    Ok(Plan::new(offsets, plan.sizes[1]))
}

fn common_alignment(buffers: &[Buffer]) -> Option<u64> {
    buffers.iter().try_fold(1_u64, |common, buffer| {
        common.checked_mul(buffer.alignment / gcd(common, buffer.alignment))
    })
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::super::instance::Lifetime;
    use super::super::plan::validate;
    use super::*;

    #[test]
    fn one_alignment_holds_for_all() {
        let buffer = |nbytes| Buffer::new(Lifetime::new(0, 2), nbytes);
        let buffers = vec![buffer(5), buffer(7).aligned(4), buffer(3).aligned(6)];
        let instance = Instance::new(buffers).unwrap();
        let plan = naive(&instance).unwrap();
        assert_eq!(
            (plan.offsets(), plan.height()),
            ([0, 12, 24].as_slice(), 36)
        );
        assert_eq!(validate(&instance, &plan), Ok(()));
        assert_eq!(validate(&instance, &greedy(&instance).unwrap()), Ok(()));
    }

    #[test]
    fn fixed_offsets_are_refused() {
        let instance = Instance::new(vec![Buffer::new(Lifetime::new(0, 2), 8).fixed(0)]).unwrap();
        assert_eq!(naive(&instance), Err(GreedyError::FixedOffset { index: 0 }));
        assert_eq!(
            greedy(&instance),
            Err(GreedyError::FixedOffset { index: 0 })
        );
    }
}
