//! What a well-formed file may say: the rules that a runtime or planner relies on.
//!
//! One walk over the file serves both uses: loading stops at the first error and forms no text
//! before that, inspection collects everything. The walk is linear in what structural verification
//! has already walked, and allocates one bit per value and a list per table that must have no
//! duplicates.

mod data;
mod flat_tensor;
mod instructions;
mod plan;
mod sink;
mod tensors;
mod values;

pub(crate) use flat_tensor::flat_tensor;
pub(crate) use sink::{Collect, FirstError, FirstOf};

use alloc::string::String;
use core::fmt::Display;

use flatbuffers::Table;

use crate::container::FileKind;
use crate::problem::{Problem, Rule, Severity};
use crate::view::ProgramView;
use sink::{Path, Sink};

/// Checks a whole program.
pub(crate) fn program<S: Sink>(program: &ProgramView<'_>, sink: &mut S) -> Result<(), S::Stop> {
    let mut check = Check {
        file: FileKind::Program,
        sink,
    };
    check.newer(&program.table()._tab, 8, &Path::field("program"))?;
    check.version(program.version())?;
    data::program(program, &mut check)?;
    plan::plans(program, &mut check)
}

/// What every check needs: where findings go.
struct Check<'s, S> {
    file: FileKind,
    sink: &'s mut S,
}

impl<S: Sink> Check<'_, S> {
    fn version(&mut self, version: u32) -> Result<(), S::Stop> {
        if version == 0 {
            return Ok(());
        }
        self.warn(
            Rule::Version,
            &Path::field("version"),
            version,
            "0, the version that we know",
        )
    }

    fn error(
        &mut self,
        rule: Rule,
        path: &Path<'_>,
        found: impl Display,
        expected: impl Display,
    ) -> Result<(), S::Stop> {
        self.report(Severity::Error, rule, path, found, expected)
    }

    fn warn(
        &mut self,
        rule: Rule,
        path: &Path<'_>,
        found: impl Display,
        expected: impl Display,
    ) -> Result<(), S::Stop> {
        self.report(Severity::Warning, rule, path, found, expected)
    }

    /// Fields that a table has beyond the `known` ones of our schema.
    fn newer(&mut self, table: &Table<'_>, known: usize, path: &Path<'_>) -> Result<(), S::Stop> {
        if !S::NEWER_FIELDS {
            return Ok(());
        }
        let fields = table.vtable();
        // A field list may end before its own two sizes; counting its fields would then wrap.
        if fields.num_bytes() < 4 {
            return Ok(());
        }
        let present = (known..fields.num_fields()).find(|field| fields.get_field(*field) != 0);
        let Some(field) = present else { return Ok(()) };
        let found = format_args!("field number {field}");
        self.warn(
            Rule::NewerField,
            path,
            found,
            format_args!("{known} fields at most"),
        )
    }

    fn missing(&mut self, path: &Path<'_>, expected: &str) -> Result<(), S::Stop> {
        self.error(Rule::Missing, path, "absent", expected)
    }

    /// A text that names something, so that it must not be empty.
    fn name(&mut self, name: Option<&str>, path: &Path<'_>, expected: &str) -> Result<(), S::Stop> {
        match name {
            None => self.missing(path, expected),
            Some("") => self.error(Rule::Missing, path, "empty", expected),
            Some(_) => Ok(()),
        }
    }

    /// An index that must be below `len`.
    fn index(
        &mut self,
        path: &Path<'_>,
        index: impl TryInto<usize> + Display + Copy,
        len: usize,
        of: &str,
    ) -> Result<bool, S::Stop> {
        if index.try_into().is_ok_and(|index| index < len) {
            return Ok(true);
        }
        match len {
            0 => self.error(
                Rule::Index,
                path,
                index,
                format_args!("no index ({of} is empty)"),
            ),
            _ => self.error(
                Rule::Index,
                path,
                index,
                format_args!("an index below {len} ({of})"),
            ),
        }?;
        Ok(false)
    }

    fn report(
        &mut self,
        severity: Severity,
        rule: Rule,
        path: &Path<'_>,
        found: impl Display,
        expected: impl Display,
    ) -> Result<(), S::Stop> {
        let file = self.file;
        self.sink.report(severity, rule, || Problem {
            file,
            rule,
            severity,
            path: text(path),
            found: text(found),
            expected: text(expected),
        })
    }
}

fn text(value: impl Display) -> String {
    alloc::format!("{value}")
}
