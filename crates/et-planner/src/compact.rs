//! New places for the values of a method, in no more memory than before.

mod in_place;
mod order;
mod pool;
mod shared;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use et_schema::owned::{ExecutionPlan, Program};
use thiserror::Error;

use self::pool::Pool;
pub use self::shared::SharedBuffers;
use crate::Alignment;
use crate::analysis::{Analysis, AnalysisError, Finding, Hints, ValueIndex};
use crate::placement::{Algorithm, GreedyError, InstanceError, Limits, PlanError, Progress, Stop};

/// What may change, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactOptions {
    /// How new places are found.
    pub algorithm: Algorithm,
    /// How long each buffer may take.
    pub limits: Limits,
    /// The alignment of all places; that of the old ones where not given.
    pub alignment: Option<Alignment>,
    /// Accept a plan in which live values clobber each other, and make one in which they do not, even if that is
    /// larger.
    pub repair: bool,
    /// Put instructions in another order if that takes less memory, where data, state and control flow allow it.
    pub reorder: bool,
    /// Let operators that go element by element write over an input that nobody needs any more, if that takes less
    /// memory.
    pub in_place: bool,
    /// Keep the bytes of inputs to the end of a run, for callers that run again without setting them.
    pub preserve_inputs: bool,
    /// Planned buffers, as numbered in the file, that stay as they are beside those that methods share.
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
            reorder: false,
            in_place: false,
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
    /// (input, result): results that now lie on an input which nobody needs any more.
    pub shared: Vec<(ValueIndex, ValueIndex)>,
}

/// What became of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Its planned buffers.
    pub buffers: Vec<BufferReport>,
    /// The new order of its instructions, if there is one.
    pub order: Option<NewOrder>,
}

/// A new order of instructions, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewOrder {
    /// For each place the instruction that was elsewhere before.
    pub origins: Vec<usize>,
    /// No plan of all buffers together was smaller than this in the old order, in bytes.
    pub bound_before: u64,
    /// The same for the new order.
    pub bound_after: u64,
}

impl NewOrder {
    /// How many instructions have another place than before.
    pub fn moved(&self) -> usize {
        let places = self.origins.iter().enumerate();
        places.filter(|(at, origin)| at != *origin).count()
    }
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
    #[error("{} pairs of live values share bytes in this plan{}", .0.len(), the_first(.0))]
    Corrupt(Vec<Finding>),
    /// Live values clobber each other in a buffer that must stay as it is.
    #[error("buffer {memory_id} must stay as it is, so it cannot be repaired: {clobber}")]
    CannotRepair {
        /// The buffer.
        memory_id: u32,
        /// What is wrong with it.
        clobber: Finding,
    },
    /// Values that clobber each other also tell what is a view of what, which would change with their places.
    #[error("the plan cannot be repaired without changing what is a view of what: {0}")]
    BeyondRepair(Finding),
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
    /// The new places would make other values views of each other than the old ones: a fault of this crate.
    #[error("with the new places the method would be understood otherwise")]
    Ambiguous,
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

fn the_first(findings: &[Finding]) -> String {
    let first = findings.first();
    first.map_or_else(String::new, |first| format!(", the first: {first}"))
}

impl CompactError {
    /// Whether it tells of a fault of this crate rather than of the method.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Invalid { .. } | Self::Ambiguous | Self::Clobbers(_)
        )
    }
}

/// Why a program was not planned anew.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("method `{method}`")]
#[non_exhaustive]
pub struct CompactProgramError {
    /// The method at fault.
    pub method: String,
    /// What is wrong with it.
    pub source: CompactError,
}

/// Plans all buffers of all methods anew, but for those in which methods share state.
///
/// # Errors
///
/// [`CompactProgramError`] for the first method that cannot be planned; the program is then as it was.
///
/// ```
/// use et_planner::compact::{CompactOptions, compact_program};
/// use et_schema::builder::MethodBuilder;
/// use et_schema::owned::{Program, Tensor};
/// use et_schema::ScalarType;
///
/// let mut method = MethodBuilder::new("forward");
/// let memory = method.buffer(128);
/// let at = |offset| Tensor::new(ScalarType::Float, &[8]).planned(memory, offset);
/// let x = method.input(at(0));
/// let between = method.tensor(at(32));
/// let y = method.output(at(64));
/// method.kernel("aten::relu.out", &[x, between, between]);
/// method.kernel("aten::relu.out", &[between, y, y]);
/// let mut program = Program { execution_plan: vec![method.finish()], ..Program::default() };
///
/// let reports = compact_program(&mut program, &CompactOptions::default())?;
/// assert_eq!(reports[0].buffers[0].nbytes_after, 96);
/// # Ok::<(), et_planner::compact::CompactProgramError>(())
/// ```
pub fn compact_program(
    program: &mut Program,
    options: &CompactOptions,
) -> Result<Vec<CompactReport>, CompactProgramError> {
    let shared = SharedBuffers::of(program);
    let mut methods = program.execution_plan.clone();
    let reports = methods.iter_mut().map(|method| {
        let report = compact_method(method, &shared, options);
        report.map_err(|source| CompactProgramError {
            method: method.name.clone(),
            source,
        })
    });
    let reports = reports.collect::<Result<_, _>>()?;
    program.execution_plan = methods;
    Ok(reports)
}

/// Plans all buffers of one method anew, but for those that it shares with others.
///
/// Values keep their buffers; state that outlives a run keeps its place; what shows another's bytes keeps its place
/// relative to it. A buffer that would become larger keeps its old plan, unless `repair` asks for a right one.
///
/// # Errors
///
/// [`CompactError`]; the method is then as it was.
pub fn compact_method(
    method: &mut ExecutionPlan,
    shared: &SharedBuffers,
    options: &CompactOptions,
) -> Result<CompactReport, CompactError> {
    let mut listener = |_, _| ControlFlow::Continue(());
    compact_method_with(method, shared, options, &mut listener)
}

