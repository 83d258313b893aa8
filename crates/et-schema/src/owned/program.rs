//! The program as a whole.

use alloc::string::String;
use alloc::vec::Vec;

use super::ExecutionPlan;

/// A whole program.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Program {
    /// The schema version; 0.
    pub version: u32,
    /// The methods.
    pub execution_plan: Vec<ExecutionPlan>,
    /// Constants inside of the FlatBuffer, as old files have them. Entry 0 stands for "none".
    pub constant_buffer: Vec<Buffer>,
    /// Delegate blobs inside of the FlatBuffer.
    pub backend_delegate_data: Vec<BackendDelegateInlineData>,
    /// Where segments lie, relative to the segment base.
    pub segments: Vec<DataSegment>,
    /// Where constants begin.
    pub constant_segment: Option<SubsegmentOffsets>,
    /// Where the initial data of planned tensors begins.
    pub mutable_data_segments: Option<Vec<SubsegmentOffsets>>,
    /// Names for segments.
    pub named_data: Option<Vec<NamedData>>,
}

/// A constant inside of the FlatBuffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Buffer {
    /// Its bytes.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::blob"))]
    pub storage: Vec<u8>,
}

/// A delegate blob inside of the FlatBuffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BackendDelegateInlineData {
    /// Its bytes.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::blob"))]
    pub data: Vec<u8>,
}

/// The place of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DataSegment {
    /// Bytes from the segment base of the file.
    pub offset: u64,
    /// Bytes of data.
    pub size: u64,
}

/// Where tensors begin inside of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SubsegmentOffsets {
    /// Index into [`Program::segments`].
    pub segment_index: u32,
    /// Bytes from the start of the segment. Entry 0 stands for "none".
    pub offsets: Vec<u64>,
}

/// A name for the bytes of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NamedData {
    /// The name.
    pub key: String,
    /// Index into [`Program::segments`].
    pub segment_index: u32,
}
