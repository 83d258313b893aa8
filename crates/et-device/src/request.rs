//! What is asked of an allocator. Requests are structs so that they can grow without breaking allocators.

use core::num::NonZeroU64;

use crate::{Alignment, DeviceIndex, DeviceSpan};

/// A block of device memory that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocationRequest {
    /// On which device.
    pub index: DeviceIndex,
    /// How many bytes; never 0.
    pub nbytes: NonZeroU64,
    /// What the block's address must be a multiple of.
    pub alignment: Alignment,
}

impl AllocationRequest {
    /// `nbytes` bytes on device `index`, aligned to [`Alignment::DEVICE`].
    pub const fn new(index: DeviceIndex, nbytes: NonZeroU64) -> Self {
        Self {
            index,
            nbytes,
            alignment: Alignment::DEVICE,
        }
    }

    /// The same, aligned to `alignment`.
    #[must_use]
    pub const fn aligned_to(mut self, alignment: Alignment) -> Self {
        self.alignment = alignment;
        self
    }
}

/// A copy of bytes from host memory to a device. Both sides have the same length.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HostToDevice<'a> {
    /// The device that owns `dst`.
    pub index: DeviceIndex,
    /// Where the bytes go.
    pub dst: DeviceSpan,
    /// Where they come from.
    pub src: &'a [u8],
}

impl<'a> HostToDevice<'a> {
    /// All of `src` to all of `dst`.
    ///
    /// # Errors
    /// [`LengthMismatch`] if the lengths differ.
    pub fn new(index: DeviceIndex, dst: DeviceSpan, src: &'a [u8]) -> Result<Self, LengthMismatch> {
        same_length(dst.len(), host_len(src))?;
        Ok(Self { index, dst, src })
    }
}

/// A copy of bytes from a device to host memory. Both sides have the same length.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceToHost<'a> {
    /// The device that owns `src`.
    pub index: DeviceIndex,
    /// Where the bytes go.
    pub dst: &'a mut [u8],
    /// Where they come from.
    pub src: DeviceSpan,
}

impl<'a> DeviceToHost<'a> {
    /// All of `src` to all of `dst`.
    ///
    /// # Errors
    /// [`LengthMismatch`] if the lengths differ.
    pub fn new(
        index: DeviceIndex,
        dst: &'a mut [u8],
        src: DeviceSpan,
    ) -> Result<Self, LengthMismatch> {
        same_length(host_len(dst), src.len())?;
        Ok(Self { index, dst, src })
    }
}

/// A copy of bytes within a device or between two devices of one type. Both sides have the same length.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DeviceToDevice {
    /// The device that owns `dst`.
    pub dst_index: DeviceIndex,
    /// Where the bytes go.
    pub dst: DeviceSpan,
    /// The device that owns `src`.
    pub src_index: DeviceIndex,
    /// Where they come from.
    pub src: DeviceSpan,
}

impl DeviceToDevice {
    /// All of `src` to all of `dst`.
    ///
    /// # Errors
    /// [`LengthMismatch`] if the lengths differ.
    pub const fn new(
        (dst_index, dst): (DeviceIndex, DeviceSpan),
        (src_index, src): (DeviceIndex, DeviceSpan),
    ) -> Result<Self, LengthMismatch> {
        match same_length(dst.len(), src.len()) {
            Ok(()) => Ok(Self {
                dst_index,
                dst,
                src_index,
                src,
            }),
            Err(error) => Err(error),
        }
    }
}

/// A queue of work on a device, as its allocator numbers it. Opaque: only that allocator can tell what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct StreamHandle(u64);

impl StreamHandle {
    /// The stream that the allocator knows as `raw` (for CUDA: the `CUstream` as a number).
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The allocator's number.
    pub const fn as_raw(self) -> u64 {
        self.0
    }
}

/// How much memory a device has, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Not in use by anybody.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

impl MemoryInfo {
    /// `free` of `total` bytes.
    pub const fn new(free: u64, total: u64) -> Self {
        Self { free, total }
    }
}

/// The two sides of a copy have different lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a copy of {src} bytes into {dst} bytes")]
pub struct LengthMismatch {
    /// Bytes of the target.
    pub dst: u64,
    /// Bytes of the source.
    pub src: u64,
}

const fn same_length(dst: u64, src: u64) -> Result<(), LengthMismatch> {
    if dst == src {
        Ok(())
    } else {
        Err(LengthMismatch { dst, src })
    }
}

/// A slice's length; no slice is longer than a `u64` can say.
fn host_len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DevicePtr;

    #[test]
    fn copies_of_unequal_lengths_cannot_be_asked_for() {
        let span = DeviceSpan::new(DevicePtr::new(64).unwrap(), 4).unwrap();
        let other = DeviceSpan::new(DevicePtr::new(128).unwrap(), 5).unwrap();
        let index = DeviceIndex::ZERO;
        assert_eq!(
            HostToDevice::new(index, span, &[0; 5]).unwrap_err(),
            LengthMismatch { dst: 4, src: 5 }
        );
        assert_eq!(
            DeviceToHost::new(index, &mut [0; 3], span).unwrap_err(),
            LengthMismatch { dst: 3, src: 4 }
        );
        assert_eq!(
            DeviceToDevice::new((index, span), (index, other)).unwrap_err(),
            LengthMismatch { dst: 4, src: 5 }
        );
    }
}
