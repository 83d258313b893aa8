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
}

impl Starts {
    pub(super) fn clear(&mut self) {
        self.groups.clear();
    }

    pub(super) fn add(&mut self, start: u64, size: u64) {
        match self.groups.iter_mut().find(|(other, _)| *other == start) {
            Some((_, sum)) => *sum += size,
            None => self.groups.push((start, size)),
        }
    }

    /// The height below which the column cannot end: its items come one after the other, none before it can start.
    pub(super) fn end(&mut self) -> u64 {
        self.groups.sort_unstable_by(|a, b| b.cmp(a));
        let (mut above, mut end) = (0, 0);
        for &(start, size) in &self.groups {
            above += size;
            end = end.max(start + above);
        }
        end
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
        assert_eq!(starts.end(), 16);
        starts.clear();
        starts.add(2, 5);
        assert_eq!(starts.end(), 7);
    }
}
