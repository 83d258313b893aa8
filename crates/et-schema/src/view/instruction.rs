//! Chains of instructions and where in the model's source they came from.

use super::{numbers, table_at, tables};
use crate::generated::pte;
use crate::list::List;
use crate::number::{mem_index, unsigned};

/// A list of instructions that run one after the other.
#[derive(Debug, Clone, Copy)]
pub struct ChainView<'a>(pte::Chain<'a>);

impl<'a> ChainView<'a> {
    pub(crate) fn new(table: pte::Chain<'a>) -> Self {
        Self(table)
    }

    pub(crate) fn table(&self) -> pte::Chain<'a> {
        self.0
    }

    /// Values that the chain reads; exporters leave this empty.
    pub fn inputs(&self) -> List<'a, u32> {
        numbers(self.0.inputs())
    }

    /// Values that the chain writes; exporters leave this empty.
    pub fn outputs(&self) -> List<'a, u32> {
        numbers(self.0.outputs())
    }

    /// How many instructions there are.
    pub fn num_instructions(&self) -> usize {
        tables(self.0.instructions()).len()
    }

    /// The instructions, in order.
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = InstructionView<'a>> + use<'a> {
        tables(self.0.instructions()).map(InstructionView::new)
    }

    /// The instruction at `index`.
    pub fn instruction(&self, index: u32) -> Option<InstructionView<'a>> {
        table_at(self.0.instructions(), mem_index(index)).map(InstructionView::new)
    }

    /// True if the file records which source lines the instructions came from.
    pub fn has_stacktrace(&self) -> bool {
        self.0.stacktrace().is_some()
    }

    /// The source lines of the instruction at `index`; none if the file does not say.
    pub fn frames(&self, index: u32) -> impl ExactSizeIterator<Item = FrameView<'a>> + use<'a> {
        let frames = table_at(self.0.stacktrace(), mem_index(index)).and_then(|list| list.items());
        tables(frames).map(FrameView::new)
    }
}

/// One step of a method. Indices are into the method's lists; a negative one of an unverified file
/// reads as a number past any list.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum InstructionView<'a> {
    /// Calls an operator.
    Kernel {
        /// Which operator.
        op: u32,
        /// The values it reads and writes.
        args: List<'a, u32>,
    },
    /// Calls a delegate.
    Delegate {
        /// Which delegate.
        index: u32,
        /// The values it reads and writes.
        args: List<'a, u32>,
    },
    /// Makes one value the same as another.
    Move {
        /// The value to take.
        from: u32,
        /// The value to set.
        to: u32,
    },
    /// Goes on elsewhere if a value is false.
    JumpFalse {
        /// The value to look at.
        cond: u32,
        /// Index of an instruction of the same chain, or their number for its end.
        target: u32,
    },
    /// Gives up the memory of a tensor.
    Free {
        /// The tensor.
        value: u32,
    },
    /// Something that this version does not know (the union's tag). Never in a verified program.
    Unknown(u8),
}

impl<'a> InstructionView<'a> {
    pub(crate) fn new(table: pte::Instruction<'a>) -> Self {
        let tag = table.instr_args_type();
        Self::known(table).unwrap_or(Self::Unknown(tag.0))
    }

    fn known(table: pte::Instruction<'a>) -> Option<Self> {
        Some(match table.instr_args_type() {
            pte::InstructionArguments::KernelCall => {
                let call = table.instr_args_as_kernel_call()?;
                Self::Kernel {
                    op: unsigned(call.op_index()),
                    args: numbers(call.args()),
                }
            }
            pte::InstructionArguments::DelegateCall => {
                let call = table.instr_args_as_delegate_call()?;
                Self::Delegate {
                    index: unsigned(call.delegate_index()),
                    args: numbers(call.args()),
                }
            }
            pte::InstructionArguments::MoveCall => {
                let call = table.instr_args_as_move_call()?;
                Self::Move {
                    from: unsigned(call.move_from()),
                    to: unsigned(call.move_to()),
                }
            }
            pte::InstructionArguments::JumpFalseCall => {
                let call = table.instr_args_as_jump_false_call()?;
                Self::JumpFalse {
                    cond: unsigned(call.cond_value_index()),
                    target: unsigned(call.destination_instruction()),
                }
            }
            pte::InstructionArguments::FreeCall => {
                let call = table.instr_args_as_free_call()?;
                Self::Free {
                    value: unsigned(call.value_index()),
                }
            }
            _ => return None,
        })
    }
}

/// A line of the model's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameView<'a> {
    /// File name.
    pub filename: &'a str,
    /// Line number.
    pub lineno: i32,
    /// Function name.
    pub name: &'a str,
    /// The text of the line.
    pub context: &'a str,
}

impl<'a> FrameView<'a> {
    fn new(table: pte::Frame<'a>) -> Self {
        Self {
            filename: table.filename().unwrap_or_default(),
            lineno: table.lineno(),
            name: table.name().unwrap_or_default(),
            context: table.context().unwrap_or_default(),
        }
    }
}
