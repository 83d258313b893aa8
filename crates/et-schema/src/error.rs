//! Why a file was refused.

use alloc::boxed::Box;
use alloc::string::String;

use crate::aligned_bytes::OutOfMemory;
use crate::byte_source::SourceError;
use crate::container::{ContainerError, ContainerErrorKind, FileKind};
use crate::problem::Problem;

/// A file could not be read. Says what was found where, and what was expected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes around the FlatBuffer are wrong: identifier, header, sizes.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The FlatBuffer is damaged.
    #[error(transparent)]
    Structure(#[from] StructureError),
    /// The FlatBuffer is well-formed, but what it says cannot be.
    #[error(transparent)]
    Invalid(#[from] Box<Problem>),
    /// No memory for the FlatBuffer part of the file.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The bytes could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl ReadError {
    /// A stable name of the fault, for programs that read our output.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Container(error) => error.id(),
            Self::Structure(error) => error.kind.id(),
            Self::Invalid(problem) => problem.rule.id(),
            Self::OutOfMemory(_) => "schema.out-of-memory",
            Self::Source(SourceError::OutOfRange { .. }) => "schema.read-out-of-range",
            Self::Source(SourceError::Failed { .. }) => "schema.read-failed",
        }
    }

    /// The number that upstream's runtime uses for this kind of fault.
    pub fn code(&self) -> u32 {
        match self {
            Self::Container(error) => error.code(),
            Self::Structure(error) => invalid(error.file),
            Self::Invalid(problem) => problem.code(),
            Self::OutOfMemory(_) => code::MEMORY_ALLOCATION_FAILED,
            Self::Source(SourceError::OutOfRange { .. }) => code::INVALID_ARGUMENT,
            Self::Source(SourceError::Failed { .. }) => code::ACCESS_FAILED,
        }
    }

    /// The field at fault, such as `execution_plan[0].values[7].Tensor.sizes[2]`, where it is one.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Structure(error) => Some(&error.path),
            Self::Invalid(problem) => Some(&problem.path),
            Self::Container(_) | Self::OutOfMemory(_) | Self::Source(_) => None,
        }
    }
}

impl ContainerError {
    /// A stable name of the fault.
    pub fn id(&self) -> &'static str {
        match self.kind {
            ContainerErrorKind::TooShort { .. } => "schema.file-too-short",
            ContainerErrorKind::Identifier { .. } => "schema.wrong-identifier",
            ContainerErrorKind::NoHeader { .. } => "schema.header-missing",
            ContainerErrorKind::HeaderLength { .. }
            | ContainerErrorKind::HeaderBeyondFlatbuffer { .. } => "schema.header-length",
            ContainerErrorKind::BeyondFile { .. } => "schema.beyond-end-of-file",
            ContainerErrorKind::SegmentsWithoutBase { .. }
            | ContainerErrorKind::BaseInsideFlatbuffer { .. } => "schema.segment-base",
            ContainerErrorKind::Wraps { .. } => "schema.offset-wraps",
            ContainerErrorKind::SegmentOutside { .. } => "schema.segment-out-of-bounds",
        }
    }

    /// The number that upstream's runtime uses for this kind of fault.
    pub fn code(&self) -> u32 {
        match (&self.kind, self.file) {
            (ContainerErrorKind::TooShort { .. }, FileKind::Program) => code::INVALID_ARGUMENT,
            _ => invalid(self.file),
        }
    }
}

/// The FlatBuffer is damaged: an offset, a length or a text is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("damaged {file} file: {}{kind}", At(path))]
pub struct StructureError {
    /// The format of the file.
    pub file: FileKind,
    /// The field on the way to the damage; empty if it is the root.
    pub path: String,
    /// What is wrong there.
    pub kind: StructureErrorKind,
}

struct At<'a>(&'a str);

impl core::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "{}: ", self.0)
        }
    }
}

