//! What is in a file, in a form for people and programs to read.
//!
//! Summaries are made from files that are merely well-formed, so that a file can be looked into that
//! is refused for running; what is absent or unknown then shows as such. With the feature `serde`
//! they serialise to the JSON of `et inspect --json`.

mod data;
mod method;
mod room;
mod value;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use data::{ConstantSummary, SegmentSummary};
pub use method::{
    BufferDeviceSummary, CompileSpecSummary, DelegateSummary, KindCounts, MethodSummary,
    ProcessedSummary,
};
pub use value::{
    AllocationSummary, DeviceName, DeviceSummary, ScalarSummary, TensorSummary, ValueSummary,
};

use self::room::Room;
use crate::container::{Bytes, FileKind, PteHeader};
use crate::flat_tensor::{ParsedFlatTensor, TensorLayoutView};
use crate::owned::{NamedData, SubsegmentOffsets};
use crate::program::ParsedProgram;
use crate::view::SubsegmentView;

/// What is in a program.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ProgramSummary {
    /// The four bytes that say which format and version this is.
    pub file_identifier: String,
    /// The header, if the file has segments.
    pub extended_header: Option<HeaderSummary>,
    /// The schema version; 0.
    pub schema_version: u32,
    /// The segment table.
    pub segments: Vec<SegmentSummary>,
    /// Where constants begin.
    pub constant_segment: Option<SubsegmentOffsets>,
    /// The constants that tensors use, by index. Extends the recorded metadata, as do the positions
    /// and alignments of segments.
    pub constants: Vec<ConstantSummary>,
    /// Constants inside of the FlatBuffer, entry 0 included.
    pub num_inline_constant_buffers: usize,
    /// Where initial data begins.
    pub mutable_data_segments: Option<Vec<SubsegmentOffsets>>,
    /// Names for segments.
    pub named_data: Option<Vec<NamedData>>,
    /// Delegate blobs inside of the FlatBuffer.
    pub num_inline_delegate_data: usize,
    /// The methods.
    pub methods: Vec<MethodSummary>,
}

impl ProgramSummary {
    /// The summary of a program.
    pub fn new(program: &ParsedProgram) -> Self {
        let root = program.root();
        let mut room = Room::of_file(program.flatbuffer().len());
        Self {
            file_identifier: identifier(program.flatbuffer()),
            extended_header: program.layout().pte_header().map(HeaderSummary::new),
            schema_version: root.version(),
            segments: root
                .segments()
                .map(|it| SegmentSummary::new(root.layout(), it))
                .collect(),
            constant_segment: root.constant_segment().map(subsegment),
            constants: data::constants(root, program.flatbuffer()),
            num_inline_constant_buffers: root.inline_constants().len(),
            mutable_data_segments: root
                .table()
                .mutable_data_segments()
                .is_some()
                .then(|| root.mutable_data().map(subsegment).collect()),
            named_data: root.has_named_data().then(|| {
                root.named_data()
                    .map(|entry| NamedData {
                        key: entry.key.to_string(),
                        segment_index: entry.segment_index,
                    })
                    .collect()
            }),
            num_inline_delegate_data: root.num_inline_delegate_data(),
            methods: root
                .plans()
                .map(|plan| MethodSummary::new(root, plan, &mut room))
                .collect(),
        }
    }
}

/// The extended header of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HeaderSummary {
    /// The four bytes that it starts with.
    pub magic: String,
    /// Its length in bytes.
    pub length: u32,
    /// Bytes to the end of the FlatBuffer.
    pub program_size: u64,
    /// Where segments begin.
    pub segment_base_offset: u64,
    /// Bytes of segment data; absent in old headers.
    pub segment_data_size: Option<u64>,
}

impl HeaderSummary {
    fn new(header: &PteHeader) -> Self {
        Self {
            magic: PteHeader::MAGIC.escape_ascii().to_string(),
            length: header.header_len,
            program_size: header.program_size,
            segment_base_offset: header.segment_base_offset,
            segment_data_size: header.segment_data_size,
        }
    }
}

/// What is in a tensor data file.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FlatTensorSummary {
    /// The four bytes that say which format and version this is.
    pub file_identifier: String,
    /// The schema version; 0.
    pub schema_version: u32,
    /// Where segments begin.
    pub segment_base_offset: u64,
    /// Bytes of segment data.
    pub segment_data_size: u64,
    /// The segment table.
    pub segments: Vec<SegmentSummary>,
    /// The named blobs.
    pub named_data: Vec<NamedTensorSummary>,
}

impl FlatTensorSummary {
    /// The summary of a tensor data file.
    pub fn new(file: &ParsedFlatTensor) -> Self {
        let root = file.root();
        let header = file.layout().ptd_header();
        Self {
            file_identifier: FileKind::FlatTensor.identifier().escape_ascii().to_string(),
            schema_version: root.version(),
            segment_base_offset: header.map_or(0, |header| header.segment_base_offset),
            segment_data_size: header.map_or(0, |header| header.segment_data_size),
            segments: root
                .segments()
                .map(|it| SegmentSummary::new(root.layout(), it))
                .collect(),
            named_data: root
                .entries()
                .map(|entry| NamedTensorSummary {
                    key: entry.key.to_string(),
                    segment_index: entry.segment_index,
                    nbytes: root
                        .segment(entry.segment_index)
                        .map(|segment| segment.size),
                    tensor_layout: entry.layout.map(TensorLayoutSummary::new),
                })
                .collect(),
        }
    }
}

/// A named blob.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NamedTensorSummary {
    /// The name.
    pub key: String,
    /// Index into the segment table.
    pub segment_index: u32,
    /// Bytes of the segment; absent without such a segment.
    pub nbytes: Option<u64>,
    /// What the bytes mean, if they are a tensor.
    pub tensor_layout: Option<TensorLayoutSummary>,
}

/// The layout of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TensorLayoutSummary {
    /// Name of the element type.
    pub scalar_type: String,
    /// Length of each dimension.
    pub sizes: Vec<i32>,
    /// The dimensions from the slowest in memory to the fastest.
    pub dim_order: Vec<u8>,
    /// Bytes of all elements; absent if they cannot be counted.
    pub nbytes: Option<u64>,
}

impl TensorLayoutSummary {
    fn new(layout: TensorLayoutView<'_>) -> Self {
        Self {
            scalar_type: value::scalar_type_name(layout.scalar_type(), layout.scalar_type_code()),
            sizes: layout.sizes().iter().collect(),
            dim_order: layout.dim_order().to_vec(),
            nbytes: layout.nbytes(),
        }
    }
}

fn identifier(flatbuffer: &[u8]) -> String {
    let bytes = Bytes::first_of(flatbuffer.get(4..8).unwrap_or_default());
    bytes.as_slice().escape_ascii().to_string()
}

fn subsegment(view: SubsegmentView<'_>) -> SubsegmentOffsets {
    SubsegmentOffsets {
        segment_index: view.segment_index(),
        offsets: view.offsets().iter().collect(),
    }
}
