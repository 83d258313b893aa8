//! Instructions with others between.

use std::collections::BTreeMap;

use et_schema::owned::{Chain, FrameList, Instruction, KernelCall, Operator};

use crate::analysis::{Step, ValueIndex};

/// The instructions of a method, with others between.
pub(super) struct Writer {
    instructions: Vec<Instruction>,
    steps: Vec<Step>,
    /// For each new instruction the old one that it belongs to.
    origins: Vec<usize>,
    /// For each old instruction, and the end, the first new one that belongs to it.
    starts: Vec<usize>,
    /// The same, with what runs once before a loop that begins there.
    entries: Vec<usize>,
    /// Loops with something before them: first old instruction → last one.
    loops: BTreeMap<usize, usize>,
    operators: Vec<Operator>,
}

impl Writer {
    pub(super) fn new(operators: &[Operator]) -> Self {
        Self {
            instructions: Vec::new(),
            steps: Vec::new(),
            origins: Vec::new(),
            starts: Vec::new(),
            entries: Vec::new(),
            loops: BTreeMap::new(),
            operators: operators.to_vec(),
        }
    }

    /// What is pushed next runs whenever control comes to old instruction `node`, but for jumps within a loop that
    /// [`enter_loop`](Self::enter_loop) was called for.
    pub(super) fn approach(&mut self, node: usize) {
        debug_assert_eq!((self.entries.len(), self.starts.len()), (node, node));
        self.entries.push(self.instructions.len());
    }

    /// What was pushed since [`approach`](Self::approach) is not part of the loop that begins there and ends with `tail`.
    pub(super) fn enter_loop(&mut self, tail: usize) {
        self.loops.insert(self.entries.len() - 1, tail);
    }

    /// What is pushed next belongs to the old instruction that was approached.
    pub(super) fn begin(&mut self) {
        debug_assert_eq!(self.starts.len() + 1, self.entries.len());
        self.starts.push(self.instructions.len());
    }

    pub(super) fn push(&mut self, instruction: Instruction, step: Step) {
        self.instructions.push(instruction);
        self.steps.push(step);
        self.origins.push(self.entries.len() - 1);
    }

    pub(super) fn copy(&mut self, name: &str, from: ValueIndex, to: ValueIndex) {
        let op_index = self.operator(name);
        let args = vec![from.field(), to.field(), to.field()];
        let call = Instruction::KernelCall(KernelCall { op_index, args });
        self.push(call, Step::copy(from, to));
    }

    fn operator(&mut self, name: &str) -> i32 {
        let is_it = |operator: &Operator| operator.name == name && operator.overload == "out";
        let index = self.operators.iter().position(is_it).unwrap_or_else(|| {
            self.operators.push(Operator {
                name: name.to_owned(),
                overload: "out".to_owned(),
            });
            self.operators.len() - 1
        });
        i32::try_from(index).expect("invariant: a file has fewer than 2^31 operators")
    }

    /// The new place of a jump from old instruction `from`.
    fn target(&self, from: usize, old: i32) -> i32 {
        let to = usize::try_from(old).expect("invariant: the analysis has checked all jumps");
        let tail = self.loops.get(&to);
        let goes_round = tail.is_some_and(|&tail| (to..=tail).contains(&from));
        let places = if goes_round {
            &self.starts
        } else {
            &self.entries
        };
        i32::try_from(places[to]).expect("invariant: a method has fewer than 2^31 instructions")
    }

    /// The method's chain with its jumps and source lines moved along.
    pub(super) fn finish(self, old: Chain) -> Written {
        let mut instructions = self.instructions.clone();
        for (instruction, &origin) in instructions.iter_mut().zip(&self.origins) {
            if let Instruction::JumpFalseCall(call) = instruction {
                call.destination_instruction = self.target(origin, call.destination_instruction);
            }
        }
        let stacktrace = old.stacktrace.map(|frames| {
            let of = |&origin: &usize| {
                frames
                    .get(origin)
                    .cloned()
                    .unwrap_or_else(FrameList::default)
            };
            self.origins.iter().map(of).collect()
        });
        let chain = Chain {
            instructions,
            stacktrace,
            ..old
        };
        Written {
            chain,
            operators: self.operators,
            steps: self.steps,
            origins: self.origins,
        }
    }
}

/// What was written.
pub(super) struct Written {
    pub(super) chain: Chain,
    pub(super) operators: Vec<Operator>,
    pub(super) steps: Vec<Step>,
    /// For each new instruction the old one that it belongs to.
    pub(super) origins: Vec<usize>,
}
