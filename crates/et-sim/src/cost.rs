//! What calls would take on a real device, in time that is added up and never waited for.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::TraceEvent;

/// How long calls take on a simulated device: for each a fixed part, and for copies and fills a part by size.
///
/// The model is made to compare placements and plans by the copies they cost, not to predict a device. Nothing waits;
/// see [`SimAllocator::simulated_time`](crate::SimAllocator::simulated_time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CostModel {
    /// The fixed part of a copy or fill.
    pub transfer_latency: Duration,
    /// The fixed part of an allocation or free, and all of it.
    pub allocation_latency: Duration,
    /// Bytes per second between host and device.
    pub host_bandwidth: NonZeroU64,
    /// Bytes per second within a device. A copy between two devices goes over the host's bandwidth instead.
    pub device_bandwidth: NonZeroU64,
}

/// The orders of magnitude of a card on a 16-lane bus: 10 µs per call, 25 GB/s to the host, 1 TB/s on the device.
impl Default for CostModel {
    fn default() -> Self {
        let per_second =
            |gigabytes: u64| NonZeroU64::new(gigabytes * 1_000_000_000).unwrap_or(NonZeroU64::MIN);
        Self {
            transfer_latency: Duration::from_micros(10),
            allocation_latency: Duration::from_micros(10),
            host_bandwidth: per_second(25),
            device_bandwidth: per_second(1000),
        }
    }
}

impl CostModel {
    /// The same with another fixed part of copies and fills.
    #[must_use]
    pub const fn with_transfer_latency(mut self, latency: Duration) -> Self {
        self.transfer_latency = latency;
        self
    }

    /// The same with another cost of allocations and frees.
    #[must_use]
    pub const fn with_allocation_latency(mut self, latency: Duration) -> Self {
        self.allocation_latency = latency;
        self
    }

    /// The same with other bandwidths, in bytes per second.
    #[must_use]
    pub const fn with_bandwidth(mut self, host: NonZeroU64, device: NonZeroU64) -> Self {
        self.host_bandwidth = host;
        self.device_bandwidth = device;
        self
    }

    /// What one event takes. Rounded down to nanoseconds.
    pub fn of(&self, event: &TraceEvent) -> Duration {
        let host = |nbytes| self.transfer(nbytes, self.host_bandwidth);
        let device = |nbytes| self.transfer(nbytes, self.device_bandwidth);
        match *event {
            TraceEvent::Alloc { .. } | TraceEvent::Free { .. } => self.allocation_latency,
            TraceEvent::HostToDevice { nbytes, .. } | TraceEvent::DeviceToHost { nbytes, .. } => {
                host(nbytes)
            }
            TraceEvent::DeviceToDevice { src, dst, nbytes } if src != dst => host(nbytes),
            TraceEvent::DeviceToDevice { nbytes, .. } | TraceEvent::Fill { nbytes, .. } => {
                device(nbytes)
            }
        }
    }

    fn transfer(&self, nbytes: u64, bandwidth: NonZeroU64) -> Duration {
        let nanos = u128::from(nbytes) * 1_000_000_000 / u128::from(bandwidth.get());
        let moving = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.transfer_latency.saturating_add(moving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use et_device::DeviceIndex;

    fn model() -> CostModel {
        let [slow, fast] = [1000, 1_000_000].map(|n| NonZeroU64::new(n).unwrap());
        CostModel::default()
            .with_transfer_latency(Duration::from_millis(1))
            .with_allocation_latency(Duration::from_millis(7))
            .with_bandwidth(slow, fast)
    }

    #[track_caller]
    fn check(event: TraceEvent, millis: u64) {
        assert_eq!(model().of(&event), Duration::from_millis(millis));
    }

    #[test]
    fn copies_cost_latency_and_bytes_over_bandwidth() {
        let [index, other] = [0, 1].map(|i| DeviceIndex::new(i).unwrap());
        let (src, dst) = (index, index);
        check(
            TraceEvent::Alloc {
                index,
                nbytes: 9999,
            },
            7,
        );
        check(
            TraceEvent::Free {
                index,
                nbytes: 9999,
            },
            7,
        );
        check(TraceEvent::HostToDevice { index, nbytes: 500 }, 501);
        check(TraceEvent::DeviceToHost { index, nbytes: 1 }, 2);
        check(
            TraceEvent::Fill {
                index,
                nbytes: 3000,
            },
            4,
        );
        check(
            TraceEvent::DeviceToDevice {
                src,
                dst,
                nbytes: 3000,
            },
            4,
        );
        let dst = other;
        check(
            TraceEvent::DeviceToDevice {
                src,
                dst,
                nbytes: 3000,
            },
            3001,
        );
    }

    #[test]
    fn the_largest_copy_on_the_slowest_bus_takes_long_and_does_not_wrap() {
        let slowest = CostModel::default().with_bandwidth(NonZeroU64::MIN, NonZeroU64::MIN);
        let index = DeviceIndex::ZERO;
        let cost = slowest.of(&TraceEvent::HostToDevice {
            index,
            nbytes: u64::MAX,
        });
        assert!(cost > Duration::from_secs(500 * 365 * 24 * 3600));
    }
}
