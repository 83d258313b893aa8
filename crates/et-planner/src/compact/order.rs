//! Other orders of the instructions of a method that compute the same.
//!
//! Instructions move only within stretches without jumps. Two of them keep their order if one changes what the other
//! names, under whatever name; if one sets a number or a truth value that the other uses; and if both do what the file
//! does not tell: delegates, unknown operators, those that draw random numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use et_schema::owned::{ExecutionPlan, Instruction, Value};

use super::pool::Pool;
use super::{CompactError, CompactOptions};
use crate::analysis::{Analysis, Step, ValueIndex};

/// A method in another order.
pub(super) struct Candidate {
    pub(super) method: ExecutionPlan,
    /// For each place the instruction that was elsewhere before.
    pub(super) origins: Vec<usize>,
    /// No plan of all buffers together is smaller than this.
    pub(super) bound: u64,
}

/// The bound of all buffers together.
pub(super) fn bound(
    analysis: &Analysis<'_>,
    options: &CompactOptions,
) -> Result<u64, CompactError> {
    let pools = Pool::all(analysis.method(), analysis, options);
    pools.iter().try_fold(0_u64, |sum, pool| {
        Ok(sum.saturating_add(pool.bound_in_all(options)?))
    })
}

/// Orders with a bound below `bound_before`, the lowest first.
pub(super) fn candidates(
    analysis: &Analysis<'_>,
    options: &CompactOptions,
    bound_before: u64,
) -> Result<Vec<Candidate>, CompactError> {
    let mut found = Vec::new();
    // What may be a view or an output is told by its place, which is about to change.
    let is_clear = analysis.steps().iter().all(|step| step.either.is_empty());
    if !is_clear {
        return Ok(found);
    }
    let blocks = blocks(analysis.method());
    let needs = Needs::new(analysis, &blocks);
    for rule in [Rule::Late, Rule::LeastAhead, Rule::LeastBehind] {
        let mut origins = Vec::with_capacity(analysis.steps().len());
        for block in &blocks {
            origins.extend(needs.order(block.clone(), rule));
        }
        let method = in_order(analysis.method(), &origins);
        let bound = bound(&analysis.reordered(&method, &origins)?, options)?;
        if bound < bound_before {
            found.push(Candidate {
                method,
                origins,
                bound,
            });
        }
    }
    found.sort_by_key(|candidate| candidate.bound);
    Ok(found)
}

/// The method with its instructions in that order. Jumps lead to starts of blocks, which stay where they are.
fn in_order(method: &ExecutionPlan, origins: &[usize]) -> ExecutionPlan {
    let mut method = method.clone();
    if let [chain] = method.chains.as_mut_slice() {
        let old = std::mem::take(&mut chain.instructions);
        chain.instructions = origins.iter().map(|&origin| old[origin].clone()).collect();
        if let Some(frames) = chain
            .stacktrace
            .as_mut()
            .filter(|frames| frames.len() == old.len())
        {
            *frames = origins
                .iter()
                .map(|&origin| frames[origin].clone())
                .collect();
        }
    }
    method
}

/// Stretches that are entered at their start and left at their end only; a jump is one of its own.
fn blocks(method: &ExecutionPlan) -> Vec<Range<usize>> {
    let instructions: Vec<&Instruction> = method.instructions().collect();
    let mut starts: BTreeSet<usize> = [0, instructions.len()].into();
    for (node, instruction) in instructions.iter().enumerate() {
        match instruction {
            Instruction::JumpFalseCall(call) => {
                starts.extend([node, node + 1]);
                starts.extend(usize::try_from(call.destination_instruction).ok());
            }
            Instruction::FreeCall(_) => starts.extend([node, node + 1]),
            _ => {}
        }
    }
    let starts: Vec<usize> = starts.into_iter().collect();
    starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// How an order is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Everything as late as what needs it allows.
    Late,
    /// From the start on, what leaves the least in memory.
    LeastAhead,
    /// From the end back, what asks for the least.
    LeastBehind,
}

