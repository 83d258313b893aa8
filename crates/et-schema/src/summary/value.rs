//! Values, tensors above all.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::scalar_type::ScalarType;
use crate::view::{TensorView, ValueKind, ValueView, device_type_name};

/// A value, by its index.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ValueSummary {
    /// The value; past the method's values if the file is wrong.
    pub value_index: u32,
    /// Its kind, by the schema's name; `unknown` if there is no such value.
    pub kind: &'static str,
    /// What is known of a tensor.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub tensor: Option<TensorSummary>,
    /// The number, truth value or text, if it is one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub value: Option<ScalarSummary>,
}

impl ValueSummary {
    pub(super) fn new(value_index: u32, view: Option<ValueView<'_>>) -> Self {
        let value = match view {
            Some(ValueView::Int(int)) => Some(ScalarSummary::Int(int)),
            Some(ValueView::Bool(bool)) => Some(ScalarSummary::Bool(bool)),
            Some(ValueView::Double(double)) => Some(ScalarSummary::Double(double)),
            Some(ValueView::Str(text)) => Some(ScalarSummary::String(text.to_string())),
            _ => None,
        };
        Self {
            value_index,
            kind: view.map_or(ValueKind::Unknown, |view| view.kind()).name(),
            tensor: view
                .and_then(|view| view.as_tensor())
                .map(TensorSummary::new),
            value,
        }
    }
}

/// A value that is no tensor and no list.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[cfg_attr(feature = "serde", serde(untagged))]
pub enum ScalarSummary {
    /// A number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A number.
    Double(#[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::number"))] f64),
    /// A text.
    String(String),
}

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TensorSummary {
    /// Name of the element type; its number if it has none.
    pub scalar_type: String,
    /// Length of each dimension; upper bounds if the shape is dynamic.
    pub sizes: Vec<i32>,
    /// The dimensions from the slowest in memory to the fastest.
    pub dim_order: Vec<u8>,
    /// How the shape may change, by the schema's name.
    pub dynamism: &'static str,
    /// Number of elements (upper bound if dynamic); absent if it cannot be counted.
    pub numel: Option<u64>,
    /// Bytes of all elements (upper bound if dynamic); absent if they cannot be counted.
    pub nbytes: Option<u64>,
    /// Which constant or initial data; 0 means none.
    pub data_buffer_idx: u32,
    /// Where it lies in planned memory.
    pub allocation: Option<AllocationSummary>,
    /// Its device.
    pub device: DeviceSummary,
    /// The name of a parameter or buffer of the model.
    pub fqn: Option<String>,
    /// Whose file holds the data, by the schema's name.
    pub location: &'static str,
    /// Whether the file has the table of rare properties for it.
    pub extra_tensor_info_present: bool,
}

impl TensorSummary {
    pub(super) fn new(view: TensorView<'_>) -> Self {
        Self {
            scalar_type: scalar_type_name(view.scalar_type(), view.scalar_type_code()),
            sizes: view.sizes().iter().collect(),
            dim_order: view.dim_order().to_vec(),
            dynamism: view.dynamism().name(),
            numel: view.numel(),
            nbytes: view.nbytes(),
            data_buffer_idx: view.data_buffer_idx(),
            allocation: view.allocation().map(|allocation| AllocationSummary {
                memory_id: allocation.memory_id,
                offset: allocation.offset,
            }),
            device: DeviceSummary {
                device_type: DeviceName(view.device_type()),
                index: view.device_index(),
            },
            fqn: view.fully_qualified_name().map(str::to_string),
            location: view.location().name(),
            extra_tensor_info_present: view.has_extra_info(),
        }
    }
}

/// Where a value lies in planned memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct AllocationSummary {
    /// Which planned buffer.
    pub memory_id: u32,
    /// Bytes from its start.
    pub offset: u64,
}

/// A device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DeviceSummary {
    /// Its type.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub device_type: DeviceName,
    /// Which one of that type.
    pub index: i8,
}

/// The format's number of a device type. Prints as the schema's name where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceName(pub i8);

impl core::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match device_type_name(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "device type {}", self.0),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for DeviceName {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        crate::json::device_type(&self.0, to)
    }
}

pub(super) fn scalar_type_name(known: Option<ScalarType>, code: i8) -> String {
    known.map_or_else(|| code.to_string(), |known| known.name().to_string())
}
