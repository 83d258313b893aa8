//! What pointer-like values may point to, before each instruction.

use std::rc::Rc;

use super::alias::Aliases;
use super::error::AnalysisError;
use super::flow::Flow;
use super::set::Set;
use super::step::Step;
use super::storage::Storages;
use super::work::Work;

/// For each pointer (by its slot) the values whose storage it may show, in order.
type State = Vec<Rc<[usize]>>;

/// Targets of moves and of `et_view` show the bytes of others, which ones depends on the path.
#[derive(Debug)]
pub(super) struct PointsTo {
    /// The slot of each value that is a pointer.
    slots: Vec<Option<usize>>,
    /// Before each node.
    states: Vec<Option<Rc<State>>>,
    /// Each value alone, for those that are no pointers.
    own: Vec<usize>,
}

impl PointsTo {
    pub(super) fn new(
        storages: &Storages,
        flow: &Flow,
        steps: &[Step],
        aliases: &Aliases,
        work: &Work,
    ) -> Result<Self, AnalysisError> {
        let count = storages.value_count();
        let mut points = Self {
            slots: vec![None; count],
            states: vec![None; flow.exit() + 1],
            own: (0..count).collect(),
        };
        points.states[0] = Some(Rc::new(points.start(storages, steps)));
        loop {
            work.spend(steps.len())?;
            let mut changed = false;
            for (node, step) in steps.iter().enumerate() {
                let Some(before) = points.states[node].clone() else {
                    continue;
                };
                let after = points.after(&before, step, aliases, work)?;
                for next in flow.successors(node) {
                    changed |= join(&mut points.states[next], &after, work)?;
                }
            }
            if !changed || flow.has_no_loops() {
                return Ok(points);
            }
        }
    }

    /// Gives every pointer a slot. One that is also written, or has bytes at the start, points to itself at first.
    fn start(&mut self, storages: &Storages, steps: &[Step]) -> State {
        let mut written = Set::new(storages.value_count());
        for value in steps.iter().flat_map(Step::changes) {
            written.insert(value.get());
        }
        let mut start = State::new();
        for &(target, _) in steps.iter().flat_map(|step| &step.moves) {
            let target = target.get();
            if self.slots[target].is_some() {
                continue;
            }
            self.slots[target] = Some(start.len());
            let own = written.contains(target)
                || storages.inputs.contains(target)
                || storages.constants.contains(target)
                || storages.initialised.contains(target);
            start.push(if own { Rc::new([target]) } else { Rc::new([]) });
        }
        start
    }

    fn after(
        &self,
        before: &Rc<State>,
        step: &Step,
        aliases: &Aliases,
        work: &Work,
    ) -> Result<Rc<State>, AnalysisError> {
        if step.moves.is_empty() {
            return Ok(Rc::clone(before));
        }
        // A state that is given up later counts all the same: how many there are at a time is not known.
        work.keep(before.len())?;
        let mut after = State::clone(before);
        for &(target, source) in &step.moves {
            let mut shown: Vec<usize> = Vec::new();
            for &value in aliases.canon(source.get()) {
                let more = self.shown(&after, value);
                work.keep(more.len())?;
                shown.extend_from_slice(more);
            }
            shown.sort_unstable();
            shown.dedup();
            let slot = self.slots[target.get()].expect("every target of a move has a slot");
            after[slot] = shown.into();
        }
        Ok(Rc::new(after))
    }

    fn shown<'a>(&'a self, state: &'a State, value: usize) -> &'a [usize] {
        match self.slots[value] {
            Some(slot) => &state[slot],
            None => std::slice::from_ref(&self.own[value]),
        }
    }

    /// The values whose storage `value` may show before `node`; itself if it is no pointer. None where no run comes.
    pub(super) fn at(&self, node: usize, value: usize) -> &[usize] {
        self.states[node]
            .as_ref()
            .map_or(&[], |state| self.shown(state, value))
    }
}

/// Adds `after` to what is known of the next node; whether that was news.
fn join(
    known: &mut Option<Rc<State>>,
    after: &Rc<State>,
    work: &Work,
) -> Result<bool, AnalysisError> {
    let Some(state) = known else {
        *known = Some(Rc::clone(after));
        return Ok(true);
    };
    if Rc::ptr_eq(state, after) {
        return Ok(false);
    }
    work.spend(after.len())?;
    if is_within(after, state) {
        return Ok(false);
    }
    work.keep(state.len())?;
    let mut joined = State::clone(state);
    for (have, more) in joined.iter_mut().zip(after.iter()) {
        if have != more {
            let mut all: Vec<usize> = have.iter().chain(more.iter()).copied().collect();
            all.sort_unstable();
            all.dedup();
            work.keep(all.len())?;
            *have = all.into();
        }
    }
    *known = Some(Rc::new(joined));
    Ok(true)
}

/// Whether every pointer shows in `known` all that it shows in `after`.
fn is_within(after: &State, known: &State) -> bool {
    let mut slots = after.iter().zip(known);
    slots.all(|(after, known)| {
        after == known || after.iter().all(|value| known.binary_search(value).is_ok())
    })
}
