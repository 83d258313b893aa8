//! Allocation instances: read, solved in every way, and every answer checked.

use et_planner::placement::{
    Fit, Instance, Limits, fit, greedy, max_live_load, minimise, naive, validate,
};

use super::Outcome;

/// Steps of a search, so that a case is short.
const NODES: u64 = 2000;

/// Accepted is an instance that every planner has a plan for; a plan that is none, or below the bound, is a fault.
pub(super) fn check(bytes: &[u8]) -> Result<Outcome, String> {
    let Ok(text) = str::from_utf8(bytes) else {
        return Ok(Outcome::Refused);
    };
    let Ok(instance) = Instance::from_csv(text) else {
        return Ok(Outcome::Refused);
    };
    let bound = max_live_load(&instance);
    let limits = Limits::nodes(NODES);
    let best = minimise(&instance, &limits);
    if best.lower_bound < bound || best.lower_bound > best.plan.height() {
        return Err(format!(
            "the bound of a search is {}, that of the load {bound}, and the plan has {}",
            best.lower_bound,
            best.plan.height()
        ));
    }
    let mut outcome = Outcome::Accepted;
    let mut plans = vec![("search", best.plan)];
    for (name, plan) in [("naive", naive(&instance)), ("greedy", greedy(&instance))] {
        match plan {
            Ok(plan) => plans.push((name, plan)),
            Err(_) => outcome = Outcome::Partly,
        }
    }
    if let Fit::Fits(solution) = fit(&instance, bound, &limits) {
        if solution.plan.height() > bound {
            return Err(format!("{} bytes fit into {bound}", solution.plan.height()));
        }
        plans.push(("fit", solution.plan));
    }
    for (name, plan) in plans {
        validate(&instance, &plan).map_err(|error| format!("{name}: {error}"))?;
        if plan.height() < bound {
            return Err(format!("{name}: {} bytes are below {bound}", plan.height()));
        }
        Instance::from_csv(&instance.to_csv(&plan))
            .map_err(|error| format!("{name}: what was written is refused: {error}"))?;
    }
    Ok(outcome)
}
