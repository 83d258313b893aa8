//! One planned buffer: what is in it, and new places for that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use et_schema::owned::{AllocationDetails, ExecutionPlan, Value};

use super::in_place::{self, Sharing};
use super::{BufferReport, CompactError, CompactOptions};
use crate::Alignment;
use crate::analysis::{Analysis, Finding, ValueIndex};
use crate::placement::{
    Buffer, Instance, Lifetime, Plan, Progress, Solution, max_live_load, plan_with, validate,
};

/// No buffer is aligned to more than this by what its old places happen to have in common.
const MOST_ALIGNMENT: u64 = 4096;

/// Buffers have whole granules.
const GRANULE: u64 = Alignment::LEAST.get();

/// Values that move together.
#[derive(Clone)]
pub(super) struct Unit {
    /// With the offset of each in the file.
    pub(super) members: Vec<(ValueIndex, u64)>,
    /// The lowest old offset of a member.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) lifetime: Lifetime,
    pub(super) pinned: bool,
    /// Units that lie exactly on this one, at other times but for one instruction.
    pub(super) on_top: Vec<Unit>,
}

/// One planned buffer and what is in it.
pub(super) struct Pool {
    pub(super) memory_id: u32,
    nbytes: u64,
    pub(super) units: Vec<Unit>,
    pub(super) frozen: bool,
}

impl Pool {
    pub(super) fn all(
        method: &ExecutionPlan,
        analysis: &Analysis<'_>,
        options: &CompactOptions,
    ) -> Vec<Self> {
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
                on_top: Vec::new(),
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

    pub(super) fn has_part_in(&self, finding: &Finding) -> bool {
        let Finding::Clobber { first, second, .. } = finding else {
            return false;
        };
        let mut members = self.units.iter().flat_map(|unit| &unit.members);
        members.any(|(member, _)| member == first || member == second)
    }

    /// No plan of the buffer is smaller than this.
    ///
    /// # Errors
    ///
    /// [`CompactError::Instance`] for sizes that no memory has. Places that must stay make none.
    pub(super) fn bound(&self, options: &CompactOptions) -> Result<u64, CompactError> {
        let mut buffers = self.buffers(options);
        buffers
            .iter_mut()
            .for_each(|buffer| buffer.fixed_offset = None);
        Ok(max_live_load(&self.instance(buffers)?) + self.slack())
    }

    /// What the buffer adds to the bound of all buffers together.
    pub(super) fn bound_in_all(&self, options: &CompactOptions) -> Result<u64, CompactError> {
        match self.stays() {
            true => Ok(self.nbytes),
            false => self.bound(options),
        }
    }

    /// Whether new places are not even looked for.
    fn stays(&self) -> bool {
        self.frozen || self.units.is_empty()
    }

    /// Plans the buffer, and writes new places and size into `method` if they are better, or if the old ones are no
    /// plan at all.
    pub(super) fn plan(
        mut self,
        method: &mut ExecutionPlan,
        options: &CompactOptions,
        must_move: bool,
        sharing: &[Sharing],
        listener: &mut dyn FnMut(u32, Progress) -> ControlFlow<()>,
    ) -> Result<BufferReport, CompactError> {
        let mut report = BufferReport {
            memory_id: self.memory_id,
            nbytes_before: self.nbytes,
            nbytes_after: self.nbytes,
            lower_bound: 0,
            nodes: 0,
            stopped: None,
            kept: true,
            shared: Vec::new(),
        };
        if self.stays() {
            // What cannot be counted is no reason to refuse what stays as it is.
            report.lower_bound = self.nbytes.min(self.bound(options).unwrap_or(0));
            return Ok(report);
        }
        let (slack, before) = (self.slack(), self.nbytes);
        let (mut solution, mut nbytes) = self.solve(options, slack, listener)?;
        let alone = self.units.clone();
        let shared = in_place::merge(&mut self, sharing);
        if !shared.is_empty() {
            let (merged, fewer) = self.solve(options, slack, listener)?;
            if fewer < nbytes {
                (solution, nbytes, report.shared) = (merged, fewer, shared);
            } else {
                self.units = alone;
            }
        }
        (report.nodes, report.stopped) = (solution.nodes, solution.stopped);
        if nbytes < before || must_move {
            self.write(method, &solution.plan, nbytes)?;
            (report.nbytes_after, report.kept) = (nbytes, false);
        } else {
            report.shared.clear();
        }
        // What is less than the bound is so by a part of the last granule.
        report.lower_bound = report
            .nbytes_after
            .min(solution.lower_bound.next_multiple_of(GRANULE) + slack);
        Ok(report)
    }

    /// A plan that was checked, and the bytes that it needs.
    fn solve(
        &self,
        options: &CompactOptions,
        slack: u64,
        listener: &mut dyn FnMut(u32, Progress) -> ControlFlow<()>,
    ) -> Result<(Solution, u64), CompactError> {
        let memory_id = self.memory_id;
        let instance = self.instance(self.buffers(options))?;
        let mut listener = |progress| listener(memory_id, progress);
        let solution = plan_with(&instance, options.algorithm, &options.limits, &mut listener)
            .map_err(|source| CompactError::Pinned { memory_id, source })?;
        validate(&instance, &solution.plan)
            .map_err(|source| CompactError::Invalid { memory_id, source })?;
        let nbytes = self.reach(&solution.plan) + slack;
        Ok((solution, nbytes))
    }

    fn buffers(&self, options: &CompactOptions) -> Vec<Buffer> {
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
        buffers.collect()
    }

    fn instance(&self, buffers: Vec<Buffer>) -> Result<Instance, CompactError> {
        let memory_id = self.memory_id;
        Instance::new(buffers).map_err(|source| CompactError::Instance { memory_id, source })
    }

    /// The alignment asked for, or else what all old places have in common.
    fn alignment(&self, options: &CompactOptions) -> u64 {
        if let Some(alignment) = options.alignment {
            return alignment.get();
        }
        let common = self.units.iter().fold(0, |bits, unit| bits | unit.starts());
        let common = if common == 0 {
            MOST_ALIGNMENT
        } else {
            1 << common.trailing_zeros().min(63)
        };
        common.clamp(GRANULE, MOST_ALIGNMENT)
    }

    /// The bytes that a plan needs, in whole granules of the least alignment.
    fn reach(&self, plan: &Plan) -> u64 {
        let ends = self.units.iter().zip(plan.offsets());
        let end = ends
            .map(|(unit, offset)| offset + (unit.end - unit.start))
            .max()
            .unwrap_or(0);
        end.next_multiple_of(GRANULE)
    }

    /// Bytes behind the last value and the rest of its granule, which a kernel may read past it.
    fn slack(&self) -> u64 {
        let end = self.units.iter().map(|unit| unit.end).max().unwrap_or(0);
        let end = end.checked_next_multiple_of(GRANULE).unwrap_or(end);
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
            unit.write(method, offset);
        }
        let size =
            i64::try_from(nbytes).map_err(|_| CompactError::TooLarge { memory_id, nbytes })?;
        method.non_const_buffer_sizes[memory_id as usize] = size;
        Ok(())
    }
}

