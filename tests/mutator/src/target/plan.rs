//! Planning: what a planner makes of a program is written, and read and verified again.

use et_planner::compact::{CompactOptions, SharedBuffers, compact_method};
use et_planner::placement::Limits;
use et_planner::propagate::{MethodOptions, propagate_method};
use et_schema::VerifiedProgram;
use et_schema::write::{WriteOptions, write_program};

use super::Outcome;
use crate::edit;

/// Steps of a search, so that a case is short.
const NODES: u64 = 2000;

/// Accepted is a program whose methods were all planned; a plan that does not verify is a fault.
pub(super) fn check(bytes: &[u8]) -> Result<Outcome, String> {
    let Some((mut program, segments)) = edit::read(bytes) else {
        return Ok(Outcome::Refused);
    };
    let mut outcome = Outcome::Accepted;
    let shared = SharedBuffers::of(&program);
    let mut options = CompactOptions::default();
    options.limits = Limits::nodes(NODES);
    options.repair = true;
    options.reorder = true;
    options.in_place = true;
    let mut devices = MethodOptions::default();
    devices.limits = Limits::nodes(NODES);
    for method in &mut program.execution_plan {
        let before = planned_nbytes(method);
        if let Err(error) = compact_method(method, &shared, &options) {
            if error.is_fault() {
                return Err(format!("method {} was planned wrong: {error}", method.name));
            }
            if planned_nbytes(method) != before {
                return Err(format!("method {} was changed by an error", method.name));
            }
            outcome = Outcome::Partly;
        }
        if let Err(error) = propagate_method(method, &devices) {
            if error.is_fault() {
                return Err(format!(
                    "method {} was propagated wrong: {error}",
                    method.name
                ));
            }
            outcome = Outcome::Partly;
        }
    }
    let mut file = Vec::new();
    match write_program(&program, &segments[..], &WriteOptions::default(), &mut file) {
        Err(_) => Ok(Outcome::Partly),
        Ok(()) => match VerifiedProgram::from_file_bytes(&file) {
            Ok(_) => Ok(outcome),
            Err(error) => Err(format!("what was planned is refused: {error}")),
        },
    }
}

fn planned_nbytes(method: &et_schema::owned::ExecutionPlan) -> i64 {
    let sizes = method.non_const_buffer_sizes.iter();
    sizes.fold(0, |sum, size| sum.wrapping_add(*size))
}
