//! What validation found: the broken rule, the field, what stands there and what should.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::container::FileKind;
use crate::error::{code, invalid};
use crate::number::file_len;

/// One finding about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The format of the file.
    pub file: FileKind,
    /// The broken rule.
    pub rule: Rule,
    /// Whether the file can still be used.
    pub severity: Severity,
    /// The field, such as `execution_plan[0].values[7].Tensor.sizes[2]`.
    pub path: String,
    /// What stands there.
    pub found: String,
    /// What may stand there.
    pub expected: String,
}

impl Problem {
    /// The number that upstream's runtime uses for this kind of fault.
    pub fn code(&self) -> u32 {
        match self.rule {
            Rule::Unsupported => code::NOT_SUPPORTED,
            _ => invalid(self.file),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, expected {}",
            self.path, self.found, self.expected
        )
    }
}

impl core::error::Error for Problem {}

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing; the file loads.
    Warning,
    /// The file does not load.
    Error,
}

/// The rules that validation checks, beyond the FlatBuffer being well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The schema version is one that we know.
    Version,
    /// A field is there that something else needs.
    Missing,
    /// An index lies inside of its list.
    Index,
    /// A referenced value has the kind that its user needs.
    Kind,
    /// A number is not negative.
    Negative,
    /// A product or sum fits 63 bits.
    Overflow,
    /// At most 16 dimensions.
    Rank,
    /// The dimension order is a permutation of the dimensions.
    DimOrder,
    /// An enumeration or union has a value that we know.
    UnknownCode,
    /// What is valid but no runtime does.
    Unsupported,
    /// Bytes lie inside of the buffer, segment or blob that they are said to be in.
    OutOfBounds,
    /// An offset is a multiple of the element size.
    Alignment,
    /// Names and entries that must be unique are.
    Duplicate,
    /// Byte ranges that must not overlap do not.
    Overlap,
    /// Two parts of the file do not contradict each other.
    Conflict,
    /// A tensor's device is that of the planned buffer it lies in.
    DeviceMismatch,
    /// A device index is possible.
    DeviceIndex,
    /// Sizes that describe the same data agree.
    SizeMismatch,
    /// A table has no fields beyond those of our schema.
    NewerField,
}

impl Rule {
    /// A stable name of the rule.
    pub fn id(self) -> &'static str {
        match self {
            Self::Version => "schema.schema-version",
            Self::Missing => "schema.missing-field",
            Self::Index => "schema.index-out-of-range",
            Self::Kind => "schema.wrong-kind",
            Self::Negative => "schema.negative",
            Self::Overflow => "schema.overflow",
            Self::Rank => "schema.rank",
            Self::DimOrder => "schema.dim-order",
            Self::UnknownCode => "schema.unknown-code",
            Self::Unsupported => "schema.unsupported",
            Self::OutOfBounds => "schema.out-of-bounds",
            Self::Alignment => "schema.alignment",
            Self::Duplicate => "schema.duplicate",
            Self::Overlap => "schema.overlap",
            Self::Conflict => "schema.conflict",
            Self::DeviceMismatch => "schema.device-mismatch",
            Self::DeviceIndex => "schema.device-index",
            Self::SizeMismatch => "schema.size-mismatch",
            Self::NewerField => "schema.newer-field",
        }
    }
}

/// All findings about a file, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    num_errors: u64,
    num_warnings: u64,
}

impl Problems {
    /// How many findings are kept. A small hostile file can break a rule very often.
    pub const LIMIT: usize = 1000;

    /// The findings that were kept: the first [`Problems::LIMIT`] of each severity.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// How many errors there are, kept or not.
    pub fn num_errors(&self) -> u64 {
        self.num_errors
    }

    /// How many warnings there are, kept or not.
    pub fn num_warnings(&self) -> u64 {
        self.num_warnings
    }

    /// True if the file can be used.
    pub fn is_usable(&self) -> bool {
        self.num_errors == 0
    }

    /// The kept errors.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.list
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
    }

    /// Counts a finding, and keeps it if there is room; only then it is put into words.
    pub(crate) fn add(&mut self, severity: Severity, problem: impl FnOnce() -> Problem) {
        let count = match severity {
            Severity::Error => &mut self.num_errors,
            Severity::Warning => &mut self.num_warnings,
        };
        if *count < file_len(Self::LIMIT) {
            self.list.push(problem());
        }
        *count = count.saturating_add(1);
    }
}
