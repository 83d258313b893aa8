//! Copies of parts of operands in the order in which they are read.

use std::ops::Range;

use et_kernel::{Element, KernelError, Workers};
use et_memory::Arena;

use super::blocked::{DEPTH, HEIGHT, WIDTH};
use super::{Extent, MOST_PARTS, Matrix, PART};
use crate::elementwise::scratch;

/// Scratch memory that the products of one operator share, made when it is needed.
#[derive(Debug)]
pub(crate) struct Room<'a, T> {
    /// Where more comes from, if it may grow.
    temp: Option<&'a Arena>,
    /// Threads that help.
    workers: Option<&'a Workers>,
    rows: &'a mut [T],
    panels: &'a mut [T],
}

impl<'a, T: Element> Room<'a, T> {
    pub(crate) fn new(temp: &'a Arena) -> Self {
        Self {
            temp: Some(temp),
            workers: None,
            rows: &mut [],
            panels: &mut [],
        }
    }

    /// The same, for products that threads share.
    pub(crate) fn shared_by(mut self, workers: Option<&'a Workers>) -> Self {
        self.workers = workers;
        self
    }

    /// The threads that share products, and where their scratch memory comes from.
    pub(super) fn sharing(&self) -> Option<(&'a Workers, &'a Arena)> {
        self.workers.zip(self.temp)
    }

    /// How many parts of a product to make at the same time.
    pub(super) fn parts_of(&self, extent: Extent) -> usize {
        let threads = self.workers.map_or(1, Workers::threads);
        if threads == 1 {
            return 1;
        }
        let products = extent.m.saturating_mul(extent.n).saturating_mul(extent.k);
        (products / PART).min(threads).clamp(1, MOST_PARTS)
    }

    /// Room in pieces of at least [`most`](Self::most) elements, which does not grow: it may be made on another thread.
    pub(crate) fn lent([rows, panels]: [&'a mut [T]; 2]) -> Self {
        Self {
            temp: None,
            workers: None,
            rows,
            panels,
        }
    }

    /// Elements of rows and of panels for any product of that extent.
    pub(crate) fn most(extent: Extent) -> [usize; 2] {
        let (deep, wide) = (extent.k.min(DEPTH), extent.m.max(extent.n));
        // The operands may change places.
        let panels = wide.min(WIDTH).next_multiple_of(WIDEST);
        [deep * wide.min(HEIGHT), deep * panels]
    }

    /// Room for so many elements of rows and of panels.
    pub(super) fn reserve(&mut self, rows: usize, panels: usize) -> Result<(), KernelError> {
        grow(self.temp, &mut self.rows, rows)?;
        grow(self.temp, &mut self.panels, panels)
    }

    /// The rows and the panels.
    pub(super) fn parts(&mut self) -> (&mut [T], &mut [T]) {
        (self.rows, self.panels)
    }
}

/// Pieces double in size, so that those given up are no more than the last.
fn grow<'a, T: Element>(
    temp: Option<&'a Arena>,
    piece: &mut &'a mut [T],
    len: usize,
) -> Result<(), KernelError> {
    match temp {
        _ if piece.len() >= len => {}
        Some(temp) => *piece = scratch(temp, len.max(2 * piece.len()))?,
        None => {
            return Err(KernelError::invalid(
                "a product of more scratch memory than it said",
            ));
        }
    }
    Ok(())
}

/// No vector holds more elements.
pub(super) const WIDEST: usize = 64;

/// Elements of a row that are copied at a time, so that columns in one piece are read in pieces too.
const RUN: usize = 16;

/// Copies `high` rows of `deep` elements so that one follows the other.
pub(super) fn rows<T: Copy>(to: &mut [T], from: Matrix<'_, T>, high: usize, deep: usize) {
    for start in (0..deep).step_by(RUN) {
        let run = RUN.min(deep - start);
        for (i, to) in to.chunks_exact_mut(deep).take(high).enumerate() {
            let elements = &from.elements[i * from.row_stride + start * from.column_stride..];
            for (l, to) in to[start..start + run].iter_mut().enumerate() {
                *to = elements[l * from.column_stride];
            }
        }
    }
}

/// Copies the first `deep` rows of some columns to panels: the columns of one, row after row, then those of the next. Panels
/// are two vectors of `lanes` columns wide; the last is only one if that is enough. What is not there is zero.
pub(super) fn panels<T: Element>(
    to: &mut [T],
    from: Matrix<'_, T>,
    deep: usize,
    columns: Range<usize>,
    lanes: usize,
) {
    let (mut to, mut first) = (to, columns.start);
    while first < columns.end {
        let rest = columns.end - first;
        let width = if rest > lanes { 2 * lanes } else { lanes };
        let (panel, others) = to.split_at_mut(width * deep);
        let from = Matrix {
            elements: &from.elements[first * from.column_stride..],
            ..from
        };
        fill(panel, from, width, width.min(rest));
        (to, first) = (others, first + width);
    }
}

/// Fills a panel that is `width` wide from as many `columns`.
fn fill<T: Element>(panel: &mut [T], from: Matrix<'_, T>, width: usize, columns: usize) {
    let rows = panel.chunks_exact_mut(width);
    if from.column_stride == 1 {
        for (l, row) in rows.enumerate() {
            let (row, missing) = row.split_at_mut(columns);
            row.copy_from_slice(&from.elements[l * from.row_stride..][..columns]);
            missing.fill(T::default());
        }
        return;
    }
    if columns < width {
        rows.for_each(|row| row[columns..].fill(T::default()));
    }
    for j in 0..columns {
        let elements = &from.elements[j * from.column_stride..];
        for (l, to) in panel[j..].iter_mut().step_by(width).enumerate() {
            *to = elements[l * from.row_stride];
        }
    }
}
