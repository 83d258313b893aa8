//! Why devices were not propagated.

use et_device::ParseDeviceError;
use thiserror::Error;

use crate::analysis::{AnalysisError, Finding};
use crate::placement::{GreedyError, InstanceError, PlanError};

/// Why devices were not propagated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PropagateError {
    /// Options for a method that the program does not have.
    #[error("the program has no method `{name}`")]
    NoSuchMethod {
        /// The name.
        name: String,
    },
    /// A device for a delegate that the method does not have.
    #[error("method `{method}` has no delegate {delegate}")]
    NoSuchDelegate {
        /// The method.
        method: String,
        /// The number of the delegate.
        delegate: u32,
    },
    /// Copies cannot be skipped where there are none.
    #[error("method `{method}`: copies can be skipped only with device memory")]
    SkipWithoutDeviceMemory {
        /// The method.
        method: String,
    },
    /// A `target_device` that is no device.
    #[error("delegate {delegate} of method `{method}`: target device `{text}`")]
    Target {
        /// The method.
        method: String,
        /// The number of the delegate.
        delegate: usize,
        /// The text, with what is no UTF-8 replaced.
        text: String,
        /// What is wrong with it.
        source: ParseDeviceError,
    },
    /// Two `target_device`s that differ.
    #[error("delegate {delegate} of method `{method}` has target devices {first} and {second}")]
    Targets {
        /// The method.
        method: String,
        /// The number of the delegate.
        delegate: usize,
        /// The first one.
        first: String,
        /// The one that differs.
        second: String,
    },
    /// The method cannot be analysed.
    #[error("the method cannot be analysed")]
    Analysis(#[from] AnalysisError),
    /// The method's own plan lets live values clobber each other.
    #[error("the plan of the method is corrupt: {0}")]
    Corrupt(Finding),
    /// Device values that make no placement problem.
    #[error("the memory of a device cannot be planned")]
    Instance(#[from] InstanceError),
    /// Device values that the algorithm cannot place.
    #[error("the memory of a device cannot be planned")]
    Greedy(#[from] GreedyError),
    /// The plan of a device's memory is wrong: a fault of this crate.
    #[error("the plan of a device's memory is wrong")]
    Invalid(#[from] PlanError),
    /// A buffer or a method larger than the format holds.
    #[error("{what} is more than the format holds")]
    TooLarge {
        /// What.
        what: &'static str,
    },
    /// The new method is wrong: a fault of this crate.
    #[error("the new method is wrong: {0}")]
    Wrong(Finding),
}

impl PropagateError {
    /// Whether it tells of a fault of this crate rather than of the method.
    pub fn is_fault(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Wrong(_))
    }
}
