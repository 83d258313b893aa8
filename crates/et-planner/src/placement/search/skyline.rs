//! The partial plan, with undo.

use super::super::columns::{Columns, Item, Lists};
use super::tally::{Starts, Tally};

const NONE: u32 = u32::MAX;

/// One step back.
enum Undo {
    /// The floor of a column, and the top of what is placed in it.
    Floor {
        column: u32,
        floor: u64,
        top: u64,
    },
    /// The earliest start of an item.
    Start {
        item: u32,
        start: u64,
    },
    Tally {
        column: u32,
        tally: Tally,
    },
    Placed {
        item: u32,
    },
}

/// Floors, what is left above them, and how low each of that can start.
pub(super) struct Skyline<'a> {
    columns: &'a Columns,
    members: &'a Lists,
    neighbours: &'a Lists,
    capacity: u64,
    /// Where each item is in the best plan so far.
    guide: Vec<u64>,
    /// Least height that any cut so far would have needed.
    overflow: u64,

    /// Nothing unplaced starts below.
    floor: Vec<u64>,
    /// End of the topmost placed item; between it and the floor is a gap.
    top: Vec<u64>,
    /// Size of all that is unplaced.
    load: Vec<u64>,
    tally: Vec<Tally>,
    /// Unplaced items that span the boundary before a column.
    crossing: Vec<u32>,
    /// Hash of the unplaced items that begin in a column.
    begins: Vec<u128>,
    /// Column by column as in `members`, the unplaced items first.
    unplaced: Vec<u32>,
    unplaced_count: Vec<u32>,
    /// Where an item is in `unplaced`, for each of its columns.
    position: Vec<u32>,
    position_start: Vec<u32>,

    /// The earliest start of an unplaced item, the offset of a placed one.
    start: Vec<u64>,
    placed: Vec<bool>,
    /// The item before this one that is equal in all respects.
    twin: Vec<u32>,
    /// Whether any item is fixed.
    has_fixed: bool,
    /// The least size of an item.
    smallest: u64,

    stale: Vec<bool>,
    stale_list: Vec<u32>,
    starts: Starts,
    undo: Vec<Undo>,
}

impl<'a> Skyline<'a> {
    pub(super) fn new(columns: &'a Columns, members: &'a Lists, neighbours: &'a Lists) -> Self {
        let (count, items) = (columns.count, columns.items.len());
        let mut position_start = Vec::with_capacity(items);
        let mut position = vec![0; members.entries().len()];
        let mut positions = 0;
        for item in 0..items {
            position_start.push(positions);
            positions += columns.end[item] - columns.first[item];
        }
        for column in 0..count {
            for at in members.range(column) {
                let item = members.entries()[at] as usize;
                let step = column as u32 - columns.first[item];
                position[(position_start[item] + step) as usize] = at as u32;
            }
        }
        let mut begins = vec![0_u128; count];
        for item in 0..items {
            begins[columns.first[item] as usize] ^= item_hash(item);
        }
        Self {
            columns,
            members,
            neighbours,
            capacity: 0,
            guide: vec![0; items],
            overflow: u64::MAX,
            floor: vec![0; count],
            top: vec![0; count],
            load: columns.loads(),
            tally: vec![Tally::default(); count],
            crossing: columns.crossings(),
            begins,
            unplaced: members.entries().to_vec(),
            unplaced_count: (0..count)
                .map(|column| members.of(column).len() as u32)
                .collect(),
            position,
            position_start,
            start: vec![0; items],
            placed: vec![false; items],
            twin: twins(columns),
            has_fixed: columns.items.iter().any(|item| item.fixed.is_some()),
            smallest: columns
                .items
                .iter()
                .map(|item| item.size)
                .min()
                .unwrap_or(1),
            stale: vec![false; count],
            stale_list: Vec::new(),
            starts: Starts::default(),
            undo: Vec::new(),
        }
    }

    /// Where an item is in the best plan so far.
    pub(super) fn guided(&self, item: u32) -> u64 {
        self.guide[item as usize]
    }

    pub(super) fn set_guide(&mut self, offsets: &[u64]) {
        self.guide.copy_from_slice(offsets);
    }

