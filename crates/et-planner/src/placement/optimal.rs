//! The smallest arena, or any within a capacity: fast plans first, then search, always with what is proved.

use std::ops::ControlFlow;
use std::rc::Rc;

use super::best_fit::{Order, best_fit, stack};
use super::bound::max_live_load;
use super::columns::{Columns, Lists};
use super::decompose::{Block, Decomposition};
use super::greedy::greedy;
use super::instance::Instance;
use super::limits::{Limits, Meter, Progress, Stop};
use super::plan::{Plan, validate};
use super::portfolio::{dives, sweep};
use super::search::{Outcome, Search};

/// Lists longer than this (entries per block) are not made, and the block is not searched.
const MOST_ENTRIES: usize = 1 << 25;

/// Blocks of so many items take long to search even once.
const LARGE: u64 = 600;

/// The best plan that a search found, and what it proved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Solution {
    /// The plan; [`validate`] accepts it.
    pub plan: Plan,
    /// No plan has an arena smaller than this, in bytes.
    pub lower_bound: u64,
    /// Nodes of the search tree; 0 if the fast plans were enough.
    pub nodes: u64,
    /// Why the search ended, if it ended without a proof.
    pub stopped: Option<Stop>,
}

impl Solution {
    /// The plan of an algorithm that does not search.
    pub(crate) fn unsearched(plan: Plan, lower_bound: u64) -> Self {
        Self {
            plan,
            lower_bound,
            nodes: 0,
            stopped: None,
        }
    }

    /// Whether no plan has a smaller arena.
    pub fn is_proved(&self) -> bool {
        self.plan.height() <= self.lower_bound
    }

    /// The bytes by which a better plan could be smaller; 0 if this one is proved best.
    pub fn gap(&self) -> u64 {
        self.plan.height().saturating_sub(self.lower_bound)
    }
}

/// What a search for a plan within a capacity showed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fit {
    /// There is one.
    Fits(Solution),
    /// There is none: the lower bound of this best plan found is more than the capacity.
    Impossible(Solution),
    /// Neither a plan nor a proof. The best plan found is larger than the capacity.
    Unknown(Solution),
}

/// Makes the arena as small as it finds within `limits`.
///
/// The same on every machine and every day unless `limits` has a time. Never larger than
/// [`greedy`](super::greedy()) makes it.
pub fn minimise(instance: &Instance, limits: &Limits) -> Solution {
    minimise_with(instance, limits, &mut |_| ControlFlow::Continue(()))
}