/// Something that instructions need or change: a group of values, a number, or the order of what the file does not
/// tell (the number of values).
type Resource = usize;

/// What instructions need of each other, and of memory.
struct Needs {
    /// For each instruction what it needs, and whether it changes it.
    touched: Vec<BTreeMap<Resource, bool>>,
    nbytes: BTreeMap<Resource, u64>,
    /// Needed before or after the method, or in more than one block.
    lasting: BTreeSet<Resource>,
}

impl Needs {
    fn new(analysis: &Analysis<'_>, blocks: &[Range<usize>]) -> Self {
        let method = analysis.method();
        let numbers = changing_numbers(method);
        let instructions = method.instructions();
        let touched = instructions.enumerate().map(|(node, instruction)| {
            let mut touched = tensors(analysis, node);
            let named = arguments(method, instruction).into_iter();
            touched.extend(
                named
                    .filter(|value| numbers.contains(value))
                    .map(|value| (value, true)),
            );
            if is_opaque(method, instruction, &analysis.steps()[node]) {
                touched.insert(method.values.len(), true);
            }
            touched
        });
        let mut needs = Self {
            touched: touched.collect(),
            nbytes: BTreeMap::new(),
            lasting: BTreeSet::new(),
        };
        for (number, value) in method.values.iter().enumerate() {
            let Some(tensor) = value
                .as_tensor()
                .filter(|tensor| tensor.allocation_info.is_some())
            else {
                continue;
            };
            let value = ValueIndex::new(number);
            let group = analysis.group(value).get();
            let nbytes = needs.nbytes.entry(group).or_default();
            *nbytes = (*nbytes).max(tensor.nbytes().unwrap_or(0));
            if analysis.is_persistent(value) {
                needs.lasting.insert(group);
            }
        }
        let ends = method.inputs.iter().chain(&method.outputs);
        let ends = ends.filter_map(|&end| usize::try_from(end).ok());
        for end in ends.filter(|&end| method.values[end].as_tensor().is_some()) {
            for base in analysis.bases(ValueIndex::new(end)) {
                needs.lasting.insert(analysis.group(base).get());
            }
        }
        needs.find_shared(blocks);
        needs
    }

    /// What more than one block touches lasts.
    fn find_shared(&mut self, blocks: &[Range<usize>]) {
        let mut first: BTreeMap<Resource, usize> = BTreeMap::new();
        for (number, block) in blocks.iter().enumerate() {
            for &resource in self.touched[block.clone()].iter().flat_map(BTreeMap::keys) {
                if *first.entry(resource).or_insert(number) != number {
                    self.lasting.insert(resource);
                }
            }
        }
    }

    /// The instructions of a block in a new order.
    fn order(&self, block: Range<usize>, rule: Rule) -> Vec<usize> {
        let graph = Graph::new(self, block.clone());
        match rule {
            Rule::Late => graph.late(),
            Rule::LeastAhead => graph.least(self, false),
            Rule::LeastBehind => graph.least(self, true),
        }
    }
}

/// The groups of values that an instruction names or shows, and whether it changes them.
fn tensors(analysis: &Analysis<'_>, node: usize) -> BTreeMap<Resource, bool> {
    let step = &analysis.steps()[node];
    let mut touched = BTreeMap::new();
    let mut touch = |value: ValueIndex, changes: bool| {
        for shown in analysis.shown(node, value.get()) {
            let group = analysis.group(ValueIndex::new(shown)).get();
            *touched.entry(group).or_insert(false) |= changes;
        }
    };
    step.mentions().for_each(|value| touch(value, false));
    step.changes().for_each(|value| touch(value, true));
    step.moves
        .iter()
        .for_each(|&(target, _)| touch(target, true));
    touched
}

