//! What one column can still hold, in one pass over what is not yet placed in it.

/// What is known about a column whose floor or members changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Items that can start on the floor; of equal ones only the first counts.
    pub(super) ready: u32,
    /// The lowest height above the floor at which another item can start at the earliest.
    pub(super) above: u64,
}

/// Collects the earliest starts of a column's items, to bound where the last of them ends.
#[derive(Default)]
pub(super) struct Starts {
    /// (earliest start, size of all items with it)
    groups: Vec<(u64, u64)>,
    highest: u64,
}

impl Starts {
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        self.highest = 0;
    }

    pub(super) fn add(&mut self, start: u64, size: u64) {
        self.highest = self.highest.max(start);
        match self.groups.iter_mut().find(|(other, _)| *other == start) {
            Some((_, sum)) => *sum += size,
            None => self.groups.push((start, size)),
        }
    }

    /// A height below which the column cannot end: one after the other, none before it can start.
    ///
    /// Exact only where it is more than `capacity`; `load` is the size of all items together.
    pub(super) fn end_beyond(&mut self, capacity: u64, load: u64) -> Option<u64> {
        if self.highest + load <= capacity {
            return None;
        }
        self.groups.sort_unstable_by(|a, b| b.cmp(a));
        let (mut above, mut end) = (0, 0);
        for &(start, size) in &self.groups {
            above += size;
            end = end.max(start + above);
        }
        (end > capacity).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_starters_push_the_end_up() {
        let mut starts = Starts::default();
        for (start, size) in [(0, 3), (10, 2), (4, 1), (10, 4)] {
            starts.add(start, size);
        }
        assert_eq!(starts.end_beyond(15, 10), Some(16));
        assert_eq!(starts.end_beyond(16, 10), None);
        starts.clear();
        starts.add(2, 5);
        assert_eq!(starts.end_beyond(7, 5), None);
        assert_eq!(starts.end_beyond(6, 5), Some(7));
    }
}
