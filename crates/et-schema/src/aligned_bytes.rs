//! Owned bytes at a 64-byte aligned address, so that data inside of them can be used in place.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::number::file_len;

/// A fixed-length byte buffer that starts at an address divisible by 64.
///
/// The FlatBuffer part of a file is kept in one of these: nobody else can change it after it was
/// verified, and inline constants lie as aligned in memory as they do in the file.
pub struct AlignedBytes {
    /// The bytes, with up to [`Self::ALIGN`] − 1 bytes of slack in front. Never grown, so the
    /// address stays.
    storage: Vec<u8>,
    range: Range<usize>,
}

/// There was no memory for a buffer whose length came from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {nbytes} bytes")]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub nbytes: u64,
}

impl AlignedBytes {
    /// Alignment of the first byte's address.
    pub const ALIGN: usize = 64;

    /// `len` zero bytes, to be filled through [`as_mut_slice`](Self::as_mut_slice).
    ///
    /// # Errors
    /// [`OutOfMemory`] if the allocator refuses or `len` does not fit this platform.
    pub fn zeroed(len: u64) -> Result<Self, OutOfMemory> {
        let oom = OutOfMemory { nbytes: len };
        let len = usize::try_from(len).map_err(|_| oom)?;
        let padded = len.checked_add(Self::ALIGN).ok_or(oom)?;
        let mut storage = Vec::new();
        storage.try_reserve_exact(padded).map_err(|_| oom)?;
        storage.resize(padded, 0);
        // An interpreter may answer `usize::MAX` (it cannot tell); the bytes are then unaligned,
        // which costs speed and nothing else.
        let offset = storage.as_ptr().align_offset(Self::ALIGN);
        let start = if offset < Self::ALIGN { offset } else { 0 };
        Ok(Self {
            storage,
            range: start..start.saturating_add(len),
        })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the allocator refuses.
    pub fn copy_of(bytes: &[u8]) -> Result<Self, OutOfMemory> {
        let mut copy = Self::zeroed(file_len(bytes.len()))?;
        copy.as_mut_slice().copy_from_slice(bytes);
        Ok(copy)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.storage
            .get(self.range.clone())
            .expect("the range was made with the storage")
    }

    /// The bytes, to be filled.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.storage
            .get_mut(self.range.clone())
            .expect("the range was made with the storage")
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBytes")
            .field("len", &self.range.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::*;

    #[test]
    fn bytes_start_aligned_also_after_a_move() {
        let boxed = Box::new(AlignedBytes::copy_of(&[7; 100]).unwrap());
        assert_eq!(
            boxed.as_slice().as_ptr().align_offset(AlignedBytes::ALIGN),
            0
        );
        assert_eq!(boxed.as_slice(), [7; 100]);
    }

    #[test]
    fn absurd_lengths_are_an_error() {
        for nbytes in [u64::MAX, u64::MAX / 2, 1 << 62] {
            assert_eq!(
                AlignedBytes::zeroed(nbytes).err(),
                Some(OutOfMemory { nbytes })
            );
        }
    }
}
