//! Why a device could not do what was asked.

use crate::{Alignment, Device, DeviceIndex, DevicePtr, DeviceType, LengthMismatch, SpanError};

/// A failed operation on a device. Small and without a heap block, so that it can cross any boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No allocator serves this type of device.
    #[error("no allocator is registered for device {device}{}", hint(*device))]
    NoAllocator {
        /// The device that was asked for.
        device: Device,
    },
    /// Two linked crates offer an allocator for the same type, so neither can be chosen.
    #[error("both `{first}` and `{second}` were linked as the allocator for {device_type} devices")]
    AmbiguousAllocator {
        /// The type.
        device_type: DeviceType,
        /// The one crate.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// The device's driver is not there or does not work at all.
    #[error("{device_type} is not available: {reason}")]
    Unavailable {
        /// The type.
        device_type: DeviceType,
        /// What was looked for and not found.
        reason: &'static str,
    },
    /// There are fewer devices.
    #[error("there is no device {device_type}:{index}: this machine has {count}")]
    NoSuchDevice {
        /// The type.
        device_type: DeviceType,
        /// The index asked for.
        index: DeviceIndex,
        /// How many there are.
        count: u32,
    },
    /// The memory is used up now; it may be there later.
    #[error("out of memory on {device}: {requested} bytes asked for, {free} of {total} bytes free")]
    OutOfMemory {
        /// The device.
        device: Device,
        /// Bytes asked for.
        requested: u64,
        /// Bytes free, as far as the allocator knows.
        free: u64,
        /// Bytes the device has.
        total: u64,
    },
    /// The allocator cannot align so strictly.
    #[error("{device_type} memory cannot be aligned to {} bytes", requested.get())]
    UnsupportedAlignment {
        /// The type.
        device_type: DeviceType,
        /// The alignment asked for.
        requested: Alignment,
    },
    /// The address is not the start of a live block of this allocator.
    #[error("{device} has no live block at {:#x}", address.get())]
    UnknownBlock {
        /// The device.
        device: Device,
        /// The address given.
        address: DevicePtr,
    },
    /// An access to bytes outside of any live block.
    #[error("{nbytes} bytes at {:#x} are not inside one live block of {device}", address.get())]
    OutOfBounds {
        /// The device.
        device: Device,
        /// First address of the access.
        address: DevicePtr,
        /// Bytes of the access.
        nbytes: u64,
    },
    /// A span that cannot be.
    #[error(transparent)]
    Span(#[from] SpanError),
    /// A copy whose sides have different lengths.
    #[error(transparent)]
    Length(#[from] LengthMismatch),
    /// The allocator does not offer this.
    #[error("{device_type} devices do not support {operation}")]
    Unsupported {
        /// The type.
        device_type: DeviceType,
        /// What was asked for.
        operation: &'static str,
    },
    /// A call to the driver failed.
    #[error("{operation} failed on {device}: {name} ({code})")]
    Driver {
        /// The device.
        device: Device,
        /// The driver's function.
        operation: &'static str,
        /// The driver's status.
        code: u32,
        /// The status by name, or `unknown status`.
        name: &'static str,
    },
    /// An earlier fault made the device unusable for this process.
    #[error("{device} is unusable in this process since {name} ({code})")]
    Poisoned {
        /// The device.
        device: Device,
        /// The driver's status at the fault.
        code: u32,
        /// The status by name.
        name: &'static str,
    },
}

impl DeviceError {
    /// A stable identifier for programs to match on.
    pub const fn id(&self) -> &'static str {
        match self {
            Self::NoAllocator { .. } => "device.no-allocator",
            Self::AmbiguousAllocator { .. } => "device.ambiguous-allocator",
            Self::Unavailable { .. } => "device.unavailable",
            Self::NoSuchDevice { .. } => "device.no-such-device",
            Self::OutOfMemory { .. } => "device.out-of-memory",
            Self::UnsupportedAlignment { .. } => "device.unsupported-alignment",
            Self::UnknownBlock { .. } => "device.unknown-block",
            Self::OutOfBounds { .. } => "device.out-of-bounds",
            Self::Span(_) => "device.span",
            Self::Length(_) => "device.length",
            Self::Unsupported { .. } => "device.unsupported",
            Self::Driver { .. } => "device.driver",
            Self::Poisoned { .. } => "device.poisoned",
        }
    }

    /// The numeric code that the C++ runtime uses for this kind of failure.
    pub const fn code(&self) -> u32 {
        match self {
            Self::NoAllocator { .. } | Self::Unavailable { .. } => 0x20,
            Self::OutOfMemory { .. } => 0x21,
            Self::UnsupportedAlignment { .. } | Self::Unsupported { .. } => 0x10,
            Self::NoSuchDevice { .. }
            | Self::UnknownBlock { .. }
            | Self::OutOfBounds { .. }
            | Self::Span(_)
            | Self::Length(_) => 0x12,
            Self::AmbiguousAllocator { .. } => 0x16,
            Self::Driver { .. } | Self::Poisoned { .. } => 0x01,
        }
    }
}

/// What to do about a missing allocator. A linked crate that nothing mentions may be dropped by the linker.
fn hint(device: Device) -> &'static str {
    match device.device_type() {
        DeviceType::CUDA => {
            "; link one by adding the crate et-cuda and the line `use et_cuda as _;`"
        }
        DeviceType::CPU => "; host memory needs none",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_missing_cuda_allocator_says_how_to_link_one() {
        let device = Device::cuda(0).unwrap();
        let text = DeviceError::NoAllocator { device }.to_string();
        assert!(
            text.contains("cuda:0") && text.contains("use et_cuda as _;"),
            "{text}"
        );
    }
}
