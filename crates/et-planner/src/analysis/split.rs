//! Which arguments of a delegate are inputs. The file does not say.

use std::collections::BTreeSet;

use et_schema::owned::{ExecutionPlan, Instruction};

use super::Hints;
use super::error::AnalysisError;
use super::flow::{Flow, Reaching};
use super::names::ValueIndex;
use super::step::Step;
use super::storage::Storages;
use super::work::Work;

/// Splits the arguments of delegate calls by data flow: outputs are the longest run of last arguments that nothing
/// has given bytes before.
pub(super) struct Split<'a> {
    plan: &'a ExecutionPlan,
    storages: &'a Storages,
    flow: &'a Flow,
    work: &'a Work,
    /// For each value the instructions that name it, in order.
    named: Vec<Vec<usize>>,
    /// For each value the instructions that change it, as far as that is known yet.
    changed: Vec<BTreeSet<usize>>,
}

/// One call that is looked at.
struct Call {
    node: usize,
    /// The instructions from which a run may come to the call.
    before: Reaching,
}

/// What an argument can be, by what happened before the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Input,
    Output,
    /// Either of both, and nothing says what was in it before.
    Update,
    /// Either an output, or a view of this value.
    ViewOrOutput(usize),
}

impl<'a> Split<'a> {
    /// The steps of delegate calls must hold all arguments as reads.
    pub(super) fn new(
        plan: &'a ExecutionPlan,
        storages: &'a Storages,
        flow: &'a Flow,
        steps: &[Step],
        work: &'a Work,
    ) -> Self {
        let count = storages.value_count();
        let mut split = Self {
            plan,
            storages,
            flow,
            work,
            named: vec![Vec::new(); count],
            changed: vec![BTreeSet::new(); count],
        };
        for (node, step) in steps.iter().enumerate() {
            for value in step.mentions() {
                split.named[value.get()].push(node);
            }
            split.note_changes(node, step);
        }
        split
    }

    fn note_changes(&mut self, node: usize, step: &Step) {
        for value in step.changes() {
            self.changed[value.get()].insert(node);
        }
    }

    /// Sets the roles of all delegate calls.
    pub(super) fn apply(mut self, hints: &Hints, steps: &mut [Step]) -> Result<(), AnalysisError> {
        let plan = self.plan;
        let count = plan.delegates.len();
        if let Some(&delegate) = hints
            .delegate_inputs
            .keys()
            .find(|&&it| it as usize >= count)
        {
            return Err(AnalysisError::HintOnNothing { delegate, count });
        }
        let instructions = plan.instructions();
        for (node, instruction) in instructions.enumerate() {
            let Instruction::DelegateCall(call) = instruction else {
                continue;
            };
            let index = u32::try_from(call.delegate_index).ok();
            let known = index.and_then(|index| hints.delegate_inputs.get(&index));
            let arguments = std::mem::take(&mut steps[node].reads);
            let roles = match known {
                Some(&inputs) => by_count(call.delegate_index, inputs, arguments.len())?,
                None => self.roles(node, &arguments, steps)?,
            };
            steps[node] = step(&arguments, &roles);
            self.note_changes(node, &steps[node]);
        }
        Ok(())
    }

    fn roles(
        &self,
        node: usize,
        arguments: &[ValueIndex],
        steps: &[Step],
    ) -> Result<Vec<Role>, AnalysisError> {
        if !self.flow.has_no_jumps() {
            self.work.spend(steps.len())?;
        }
        let call = Call {
            node,
            before: self.flow.reaching(node),
        };
        let mut roles = vec![Role::Input; arguments.len()];
        let candidates = roles.iter_mut().zip(arguments).rev();
        for (from_end, (role, argument)) in candidates.enumerate() {
            let is_last = from_end == 0;
            match self.role(&call, argument.get(), is_last, steps)? {
                Role::Input => break,
                other => *role = other,
            }
        }
        if roles.iter().all(|role| *role == Role::Input) {
            self.find_updates(arguments, &mut roles);
        }
        Ok(roles)
    }

    /// A call gives something, so where all arguments had bytes before, it gives something new to one of them: to
    /// what it names twice, or else to the last.
    fn find_updates(&self, arguments: &[ValueIndex], roles: &mut [Role]) {
        let can_change = |value: &ValueIndex| !self.storages.constants.contains(value.get());
        let mut once = BTreeSet::new();
        let twice = arguments.iter().filter(|value| !once.insert(**value));
        let mut changed: BTreeSet<ValueIndex> = twice.copied().filter(can_change).collect();
        if changed.is_empty() {
            changed.extend(arguments.last().copied().filter(can_change));
        }
        for (role, argument) in roles.iter_mut().zip(arguments) {
            if changed.contains(argument) {
                *role = Role::Update;
            }
        }
    }

    fn role(
        &self,
        call: &Call,
        value: usize,
        is_last: bool,
        steps: &[Step],
    ) -> Result<Role, AnalysisError> {
        if self.is_given(value) || self.is_touched_before(call, value)? {
            return Ok(Role::Input);
        }
        // A call has at least one output, and outputs come last.
        if is_last {
            return Ok(Role::Output);
        }
        if self.storages.last_placeholder.is_none() || self.is_changed_later(call, value)? {
            return Ok(Role::Update);
        }
        self.view_role(call, value, steps)
    }

