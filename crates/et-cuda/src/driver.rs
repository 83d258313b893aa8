//! The driver of the machine: opened once, by symbols that were looked up and not assumed.

mod library;
mod status;
mod table;

pub(crate) use status::{INVALID_HANDLE, NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, Status};
pub(crate) use table::{Driver, PoolProperties};

use et_device::{Device, DeviceError, DeviceIndex, DeviceType};
use std::sync::OnceLock;

/// Why there is no driver to work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The library was not found.
    #[error("{NOT_FOUND}")]
    NotFound,
    /// The library that `ET_CUDA_DRIVER` names cannot be loaded.
    #[error("{text}")]
    NotLoaded {
        /// The whole message, with the loader's reason.
        text: &'static str,
    },
    /// The library was found but is too old, or none of NVIDIA's.
    #[error("{text}")]
    MissingSymbol {
        /// The function it lacks.
        symbol: &'static str,
        /// The whole message.
        text: &'static str,
    },
    /// The driver sees no GPU.
    #[error("{NO_DEVICE}")]
    NoDevice,
    /// The library is the CUDA toolkit's stand-in for linking, which does nothing.
    #[error("{STUB}")]
    StubLibrary,
    /// The driver does not start, or does not say what there is.
    #[error("{operation} failed: {name} ({code})")]
    Failed {
        /// The driver's function.
        operation: &'static str,
        /// The driver's status.
        code: u32,
        /// The status by name.
        name: &'static str,
    },
}

#[cfg(windows)]
const NOT_FOUND: &str = "no CUDA driver was found (looked for nvcuda.dll where the system's loader looks); \
    install NVIDIA's driver, or use a simulated device";
#[cfg(not(windows))]
const NOT_FOUND: &str = "no CUDA driver was found (looked for libcuda.so and libcuda.so.1 where the system's loader \
    looks); install NVIDIA's driver, or use a simulated device";
const NO_DEVICE: &str = "the CUDA driver sees no GPU (CUDA_ERROR_NO_DEVICE); check that one is present, visible to \
    this process (CUDA_VISIBLE_DEVICES) and supported, or use a simulated device";
const STUB: &str = "the libcuda that was found is the CUDA toolkit's stub for linking, not a driver \
    (CUDA_ERROR_STUB_LIBRARY); put NVIDIA's driver before it on the loader's path";

impl From<DriverError> for DeviceError {
    fn from(error: DriverError) -> Self {
        let unavailable = |reason| DeviceError::Unavailable {
            device_type: DeviceType::CUDA,
            reason,
        };
        match error {
            DriverError::NotFound => unavailable(NOT_FOUND),
            DriverError::NotLoaded { text } | DriverError::MissingSymbol { text, .. } => {
                unavailable(text)
            }
            DriverError::NoDevice => unavailable(NO_DEVICE),
            DriverError::StubLibrary => unavailable(STUB),
            DriverError::Failed {
                operation,
                code,
                name,
            } => DeviceError::Driver {
                device: Device::new(DeviceType::CUDA, DeviceIndex::ZERO),
                operation,
                code,
                name,
            },
        }
    }
}

/// What a working driver says about the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverInfo {
    /// The CUDA version that the driver supports, as `1000 * major + 10 * minor`.
    pub version: u32,
    /// How many devices it offers.
    pub device_count: u32,
}

/// Opens the driver and asks what there is. Makes no context and uses no device memory.
///
/// # Errors
/// [`DriverError`] if there is no driver, no device, or the driver does not start.
pub fn probe() -> Result<DriverInfo, DriverError> {
    let driver = driver()?;
    Ok(DriverInfo {
        version: driver.version(),
        device_count: driver.device_count()?,
    })
}

/// The process's driver. A failure is not remembered: a later call looks again.
pub(crate) fn driver() -> Result<&'static Driver, DriverError> {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    if let Some(driver) = DRIVER.get() {
        return Ok(driver);
    }
    let driver = Driver::open()?;
    driver.start()?;
    Ok(DRIVER.get_or_init(|| driver))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpp_runtimes_code_for_an_absent_driver_is_not_found() {
        assert_eq!(DeviceError::from(DriverError::NotFound).code(), 0x20);
        assert_eq!(
            DeviceError::from(DriverError::NoDevice).id(),
            "device.unavailable"
        );
    }

    #[test]
    fn both_error_types_print_the_same_reason() {
        for error in [
            DriverError::NotFound,
            DriverError::NoDevice,
            DriverError::StubLibrary,
        ] {
            let text = DeviceError::from(error).to_string();
            assert_eq!(text, format!("cuda is not available: {error}"));
        }
    }
}
