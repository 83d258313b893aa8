//! What cannot be done with a value table.

use et_device::DeviceError;

use crate::{TensorError, ValueIndex};

/// Something that cannot be done with a value table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There is no such value.
    #[error("there is no value {index}")]
    NoSuchValue {
        /// The index.
        index: ValueIndex,
    },
    /// The value is not a tensor.
    #[error("value {index} is not a tensor")]
    NotATensor {
        /// The index.
        index: ValueIndex,
    },
    /// A tensor cannot be replaced.
    #[error("value {index} is a tensor, which cannot be replaced")]
    IsATensor {
        /// The index.
        index: ValueIndex,
    },
    /// The tensor's memory is planned.
    #[error("value {index} lives in planned memory, which cannot be exchanged")]
    Planned {
        /// The index.
        index: ValueIndex,
    },
    /// Planned memory is in use by another method.
    #[error("the planned memory is in use by another method")]
    Detached,
    /// Planned memory of other buffers.
    #[error("this is not the planned memory that the method was loaded with")]
    WrongMemory,
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// An instruction failed.
    #[error(transparent)]
    Kernel(#[from] crate::KernelError),
}

impl From<DeviceError> for TableError {
    fn from(error: DeviceError) -> Self {
        Self::Tensor(TensorError::Device(error))
    }
}

impl TableError {
    /// A stable identifier for programs to match on: that of the innermost error.
    pub fn id(&self) -> &'static str {
        match self {
            Self::NoSuchValue { .. } => "table.no-such-value",
            Self::NotATensor { .. } => "table.not-a-tensor",
            Self::IsATensor { .. } => "table.is-a-tensor",
            Self::Planned { .. } => "table.planned",
            Self::Detached => "table.detached",
            Self::WrongMemory => "table.wrong-memory",
            Self::Tensor(error) => error.id(),
            Self::Kernel(error) => error.id(),
        }
    }

    /// The numeric code that the C++ runtime uses for this kind of failure.
    pub fn code(&self) -> u32 {
        match self {
            Self::NoSuchValue { .. } | Self::NotATensor { .. } | Self::IsATensor { .. } => 0x12,
            Self::Planned { .. } | Self::Detached | Self::WrongMemory => 0x02,
            Self::Tensor(error) => error.code(),
            Self::Kernel(error) => error.code(),
        }
    }
}
