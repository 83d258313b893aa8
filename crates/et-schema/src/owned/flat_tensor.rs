//! Tensor data files.

use alloc::string::String;
use alloc::vec::Vec;

use super::DataSegment;
use crate::scalar_type::ScalarType;

/// A whole tensor data file, but for the bytes of its segments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlatTensor {
    /// The schema version; 0.
    pub version: u32,
    /// Where segments lie, relative to the segment base.
    pub segments: Vec<DataSegment>,
    /// The named blobs.
    pub named_data: Vec<NamedTensor>,
}

/// A named blob.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NamedTensor {
    /// The name.
    pub key: String,
    /// Index into [`FlatTensor::segments`].
    pub segment_index: u32,
    /// What the bytes mean, if they are a tensor.
    pub tensor_layout: Option<TensorLayout>,
}

/// The layout of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TensorLayout {
    /// Type of the elements.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::scalar_type"))]
    pub scalar_type: ScalarType,
    /// Length of each dimension, in logical order.
    pub sizes: Vec<i32>,
    /// The dimensions from the slowest in memory to the fastest.
    pub dim_order: Vec<u8>,
}
