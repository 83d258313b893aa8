//! Devices as the format names them.

use core::fmt;

use crate::view::device_type_name;

/// The device of a value or of a planned buffer, by the format's numbers. Prints as people write it: `cpu`, `cuda:0`.
///
/// Any two numbers can stand in a file; whether there is such a device is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceTag {
    /// The device type: 0 CPU, 1 CUDA.
    pub device_type: i8,
    /// Which device of that type.
    pub device_index: i8,
}

impl DeviceTag {
    /// The host.
    pub const CPU: Self = Self::new(0, 0);

    /// The device with these numbers.
    pub const fn new(device_type: i8, device_index: i8) -> Self {
        Self {
            device_type,
            device_index,
        }
    }

    /// Whether it is the host, whatever the index says.
    pub const fn is_cpu(self) -> bool {
        self.device_type == 0
    }

    /// The device that is meant: there is one host, so its index says nothing.
    #[must_use]
    pub const fn normal(self) -> Self {
        if self.is_cpu() { Self::CPU } else { self }
    }
}

impl fmt::Display for DeviceTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            device_type,
            device_index,
        } = self;
        match device_type_name(*device_type) {
            Some(_) if *self == Self::CPU => f.write_str("cpu"),
            Some(name) => write!(f, "{}:{device_index}", name.to_ascii_lowercase()),
            None => write!(f, "device type {device_type}:{device_index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn devices_print_as_people_write_them() {
        let text = |device_type, index| DeviceTag::new(device_type, index).to_string();
        assert_eq!(text(0, 0), "cpu");
        assert_eq!(text(0, 3), "cpu:3");
        assert_eq!(text(1, -2), "cuda:-2");
        assert_eq!(text(7, 1), "device type 7:1");
    }

    #[test]
    fn the_host_has_no_index() {
        assert_eq!(DeviceTag::new(0, 3).normal(), DeviceTag::CPU);
        assert_eq!(DeviceTag::new(1, 3).normal(), DeviceTag::new(1, 3));
        assert!(DeviceTag::new(0, 3).is_cpu() && !DeviceTag::new(1, 0).is_cpu());
    }
}
