//! Where the parts of a file lie, believed only after the sums are checked.

use core::ops::Range;

use super::{
    ContainerError, ContainerErrorKind, FileKind, HEADER_START, PtdHeader, PteHeader,
    check_identifier, hex,
};
use crate::number::file_len;

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
    /// The layout of a program, from its first [`HEAD_LEN`](super::HEAD_LEN) bytes and its total length.
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

    /// The layout of a tensor data file, from its first [`HEAD_LEN`](super::HEAD_LEN) bytes and its total length.
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
