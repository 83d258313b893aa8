//! New places for the values of a method, in no more memory than before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use et_schema::owned::{AllocationDetails, ExecutionPlan, Program, Value};
use thiserror::Error;

use crate::analysis::{Analysis, AnalysisError, Finding, Hints, ValueIndex};
use crate::placement::{
    Buffer, GreedyError, Instance, InstanceError, Lifetime, Limits, Plan, PlanError, Progress,
    Solution, Stop, greedy, max_live_load, minimise_with, naive, validate,
};

/// No buffer is aligned to more than this by what its old places happen to have in common.
const MOST_ALIGNMENT: u64 = 4096;

/// No buffer is aligned to less than this, whatever its old places were.
const LEAST_ALIGNMENT: u64 = 16;

/// How to find new places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Nothing shares bytes.
    Naive,
    /// As the reference's exporter places.
    Greedy,
    /// By search, with a proof or the gap.
    Optimal,
}

/// What may change, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactOptions {
    /// How new places are found.
    pub algorithm: Algorithm,
    /// How long each buffer may take.
    pub limits: Limits,
    /// The alignment of all places; that of the old ones where not given.
    pub alignment: Option<u64>,
    /// Accept a plan in which live values clobber each other, and make one in which they do not, even if that is
    /// larger.
    pub repair: bool,
    /// Keep the bytes of inputs to the end of a run, for callers that run again without setting them.
    pub preserve_inputs: bool,
    /// Planned buffers, as numbered in the file, that stay as they are.
    pub frozen: BTreeSet<u32>,
    /// What is known about delegates.
    pub hints: Hints,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Optimal,
            limits: Limits::default(),
            alignment: None,
            repair: false,
            preserve_inputs: false,
            frozen: BTreeSet::new(),
            hints: Hints::default(),
        }
    }
}

/// What became of one planned buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferReport {
    /// The buffer, as numbered in the file.
    pub memory_id: u32,
    /// Its size before, in bytes.
    pub nbytes_before: u64,
    /// Its size now, in bytes.
    pub nbytes_after: u64,
    /// No plan that keeps every value as long as it is needed, and gives each whole granules of the alignment, has
    /// fewer bytes.
    pub lower_bound: u64,
    /// Nodes of the search tree.
    pub nodes: u64,
    /// Why the search ended, if it ended without a proof.
    pub stopped: Option<Stop>,
    /// Whether the old places were kept.
    pub kept: bool,
}

impl BufferReport {
    /// Whether no plan of the same values has fewer bytes.
    pub fn is_proved(&self) -> bool {
        self.nbytes_after <= self.lower_bound
    }
}

/// Why a method was not planned anew.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompactError {
    /// It cannot be analysed.
    #[error("the method cannot be analysed")]
    Analysis(#[from] AnalysisError),
    /// Its own plan lets live values clobber each other.
    #[error("{} pairs of live values share bytes in this plan, the first: {}", .0.len(), .0[0])]
    Corrupt(Vec<Finding>),
    /// A buffer whose values make no placement problem.
    #[error("buffer {memory_id} cannot be planned")]
    Instance {
        /// The buffer.
        memory_id: u32,
        /// Why not.
        source: InstanceError,
    },
    /// A buffer with pinned values, which this algorithm does not know.
    #[error(
        "buffer {memory_id} has values that must stay where they are; only `optimal` can plan it"
    )]
    Pinned {
        /// The buffer.
        memory_id: u32,
        /// Why not.
        source: GreedyError,
    },
    /// The new plan is wrong: a fault of this crate.
    #[error("the new plan of buffer {memory_id} is wrong")]
    Invalid {
        /// The buffer.
        memory_id: u32,
        /// What is wrong.
        source: PlanError,
    },
    /// The new plan lets live values clobber each other: a fault of this crate.
    #[error("the new plan lets live values clobber each other: {0}")]
    Clobbers(Finding),
    /// A new size is more than the format holds.
    #[error("buffer {memory_id} would have {nbytes} bytes")]
    TooLarge {
        /// The buffer.
        memory_id: u32,
        /// Its size.
        nbytes: u64,
    },
}

/// Plans all buffers of a method anew. `listener` hears of the search, with the buffer's number.
///
/// Values keep their buffers; state that outlives a run keeps its place; what shows another's bytes keeps its place
/// relative to it. A buffer that would become larger keeps its old plan, unless `repair` asks for a right one.
///
/// # Errors
///
/// [`CompactError`]; the method is then as it was.
pub fn compact(
    method: &mut ExecutionPlan,
    options: &CompactOptions,
    listener: &mut dyn FnMut(u32, Progress) -> ControlFlow<()>,
) -> Result<Vec<BufferReport>, CompactError> {
    let mut planned = method.clone();
    let mut reports = Vec::new();
    {
        let analysis = Analysis::new(method, &options.hints)?;
        let clobbers = find_clobbers(&analysis);
        if !clobbers.is_empty() && !options.repair {
            return Err(CompactError::Corrupt(clobbers));
        }
        for pool in Pool::all(method, &analysis, options) {
            let corrupt = clobbers.iter().any(|finding| pool.has_part_in(finding));
            reports.push(pool.plan(&mut planned, options, corrupt, listener)?);
        }
    }
    let after = Analysis::new(&planned, &options.hints)?;
    if let Some(finding) = find_clobbers(&after).into_iter().next() {
        return Err(CompactError::Clobbers(finding));
    }
    *method = planned;
    Ok(reports)
}

