//! The program around the methods, and its segments.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::MethodBuilder;
use crate::number::file_len;
use crate::owned::{
    BackendDelegateDataReference, BackendDelegateInlineData, Buffer, DataLocation, NamedData,
    Program, SubsegmentOffsets,
};
use crate::write::{WriteError, WriteOptions, lay_out, write_program};

/// Builds a program. Segment 0 is for constants, as exporters have it.
#[derive(Debug, Clone)]
pub struct ProgramBuilder {
    program: Program,
    segments: Vec<Vec<u8>>,
    segment_alignment: u32,
    constant_alignment: u32,
}

impl Default for ProgramBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ProgramBuilder {
    /// A program without methods.
    pub fn new() -> Self {
        let constants = SubsegmentOffsets {
            segment_index: 0,
            offsets: vec![0],
        };
        Self {
            program: Program {
                constant_segment: Some(constants),
                ..Program::default()
            },
            segments: vec![Vec::new()],
            segment_alignment: WriteOptions::DEFAULT_ALIGNMENT,
            constant_alignment: 16,
        }
    }

    /// Aligns segments to this many bytes; 128 if never called.
    pub fn segment_alignment(&mut self, nbytes: u32) -> &mut Self {
        self.segment_alignment = nbytes;
        self
    }

    /// Aligns each constant that is added from now on to this many bytes in the file; 16 if never
    /// called.
    pub fn constant_alignment(&mut self, nbytes: u32) -> &mut Self {
        self.constant_alignment = nbytes;
        self
    }

    /// Adds a method.
    pub fn method(&mut self, method: MethodBuilder) -> &mut Self {
        self.program.execution_plan.push(method.finish());
        self
    }

    /// Adds a constant to segment 0 and returns its `data_buffer_idx`.
    ///
    /// # Panics
    /// If the program's list of constants was replaced by one that names a segment which is not there.
    pub fn constant(&mut self, bytes: &[u8]) -> u32 {
        let list = self.program.constant_segment.get_or_insert_default();
        append(&mut self.segments, list, bytes, self.constant_alignment)
    }

    /// Adds a constant inside of the FlatBuffer, as old files have them, and returns its
    /// `data_buffer_idx`. A program has constants of one form only.
    pub fn inline_constant(&mut self, bytes: &[u8]) -> u32 {
        self.program.constant_segment = None;
        if self.program.constant_buffer.is_empty() {
            self.program.constant_buffer.push(Buffer::default());
        }
        self.program.constant_buffer.push(Buffer {
            storage: bytes.to_vec(),
        });
        index(self.program.constant_buffer.len().saturating_sub(1))
    }

    /// Adds initial data for a planned tensor, to a segment of its own kind, and returns its
    /// `data_buffer_idx`.
    ///
    /// # Panics
    /// If the program's list of initial data was replaced by one that names a segment which is not there.
    pub fn initial_data(&mut self, bytes: &[u8]) -> u32 {
        let lists = self.program.mutable_data_segments.get_or_insert_default();
        if lists.is_empty() {
            let segment_index = index(self.segments.len());
            self.segments.push(Vec::new());
            lists.push(SubsegmentOffsets {
                segment_index,
                offsets: vec![0],
            });
        }
        let list = lists.first_mut().expect("made above");
        append(&mut self.segments, list, bytes, 1)
    }

    /// Adds a segment and returns its index.
    pub fn segment(&mut self, bytes: &[u8]) -> u32 {
        self.segments.push(bytes.to_vec());
        index(self.segments.len().saturating_sub(1))
    }

    /// Adds a delegate's data as a segment.
    pub fn delegate_data(&mut self, bytes: &[u8]) -> BackendDelegateDataReference {
        let index = self.segment(bytes);
        BackendDelegateDataReference {
            location: DataLocation::Segment,
            index,
        }
    }

    /// Adds a delegate's data inside of the FlatBuffer.
    pub fn inline_delegate_data(&mut self, bytes: &[u8]) -> BackendDelegateDataReference {
        let list = &mut self.program.backend_delegate_data;
        list.push(BackendDelegateInlineData {
            data: bytes.to_vec(),
        });
        let index = index(list.len().saturating_sub(1));
        BackendDelegateDataReference {
            location: DataLocation::Inline,
            index,
        }
    }

    /// Adds named data as a segment of its own.
    pub fn named_data(&mut self, key: &str, bytes: &[u8]) -> &mut Self {
        let segment_index = self.segment(bytes);
        let entry = NamedData {
            key: key.to_string(),
            segment_index,
        };
        self.program.named_data.get_or_insert_default().push(entry);
        self
    }

    /// The program as it is, to be changed at will. The segment table is made by
    /// [`build`](Self::build), which replaces whatever is there.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// The finished program with its segments.
    ///
    /// # Errors
    /// [`WriteError::Alignment`] for an alignment that is not a power of two.
    pub fn build(self) -> Result<ProgramFile, WriteError> {
        let constants = self
            .program
            .constant_segment
            .as_ref()
            .map(|list| list.segment_index);
        let sizes: Vec<_> = (0u32..)
            .zip(&self.segments)
            .map(|(index, bytes)| {
                let own = if Some(index) == constants {
                    self.constant_alignment
                } else {
                    1
                };
                (file_len(bytes.len()), own)
            })
            .collect();
        let (table, options) = lay_out(&sizes, self.segment_alignment)?;
        let mut program = self.program;
        program.segments = table;
        Ok(ProgramFile {
            program,
            segments: self.segments,
            options,
        })
    }

    /// The bytes of the finished file.
    ///
    /// # Errors
    /// What the format cannot hold.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        self.clone().build()?.to_bytes()
    }
}

/// A program with its segments in memory, as [`ProgramBuilder::build`] gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramFile {
    /// The program, segment table included.
    pub program: Program,
    /// The bytes of its segments.
    pub segments: Vec<Vec<u8>>,
    /// How it is laid out.
    pub options: WriteOptions,
}

impl ProgramFile {
    /// The bytes of the file.
    ///
    /// # Errors
    /// What the format cannot hold.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        let mut file = Vec::new();
        write_program(
            &self.program,
            self.segments.as_slice(),
            &self.options,
            &mut file,
        )?;
        Ok(file)
    }
}

/// Adds bytes to a segment and their offset to a list of offsets.
fn append(
    segments: &mut [Vec<u8>],
    list: &mut SubsegmentOffsets,
    bytes: &[u8],
    alignment: u32,
) -> u32 {
    if list.offsets.is_empty() {
        list.offsets.push(0);
    }
    let segment = segments
        .get_mut(crate::number::mem_index(list.segment_index))
        .expect("lists of offsets name segments that were made with them");
    let alignment = crate::number::mem_index(alignment).max(1);
    let start = segment
        .len()
        .checked_next_multiple_of(alignment)
        .unwrap_or(segment.len());
    segment.resize(start, 0);
    segment.extend_from_slice(bytes);
    list.offsets.push(file_len(start));
    index(list.offsets.len().saturating_sub(1))
}

fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
