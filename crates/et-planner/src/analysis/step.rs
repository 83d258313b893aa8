//! What an instruction does with tensors.

use std::collections::BTreeSet;

use et_schema::owned::{DelegateCall, ExecutionPlan, Instruction, KernelCall, Operator, Value};

use super::error::{AnalysisError, NamedBy};
use super::names::ValueIndex;
use super::storage::{Storages, tensors, value};
use super::work::Work;

/// What an instruction does with tensors. Lists count as their items; other values are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Read and left as they are.
    pub reads: Vec<ValueIndex>,
    /// Overwritten whole, whatever was in them.
    pub writes: Vec<ValueIndex>,
    /// Read and written.
    pub updates: Vec<ValueIndex>,
    /// (target, source): the target shows the source's bytes from here on.
    pub moves: Vec<(ValueIndex, ValueIndex)>,
    /// (argument, owner): a delegate's argument that may be a view of `owner`, which it then reads, or an output, which
    /// it then writes. Taking it for both is right either way.
    pub either: Vec<(ValueIndex, ValueIndex)>,
    /// Whether the roles are a safe guess: an operator in a form that nothing here knows.
    pub is_guess: bool,
    /// Whether `updates` is a table that the step fills row by row.
    pub(super) fills_rows: bool,
}

impl Step {
    /// A step that makes the bytes of one value those of another.
    pub(crate) fn copy(from: ValueIndex, to: ValueIndex) -> Self {
        Self {
            reads: vec![from],
            writes: vec![to],
            ..Self::default()
        }
    }

    /// All tensors that the step names, each once or more.
    pub fn mentions(&self) -> impl Iterator<Item = ValueIndex> {
        let moves = self.moves.iter().flat_map(|&(to, from)| [to, from]);
        let plain = self.reads.iter().chain(&self.writes).chain(&self.updates);
        plain
            .copied()
            .chain(moves)
            .chain(self.either.iter().map(|&(argument, _)| argument))
    }

    /// The tensors whose bytes it changes.
    pub fn changes(&self) -> impl Iterator<Item = ValueIndex> {
        let plain = self.writes.iter().chain(&self.updates);
        plain
            .copied()
            .chain(self.either.iter().map(|&(argument, _)| argument))
    }
}

/// The steps of a method; the arguments of delegates are all reads as yet.
pub(super) fn steps(
    plan: &ExecutionPlan,
    storages: &Storages,
    work: &Work,
) -> Result<Vec<Step>, AnalysisError> {
    let instructions = plan.instructions();
    instructions
        .enumerate()
        .map(|(number, instruction)| {
            work.keep(tensor_count(plan, instruction))?;
            step(plan, storages, number, instruction)
        })
        .collect()
}

/// How many tensors an instruction names at most. Many instructions may name one long list.
fn tensor_count(plan: &ExecutionPlan, instruction: &Instruction) -> usize {
    let args = match instruction {
        Instruction::KernelCall(call) => call.args.as_slice(),
        Instruction::DelegateCall(call) => call.args.as_slice(),
        _ => &[],
    };
    let values = args
        .iter()
        .filter_map(|&argument| plan.values.get(usize::try_from(argument).ok()?));
    let counts = values.map(|value| match value {
        Value::TensorList(items) | Value::OptionalTensorList(items) => items.len(),
        _ => 1,
    });
    counts.fold(1, usize::saturating_add)
}

fn step(
    plan: &ExecutionPlan,
    storages: &Storages,
    number: usize,
    instruction: &Instruction,
) -> Result<Step, AnalysisError> {
    let by = NamedBy::Instruction(number);
    let check = |index: i32| value(index.into(), plan.values.len(), by);
    let checked = |list: &[i32]| {
        list.iter()
            .map(|&index| check(index))
            .collect::<Result<Vec<_>, _>>()
    };
    let read = |values: &[usize]| Step {
        reads: indices(values.iter().flat_map(|&value| tensors(plan, value))),
        ..Step::default()
    };
    Ok(match instruction {
        Instruction::KernelCall(call) => {
            let operator = operator(plan, number, call)?;
            kernel(plan, storages, operator, &checked(&call.args)?)
        }
        Instruction::DelegateCall(call) => {
            expect_delegate(plan, number, call)?;
            read(&checked(&call.args)?)
        }
        Instruction::MoveCall(call) => {
            let (to, from) = (check(call.move_to)?, check(call.move_from)?);
            let tensor = |value: usize| matches!(plan.values[value], Value::Tensor(_));
            let moves =
                (tensor(to) && tensor(from)).then(|| (ValueIndex::new(to), ValueIndex::new(from)));
            Step {
                moves: moves.into_iter().collect(),
                ..Step::default()
            }
        }
        Instruction::JumpFalseCall(call) => read(&[check(call.cond_value_index)?]),
        Instruction::FreeCall(call) => {
            check(call.value_index)?;
            Step::default()
        }
        _ => {
            return Err(AnalysisError::NewInstruction {
                instruction: number,
            });
        }
    })
}

