//! What can be wrong with the bytes around the FlatBuffer.

use core::fmt;

use super::FileKind;

/// The bytes around the FlatBuffer are not those of the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not {} {file} file: {kind}", .kind.claim())]
pub struct ContainerError {
    /// The format that was wanted.
    pub file: FileKind,
    /// What is wrong.
    pub kind: ContainerErrorKind,
}

/// What is wrong with the bytes around the FlatBuffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerErrorKind {
    /// Shorter than the smallest file of the format.
    #[error("{len} bytes ({head}), at least {needed} are needed")]
    TooShort {
        /// Bytes there are.
        len: u64,
        /// Bytes there must be.
        needed: u64,
        /// The first bytes, for the reader of the message.
        head: Bytes,
    },
    /// The identifier at offset 4 is another one.
    #[error("identifier {found}, expected {expected}, in a file of {file_len} bytes")]
    Identifier {
        /// Bytes 4 to 8 of the file.
        found: Bytes,
        /// What they must be.
        expected: Bytes,
        /// Length of the file.
        file_len: u64,
    },
    /// There is no header where the format demands one.
    #[error("header magic {found} at offset 8")]
    NoHeader {
        /// Bytes 8 to 12 of the file.
        found: Bytes,
    },
    /// The header says that it is shorter than its own fields.
    #[error("header length {found}, at least {needed} are needed")]
    HeaderLength {
        /// The length it states.
        found: u32,
        /// The smallest that holds the fields.
        needed: u32,
    },
    /// The header reaches past the FlatBuffer that it lies in.
    #[error("a header of {header_len} bytes does not fit a flatbuffer of {flatbuffer_len} bytes")]
    HeaderBeyondFlatbuffer {
        /// The length it states.
        header_len: u32,
        /// The FlatBuffer's length that it states.
        flatbuffer_len: u64,
    },
    /// A part reaches past the end of the file.
    #[error("{what} ends at byte {end} of a file of {file_len} bytes")]
    BeyondFile {
        /// Which part.
        what: &'static str,
        /// Where it ends.
        end: u64,
        /// Length of the file.
        file_len: u64,
    },
    /// Segment data without a position for it.
    #[error("{size} bytes of segment data, but the segment base offset is 0")]
    SegmentsWithoutBase {
        /// Bytes of segment data.
        size: u64,
    },
    /// Segments would lie inside of the FlatBuffer.
    #[error("segment base offset {base} lies inside of the flatbuffer of {flatbuffer_len} bytes")]
    BaseInsideFlatbuffer {
        /// The stated base.
        base: u64,
        /// Where the FlatBuffer ends.
        flatbuffer_len: u64,
    },
    /// A sum of two numbers of the file does not fit 64 bits.
    #[error("{field} = {offset} + {size} wraps")]
    Wraps {
        /// Which sum.
        field: &'static str,
        /// First number.
        offset: u64,
        /// Second number.
        size: u64,
    },
    /// A segment leaves the region of segment data.
    #[error(
        "segment of {size} bytes at {offset} is not inside of {available} bytes of segment data"
    )]
    SegmentOutside {
        /// Offset relative to the segment base.
        offset: u64,
        /// Bytes of the segment.
        size: u64,
        /// Bytes of segment data.
        available: u64,
    },
}

impl ContainerErrorKind {
    /// What the file is not: one of the format at all, or a sound one.
    const fn claim(&self) -> &'static str {
        match self {
            Self::Identifier { .. } => "an ExecuTorch",
            _ => "a valid",
        }
    }
}

/// A few bytes of a file, shown in hexadecimal and as text where they are text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    bytes: [u8; 8],
    len: u8,
}

impl Bytes {
    /// The first bytes of `bytes`, at most eight.
    pub fn first_of(bytes: &[u8]) -> Self {
        let mut kept = Self {
            bytes: [0; 8],
            len: 0,
        };
        for (slot, byte) in kept.bytes.iter_mut().zip(bytes) {
            *slot = *byte;
            kept.len = kept.len.saturating_add(1);
        }
        kept
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.len))
            .unwrap_or(&self.bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == 0 {
            return f.write_str("no bytes");
        }
        f.write_str("hex")?;
        for byte in self.as_slice() {
            write!(f, " {byte:02x}")?;
        }
        write!(f, " \"{}\"", self.as_slice().escape_ascii())
    }
}

impl FileKind {
    pub(super) fn error(self, kind: ContainerErrorKind) -> ContainerError {
        ContainerError { file: self, kind }
    }
}