/// All values that an instruction names, with the items of lists.
fn arguments(method: &ExecutionPlan, instruction: &Instruction) -> Vec<usize> {
    let direct: Vec<i32> = match instruction {
        Instruction::KernelCall(call) => call.args.clone(),
        Instruction::DelegateCall(call) => call.args.clone(),
        Instruction::MoveCall(call) => vec![call.move_from, call.move_to],
        Instruction::JumpFalseCall(call) => vec![call.cond_value_index],
        Instruction::FreeCall(call) => vec![call.value_index],
        _ => Vec::new(),
    };
    let mut all = Vec::new();
    for value in direct
        .into_iter()
        .filter_map(|value| usize::try_from(value).ok())
    {
        all.push(value);
        if let Some(Value::IntList(items)) = method.values.get(value) {
            all.extend(items.iter().filter_map(|&item| usize::try_from(item).ok()));
        }
    }
    all
}

/// Numbers and truth values that an instruction may set. Each instruction that names one keeps its place among them.
fn changing_numbers(method: &ExecutionPlan) -> BTreeSet<usize> {
    let mut numbers = BTreeSet::new();
    for instruction in method.instructions() {
        let may_set = match instruction {
            Instruction::KernelCall(call) => {
                let operator = method.operator(call);
                operator.is_none_or(|operator| !is_plain(&operator.name))
            }
            _ => true,
        };
        if may_set {
            let values = arguments(method, instruction).into_iter();
            numbers.extend(values.filter(|&value| {
                method
                    .values
                    .get(value)
                    .is_some_and(|value| value.as_tensor().is_none())
            }));
        }
    }
    numbers
}

/// Whether an operator only makes tensors from its arguments, as far as its name says.
fn is_plain(name: &str) -> bool {
    let known = [
        "aten::",
        "dim_order_ops::",
        "et_copy::",
        "quantized_decomposed::",
    ];
    let numbers = ["aten::sym_", "aten::_local_scalar_dense", "aten::item"];
    let random = [
        "rand",
        "normal",
        "bernoulli",
        "dropout",
        "multinomial",
        "uniform",
        "poisson",
        "rrelu",
        "exponential",
        "geometric",
        "cauchy",
        "binomial",
        "gamma",
        "dirichlet",
    ];
    known.iter().any(|prefix| name.starts_with(prefix))
        && !numbers.iter().any(|prefix| name.starts_with(prefix))
        && !random.iter().any(|word| name.contains(word))
}

/// Whether an instruction does what the file does not tell.
fn is_opaque(method: &ExecutionPlan, instruction: &Instruction, step: &Step) -> bool {
    match instruction {
        Instruction::KernelCall(call) => {
            let operator = method.operator(call);
            // What sets numbers is in order by these.
            let sets_numbers = |name: &str| {
                name.starts_with("executorch_prim::") || name.starts_with("aten::sym_")
            };
            step.is_guess
                || operator.is_none_or(|operator| {
                    !is_plain(&operator.name) && !sets_numbers(&operator.name)
                })
        }
        Instruction::MoveCall(_) => false,
        _ => true,
    }
}

/// The instructions of one block, by place in it.
struct Graph {
    start: usize,
    /// For each instruction those that it must come after, in order.
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
}

impl Graph {
    fn new(needs: &Needs, block: Range<usize>) -> Self {
        let mut before = vec![BTreeSet::new(); block.len()];
        let mut writer: BTreeMap<Resource, usize> = BTreeMap::new();
        let mut readers: BTreeMap<Resource, Vec<usize>> = BTreeMap::new();
        for (at, touched) in needs.touched[block.clone()].iter().enumerate() {
            for (&resource, &changes) in touched {
                before[at].extend(writer.get(&resource));
                if changes {
                    before[at].extend(readers.remove(&resource).into_iter().flatten());
                    writer.insert(resource, at);
                } else {
                    readers.entry(resource).or_default().push(at);
                }
            }
            before[at].remove(&at);
        }
        let before: Vec<Vec<usize>> = before
            .into_iter()
            .map(|set| set.into_iter().collect())
            .collect();
        let mut after = vec![Vec::new(); block.len()];
        for (at, list) in before.iter().enumerate() {
            for &earlier in list {
                after[earlier].push(at);
            }
        }
        Self {
            start: block.start,
            before,
            after,
        }
    }