impl Unit {
    fn add(&mut self, member: ValueIndex, offset: u64, nbytes: u64, lifetime: Lifetime) {
        self.members.push((member, offset));
        self.start = self.start.min(offset);
        self.end = self.end.max(offset + nbytes);
        if self.lifetime.is_empty() {
            self.lifetime = lifetime;
        } else if !lifetime.is_empty() {
            self.lifetime.lower = self.lifetime.lower.min(lifetime.lower);
            self.lifetime.upper = self.lifetime.upper.max(lifetime.upper);
        }
    }

    /// All bits that are set in the old offset of the unit, or of one on top of it.
    fn starts(&self) -> u64 {
        let on_top = self.on_top.iter();
        on_top.fold(self.start, |bits, unit| bits | unit.starts())
    }

    /// Puts the members where they were relative to each other, from `offset` on.
    fn write(&self, method: &mut ExecutionPlan, offset: u64) {
        for (member, old) in &self.members {
            let tensor = method.values[member.get()].as_tensor_mut();
            if let Some(place) = tensor.and_then(|tensor| tensor.allocation_info.as_mut()) {
                place.memory_offset = old - self.start + offset;
            }
        }
        for unit in &self.on_top {
            unit.write(method, offset);
        }
    }
}

/// The place and size of a planned tensor. The analysis has checked that its end does not wrap.
fn allocation(value: &Value) -> Option<(AllocationDetails, u64)> {
    let tensor = value.as_tensor()?;
    Some((tensor.allocation_info?, tensor.nbytes()?))
}