/// How a FlatBuffer is damaged. Positions are bytes from its start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructureErrorKind {
    /// Something reaches past the end.
    #[error("bytes {start}..{end} are outside of a flatbuffer of {len} bytes")]
    OutOfBounds {
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
        /// Length of the FlatBuffer.
        len: u64,
    },
    /// The root table is not inside of the FlatBuffer.
    #[error("the root offset {offset} is not inside of a flatbuffer of {len} bytes")]
    Root {
        /// The offset, which is the first four bytes of the file.
        offset: u32,
        /// Length of the FlatBuffer.
        len: u64,
    },
    /// A table's offset to its field list points outside.
    #[error("the table at {position} points {offset} bytes back for its field list")]
    FieldList {
        /// Where the table is.
        position: u64,
        /// The offset it holds.
        offset: i32,
    },
    /// A number does not stand where numbers of its size may.
    #[error("a number at {position} is not aligned")]
    Unaligned {
        /// Where it stands.
        position: u64,
    },
    /// A text is not UTF-8.
    #[error("text in bytes {start}..{end} is not UTF-8")]
    Text {
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
    },
    /// A text has no zero byte after it.
    #[error("text in bytes {start}..{end} has no end marker")]
    TextEnd {
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
    },
    /// A union has a type but no value, or a value but no type.
    #[error("union has a type without a value or a value without a type")]
    Union,
    /// The tables, followed to the end, are many more than the file has bytes for: parts are shared
    /// in a way that no writer does.
    #[error("the tables of {len} bytes expand to more than {limit} {unit}")]
    Expands {
        /// Length of the FlatBuffer.
        len: u64,
        /// What was allowed for that length.
        limit: u64,
        /// Tables, bytes or levels.
        unit: &'static str,
    },
    /// Longer than offsets of 32 bits reach.
    #[error("a flatbuffer of {len} bytes, at most {limit} can be addressed")]
    TooLong {
        /// Length of the FlatBuffer.
        len: u64,
        /// The largest possible.
        limit: u64,
    },
    /// The bytes given are not as many as the container says.
    #[error("{found} bytes were given, the container says {expected}")]
    Length {
        /// Bytes given.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// The layout given is that of another kind of file.
    #[error("the layout given is that of a {found} file")]
    Layout {
        /// What the layout is for.
        found: FileKind,
    },
    /// A fault that this version has no words for.
    #[error("{0}")]
    Other(String),
}

impl StructureErrorKind {
    /// A stable name of the fault.
    pub fn id(&self) -> &'static str {
        match self {
            Self::OutOfBounds { .. } | Self::FieldList { .. } | Self::Root { .. } => {
                "schema.flatbuffer-out-of-bounds"
            }
            Self::Unaligned { .. } => "schema.flatbuffer-unaligned",
            Self::Text { .. } | Self::TextEnd { .. } => "schema.flatbuffer-text",
            Self::Union => "schema.flatbuffer-union",
            Self::Expands { .. } => "schema.flatbuffer-expands",
            Self::TooLong { .. } => "schema.flatbuffer-too-long",
            Self::Length { .. } => "schema.flatbuffer-length",
            Self::Layout { .. } => "schema.flatbuffer-layout",
            Self::Other(_) => "schema.flatbuffer-damaged",
        }
    }
}

/// The code for a file that says impossible things.
pub(crate) fn invalid(file: FileKind) -> u32 {
    match file {
        FileKind::Program => code::INVALID_PROGRAM,
        FileKind::FlatTensor => code::INVALID_EXTERNAL_DATA,
    }
}

/// Upstream's numbers for the errors that reading a file can end in.
pub mod code {
    /// What was asked for is valid but not offered.
    pub const NOT_SUPPORTED: u32 = 0x10;
    /// The caller gave something impossible.
    pub const INVALID_ARGUMENT: u32 = 0x12;
    /// No memory.
    pub const MEMORY_ALLOCATION_FAILED: u32 = 0x21;
    /// A resource could not be read.
    pub const ACCESS_FAILED: u32 = 0x22;
    /// The program says impossible things.
    pub const INVALID_PROGRAM: u32 = 0x23;
    /// The tensor data file says impossible things, or not what the program wants.
    pub const INVALID_EXTERNAL_DATA: u32 = 0x24;
}
