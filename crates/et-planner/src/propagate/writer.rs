//! Instructions with others between.

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
    operators: Vec<Operator>,
}

impl Writer {
    pub(super) fn new(operators: &[Operator]) -> Self {
        Self {
            instructions: Vec::new(),
            steps: Vec::new(),
            origins: Vec::new(),
            starts: Vec::new(),
            operators: operators.to_vec(),
        }
    }

    pub(super) fn begin(&mut self, node: usize) {
        debug_assert_eq!(self.starts.len(), node);
        self.starts.push(self.instructions.len());
    }

    pub(super) fn push(&mut self, instruction: Instruction, step: Step) {
        self.instructions.push(instruction);
        self.steps.push(step);
        self.origins.push(self.starts.len() - 1);
    }

    pub(super) fn copy(&mut self, name: &str, from: ValueIndex, to: ValueIndex) {
        let op_index = self.operator(name);
        let index = |value: ValueIndex| i32::try_from(value.get()).unwrap_or(i32::MAX);
        let args = vec![index(from), index(to), index(to)];
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
        i32::try_from(index).unwrap_or(i32::MAX)
    }

    /// The chain with its jumps and source lines moved along.
    pub(super) fn finish(mut self, old: Chain) -> (Chain, Vec<Operator>, Vec<Step>) {
        for instruction in &mut self.instructions {
            if let Instruction::JumpFalseCall(call) = instruction {
                let target = usize::try_from(call.destination_instruction).ok();
                let target = target.and_then(|target| self.starts.get(target));
                let target = target.and_then(|&target| i32::try_from(target).ok());
                call.destination_instruction = target.unwrap_or(call.destination_instruction);
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
            instructions: self.instructions,
            stacktrace,
            ..old
        };
        (chain, self.operators, self.steps)
    }
}
