//! Which values are needed where.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use et_schema::owned::ExecutionPlan;

use super::alias::Aliases;
use super::error::AnalysisError;
use super::flow::Flow;
use super::points::PointsTo;
use super::set::Set;
use super::step::Step;
use super::storage::{Storages, extend};
use super::work::Work;
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
        work: &Work,
    ) -> Result<Self, AnalysisError> {
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
        let tables = tables(flow, steps, count);
        let named = steps.iter().flat_map(Step::mentions);
        let shown: usize = named.map(|value| aliases.canon(value.get()).len()).sum();
        let each = liveness.persistent.words() + tables.len();
        loop {
            work.spend(shown)?;
            work.spend_on(flow.exit(), each)?;
            if !liveness.pass(flow, steps, aliases, &tables) || flow.has_no_loops() {
                break;
            }
        }
        liveness.find_persistent(plan, storages, points, &tables);
        Ok(liveness)
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
            let mut live = Set::new(self.value_count());
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

    fn value_count(&self) -> usize {
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
        work: &Work,
    ) -> Result<Vec<Lifetime>, AnalysisError> {
        let count = self.value_count();
        let mut hulls = vec![None; count];
        for (node, live) in self.live.iter().enumerate() {
            let named = steps.get(node).into_iter().flat_map(Step::mentions);
            let shown = named.flat_map(|value| aliases.canon(value.get()));
            for value in live.iter().chain(shown.copied()) {
                let storages = points.at(node, value);
                work.spend(storages.len() + 1)?;
                for &storage in storages {
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
        Ok(hulls.collect())
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
fn tables(flow: &Flow, steps: &[Step], values: usize) -> BTreeMap<usize, usize> {
    let mut uses: Vec<Option<TableUse>> = vec![None; values];
    for (node, step) in steps.iter().enumerate() {
        for value in step.mentions() {
            uses[value.get()].get_or_insert(TableUse {
                named: node,
                changed: node..node,
                is_table: true,
            });
        }
        for value in step.changes() {
            let Some(used) = uses[value.get()].as_mut() else {
                continue;
            };
            used.is_table &= step.fills_rows;
            if used.changed.is_empty() {
                used.changed.start = node;
            }
            used.changed.end = node + 1;
        }
    }
    let loops: BTreeSet<(usize, usize)> = flow.loops().collect();
    let mut tables = BTreeMap::new();
    for (value, used) in uses.iter().enumerate() {
        let Some(used) = used.as_ref().filter(|used| used.is_filled()) else {
            continue;
        };
        // The first that holds all of it.
        let mut around = loops.iter().take_while(|(head, _)| *head <= used.named);
        if let Some(&(head, _)) = around.find(|(_, tail)| used.changed.end <= tail + 1) {
            tables.insert(value, head);
        }
    }
    tables
}

/// How a value is used that may be a table.
#[derive(Clone)]
struct TableUse {
    /// The first instruction that names it.
    named: usize,
    /// From the first instruction that changes it to behind the last.
    changed: Range<usize>,
    /// Whether all that change it do so row by row.
    is_table: bool,
}

impl TableUse {
    fn is_filled(&self) -> bool {
        self.is_table && !self.changed.is_empty()
    }
}
