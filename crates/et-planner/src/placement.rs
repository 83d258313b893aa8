//! One arena: offsets for buffers so that those alive together do not overlap, and the arena is small.
//!
//! - [`Instance`] is the question, [`Plan`] the answer; [`validate`] checks an answer without trusting who made it.
//! - [`naive`] and [`greedy`] place like ExecuTorch's planners of these names; [`plan_pools`] is their full form
//!   with several pools, reserves and padding.
//! - [`minimise`] and [`fit`] search: the smallest arena, or any plan within a capacity, with a proof or an honest
//!   "not proved".
//! - [`plan_with`] takes rules or search by name.

mod algorithm;
mod best_fit;
mod bound;
mod columns;
mod csv;
mod decompose;
mod greedy;
mod instance;
mod limits;
mod optimal;
mod plan;
mod pools;
mod portfolio;
mod search;

pub use algorithm::{Algorithm, plan_with};
pub use bound::max_live_load;
pub use csv::CsvError;
pub use greedy::{GreedyError, greedy, naive};
pub use instance::{Buffer, Instance, InstanceError, Lifetime};
pub use limits::{Limits, Progress, Stop};
pub use optimal::{Fit, Solution, fit, fit_with, minimise, minimise_with};
pub use plan::{Plan, PlanError, validate};
pub use pools::{PoolBuffer, PoolError, PoolOptions, PoolPlan, PoolPlanner, Slot, plan_pools};
