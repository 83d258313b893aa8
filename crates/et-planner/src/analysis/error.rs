//! Why a method cannot be analysed.

use std::fmt;

use thiserror::Error;

use super::names::ValueIndex;

/// Why a method cannot be analysed. Methods of a verified program can, if they have one chain of known instructions and
/// stay within the limits of an analysis.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// The method is too large to look at each value at each instruction.
    #[error("{instructions} instructions and {values} values are too many to be analysed together")]
    TooLarge {
        /// How many instructions there are.
        instructions: u64,
        /// How many values.
        values: u64,
    },
    /// Values and instructions depend on each other in so many ways that it would take too long, or too much memory, to
    /// find out.
    #[error("analysing the method would take more than {limit} {unit}")]
    TooMuchWork {
        /// How many are taken at most.
        limit: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// A hint leaves a call of a delegate no output.
    #[error(
        "delegate {delegate} is said to have {inputs} inputs, of {arguments} tensors in a call, and needs an output"
    )]
    BadHint {
        /// The delegate.
        delegate: u32,
        /// The inputs that the hint tells of.
        inputs: usize,
        /// The tensors that a call names.
        arguments: usize,
    },
    /// A hint on a delegate that is not there.
    #[error("there is a hint on delegate {delegate}, the method has {count}")]
    HintOnNothing {
        /// The delegate.
        delegate: u32,
        /// How many there are.
        count: usize,
    },
    /// Something names a value that is not there.
    #[error("{place} names value {found}, the method has {count}")]
    NoSuchValue {
        /// What names it.
        place: NamedBy,
        /// The index.
        found: i64,
        /// The number of values.
        count: usize,
    },
    /// An instruction names an operator or a delegate that is not there.
    #[error("instruction {instruction} names {what} {found}, the method has {count}")]
    NoSuchCallee {
        /// The instruction.
        instruction: usize,
        /// `operator` or `delegate`.
        what: &'static str,
        /// The index.
        found: i64,
        /// How many there are.
        count: usize,
    },
    /// A jump leads out of the method.
    #[error("instruction {instruction} jumps to {found}, the method has {count} instructions")]
    NoSuchTarget {
        /// The instruction.
        instruction: usize,
        /// Where it jumps.
        found: i64,
        /// The number of instructions.
        count: usize,
    },
    /// A tensor's size is negative or beyond 63 bits, or it ends beyond 63 bits.
    #[error("value {value} has no size or place that memory can have")]
    BadTensor {
        /// The value.
        value: ValueIndex,
    },
    /// An instruction of a kind that this version does not know.
    #[error("instruction {instruction} is of a kind that is newer than this version")]
    NewInstruction {
        /// The instruction.
        instruction: usize,
    },
    /// No exporter writes more than one chain, and what would pass between them is not known.
    #[error("the method has {found} chains, not 1")]
    Chains {
        /// How many.
        found: usize,
    },
}

/// What names a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamedBy {
    /// The method's list of inputs.
    Inputs,
    /// The method's list of outputs.
    Outputs,
    /// A value that is a list.
    List(ValueIndex),
    /// An instruction, by its number.
    Instruction(usize),
}

impl fmt::Display for NamedBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inputs => formatter.write_str("inputs"),
            Self::Outputs => formatter.write_str("outputs"),
            Self::List(list) => write!(formatter, "list {list}"),
            Self::Instruction(number) => write!(formatter, "instruction {number}"),
        }
    }
}
