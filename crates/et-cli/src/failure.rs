//! Why a command did not do what it was asked, and whose fault that is.

use crate::report::Report;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::path::Path;

/// Whose fault it is; decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The file, or what happened when it ran.
    File,
    /// The command line.
    CommandLine,
    /// The machine: no driver, no such device, disk or memory full.
    Environment,
}

impl Blame {
    /// The exit status of the process.
    pub(crate) fn exit_status(self) -> u8 {
        match self {
            Self::File => 1,
            Self::CommandLine => 2,
            Self::Environment => 3,
        }
    }
}

/// An error as the user sees it.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Whose fault it is.
    pub(crate) blame: Blame,
    /// A stable identifier for programs.
    pub(crate) id: Cow<'static, str>,
    /// One message for people.
    pub(crate) message: String,
    /// More for programs: fields of the JSON `error` object.
    pub(crate) details: Map<String, Value>,
    /// What the command found out before it failed.
    pub(crate) report: Box<Report>,
}

impl Failure {
    /// A failure with nothing but a message.
    pub(crate) fn new(
        blame: Blame,
        id: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            blame,
            id: id.into(),
            message: message.into(),
            details: Map::new(),
            report: Box::default(),
        }
    }

    /// The file or the run is at fault.
    pub(crate) fn file(id: &'static str, message: impl Into<String>) -> Self {
        Self::new(Blame::File, id, message)
    }

    /// The command line is at fault.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Blame::CommandLine, "usage", message)
    }

    /// Adds a field to the JSON `error` object.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Adds what the command found out before it failed.
    pub(crate) fn after(mut self, report: Report) -> Self {
        *self.report = report;
        self
    }

    /// Says in which of several calls it happened.
    pub(crate) fn in_run(mut self, run: usize) -> Self {
        let place = format!("runs[{run}]");
        // What is wrong with the document says so itself.
        if !self.message.contains(&place) {
            self.message = format!("{place}: {}", self.message);
        }
        self.with("run", run)
    }

    /// The `error` object of a JSON document.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = self.details.clone();
        error.insert("id".into(), self.id.as_ref().into());
        error.insert("message".into(), self.message.as_str().into());
        error.into()
    }

    /// A file that could not be read or written.
    ///
    /// A file that is not there or is a folder is a fault of what was named; the rest (permissions, a full
    /// disk) is the machine's.
    pub(crate) fn io(verb: &str, path: &Path, error: &io::Error) -> Self {
        let blame = match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::InvalidInput => Blame::File,
            _ => Blame::Environment,
        };
        let name = if verb == "read" && path == Path::new("-") {
            "standard input".into()
        } else {
            path.display().to_string()
        };
        Self::new(blame, "io", format!("cannot {verb} {name}: {error}"))
            .with("path", path.display().to_string())
    }
}

/// An error and its causes in one line; a cause that only repeats what is said already is left out.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.ends_with(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: io::ErrorKind, status: u8) {
        let failure = Failure::io("read", Path::new("x"), &kind.into());
        assert_eq!(failure.blame.exit_status(), status);
        assert!(
            failure.message.starts_with("cannot read x: "),
            "{}",
            failure.message
        );
    }

    #[test]
    fn a_missing_file_is_at_fault_and_a_full_disk_is_not() {
        check(io::ErrorKind::NotFound, 1);
        check(io::ErrorKind::IsADirectory, 1);
        check(io::ErrorKind::StorageFull, 3);
        check(io::ErrorKind::PermissionDenied, 3);
    }
}
