//! Fast plans: items in some order, each into the tightest gap among those placed before.

use std::cmp::Reverse;

use super::columns::{Columns, Item, Lists};

/// In which order to place. Fixed items always come first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Large before small.
    Size,
    /// Much space for long before little for short.
    Area,
    /// Long lives before short ones.
    Length,
    /// Items of crowded columns before others, large before small.
    Load,
}

impl Order {
    pub(super) const ALL: [Self; 4] = [Self::Size, Self::Area, Self::Length, Self::Load];

    /// All items, first to place first. Ties go by number.
    pub(super) fn sort(self, columns: &Columns) -> Vec<usize> {
        let loads = columns.loads();
        let key = |number: usize| {
            let Item { lifetime, size, .. } = columns.items[number];
            let length = lifetime.len();
            match self {
                Self::Size => (u128::from(size), length),
                Self::Area => (u128::from(size) * u128::from(length), size),
                Self::Length => (u128::from(length), size),
                Self::Load => {
                    let span = columns.span(number);
                    (
                        u128::from(loads[span].iter().copied().max().unwrap_or(0)),
                        size,
                    )
                }
            }
        };
        let mut order: Vec<usize> = (0..columns.items.len()).collect();
        order.sort_by_cached_key(|&number| {
            (
                columns.items[number].fixed.is_none(),
                Reverse(key(number)),
                number,
            )
        });
        order
    }
}

/// The offset of each item, each in the smallest gap that takes it, or else above.
pub(super) fn best_fit(columns: &Columns, neighbours: &Lists, order: &[usize]) -> Vec<u64> {
    let mut offsets = vec![None; columns.items.len()];
    let mut taken = Vec::new();
    for &number in order {
        taken.clear();
        taken.extend(neighbours.of(number).iter().filter_map(|&other| {
            let offset: u64 = offsets[other as usize]?;
            Some((offset, offset + columns.items[other as usize].size))
        }));
        taken.sort_unstable();
        offsets[number] = Some(tightest_gap(&taken, &columns.items[number]));
    }
    let placed = offsets
        .into_iter()
        .map(|offset| offset.expect("the order holds every item"));
    placed.collect()
}

fn tightest_gap(taken: &[(u64, u64)], item: &Item) -> u64 {
    if let Some(fixed) = item.fixed {
        return fixed;
    }
    let (mut best, mut top) = (None, 0_u64);
    for &(offset, end) in taken {
        let start = top.next_multiple_of(item.alignment);
        if start + item.size <= offset {
            let candidate = (offset - top, start);
            best = best.filter(|best| *best <= candidate).or(Some(candidate));
        }
        top = top.max(end);
    }
    best.map_or(top.next_multiple_of(item.alignment), |(_, start)| start)
}

/// The offset of each item, each above everything placed before it that it meets in time.
///
/// For instances whose neighbour lists would be too long: it needs only the time line.
pub(super) fn stack(columns: &Columns, order: &[usize]) -> Vec<u64> {
    let mut tops = Tops::new(columns.count);
    let mut offsets = vec![0; columns.items.len()];
    for &number in order {
        let (item, span) = (&columns.items[number], columns.span(number));
        let lowest = tops.highest(span.clone()).next_multiple_of(item.alignment);
        offsets[number] = item.fixed.unwrap_or(lowest);
        tops.raise(span, offsets[number] + item.size);
    }
    offsets
}

/// The height of each column, with range maximum and range raise (a segment tree).
struct Tops {
    leaves: usize,
    /// Highest column below each node.
    highest: Vec<u64>,
    /// Every column below each node is at least this high.
    raised: Vec<u64>,
}

impl Tops {
    fn new(columns: usize) -> Self {
        let leaves = columns.max(1).next_power_of_two();
        Self {
            leaves,
            highest: vec![0; 2 * leaves],
            raised: vec![0; 2 * leaves],
        }
    }

    fn highest(&self, span: std::ops::Range<usize>) -> u64 {
        let mut most = 0;
        let (mut low, mut high) = (span.start + self.leaves, span.end + self.leaves);
        let (first, last) = (low, high - 1);
        while low < high {
            if low & 1 == 1 {
                most = most.max(self.highest[low]);
                low += 1;
            }
            if high & 1 == 1 {
                high -= 1;
                most = most.max(self.highest[high]);
            }
            (low, high) = (low / 2, high / 2);
        }
        // What was raised for whole stretches around either end.
        for mut node in [first, last] {
            while node > 0 {
                most = most.max(self.raised[node]);
                node /= 2;
            }
        }
        most
    }

    fn raise(&mut self, span: std::ops::Range<usize>, top: u64) {
        let (mut low, mut high) = (span.start + self.leaves, span.end + self.leaves);
        let (first, last) = (low, high - 1);
        while low < high {
            if low & 1 == 1 {
                self.raise_node(low, top);
                low += 1;
            }
            if high & 1 == 1 {
                high -= 1;
                self.raise_node(high, top);
            }
            (low, high) = (low / 2, high / 2);
        }
        for mut node in [first / 2, last / 2] {
            while node > 0 {
                let below = self.highest[2 * node].max(self.highest[2 * node + 1]);
                self.highest[node] = self.highest[node].max(below);
                node /= 2;
            }
        }
    }

    fn raise_node(&mut self, node: usize, top: u64) {
        self.highest[node] = self.highest[node].max(top);
        self.raised[node] = self.raised[node].max(top);
    }
}
