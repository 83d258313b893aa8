//! One method: repaired, made device-aware, and given new places.

use super::request::Request;
use crate::failure;
use crate::progress::ProgressLine;
use et_planner::analysis::{Analysis, AnalysisError, Finding, Hints, ValueIndex};
use et_planner::compact::{BufferReport, CompactError, compact};
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
    /// How long it took.
    pub(super) time: Duration,
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
        "it has device memory already, which --target, --skip-h2d and --skip-d2h cannot change"
    )]
    Planned,
    /// No device memory.
    #[error(transparent)]
    Propagate(#[from] PropagateError),
    /// No new places.
    #[error(transparent)]
    Compact(#[from] CompactError),
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
        }
    }

    /// What happened, with the causes.
    pub(super) fn message(&self) -> String {
        failure::with_causes(self as &dyn Error)
    }
}

/// Changes a method as requested. Buffers in `frozen` get no new places.
pub(super) fn change(
    method: &mut ExecutionPlan,
    request: &Request,
    frozen: &BTreeSet<u32>,
    line: &mut ProgressLine,
) -> Result<Changed, ChangeError> {
    let started = Instant::now();
    let repaired = repair(method, request, frozen, line)?;
    let devices = propagate_method(method, &request.of(&method.name))?;
    if devices.was_propagated && request.names(&method.name) {
        return Err(ChangeError::Planned);
    }
    let compacted = match request.compact_all {
        true => replan(method, request, frozen.clone(), line)?,
        false => Vec::new(),
    };
    Ok(Changed {
        devices,
        repaired,
        compacted,
        time: started.elapsed(),
    })
}

/// New places in the buffers where live values overwrite each other, if that was asked for.
fn repair(
    method: &mut ExecutionPlan,
    request: &Request,
    frozen: &BTreeSet<u32>,
    line: &mut ProgressLine,
) -> Result<Vec<BufferReport>, ChangeError> {
    let clobbers = clobbers(method)?;
    if clobbers.is_empty() {
        return Ok(Vec::new());
    }
    if !request.compact.repair {
        return Err(ChangeError::Corrupt(clobbers));
    }
    let corrupt: BTreeSet<u32> = clobbers
        .iter()
        .filter_map(|finding| match finding {
            Finding::Clobber { first, .. } => buffer_of(method, *first),
            _ => None,
        })
        .collect();
    let count = u32::try_from(method.non_const_buffer_sizes.len()).unwrap_or(u32::MAX);
    let right = (1..count).filter(|buffer| !corrupt.contains(buffer));
    let frozen = right.chain(frozen.iter().copied()).collect();
    let mut reports = replan(method, request, frozen, line)?;
    reports.retain(|report| corrupt.contains(&report.memory_id));
    Ok(reports)
}

fn clobbers(method: &ExecutionPlan) -> Result<Vec<Finding>, AnalysisError> {
    let mut findings = Analysis::new(method, &Hints::default())?.audit();
    findings.retain(|finding| matches!(finding, Finding::Clobber { .. }));
    Ok(findings)
}

fn buffer_of(method: &ExecutionPlan, value: ValueIndex) -> Option<u32> {
    let tensor = method.values.get(value.get()).and_then(Value::as_tensor)?;
    Some(tensor.allocation_info?.memory_id)
}

fn replan(
    method: &mut ExecutionPlan,
    request: &Request,
    frozen: BTreeSet<u32>,
    line: &mut ProgressLine,
) -> Result<Vec<BufferReport>, CompactError> {
    let mut options = request.compact.clone();
    options.frozen = frozen;
    let name = crate::render::name(&method.name);
    compact(method, &options, &mut |buffer, progress| {
        line.show(&format!("{name}, buffer {buffer}"), progress)
    })
}
