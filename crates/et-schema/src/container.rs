//! The bytes around the FlatBuffer: identifiers, extended headers, and where segments may lie.

mod error;
mod layout;

use core::fmt;
use core::ops::Range;

pub use error::{Bytes, ContainerError, ContainerErrorKind};
pub use layout::Layout;

use crate::number::file_len;

/// How many leading bytes of a file hold everything that [`Layout`] looks at.
pub const HEAD_LEN: usize = 64;

/// Where the identifier stands, in both formats.
const IDENTIFIER: Range<usize> = 4..8;
/// Where the extended header starts, in both formats.
const HEADER_START: usize = 8;

/// The two file formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A program (`.pte`).
    Program,
    /// Tensor data (`.ptd`).
    FlatTensor,
}

impl FileKind {
    /// The format whose identifier these leading bytes carry.
    pub fn detect(head: &[u8]) -> Option<Self> {
        let seen = head.get(IDENTIFIER)?;
        [Self::Program, Self::FlatTensor]
            .into_iter()
            .find(|kind| kind.identifier() == seen)
    }

    /// The four bytes at offset 4 of every file of this format.
    pub const fn identifier(self) -> [u8; 4] {
        match self {
            Self::Program => *b"ET12",
            Self::FlatTensor => *b"FT01",
        }
    }

    /// The usual file name extension, without a dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Program => "pte",
            Self::FlatTensor => "ptd",
        }
    }

    const fn magic(self) -> [u8; 4] {
        match self {
            Self::Program => *b"eh00",
            Self::FlatTensor => *b"FH01",
        }
    }

    const fn min_header_len(self) -> u32 {
        match self {
            Self::Program => PteHeader::LEN_WITHOUT_DATA_SIZE,
            Self::FlatTensor => PtdHeader::LEN,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "program",
            Self::FlatTensor => "tensor data",
        })
    }
}

/// The extended header of a program. It says where the FlatBuffer ends and the segments begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PteHeader {
    /// Bytes of the header, its magic and this number included. 24 in old files, 32 now; longer
    /// ones are read, what they add is ignored.
    pub header_len: u32,
    /// Bytes from the start of the file to the end of the FlatBuffer.
    pub program_size: u64,
    /// Position in the file that segment offsets count from; 0 if there are no segments.
    pub segment_base_offset: u64,
    /// Bytes of segment data after the base. Old headers do not say.
    pub segment_data_size: Option<u64>,
}

impl PteHeader {
    /// The four bytes that a header starts with.
    pub const MAGIC: [u8; 4] = FileKind::Program.magic();
    /// Length of the header of old files, which end at `segment_base_offset`.
    pub const LEN_WITHOUT_DATA_SIZE: u32 = 24;
    /// Length of the header that is written now.
    pub const LEN: u32 = 32;

    /// Reads the header from the first [`HEAD_LEN`] bytes of a file; `None` if there is none,
    /// which is right for a program without segments.
    ///
    /// # Errors
    /// [`ContainerErrorKind::TooShort`] for less than [`HEAD_LEN`] bytes,
    /// [`ContainerErrorKind::HeaderLength`] for a header that says it is shorter than 24 bytes.
    pub fn parse(head: &[u8]) -> Result<Option<Self>, ContainerError> {
        let Some(header_len) = header_len(FileKind::Program, head)? else {
            return Ok(None);
        };
        let has_data_size = header_len >= Self::LEN;
        Ok(Some(Self {
            header_len,
            program_size: le_u64(head, 16),
            segment_base_offset: le_u64(head, 24),
            segment_data_size: has_data_size.then(|| le_u64(head, 32)),
        }))
    }
}

/// The header of a tensor data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PtdHeader {
    /// Bytes of the header, its magic and this number included; at least 40.
    pub header_len: u32,
    /// Where the FlatBuffer goes on after the header.
    pub flatbuffer_offset: u64,
    /// Bytes of the FlatBuffer, counted as if the header were not in it.
    pub flatbuffer_size: u64,
    /// Position in the file that segment offsets count from.
    pub segment_base_offset: u64,
    /// Bytes of segment data after the base.
    pub segment_data_size: u64,
}

impl PtdHeader {
    /// The four bytes that a header starts with.
    pub const MAGIC: [u8; 4] = FileKind::FlatTensor.magic();
    /// Length of the header that is written.
    pub const LEN: u32 = 40;

    /// Reads the header from the first [`HEAD_LEN`] bytes of a file; `None` if there is none.
    ///
    /// # Errors
    /// [`ContainerErrorKind::TooShort`] for less than [`HEAD_LEN`] bytes,
    /// [`ContainerErrorKind::HeaderLength`] for a header that says it is shorter than 40 bytes.
    pub fn parse(head: &[u8]) -> Result<Option<Self>, ContainerError> {
        let Some(header_len) = header_len(FileKind::FlatTensor, head)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            header_len,
            flatbuffer_offset: le_u64(head, 16),
            flatbuffer_size: le_u64(head, 24),
            segment_base_offset: le_u64(head, 32),
            segment_data_size: le_u64(head, 40),
        }))
    }
}

fn hex(bytes: Option<&[u8]>) -> Bytes {
    Bytes::first_of(bytes.unwrap_or_default())
}

fn check_identifier(kind: FileKind, head: &[u8], file_len: u64) -> Result<(), ContainerError> {
    let needed = crate::number::file_len(HEAD_LEN);
    if file_len < needed || head.len() < HEAD_LEN {
        return Err(too_short(kind, head, file_len));
    }
    let found = head.get(IDENTIFIER);
    if found == Some(&kind.identifier()) {
        return Ok(());
    }
    let expected = Bytes::first_of(&kind.identifier());
    Err(kind.error(ContainerErrorKind::Identifier {
        found: hex(found),
        expected,
        file_len,
    }))
}

fn too_short(kind: FileKind, head: &[u8], len: u64) -> ContainerError {
    kind.error(ContainerErrorKind::TooShort {
        len,
        needed: file_len(HEAD_LEN),
        head: Bytes::first_of(head),
    })
}

/// The stated length of the header, if there is one.
fn header_len(kind: FileKind, head: &[u8]) -> Result<Option<u32>, ContainerError> {
    if head.len() < HEAD_LEN {
        return Err(too_short(kind, head, file_len(head.len())));
    }
    if head.get(8..12) != Some(&kind.magic()) {
        return Ok(None);
    }
    let found = le_u32(head, 12);
    let needed = kind.min_header_len();
    if found < needed {
        return Err(kind.error(ContainerErrorKind::HeaderLength { found, needed }));
    }
    Ok(Some(found))
}

fn le_u32(head: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(head, at))
}

fn le_u64(head: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(head, at))
}

/// Callers have checked that `head` has [`HEAD_LEN`] bytes, and read below that.
fn array<const N: usize>(head: &[u8], at: usize) -> [u8; N] {
    head.get(at..)
        .and_then(|tail| tail.first_chunk())
        .copied()
        .expect("inside of the head")
}

#[cfg(test)]
mod tests;
