//! Status codes, as numbers: a driver may be newer than any list of them.

use et_device::{Device, DeviceError};

pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const STUB_LIBRARY: u32 = 34;
pub(crate) const NO_DEVICE: u32 = 100;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const NOT_SUPPORTED: u32 = 801;

/// What a call of the driver gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) struct Status {
    /// The function.
    pub(crate) operation: &'static str,
    pub(crate) code: u32,
}

impl Status {
    pub(crate) fn is_ok(self) -> bool {
        self.code == 0
    }

    /// Whether the context does not survive this: every later call in it fails with the same code.
    pub(crate) fn is_fatal(self) -> bool {
        matches!(
            self.code,
            // Deinitialised; uncorrectable memory and link errors.
            4 | 214 | 220 | 226
            // Illegal address, launch time-out, context destroyed, assert.
            | 700 | 702 | 709 | 710
            // Stack, instruction, alignment, address space, program counter, launch.
            | 714..=719
        )
    }

    /// The failure as an error; `name` is the driver's name for the code.
    pub(crate) fn error(self, device: Device, name: &'static str) -> DeviceError {
        DeviceError::Driver {
            device,
            operation: self.operation,
            code: self.code,
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_of_memory_is_not_fatal_and_an_illegal_access_is() {
        let fatal = |code| {
            Status {
                operation: "cuTest",
                code,
            }
            .is_fatal()
        };
        assert!(
            ![
                0,
                1,
                OUT_OF_MEMORY,
                INVALID_HANDLE,
                NOT_SUPPORTED,
                999,
                12345
            ]
            .into_iter()
            .any(fatal)
        );
        assert!([700, 710, 719].into_iter().all(fatal));
    }
}
