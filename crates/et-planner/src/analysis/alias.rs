//! Values that show the bytes of others although no instruction says so.
//!
//! A static view is only a second tensor at the place of the first. Overlap alone does not make one: planners put
//! unrelated values at one place at different times. So a view is a value that nothing ever writes; whose bytes it
//! shows is who wrote them last, on any path.

use std::collections::{BTreeMap, BTreeSet};

use et_schema::owned::ExecutionPlan;

use super::error::AnalysisError;
use super::flow::Flow;
use super::names::ValueIndex;
use super::set::Set;
use super::step::Step;
use super::storage::{Place, Storages};
use super::work::Work;

/// Views with what they show, and groups of values that must keep their places relative to each other.
#[derive(Clone, Debug)]
pub(super) struct Aliases {
    /// For each value the values whose bytes it shows: itself, unless it is a view.
    canon: Vec<Vec<usize>>,
    groups: Vec<usize>,
}

impl Aliases {
    pub(super) fn new(
        plan: &ExecutionPlan,
        storages: &Storages,
        flow: &Flow,
        steps: &[Step],
        work: &Work,
    ) -> Result<Self, AnalysisError> {
        let count = storages.value_count();
        let mut aliases = Self {
            canon: (0..count).map(|value| vec![value]).collect(),
            groups: (0..count).collect(),
        };
        let uses = Uses::new(plan, storages, flow, steps);
        let changes = Changes::new(storages, steps);
        for view in 0..count {
            if !uses.is_candidate(storages, view) {
                continue;
            }
            let bases = bases(view, &uses.nodes[view], storages, flow, &changes, work)?;
            work.keep(bases.len())?;
            for &base in &bases {
                aliases.unite(view, base);
            }
            if !bases.is_empty() {
                aliases.canon[view] = bases;
            }
        }
        aliases.unite_second_names(storages, steps);
        // Lookups are many from here on: each leads to the lowest number at once.
        for value in 0..count {
            aliases.groups[value] = aliases.groups[aliases.groups[value]];
        }
        Ok(aliases)
    }

    /// The values whose bytes `value` shows.
    pub(super) fn canon(&self, value: usize) -> &[usize] {
        &self.canon[value]
    }

    /// One value that stands for the group of `value`.
    pub(super) fn group(&self, value: usize) -> usize {
        self.groups[value]
    }

    /// The same while groups are being united.
    fn root(&mut self, value: usize) -> usize {
        let mut root = value;
        while self.groups[root] != root {
            // Halves the way for the next time.
            self.groups[root] = self.groups[self.groups[root]];
            root = self.groups[root];
        }
        root
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        // The lowest number stands for all.
        self.groups[a.max(b)] = a.min(b);
    }

    /// In-place instructions of older exporters name their result anew, at the same place. What may be a view or an
    /// output stays where both are right.
    fn unite_second_names(&mut self, storages: &Storages, steps: &[Step]) {
        for step in steps {
            for &(argument, owner) in &step.either {
                self.unite(argument.get(), owner.get());
            }
            let place = |value: &ValueIndex| storages.places[value.get()];
            let mut targets: BTreeMap<Place, ValueIndex> = BTreeMap::new();
            for target in &step.updates {
                if let Some(place) = place(target) {
                    targets.entry(place).or_insert(*target);
                }
            }
            let mut renamed: BTreeSet<Place> = BTreeSet::new();
            for name in &step.writes {
                if let Some((place, target)) = place(name).and_then(|it| targets.get_key_value(&it))
                {
                    self.unite(target.get(), name.get());
                    renamed.insert(*place);
                }
            }
            for target in &step.updates {
                if let Some(place) = place(target).filter(|place| renamed.contains(place)) {
                    self.unite(targets[&place].get(), target.get());
                }
            }
        }
    }
}

/// Where values are named, and how.
struct Uses {
    nodes: Vec<Vec<usize>>,
    /// Values that some instruction writes or points elsewhere.
    made: Set,
}

impl Uses {
    fn new(plan: &ExecutionPlan, storages: &Storages, flow: &Flow, steps: &[Step]) -> Self {
        let mut uses = Self {
            nodes: vec![Vec::new(); plan.values.len()],
            made: Set::new(plan.values.len()),
        };
        for (node, step) in steps.iter().enumerate() {
            for value in step.mentions() {
                uses.nodes[value.get()].push(node);
            }
            let targets = step.moves.iter().map(|&(to, _)| to);
            for value in step.changes().chain(targets) {
                uses.made.insert(value.get());
            }
        }
        for output in storages.outputs.iter() {
            uses.nodes[output].push(flow.exit());
        }
        uses
    }

