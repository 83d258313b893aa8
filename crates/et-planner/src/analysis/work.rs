//! How much an analysis may do and keep.
//!
//! Real methods stay far below. A method that was made for it can ask for work, or memory, that grows with the square
//! of its length or faster; then the analysis ends with an error.

use std::cell::Cell;

use super::error::AnalysisError;

/// The most steps of work that one analysis takes: looks at a value, an instruction, or a word of a bit set.
const MOST_STEPS: u64 = 1 << 30;

/// The most entries of lists that one analysis keeps.
const MOST_ENTRIES: u64 = 1 << 24;

/// What is left of both.
#[derive(Debug)]
pub(crate) struct Work {
    steps: Cell<u64>,
    entries: Cell<u64>,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self {
            steps: Cell::new(MOST_STEPS),
            entries: Cell::new(MOST_ENTRIES),
        }
    }

    /// Takes steps of work before they are done.
    pub(crate) fn spend(&self, steps: usize) -> Result<(), AnalysisError> {
        take(&self.steps, steps).ok_or(AnalysisError::TooMuchWork {
            limit: MOST_STEPS,
            unit: "steps of work",
        })
    }

    /// The same for a number of things that take `each` many.
    pub(crate) fn spend_on(&self, things: usize, each: usize) -> Result<(), AnalysisError> {
        self.spend(things.saturating_mul(each))
    }

    /// Takes room for entries that are kept.
    pub(crate) fn keep(&self, entries: usize) -> Result<(), AnalysisError> {
        take(&self.entries, entries).ok_or(AnalysisError::TooMuchWork {
            limit: MOST_ENTRIES,
            unit: "entries of memory",
        })
    }
}

fn take(from: &Cell<u64>, much: usize) -> Option<()> {
    let left = from.get().checked_sub(much as u64)?;
    from.set(left);
    Some(())
}
