//! What a serialized method does with its memory: roles, aliases, lifetimes, and whether its plan is right.
//!
//! A file says which values an instruction names, and where they lie; it does not say which of them are written,
//! which are views of others, or how long each is needed. [`Analysis`] recovers that from the instructions and the
//! control flow alone:
//!
//! 1. what each instruction reads and writes (its [`Step`]), with the split of delegate arguments;
//! 2. which values are views of others, by who wrote their bytes last;
//! 3. what pointer-like values (targets of moves and of `et_view`) may point to;
//! 4. which values are needed where, backwards over all paths.
//!
//! [`Analysis::audit`] lists what is wrong with the plan in the file. [`Analysis::lifetimes`] says when the bytes of
//! each value must be kept.

mod alias;
mod audit;
mod error;
mod flow;
mod liveness;
mod names;
mod points;
mod set;
mod split;
mod step;
mod storage;
mod work;

use et_schema::owned::ExecutionPlan;

use self::alias::Aliases;
pub use self::audit::{Audit, Finding};
pub use self::error::{AnalysisError, NamedBy};
pub(crate) use self::flow::Flow;
use self::liveness::Liveness;
pub use self::names::ValueIndex;
use self::points::PointsTo;
pub(crate) use self::set::Set;
use self::split::Split;
pub use self::step::Step;
use self::storage::Storages;
use self::work::Work;
use crate::placement::Lifetime;

/// What a caller knows about delegates and a file does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// For a delegate of the method, how many of a call's tensor arguments are inputs; the others are outputs, of which
    /// every call has at least one.
    pub delegate_inputs: std::collections::BTreeMap<u32, usize>,
}

/// A method, understood.
#[derive(Debug)]
pub struct Analysis<'a> {
    plan: &'a ExecutionPlan,
    flow: Flow,
    storages: Storages,
    steps: Vec<Step>,
    aliases: Aliases,
    points: PointsTo,
    liveness: Liveness,
    lifetimes: Vec<Lifetime>,
    work: Work,
}

/// The most pairs of an instruction and a value that are looked at: the analysis keeps a bit for each, a few times.
const MOST_PAIRS: u64 = 1 << 31;

/// Refuses methods that would take memory out of all proportion to their file.
fn expect_manageable(plan: &ExecutionPlan) -> Result<(), AnalysisError> {
    let instructions: u64 = plan
        .chains
        .iter()
        .map(|chain| chain.instructions.len() as u64)
        .sum();
    let values = plan.values.len() as u64;
    if instructions.saturating_mul(values) > MOST_PAIRS {
        return Err(AnalysisError::TooLarge {
            instructions,
            values,
        });
    }
    Ok(())
}

impl<'a> Analysis<'a> {
    /// Analyses a method.
    ///
    /// # Errors
    ///
    /// [`AnalysisError`] for indices that name nothing, sizes that no memory has, more than one chain, hints that do not fit
    /// the method, and methods whose analysis would take too long or too much memory.
    pub fn new(plan: &'a ExecutionPlan, hints: &Hints) -> Result<Self, AnalysisError> {
        expect_manageable(plan)?;
        let work = Work::new();
        let storages = Storages::new(plan)?;
        let flow = Flow::new(plan)?;
        let mut steps = step::steps(plan, &storages, &work)?;
        let split = Split::new(plan, &storages, &flow, &steps, &work);
        split.apply(hints, &mut steps)?;
        let aliases = Aliases::new(plan, &storages, &flow, &steps, &work)?;
        Self::from_parts(plan, storages, flow, steps, aliases, work)
    }

    /// Analyses a method whose steps are known.
    pub(crate) fn with_steps(
        plan: &'a ExecutionPlan,
        steps: Vec<Step>,
    ) -> Result<Self, AnalysisError> {
        expect_manageable(plan)?;
        let work = Work::new();
        let (storages, flow) = (Storages::new(plan)?, Flow::new(plan)?);
        let aliases = Aliases::new(plan, &storages, &flow, &steps, &work)?;
        Self::from_parts(plan, storages, flow, steps, aliases, work)
    }

    fn from_parts(
        plan: &'a ExecutionPlan,
        storages: Storages,
        flow: Flow,
        steps: Vec<Step>,
        aliases: Aliases,
        work: Work,
    ) -> Result<Self, AnalysisError> {
        let points = PointsTo::new(&storages, &flow, &steps, &aliases, &work)?;
        let liveness = Liveness::new(plan, &storages, &flow, &steps, &aliases, &points, &work)?;
        let lifetimes = liveness.hulls(&steps, &aliases, &points, &work)?;
        Ok(Self {
            plan,
            flow,
            storages,
            steps,
            aliases,
            points,
            liveness,
            lifetimes,
            work,
        })
    }

