//! Instructions, resolved: what a method does, without looking anything up.

use std::ops::Range;

use et_kernel::{Delegate, RunFn, StepState, ValueIndex};

/// A method's instructions.
#[derive(Default)]
pub(crate) struct Steps {
    /// All chains' steps, one chain after the other.
    pub(crate) steps: Vec<Step>,
    /// Each chain's part of `steps`.
    pub(crate) chains: Vec<Range<usize>>,
    /// All steps' arguments.
    pub(crate) arguments: Vec<ValueIndex>,
    /// Operators' and backends' names.
    pub(crate) names: Vec<String>,
    pub(crate) delegates: Vec<LoadedDelegate>,
}

/// One instruction.
pub(crate) enum Step {
    Kernel {
        run: RunFn,
        arguments: Range<usize>,
        state: Option<StepState>,
        name: usize,
    },
    /// Nothing: what the operator would do was done at load, or is done by a step before.
    Done {
        arguments: Range<usize>,
        name: usize,
    },
    Delegate {
        index: usize,
        arguments: Range<usize>,
    },
    Move {
        from: ValueIndex,
        to: ValueIndex,
    },
    /// `target` counts in the chain.
    JumpFalse {
        condition: ValueIndex,
        target: usize,
    },
    Free {
        value: ValueIndex,
    },
}

pub(crate) struct LoadedDelegate {
    pub(crate) backend: String,
    pub(crate) target: Option<String>,
    pub(crate) delegate: Box<dyn Delegate>,
}

impl Steps {
    /// The values that a step reads and writes, what it writes last.
    pub(crate) fn values(&self, step: &Step) -> Vec<ValueIndex> {
        match step {
            Step::Kernel { arguments, .. }
            | Step::Done { arguments, .. }
            | Step::Delegate { arguments, .. } => self.arguments[arguments.clone()].to_vec(),
            Step::Move { from, to } => vec![*from, *to],
            Step::JumpFalse { condition, .. } => vec![*condition],
            Step::Free { .. } => Vec::new(),
        }
    }

    /// What events and errors call a step.
    pub(crate) fn name(&self, step: &Step) -> &str {
        match step {
            Step::Kernel { name, .. } | Step::Done { name, .. } => &self.names[*name],
            Step::Delegate { index, .. } => &self.delegates[*index].backend,
            Step::Move { .. } => "move",
            Step::JumpFalse { .. } => "jump_false",
            Step::Free { .. } => "free",
        }
    }
}
