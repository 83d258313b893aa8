//! The bytes around the FlatBuffer: identifiers, extended headers, and where segments may lie.

use core::fmt;
use core::ops::Range;

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

/// Where the parts of one file lie, checked against the file's length.
///
/// All positions are bytes from the start of the file. Whatever a `Layout` returns lies inside of
/// the file, and segments never reach into the FlatBuffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    header: Header,
    file_len: u64,
    flatbuffer_len: u64,
    segments: Option<Range<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    BareProgram,
    Program(PteHeader),
    FlatTensor(PtdHeader),
}

impl Layout {
    /// The layout of a program, from its first [`HEAD_LEN`] bytes and its total length.
    ///
    /// # Errors
    /// The identifier is not the program's, the header is damaged, or the sizes in it wrap, overlap
    /// or leave the file. Whatever was seen is in the error.
    pub fn program(head: &[u8], file_len: u64) -> Result<Self, ContainerError> {
        check_identifier(FileKind::Program, head, file_len)?;
        let Some(header) = PteHeader::parse(head)? else {
            return Ok(Self {
                header: Header::BareProgram,
                file_len,
                flatbuffer_len: file_len,
                segments: None,
            });
        };
        let parts = Parts {
            kind: FileKind::Program,
            file_len,
            header_len: header.header_len,
            flatbuffer_len: header.program_size,
        };
        let segments = parts.segments(header.segment_base_offset, header.segment_data_size)?;
        Ok(Self {
            header: Header::Program(header),
            file_len,
            flatbuffer_len: header.program_size,
            segments,
        })
    }

    /// The layout of a tensor data file, from its first [`HEAD_LEN`] bytes and its total length.
    ///
    /// # Errors
    /// As for [`program`](Self::program), and if there is no header.
    pub fn flat_tensor(head: &[u8], file_len: u64) -> Result<Self, ContainerError> {
        let kind = FileKind::FlatTensor;
        check_identifier(kind, head, file_len)?;
        let header = PtdHeader::parse(head)?.ok_or_else(|| {
            kind.error(ContainerErrorKind::NoHeader {
                found: hex(head.get(8..12)),
            })
        })?;
        let flatbuffer_len = header
            .flatbuffer_offset
            .checked_add(header.flatbuffer_size)
            .ok_or_else(|| {
                kind.error(ContainerErrorKind::Wraps {
                    field: "flatbuffer_offset + flatbuffer_size",
                    offset: header.flatbuffer_offset,
                    size: header.flatbuffer_size,
                })
            })?;
        let parts = Parts {
            kind,
            file_len,
            header_len: header.header_len,
            flatbuffer_len,
        };
        let segments =
            parts.segments(header.segment_base_offset, Some(header.segment_data_size))?;
        Ok(Self {
            header: Header::FlatTensor(header),
            file_len,
            flatbuffer_len,
            segments,
        })
    }

    /// The layout of a file of either format, chosen by the identifier.
    ///
    /// # Errors
    /// As for [`program`](Self::program), which also answers for unknown identifiers.
    pub fn detect(head: &[u8], file_len: u64) -> Result<Self, ContainerError> {
        match FileKind::detect(head) {
            Some(FileKind::FlatTensor) => Self::flat_tensor(head, file_len),
            _ => Self::program(head, file_len),
        }
    }

    /// The format of the file.
    pub fn kind(&self) -> FileKind {
        match self.header {
            Header::BareProgram | Header::Program(_) => FileKind::Program,
            Header::FlatTensor(_) => FileKind::FlatTensor,
        }
    }

    /// The extended header, if the file is a program that has one.
    pub fn pte_header(&self) -> Option<&PteHeader> {
        match &self.header {
            Header::Program(header) => Some(header),
            Header::BareProgram | Header::FlatTensor(_) => None,
        }
    }

    /// The header, if the file is a tensor data file.
    pub fn ptd_header(&self) -> Option<&PtdHeader> {
        match &self.header {
            Header::FlatTensor(header) => Some(header),
            Header::BareProgram | Header::Program(_) => None,
        }
    }

    /// Total length of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// The bytes that hold the FlatBuffer. They start at 0 and include the header.
    pub fn flatbuffer_range(&self) -> Range<u64> {
        0..self.flatbuffer_len
    }

    /// The bytes that segments lie in; `None` if the file says that it has none.
    pub fn segment_region(&self) -> Option<Range<u64>> {
        self.segments.clone()
    }

    /// Where the segment with this offset and size (as the segment table has them) lies in the file.
    ///
    /// # Errors
    /// [`ContainerErrorKind::Wraps`] or [`ContainerErrorKind::SegmentOutside`]. A segment of 0 bytes
    /// needs no region; any other does.
    pub fn locate(&self, offset: u64, size: u64) -> Result<Range<u64>, ContainerError> {
        let kind = self.kind();
        let region = match &self.segments {
            Some(region) => region.clone(),
            None if size == 0 => return Ok(0..0),
            None => 0..0,
        };
        let end = offset.checked_add(size).ok_or_else(|| {
            kind.error(ContainerErrorKind::Wraps {
                field: "offset + size",
                offset,
                size,
            })
        })?;
        let available = region.end.saturating_sub(region.start);
        if end > available {
            return Err(kind.error(ContainerErrorKind::SegmentOutside {
                offset,
                size,
                available,
            }));
        }
        // Both sums are at most `region.end`, which is a position in the file.
        Ok(region.start.saturating_add(offset)..region.start.saturating_add(end))
    }
}

/// What a header said, before it is believed.
struct Parts {
    kind: FileKind,
    file_len: u64,
    header_len: u32,
    flatbuffer_len: u64,
}

impl Parts {
    fn segments(
        &self,
        base: u64,
        data_size: Option<u64>,
    ) -> Result<Option<Range<u64>>, ContainerError> {
        let kind = self.kind;
        if self.flatbuffer_len > self.file_len {
            return Err(self.beyond_file("the flatbuffer", self.flatbuffer_len));
        }
        let header_end = u64::from(self.header_len).saturating_add(file_len(HEADER_START));
        if header_end > self.flatbuffer_len {
            return Err(kind.error(ContainerErrorKind::HeaderBeyondFlatbuffer {
                header_len: self.header_len,
                flatbuffer_len: self.flatbuffer_len,
            }));
        }
        if base == 0 {
            let size = data_size.unwrap_or(0);
            return match size {
                0 => Ok(None),
                _ => Err(kind.error(ContainerErrorKind::SegmentsWithoutBase { size })),
            };
        }
        if base < self.flatbuffer_len {
            return Err(kind.error(ContainerErrorKind::BaseInsideFlatbuffer {
                base,
                flatbuffer_len: self.flatbuffer_len,
            }));
        }
        let end = match data_size {
            Some(size) => base.checked_add(size).ok_or_else(|| {
                kind.error(ContainerErrorKind::Wraps {
                    field: "segment_base_offset + segment_data_size",
                    offset: base,
                    size,
                })
            })?,
            None => self.file_len.max(base),
        };
        if end > self.file_len {
            return Err(self.beyond_file("the segment data", end));
        }
        Ok(Some(base..end))
    }

    fn beyond_file(&self, what: &'static str, end: u64) -> ContainerError {
        self.kind.error(ContainerErrorKind::BeyondFile {
            what,
            end,
            file_len: self.file_len,
        })
    }
}

/// The bytes around the FlatBuffer are not those of the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {file} file: {kind}")]
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
    fn error(self, kind: ContainerErrorKind) -> ContainerError {
        ContainerError { file: self, kind }
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
