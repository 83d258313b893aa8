//! Copies, counted.

/// How many copies there were in each direction, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
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
}

impl CopyCounts {
    /// What came on top of `earlier`, an older count of the same copies. A number that did not grow gives 0.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            host_to_device: self.host_to_device.saturating_sub(earlier.host_to_device),
            host_to_device_bytes: self
                .host_to_device_bytes
                .saturating_sub(earlier.host_to_device_bytes),
            device_to_host: self.device_to_host.saturating_sub(earlier.device_to_host),
            device_to_host_bytes: self
                .device_to_host_bytes
                .saturating_sub(earlier.device_to_host_bytes),
            device_to_device: self
                .device_to_device
                .saturating_sub(earlier.device_to_device),
            device_to_device_bytes: self
                .device_to_device_bytes
                .saturating_sub(earlier.device_to_device_bytes),
        }
    }

    /// Both together; a number that is too large stays the largest there is.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            host_to_device: self.host_to_device.saturating_add(other.host_to_device),
            host_to_device_bytes: self
                .host_to_device_bytes
                .saturating_add(other.host_to_device_bytes),
            device_to_host: self.device_to_host.saturating_add(other.device_to_host),
            device_to_host_bytes: self
                .device_to_host_bytes
                .saturating_add(other.device_to_host_bytes),
            device_to_device: self.device_to_device.saturating_add(other.device_to_device),
            device_to_device_bytes: self
                .device_to_device_bytes
                .saturating_add(other.device_to_device_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(first: u64) -> CopyCounts {
        CopyCounts {
            host_to_device: first,
            host_to_device_bytes: first + 1,
            device_to_host: first + 2,
            device_to_host_bytes: first + 3,
            device_to_device: first + 4,
            device_to_device_bytes: first + 5,
        }
    }

    #[test]
    fn what_is_added_to_a_count_is_what_came_since() {
        let (before, more) = (counts(7), counts(100));
        assert_eq!(before.plus(&more).since(&before), more);
        assert_eq!(before.plus(&more).since(&more), before);
    }

    #[test]
    fn no_count_wraps() {
        assert_eq!(counts(1).since(&counts(2)), CopyCounts::default());
        let most = counts(u64::MAX - 5);
        assert_eq!(most.plus(&counts(9)).device_to_device_bytes, u64::MAX);
    }
}
