//! One arena planned by the rules or the search of one's choice.

use std::ops::ControlFlow;

use super::bound::max_live_load;
use super::greedy::{GreedyError, greedy, naive};
use super::instance::Instance;
use super::limits::{Limits, Progress};
use super::optimal::{Solution, minimise_with};

/// How places are found.
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

/// Plans an instance. `listener` hears of a search, and may end it; rules know no limits.
///
/// # Errors
///
/// [`GreedyError`]; never for a search.
pub fn plan_with(
    instance: &Instance,
    algorithm: Algorithm,
    limits: &Limits,
    listener: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Solution, GreedyError> {
    let plan = match algorithm {
        Algorithm::Naive => naive(instance)?,
        Algorithm::Greedy => greedy(instance)?,
        Algorithm::Optimal => return Ok(minimise_with(instance, limits, listener)),
    };
    Ok(Solution::unsearched(plan, max_live_load(instance)))
}