    /// The same analysis of a method whose instructions are in another order, `origins` saying where each was before.
    ///
    /// What is a view of what is taken over: it was told by the places of values, which are right in the old order only.
    pub(crate) fn reordered<'b>(
        &self,
        plan: &'b ExecutionPlan,
        origins: &[usize],
    ) -> Result<Analysis<'b>, AnalysisError> {
        let (storages, flow) = (Storages::new(plan)?, Flow::new(plan)?);
        let steps = origins.iter().map(|&origin| self.steps[origin].clone());
        let (steps, aliases) = (steps.collect(), self.aliases.clone());
        Analysis::from_parts(plan, storages, flow, steps, aliases, Work::new())
    }

    /// The method.
    pub(crate) fn method(&self) -> &'a ExecutionPlan {
        self.plan
    }

    /// Whether another analysis of the same values finds that the same ones are views of the same.
    pub(crate) fn has_the_views_of(&self, other: &Analysis<'_>) -> bool {
        let mut values = 0..self.plan.values.len();
        values.all(|value| self.aliases.canon(value) == other.aliases.canon(value))
    }

    /// Whether instruction `node` is the last that needs the bytes of `value`, on every path.
    pub(crate) fn ends_at(&self, value: ValueIndex, node: usize) -> bool {
        !self.is_persistent(value) && !self.liveness.live[node + 1].contains(value.get())
    }

    /// Whether `value` is no view and no pointer before instruction `node`.
    pub(crate) fn has_bytes_of_its_own(&self, value: ValueIndex, node: usize) -> bool {
        self.aliases.canon(value.get()) == [value.get()]
            && self.points.at(node, value.get()) == [value.get()]
    }

    pub(crate) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// What is left of the work that this analysis may take.
    pub(crate) fn work(&self) -> &Work {
        &self.work
    }

    /// The instructions that leave `value` as it is: its bytes, and which bytes it shows.
    pub(crate) fn that_keep(&self, value: ValueIndex) -> Result<Set, AnalysisError> {
        let mut keep = Set::new(self.steps.len());
        for node in 0..self.steps.len() {
            if !self.points_elsewhere(node, value) && !self.may_change(node, value)? {
                keep.insert(node);
            }
        }
        Ok(keep)
    }

    /// Whether instruction `node` may change the bytes of `value`: under its own name, under that of a view or of
    /// what a pointer shows there, or because they share a place.
    fn may_change(&self, node: usize, value: ValueIndex) -> Result<bool, AnalysisError> {
        let mut changed = self.steps[node].changes().peekable();
        self.work.spend(1)?;
        if changed.peek().is_none() {
            return Ok(false);
        }
        let kept = self.shown(node, value.get());
        for changed in changed {
            let shown = self.shown(node, changed.get());
            // The lists cost more than the looks at what is in them.
            self.work.spend_on(shown.len() + 8, kept.len())?;
            let mut shown = shown.into_iter();
            if shown.any(|a| {
                let mut kept = kept.iter();
                kept.any(|&b| a == b || self.storages.overlap(a, b))
            }) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The values whose own bytes `value` may show before instruction `node`, and itself.
    pub(crate) fn shown(&self, node: usize, value: usize) -> Vec<usize> {
        let names = self.aliases.canon(value).iter();
        let shown = names.flat_map(|&name| self.points.at(node, name));
        shown.copied().chain([value]).collect()
    }

    /// Whether instruction `node` makes `value` show other bytes.
    pub(crate) fn points_elsewhere(&self, node: usize, value: ValueIndex) -> bool {
        let mut moves = self.steps[node].moves.iter();
        moves.any(|&(target, _)| target == value)
    }

    /// What each instruction does with tensors, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The values whose bytes `value` shows, if it is a view that no instruction makes: the ones that may have
    /// written them. Itself for every other value.
    ///
    /// # Panics
    ///
    /// If the method has no such value.
    pub fn bases(&self, value: ValueIndex) -> Vec<ValueIndex> {
        let bases = self.aliases.canon(value.get());
        bases.iter().map(|&base| ValueIndex::new(base)).collect()
    }

    /// A number that is the same for two values exactly if they must keep their places relative to each other.
    ///
    /// # Panics
    ///
    /// If the method has no such value.
    pub fn group(&self, value: ValueIndex) -> ValueIndex {
        ValueIndex::new(self.aliases.group(value.get()))
    }

    /// Whether the bytes of `value` outlive a run: state that is there before the first instruction.
    ///
    /// # Panics
    ///
    /// If the method has no such value.
    pub fn is_persistent(&self, value: ValueIndex) -> bool {
        self.liveness.persistent.contains(value.get())
    }

    /// For each value, the stretch of instructions in which its own bytes are needed: from the one that writes it
    /// to one past the last that may use it, with the end of the method as one more instruction.
    ///
    /// Empty for what is never used, or only ever shows the bytes of others. Inputs are needed from the start,
    /// persistent values always. Where the control flow has branches or loops this covers all paths.
    pub fn lifetimes(&self) -> &[Lifetime] {
        &self.lifetimes
    }

    /// Everything that is wrong with the method's plan. No findings for a plan that keeps every value as long as it is
    /// needed. Of values that clobber each other the first thousand pairs are listed.
    ///
    /// # Errors
    ///
    /// [`AnalysisError::TooMuchWork`] if so many values are needed together, at places that overlap, that it would take
    /// too long to look at each pair.
    pub fn audit(&self) -> Result<Audit, AnalysisError> {
        audit::audit(self)
    }
}

#[cfg(test)]
mod tests;
