//! The open cases of the search, without recursion.

use std::collections::HashSet;
use std::hash::BuildHasher;

use super::skyline::Skyline;

/// A range of columns, from and up to.
type Range = (usize, usize);

/// A column with several cases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) range: Range,
    /// The skyline's key before any case.
    pub(super) key: u128,
    pub(super) column: usize,
    /// The floor of the case in which nothing starts here, if that is possible.
    pub(super) gap: Option<u64>,
    /// Where the skyline was before any case.
    pub(super) mark: usize,
}

/// One item that could start in the column of a choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) item: u32,
    pub(super) score: f64,
}

#[derive(Debug)]
enum Frame {
    /// Cases are in `cases` from `start` to the next frame's; `next` is the one to try next.
    Choice {
        choice: Choice,
        start: usize,
        next: usize,
    },
    /// Parts are in `parts` from `start` on; those behind `next` are done.
    Split { start: usize, next: usize },
}

/// The path from the root: choices with their untried cases, and splits with their unsolved parts.
#[derive(Debug, Default)]
pub(super) struct Frames {
    stack: Vec<Frame>,
    cases: Vec<Case>,
    parts: Vec<Range>,
}

impl Frames {
    pub(super) fn clear(&mut self) {
        self.stack.clear();
        self.cases.clear();
        self.parts.clear();
    }

    /// Cuts `range` where nothing unplaced spans a boundary, and pushes the parts in which anything is left.
    pub(super) fn split(&mut self, skyline: &Skyline<'_>, range: Range) -> usize {
        let before = self.parts.len();
        let mut start = range.0;
        let mut left = 0;
        for column in range.0..range.1 {
            if column > start && !skyline.is_crossed(column) {
                if left > 0 {
                    self.parts.push((start, column));
                }
                (start, left) = (column, 0);
            }
            left += usize::from(skyline.load(column) > 0);
        }
        if left > 0 {
            self.parts.push((start, range.1));
        }
        self.parts.len() - before
    }

    pub(super) fn pop_part(&mut self) -> Range {
        self.parts.pop().expect("one part was just pushed")
    }

    /// Makes the last `parts` parts the next to solve, narrow ones first: they fail sooner.
    pub(super) fn push_split(&mut self, parts: usize) {
        let start = self.parts.len() - parts;
        self.parts[start..].sort_by_key(|part| std::cmp::Reverse(part.1 - part.0));
        self.stack.push(Frame::Split {
            start,
            next: self.parts.len(),
        });
    }

    pub(super) fn push_choice(&mut self, choice: Choice, cases: impl Iterator<Item = Case>) {
        let start = self.cases.len();
        self.cases.extend(cases);
        self.cases[start..]
            .sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.item.cmp(&b.item)));
        self.stack.push(Frame::Choice {
            choice,
            start,
            next: start,
        });
    }

    /// Enters the first case or part of the frame that was just pushed.
    pub(super) fn descend(
        &mut self,
        skyline: &mut Skyline<'_>,
        failed: &mut HashSet<u128, impl BuildHasher>,
    ) -> Option<Range> {
        match self.stack.last_mut() {
            Some(Frame::Split { next, .. }) => {
                *next -= 1;
                Some(self.parts[*next])
            }
            _ => self.advance(skyline, failed),
        }
    }

    /// Leaves a range in which all is placed. `None` if that was everything.
    pub(super) fn complete(&mut self) -> Option<Range> {
        loop {
            match self.stack.last_mut()? {
                Frame::Split { start, next } if *next > *start => {
                    *next -= 1;
                    return Some(self.parts[*next]);
                }
                _ => self.pop(),
            }
        }
    }

    /// Leaves a range that has no plan, for the next open case. `None` if there is none left anywhere.
    pub(super) fn fail(
        &mut self,
        skyline: &mut Skyline<'_>,
        failed: &mut HashSet<u128, impl BuildHasher>,
    ) -> Option<Range> {
        // A part that has no plan fails all of its split.
        while matches!(self.stack.last(), Some(Frame::Split { .. })) {
            self.pop();
        }
        self.advance(skyline, failed)
    }

    fn advance(
        &mut self,
        skyline: &mut Skyline<'_>,
        failed: &mut HashSet<u128, impl BuildHasher>,
    ) -> Option<Range> {
        loop {
            let cases = self.cases.len();
            let Frame::Choice { choice, next, .. } = self.stack.last_mut()? else {
                self.pop();
                continue;
            };
            let (choice, case) = (*choice, *next);
            *next += 1;
            skyline.undo(choice.mark);
            let alive = if case < cases {
                skyline.place(self.cases[case].item)
            } else if let (true, Some(gap)) = (case == cases, choice.gap) {
                skyline.raise(choice.column, gap)
            } else {
                failed.insert(choice.key);
                self.pop();
                continue;
            };
            if alive {
                return Some(choice.range);
            }
        }
    }

    fn pop(&mut self) {
        match self.stack.pop() {
            Some(Frame::Choice { start, .. }) => self.cases.truncate(start),
            Some(Frame::Split { start, .. }) => self.parts.truncate(start),
            None => {}
        }
    }
}