    /// Whether the bytes are there before the first instruction.
    fn is_given(&self, value: usize) -> bool {
        let storages = self.storages;
        let named = self.plan.values[value].as_tensor().and_then(|tensor| {
            tensor
                .extra_tensor_info
                .as_ref()?
                .fully_qualified_name
                .as_ref()
        });
        storages.inputs.contains(value)
            || storages.constants.contains(value)
            || storages.initialised.contains(value)
            || storages.is_placeholder(value)
            || named.is_some()
    }

    /// Whether an instruction that may run before the call made the value, or needed it.
    fn is_touched_before(&self, call: &Call, value: usize) -> Result<bool, AnalysisError> {
        let named = &self.named[value];
        let named = &named[..named.partition_point(|&at| at < call.node)];
        self.work.spend(named.len())?;
        Ok(named.iter().any(|&before| call.before.contains(before)))
    }

    /// Whether an instruction after the call changes the value and leads back to the call.
    fn is_changed_later(&self, call: &Call, value: usize) -> Result<bool, AnalysisError> {
        let mut changed = self.changed[value].range(call.node + 1..);
        self.work.spend(self.changed[value].len())?;
        Ok(changed.any(|&later| call.before.contains(later)))
    }

    /// A value that nothing made, at the place of one that something made: a view of that, or an output that took
    /// over the place.
    fn view_role(&self, call: &Call, value: usize, steps: &[Step]) -> Result<Role, AnalysisError> {
        // Nothing ever writes a view under its own name.
        let is_changed = self.changed[value].iter().any(|&at| at != call.node);
        let owner = match is_changed {
            true => None,
            false => self.last_owner(call, value, steps)?,
        };
        let Some((writer, made)) = owner else {
            return Ok(Role::Output);
        };
        let named = &self.named[made];
        let behind = |node: usize| named.partition_point(|&at| at < node);
        // The arguments of the call itself are set aside while it is looked at.
        let needed_later = named[behind(call.node)..].iter().any(|&at| at != call.node)
            || self.storages.outputs.contains(made);
        // What is never read was made in vain, unless it is read through this value, in another shape.
        let read_before = behind(writer) < behind(call.node);
        Ok(
            match (
                needed_later,
                read_before || self.have_one_shape(value, made),
            ) {
                (true, _) | (_, false) => Role::Input,
                (false, true) => Role::ViewOrOutput(made),
            },
        )
    }

    fn have_one_shape(&self, a: usize, b: usize) -> bool {
        let shape = |value: usize| {
            let tensor = self.plan.values[value].as_tensor();
            tensor.map(|tensor| (&tensor.sizes, &tensor.dim_order))
        };
        shape(a) == shape(b)
    }

    /// The last value before the call whose bytes are in the way, if it is at exactly this place, and the first
    /// instruction that could read it.
    fn last_owner(
        &self,
        call: &Call,
        value: usize,
        steps: &[Step],
    ) -> Result<Option<(usize, usize)>, AnalysisError> {
        let same = |owner: &usize| self.storages.places[*owner] == self.storages.places[value];
        let overlapping = |owner: &usize| self.storages.overlap(*owner, value);
        let before = (0..call.node)
            .rev()
            .filter(|&before| call.before.contains(before));
        for before in before {
            let step = &steps[before];
            self.work.spend(step.changes().count() + 1)?;
            let mut changed = step.changes().map(ValueIndex::get);
            if let Some(owner) = changed.find(overlapping) {
                // What only some paths write is not what is shown on all of them.
                if !self.flow.has_no_jumps() {
                    self.work.spend(steps.len())?;
                }
                let is_shown = same(&owner) && self.flow.is_always_before(before, call.node);
                return Ok(is_shown.then_some((before + 1, owner)));
            }
        }
        self.work.spend(self.plan.inputs.len())?;
        let input = self.storages.inputs.iter().find(overlapping);
        Ok(input.filter(same).map(|input| (0, input)))
    }
}

fn by_count(delegate: i32, inputs: usize, arguments: usize) -> Result<Vec<Role>, AnalysisError> {
    // A call that gives nothing would leave its results as they were, and nobody would notice.
    if arguments > 0 && inputs >= arguments {
        return Err(AnalysisError::BadHint {
            delegate: delegate.cast_unsigned(),
            inputs,
            arguments,
        });
    }
    let mut roles = vec![Role::Input; inputs.min(arguments)];
    roles.resize(arguments, Role::Output);
    Ok(roles)
}

fn step(arguments: &[ValueIndex], roles: &[Role]) -> Step {
    let mut step = Step::default();
    let with = |wanted: Role| {
        arguments
            .iter()
            .zip(roles)
            .filter(move |(_, role)| **role == wanted)
            .map(|(value, _)| *value)
    };
    let inputs: BTreeSet<ValueIndex> = with(Role::Input).collect();
    let mut updates: BTreeSet<ValueIndex> = with(Role::Update).collect();
    step.updates.extend(&updates);
    for (&argument, &role) in arguments.iter().zip(roles) {
        if let Role::ViewOrOutput(owner) = role {
            step.either.push((argument, ValueIndex::new(owner)));
        }
    }
    for output in with(Role::Output) {
        if inputs.contains(&output) {
            step.updates.push(output);
            updates.insert(output);
        } else {
            step.writes.push(output);
        }
    }
    step.reads
        .extend(with(Role::Input).filter(|input| !updates.contains(input)));
    step
}
