//! Errors of the runtime as failures of the command: whose fault, and what to do.

use crate::failure::{self, Blame, Failure};
use et_device::DeviceError;
use et_kernel::{BackendError, KernelError};
use et_module::{Error, ErrorKind};
use et_schema::{ReadError, SourceError};

/// The failure that an error of the runtime is, for a program called `name`.
pub(super) fn failure(name: &str, simulated: bool, error: &Error) -> Failure {
    let mut message = failure::with_causes(error);
    if error.place().file.is_none() {
        message = format!("{name}: {message}");
    }
    if let Some(advice) = advice(error, simulated) {
        message.push_str(advice);
    }
    let mut failure = Failure::new(blame(error), error.id(), message).with("code", error.code());
    let place = error.place();
    if let Some(method) = &place.method {
        failure = failure.with("method", method.as_str());
    }
    if let Some(instruction) = place.instruction {
        failure = failure.with("instruction", instruction);
    }
    if let Some(operator) = &place.name {
        failure = failure.with("operator", operator.as_str());
    }
    if let Some(value) = place.value {
        failure = failure.with("value", value);
    }
    match innermost(error).kind() {
        ErrorKind::MissingOperators { names } => failure.with("missing_operators", names.clone()),
        ErrorKind::MissingBackend { id, .. } => failure.with("missing_backends", vec![id.clone()]),
        ErrorKind::MissingData { names } => failure.with("missing_data", names.clone()),
        _ => failure,
    }
}

/// The error of the program that is nested deepest: where a delegate failed, that of the program in it.
fn innermost(error: &Error) -> &Error {
    let nested = match error.kind() {
        ErrorKind::Backend(BackendError::Other(cause)) => cause.downcast_ref::<Error>(),
        ErrorKind::Kernel(KernelError::Other(cause)) => cause.downcast_ref::<Error>(),
        _ => None,
    };
    nested.map_or(error, innermost)
}

fn blame(error: &Error) -> Blame {
    if let Some(device) = error.device_error() {
        return match device {
            DeviceError::NoAllocator { .. }
            | DeviceError::AmbiguousAllocator { .. }
            | DeviceError::Unavailable { .. }
            | DeviceError::NoSuchDevice { .. }
            | DeviceError::OutOfMemory { .. }
            | DeviceError::Driver { .. }
            | DeviceError::Poisoned { .. } => Blame::Environment,
            _ => Blame::File,
        };
    }
    match error.kind() {
        _ if error.is_host_out_of_memory() => Blame::Environment,
        ErrorKind::Source(SourceError::Failed { .. })
        | ErrorKind::Read(ReadError::Source(SourceError::Failed { .. }))
        | ErrorKind::Duplicate(_) => Blame::Environment,
        _ => Blame::File,
    }
}

/// What to do about a device or a file that is not there.
fn advice(error: &Error, simulated: bool) -> Option<&'static str> {
    if let ErrorKind::MissingData { .. } = error.kind() {
        return Some(" (give the file that has it with --data)");
    }
    match (error.device_error()?, simulated) {
        (
            DeviceError::NoAllocator { .. }
            | DeviceError::Unavailable { .. }
            | DeviceError::NoSuchDevice { .. },
            false,
        ) => Some(" (add --simulate for a simulated device)"),
        (DeviceError::NoSuchDevice { .. }, true) => Some(
            " (simulate more devices with --simulate cuda:COUNT, or move placements with --device-map)",
        ),
        _ => None,
    }
}
