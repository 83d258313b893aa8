//! An instance in parts that can be solved alone.

use super::columns::{Columns, Item};
use super::greedy::gcd;
use super::instance::{Buffer, Instance};

/// Items that nothing outside is alive with, above `base`.
pub(super) struct Block {
    /// Everything below is taken by buffers that live as long as the block.
    pub(super) base: u64,
    pub(super) columns: Columns,
}

/// An instance cut into blocks. All numbers in units of `unit` bytes.
pub(super) struct Decomposition {
    pub(super) unit: u64,
    pub(super) blocks: Vec<Block>,
    /// Offsets that are settled: (position in the instance, offset).
    pub(super) settled: Vec<(usize, u64)>,
    /// The height that the settled ones need.
    pub(super) settled_height: u64,
}

impl Decomposition {
    pub(super) fn new(instance: &Instance) -> Self {
        let unit = unit(instance);
        let mut parts = Self {
            unit,
            blocks: Vec::new(),
            settled: Vec::new(),
            settled_height: 0,
        };
        let mut items = Vec::new();
        for (index, buffer) in instance.buffers().iter().enumerate() {
            if buffer.is_vacant() {
                parts
                    .settled
                    .push((index, buffer.fixed_offset.unwrap_or(0) / unit));
            } else {
                items.push(item(index, buffer, unit));
            }
        }
        parts.split(items);
        parts
    }

    fn split(&mut self, items: Vec<Item>) {
        let mut open = vec![Block {
            base: 0,
            columns: Columns::new(items),
        }];
        while let Some(block) = open.pop() {
            let base = block.base;
            for items in connected(&block.columns) {
                let mut block = Block {
                    base,
                    columns: Columns::new(items),
                };
                if self.settle_whole_life(&mut block) {
                    open.push(block);
                } else if block.columns.count > 0 {
                    self.blocks.push(block);
                }
            }
        }
        // Largest first: it decides the arena most often.
        self.blocks
            .sort_by_key(|block| std::cmp::Reverse(block.columns.items.len()));
    }

    /// Puts the items that are alive all the time of a block at its bottom, and takes them out of it.
    ///
    /// No plan is lost by that: in any plan such an item can change places with everything below it. That holds
    /// only while everything may move by any amount.
    fn settle_whole_life(&mut self, block: &mut Block) -> bool {
        let columns = &block.columns;
        if columns
            .items
            .iter()
            .any(|item| item.alignment > 1 || item.fixed.is_some())
        {
            return false;
        }
        let mut rest = Vec::new();
        for (number, item) in columns.items.iter().enumerate() {
            if columns.span(number).len() < columns.count {
                rest.push(*item);
            } else {
                self.settled.push((item.index, block.base));
                block.base += item.size;
            }
        }
        let settled = rest.len() < columns.items.len();
        if settled {
            self.settled_height = self.settled_height.max(block.base);
            block.columns = Columns::new(rest);
        }
        settled
    }
}

/// The largest unit in which all offsets of a lowest plan are whole.
fn unit(instance: &Instance) -> u64 {
    let occupied = || {
        instance
            .buffers()
            .iter()
            .filter(|buffer| !buffer.is_vacant())
    };
    let unit = occupied().fold(0, |unit, buffer| {
        gcd(gcd(unit, buffer.nbytes), buffer.fixed_offset.unwrap_or(0))
    });
    // Alignments that divide the unit hold by themselves; if one does not, offsets are multiples of less.
    let aligned = occupied().fold(unit, |unit, buffer| {
        if unit.is_multiple_of(buffer.alignment) {
            unit
        } else {
            gcd(unit, buffer.alignment)
        }
    });
    aligned.max(1)
}

fn item(index: usize, buffer: &Buffer, unit: u64) -> Item {
    let Buffer {
        lifetime,
        nbytes,
        alignment,
        fixed_offset,
    } = *buffer;
    // In units, an offset is a multiple of alignment / gcd(alignment, unit).
    let alignment = alignment / gcd(alignment, unit);
    Item {
        index,
        lifetime,
        size: nbytes / unit,
        alignment,
        fixed: fixed_offset.map(|at| at / unit),
    }
}

/// The items in groups that are apart in time.
fn connected(columns: &Columns) -> Vec<Vec<Item>> {
    let crossings = columns.crossings();
    let mut group_of = Vec::with_capacity(columns.count);
    let mut groups = 0;
    for &crossing in &crossings[..columns.count] {
        groups += usize::from(crossing == 0);
        group_of.push(groups - 1);
    }
    let mut items = vec![Vec::new(); groups];
    for (number, item) in columns.items.iter().enumerate() {
        items[group_of[columns.span(number).start]].push(*item);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::super::instance::Lifetime;
    use super::*;

    fn decompose(buffers: Vec<Buffer>) -> Decomposition {
        Decomposition::new(&Instance::new(buffers).unwrap())
    }

    fn buffer(lower: u64, upper: u64, nbytes: u64) -> Buffer {
        Buffer::new(Lifetime::new(lower, upper), nbytes)
    }

    #[test]
    fn whole_lives_are_stacked_until_a_block_falls_apart() {
        let parts = decompose(vec![
            buffer(0, 9, 32),
            buffer(0, 4, 16),
            buffer(5, 9, 48),
            buffer(5, 7, 16),
            buffer(6, 9, 16),
            buffer(3, 3, 16),
        ]);
        assert_eq!(parts.unit, 16);
        assert!(parts.blocks.is_empty());
        assert_eq!(
            parts.settled,
            [(5, 0), (0, 0), (1, 2), (2, 2), (3, 5), (4, 6)]
        );
        assert_eq!(parts.settled_height, 7);
    }

    #[test]
    fn what_may_not_move_freely_is_not_stacked() {
        let parts = decompose(vec![
            buffer(0, 9, 32).aligned(64),
            buffer(0, 4, 48),
            buffer(9, 10, 16),
        ]);
        assert_eq!((parts.unit, parts.blocks.len()), (16, 1));
        assert_eq!(parts.blocks[0].columns.items[0].alignment, 4);
        let parts = decompose(vec![buffer(0, 9, 32).fixed(8), buffer(0, 4, 48)]);
        assert_eq!((parts.unit, parts.blocks.len()), (8, 1));
        assert_eq!(parts.blocks[0].columns.items[0].fixed, Some(1));
    }

    #[test]
    fn units_respect_alignments() {
        let unit_of = |buffers| decompose(buffers).unit;
        assert_eq!(
            unit_of(vec![buffer(0, 2, 48).aligned(16), buffer(0, 2, 96)]),
            48
        );
        assert_eq!(
            unit_of(vec![buffer(0, 2, 48).aligned(64), buffer(0, 2, 96)]),
            16
        );
        assert_eq!(unit_of(vec![]), 1);
    }
}
