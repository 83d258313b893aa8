//! ExecuTorch's own planners, `naive` and `greedy`, with everything they know: pools, reserves, padding.
//!
//! Offsets and sizes are the same as theirs, byte for byte. Where they would stop on an assertion (alignments
//! below 16 can put a large buffer behind a smaller one) this goes on and opens a new object.

use std::collections::BTreeMap;

use thiserror::Error;

use super::greedy::lcm;
use super::instance::Lifetime;

/// The granule to which sizes are rounded before they are compared, whatever the alignment.
const SORT_GRANULE: u64 = 16;

/// The pool of a buffer that asks for none.
const DEFAULT_POOL: u32 = 1;

/// Which of ExecuTorch's planners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolPlanner {
    /// One buffer after the other, no reuse.
    Naive,
    /// Decreasing size, first object that is free at the time.
    Greedy,
}

/// A buffer as these planners see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolBuffer {
    /// When it is alive; ExecuTorch's inclusive pair `[first, last]` is `first..last + 1` here.
    pub lifetime: Lifetime,
    /// Its size in bytes, not rounded.
    pub nbytes: u64,
    /// The pool that it must be in, if any; at least 1.
    pub pool: Option<u32>,
}

/// How to plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Every size is rounded up to a multiple of this; at least 1.
    pub alignment: u64,
    /// Bytes at the start of each pool that are taken already, by pool number.
    pub reserve: Vec<u64>,
    /// Bytes added to each pool that is not empty (greedy only).
    pub extra_padding: u64,
    /// Whether a buffer may also be put above others that are alive in the same object (greedy only).
    pub allow_overlapping: bool,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            alignment: 16,
            reserve: Vec::new(),
            extra_padding: 0,
            allow_overlapping: true,
        }
    }
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The pool, from 1.
    pub pool: u32,
    /// The offset in the pool, in bytes.
    pub offset: u64,
}

/// The slots of all buffers, and what that takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolPlan {
    /// One slot per buffer, in input order.
    pub slots: Vec<Slot>,
    /// The size of each pool that is used or reserved, by its number, in bytes. Pool 1 is always there.
    pub sizes: BTreeMap<u32, u64>,
}

/// Why ExecuTorch's planners cannot plan buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Sizes cannot be rounded up to multiples of 0.
    #[error("the alignment is 0")]
    NoAlignment,
    /// Pool 0 is reserved.
    #[error("buffer {index} asks for pool 0, which is reserved")]
    ReservedPool {
        /// Position of the buffer.
        index: usize,
    },
    /// A sum of sizes does not fit 64 bits.
    #[error("the sizes of all buffers together do not fit 64 bits")]
    TooLarge,
}

/// Plans `buffers` the way ExecuTorch's planner of that name does.
///
/// # Errors
///
/// [`PoolError`]
pub fn plan_pools(
    planner: PoolPlanner,
    buffers: &[PoolBuffer],
    options: &PoolOptions,
) -> Result<PoolPlan, PoolError> {
    if options.alignment == 0 {
        return Err(PoolError::NoAlignment);
    }
    if let Some(index) = buffers.iter().position(|buffer| buffer.pool == Some(0)) {
        return Err(PoolError::ReservedPool { index });
    }
    let plan = match planner {
        PoolPlanner::Naive => naive(buffers, options),
        PoolPlanner::Greedy => greedy(buffers, options),
    };
    plan.ok_or(PoolError::TooLarge)
}

fn naive(buffers: &[PoolBuffer], options: &PoolOptions) -> Option<PoolPlan> {
    let reserve = (0..).zip(options.reserve.iter().copied());
    let mut sizes: BTreeMap<u32, u64> = [(DEFAULT_POOL, 0)].into();
    sizes.extend(reserve.skip(1));
    let mut slots = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let pool = buffer.pool.unwrap_or(DEFAULT_POOL);
        let size = sizes.entry(pool).or_default();
        slots.push(Slot {
            pool,
            offset: *size,
        });
        *size = size.checked_add(buffer.nbytes.checked_next_multiple_of(options.alignment)?)?;
    }
    Some(PoolPlan { slots, sizes })
}

fn greedy(buffers: &[PoolBuffer], options: &PoolOptions) -> Option<PoolPlan> {
    // Sizes that are multiples of the alignment keep offsets aligned.
    let padded = |buffer: &PoolBuffer| {
        Some(Item {
            lifetime: buffer.lifetime,
            nbytes: buffer.nbytes.checked_next_multiple_of(options.alignment)?,
            alignment: 1,
        })
    };
    let items = buffers.iter().map(padded).collect::<Option<Vec<_>>>()?;
    place_all(buffers, &items, options)
}

/// As `greedy` with one pool and nothing taken, but every offset is a multiple of the buffer's own alignment, and no size
/// is rounded. `None` when a sum of sizes wraps.
pub(super) fn greedy_each_aligned(buffers: &[PoolBuffer], alignments: &[u64]) -> Option<PoolPlan> {
    let pairs = buffers.iter().zip(alignments);
    let items: Vec<Item> = pairs
        .map(|(buffer, &alignment)| Item {
            lifetime: buffer.lifetime,
            nbytes: buffer.nbytes,
            alignment,
        })
        .collect();
    place_all(buffers, &items, &PoolOptions::default())
}

