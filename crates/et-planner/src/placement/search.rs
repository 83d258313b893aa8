//! Exact search: is there a plan of these items within a capacity?
//!
//! Bytes grow upwards, columns stand side by side. A partial plan is a skyline: each column has a *floor*, and all
//! that is not yet placed lies above it. A *valley* is a run of columns of one floor between higher ones. Items that
//! could start on a valley's floor lie inside of the valley, so for each of its columns the cases are few: one of
//! those items starts right here, or nothing does and the floor of this one column rises to the next level at which
//! anything could start. Every plan that is pushed down as far as it goes is one path of such cases; a plan that is
//! not has a pushed-down one that is no higher. Failure of all cases is therefore a proof.
//!
//! What makes it fast is cutting early, and choosing the valley and column with few cases first:
//!
//! - each column must take what is left of it above its floor; counting at which height each of those could start
//!   at the earliest gives more;
//! - a column on whose floor nothing can start rises at once;
//! - a gap that an unplaced item could drop into is never left behind;
//! - of items that are equal in all respects the first goes first;
//! - where nothing unplaced spans a boundary between columns, both sides are solved alone;
//! - a skyline that failed once is recognised by its hash when it comes back. The hash has 128 bits: two skylines
//!   that matter will not share one in any number of nodes that can be counted.

mod frame;
mod rule;
mod skyline;
mod tally;

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use self::frame::{Case, Choice, Frames};
pub(super) use self::rule::{Pick, Prefer, Rule};
use self::skyline::Skyline;
use super::columns::{Columns, Lists};
use super::limits::{Meter, Stop};

/// Failed skylines that are remembered; all are forgotten when there are more.
const MOST_REMEMBERED: usize = 1 << 20;

/// What a run of the search showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A plan: the offset of each item.
    Found(Vec<u64>),
    /// There is no plan within the capacity, nor within anything less than this height.
    Impossible(u64),
    /// The run's own share of nodes was spent.
    Open,
}

/// The search over one block.
pub(super) struct Search<'a> {
    columns: &'a Columns,
    skyline: Skyline<'a>,
    frames: Frames,
    failed: HashSet<u128, BuildHasherDefault<KeepHash>>,
    capacity: u64,
}

impl<'a> Search<'a> {
    pub(super) fn new(columns: &'a Columns, members: &'a Lists, neighbours: &'a Lists) -> Self {
        let skyline = Skyline::new(columns, members, neighbours);
        let failed = HashSet::default();
        Self {
            columns,
            skyline,
            frames: Frames::default(),
            failed,
            capacity: 0,
        }
    }

    pub(super) fn item_count(&self) -> u64 {
        self.columns.items.len() as u64
    }

    /// Takes a plan as the one that rules may follow.
    pub(super) fn follow(&mut self, offsets: &[u64]) {
        self.skyline.set_guide(offsets);
    }

    /// Looks for a plan within `capacity`, for at most `share` nodes.
    pub(super) fn run(
        &mut self,
        capacity: u64,
        rule: &Rule,
        share: u64,
        meter: &mut Meter<'_>,
    ) -> Result<Outcome, Stop> {
        if capacity != self.capacity {
            // Failures are failures at one capacity only.
            self.failed.clear();
            self.capacity = capacity;
        }
        self.frames.clear();
        self.skyline.restart(capacity);
        let outcome = self.walk(rule, share, meter);
        self.skyline.undo(0);
        outcome
    }

    fn walk(&mut self, rule: &Rule, share: u64, meter: &mut Meter<'_>) -> Result<Outcome, Stop> {
        let mut next = Some((0, self.columns.count));
        let mut draw = rule.seed;
        for _ in 0..share {
            let Some(range) = next else {
                return Ok(Outcome::Impossible(self.skyline.overflow()));
            };
            meter.tick(range.1 - range.0)?;
            next = match self.open(range, rule, &mut draw) {
                Opened::Branch => self.frames.descend(&mut self.skyline, &mut self.failed),
                Opened::Complete => match self.frames.complete() {
                    Some(range) => Some(range),
                    None => return Ok(Outcome::Found(self.skyline.offsets().to_vec())),
                },
                Opened::Dead => self.frames.fail(&mut self.skyline, &mut self.failed),
            };
        }
        Ok(Outcome::Open)
    }

    /// Draws all forced conclusions in `range`, and opens the cases of the most promising column.
    fn open(&mut self, range: (usize, usize), rule: &Rule, draw: &mut u64) -> Opened {
        if !self.skyline.settle() {
            return Opened::Dead;
        }
        let parts = self.frames.split(&self.skyline, range);
        let range = match parts {
            0 => return Opened::Complete,
            1 => self.frames.pop_part(),
            _ => {
                self.frames.push_split(parts);
                return Opened::Branch;
            }
        };
        let key = self.skyline.key(range);
        if self.failed.contains(&key) {
            return Opened::Dead;
        }
        if self.failed.len() >= MOST_REMEMBERED {
            self.failed.clear();
        }
        let spot = rule.pick(&self.skyline, range);
        let gap = self.skyline.gap(spot.column);
        let choice = Choice {
            range,
            key,
            column: spot.column,
            gap,
            mark: self.skyline.mark(),
        };
        let cases = self.skyline.ready(spot.column).map(|item| Case {
            item,
            score: rule.score(&self.skyline, &spot, item, draw),
        });
        self.frames.push_choice(choice, cases);
        Opened::Branch
    }
}

enum Opened {
    /// Cases were pushed.
    Branch,
    /// Nothing is left to place.
    Complete,
    /// No plan from here.
    Dead,
}

/// Takes the low half of a key, which is a hash already, as its hash.
#[derive(Default)]
struct KeepHash(u64);

impl Hasher for KeepHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}
