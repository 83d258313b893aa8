//! What cannot be done with a tensor.

use et_device::{Device, DeviceError};
use et_memory::MemoryError;

use crate::{ScalarType, ShapeError, TensorMeta};

/// Something that cannot be done with a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The shape cannot be.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Host memory ran out.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Host access to device memory.
    #[error("the tensor is on {device}; copy it to the host first")]
    OnDevice {
        /// The device.
        device: Device,
    },
    /// The tensor has no memory.
    #[error("the tensor has no memory")]
    NoMemory,
    /// A copy on a device would read and write the same bytes.
    #[error("cannot copy between parts of one device buffer that overlap")]
    Overlap,
    /// The bytes are a constant's.
    #[error("the tensor's bytes are shared and can only be read")]
    ReadOnly,
    /// Another element type was asked for.
    #[error("the elements are {found}, not {expected}")]
    Dtype {
        /// The type asked for.
        expected: ScalarType,
        /// The tensor's.
        found: ScalarType,
    },
    /// A different number of bytes.
    #[error("the tensor has {expected} bytes, and {found} were given")]
    Length {
        /// The tensor's.
        expected: usize,
        /// Those given.
        found: usize,
    },
    /// The address does not suit the element type.
    #[error("the tensor's address is not aligned for its elements")]
    Misaligned,
    /// A copy between tensors of different description.
    #[error("cannot copy {from:?} to {to:?}")]
    Unlike {
        /// The source.
        from: Box<TensorMeta>,
        /// The target.
        to: Box<TensorMeta>,
    },
}

impl TensorError {
    /// A stable identifier for programs to match on: that of the innermost error.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Shape(_) => "tensor.shape",
            Self::Memory(error) => error.id(),
            Self::Device(error) => error.id(),
            Self::OnDevice { .. } => "tensor.on-device",
            Self::NoMemory => "tensor.no-memory",
            Self::Overlap => "tensor.overlap",
            Self::ReadOnly => "tensor.read-only",
            Self::Dtype { .. } => "tensor.dtype",
            Self::Length { .. } => "tensor.length",
            Self::Misaligned => "tensor.misaligned",
            Self::Unlike { .. } => "tensor.unlike",
        }
    }

    /// The numeric code that the C++ runtime uses for this kind of failure.
    pub fn code(&self) -> u32 {
        match self {
            Self::Memory(error) => error.code(),
            Self::Device(error) => error.code(),
            Self::NoMemory => 0x02,
            Self::Shape(_)
            | Self::OnDevice { .. }
            | Self::Overlap
            | Self::ReadOnly
            | Self::Dtype { .. }
            | Self::Length { .. }
            | Self::Misaligned
            | Self::Unlike { .. } => 0x12,
        }
    }
}