    /// Everything as late as what needs it allows: what nobody needs in the old order, each behind all that it needs.
    fn late(&self) -> Vec<usize> {
        let mut done = vec![false; self.before.len()];
        let mut order = Vec::with_capacity(self.before.len());
        for last in (0..self.before.len()).filter(|&at| self.after[at].is_empty()) {
            let mut open = vec![(last, 0)];
            while let Some((at, next)) = open.pop() {
                if done[at] {
                    continue;
                }
                match self.before[at].get(next) {
                    Some(&earlier) => open.extend([(at, next + 1), (earlier, 0)]),
                    None => {
                        done[at] = true;
                        order.push(self.start + at);
                    }
                }
            }
        }
        order
    }

    /// What changes the memory in use by the least comes first; from the end back if `backwards`.
    fn least(&self, needs: &Needs, backwards: bool) -> Vec<usize> {
        let (waits, frees) = match backwards {
            false => (&self.before, &self.after),
            true => (&self.after, &self.before),
        };
        let mut waiting: Vec<usize> = waits.iter().map(Vec::len).collect();
        let mut memory = Memory::new(self, needs);
        let mut ready: BTreeSet<usize> =
            (0..waiting.len()).filter(|&at| waiting[at] == 0).collect();
        let mut order = Vec::with_capacity(waiting.len());
        loop {
            // Ties go to what was next in the old order.
            let first = match backwards {
                false => ready.iter().copied().min_by_key(|&at| memory.change(at)),
                true => ready
                    .iter()
                    .rev()
                    .copied()
                    .min_by_key(|&at| memory.change(at)),
            };
            let Some(at) = first else { break };
            ready.remove(&at);
            memory.take(at);
            order.push(self.start + at);
            for &other in &frees[at] {
                waiting[other] -= 1;
                if waiting[other] == 0 {
                    ready.insert(other);
                }
            }
        }
        if backwards {
            order.reverse();
        }
        order
    }
}

/// The memory in use while a block is put in order, from either end.
struct Memory<'a> {
    needs: &'a Needs,
    start: usize,
    /// Groups that only this block needs: how many of its instructions are yet to come.
    left: BTreeMap<Resource, usize>,
    /// Groups in use.
    used: BTreeSet<Resource>,
}

impl<'a> Memory<'a> {
    fn new(graph: &Graph, needs: &'a Needs) -> Self {
        let mut left = BTreeMap::new();
        for touched in &needs.touched[graph.start..graph.start + graph.before.len()] {
            for resource in touched.keys() {
                if needs.nbytes.contains_key(resource) && !needs.lasting.contains(resource) {
                    *left.entry(*resource).or_default() += 1;
                }
            }
        }
        Self {
            needs,
            start: graph.start,
            left,
            used: BTreeSet::new(),
        }
    }

    /// By how many bytes the memory in use changes if instruction `at` is next.
    fn change(&self, at: usize) -> i128 {
        let groups = self.needs.touched[self.start + at].keys();
        let changes = groups.filter_map(|group| {
            let left = *self.left.get(group)?;
            let nbytes = i128::from(self.needs.nbytes[group]);
            let begins = if self.used.contains(group) { 0 } else { nbytes };
            let ends = if left == 1 { nbytes } else { 0 };
            Some(begins - ends)
        });
        changes.sum()
    }

    fn take(&mut self, at: usize) {
        for group in self.needs.touched[self.start + at].keys() {
            if let Some(left) = self.left.get_mut(group) {
                *left -= 1;
                match *left {
                    0 => self.used.remove(group),
                    _ => self.used.insert(*group),
                };
            }
        }
    }
}
