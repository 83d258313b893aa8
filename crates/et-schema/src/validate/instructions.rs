//! Chains: every index that an instruction holds, and where jumps lead.

use super::Check;
use super::plan::Plan;
use super::sink::{Path, Sink};
use crate::generated::pte;
use crate::list::List;
use crate::problem::Rule;
use crate::view::{ChainView, InstructionView, ValueKind, tables};

impl<S: Sink> Check<'_, S> {
    pub(super) fn chains(&mut self, plan: &Plan<'_>, path: &Path<'_>) -> Result<(), S::Stop> {
        let list = path.dot("chains");
        let table = plan.view.table();
        if tables(table.chains()).len() == 0 {
            let found = if table.chains().is_some() {
                "empty"
            } else {
                "absent"
            };
            return self.error(Rule::Missing, &list, found, "at least one chain");
        }
        for (index, chain) in tables(table.chains()).enumerate() {
            self.chain(plan, chain, &list.at(index))?;
        }
        Ok(())
    }

    fn chain(
        &mut self,
        plan: &Plan<'_>,
        table: pte::Chain<'_>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let chain = ChainView::new(table);
        self.newer(&table._tab, 4, path)?;
        self.value_indices(plan, chain.inputs(), &path.dot("inputs"))?;
        self.value_indices(plan, chain.outputs(), &path.dot("outputs"))?;
        let list = path.dot("instructions");
        let num_instructions = chain.num_instructions();
        if table.instructions().is_none() {
            self.missing(&list, "a list of instructions")?;
        }
        for (index, instruction) in tables(table.instructions()).enumerate() {
            self.instruction(plan, num_instructions, instruction, &list.at(index))?;
        }
        self.newer_in_frames(table, &path.dot("stacktrace"))?;
        let frames = tables(table.stacktrace()).len();
        if table.stacktrace().is_some() && frames != num_instructions {
            let expected = format_args!("{num_instructions}, one per instruction");
            self.warn(
                Rule::SizeMismatch,
                &path.dot("stacktrace"),
                frames,
                expected,
            )?;
        }
        Ok(())
    }

    fn newer_in_frames(&mut self, table: pte::Chain<'_>, path: &Path<'_>) -> Result<(), S::Stop> {
        if !S::NEWER_FIELDS {
            return Ok(());
        }
        for (index, list) in tables(table.stacktrace()).enumerate() {
            let path = path.at(index);
            self.newer(&list._tab, 1, &path)?;
            for (index, frame) in tables(list.items()).enumerate() {
                self.newer(&frame._tab, 4, &path.dot("items").at(index))?;
            }
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        plan: &Plan<'_>,
        num_instructions: usize,
        table: pte::Instruction<'_>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        self.newer(&table._tab, 2, path)?;
        let instruction = InstructionView::new(table);
        // Structural verification does not look into unions of unknown type: do not touch those.
        let known = match instruction {
            InstructionView::Unknown(_) => None,
            InstructionView::Free { .. } => Some(1),
            _ => Some(2),
        };
        if let Some(known) = known
            && let Some(args) = table.instr_args()
        {
            self.newer(&args, known, path)?;
        }
        match instruction {
            InstructionView::Kernel { op, args } => {
                let path = path.dot("KernelCall");
                let len = plan.num_operators;
                self.index(&path.dot("op_index"), op.cast_signed(), len, "operators")?;
                let there = table
                    .instr_args_as_kernel_call()
                    .is_some_and(|c| c.args().is_some());
                self.arguments(plan, there, args, &path.dot("args"))
            }
            InstructionView::Delegate { index, args } => {
                let path = path.dot("DelegateCall");
                let len = plan.num_delegates;
                self.index(
                    &path.dot("delegate_index"),
                    index.cast_signed(),
                    len,
                    "delegates",
                )?;
                let there = table
                    .instr_args_as_delegate_call()
                    .is_some_and(|c| c.args().is_some());
                self.arguments(plan, there, args, &path.dot("args"))
            }
            InstructionView::Move { from, to } => {
                self.move_call(plan, from, to, &path.dot("MoveCall"))
            }
            InstructionView::JumpFalse { cond, target } => {
                let path = path.dot("JumpFalseCall");
                let kinds = [ValueKind::Bool, ValueKind::Tensor];
                self.value_of_kind(plan, cond, &kinds, &path.dot("cond_value_index"))?;
                let target = target.cast_signed();
                if usize::try_from(target).is_ok_and(|target| target <= num_instructions) {
                    return Ok(());
                }
                let expected = format_args!("0 to {num_instructions}, the end of the chain");
                self.error(
                    Rule::Index,
                    &path.dot("destination_instruction"),
                    target,
                    expected,
                )
            }
            InstructionView::Free { value } => {
                let path = path.dot("FreeCall");
                self.value_of_kind(plan, value, &[ValueKind::Tensor], &path.dot("value_index"))
            }
            InstructionView::Unknown(tag) => self.error(
                Rule::UnknownCode,
                path,
                tag,
                "a kind of instruction, 1 to 5",
            ),
        }
    }

    fn move_call(
        &mut self,
        plan: &Plan<'_>,
        from: u32,
        to: u32,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let from_there = self.value_index(&path.dot("move_from"), from, plan.num_values)?;
        let to_there = self.value_index(&path.dot("move_to"), to, plan.num_values)?;
        if !from_there || !to_there {
            return Ok(());
        }
        let [from_kind, to_kind] = [from, to].map(|value| kind_of(plan, value));
        // An optional value may be set by one branch and not by the other.
        if from_kind == to_kind || from_kind == ValueKind::None || to_kind == ValueKind::None {
            return Ok(());
        }
        let found = format_args!("{from} ({}) to {to} ({})", from_kind.name(), to_kind.name());
        self.error(Rule::Kind, path, found, "two values of one kind")
    }

    fn arguments(
        &mut self,
        plan: &Plan<'_>,
        there: bool,
        args: List<'_, u32>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        if !there {
            return self.missing(path, "a list of arguments");
        }
        self.value_indices(plan, args, path)
    }

    fn value_indices(
        &mut self,
        plan: &Plan<'_>,
        values: List<'_, u32>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        for (index, value) in values.iter().enumerate() {
            self.value_index(&path.at(index), value, plan.num_values)?;
        }
        Ok(())
    }

    fn value_of_kind(
        &mut self,
        plan: &Plan<'_>,
        value: u32,
        kinds: &[ValueKind],
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        if !self.value_index(path, value, plan.num_values)? {
            return Ok(());
        }
        let kind = kind_of(plan, value);
        if kinds.contains(&kind) {
            return Ok(());
        }
        let found = format_args!("{value}, a value of kind {}", kind.name());
        let expected = kinds.first().map_or("", |kind| kind.name());
        self.error(Rule::Kind, path, found, format_args!("a {expected} value"))
    }
}

fn kind_of(plan: &Plan<'_>, value: u32) -> ValueKind {
    plan.view.value_kind(value).unwrap_or(ValueKind::Unknown)
}
