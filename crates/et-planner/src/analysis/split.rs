//! Which arguments of a delegate are inputs. The file does not say.

use et_schema::owned::{ExecutionPlan, Instruction};

use super::Hints;
use super::flow::Flow;
use super::names::ValueIndex;
use super::step::Step;
use super::storage::Storages;

/// Splits the arguments of delegate calls by data flow: outputs are the longest run of last arguments that nothing
/// has given bytes before.
pub(super) struct Split<'a> {
    plan: &'a ExecutionPlan,
    storages: &'a Storages,
    flow: &'a Flow,
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
    pub(super) fn new(plan: &'a ExecutionPlan, storages: &'a Storages, flow: &'a Flow) -> Self {
        Self {
            plan,
            storages,
            flow,
        }
    }

    /// Sets the roles of all delegate calls. Their steps must hold all arguments as reads.
    pub(super) fn apply(&self, hints: &Hints, steps: &mut [Step]) {
        let instructions = self
            .plan
            .chains
            .iter()
            .flat_map(|chain| &chain.instructions);
        for (node, instruction) in instructions.enumerate() {
            let Instruction::DelegateCall(call) = instruction else {
                continue;
            };
            let index = u32::try_from(call.delegate_index);
            let known = index
                .ok()
                .and_then(|index| hints.delegate_inputs.get(&index));
            let arguments = std::mem::take(&mut steps[node].reads);
            let roles = match known {
                Some(&inputs) => by_count(arguments.len(), inputs),
                None => self.roles(node, &arguments, steps),
            };
            steps[node] = step(&arguments, &roles);
        }
    }

    fn roles(&self, node: usize, arguments: &[ValueIndex], steps: &[Step]) -> Vec<Role> {
        let mut roles = vec![Role::Input; arguments.len()];
        let candidates = roles.iter_mut().zip(arguments).rev();
        for (from_end, (role, argument)) in candidates.enumerate() {
            let is_last = from_end == 0;
            match self.role(node, argument.get(), is_last, steps) {
                Role::Input => break,
                other => *role = other,
            }
        }
        if roles.iter().all(|role| *role == Role::Input) {
            self.find_updates(arguments, &mut roles);
        }
        roles
    }

    /// A call gives something, so where all arguments had bytes before, it gives something new to one of them: to
    /// what it names twice, or else to the last.
    fn find_updates(&self, arguments: &[ValueIndex], roles: &mut [Role]) {
        let can_change = |value: &ValueIndex| !self.storages.constants.contains(value.get());
        let is_twice =
            |value: &ValueIndex| arguments.iter().filter(|&other| other == value).count() > 1;
        let twice = arguments.iter().filter(|value| is_twice(value));
        let mut changed: Vec<ValueIndex> = twice.copied().filter(can_change).collect();
        if changed.is_empty() {
            changed.extend(arguments.last().copied().filter(can_change));
        }
        for (role, argument) in roles.iter_mut().zip(arguments) {
            if changed.contains(argument) {
                *role = Role::Update;
            }
        }
    }

    fn role(&self, node: usize, value: usize, is_last: bool, steps: &[Step]) -> Role {
        if self.is_given(value) || self.is_touched_before(node, value, steps) {
            return Role::Input;
        }
        // A call has at least one output, and outputs come last.
        if is_last {
            return Role::Output;
        }
        if self.storages.last_placeholder.is_none() || self.is_changed_later(node, value, steps) {
            return Role::Update;
        }
        self.view_role(node, value, steps)
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
    fn is_touched_before(&self, node: usize, value: usize, steps: &[Step]) -> bool {
        let value = ValueIndex::new(value);
        (0..node).any(|before| {
            steps[before].mentions().any(|mentioned| mentioned == value)
                && self.flow.reaches(before, node)
        })
    }

    /// Whether an instruction after the call changes the value and leads back to the call.
    fn is_changed_later(&self, node: usize, value: usize, steps: &[Step]) -> bool {
        let value = ValueIndex::new(value);
        (node + 1..steps.len()).any(|later| {
            steps[later].changes().any(|changed| changed == value) && self.flow.reaches(later, node)
        })
    }

    /// A value that nothing made, at the place of one that something made: a view of that, or an output that took
    /// over the place.
    fn view_role(&self, node: usize, value: usize, steps: &[Step]) -> Role {
        // Nothing ever writes a view under its own name.
        let is_changed = |at: usize| steps[at].changes().any(|changed| changed.get() == value);
        let elsewhere = (0..steps.len()).filter(|&at| at != node);
        let owner = match elsewhere.into_iter().any(is_changed) {
            true => None,
            false => self.last_owner(node, value, steps),
        };
        let Some((writer, made)) = owner else {
            return Role::Output;
        };
        let owner = ValueIndex::new(made);
        let named = |range: std::ops::Range<usize>| {
            range
                .into_iter()
                .any(|at| steps[at].mentions().any(|mentioned| mentioned == owner))
        };
        let needed_later = named(node..steps.len()) || self.storages.outputs.contains(made);
        // What is never read was made in vain, unless it is read through this value, in another shape.
        let read_before = named(writer..node);
        match (
            needed_later,
            read_before || self.have_one_shape(value, made),
        ) {
            (true, _) | (_, false) => Role::Input,
            (false, true) => Role::ViewOrOutput(made),
        }
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
    fn last_owner(&self, node: usize, value: usize, steps: &[Step]) -> Option<(usize, usize)> {
        let same = |owner: &usize| self.storages.places[*owner] == self.storages.places[value];
        let overlapping = |owner: &usize| self.storages.overlap(*owner, value);
        for before in (0..node)
            .rev()
            .filter(|&before| self.flow.reaches(before, node))
        {
            let mut changed = steps[before].changes().map(ValueIndex::get);
            if let Some(owner) = changed.find(overlapping) {
                // What only some paths write is not what is shown on all of them.
                let is_shown = same(&owner) && self.flow.is_always_before(before, node);
                return is_shown.then_some((before + 1, owner));
            }
        }
        let input = self.storages.inputs.iter().find(overlapping)?;
        same(&input).then_some((0, input))
    }
}

fn by_count(arguments: usize, inputs: usize) -> Vec<Role> {
    (0..arguments)
        .map(|at| {
            if at < inputs {
                Role::Input
            } else {
                Role::Output
            }
        })
        .collect()
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
    let inputs: std::collections::BTreeSet<ValueIndex> = with(Role::Input).collect();
    let updates: std::collections::BTreeSet<ValueIndex> = with(Role::Update).collect();
    step.updates.extend(updates);
    for (&argument, &role) in arguments.iter().zip(roles) {
        if let Role::ViewOrOutput(owner) = role {
            step.either.push((argument, ValueIndex::new(owner)));
        }
    }
    for output in with(Role::Output) {
        if inputs.contains(&output) {
            step.updates.push(output)
        } else {
            step.writes.push(output)
        }
    }
    step.reads
        .extend(with(Role::Input).filter(|input| !step.updates.contains(input)));
    step
}