/// The planned buffers in which methods of a program share state: moving a value in one method would part it from
/// itself in another.
pub fn shared_buffers(program: &Program) -> BTreeSet<u32> {
    let (mut names, mut places) = (BTreeMap::new(), BTreeMap::new());
    let mut shared = BTreeSet::new();
    for (number, method) in program.execution_plan.iter().enumerate() {
        for tensor in method.values.iter().filter_map(Value::as_tensor) {
            let Some(AllocationDetails {
                memory_id,
                memory_offset,
            }) = tensor.allocation_info
            else {
                continue;
            };
            let extra = tensor.extra_tensor_info.as_ref();
            if let Some(name) = extra.and_then(|extra| extra.fully_qualified_name.as_ref()) {
                let (first, other) = *names.entry(name).or_insert((number, memory_id));
                if first != number {
                    shared.extend([memory_id, other]);
                }
            }
            // Buffer 1 is every method's own; others are made for sharing.
            if memory_id >= 2 && !is_on_device(method, memory_id) {
                let place = (memory_id, memory_offset, tensor.nbytes());
                if *places.entry(place).or_insert(number) != number {
                    shared.insert(memory_id);
                }
            }
        }
    }
    shared
}

fn is_on_device(method: &ExecutionPlan, memory_id: u32) -> bool {
    let mut devices = method.non_const_buffer_device.iter().flatten();
    devices.any(|entry| u32::try_from(entry.buffer_idx) == Ok(memory_id) && entry.device_type != 0)
}

fn find_clobbers(analysis: &Analysis<'_>) -> Vec<Finding> {
    let all = analysis.audit().into_iter();
    all.filter(|finding| matches!(finding, Finding::Clobber { .. }))
        .collect()
}

/// Values that move together.
struct Unit {
    members: Vec<ValueIndex>,
    /// The lowest old offset of a member.
    start: u64,
    end: u64,
    lifetime: Lifetime,
    pinned: bool,
}

/// One planned buffer and what is in it.
struct Pool {
    memory_id: u32,
    nbytes: u64,
    units: Vec<Unit>,
    frozen: bool,
}

impl Pool {
    fn all(method: &ExecutionPlan, analysis: &Analysis<'_>, options: &CompactOptions) -> Vec<Self> {
        let lifetimes = analysis.lifetimes();
        let end = analysis.steps().len() as u64 + 1;
        let inputs: BTreeSet<i32> = method.inputs.iter().copied().collect();
        let mut pools: BTreeMap<u32, BTreeMap<ValueIndex, Unit>> = BTreeMap::new();
        for (number, value) in method.values.iter().enumerate() {
            let Some((place, nbytes)) = allocation(value) else {
                continue;
            };
            let member = ValueIndex::new(number);
            let mut lifetime = lifetimes[number];
            let is_input = i32::try_from(number).is_ok_and(|number| inputs.contains(&number));
            if options.preserve_inputs && is_input {
                lifetime.upper = end;
            }
            let units = pools.entry(place.memory_id).or_default();
            let unit = units.entry(analysis.group(member)).or_insert_with(|| Unit {
                members: Vec::new(),
                start: u64::MAX,
                end: 0,
                lifetime: Lifetime::new(0, 0),
                pinned: false,
            });
            unit.add(member, place.memory_offset, nbytes, lifetime);
            unit.pinned |= analysis.is_persistent(member);
        }
        let sizes = method.non_const_buffer_sizes.iter().enumerate().skip(1);
        let pool = |(number, &nbytes): (usize, &i64)| {
            let memory_id = u32::try_from(number).ok()?;
            let units = pools.remove(&memory_id).unwrap_or_default();
            Some(Self {
                memory_id,
                nbytes: u64::try_from(nbytes).ok()?,
                units: units.into_values().collect(),
                frozen: options.frozen.contains(&memory_id),
            })
        };
        sizes.filter_map(pool).collect()
    }

    fn has_part_in(&self, finding: &Finding) -> bool {
        let Finding::Clobber { first, second, .. } = finding else {
            return false;
        };
        self.units
            .iter()
            .any(|unit| unit.members.contains(first) || unit.members.contains(second))
    }

