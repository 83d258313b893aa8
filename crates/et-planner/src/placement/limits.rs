//! How long a search may take, and how it tells where it is.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Nodes between two looks at the clock and the listener.
const NODES_PER_LOOK: u64 = 256;

/// Columns that are looked at in the time of one more node.
const COLUMNS_PER_NODE: usize = 1024;

/// How long a search may take.
///
/// With a node count alone, results are the same on every machine. Without any limit a search ends only with a
/// proof, which may take longer than anyone lives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Nodes of the search tree. Those of instances with thousands of buffers count for more than one.
    pub nodes: Option<u64>,
    /// Time on the clock. Results then depend on the machine.
    pub time: Option<Duration>,
}

impl Default for Limits {
    /// Half a million nodes, no clock.
    fn default() -> Self {
        Self {
            nodes: Some(500_000),
            time: None,
        }
    }
}

impl Limits {
    /// At most `nodes` nodes, no clock.
    pub fn nodes(nodes: u64) -> Self {
        Self {
            nodes: Some(nodes),
            time: None,
        }
    }

    /// At most this long, any number of nodes.
    pub fn time(time: Duration) -> Self {
        Self {
            nodes: None,
            time: Some(time),
        }
    }
}

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The smallest arena so far, in bytes.
    pub incumbent: u64,
    /// No arena is smaller than this, in bytes.
    pub bound: u64,
    /// Nodes of the search tree so far.
    pub nodes: u64,
}

/// Why a search ended without a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The node count.
    Nodes,
    /// The clock.
    Time,
    /// The listener said so.
    Cancelled,
    /// The instance is too large to search; only the fast heuristics ran.
    TooLarge,
}

/// What is called while a search runs.
pub(super) type Listener<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Counts nodes, and says when to stop.
pub(super) struct Meter<'a> {
    limits: Limits,
    started: Instant,
    listener: Listener<'a>,
    state: Progress,
    next_look: u64,
}

impl<'a> Meter<'a> {
    pub(super) fn new(limits: Limits, listener: Listener<'a>) -> Self {
        let state = Progress {
            incumbent: u64::MAX,
            bound: 0,
            nodes: 0,
        };
        Self {
            limits,
            started: Instant::now(),
            listener,
            state,
            next_look: 0,
        }
    }

    pub(super) fn spent(&self) -> u64 {
        self.state.nodes
    }

    /// Notes what is known now, and tells the listener if that is news.
    pub(super) fn report(&mut self, incumbent: u64, bound: u64) -> Result<(), Stop> {
        if (self.state.incumbent, self.state.bound) == (incumbent, bound) {
            return Ok(());
        }
        self.state = Progress {
            incumbent,
            bound,
            ..self.state
        };
        self.listen()
    }

    /// Counts one node that looked at so many columns.
    pub(super) fn tick(&mut self, columns: usize) -> Result<(), Stop> {
        if self
            .limits
            .nodes
            .is_some_and(|most| self.state.nodes >= most)
        {
            return Err(Stop::Nodes);
        }
        self.state.nodes += 1 + (columns / COLUMNS_PER_NODE) as u64;
        if self.state.nodes < self.next_look {
            return Ok(());
        }
        self.next_look = self.state.nodes + NODES_PER_LOOK;
        if self
            .limits
            .time
            .is_some_and(|most| self.started.elapsed() >= most)
        {
            return Err(Stop::Time);
        }
        self.listen()
    }

    fn listen(&mut self) -> Result<(), Stop> {
        match (self.listener)(self.state) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Cancelled),
        }
    }
}