fn expect_delegate(
    plan: &ExecutionPlan,
    instruction: usize,
    call: &DelegateCall,
) -> Result<(), AnalysisError> {
    let (found, count) = (call.delegate_index, plan.delegates.len());
    match usize::try_from(found) {
        Ok(index) if index < count => Ok(()),
        _ => Err(AnalysisError::NoSuchCallee {
            instruction,
            what: "delegate",
            found: found.into(),
            count,
        }),
    }
}

fn operator<'a>(
    plan: &'a ExecutionPlan,
    instruction: usize,
    call: &KernelCall,
) -> Result<&'a Operator, AnalysisError> {
    plan.operator(call).ok_or(AnalysisError::NoSuchCallee {
        instruction,
        what: "operator",
        found: call.op_index.into(),
        count: plan.operators.len(),
    })
}

fn indices(values: impl IntoIterator<Item = usize>) -> Vec<ValueIndex> {
    values.into_iter().map(ValueIndex::new).collect()
}

fn kernel(
    plan: &ExecutionPlan,
    storages: &Storages,
    operator: &Operator,
    arguments: &[usize],
) -> Step {
    let tensors_of =
        |list: &[usize]| indices(list.iter().flat_map(|&argument| tensors(plan, argument)));
    match (operator.name.as_str(), arguments) {
        ("executorch_prim::et_view", &[source, _, target, ..]) => {
            let pair = (ValueIndex::new(target), ValueIndex::new(source));
            let tensor = |value: usize| matches!(plan.values[value], Value::Tensor(_));
            let moves = if tensor(source) && tensor(target) {
                vec![pair]
            } else {
                Vec::new()
            };
            Step {
                moves,
                ..Step::default()
            }
        }
        ("executorch_prim::et_copy_index", [table, rest @ ..]) => Step {
            reads: tensors_of(rest),
            updates: tensors_of(&[*table]),
            fills_rows: true,
            ..Step::default()
        },
        (name, _) if only_reads(name) => Step {
            reads: tensors_of(arguments),
            ..Step::default()
        },
        (name, [target, .., last]) if is_in_place(name) && same(storages, *target, *last) => Step {
            reads: tensors_of(&arguments[1..arguments.len() - 1]),
            updates: tensors_of(&[*target]),
            // A second name for the result: all of it is there only from here on.
            writes: if last == target {
                Vec::new()
            } else {
                tensors_of(&[*last])
            },
            ..Step::default()
        },
        _ => match out_arguments(plan, arguments) {
            Some((inputs, outputs)) => out_variant(tensors_of(inputs), tensors_of(outputs)),
            None => Step {
                updates: tensors_of(arguments),
                is_guess: true,
                ..Step::default()
            },
        },
    }
}

/// Operators that make scalars from tensors.
fn only_reads(name: &str) -> bool {
    name.starts_with("executorch_prim::")
        || [
            "aten::sym_size",
            "aten::sym_numel",
            "aten::_local_scalar_dense",
        ]
        .contains(&name)
}

/// Whether a name is that of an operator that changes its first argument.
fn is_in_place(name: &str) -> bool {
    name.ends_with('_') && !name.ends_with("__")
}

/// Whether two values are the same, or two names for the same bytes, as older exporters write them.
fn same(storages: &Storages, a: usize, b: usize) -> bool {
    a == b || (storages.places[a].is_some() && storages.places[a] == storages.places[b])
}

/// Splits the arguments of an out-variant, whose outputs come once as arguments and again as results.
fn out_arguments<'a>(
    plan: &ExecutionPlan,
    arguments: &'a [usize],
) -> Option<(&'a [usize], &'a [usize])> {
    let (&last, before) = arguments.split_last()?;
    let items = |value: usize| match &plan.values[value] {
        Value::TensorList(items) => Some(items.as_slice()),
        _ => None,
    };
    // One tensor, or one list of tensors, twice.
    if let Some((&out, inputs)) = before.split_last() {
        let tensor = matches!(plan.values[last], Value::Tensor(_)) && out == last;
        let list = items(last).is_some_and(|list| items(out) == Some(list));
        if tensor || list {
            return Some((inputs, &before[inputs.len()..]));
        }
    }
    // Several tensors, and the list of them.
    let list = items(last)?;
    let start = before.len().checked_sub(list.len())?;
    let outputs = &before[start..];
    let equal = outputs
        .iter()
        .zip(list)
        .all(|(&a, &b)| usize::try_from(b) == Ok(a));
    (equal && !outputs.is_empty()).then_some((&before[..start], outputs))
}

fn out_variant(inputs: Vec<ValueIndex>, outputs: Vec<ValueIndex>) -> Step {
    let read: BTreeSet<ValueIndex> = inputs.iter().copied().collect();
    let (updates, writes): (Vec<_>, _) = unique(outputs)
        .into_iter()
        .partition(|out| read.contains(out));
    let updated: BTreeSet<ValueIndex> = updates.iter().copied().collect();
    let reads = inputs
        .into_iter()
        .filter(|input| !updated.contains(input))
        .collect();
    Step {
        reads,
        writes,
        updates,
        ..Step::default()
    }
}

fn unique(mut values: Vec<ValueIndex>) -> Vec<ValueIndex> {
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(*value));
    values
}
