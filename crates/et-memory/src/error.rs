//! Why memory could not be had or found.

use et_device::{Alignment, Device, DeviceError};

/// A failed allocation or lookup of planned memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The host has not enough memory, or the size is beyond what it can address.
    #[error("cannot allocate {nbytes} bytes of host memory")]
    HostOutOfMemory {
        /// Bytes asked for.
        nbytes: u64,
    },
    /// The host has no room for a planned buffer.
    #[error("cannot allocate planned buffer {memory_id} ({nbytes} bytes of host memory)")]
    HostBuffer {
        /// The buffer's id, counted from 1 as in files.
        memory_id: u32,
        /// Its size.
        nbytes: u64,
    },
    /// A planned buffer could not be allocated on its device.
    #[error("cannot allocate planned buffer {memory_id} ({nbytes} bytes on {device})")]
    Buffer {
        /// The buffer's id, counted from 1 as in files.
        memory_id: u32,
        /// Its size.
        nbytes: u64,
        /// Its device.
        device: Device,
        /// What went wrong.
        source: DeviceError,
    },
    /// A device could not do what was asked.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The plan needs more than it may have. Nothing was allocated.
    #[error("planned memory on {device} needs {needed} bytes, and the budget is {budget} bytes")]
    OverBudget {
        /// The device.
        device: Device,
        /// Bytes needed there.
        needed: u64,
        /// Bytes allowed there.
        budget: u64,
    },
    /// An arena was asked to hold more than it ever may.
    #[error("scratch memory is limited to {limit} bytes, and {nbytes} are needed")]
    ArenaLimit {
        /// Bytes asked for.
        nbytes: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A buffer given by the caller does not fit the plan.
    #[error(
        "planned buffer {memory_id} must be {needed} bytes on {device}, and {found} bytes on {found_device} were given"
    )]
    WrongBuffer {
        /// The buffer's id, counted from 1.
        memory_id: u32,
        /// Bytes planned.
        needed: u64,
        /// The device planned.
        device: Device,
        /// Bytes given.
        found: u64,
        /// The device they are on.
        found_device: Device,
    },
    /// A buffer given by the caller starts at an address that the plan does not allow.
    #[error("planned buffer {memory_id} must start at a multiple of {} bytes", alignment.get())]
    MisalignedBuffer {
        /// The buffer's id, counted from 1.
        memory_id: u32,
        /// What its address must be a multiple of.
        alignment: Alignment,
    },
    /// A different number of buffers was given than planned.
    #[error("the plan has {planned} buffers, and {found} were given")]
    WrongBufferCount {
        /// Buffers planned.
        planned: usize,
        /// Buffers given.
        found: usize,
    },
    /// There is no such buffer. Ids count from 1; 0 is reserved.
    #[error("there is no planned buffer {memory_id}: this method has buffers 1 to {count}")]
    UnknownBuffer {
        /// The id asked for.
        memory_id: u32,
        /// How many there are.
        count: usize,
    },
    /// The bytes are not all inside the buffer.
    #[error(
        "{nbytes} bytes at offset {offset_bytes} are outside planned buffer {memory_id} of {available} bytes"
    )]
    OutOfRange {
        /// The buffer.
        memory_id: u32,
        /// Bytes from its start.
        offset_bytes: u64,
        /// Bytes asked for.
        nbytes: u64,
        /// Bytes it has.
        available: u64,
    },
    /// The bytes do not start at a multiple of what their type needs.
    #[error("offset {offset_bytes} in planned buffer {memory_id} is not a multiple of {}", alignment.get())]
    Misaligned {
        /// The buffer.
        memory_id: u32,
        /// Bytes from its start.
        offset_bytes: u64,
        /// What the address must be a multiple of.
        alignment: Alignment,
    },
    /// Something is placed in a buffer of another device.
    #[error("planned buffer {memory_id} is on {found}, and a value on {expected} is placed in it")]
    WrongDevice {
        /// The buffer.
        memory_id: u32,
        /// The value's device.
        expected: Device,
        /// The buffer's device.
        found: Device,
    },
}

impl MemoryError {
    /// A stable identifier for programs to match on.
    pub const fn id(&self) -> &'static str {
        match self {
            Self::HostOutOfMemory { .. } | Self::HostBuffer { .. } => "memory.host-out-of-memory",
            Self::Buffer { source, .. } | Self::Device(source) => source.id(),
            Self::OverBudget { .. } => "memory.over-budget",
            Self::ArenaLimit { .. } => "memory.arena-limit",
            Self::WrongBuffer { .. } => "memory.wrong-buffer",
            Self::MisalignedBuffer { .. } => "memory.misaligned-buffer",
            Self::WrongBufferCount { .. } => "memory.wrong-buffer-count",
            Self::UnknownBuffer { .. } => "memory.unknown-buffer",
            Self::OutOfRange { .. } => "memory.out-of-range",
            Self::Misaligned { .. } => "memory.misaligned",
            Self::WrongDevice { .. } => "memory.wrong-device",
        }
    }

    /// The numeric code that the C++ runtime uses for this kind of failure.
    pub const fn code(&self) -> u32 {
        match self {
            // There, an end that is no number is an invalid argument, and one past the buffer a failed allocation.
            Self::OutOfRange {
                offset_bytes,
                nbytes,
                ..
            } if offset_bytes.checked_add(*nbytes).is_none() => 0x12,
            Self::HostOutOfMemory { .. }
            | Self::HostBuffer { .. }
            | Self::OutOfRange { .. }
            | Self::ArenaLimit { .. } => 0x21,
            Self::Buffer { source, .. } | Self::Device(source) => source.code(),
            Self::OverBudget { .. } => 0x25,
            Self::WrongBuffer { .. }
            | Self::MisalignedBuffer { .. }
            | Self::WrongBufferCount { .. }
            | Self::UnknownBuffer { .. }
            | Self::Misaligned { .. }
            | Self::WrongDevice { .. } => 0x12,
        }
    }
}
