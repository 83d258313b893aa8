//! Values that show the bytes of others although no instruction says so.
//!
//! A static view is only a second tensor at the place of the first. Overlap alone does not make one: planners put
//! unrelated values at one place at different times. So a view is a value that nothing ever writes; whose bytes it
//! shows is who wrote them last, on any path.

use et_schema::owned::ExecutionPlan;

use super::flow::Flow;
use super::set::Set;
use super::step::Step;
use super::storage::Storages;

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
    ) -> Self {
        let count = storages.value_count();
        let mut aliases = Self {
            canon: (0..count).map(|value| vec![value]).collect(),
            groups: (0..count).collect(),
        };
        let uses = Uses::new(plan, storages, flow, steps);
        for view in 0..count {
            if !uses.is_candidate(storages, view) {
                continue;
            }
            let bases = bases(view, &uses.nodes[view], storages, flow, steps);
            for &base in &bases {
                aliases.unite(view, base);
            }
            if !bases.is_empty() {
                aliases.canon[view] = bases;
            }
        }
        aliases.unite_second_names(storages, steps);
        aliases
    }

    /// The values whose bytes `value` shows.
    pub(super) fn canon(&self, value: usize) -> &[usize] {
        &self.canon[value]
    }

    /// One value that stands for the group of `value`.
    pub(super) fn group(&self, value: usize) -> usize {
        let mut root = value;
        while self.groups[root] != root {
            root = self.groups[root];
        }
        root
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.group(a), self.group(b));
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
            for target in step.updates.iter().map(|value| value.get()) {
                for name in step.writes.iter().map(|value| value.get()) {
                    let place = storages.places[target];
                    if place.is_some() && place == storages.places[name] {
                        self.unite(target, name);
                    }
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

/// The values that may have written the bytes of `view` last, before any of its uses.
fn bases(
    view: usize,
    uses: &[usize],
    storages: &Storages,
    flow: &Flow,
    steps: &[Step],
) -> Vec<usize> {
    let writers = Writers::new(view, storages, steps);
    if writers.values.is_empty() {
        return Vec::new();
    }
    let mut start = Set::new(writers.values.len());
    for (at, &value) in writers.values.iter().enumerate() {
        if storages.inputs.contains(value) {
            start.insert(at);
        }
    }
    let found = if flow.is_linear() {
        writers.before_uses(start, uses)
    } else {
        writers.before_uses_on_all_paths(start, uses, flow)
    };
    found.iter().map(|at| writers.values[at]).collect()
}

/// Who writes bytes of one view.
struct Writers {
    values: Vec<usize>,
    /// For each instruction the writers (by place in `values`), and whether one of them covers the view.
    by_node: Vec<(Vec<usize>, bool)>,
}

impl Writers {
    fn new(view: usize, storages: &Storages, steps: &[Step]) -> Self {
        let overlaps = |value: &usize| storages.overlap(*value, view);
        let mut values: Vec<usize> = storages.inputs.iter().filter(overlaps).collect();
        let mut by_node = Vec::with_capacity(steps.len());
        for step in steps {
            let (mut places, mut covers) = (Vec::new(), false);
            for value in step.changes().map(|value| value.get()).filter(overlaps) {
                let known = values.iter().position(|&other| other == value);
                places.push(known.unwrap_or_else(|| {
                    values.push(value);
                    values.len() - 1
                }));
                covers |= storages.covers(value, view);
            }
            by_node.push((places, covers));
        }
        Self { values, by_node }
    }

    /// Who may have written last before any of `uses`, which are in order, where there are no jumps.
    fn before_uses(&self, mut state: Set, uses: &[usize]) -> Set {
        let mut found = Set::new(self.values.len());
        let mut node = 0;
        for &next in uses {
            while node < next {
                if !self.by_node[node].0.is_empty() {
                    state = self.after(node, &state);
                }
                node += 1;
            }
            found.unite(&state);
        }
        found
    }

    fn before_uses_on_all_paths(&self, start: Set, uses: &[usize], flow: &Flow) -> Set {
        let mut before = vec![Set::new(self.values.len()); flow.exit() + 1];
        before[0] = start;
        loop {
            let mut changed = false;
            for node in 0..flow.exit() {
                let after = self.after(node, &before[node]);
                for next in flow.successors(node) {
                    changed |= before[next].unite(&after);
                }
            }
            // Without a jump back, one pass in order has seen every path.
            if !changed || flow.is_straight() {
                break;
            }
        }
        let mut found = Set::new(self.values.len());
        for &node in uses {
            found.unite(&before[node]);
        }
        found
    }

    fn after(&self, node: usize, before: &Set) -> Set {
        let (places, covers) = &self.by_node[node];
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
