//! One method: repaired, made device-aware, and given new places.

use super::request::Request;
use crate::failure;
use crate::progress::ProgressLine;
use et_planner::analysis::{Analysis, AnalysisError, Finding, Hints, ValueIndex};
use et_planner::compact::{
    BufferReport, CompactError, CompactOptions, CompactReport, NewOrder, SharedBuffers,
    compact_method_with,
};
use et_planner::io::{IoError, IoReport, plan_io};
use et_planner::propagate::{MethodReport, PropagateError, propagate_method};
use et_schema::owned::{ExecutionPlan, Value};
use std::collections::BTreeSet;
use std::error::Error;
use std::time::{Duration, Instant};
use thiserror::Error as ThisError;

/// What was done to a method.
pub(super) struct Changed {
    /// Copies and device memory.
    pub(super) devices: MethodReport,
    /// Buffers with new places, from the repair.
    pub(super) repaired: Vec<BufferReport>,
    /// Buffers that were planned anew.
    pub(super) compacted: Vec<BufferReport>,
    /// The order of instructions, if it is a new one.
    pub(super) order: Option<NewOrder>,
    /// Inputs and outputs whose memory is given otherwise.
    pub(super) io: IoReport,
    /// How long it took.
    pub(super) time: Duration,
}

impl Changed {
    /// Whether some values were given places.
    pub(super) fn has_new_places(&self) -> bool {
        let were_planned = |reports: &[BufferReport]| !reports.is_empty();
        !self.devices.buffers.is_empty()
            || were_planned(&self.repaired)
            || were_planned(&self.compacted)
    }

    /// (input, result): results that lie on an input which nobody needs any more.
    pub(super) fn shared(&self) -> impl Iterator<Item = (ValueIndex, ValueIndex)> {
        let shared = self.compacted.iter().flat_map(|report| &report.shared);
        shared.copied()
    }

    /// For each instruction the one before all changes that it belongs to; `None` where all are as they were.
    pub(super) fn origins(&self) -> Option<Vec<usize>> {
        let inserted = &self.devices.origins;
        match &self.order {
            None => (!inserted.is_empty()).then(|| inserted.clone()),
            Some(order) => {
                let before = |&place: &usize| inserted.get(place).copied().unwrap_or(place);
                Some(order.origins.iter().map(before).collect())
            }
        }
    }
}

/// Why a method was not changed.
#[derive(Debug, ThisError)]
pub(super) enum ChangeError {
    /// It is not understood.
    #[error("the method cannot be analysed")]
    Analysis(#[from] AnalysisError),
    /// Its own plan is wrong, and nobody asked for another.
    #[error("{} of live values overwrite each other in its plan, the first: {}; --repair plans it anew", pairs(.0.len()), .0[0])]
    Corrupt(Vec<Finding>),
    /// An option asks for what is done already.
    #[error(
        "it has device memory already, which --target, --skip-h2d, --skip-d2h, --reuse-uploads and --device-memory off \
         cannot change"
    )]
    Planned,
    /// No device memory.
    #[error(transparent)]
    Propagate(#[from] PropagateError),
    /// No new places.
    #[error(transparent)]
    Compact(#[from] CompactError),
    /// Inputs and outputs stay as they are.
    #[error(transparent)]
    Io(#[from] IoError),
}

fn pairs(number: usize) -> String {
    crate::render::count(number as u64, "pair")
}

impl ChangeError {
    /// A stable name of the fault.
    pub(super) fn id(&self) -> &'static str {
        match self {
            Self::Analysis(_) => "plan.analysis",
            Self::Corrupt(_) => "plan.corrupt",
            Self::Planned => "plan.device_planned",
            Self::Propagate(_) => "plan.devices",
            Self::Compact(_) => "plan.compact",
            Self::Io(_) => "plan.ends",
        }
    }

    /// What happened, with the causes.
    pub(super) fn message(&self) -> String {
        failure::with_causes(self as &dyn Error)
    }
}

/// Changes a method as requested. Shared buffers get no new places.
pub(super) fn change(
    method: &mut ExecutionPlan,
    request: &Request,
    shared: &SharedBuffers,
    line: &mut ProgressLine,
) -> Result<Changed, ChangeError> {
    let started = Instant::now();
    let repaired = repair(method, request, shared, line)?;
    let io = plan_io(method, &request.io)?;
    let devices = propagate_method(method, &request.of(&method.name))?;
    if devices.was_propagated && request.changes_devices(&method.name) {
        return Err(ChangeError::Planned);
    }
    let compacted = match request.compact_all {
        true => replan(method, &request.compact, shared, line)?,
        false => CompactReport::default(),
    };
    Ok(Changed {
        devices,
        repaired,
        compacted: compacted.buffers,
        order: compacted.order,
        io,
        time: started.elapsed(),
    })
}

/// New places in the buffers where live values overwrite each other, if that was asked for.
fn repair(
    method: &mut ExecutionPlan,
    request: &Request,
    shared: &SharedBuffers,
    line: &mut ProgressLine,
) -> Result<Vec<BufferReport>, ChangeError> {
    let audit = Analysis::new(method, &Hints::default())?.audit()?;
    let clobbers: Vec<Finding> = audit.clobbers().cloned().collect();
    if clobbers.is_empty() {
        return Ok(Vec::new());
    }
    if !request.compact.repair {
        return Err(ChangeError::Corrupt(clobbers));
    }
    let count = u32::try_from(method.non_const_buffer_sizes.len()).unwrap_or(u32::MAX);
    let corrupt: BTreeSet<u32> = match audit.has_more_clobbers {
        // They may be in any buffer.
        true => (1..count).collect(),
        false => clobbers
            .iter()
            .filter_map(|finding| match finding {
                Finding::Clobber { first, .. } => buffer_of(method, *first),
                _ => None,
            })
            .collect(),
    };
    let right = (1..count).filter(|buffer| !corrupt.contains(buffer));
    let mut options = request.compact.clone();
    options.frozen.extend(right);
    (options.reorder, options.in_place) = (false, false);
    let mut reports = replan(method, &options, shared, line)?.buffers;
    reports.retain(|report| corrupt.contains(&report.memory_id));
    Ok(reports)
}

fn buffer_of(method: &ExecutionPlan, value: ValueIndex) -> Option<u32> {
    let tensor = method.values.get(value.get()).and_then(Value::as_tensor)?;
    Some(tensor.allocation_info?.memory_id)
}

fn replan(
    method: &mut ExecutionPlan,
    options: &CompactOptions,
    shared: &SharedBuffers,
    line: &mut ProgressLine,
) -> Result<CompactReport, CompactError> {
    let name = crate::render::name(&method.name);
    compact_method_with(method, shared, options, &mut |buffer, progress| {
        line.show(&format!("{name}, buffer {buffer}"), progress)
    })
}
