//! Which device: its type, its index, and both together.

use core::fmt;
use core::str::FromStr;

/// A kind of device, by the number that `.pte` files use for it.
///
/// `CPU` and `CUDA` are the types of the file format today. Other numbers below [`DeviceType::LIMIT`] are allowed, so
/// that an allocator for a new kind of device needs no change in this crate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct DeviceType(i8);

impl DeviceType {
    /// Host memory.
    pub const CPU: Self = Self(0);
    /// An NVIDIA GPU.
    pub const CUDA: Self = Self(1);
    /// One more than the largest number a device type can have; the size of a registry's table.
    pub const LIMIT: usize = 16;

    /// The type with the file format's number `raw`.
    ///
    /// # Errors
    /// [`InvalidDevice::Type`] if `raw` is negative or not below [`DeviceType::LIMIT`].
    pub const fn from_raw(raw: i8) -> Result<Self, InvalidDevice> {
        match raw {
            0..=15 => Ok(Self(raw)),
            _ => Err(InvalidDevice::Type { found: raw }),
        }
    }

    /// For tests, which need types in constants.
    #[cfg(test)]
    pub(crate) const fn from_raw_const(raw: i8) -> Self {
        Self(raw)
    }

    /// The file format's number, 0 to 15.
    pub const fn as_raw(self) -> i8 {
        self.0
    }

    /// The lower-case name, if this crate knows one.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::CPU => Some("cpu"),
            Self::CUDA => Some("cuda"),
            _ => None,
        }
    }

    /// Whether memory of this type is ordinary host memory.
    #[inline]
    pub const fn is_cpu(self) -> bool {
        self.0 == Self::CPU.0
    }

    /// The place of this type in a table of [`DeviceType::LIMIT`] entries.
    #[inline]
    pub(crate) fn slot(self) -> usize {
        usize::from(self.0.unsigned_abs())
    }

    /// The type named `text`, in any case: a known name, or `type<N>`.
    fn from_name(text: &str) -> Option<Self> {
        if let Some(number) = text.get(..4).filter(|p| p.eq_ignore_ascii_case("type")) {
            let digits = text.get(number.len()..)?;
            return Self::from_raw(canonical_number(digits)?).ok();
        }
        [Self::CPU, Self::CUDA]
            .into_iter()
            .find(|t| t.name().is_some_and(|n| n.eq_ignore_ascii_case(text)))
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type{}", self.0),
        }
    }
}

impl fmt::Debug for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceType({self})")
    }
}

/// Which device of its type: 0 to 127.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct DeviceIndex(u8);

impl DeviceIndex {
    /// The first device.
    pub const ZERO: Self = Self(0);
    /// The largest index the file format can hold.
    pub const MAX: Self = Self(127);

    /// The index `index`.
    ///
    /// # Errors
    /// [`InvalidDevice::Index`] above 127.
    #[expect(
        clippy::as_conversions,
        reason = "an i16 holds every u8, and `From` is not const"
    )]
    pub const fn new(index: u8) -> Result<Self, InvalidDevice> {
        if index > Self::MAX.0 {
            return Err(InvalidDevice::Index {
                found: index as i16,
            });
        }
        Ok(Self(index))
    }

    /// The index with the file format's number `raw`. There is no "current device": −1 is an error like any other.
    ///
    /// # Errors
    /// [`InvalidDevice::Index`] if `raw` is negative.
    #[expect(
        clippy::as_conversions,
        reason = "an i16 holds every i8, and `From` is not const"
    )]
    pub const fn from_raw(raw: i8) -> Result<Self, InvalidDevice> {
        if raw < 0 {
            return Err(InvalidDevice::Index { found: raw as i16 });
        }
        Ok(Self(raw.unsigned_abs()))
    }

    /// The number, 0 to 127.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The file format's number, 0 to 127.
    pub const fn as_raw(self) -> i8 {
        self.0.cast_signed()
    }
}

impl fmt::Display for DeviceIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for DeviceIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceIndex({})", self.0)
    }
}

/// One device: a type and an index. Two are equal if both are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    device_type: DeviceType,
    index: DeviceIndex,
}

impl Device {
    /// Host memory, `cpu:0`.
    pub const CPU: Self = Self::new(DeviceType::CPU, DeviceIndex::ZERO);

