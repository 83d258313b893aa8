//! Why an operator or a delegate failed.

use std::borrow::Cow;
use std::error::Error;

use et_device::{Device, DeviceError};
use et_memory::{ArenaError, MemoryError};

use crate::{ScalarType, ShapeError, TensorError, ValueKind};

/// A failed call of a kernel or a delegate. Which operator and which instruction it was is added by whoever called it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The instruction has a different number of arguments than the operator.
    #[error("the operator takes {expected} arguments, and {found} were given")]
    ArgumentCount {
        /// The operator's.
        expected: usize,
        /// The instruction's.
        found: usize,
    },
    /// An argument is not of the kind the operator takes.
    #[error("argument {argument} is {found}, and the operator takes {expected} there")]
    ArgumentKind {
        /// Position among the arguments, from 0.
        argument: usize,
        /// What the operator takes.
        expected: &'static str,
        /// What was given.
        found: ValueKind,
    },
    /// A tensor's element type is not supported there.
    #[error("{what} has elements {found}; supported: {expected}")]
    Dtype {
        /// Which tensor.
        what: &'static str,
        /// The types that are.
        expected: Cow<'static, str>,
        /// The tensor's.
        found: ScalarType,
    },
    /// Arguments do not fit each other or the operator.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
    /// A CPU operator was given a tensor that is on a device.
    #[error("a tensor on {device} was given to an operator that runs on the CPU")]
    OnDevice {
        /// The device.
        device: Device,
    },
    /// A tensor was used that has no memory.
    #[error(
        "value {value} has no memory: an output or state without a plan must be given some first"
    )]
    NoMemory {
        /// Its place in the value table.
        value: u32,
    },
    /// Two tensors that are both written share bytes.
    #[error("values {first} and {second} are both written and share bytes")]
    OverlappingOutputs {
        /// The one.
        first: u32,
        /// The other.
        second: u32,
    },
    /// An output's shape cannot be.
    #[error("the output cannot be given its shape: {0}")]
    Shape(#[from] ShapeError),
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// No scratch memory.
    #[error(transparent)]
    Scratch(#[from] ArenaError),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The run was asked to end; see [`KernelContext::interrupt`](crate::KernelContext::interrupt).
    #[error("the run was interrupted")]
    Interrupted,
    /// Anything else, with its own cause.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

impl KernelError {
    /// Arguments that do not fit each other or the operator, in words.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid(message.into())
    }

    /// An error of a delegate's or operator's own.
    pub fn other(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Other(Box::new(error))
    }

    /// A stable identifier for programs to match on.
    pub fn id(&self) -> &'static str {
        match self {
            Self::ArgumentCount { .. } => "kernel.argument-count",
            Self::ArgumentKind { .. } => "kernel.argument-kind",
            Self::Dtype { .. } => "kernel.dtype",
            Self::Invalid(_) => "kernel.invalid-argument",
            Self::OnDevice { .. } => "kernel.on-device",
            Self::NoMemory { .. } => "kernel.no-memory",
            Self::OverlappingOutputs { .. } => "kernel.overlapping-outputs",
            Self::Shape(_) => "kernel.shape",
            Self::Tensor(error) => error.id(),
            Self::Scratch(_) => "kernel.scratch",
            Self::Memory(error) => error.id(),
            Self::Device(error) => error.id(),
            Self::Interrupted => "kernel.interrupted",
            Self::Other(_) => "kernel.other",
        }
    }

    /// The numeric code that the C++ runtime uses for this kind of failure.
    pub fn code(&self) -> u32 {
        match self {
            Self::ArgumentCount { .. } => 0x23,
            Self::ArgumentKind { .. } => 0x13,
            Self::Dtype { .. }
            | Self::Invalid(_)
            | Self::OnDevice { .. }
            | Self::OverlappingOutputs { .. }
            | Self::Shape(_) => 0x12,
            Self::Tensor(error) => error.code(),
            Self::NoMemory { .. } => 0x02,
            Self::Scratch(_) => 0x21,
            Self::Memory(error) => error.code(),
            Self::Device(error) => error.code(),
            Self::Interrupted | Self::Other(_) => 0x01,
        }
    }
}
