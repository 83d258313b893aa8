//! Where findings go, and the path to the field that is being checked.

use core::convert::Infallible;
use core::fmt;

use crate::problem::{Problem, Problems, Rule, Severity};

/// Takes findings. Texts are made only if the sink wants them.
pub(crate) trait Sink {
    /// What ends the walk.
    type Stop;

    /// Whether to look for fields that this version does not know. Loading does not care.
    const NEWER_FIELDS: bool;

    /// Takes one finding; an error ends the walk.
    fn report(
        &mut self,
        severity: Severity,
        rule: Rule,
        problem: impl FnOnce() -> Problem,
    ) -> Result<(), Self::Stop>;
}

/// Ends the walk at the first error; ignores warnings.
pub(crate) struct FirstError;

impl Sink for FirstError {
    type Stop = Problem;
    const NEWER_FIELDS: bool = false;

    fn report(
        &mut self,
        severity: Severity,
        _: Rule,
        problem: impl FnOnce() -> Problem,
    ) -> Result<(), Problem> {
        match severity {
            Severity::Error => Err(problem()),
            Severity::Warning => Ok(()),
        }
    }
}

/// Ends the walk at the first finding of one rule, whatever its severity.
pub(crate) struct FirstOf(pub(crate) Rule);

impl Sink for FirstOf {
    type Stop = Problem;
    const NEWER_FIELDS: bool = true;

    fn report(
        &mut self,
        _: Severity,
        rule: Rule,
        problem: impl FnOnce() -> Problem,
    ) -> Result<(), Problem> {
        if rule == self.0 {
            Err(problem())
        } else {
            Ok(())
        }
    }
}

/// Keeps all findings.
#[derive(Default)]
pub(crate) struct Collect {
    pub(crate) problems: Problems,
}

impl Sink for Collect {
    type Stop = Infallible;
    const NEWER_FIELDS: bool = true;

    fn report(
        &mut self,
        severity: Severity,
        _: Rule,
        problem: impl FnOnce() -> Problem,
    ) -> Result<(), Infallible> {
        self.problems.add(severity, problem);
        Ok(())
    }
}

/// A path to a field, as a chain on the stack: nothing is formatted until something is wrong.
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    Field(&'static str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// A field of the root table.
    pub(crate) fn field(name: &'static str) -> Self {
        Self {
            parent: None,
            step: Step::Field(name),
        }
    }

    /// An entry of this list.
    pub(crate) fn at(&'a self, index: usize) -> Path<'a> {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    /// A field of this table.
    pub(crate) fn dot(&'a self, name: &'static str) -> Path<'a> {
        Self {
            parent: Some(self),
            step: Step::Field(name),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match (self.step, self.parent.is_some()) {
            (Step::Index(index), _) => write!(f, "[{index}]"),
            (Step::Field(name), true) => write!(f, ".{name}"),
            (Step::Field(name), false) => f.write_str(name),
        }
    }
}
