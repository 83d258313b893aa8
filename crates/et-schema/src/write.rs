//! From owned values to files: FlatBuffer, header, segments.
//!
//! The same program and options always give the same bytes. Segments keep the places that the
//! program's segment table gives them ([`lay_out`] makes a table), their bytes come from the caller
//! and are not looked at.

mod encode;
mod file;
mod size;

use alloc::string::String;

use crate::aligned_bytes::OutOfMemory;
use crate::byte_source::SourceError;

pub use file::{
    ByteSink, FileSegments, SegmentBytes, WriteOptions, lay_out, write_flat_tensor, write_program,
};

/// A file could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// What belongs into the FlatBuffer is more than its offsets reach. Data in segments does not
    /// count.
    #[error(
        "the flatbuffer would need {nbytes} bytes, its offsets reach {limit}; \
         put constants and delegate data into segments"
    )]
    TooLarge {
        /// Bytes that it might need.
        nbytes: u64,
        /// The most it can have.
        limit: u64,
    },
    /// An alignment is not a power of two from 1 to 65536.
    #[error("alignment {found} of {what} is not a power of two up to 65536")]
    Alignment {
        /// Of what.
        what: &'static str,
        /// The alignment.
        found: u64,
    },
    /// The segment table has another number of entries than there are segments.
    #[error("the segment table has {found} entries for {expected} segments")]
    SegmentCount {
        /// Entries in the table.
        found: u64,
        /// Segments given.
        expected: u64,
    },
    /// A segment's bytes are not as many as the segment table says.
    #[error("segments[{index}] has {found} bytes, its table entry says {expected}")]
    SegmentSize {
        /// Which segment.
        index: u64,
        /// Bytes given.
        found: u64,
        /// Bytes in the table.
        expected: u64,
    },
    /// Two segments overlap, or a position does not fit 64 bits.
    #[error("segments[{index}] at {offset} overlaps the one before or wraps")]
    SegmentPlace {
        /// Which segment.
        index: u64,
        /// Its offset in the table.
        offset: u64,
    },
    /// No memory for the FlatBuffer.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A segment's bytes could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The output took no more bytes.
    #[error("writing failed: {reason}")]
    Sink {
        /// What the system said.
        reason: String,
    },
}

impl WriteError {
    /// A stable name of the fault.
    pub fn id(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "schema.flatbuffer-too-large",
            Self::Alignment { .. } => "schema.write-alignment",
            Self::SegmentCount { .. } | Self::SegmentSize { .. } | Self::SegmentPlace { .. } => {
                "schema.write-segments"
            }
            Self::OutOfMemory(_) => "schema.out-of-memory",
            Self::Source(_) => "schema.read-failed",
            Self::Sink { .. } => "schema.write-failed",
        }
    }
}
