//! Moving placements: running a program on other devices than it names.

use alloc::vec::Vec;

use crate::Device;

/// Which device to use instead of which. Devices that are not mentioned stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceMap(Vec<(Device, Device)>);

impl DeviceMap {
    /// Changes nothing.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Uses `to` where the program says `from`; replaces an earlier rule for `from`.
    pub fn insert(&mut self, from: Device, to: Device) {
        self.0.retain(|(known, _)| *known != from);
        self.0.push((from, to));
    }

    /// The device to use for `device`. Rules are not applied to each other's results.
    pub fn apply(&self, device: Device) -> Device {
        self.0
            .iter()
            .find(|(from, _)| *from == device)
            .map_or(device, |(_, to)| *to)
    }

    /// Whether the map changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_replace_each_other_and_do_not_chain() {
        let [zero, one, two] = [0, 1, 2].map(|i| Device::cuda(i).unwrap());
        let mut map = DeviceMap::new();
        map.insert(one, two);
        map.insert(one, zero);
        map.insert(zero, two);
        assert_eq!([one, zero, two].map(|d| map.apply(d)), [zero, two, two]);
    }
}