    /// Plans the buffer, and writes new places and size into `method` if they are better.
    fn plan(
        &self,
        method: &mut ExecutionPlan,
        options: &CompactOptions,
        corrupt: bool,
        listener: &mut dyn FnMut(u32, Progress) -> ControlFlow<()>,
    ) -> Result<BufferReport, CompactError> {
        let memory_id = self.memory_id;
        let instance = self
            .instance(options)
            .map_err(|source| CompactError::Instance { memory_id, source })?;
        let slack = self.slack();
        let mut report = BufferReport {
            memory_id,
            nbytes_before: self.nbytes,
            nbytes_after: self.nbytes,
            lower_bound: self.nbytes.min(max_live_load(&instance) + slack),
            nodes: 0,
            stopped: None,
            kept: true,
        };
        if self.frozen || self.units.is_empty() {
            return Ok(report);
        }
        let solution = solve(&instance, options, &mut |progress| {
            listener(memory_id, progress)
        })
        .map_err(|source| CompactError::Pinned { memory_id, source })?;
        validate(&instance, &solution.plan)
            .map_err(|source| CompactError::Invalid { memory_id, source })?;
        let nbytes = self.reach(&solution.plan) + slack;
        (report.nodes, report.stopped) = (solution.nodes, solution.stopped);
        if nbytes < self.nbytes || corrupt {
            self.write(method, &solution.plan, nbytes)?;
            (report.nbytes_after, report.kept) = (nbytes, false);
        }
        // What is less than the bound is so by a part of the last granule.
        report.lower_bound = report
            .nbytes_after
            .min(solution.lower_bound.next_multiple_of(LEAST_ALIGNMENT) + slack);
        Ok(report)
    }

    fn instance(&self, options: &CompactOptions) -> Result<Instance, InstanceError> {
        let alignment = self.alignment(options);
        let buffers = self.units.iter().map(|unit| {
            let nbytes = unit.end - unit.start;
            if unit.pinned {
                // It stays, even where that is not aligned as new places are.
                Buffer::new(unit.lifetime, nbytes).fixed(unit.start)
            } else {
                // Nothing else can begin in the rest of its last granule.
                let nbytes = nbytes.checked_next_multiple_of(alignment).unwrap_or(nbytes);
                Buffer::new(unit.lifetime, nbytes).aligned(alignment)
            }
        });
        Instance::new(buffers.collect())
    }

    /// The alignment asked for, or else what all old places have in common.
    fn alignment(&self, options: &CompactOptions) -> u64 {
        if let Some(alignment) = options.alignment {
            return alignment.max(1);
        }
        let common = self.units.iter().fold(0, |bits, unit| bits | unit.start);
        let common = if common == 0 {
            MOST_ALIGNMENT
        } else {
            1 << common.trailing_zeros().min(63)
        };
        common.clamp(LEAST_ALIGNMENT, MOST_ALIGNMENT)
    }

    /// The bytes that a plan needs, in whole granules of the least alignment.
    fn reach(&self, plan: &Plan) -> u64 {
        let ends = self.units.iter().zip(plan.offsets());
        let end = ends
            .map(|(unit, offset)| offset + (unit.end - unit.start))
            .max()
            .unwrap_or(0);
        end.next_multiple_of(LEAST_ALIGNMENT)
    }

    /// Bytes behind the last value and the rest of its granule, which a kernel may read past it.
    fn slack(&self) -> u64 {
        let end = self.units.iter().map(|unit| unit.end).max().unwrap_or(0);
        let end = end.checked_next_multiple_of(LEAST_ALIGNMENT).unwrap_or(end);
        self.nbytes.saturating_sub(end)
    }

    fn write(
        &self,
        method: &mut ExecutionPlan,
        plan: &Plan,
        nbytes: u64,
    ) -> Result<(), CompactError> {
        let memory_id = self.memory_id;
        for (unit, &offset) in self.units.iter().zip(plan.offsets()) {
            for member in &unit.members {
                let tensor = method.values[member.get()].as_tensor_mut();
                if let Some(allocation) = tensor.and_then(|tensor| tensor.allocation_info.as_mut())
                {
                    allocation.memory_offset = allocation.memory_offset - unit.start + offset;
                }
            }
        }
        let size =
            i64::try_from(nbytes).map_err(|_| CompactError::TooLarge { memory_id, nbytes })?;
        method.non_const_buffer_sizes[memory_id as usize] = size;
        Ok(())
    }
}

impl Unit {
    fn add(&mut self, member: ValueIndex, offset: u64, nbytes: u64, lifetime: Lifetime) {
        self.members.push(member);
        self.start = self.start.min(offset);
        self.end = self.end.max(offset + nbytes);
        if self.lifetime.is_empty() {
            self.lifetime = lifetime;
        } else if !lifetime.is_empty() {
            self.lifetime.lower = self.lifetime.lower.min(lifetime.lower);
            self.lifetime.upper = self.lifetime.upper.max(lifetime.upper);
        }
    }
}

/// The place and size of a planned tensor. The analysis has checked that its end does not wrap.
fn allocation(value: &Value) -> Option<(AllocationDetails, u64)> {
    let tensor = value.as_tensor()?;
    Some((tensor.allocation_info?, tensor.nbytes()?))
}

fn solve(
    instance: &Instance,
    options: &CompactOptions,
    listener: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Solution, GreedyError> {
    let plan = match options.algorithm {
        Algorithm::Naive => naive(instance)?,
        Algorithm::Greedy => greedy(instance)?,
        Algorithm::Optimal => return Ok(minimise_with(instance, &options.limits, listener)),
    };
    Ok(Solution::unsearched(plan, max_live_load(instance)))
}

#[cfg(test)]
mod tests;