    /// Starts anew, with nothing placed. What overflowed at this capacity before still counts.
    pub(super) fn restart(&mut self, capacity: u64) {
        if capacity != self.capacity {
            self.capacity = capacity;
            self.overflow = u64::MAX;
        }
        for item in 0..self.start.len() {
            let free = self.past_obstacles(item, 0);
            self.start[item] = self.columns.items[item].fixed.unwrap_or(free);
        }
        for column in 0..self.floor.len() {
            self.mark_stale(column);
        }
    }

    pub(super) fn floor(&self, column: usize) -> u64 {
        self.floor[column]
    }

    /// What is left to place in a column.
    pub(super) fn load(&self, column: usize) -> u64 {
        self.load[column]
    }

    /// What may still be wasted in a column.
    pub(super) fn slack(&self, column: usize) -> u64 {
        self.capacity
            .saturating_sub(self.floor[column] + self.load[column])
    }

    /// Whether something unplaced spans the boundary before `column`.
    pub(super) fn is_crossed(&self, column: usize) -> bool {
        self.crossing[column] > 0
    }

    pub(super) fn tally(&self, column: usize) -> Tally {
        self.tally[column]
    }

    pub(super) fn columns(&self) -> &'a Columns {
        self.columns
    }

    /// The offsets of the items, once all are placed.
    pub(super) fn offsets(&self) -> &[u64] {
        &self.start
    }

    /// No plan is lower than this, when all cases failed.
    pub(super) fn overflow(&self) -> u64 {
        self.overflow
    }

    pub(super) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// The unplaced items of a column.
    fn left(&self, column: usize) -> &[u32] {
        let start = self.members.range(column).start;
        &self.unplaced[start..start + self.unplaced_count[column] as usize]
    }

    /// The items that can start on the floor of a column; of equal ones only the first.
    pub(super) fn ready(&self, column: usize) -> impl Iterator<Item = u32> {
        let floor = self.floor[column];
        self.left(column)
            .iter()
            .copied()
            .filter(move |&item| self.is_ready(item, floor))
    }

    fn is_ready(&self, item: u32, floor: u64) -> bool {
        self.start[item as usize] == floor && self.is_first(item)
    }

    /// Whether no unplaced item before this one is equal to it in all respects.
    fn is_first(&self, item: u32) -> bool {
        let twin = self.twin[item as usize];
        twin == NONE || self.placed[twin as usize]
    }

    /// The next height at which something could start in a column if nothing starts on its floor, if the column can
    /// afford that.
    ///
    /// In a plan that is pushed down, an item starts where its columns let it, or on another one. Items that could
    /// start on this floor lie in the valley, so those that would carry them are still to be placed.
    pub(super) fn gap(&mut self, column: usize) -> Option<u64> {
        let floor = self.floor[column];
        let mut next = self.tally[column].above;
        let least = next.min(floor + self.smallest) + self.load[column];
        if least > self.capacity {
            self.overflow = self.overflow.min(least);
            return None;
        }
        for &item in self.left(column) {
            if self.start[item as usize] > floor {
                continue;
            }
            for &other in self.neighbours.of(item as usize) {
                let other = other as usize;
                if !self.placed[other] && !self.columns.span(other).contains(&column) {
                    let end = self.start[other] + self.columns.items[other].size;
                    let alignment = self.columns.items[item as usize].alignment;
                    next = next.min(end.next_multiple_of(alignment));
                }
            }
        }
        if next == u64::MAX {
            return None;
        }
        let end = next + self.load[column];
        if end > self.capacity {
            self.overflow = self.overflow.min(end);
            return None;
        }
        Some(next)
    }

    /// Puts an item at its earliest start. `false`: no plan from here.
    pub(super) fn place(&mut self, item: u32) -> bool {
        let number = item as usize;
        let size = self.columns.items[number].size;
        let end = self.start[number] + size;
        self.placed[number] = true;
        self.undo.push(Undo::Placed { item });
        let span = self.columns.span(number);
        self.begins[span.start] ^= item_hash(number);
        for column in span.clone() {
            self.take(number, column);
            self.load[column] -= size;
            self.set_floor(column, end, end);
        }
        for boundary in span.start + 1..span.end {
            self.crossing[boundary] -= 1;
        }
        let neighbours = self.neighbours;
        neighbours
            .of(number)
            .iter()
            .all(|&other| self.placed[other as usize] || self.lift(other, end))
    }

    /// Lets nothing start below `height` in a column. `false`: no plan from here, or only ones with a gap that
    /// something could drop into.
    pub(super) fn raise(&mut self, column: usize, height: u64) -> bool {
        self.set_floor(column, height, self.top[column]);
        let first = self.members.range(column).start;
        for at in first..first + self.unplaced_count[column] as usize {
            if !self.lift(self.unplaced[at], height) {
                return false;
            }
        }
        !self.wastes(column)
    }

    /// Whether an unplaced item of a column fits below the floors, between them and what is placed.
    fn wastes(&self, column: usize) -> bool {
        let gap = self.floor[column] - self.top[column];
        let items = self.left(column).iter().map(|&item| item as usize);
        let mut small = items.filter(|&item| self.columns.items[item].size <= gap);
        small.any(|item| self.drops(item))
    }

    fn drops(&self, item: usize) -> bool {
        let Item {
            size,
            alignment,
            fixed,
            ..
        } = self.columns.items[item];
        if fixed.is_some() {
            return false;
        }
        let (mut top, mut ceiling) = (0, u64::MAX);
        for column in self.columns.span(item) {
            top = self.top[column].max(top);
            ceiling = self.floor[column].min(ceiling);
            if top + size > ceiling {
                return false;
            }
        }
        let start = if self.has_fixed {
            self.past_obstacles(item, top)
        } else {
            top.next_multiple_of(alignment)
        };
        start + size <= ceiling
    }

    /// Lets an unplaced item start no lower than `height`. `false`: it is fixed below.
    fn lift(&mut self, item: u32, height: u64) -> bool {
        let number = item as usize;
        let start = self.start[number];
        if start >= height {
            return true;
        }
        if self.columns.items[number].fixed.is_some() {
            self.overflow = self.overflow.min(self.capacity + 1);
            return false;
        }
        self.undo.push(Undo::Start { item, start });
        self.start[number] = self.past_obstacles(number, height);
        for column in self.columns.span(number) {
            self.mark_stale(column);
        }
        true
    }

    /// The lowest aligned start from `height` on that is clear of all fixed items.
    fn past_obstacles(&self, item: usize, height: u64) -> u64 {
        let items = &self.columns.items;
        let mut start = height.next_multiple_of(items[item].alignment);
        if !self.has_fixed {
            return start;
        }
        loop {
            let hit = self.neighbours.of(item).iter().find_map(|&other| {
                let other = &items[other as usize];
                let fixed = other.fixed?;
                let apart = start + items[item].size <= fixed || fixed + other.size <= start;
                (!apart).then_some(fixed + other.size)
            });
            match hit {
                Some(end) => start = end.next_multiple_of(items[item].alignment),
                None => return start,
            }
        }
    }

    /// Draws all conclusions from what changed: columns on whose floor nothing can start rise. `false`: no plan.
    pub(super) fn settle(&mut self) -> bool {
        while let Some(column) = self.stale_list.pop() {
            let column = column as usize;
            self.stale[column] = false;
            if self.load[column] > 0 && !self.count(column) {
                self.forget_stale();
                return false;
            }
        }
        true
    }

    fn count(&mut self, column: usize) -> bool {
        let (mut lowest, mut highest) = (u64::MAX, 0);
        let mut tally = Tally {
            ready: 0,
            above: u64::MAX,
        };
        for &item in self.left(column) {
            let start = self.start[item as usize];
            highest = highest.max(start);
            if start < lowest {
                tally = Tally {
                    ready: 0,
                    above: lowest,
                };
                lowest = start;
            }
            if start == lowest {
                tally.ready += u32::from(self.is_first(item));
            } else {
                tally.above = tally.above.min(start);
            }
        }
        if highest + self.load[column] > self.capacity && !self.ends_in_time(column) {
            return false;
        }
        self.undo.push(Undo::Tally {
            column: column as u32,
            tally: self.tally[column],
        });
        self.tally[column] = tally;
        if lowest == self.floor[column] {
            return true;
        }
        // Nothing can start on the floor. All starts are above already, so no item needs to be lifted.
        self.move_floor(column, lowest, self.top[column]);
        !self.wastes(column)
    }

    /// Whether what is left of a column can end within the capacity, each item at its earliest start.
    fn ends_in_time(&mut self, column: usize) -> bool {
        let mut starts = std::mem::take(&mut self.starts);
        starts.clear();
        for &item in self.left(column) {
            starts.add(
                self.start[item as usize],
                self.columns.items[item as usize].size,
            );
        }
        let end = starts.end();
        self.starts = starts;
        if end > self.capacity {
            self.overflow = self.overflow.min(end);
        }
        end <= self.capacity
    }

    fn mark_stale(&mut self, column: usize) {
        if !std::mem::replace(&mut self.stale[column], true) {
            self.stale_list.push(column as u32);
        }
    }

    fn forget_stale(&mut self) {
        for column in self.stale_list.drain(..) {
            self.stale[column as usize] = false;
        }
    }

    fn set_floor(&mut self, column: usize, floor: u64, top: u64) {
        self.move_floor(column, floor, top);
        self.mark_stale(column);
    }

    fn move_floor(&mut self, column: usize, floor: u64, top: u64) {
        let before = Undo::Floor {
            column: column as u32,
            floor: self.floor[column],
            top: self.top[column],
        };
        self.undo.push(before);
        self.floor[column] = floor;
        self.top[column] = top;
    }

    /// Moves an item behind the unplaced ones of a column.
    fn take(&mut self, item: usize, column: usize) {
        self.unplaced_count[column] -= 1;
        let last = self.members.range(column).start + self.unplaced_count[column] as usize;
        let here = self.slot(item, column);
        let other = self.unplaced[last] as usize;
        self.unplaced.swap(here, last);
        let (item_slot, other_slot) = (
            self.slot_index(item, column),
            self.slot_index(other, column),
        );
        self.position[item_slot] = last as u32;
        self.position[other_slot] = here as u32;
    }

    fn slot_index(&self, item: usize, column: usize) -> usize {
        self.position_start[item] as usize + column - self.columns.first[item] as usize
    }

    fn slot(&self, item: usize, column: usize) -> usize {
        self.position[self.slot_index(item, column)] as usize
    }

    /// Goes back to where [`Self::mark`] was `mark`.
    pub(super) fn undo(&mut self, mark: usize) {
        self.forget_stale();
        while self.undo.len() > mark {
            match self.undo.pop().expect("there are more than `mark`") {
                Undo::Floor { column, floor, top } => {
                    self.floor[column as usize] = floor;
                    self.top[column as usize] = top;
                }
                Undo::Start { item, start } => self.start[item as usize] = start,
                Undo::Tally { column, tally } => self.tally[column as usize] = tally,
                Undo::Placed { item } => self.unplace(item as usize),
            }
        }
    }

    fn unplace(&mut self, item: usize) {
        self.placed[item] = false;
        let span = self.columns.span(item);
        self.begins[span.start] ^= item_hash(item);
        for column in span.clone() {
            // Items come back in reverse order, so this one is the first of those taken.
            self.unplaced_count[column] += 1;
            self.load[column] += self.columns.items[item].size;
        }
        for boundary in span.start + 1..span.end {
            self.crossing[boundary] += 1;
        }
    }

    /// A hash of all that decides whether `range` can be completed.
    pub(super) fn key(&self, range: (usize, usize)) -> u128 {
        let (mut low, mut high) = (0_u64, 0_u64);
        for column in range.0..range.1 {
            if self.load[column] == 0 {
                continue;
            }
            let (floor, top, begins) = (self.floor[column], self.top[column], self.begins[column]);
            let place = mix(column as u64 + 1);
            let gap = mix(floor ^ place).wrapping_add(top);
            low = low.wrapping_add(mix(gap ^ begins as u64));
            let gap = mix(top ^ place).wrapping_add(floor);
            high = high.wrapping_add(mix(gap.rotate_left(32) ^ (begins >> 64) as u64));
        }
        (u128::from(high) << 64) | u128::from(low)
    }
}

fn item_hash(item: usize) -> u128 {
    let number = item as u64;
    (u128::from(mix(!number)) << 64) | u128::from(mix(number + 1))
}

/// Spreads every bit over all others (the finaliser of splitmix64).
pub(super) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// For each item the nearest one before it that is equal in all respects.
fn twins(columns: &Columns) -> Vec<u32> {
    let mut last = std::collections::HashMap::new();
    let mut twins = vec![NONE; columns.items.len()];
    for (number, item) in columns.items.iter().enumerate() {
        if item.fixed.is_none() {
            let shape = (columns.span(number), item.size, item.alignment);
            if let Some(before) = last.insert(shape, number as u32) {
                twins[number] = before;
            }
        }
    }
    twins
}
