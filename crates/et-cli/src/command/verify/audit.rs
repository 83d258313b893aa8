//! What is wrong with memory plans, in the words of a list of problems.

use super::severity;
use crate::render;
use crate::source::Source;
use et_planner::analysis::{Analysis, Finding, Hints};
use et_schema::{Severity, VerifiedProgram, owned::Program};
use serde_json::{Value as Json, json};

/// The C++ runtime's number for an invalid program.
const INVALID_PROGRAM: u32 = 0x23;

/// Something that is wrong with the memory plan of a method.
pub(super) struct PlanProblem {
    pub(super) severity: Severity,
    rule: &'static str,
    path: String,
    found: String,
    expected: &'static str,
}

/// What is wrong with the plans of a valid program.
pub(super) fn problems(source: &Source) -> Vec<PlanProblem> {
    let Ok(verified) = VerifiedProgram::read(source) else {
        // Another part of the check has said why.
        return Vec::new();
    };
    let program = Program::without_newer_fields(&verified);
    let methods = program.execution_plan.iter().enumerate();
    methods
        .flat_map(|(number, method)| {
            let analysis = Analysis::new(method, &Hints::default());
            match analysis.and_then(|analysis| analysis.audit()) {
                Ok(audit) => {
                    let findings = audit.findings.iter();
                    let mut problems: Vec<_> = findings
                        .map(|finding| PlanProblem::new(number, finding))
                        .collect();
                    if audit.has_more_clobbers {
                        problems.push(PlanProblem::of_method(
                            number,
                            "plan.clobber",
                            Severity::Error,
                            "more such pairs",
                        ));
                    }
                    problems
                }
                Err(error) => vec![PlanProblem::of_method(
                    number,
                    "plan.not_audited",
                    Severity::Warning,
                    &error.to_string(),
                )],
            }
        })
        .collect()
}

impl PlanProblem {
    /// Something about a method as a whole.
    fn of_method(number: usize, rule: &'static str, severity: Severity, found: &str) -> Self {
        Self {
            severity,
            rule,
            path: format!("execution_plan[{number}]"),
            found: found.to_owned(),
            expected: "a method whose memory plan can be checked",
        }
    }

    fn new(method: usize, finding: &Finding) -> Self {
        let (severity, rule, expected) = judge(finding);
        let place = match finding {
            Finding::Clobber { first, .. } => format!(".values[{first}]"),
            Finding::OutsideBuffer { value, .. }
            | Finding::DeviceMismatch { value, .. }
            | Finding::NegativeDeviceIndex { value, .. }
            | Finding::PlannedDeviceInput { value }
            | Finding::DataOnDevice { value } => format!(".values[{value}]"),
            Finding::HostTouchesDevice { instruction, .. }
            | Finding::ConditionOnDevice { instruction, .. }
            | Finding::NoDeviceMemory { instruction, .. } => {
                format!(".chains[0].instructions[{instruction}]")
            }
            Finding::EmptyDeviceBuffer { memory_id } => {
                format!(".non_const_buffer_sizes[{memory_id}]")
            }
            Finding::ListBeforeItem { list, .. } => format!(".values[{list}]"),
            _ => String::new(),
        };
        Self {
            severity,
            rule,
            path: format!("execution_plan[{method}]{place}"),
            found: finding.to_string(),
            expected,
        }
    }

    /// A row of the table.
    pub(super) fn cells(&self) -> [String; 4] {
        [
            severity(self.severity).into(),
            render::name(&self.path),
            render::name(&self.found),
            self.expected.into(),
        ]
    }

    pub(super) fn to_json(&self) -> Json {
        json!({
            "severity": severity(self.severity),
            "rule": self.rule,
            "path": self.path,
            "found": self.found,
            "expected": self.expected,
            "code": INVALID_PROGRAM,
        })
    }
}

/// How bad it is, its stable name, and what would be right. Wrong results are errors; what only some runtimes refuse
/// is a warning.
fn judge(finding: &Finding) -> (Severity, &'static str, &'static str) {
    use Severity::{Error, Warning};
    match finding {
        Finding::Clobber { .. } => (
            Error,
            "plan.clobber",
            "values that are needed together in places of their own",
        ),
        Finding::OutsideBuffer { .. } => {
            (Error, "plan.outside_buffer", "a place inside of its buffer")
        }
        Finding::DeviceMismatch { .. } => {
            (Warning, "plan.device_mismatch", "the device of its buffer")
        }
        Finding::NegativeDeviceIndex { .. } => {
            (Warning, "plan.device_index", "a device index from 0 to 127")
        }
        Finding::HostTouchesDevice { .. } => (
            Warning,
            "plan.host_touches_device",
            "host values for what runs on the host",
        ),
        Finding::ConditionOnDevice { .. } => (
            Warning,
            "plan.condition_on_device",
            "a condition on the host",
        ),
        Finding::PlannedDeviceInput { .. } => (
            Warning,
            "plan.device_input",
            "no plan for an input on a device, so that callers can give it",
        ),
        Finding::NoDeviceMemory { .. } => (
            Warning,
            "plan.no_device_memory",
            "memory for what a delegate writes on a device",
        ),
        Finding::DataOnDevice { .. } => (
            Warning,
            "plan.data_on_device",
            "data of the file on the host",
        ),
        Finding::EmptyDeviceBuffer { .. } => (
            Warning,
            "plan.empty_device_buffer",
            "device buffers with bytes",
        ),
        Finding::ListBeforeItem { .. } => {
            (Warning, "plan.list_before_item", "lists behind their items")
        }
        _ => (Warning, "plan.other", "a plan without faults"),
    }
}