/// The same; `listener` hears of each better plan, each better bound, and every few hundred nodes, and may end the
/// search.
pub fn minimise_with(
    instance: &Instance,
    limits: &Limits,
    listener: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Solution {
    solve(instance, None, limits, listener)
}

/// Looks for any plan within `capacity` bytes.
pub fn fit(instance: &Instance, capacity: u64, limits: &Limits) -> Fit {
    fit_with(instance, capacity, limits, &mut |_| {
        ControlFlow::Continue(())
    })
}

/// The same; `listener` as in [`minimise_with`].
pub fn fit_with(
    instance: &Instance,
    capacity: u64,
    limits: &Limits,
    listener: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Fit {
    let solution = solve(instance, Some(capacity), limits, listener);
    if solution.plan.height() <= capacity {
        Fit::Fits(solution)
    } else if solution.lower_bound > capacity {
        Fit::Impossible(solution)
    } else {
        Fit::Unknown(solution)
    }
}

/// Searches until the arena is at most `enough` bytes or proved to need more, or else until it is proved best.
fn solve(
    instance: &Instance,
    enough: Option<u64>,
    limits: &Limits,
    listener: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Solution {
    let mut arena = Arena::new(instance, enough);
    let mut meter = Meter::new(limits.clone(), listener);
    let stopped = arena.improve(&mut meter).err();
    let mut solution = arena.solution(instance, meter.spent(), stopped);
    if !solution.is_proved()
        && let Ok(greedy) = greedy(instance)
        && greedy.height() < solution.plan.height()
    {
        solution.plan = greedy;
    }
    debug_assert_eq!(validate(instance, &solution.plan), Ok(()));
    solution
}

/// A block with the best offsets found so far, in units above its base.
struct Part {
    block: Rc<Block>,
    members: Option<Rc<Lists>>,
    neighbours: Option<Rc<Lists>>,
    offsets: Vec<u64>,
    height: u64,
    /// No plan of the block is lower.
    bound: u64,
}

struct Arena {
    unit: u64,
    /// Low enough, in units, if anything but the lowest is.
    enough: Option<u64>,
    settled: Vec<(usize, u64)>,
    settled_height: u64,
    parts: Vec<Part>,
}

impl Arena {
    fn new(instance: &Instance, enough: Option<u64>) -> Self {
        let Decomposition {
            unit,
            blocks,
            settled,
            settled_height,
        } = Decomposition::new(instance);
        let enough = enough.map(|nbytes| nbytes / unit);
        let lowest = (max_live_load(instance) / unit).max(enough.unwrap_or(0));
        let parts = blocks
            .into_iter()
            .map(|block| Part::new(block, lowest))
            .collect();
        Self {
            unit,
            enough,
            settled,
            settled_height,
            parts,
        }
    }

    fn height(&self) -> u64 {
        let tops = self.parts.iter().map(|part| part.block.base + part.height);
        tops.max().unwrap_or(0).max(self.settled_height)
    }

    fn bound(&self) -> u64 {
        let bounds = self.parts.iter().map(|part| part.block.base + part.bound);
        bounds.max().unwrap_or(0).max(self.settled_height)
    }

    /// A height that needs no improvement: what is enough, or what cannot be beaten.
    fn goal(&self) -> u64 {
        self.bound().max(self.enough.unwrap_or(0))
    }

    fn is_done(&self) -> bool {
        self.height() <= self.goal() || self.enough.is_some_and(|enough| self.bound() > enough)
    }

    fn report(&self, meter: &mut Meter<'_>) -> Result<(), Stop> {
        meter.report(self.height() * self.unit, self.bound() * self.unit)
    }

    fn improve(&mut self, meter: &mut Meter<'_>) -> Result<(), Stop> {
        self.report(meter)?;
        let mut stopped = Ok(());
        for number in 0..self.parts.len() {
            if self.is_done() {
                return Ok(());
            }
            // A block that is low enough already is looked at only if another proves that it must be lower.
            let part = &self.parts[number];
            if part.block.base + part.height <= self.goal() {
                continue;
            }
            match self.improve_part(number, meter) {
                Err(Stop::TooLarge) => stopped = Err(Stop::TooLarge),
                other => other?,
            }
        }
        stopped
    }

    /// Searches one block, deeper in each round, until it is as low as the goal.
    fn improve_part(&mut self, number: usize, meter: &mut Meter<'_>) -> Result<(), Stop> {
        let part = &self.parts[number];
        let block = Rc::clone(&part.block);
        let (Some(members), Some(neighbours)) = (part.members.clone(), part.neighbours.clone())
        else {
            return Err(Stop::TooLarge);
        };
        let mut search = Search::new(&block.columns, &members, &neighbours);
        self.dive(number, &mut search, meter)?;
        for round in 0.. {
            let target = self.target(number);
            if self.is_low(number) || self.attempt(number, &mut search, target, round, meter)? {
                return Ok(());
            }
            self.bisect(number, &mut search, round, meter)?;
        }
        Ok(())
    }

    /// Lowers the plan of a block by going down the tree without much of a way back. For large blocks, and where the goal may
    /// be out of reach, so that there is something to show whenever the search ends.
    fn dive(
        &mut self,
        number: usize,
        search: &mut Search<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<(), Stop> {
        if search.item_count() < LARGE && self.enough.is_some() {
            return Ok(());
        }
        for rule in dives() {
            let capacity = self.parts[number].height - 1;
            if self.is_low(number) {
                break;
            }
            let share = 2 * search.item_count();
            if let Outcome::Found(offsets) = search.run(capacity, &rule, share, meter)? {
                self.parts[number].accept(offsets);
            }
            self.report(meter)?;
        }
        Ok(())
    }

    /// How low a block must be to reach the goal.
    fn target(&self, number: usize) -> u64 {
        self.goal().saturating_sub(self.parts[number].block.base)
    }

    fn is_low(&self, number: usize) -> bool {
        self.parts[number].height <= self.target(number) || self.is_done()
    }

    /// Between the goal and the best height, halves the distance as long as that succeeds.
    fn bisect(
        &mut self,
        number: usize,
        search: &mut Search<'_>,
        round: u32,
        meter: &mut Meter<'_>,
    ) -> Result<(), Stop> {
        if self.enough.is_some() {
            return Ok(());
        }
        let mut low = self.target(number);
        while !self.is_low(number) {
            let high = self.parts[number].height;
            let capacity = low.max(self.target(number)).midpoint(high - 1);
            if capacity <= low || capacity >= high {
                break;
            }
            if !self.attempt(number, search, capacity, round, meter)? {
                low = capacity;
            }
        }
        Ok(())
    }

    /// One sweep at one capacity. Whether the block is now as low as the goal.
    fn attempt(
        &mut self,
        number: usize,
        search: &mut Search<'_>,
        capacity: u64,
        round: u32,
        meter: &mut Meter<'_>,
    ) -> Result<bool, Stop> {
        search.follow(&self.parts[number].offsets);
        let outcome = sweep(search, capacity, round, meter)?;
        let part = &mut self.parts[number];
        match outcome {
            Outcome::Found(offsets) => part.accept(offsets),
            Outcome::Impossible(least) => part.bound = part.bound.max(least.min(part.height)),
            Outcome::Open => {}
        }
        self.report(meter)?;
        Ok(self.is_low(number))
    }

    fn solution(self, instance: &Instance, nodes: u64, stopped: Option<Stop>) -> Solution {
        let mut offsets = vec![0; instance.buffers().len()];
        for &(index, offset) in &self.settled {
            offsets[index] = offset * self.unit;
        }
        for part in &self.parts {
            for (item, offset) in part.block.columns.items.iter().zip(&part.offsets) {
                offsets[item.index] = (part.block.base + offset) * self.unit;
            }
        }
        for (offset, buffer) in offsets.iter_mut().zip(instance.buffers()) {
            // Where an empty buffer is fixed need not be a whole number of units.
            *offset = buffer.fixed_offset.unwrap_or(*offset);
        }
        // Buffers that are never alive are in no block.
        let lower_bound = (self.bound() * self.unit).max(max_live_load(instance));
        let plan = Plan::of(instance, offsets);
        Solution {
            plan,
            lower_bound,
            nodes,
            stopped,
        }
    }
}

impl Part {
    /// The block with the best of the fast plans. Stops at one that keeps below `enough` in all.
    fn new(block: Block, enough: u64) -> Self {
        let columns = &block.columns;
        let members = columns.members(MOST_ENTRIES);
        let neighbours = columns.neighbours(MOST_ENTRIES);
        let bound = columns.bound();
        let (mut offsets, mut height) = (Vec::new(), u64::MAX);
        for order in Order::ALL {
            if height <= bound || height.saturating_add(block.base) <= enough {
                break;
            }
            let order = order.sort(columns);
            let candidate = match &neighbours {
                Some(neighbours) => best_fit(columns, neighbours, &order),
                None => stack(columns, &order),
            };
            let reached = reach(columns, &candidate);
            if reached < height {
                (offsets, height) = (candidate, reached);
            }
        }
        Self {
            block: Rc::new(block),
            members: members.map(Rc::new),
            neighbours: neighbours.map(Rc::new),
            offsets,
            height,
            bound,
        }
    }

    fn accept(&mut self, offsets: Vec<u64>) {
        let height = reach(&self.block.columns, &offsets);
        if height < self.height {
            (self.offsets, self.height) = (offsets, height);
        }
    }
}

/// The height that offsets need.
fn reach(columns: &Columns, offsets: &[u64]) -> u64 {
    let ends = columns
        .items
        .iter()
        .zip(offsets)
        .map(|(item, offset)| offset + item.size);
    ends.max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
