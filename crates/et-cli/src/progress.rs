//! Where a search is, on a terminal.

use crate::render;
use et_planner::placement::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Time between two lines.
const INTERVAL: Duration = Duration::from_millis(100);

/// One line on stderr that changes while a search runs. Nothing where stderr is no terminal.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    bar: ProgressBar,
    last: Option<Instant>,
}

impl ProgressLine {
    /// A line that is not there yet; never where `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = match quiet {
            true => ProgressBar::hidden(),
            false => ProgressBar::new_spinner(),
        };
        Self { bar, last: None }
    }

    /// Shows where the search called `name` is, if the last time was a while ago. Never ends the search.
    pub(crate) fn show(&mut self, name: &str, progress: Progress) -> ControlFlow<()> {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= INTERVAL);
        if is_due && !self.bar.is_hidden() {
            self.bar.set_message(line(name, progress));
            self.bar.tick();
            self.last = Some(Instant::now());
        }
        ControlFlow::Continue(())
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// One line on stderr that counts. Nothing where stderr is no terminal.
#[derive(Debug)]
pub(crate) struct Counter(ProgressBar);

impl Counter {
    /// A line that is not there yet; never where `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = match quiet {
            true => ProgressBar::hidden(),
            false => ProgressBar::new(0),
        };
        bar.set_style(
            ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}")
                .expect("invariant: the template is one"),
        );
        Self(bar)
    }

    /// Counts `what` from 0 to `total`.
    pub(crate) fn begin(&self, what: &str, total: u64) {
        if !self.0.is_hidden() {
            self.0.set_message(what.to_owned());
        }
        self.0.set_length(total);
        self.0.set_position(0);
    }

    /// One more.
    pub(crate) fn advance(&self) {
        self.0.inc(1);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn line(name: &str, progress: Progress) -> String {
    let best = match progress.incumbent {
        // No plan yet.
        u64::MAX => "-".into(),
        nbytes => render::bytes(nbytes),
    };
    let bound = render::bytes(progress.bound);
    let nodes = render::count(progress.nodes, "node");
    format!("{name}: best {best}, bound {bound}, {nodes}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_best_plan_and_the_bound() {
        let mut progress = Progress {
            incumbent: u64::MAX,
            bound: 64,
            nodes: 1,
        };
        assert_eq!(line("x", progress), "x: best -, bound 64 B, 1 node");
        progress.incumbent = 2048;
        assert_eq!(line("x", progress), "x: best 2.00 KiB, bound 64 B, 1 node");
    }
}
