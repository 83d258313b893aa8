//! Which instruction can follow which.

use std::collections::{BTreeMap, BTreeSet};

use et_schema::owned::{ExecutionPlan, Instruction, JumpFalseCall, Value};

use super::error::AnalysisError;

/// The control flow of a method. Nodes are its instructions, and one more for its end.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Where each instruction may jump to.
    jumps: Vec<Option<usize>>,
    /// Where jumps lead, with the instructions that jump there.
    sources: BTreeMap<usize, Vec<usize>>,
    /// Jumps that are always taken.
    always: Vec<bool>,
    no_jumps: bool,
    no_loops: bool,
}

/// The instructions from which a run may come to another.
pub(super) struct Reaching {
    to: usize,
    /// By instruction; where there are no jumps, all before it.
    nodes: Option<Vec<bool>>,
}

impl Reaching {
    pub(super) fn contains(&self, from: usize) -> bool {
        match &self.nodes {
            Some(nodes) => nodes[from],
            None => from < self.to,
        }
    }
}

impl Flow {
    pub(super) fn new(plan: &ExecutionPlan) -> Result<Self, AnalysisError> {
        let [chain] = plan.chains.as_slice() else {
            return Err(AnalysisError::Chains {
                found: plan.chains.len(),
            });
        };
        let count = chain.instructions.len();
        let (mut jumps, mut always) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let fixed = FixedConditions::new(plan);
        for (node, instruction) in chain.instructions.iter().enumerate() {
            let (jump, taken) = match instruction {
                Instruction::JumpFalseCall(call) => {
                    let taken = fixed.value(plan, call).map(|condition| !condition);
                    (
                        Some(target(node, call, count)?).filter(|_| taken != Some(false)),
                        taken,
                    )
                }
                _ => (None, None),
            };
            always.push(taken == Some(true));
            jumps.push(jump);
        }
        let mut sources: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (node, to) in jumps.iter().enumerate() {
            if let Some(to) = to {
                sources.entry(*to).or_default().push(node);
            }
        }
        let no_loops = sources
            .iter()
            .all(|(to, from)| from.iter().all(|from| from < to));
        Ok(Self {
            no_jumps: sources.is_empty(),
            no_loops,
            jumps,
            sources,
            always,
        })
    }

    /// The number of the node that stands for the end.
    pub(crate) fn exit(&self) -> usize {
        self.jumps.len()
    }

    pub(crate) fn successors(&self, node: usize) -> impl Iterator<Item = usize> {
        let next = self
            .always
            .get(node)
            .is_some_and(|always| !always)
            .then_some(node + 1);
        let jump = self.jumps.get(node).copied().flatten();
        next.into_iter().chain(jump)
    }

    /// The instructions after which a run may come to `to`.
    pub(super) fn reaching(&self, to: usize) -> Reaching {
        if self.no_jumps {
            return Reaching { to, nodes: None };
        }
        let mut nodes = vec![false; self.exit() + 1];
        let mut open = vec![to];
        while let Some(node) = open.pop() {
            let previous = node.checked_sub(1).filter(|&node| !self.always[node]);
            let jumps = self.sources.get(&node).into_iter().flatten().copied();
            for from in previous.into_iter().chain(jumps) {
                if !std::mem::replace(&mut nodes[from], true) {
                    open.push(from);
                }
            }
        }
        Reaching {
            to,
            nodes: Some(nodes),
        }
    }

    /// Whether every run that comes to `to` has been at `first` before.
    pub(super) fn is_always_before(&self, first: usize, to: usize) -> bool {
        if self.has_no_jumps() || first == 0 {
            return first < to;
        }
        let mut seen = vec![false; self.exit() + 1];
        seen[first] = true;
        let mut open = vec![0];
        while let Some(node) = open.pop() {
            if node == to {
                return false;
            }
            if !std::mem::replace(&mut seen[node], true) {
                open.extend(self.successors(node));
            }
        }
        true
    }

    /// Where an instruction may jump to, beside going on to the next.
    pub(crate) fn jump(&self, node: usize) -> Option<usize> {
        self.jumps.get(node).copied().flatten()
    }

    /// The jumps back, as (head, jumping instruction).
    pub(crate) fn loops(&self) -> impl Iterator<Item = (usize, usize)> {
        let back =
            |(node, jump): (usize, &Option<usize>)| Some((jump.filter(|&to| to <= node)?, node));
        self.jumps.iter().enumerate().filter_map(back)
    }

    /// Whether there are no jumps: every instruction runs once, in order.
    pub(super) fn has_no_jumps(&self) -> bool {
        self.no_jumps
    }

    /// Whether instructions only ever run in order, each at most once.
    pub(super) fn has_no_loops(&self) -> bool {
        self.no_loops
    }
}

/// Which truth values no instruction can change: exporters jump by them where they mean "always".
struct FixedConditions {
    /// Values that a kernel or a delegate names, and may set.
    named: BTreeSet<i32>,
}

impl FixedConditions {
    fn new(plan: &ExecutionPlan) -> Self {
        let mut named: BTreeSet<i32> = plan.inputs.iter().copied().collect();
        for instruction in plan.instructions() {
            match instruction {
                Instruction::KernelCall(call) => named.extend(&call.args),
                Instruction::DelegateCall(call) => named.extend(&call.args),
                Instruction::MoveCall(call) => named.extend([call.move_from, call.move_to]),
                _ => {}
            }
        }
        Self { named }
    }

    fn value(&self, plan: &ExecutionPlan, call: &JumpFalseCall) -> Option<bool> {
        let condition = call.cond_value_index;
        match plan.values.get(usize::try_from(condition).ok()?)? {
            Value::Bool(value) if !self.named.contains(&condition) => Some(*value),
            _ => None,
        }
    }
}

fn target(node: usize, call: &JumpFalseCall, count: usize) -> Result<usize, AnalysisError> {
    let found = call.destination_instruction;
    usize::try_from(found)
        .ok()
        .filter(|&to| to <= count)
        .ok_or(AnalysisError::NoSuchTarget {
            instruction: node,
            found: found.into(),
            count,
        })
}
