//! The two planners of the reference, for one arena.

use thiserror::Error;

use super::instance::{Buffer, Instance};
use super::plan::Plan;
use super::pools::{
    PoolBuffer, PoolOptions, PoolPlan, PoolPlanner, greedy_each_aligned, plan_pools,
};

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
    /// Sizes rounded up to the alignments of the buffers do not fit 64 bits.
    #[error("no offsets of 64 bits satisfy the alignments of all buffers at once")]
    TooLarge,
}

/// Every buffer after the one before it, nothing shared.
///
/// # Errors
///
/// [`GreedyError`]
pub fn naive(instance: &Instance) -> Result<Plan, GreedyError> {
    let buffers = without_fixed(instance)?;
    let plan = match common_alignment(buffers) {
        Some(alignment) => reference(PoolPlanner::Naive, buffers, alignment),
        None => one_after_the_other(instance),
    };
    plan.ok_or(GreedyError::TooLarge)
}

/// ExecuTorch's `greedy`: decreasing size, equal sizes in reverse order, each into the first object that is free.
///
/// Where all buffers have one alignment, as there, offsets are the same as there. Where they differ, each buffer gets its own
/// by the same rules, or [`naive`] is the answer where that takes less.
///
/// # Errors
///
/// [`GreedyError`]
pub fn greedy(instance: &Instance) -> Result<Plan, GreedyError> {
    let buffers = without_fixed(instance)?;
    let plan = match common_alignment(buffers) {
        Some(alignment) => reference(PoolPlanner::Greedy, buffers, alignment),
        None => {
            let alignments: Vec<u64> = buffers.iter().map(|buffer| buffer.alignment).collect();
            let greedy = greedy_each_aligned(&for_pools(buffers), &alignments).map(of_pools);
            let plans = greedy.into_iter().chain(one_after_the_other(instance));
            plans.min_by_key(Plan::height)
        }
    };
    plan.ok_or(GreedyError::TooLarge)
}

fn without_fixed(instance: &Instance) -> Result<&[Buffer], GreedyError> {
    let buffers = instance.buffers();
    let fixed = |buffer: &Buffer| buffer.fixed_offset.is_some();
    match buffers.iter().position(fixed) {
        Some(index) => Err(GreedyError::FixedOffset { index }),
        None => Ok(buffers),
    }
}

/// The alignment that all buffers have.
fn common_alignment(buffers: &[Buffer]) -> Option<u64> {
    let first = buffers.first().map_or(1, |buffer| buffer.alignment);
    let is_common = buffers.iter().all(|buffer| buffer.alignment == first);
    is_common.then_some(first)
}

fn reference(planner: PoolPlanner, buffers: &[Buffer], alignment: u64) -> Option<Plan> {
    let options = PoolOptions {
        alignment,
        ..PoolOptions::default()
    };
    // Instances have no pools and no alignment of 0, so what can be wrong is the size.
    plan_pools(planner, &for_pools(buffers), &options)
        .ok()
        .map(of_pools)
}

fn one_after_the_other(instance: &Instance) -> Option<Plan> {
    let mut end: u64 = 0;
    let offset = |buffer: &Buffer| {
        let offset = end.checked_next_multiple_of(buffer.alignment)?;
        end = offset.checked_add(buffer.nbytes)?;
        Some(offset)
    };
    let offsets = instance.buffers().iter().map(offset);
    let offsets = offsets.collect::<Option<Vec<_>>>()?;
    Some(Plan::of(instance, offsets))
}

fn for_pools(buffers: &[Buffer]) -> Vec<PoolBuffer> {
    let buffer = |buffer: &Buffer| PoolBuffer {
        lifetime: buffer.lifetime,
        nbytes: buffer.nbytes,
        pool: None,
    };
    buffers.iter().map(buffer).collect()
}

fn of_pools(plan: PoolPlan) -> Plan {
    let offsets = plan.slots.iter().map(|slot| slot.offset).collect();
    // The arena is the pool that the planner asks for, rounding included.
    Plan::new(offsets, plan.sizes[&1])
}

/// The least common multiple, if it is a number.
pub(super) fn lcm(a: u64, b: u64) -> Option<u64> {
    a.checked_mul(b / gcd(a, b))
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
    fn each_buffer_has_its_own_alignment() {
        let buffer = |nbytes| Buffer::new(Lifetime::new(0, 2), nbytes);
        let buffers = vec![buffer(5), buffer(7).aligned(4), buffer(3).aligned(6)];
        let instance = Instance::new(buffers).unwrap();
        let plan = naive(&instance).unwrap();
        assert_eq!((plan.offsets(), plan.height()), ([0, 8, 18].as_slice(), 21));
        assert_eq!(validate(&instance, &plan), Ok(()));
        assert_eq!(validate(&instance, &greedy(&instance).unwrap()), Ok(()));
    }

    #[test]
    fn mixed_alignments_take_less_than_one_for_all() {
        // Deterministic, unlike in size, time and alignment.
        let buffer = |index: u64| {
            let lower = index * 7 % 23;
            let lifetime = Lifetime::new(lower, lower + 1 + index % 9);
            Buffer::new(lifetime, 1 + index * 37 % 301).aligned(1 << (index % 10))
        };
        let mixed: Vec<Buffer> = (0..60).map(buffer).collect();
        let one: Vec<Buffer> = mixed.iter().map(|buffer| buffer.aligned(512)).collect();
        let [mixed, one] = [mixed, one].map(|buffers| Instance::new(buffers).unwrap());
        for planner in [naive, greedy] {
            let plan = planner(&mixed).unwrap();
            assert_eq!(validate(&mixed, &plan), Ok(()));
            assert!(plan.height() < planner(&one).unwrap().height());
        }
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
