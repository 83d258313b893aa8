//! `et verify`: every problem of every file.

mod audit;

use crate::args::VerifyArgs;
use crate::failure::{Blame, Failure};
use crate::render::{self, Section};
use crate::report::Report;
use crate::source::{self, Source};
use audit::PlanProblem;
use et_schema::{
    FileKind, ParsedFlatTensor, ParsedProgram, Problem, Problems, ReadError, Severity,
};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

/// What was found out about one file.
pub(super) struct Finding {
    name: String,
    kind: Option<FileKind>,
    result: Result<Problems, Failure>,
    /// What is wrong with the memory plans of a program that is right otherwise.
    plans: Vec<PlanProblem>,
}

/// Checks the files; a failure if one is not valid.
pub(crate) fn run(args: &VerifyArgs) -> Result<Report, Failure> {
    source::expect_one_stdin(args.files.iter().map(PathBuf::as_path))?;
    let findings: Vec<Finding> = args.files.iter().map(|path| check(path)).collect();
    let mut report = Report::text(text(&findings));
    report.set("files", findings.iter().map(to_json).collect::<Vec<_>>());
    let bad: Vec<&Finding> = findings
        .iter()
        .filter(|finding| !finding.is_valid())
        .collect();
    let Some(first) = bad.first() else {
        return Ok(report);
    };
    let blame = match &first.result {
        Err(failure) => failure.blame,
        Ok(_) => Blame::File,
    };
    // What is wrong is in the report, and said once.
    let message = match findings.len() {
        1 => "the file is not valid".to_owned(),
        total => format!("{} of {total} files are not valid", bad.len()),
    };
    Err(Failure::new(blame, "verify.invalid", message).after(report))
}

impl Finding {
    fn is_valid(&self) -> bool {
        let corrupts = |problem: &PlanProblem| problem.severity == Severity::Error;
        self.result.as_ref().is_ok_and(Problems::is_usable) && !self.plans.iter().any(corrupts)
    }
}

impl Finding {
    /// How many errors and warnings there are, of the file and of its plans.
    fn numbers(&self, problems: &Problems) -> [u64; 2] {
        let of = |severity: Severity| {
            let plans = self.plans.iter();
            plans.filter(|problem| problem.severity == severity).count() as u64
        };
        [
            problems.num_errors() + of(Severity::Error),
            problems.num_warnings() + of(Severity::Warning),
        ]
    }
}

fn check(path: &Path) -> Finding {
    match Source::open(path) {
        Ok(source) => check_source(&source),
        Err(failure) => Finding {
            name: path.display().to_string(),
            kind: None,
            result: Err(failure),
            plans: Vec::new(),
        },
    }
}

pub(super) fn check_source(source: &Source) -> Finding {
    let kind = source.kind();
    let problems = match kind {
        Some(FileKind::FlatTensor) => {
            ParsedFlatTensor::read(source).map(|parsed| parsed.problems())
        }
        // A program, or something whose error says what a program looks like.
        _ => ParsedProgram::read(source).map(|parsed| parsed.problems()),
    };
    let result = problems.map_err(|error: ReadError| source.refused(&error));
    let is_program = kind == Some(FileKind::Program);
    let plans = match &result {
        Ok(problems) if is_program && problems.is_usable() => audit::problems(source),
        _ => Vec::new(),
    };
    Finding {
        name: source.name(),
        kind,
        result,
        plans,
    }
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&headline(finding));
        if let Ok(problems) = &finding.result {
            let mut table = problem_table(problems);
            for problem in &finding.plans {
                table.row(problem.cells());
            }
            table.write_to(&mut text);
        }
    }
    text
}

fn headline(finding: &Finding) -> String {
    let name = &finding.name;
    let kind = finding
        .kind
        .map_or_else(|| "unknown".into(), |kind| kind.to_string());
    match &finding.result {
        Err(failure) if findings_name_themselves(failure, name) => {
            format!("invalid  {}\n", failure.message)
        }
        Err(failure) => format!("invalid  {name}: {}\n", failure.message),
        Ok(problems) => {
            let word = if finding.is_valid() {
                "valid    "
            } else {
                "invalid  "
            };
            let [errors, warnings] = finding.numbers(problems);
            let errors = render::count(errors, "error");
            let warnings = render::count(warnings, "warning");
            format!("{word}{name}: {kind}, {errors}, {warnings}\n")
        }
    }
}

fn findings_name_themselves(failure: &Failure, name: &str) -> bool {
    failure.message.contains(name)
}

/// All problems of a file, the errors and warnings in the order of the file.
pub(crate) fn problem_table(problems: &Problems) -> Section {
    let mut section = Section::new("", &["severity", "field", "found", "expected"]);
    for problem in problems.list() {
        section.row([
            severity(problem.severity).into(),
            render::name(&problem.path),
            render::name(&problem.found),
            render::name(&problem.expected),
        ]);
    }
    section
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        _ => "warning",
    }
}

fn to_json(finding: &Finding) -> Json {
    let mut entry = json!({
        "file": finding.name,
        "kind": finding.kind.map(FileKind::extension),
        "valid": finding.is_valid(),
    });
    match &finding.result {
        Err(failure) => entry["error"] = failure.to_json(),
        Ok(problems) => {
            let [errors, warnings] = finding.numbers(problems);
            entry["num_errors"] = errors.into();
            entry["num_warnings"] = warnings.into();
            entry["problems"] = problems_json(problems);
            let plans = finding.plans.iter().map(PlanProblem::to_json);
            if let Some(problems) = entry["problems"].as_array_mut() {
                problems.extend(plans);
            }
        }
    }
    entry
}

/// The problems of a file as a list of objects.
pub(crate) fn problems_json(problems: &Problems) -> Json {
    let entry = |problem: &Problem| {
        json!({
            "severity": severity(problem.severity),
            "rule": problem.rule.id(),
            "path": problem.path,
            "found": problem.found,
            "expected": problem.expected,
            "code": problem.code(),
        })
    };
    problems.list().iter().map(entry).collect()
}
