//! Where bytes come from when a file should not be in memory as a whole.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::number::file_len;

/// Bytes that can be read at any position: a file, a mapping, a buffer, a download.
///
/// Implementations are shared between threads by `&self`; each read names its own position.
pub trait ByteSource {
    /// Total length in bytes.
    fn len(&self) -> u64;

    /// True if there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` with the bytes at `offset`.
    ///
    /// # Errors
    /// [`SourceError::OutOfRange`] if the range leaves the source, [`SourceError::Failed`] if the
    /// bytes could not be read. The contents of `into` are then unspecified.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError>;
}

/// Why a [`ByteSource`] gave no bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The range is not inside of the source.
    #[error("{nbytes} bytes at offset {offset} are not inside of {len} bytes")]
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        nbytes: u64,
        /// Length of the source.
        len: u64,
    },
    /// The device or system behind the source refused.
    #[error("reading {nbytes} bytes at offset {offset} failed: {reason}")]
    Failed {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        nbytes: u64,
        /// What the system said.
        reason: String,
    },
}

impl ByteSource for [u8] {
    fn len(&self) -> u64 {
        file_len(<[u8]>::len(self))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        let from = usize::try_from(offset).ok().and_then(|start| {
            let end = start.checked_add(into.len())?;
            self.get(start..end)
        });
        let from = from.ok_or(SourceError::OutOfRange {
            offset,
            nbytes: file_len(into.len()),
            len: file_len(<[u8]>::len(self)),
        })?;
        into.copy_from_slice(from);
        Ok(())
    }
}

impl ByteSource for Vec<u8> {
    fn len(&self) -> u64 {
        ByteSource::len(self.as_slice())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        self.as_slice().read_at(offset, into)
    }
}

impl<S: ByteSource + ?Sized> ByteSource for &S {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        (**self).read_at(offset, into)
    }
}

impl<S: ByteSource + ?Sized> ByteSource for Arc<S> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        (**self).read_at(offset, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(offset: u64, nbytes: usize, expected: Option<&[u8]>) {
        let mut into = alloc::vec![0; nbytes];
        let result = [1u8, 2, 3].read_at(offset, &mut into);
        match expected {
            Some(bytes) => assert_eq!((result, into.as_slice()), (Ok(()), bytes)),
            None => assert!(matches!(
                result,
                Err(SourceError::OutOfRange { len: 3, .. })
            )),
        }
    }

    #[test]
    fn reads_inside_of_the_bytes() {
        check(1, 2, Some(&[2, 3]));
    }

    #[test]
    fn reads_nothing_at_the_end() {
        check(3, 0, Some(&[]));
    }

    #[test]
    fn refuses_the_byte_past_the_end() {
        check(3, 1, None);
    }

    #[test]
    fn refuses_offsets_that_wrap() {
        check(u64::MAX - 1, 3, None);
    }
}
