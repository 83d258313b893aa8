//! Which values are needed where.

use std::collections::BTreeMap;

use et_schema::owned::ExecutionPlan;

use super::alias::Aliases;
use super::flow::Flow;
use super::points::PointsTo;
use super::set::Set;
use super::step::Step;
use super::storage::{Storages, extend};
use crate::placement::Lifetime;

/// Values that are needed before each node, backwards over all paths. A view counts as what it shows.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Before each node.
    pub(super) live: Vec<Set>,
    /// Values whose bytes are there before the first instruction, and that are no inputs or constants.
    pub(super) persistent: Set,
    inputs: Set,
}

impl Liveness {
    pub(super) fn new(
        plan: &ExecutionPlan,
        storages: &Storages,
        flow: &Flow,
        steps: &[Step],
        aliases: &Aliases,
        points: &PointsTo,
    ) -> Self {
        let count = storages.value_count();
        let mut liveness = Self {
            live: vec![Set::new(count); flow.exit() + 1],
            persistent: Set::new(count),
            inputs: storages.inputs.clone(),
        };
        for output in storages.outputs.iter() {
            for &value in aliases.canon(output) {
                liveness.live[flow.exit()].insert(value);
            }
        }
        let tables = tables(flow, steps);
        while liveness.pass(flow, steps, aliases, &tables) && !flow.is_straight() {}
        liveness.find_persistent(plan, storages, points, &tables);
        liveness
    }

    /// One pass from the end to the start; whether it changed anything.
    fn pass(
        &mut self,
        flow: &Flow,
        steps: &[Step],
        aliases: &Aliases,
        tables: &BTreeMap<usize, usize>,
    ) -> bool {
        let mut changed = false;
        for node in (0..flow.exit()).rev() {
            let mut live = Set::new(self.inputs_len());
            for next in flow.successors(node) {
                live.unite(&self.live[next]);
            }
            before(&mut live, &steps[node], aliases);
            for (&table, &head) in tables {
                if node < head {
                    live.remove(table);
                }
            }
            changed |= self.live[node].unite(&live);
        }
        changed
    }

    fn inputs_len(&self) -> usize {
        self.inputs.limit()
    }

    fn find_persistent(
        &mut self,
        plan: &ExecutionPlan,
        storages: &Storages,
        points: &PointsTo,
        tables: &BTreeMap<usize, usize>,
    ) {
        let given =
            |value: usize| storages.inputs.contains(value) || storages.constants.contains(value);
        for value in self.live[0]
            .iter()
            .filter(|value| !tables.contains_key(value))
        {
            for &storage in points
                .at(0, value)
                .iter()
                .filter(|&&storage| !given(storage))
            {
                self.persistent.insert(storage);
            }
        }
        self.persistent.unite(&storages.initialised);
        for (value, place) in storages.places.iter().enumerate() {
            let is_tensor = plan.values[value].as_tensor().is_some();
            if is_tensor && place.is_some() && storages.is_placeholder(value) && !given(value) {
                self.persistent.insert(value);
            }
        }
    }

    /// For each value the nodes from the first to one past the last at which its own bytes are needed.
    pub(super) fn hulls(
        &self,
        steps: &[Step],
        aliases: &Aliases,
        points: &PointsTo,
    ) -> Vec<Lifetime> {
        let count = self.inputs_len();
        let mut hulls = vec![None; count];
        for (node, live) in self.live.iter().enumerate() {
            let named = steps.get(node).into_iter().flat_map(Step::mentions);
            let shown = named.flat_map(|value| aliases.canon(value.get()));
            for value in live.iter().chain(shown.copied()) {
                for &storage in points.at(node, value) {
                    extend(&mut hulls[storage], node);
                }
            }
        }
        let end = self.live.len();
        let hulls = hulls.into_iter().enumerate().map(|(value, hull)| {
            let kept = self.persistent.contains(value);
            match hull {
                _ if kept => Lifetime::new(0, end as u64),
                Some(hull) if self.inputs.contains(value) => Lifetime::new(0, hull.end as u64),
                // The caller writes an input before the first instruction, even one that nothing reads.
                None if self.inputs.contains(value) => Lifetime::new(0, 1),
                Some(hull) => Lifetime::new(hull.start as u64, hull.end as u64),
                None => Lifetime::new(0, 0),
            }
        });
        hulls.collect()
    }
}

/// From what is needed after a step to what is needed before it.
fn before(live: &mut Set, step: &Step, aliases: &Aliases) {
    for value in &step.writes {
        live.remove(value.get());
    }
    for &(argument, owner) in &step.either {
        live.remove(argument.get());
        live.insert(owner.get());
    }
    for &(target, source) in step.moves.iter().rev() {
        if live.contains(target.get()) {
            live.remove(target.get());
            for &value in aliases.canon(source.get()) {
                live.insert(value);
            }
        }
    }
    for value in step.reads.iter().chain(&step.updates) {
        for &value in aliases.canon(value.get()) {
            live.insert(value);
        }
    }
}

/// Values that a loop fills row by row and nothing reads or writes before: not needed before the loop, although no
/// single instruction overwrites them whole. With the first instruction of the loop.
fn tables(flow: &Flow, steps: &[Step]) -> BTreeMap<usize, usize> {
    let mut tables = BTreeMap::new();
    for (head, tail) in flow.loops() {
        for step in steps[head..=tail].iter().filter(|step| step.fills_rows) {
            for table in step.updates.iter().copied() {
                let elsewhere = (0..head).chain(tail + 1..steps.len());
                let is_named_before = steps[..head]
                    .iter()
                    .any(|step| step.mentions().any(|value| value == table));
                let is_changed = elsewhere
                    .chain(head..tail + 1)
                    .filter(|&node| !(steps[node].fills_rows && (head..=tail).contains(&node)))
                    .any(|node| steps[node].changes().any(|value| value == table));
                if !is_named_before && !is_changed {
                    let first = tables.entry(table.get()).or_insert(head);
                    *first = head.min(*first);
                }
            }
        }
    }
    tables
}
