//! Values of a method.

use alloc::string::String;
use alloc::vec::Vec;

use crate::device_tag::DeviceTag;
use crate::scalar_type::ScalarType;
use crate::view::{Dynamism, TensorLocation};

/// A value of a method.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// A number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A number.
    Double(f64),
    /// A tensor.
    Tensor(Tensor),
    /// A text.
    String(String),
    /// Indices of `Int` values.
    IntList(Vec<i64>),
    /// Numbers.
    DoubleList(Vec<f64>),
    /// Truth values.
    BoolList(Vec<bool>),
    /// Indices of `Tensor` values.
    TensorList(Vec<i32>),
    /// Indices of `Tensor` or `Null` values, or −1 for none.
    OptionalTensorList(Vec<i32>),
}

impl Value {
    /// The tensor, if this is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The tensor, if this is one.
    pub fn as_tensor_mut(&mut self) -> Option<&mut Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Tensor {
    /// Type of the elements.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::scalar_type"))]
    pub scalar_type: ScalarType,
    /// Elements before the first one; 0.
    pub storage_offset: i32,
    /// Length of each dimension, in logical order; upper bounds if the shape is dynamic.
    pub sizes: Vec<i32>,
    /// The dimensions from the slowest in memory to the fastest.
    pub dim_order: Vec<u8>,
    /// True if the exporter wanted gradients.
    pub requires_grad: bool,
    /// Which constant or initial data; 0 means none.
    pub data_buffer_idx: u32,
    /// Where it lies in planned memory.
    pub allocation_info: Option<AllocationDetails>,
    /// A number that exporters leave 0.
    pub layout: i8,
    /// How the shape may change.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::dynamism"))]
    pub shape_dynamism: Dynamism,
    /// What only a few tensors have.
    pub extra_tensor_info: Option<ExtraTensorInfo>,
}

impl Tensor {
    /// A contiguous tensor that is nowhere yet: not planned, no data, static, on the CPU.
    #[must_use]
    pub fn new(scalar_type: ScalarType, sizes: &[i32]) -> Self {
        Self {
            scalar_type,
            storage_offset: 0,
            sizes: sizes.to_vec(),
            dim_order: (0..=u8::MAX).take(sizes.len()).collect(),
            requires_grad: false,
            data_buffer_idx: 0,
            allocation_info: None,
            layout: 0,
            shape_dynamism: Dynamism::Static,
            extra_tensor_info: None,
        }
    }

    /// The same tensor in planned memory.
    #[must_use]
    pub fn planned(mut self, memory_id: u32, memory_offset: u64) -> Self {
        self.allocation_info = Some(AllocationDetails {
            memory_id,
            memory_offset,
        });
        self
    }

    /// The same tensor with data: a constant if it is not planned, else initial data.
    #[must_use]
    pub fn with_data(mut self, data_buffer_idx: u32) -> Self {
        self.data_buffer_idx = data_buffer_idx;
        self
    }

    /// The same tensor on a device, by the format's numbers of type and index.
    #[must_use]
    pub fn on_device(mut self, device_type: i8, device_index: i8) -> Self {
        self.set_device(DeviceTag::new(device_type, device_index));
        self
    }

    /// The same tensor with a shape that may change.
    #[must_use]
    pub fn dynamic(mut self, dynamism: Dynamism) -> Self {
        self.shape_dynamism = dynamism;
        self
    }

    /// The same tensor with the name of a parameter or buffer of the model.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.extra_tensor_info
            .get_or_insert_default()
            .fully_qualified_name = Some(name.into());
        self
    }

    /// The same tensor with its data in a tensor data file, under this name.
    #[must_use]
    pub fn external(self, name: &str) -> Self {
        let mut tensor = self.named(name);
        tensor.extra_tensor_info.get_or_insert_default().location = TensorLocation::External;
        tensor
    }

    /// Bytes of all elements (upper bound if dynamic); `None` if a size is negative or the product
    /// does not fit 63 bits.
    pub fn nbytes(&self) -> Option<u64> {
        crate::view::checked_nbytes(self.sizes.iter().copied(), self.scalar_type)
    }

    /// Its device.
    pub fn device(&self) -> DeviceTag {
        self.extra_tensor_info
            .as_ref()
            .map_or(DeviceTag::CPU, |extra| {
                DeviceTag::new(extra.device_type, extra.device_index)
            })
    }

    /// Puts it on a device.
    ///
    /// The table of rare properties is made where it is needed, and kept where it was there.
    pub fn set_device(&mut self, device: DeviceTag) {
        if self.extra_tensor_info.is_none() && device == DeviceTag::CPU {
            return;
        }
        let extra = self.extra_tensor_info.get_or_insert_default();
        extra.device_type = device.device_type;
        extra.device_index = device.device_index;
    }
}

/// Where a value lies in planned memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AllocationDetails {
    /// Index into [`ExecutionPlan::non_const_buffer_sizes`](super::ExecutionPlan::non_const_buffer_sizes).
    pub memory_id: u32,
    /// Bytes from the start of that buffer. The file holds it in two halves.
    pub memory_offset: u64,
}

impl AllocationDetails {
    /// The lower and the upper half of the offset, as the file holds them.
    pub fn halves(&self) -> [u32; 2] {
        let [b0, b1, b2, b3, b4, b5, b6, b7] = self.memory_offset.to_le_bytes();
        [
            u32::from_le_bytes([b0, b1, b2, b3]),
            u32::from_le_bytes([b4, b5, b6, b7]),
        ]
    }
}

/// What only a few tensors have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExtraTensorInfo {
    /// Which list of [`Program::mutable_data_segments`](super::Program::mutable_data_segments).
    pub mutable_data_segments_idx: u64,
    /// The name of a parameter or buffer of the model.
    pub fully_qualified_name: Option<String>,
    /// Whose file holds the data.
    #[cfg_attr(
        feature = "serde",
        serde(serialize_with = "crate::json::tensor_location")
    )]
    pub location: TensorLocation,
    /// The format's number of the device type: 0 CPU, 1 CUDA.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::device_type"))]
    pub device_type: i8,
    /// Which device of that type.
    pub device_index: i8,
}
