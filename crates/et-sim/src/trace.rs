//! What a simulated device did.

use et_device::{CopyCounts, DeviceIndex};

/// One thing that happened, in order. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceEvent {
    /// A block was allocated.
    Alloc {
        /// The device.
        index: DeviceIndex,
        /// Its size.
        nbytes: u64,
    },
    /// A block was given back.
    Free {
        /// The device.
        index: DeviceIndex,
        /// Its size.
        nbytes: u64,
    },
    /// Host bytes were copied to a device.
    HostToDevice {
        /// The device.
        index: DeviceIndex,
        /// How many.
        nbytes: u64,
    },
    /// Device bytes were copied to the host.
    DeviceToHost {
        /// The device.
        index: DeviceIndex,
        /// How many.
        nbytes: u64,
    },
    /// Device bytes were copied to the same or another device.
    DeviceToDevice {
        /// From this device.
        src: DeviceIndex,
        /// To this one.
        dst: DeviceIndex,
        /// How many.
        nbytes: u64,
    },
    /// Device bytes were set.
    Fill {
        /// The device.
        index: DeviceIndex,
        /// How many.
        nbytes: u64,
    },
}

impl TraceEvent {
    /// The device whose counters the event is in: a copy between two is in those of its source.
    pub const fn index(&self) -> DeviceIndex {
        match *self {
            Self::Alloc { index, .. }
            | Self::Free { index, .. }
            | Self::HostToDevice { index, .. }
            | Self::DeviceToHost { index, .. }
            | Self::DeviceToDevice { src: index, .. }
            | Self::Fill { index, .. } => index,
        }
    }
}

/// Totals since the allocator was made, over all devices or of one. Calls that failed are not in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Blocks allocated.
    pub allocations: u64,
    /// Blocks given back.
    pub frees: u64,
    /// Blocks in use now.
    pub live_blocks: u64,
    /// Bytes in use now.
    pub live_bytes: u64,
    /// The most bytes that were ever in use.
    pub peak_bytes: u64,
    /// Copies from the host.
    pub host_to_device: u64,
    /// Their bytes.
    pub host_to_device_bytes: u64,
    /// Copies to the host.
    pub device_to_host: u64,
    /// Their bytes.
    pub device_to_host_bytes: u64,
    /// Copies within and between devices.
    pub device_to_device: u64,
    /// Their bytes.
    pub device_to_device_bytes: u64,
    /// Fills.
    pub fills: u64,
    /// Their bytes.
    pub fill_bytes: u64,
}

impl Counters {
    /// The copies alone, as a meter of copies takes them.
    #[must_use]
    pub const fn copies(&self) -> CopyCounts {
        CopyCounts {
            host_to_device: self.host_to_device,
            host_to_device_bytes: self.host_to_device_bytes,
            device_to_host: self.device_to_host,
            device_to_host_bytes: self.device_to_host_bytes,
            device_to_device: self.device_to_device,
            device_to_device_bytes: self.device_to_device_bytes,
        }
    }

    pub(crate) fn record(&mut self, event: &TraceEvent) {
        match *event {
            TraceEvent::Alloc { nbytes, .. } => {
                self.allocations += 1;
                self.live_blocks += 1;
                self.live_bytes += nbytes;
                self.peak_bytes = self.peak_bytes.max(self.live_bytes);
            }
            TraceEvent::Free { nbytes, .. } => {
                self.frees += 1;
                self.live_blocks -= 1;
                self.live_bytes -= nbytes;
            }
            TraceEvent::HostToDevice { nbytes, .. } => {
                self.host_to_device += 1;
                self.host_to_device_bytes += nbytes;
            }
            TraceEvent::DeviceToHost { nbytes, .. } => {
                self.device_to_host += 1;
                self.device_to_host_bytes += nbytes;
            }
            TraceEvent::DeviceToDevice { nbytes, .. } => {
                self.device_to_device += 1;
                self.device_to_device_bytes += nbytes;
            }
            TraceEvent::Fill { nbytes, .. } => {
                self.fills += 1;
                self.fill_bytes += nbytes;
            }
        }
    }
}
