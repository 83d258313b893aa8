//! What reads files of others beside programs and data files, for tests that damage such files.

use crate::{calls, npy, value};

/// Reads an array, and sees that what was read is written and read as the same.
///
/// # Errors
///
/// What `et` says of such a file.
///
/// # Panics
///
/// If what was read is not written, or is read as something else; that is a fault.
pub fn npy(file: &[u8]) -> Result<(), String> {
    let array = npy::decode(file).map_err(|error| error.to_string())?;
    let again =
        npy::encode(array.dtype, &array.sizes, &array.bytes).map_err(|error| error.to_string())?;
    assert_eq!(
        npy::decode(&again).as_ref(),
        Ok(&array),
        "what was written is read as it was"
    );
    let tensor = value::Tensor::from_npy(array, None).map_err(|error| error.to_string())?;
    assert!(
        tensor.npy_dtype().is_some(),
        "what came from a file fits into one"
    );
    Ok(())
}

/// Reads a document of calls, without the files that it names.
///
/// # Errors
///
/// What `et` says of such a document.
pub fn calls(document: &[u8]) -> Result<(), String> {
    calls::Calls::check(document)
}