    /// The device `index` of type `device_type`.
    pub const fn new(device_type: DeviceType, index: DeviceIndex) -> Self {
        Self { device_type, index }
    }

    /// The CUDA device `index`.
    ///
    /// # Errors
    /// [`InvalidDevice::Index`] above 127.
    pub const fn cuda(index: u8) -> Result<Self, InvalidDevice> {
        match DeviceIndex::new(index) {
            Ok(index) => Ok(Self::new(DeviceType::CUDA, index)),
            Err(error) => Err(error),
        }
    }

    /// The device that a file describes by these two numbers.
    ///
    /// # Errors
    /// [`InvalidDevice`] if the type is unknown or the index negative.
    pub const fn from_raw(device_type: i8, index: i8) -> Result<Self, InvalidDevice> {
        match (
            DeviceType::from_raw(device_type),
            DeviceIndex::from_raw(index),
        ) {
            (Ok(device_type), Ok(index)) => Ok(Self::new(device_type, index)),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// The type.
    pub const fn device_type(self) -> DeviceType {
        self.device_type
    }

    /// The index among the devices of its type.
    pub const fn index(self) -> DeviceIndex {
        self.index
    }

    /// Whether this is host memory. Only the type counts: `cpu:3` is.
    #[inline]
    pub const fn is_cpu(self) -> bool {
        self.device_type.is_cpu()
    }

    /// Whether memory of the one is memory of the other: they are equal, or both are host memory, which is one memory
    /// whatever the index says.
    #[inline]
    pub fn shares_memory_with(self, other: Self) -> bool {
        self == other || (self.is_cpu() && other.is_cpu())
    }
}

/// The first device of a type.
impl From<DeviceType> for Device {
    fn from(device_type: DeviceType) -> Self {
        Self::new(device_type, DeviceIndex::ZERO)
    }
}

/// `cpu` for the host, else `type:index`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::CPU {
            return f.pad("cpu");
        }
        write!(f, "{}:{}", self.device_type, self.index)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}:{})", self.device_type, self.index)
    }
}

/// Strict: `cpu`, `cpu:0`, `cuda`, `cuda:N`, `type<T>:N`, in any case; no spaces, signs or leading zeros.
impl FromStr for Device {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<Self, ParseDeviceError> {
        let (name, index) = match text.split_once(':') {
            Some((name, digits)) => (
                name,
                canonical_number::<u8>(digits).ok_or(ParseDeviceError::Index)?,
            ),
            None => (text, 0),
        };
        let device_type = DeviceType::from_name(name).ok_or(ParseDeviceError::Type)?;
        let index = DeviceIndex::new(index).map_err(|_| ParseDeviceError::Index)?;
        if device_type.is_cpu() && index != DeviceIndex::ZERO {
            return Err(ParseDeviceError::Index);
        }
        Ok(Self::new(device_type, index))
    }
}

/// A decimal number written the one way it is printed.
fn canonical_number<T: FromStr>(digits: &str) -> Option<T> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    let padded = digits.len() > 1 && digits.starts_with('0');
    (plain && !padded).then(|| digits.parse().ok()).flatten()
}

/// A number that names no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDevice {
    /// The number is not a device type's.
    #[error("unknown device type {found}: expected 0 (cpu), 1 (cuda) or another below 16")]
    Type {
        /// The number.
        found: i8,
    },
    /// The number is not a device index.
    #[error("invalid device index {found}: expected 0 to 127")]
    Index {
        /// The number.
        found: i16,
    },
}

