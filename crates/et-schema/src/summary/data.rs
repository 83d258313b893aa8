//! Segments and constants: where their bytes are.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::value::scalar_type_name;
use crate::container::Layout;
use crate::number::file_len;
use crate::view::{ConstantView, ProgramView, SegmentView, TensorLocation, TensorView};

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SegmentSummary {
    /// Bytes from the segment base.
    pub offset: u64,
    /// Bytes of data.
    pub size: u64,
    /// Bytes from the start of the file; absent for a segment without bytes or outside of the file.
    pub position: Option<u64>,
    /// The largest power of two that divides the position.
    pub alignment: Option<u64>,
}

impl SegmentSummary {
    pub(super) fn new(layout: &Layout, view: SegmentView) -> Self {
        let SegmentView { offset, size } = view;
        let range = layout
            .locate(offset, size)
            .ok()
            .filter(|range| !range.is_empty());
        let position = range.map(|range| range.start);
        Self {
            offset,
            size,
            position,
            alignment: position.and_then(alignment),
        }
    }
}

/// A constant in the program's own file, as the first tensor that uses it describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ConstantSummary {
    /// Which constant.
    pub data_buffer_idx: u32,
    /// The name of the parameter or buffer of the model.
    pub fqn: Option<String>,
    /// Name of the element type; its number if it has none.
    pub scalar_type: String,
    /// Length of each dimension.
    pub sizes: Vec<i32>,
    /// Bytes of all elements; absent if they cannot be counted.
    pub nbytes: Option<u64>,
    /// Bytes from the start of the file; absent where they are not in the file.
    pub position: Option<u64>,
    /// The largest power of two that divides the position.
    pub alignment: Option<u64>,
    /// How many tensors use it, in all methods.
    pub num_tensors: u64,
}

impl ConstantSummary {
    fn new(program: ProgramView<'_>, flatbuffer: &[u8], tensor: TensorView<'_>) -> Self {
        let index = tensor.data_buffer_idx();
        let position = match program.constant(index) {
            Some(ConstantView::Segment {
                segment, offset, ..
            }) => {
                let range = program.segment_range(segment).and_then(Result::ok);
                range.and_then(|range| range.start.checked_add(offset))
            }
            Some(ConstantView::Inline(bytes)) => {
                let start = bytes
                    .as_ptr()
                    .addr()
                    .checked_sub(flatbuffer.as_ptr().addr());
                start.map(file_len)
            }
            None => None,
        };
        Self {
            data_buffer_idx: index,
            fqn: tensor.fully_qualified_name().map(str::to_string),
            scalar_type: scalar_type_name(tensor.scalar_type(), tensor.scalar_type_code()),
            sizes: tensor.sizes().iter().collect(),
            nbytes: tensor.nbytes(),
            position,
            alignment: position.and_then(alignment),
            num_tensors: 0,
        }
    }
}

/// The constants that tensors use, by index.
pub(super) fn constants(program: ProgramView<'_>, flatbuffer: &[u8]) -> Vec<ConstantSummary> {
    let mut constants = BTreeMap::new();
    for value in program.plans().flat_map(|plan| plan.values()) {
        let Some(tensor) = value.as_tensor() else {
            continue;
        };
        if !tensor.is_constant() || tensor.location() != TensorLocation::Segment {
            continue;
        }
        let constant = constants
            .entry(tensor.data_buffer_idx())
            .or_insert_with(|| ConstantSummary::new(program, flatbuffer, tensor));
        constant.num_tensors = constant.num_tensors.saturating_add(1);
    }
    constants.into_values().collect()
}

/// The largest power of two that divides a position; none for 0, which all divide.
fn alignment(position: u64) -> Option<u64> {
    1u64.checked_shl(position.trailing_zeros())
}
