//! Time cut into columns: the moments at which as much as possible is alive.
//!
//! Two buffers share bytes wrongly only if they are alive together, and every set of buffers alive together is part
//! of a largest such set. So it is enough to look at those sets, in order of time: the columns. A buffer is in a
//! run of neighbouring columns.

use super::instance::Lifetime;

/// A buffer inside of the solver: never vacant, its numbers in the solver's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Position in the instance.
    pub(super) index: usize,
    pub(super) lifetime: Lifetime,
    pub(super) size: u64,
    pub(super) alignment: u64,
    pub(super) fixed: Option<u64>,
}

/// Lists of equal kind in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    starts: Vec<u32>,
    entries: Vec<u32>,
}

impl Lists {
    pub(super) fn of(&self, list: usize) -> &[u32] {
        &self.entries[self.range(list)]
    }

    /// Where the entries of `list` are among all entries.
    pub(super) fn range(&self, list: usize) -> std::ops::Range<usize> {
        self.starts[list] as usize..self.starts[list + 1] as usize
    }

    pub(super) fn entries(&self) -> &[u32] {
        &self.entries
    }
}

/// Items and the columns that they are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) items: Vec<Item>,
    /// First column of each item.
    pub(super) first: Vec<u32>,
    /// One past the last column of each item.
    pub(super) end: Vec<u32>,
    /// Number of columns.
    pub(super) count: usize,
}

impl Columns {
    pub(super) fn new(items: Vec<Item>) -> Self {
        let mut events = Vec::with_capacity(2 * items.len());
        for (number, item) in items.iter().enumerate() {
            // At one time, ends sort before begins.
            events.push((item.lifetime.lower, true, number));
            events.push((item.lifetime.upper, false, number));
        }
        events.sort_unstable();
        let (mut first, mut end) = (vec![0; items.len()], vec![0; items.len()]);
        let (mut column, mut grew) = (0, false);
        for (_, begins, number) in events {
            if begins {
                grew = true;
                first[number] = column;
            } else {
                // The first end after a begin closes a column: its set was as large as it gets.
                column += u32::from(std::mem::take(&mut grew));
                end[number] = column;
            }
        }
        Self {
            items,
            first,
            end,
            count: column as usize,
        }
    }

    /// The columns of `item`.
    pub(super) fn span(&self, item: usize) -> std::ops::Range<usize> {
        self.first[item] as usize..self.end[item] as usize
    }

    /// The sum of the sizes in each column.
    pub(super) fn loads(&self) -> Vec<u64> {
        let mut steps = vec![0_u64; self.count + 1];
        for (number, item) in self.items.iter().enumerate() {
            let span = self.span(number);
            steps[span.start] = steps[span.start].wrapping_add(item.size);
            steps[span.end] = steps[span.end].wrapping_sub(item.size);
        }
        let mut load = 0_u64;
        let sums = steps[..self.count].iter().map(|step| {
            load = load.wrapping_add(*step);
            load
        });
        sums.collect()
    }

    /// No plan of these items is lower than this.
    pub(super) fn bound(&self) -> u64 {
        let fixed = self
            .items
            .iter()
            .filter_map(|item| Some(item.fixed? + item.size));
        self.loads().into_iter().chain(fixed).max().unwrap_or(0)
    }

    /// How many items span each boundary: entry `c` counts those in both column `c - 1` and column `c`.
    pub(super) fn crossings(&self) -> Vec<u32> {
        let mut crossings = vec![0_u32; self.count + 2];
        for number in 0..self.items.len() {
            let span = self.span(number);
            crossings[span.start + 1] = crossings[span.start + 1].wrapping_add(1);
            crossings[span.end] = crossings[span.end].wrapping_sub(1);
        }
        for boundary in 1..crossings.len() {
            crossings[boundary] = crossings[boundary].wrapping_add(crossings[boundary - 1]);
        }
        crossings.truncate(self.count + 1);
        crossings
    }

    /// The items in each column, or `None` if there would be more than `most` entries.
    pub(super) fn members(&self, most: usize) -> Option<Lists> {
        let total: usize = (0..self.items.len())
            .map(|number| self.span(number).len())
            .sum();
        if total > most {
            return None;
        }
        let pairs = (0..self.items.len()).flat_map(|number| {
            self.span(number)
                .map(move |column| (column as u32, number as u32))
        });
        Some(Lists::collect(self.count, total, pairs))
    }

    /// The items that each item is alive with, or `None` if there would be more than `most` entries.
    pub(super) fn neighbours(&self, most: usize) -> Option<Lists> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_unstable_by_key(|&number| (self.first[number], number));
        let mut pairs = Vec::new();
        let mut alive: Vec<u32> = Vec::new();
        for number in order {
            alive.retain(|&other| self.end[other as usize] > self.first[number]);
            if pairs.len() + 2 * alive.len() > most {
                return None;
            }
            for &other in &alive {
                pairs.push((number as u32, other));
                pairs.push((other, number as u32));
            }
            alive.push(number as u32);
        }
        Some(Lists::collect(
            self.items.len(),
            pairs.len(),
            pairs.into_iter(),
        ))
    }
}

impl Lists {
    /// Sorts `pairs` of (list, entry) into lists; entries keep their order.
    fn collect(
        lists: usize,
        total: usize,
        pairs: impl Iterator<Item = (u32, u32)> + Clone,
    ) -> Self {
        let mut starts = vec![0_u32; lists + 1];
        for (list, _) in pairs.clone() {
            starts[list as usize + 1] += 1;
        }
        for list in 0..lists {
            starts[list + 1] += starts[list];
        }
        let mut entries = vec![0; total];
        let mut next = starts.clone();
        for (list, entry) in pairs {
            let next = &mut next[list as usize];
            entries[*next as usize] = entry;
            *next += 1;
        }
        Self { starts, entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(lifetimes: &[(u64, u64)]) -> Columns {
        let item = |(index, &(lower, upper)): (usize, &(u64, u64))| Item {
            index,
            lifetime: Lifetime::new(lower, upper),
            size: 1 << index,
            alignment: 1,
            fixed: None,
        };
        Columns::new(lifetimes.iter().enumerate().map(item).collect())
    }

    #[test]
    fn columns_are_the_largest_sets() {
        let columns = columns(&[(0, 4), (1, 2), (2, 6), (5, 8), (9, 10)]);
        assert_eq!(columns.count, 4);
        assert_eq!(columns.first, [0, 0, 1, 2, 3]);
        assert_eq!(columns.end, [2, 1, 3, 3, 4]);
        assert_eq!(columns.loads(), [0b11, 0b101, 0b1100, 0b10000]);
        assert_eq!(columns.bound(), 16);
        assert_eq!(columns.crossings(), [0, 1, 1, 0, 0]);
    }

    #[test]
    fn lists_hold_who_is_alive_with_whom() {
        let columns = columns(&[(0, 4), (1, 2), (2, 6)]);
        let members = columns.members(100).unwrap();
        assert_eq!(
            (members.of(0), members.of(1)),
            ([0, 1].as_slice(), [0, 2].as_slice())
        );
        let neighbours = columns.neighbours(100).unwrap();
        assert_eq!(neighbours.of(0), [1, 2]);
        assert_eq!(
            (neighbours.of(1), neighbours.of(2)),
            ([0].as_slice(), [0].as_slice())
        );
        assert_eq!((columns.members(3), columns.neighbours(3)), (None, None));
    }
}