/// A text that names no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseDeviceError {
    /// The part before the colon.
    #[error("unknown device type: expected `cpu`, `cuda`, or either with `:INDEX`")]
    Type,
    /// The part behind the colon.
    #[error("invalid device index: expected a number from 0 to 127, and 0 for `cpu`")]
    Index,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[track_caller]
    fn check_parse(text: &str, expected: Result<(i8, u8), ParseDeviceError>) {
        let found = text.parse::<Device>();
        let found = found.map(|d| (d.device_type().as_raw(), d.index().get()));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn names_parse_in_any_case() {
        check_parse("cpu", Ok((0, 0)));
        check_parse("cpu:0", Ok((0, 0)));
        check_parse("CUDA", Ok((1, 0)));
        check_parse("cuda:127", Ok((1, 127)));
        check_parse("Type7:3", Ok((7, 3)));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "gpu",
            "cuda1",
            " cuda",
            "typ\u{e9}1",
            "type16",
            "type-1",
            "type",
            "type01",
        ] {
            check_parse(text, Err(ParseDeviceError::Type));
        }
        for text in [
            "cuda:", "cuda:128", "cuda:-1", "cuda:+1", "cuda:01", "cuda: 1", "cuda:1 ", "cpu:1",
            "cuda:1:2",
        ] {
            check_parse(text, Err(ParseDeviceError::Index));
        }
    }

    #[test]
    fn every_device_prints_as_it_parses() {
        for device_type in 0..16 {
            for index in 0..=127 {
                let device = Device::from_raw(device_type, index).unwrap();
                if device.is_cpu() && index > 0 {
                    continue;
                }
                assert_eq!(device.to_string().parse(), Ok(device));
            }
        }
    }

    #[test]
    fn r_dev_01_cpu_is_0_and_cuda_is_1() {
        assert_eq!(
            (DeviceType::CPU.as_raw(), DeviceType::CUDA.as_raw()),
            (0, 1)
        );
    }

    #[test]
    fn r_dev_02_minus_one_is_not_an_index() {
        assert_eq!(
            DeviceIndex::from_raw(-1),
            Err(InvalidDevice::Index { found: -1 })
        );
        assert_eq!(
            DeviceIndex::new(200),
            Err(InvalidDevice::Index { found: 200 })
        );
        assert_eq!(DeviceIndex::default(), DeviceIndex::ZERO);
    }

    #[test]
    fn r_dev_03_a_type_alone_means_its_first_device() {
        assert_eq!(Device::from(DeviceType::CUDA), Device::cuda(0).unwrap());
    }

    #[test]
    fn r_dev_04_equality_compares_type_and_index() {
        assert_ne!(Device::cuda(0), Device::cuda(1));
        assert_ne!(Device::CPU, Device::cuda(0).unwrap());
    }

    #[test]
    fn r_dev_05_is_cpu_looks_at_the_type_only() {
        assert!(Device::from_raw(0, 3).unwrap().is_cpu());
        assert!(!Device::from_raw(2, 0).unwrap().is_cpu());
    }

    #[test]
    fn r_dev_05_host_memory_is_one_memory_whatever_its_index() {
        let far = Device::from_raw(0, 3).unwrap();
        assert!(far.shares_memory_with(Device::CPU) && Device::CPU.shares_memory_with(far));
        let [zero, one] = [0, 1].map(|i| Device::cuda(i).unwrap());
        assert!(zero.shares_memory_with(zero) && !zero.shares_memory_with(one));
        assert!(!zero.shares_memory_with(Device::CPU));
    }

    #[test]
    fn r_dev_06_the_files_numbers_are_kept() {
        for (device_type, index) in [(0, 0), (1, 0), (1, 127), (15, 3)] {
            let device = Device::from_raw(device_type, index).unwrap();
            assert_eq!(device.device_type().as_raw(), device_type);
            assert_eq!(device.index().as_raw(), index);
        }
    }

    #[test]
    fn r_dev_07_no_device_holds_a_number_out_of_range() {
        for raw in i8::MIN..=i8::MAX {
            let type_fits = (0..16).contains(&raw);
            assert_eq!(Device::from_raw(raw, 0).is_ok(), type_fits, "type {raw}");
            assert_eq!(Device::from_raw(1, raw).is_ok(), raw >= 0, "index {raw}");
        }
    }

    #[test]
    fn b_26_a_type_without_a_name_is_as_good_as_one_with() {
        let device: Device = "type7:3".parse().unwrap();
        assert_eq!(device, Device::from_raw(7, 3).unwrap());
        assert_eq!(device.to_string(), "type7:3");
        assert_eq!(device.device_type().name(), None);
    }

    #[test]
    fn b_04_unknown_types_are_refused() {
        for raw in [-128, -1, 16, 127] {
            assert_eq!(
                DeviceType::from_raw(raw),
                Err(InvalidDevice::Type { found: raw })
            );
        }
    }
}