/// As [`compact_method`]. `listener` hears of each search, with the buffer's number, and may end it.
///
/// # Errors
///
/// [`CompactError`]; the method is then as it was.
pub fn compact_method_with(
    method: &mut ExecutionPlan,
    shared: &SharedBuffers,
    options: &CompactOptions,
    listener: Listener<'_>,
) -> Result<CompactReport, CompactError> {
    let mut options = options.clone();
    options.frozen.extend(shared.iter());
    let (planned, report) = planned(method, &options, listener)?;
    *method = planned;
    Ok(report)
}

fn planned(
    method: &ExecutionPlan,
    options: &CompactOptions,
    listener: Listener<'_>,
) -> Result<Planned, CompactError> {
    let analysis = Analysis::new(method, &options.hints)?;
    let audit = analysis.audit()?;
    let clobbers: Vec<Finding> = audit.clobbers().cloned().collect();
    if !clobbers.is_empty() && !options.repair {
        return Err(CompactError::Corrupt(clobbers));
    }
    for clobber in &clobbers {
        expect_to_move(method, clobber, options)?;
    }
    let must_move = |pool: &Pool| {
        audit.has_more_clobbers || clobbers.iter().any(|finding| pool.has_part_in(finding))
    };
    let best = plan_all(method, &analysis, options, &must_move, listener)?;
    check(&best.0, &analysis, options).map_err(|error| match (error, clobbers.first()) {
        (CompactError::Ambiguous, Some(clobber)) => CompactError::BeyondRepair(clobber.clone()),
        (error, _) => error,
    })?;
    match options.reorder {
        true => reordered(&analysis, best, options, listener),
        false => Ok(best),
    }
}

/// Refuses to repair what must stay where it is.
fn expect_to_move(
    method: &ExecutionPlan,
    clobber: &Finding,
    options: &CompactOptions,
) -> Result<(), CompactError> {
    let Finding::Clobber { first, .. } = clobber else {
        return Ok(());
    };
    let tensor = method.values[first.get()].as_tensor();
    let place = tensor.and_then(|tensor| tensor.allocation_info);
    match place.filter(|place| options.frozen.contains(&place.memory_id)) {
        Some(place) => Err(CompactError::CannotRepair {
            memory_id: place.memory_id,
            clobber: clobber.clone(),
        }),
        None => Ok(()),
    }
}

/// Who hears of a search, with the number of the buffer.
pub type Listener<'a> = &'a mut dyn FnMut(u32, Progress) -> ControlFlow<()>;

/// A method with new places.
type Planned = (ExecutionPlan, CompactReport);

fn plan_all(
    method: &ExecutionPlan,
    analysis: &Analysis<'_>,
    options: &CompactOptions,
    must_move: &dyn Fn(&Pool) -> bool,
    listener: Listener<'_>,
) -> Result<Planned, CompactError> {
    let sharing = match options.in_place {
        true => in_place::candidates(method, analysis, options),
        false => Vec::new(),
    };
    let mut planned = method.clone();
    let mut report = CompactReport::default();
    for pool in Pool::all(method, analysis, options) {
        let must_move = must_move(&pool);
        let buffer = pool.plan(&mut planned, options, must_move, &sharing, listener)?;
        report.buffers.push(buffer);
    }
    Ok((planned, report))
}

/// Checks new places by what the method itself now says, whoever made them.
fn check(
    planned: &ExecutionPlan,
    before: &Analysis<'_>,
    options: &CompactOptions,
) -> Result<(), CompactError> {
    // Once as it was understood before, once as whoever reads the new file will understand it: where the arguments of
    // a delegate do not say whether it reads or writes them, their places are a hint.
    let known = Analysis::with_steps(planned, before.steps().to_vec())?;
    let anew = Analysis::new(planned, &options.hints)?;
    for audit in [known.audit()?, anew.audit()?] {
        if let Some(finding) = audit.clobbers().next() {
            // Where an audit cut its list, the method before may have had it.
            expect_to_move(planned, finding, options)?;
            return Err(CompactError::Clobbers(finding.clone()));
        }
    }
    match before.has_the_views_of(&known) {
        true => Ok(()),
        false => Err(CompactError::Ambiguous),
    }
}

/// The best plan in another order of instructions, if one is better than `best`: no buffer larger, all together
/// smaller.
fn reordered(
    analysis: &Analysis<'_>,
    best: Planned,
    options: &CompactOptions,
    listener: Listener<'_>,
) -> Result<Planned, CompactError> {
    let total = |report: &CompactReport| -> u64 {
        let sizes = report.buffers.iter().map(|buffer| buffer.nbytes_after);
        sizes.fold(0, u64::saturating_add)
    };
    let bound_before = order::bound(analysis, options)?;
    let mut best = best;
    for candidate in order::candidates(analysis, options, bound_before)? {
        let reordered = analysis.reordered(&candidate.method, &candidate.origins)?;
        let (planned, mut report) =
            plan_all(&candidate.method, &reordered, options, &|_| true, listener)?;
        let mut sizes = report.buffers.iter().zip(&best.1.buffers);
        let larger = sizes.any(|(new, old)| new.nbytes_after > old.nbytes_after);
        // Old places that must stay can make a plan impossible, which is no fault.
        let better = !larger && total(&report) < total(&best.1);
        if better && check(&planned, &reordered, options).is_ok() {
            report.order = Some(NewOrder {
                origins: candidate.origins,
                bound_before,
                bound_after: candidate.bound,
            });
            best = (planned, report);
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests;
