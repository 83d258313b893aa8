//! Data files: read, verified, listed, and every tensor in them looked up.

use et_module::{DataFile, DataFiles};
use et_schema::ParsedFlatTensor;

use super::Outcome;

/// Accepted is a file without problems.
pub(super) fn check(bytes: Vec<u8>) -> Outcome {
    let Ok(parsed) = ParsedFlatTensor::read(bytes.as_slice()) else {
        return Outcome::Refused;
    };
    let is_usable = parsed.problems().is_usable();
    let Ok(file) = DataFile::from_bytes(bytes) else {
        return Outcome::Partly;
    };
    let count = file.keys().count();
    let added = DataFiles::new().add(file);
    if is_usable && added.is_ok() && count > 0 {
        Outcome::Accepted
    } else {
        Outcome::Partly
    }
}