    fn is_candidate(&self, storages: &Storages, value: usize) -> bool {
        storages.places[value].is_some()
            && !self.nodes[value].is_empty()
            && !self.made.contains(value)
            && !storages.inputs.contains(value)
            && !storages.initialised.contains(value)
    }
}

/// The planned values that each instruction changes, in the order of instructions.
struct Changes {
    /// (instruction, value)
    list: Vec<(usize, usize)>,
    /// The number of instructions.
    nodes: usize,
}

impl Changes {
    fn new(storages: &Storages, steps: &[Step]) -> Self {
        let list = steps.iter().enumerate().flat_map(|(node, step)| {
            let changes = step.changes().map(ValueIndex::get);
            let planned = changes.filter(|&value| storages.places[value].is_some());
            planned.map(move |value| (node, value))
        });
        Self {
            list: list.collect(),
            nodes: steps.len(),
        }
    }
}

/// The values that may have written the bytes of `view` last, before any of its uses.
fn bases(
    view: usize,
    uses: &[usize],
    storages: &Storages,
    flow: &Flow,
    changes: &Changes,
    work: &Work,
) -> Result<Vec<usize>, AnalysisError> {
    let writers = Writers::new(view, storages, changes, work)?;
    if writers.values.is_empty() {
        return Ok(Vec::new());
    }
    let mut start = Set::new(writers.values.len());
    for (at, &value) in writers.values.iter().enumerate() {
        if storages.inputs.contains(value) {
            start.insert(at);
        }
    }
    let found = if flow.has_no_jumps() {
        writers.before_uses(start, uses, work)?
    } else {
        writers.before_uses_on_all_paths(start, uses, flow, work)?
    };
    Ok(found.iter().map(|at| writers.values[at]).collect())
}

/// Who writes bytes of one view.
struct Writers {
    values: Vec<usize>,
    /// For each instruction that writes some the writers (by place in `values`), and whether one of them covers the
    /// view.
    by_node: BTreeMap<usize, (Vec<usize>, bool)>,
    nodes: usize,
}

impl Writers {
    fn new(
        view: usize,
        storages: &Storages,
        changes: &Changes,
        work: &Work,
    ) -> Result<Self, AnalysisError> {
        work.spend(changes.list.len())?;
        let overlaps = |value: &usize| storages.overlap(*value, view);
        let mut values: Vec<usize> = storages.inputs.iter().filter(overlaps).collect();
        work.spend(values.len())?;
        let mut known: BTreeMap<usize, usize> = values.iter().copied().zip(0..).collect();
        let mut by_node: BTreeMap<usize, (Vec<usize>, bool)> = BTreeMap::new();
        for &(node, value) in changes.list.iter().filter(|(_, value)| overlaps(value)) {
            let place = *known.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() - 1
            });
            let (places, covers) = by_node.entry(node).or_default();
            places.push(place);
            *covers |= storages.covers(value, view);
        }
        Ok(Self {
            values,
            by_node,
            nodes: changes.nodes,
        })
    }

    /// Who may have written last before any of `uses`, which are in order, where there are no jumps.
    fn before_uses(
        &self,
        mut state: Set,
        uses: &[usize],
        work: &Work,
    ) -> Result<Set, AnalysisError> {
        work.spend_on(uses.len() + self.by_node.len(), state.words())?;
        let mut found = Set::new(self.values.len());
        let mut writers = self.by_node.iter().peekable();
        for &next in uses {
            while let Some((_, written)) = writers.next_if(|(node, _)| **node < next) {
                state = self.after(written, &state);
            }
            found.unite(&state);
        }
        Ok(found)
    }

    fn before_uses_on_all_paths(
        &self,
        start: Set,
        uses: &[usize],
        flow: &Flow,
        work: &Work,
    ) -> Result<Set, AnalysisError> {
        let words = start.words();
        let mut before = vec![Set::new(self.values.len()); self.nodes + 1];
        before[0] = start;
        loop {
            work.spend_on(self.nodes + 1, words)?;
            let mut changed = false;
            for node in 0..self.nodes {
                let after = match self.by_node.get(&node) {
                    Some(written) => self.after(written, &before[node]),
                    None => before[node].clone(),
                };
                for next in flow.successors(node) {
                    changed |= before[next].unite(&after);
                }
            }
            // Without a jump back, one pass in order has seen every path.
            if !changed || flow.has_no_loops() {
                break;
            }
        }
        work.spend_on(uses.len(), words)?;
        let mut found = Set::new(self.values.len());
        for &node in uses {
            found.unite(&before[node]);
        }
        Ok(found)
    }

    fn after(&self, (places, covers): &(Vec<usize>, bool), before: &Set) -> Set {
        let mut after = if *covers {
            Set::new(self.values.len())
        } else {
            before.clone()
        };
        for &place in places {
            after.insert(place);
        }
        after
    }
}