fn place_all(buffers: &[PoolBuffer], items: &[Item], options: &PoolOptions) -> Option<PoolPlan> {
    let mut pools: BTreeMap<u32, Vec<Object>> = BTreeMap::new();
    let mut places = vec![Place::default(); buffers.len()];
    for index in processing_order(buffers)? {
        let objects = pools
            .entry(buffers[index].pool.unwrap_or(DEFAULT_POOL))
            .or_default();
        places[index] = place(objects, items[index], options.allow_overlapping)?;
    }
    let mut sizes: BTreeMap<u32, u64> = [(DEFAULT_POOL, 0)].into();
    let mut starts = BTreeMap::new();
    for (&pool, objects) in &pools {
        let reserve = options.reserve.get(usize::try_from(pool).ok()?);
        let mut end = reserve.copied().unwrap_or(0);
        for (number, object) in objects.iter().enumerate() {
            end = end.checked_next_multiple_of(object.alignment)?;
            starts.insert((pool, number), end);
            end = end.checked_add(object.nbytes)?;
        }
        sizes.insert(pool, end.checked_add(options.extra_padding)?);
    }
    let slots = buffers.iter().zip(&places).map(|(buffer, place)| {
        let pool = buffer.pool.unwrap_or(DEFAULT_POOL);
        Slot {
            pool,
            offset: starts[&(pool, place.object)] + place.offset,
        }
    });
    Some(PoolPlan {
        slots: slots.collect(),
        sizes,
    })
}

/// Largest first, compared in whole granules; of equals the last comes first.
fn processing_order(buffers: &[PoolBuffer]) -> Option<Vec<usize>> {
    let keys: Option<Vec<u64>> = buffers
        .iter()
        .map(|buffer| buffer.nbytes.checked_next_multiple_of(SORT_GRANULE))
        .collect();
    let keys = keys?;
    let mut order: Vec<usize> = (0..buffers.len()).rev().collect();
    order.sort_by_key(|&index| std::cmp::Reverse(keys[index]));
    Some(order)
}

#[derive(Clone, Copy, Default)]
struct Place {
    object: usize,
    /// From the start of the object.
    offset: u64,
}

/// A buffer as it is placed.
#[derive(Clone, Copy)]
struct Item {
    lifetime: Lifetime,
    nbytes: u64,
    alignment: u64,
}

/// A stretch of a pool as long as the buffer that opened it. It never grows.
struct Object {
    nbytes: u64,
    /// Its start is a multiple of this, so that of all its members.
    alignment: u64,
    /// The times at which anything is alive here: disjoint, by begin.
    busy: BTreeMap<u64, u64>,
    members: Vec<(Lifetime, u64)>,
    lowest_end: u64,
}

impl Object {
    fn new(nbytes: u64) -> Self {
        Self {
            nbytes,
            alignment: 1,
            busy: BTreeMap::new(),
            members: Vec::new(),
            lowest_end: u64::MAX,
        }
    }

    fn is_free(&self, lifetime: Lifetime) -> bool {
        let before = self.busy.range(..lifetime.upper).next_back();
        before.is_none_or(|(_, &upper)| upper <= lifetime.lower)
    }

    /// The offset above everything that is alive at the time, if there is room.
    fn room_above(&self, item: Item) -> Option<u64> {
        let Item {
            lifetime,
            nbytes,
            alignment,
        } = item;
        if self.lowest_end.checked_add(nbytes)? > self.nbytes {
            return None;
        }
        let alive = self
            .members
            .iter()
            .filter(|(other, _)| other.overlaps(lifetime));
        let above = alive.map(|&(_, end)| end).max()?;
        let above = above.checked_next_multiple_of(alignment)?;
        (above > 0 && above.checked_add(nbytes)? <= self.nbytes).then_some(above)
    }

    fn add(&mut self, item: Item, offset: u64) -> Option<()> {
        let lifetime = item.lifetime;
        let end = offset.checked_add(item.nbytes)?;
        self.alignment = lcm(self.alignment, item.alignment)?;
        self.members.push((lifetime, end));
        self.lowest_end = self.lowest_end.min(end);
        if lifetime.is_empty() {
            return Some(());
        }
        let Lifetime {
            mut lower,
            mut upper,
        } = lifetime;
        // Unite with every stretch that it touches.
        while let Some((&from, &to)) = self.busy.range(..=upper).next_back()
            && to >= lower
        {
            self.busy.remove(&from);
            lower = lower.min(from);
            upper = upper.max(to);
        }
        self.busy.insert(lower, upper);
        Some(())
    }
}

fn place(objects: &mut Vec<Object>, item: Item, allow_overlapping: bool) -> Option<Place> {
    let fits = |object: &Object| object.nbytes >= item.nbytes && object.is_free(item.lifetime);
    let mut found = objects
        .iter()
        .position(fits)
        .map(|object| Place { object, offset: 0 });
    if found.is_none() && allow_overlapping {
        found = objects.iter().enumerate().find_map(|(number, object)| {
            let offset = object.room_above(item)?;
            Some(Place {
                object: number,
                offset,
            })
        });
    }
    let place = found.unwrap_or_else(|| {
        objects.push(Object::new(item.nbytes));
        Place {
            object: objects.len() - 1,
            offset: 0,
        }
    });
    objects[place.object].add(item, place.offset)?;
    Some(place)
}

#[cfg(test)]
mod tests;
