//! An owned block, as the checks hold it.

use std::num::NonZeroU64;
use std::vec::Vec;

use crate::{
    Alignment, AllocationRequest, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan,
    DeviceToDevice, DeviceToHost, HostToDevice,
};

/// The indices of all devices; there is one at least.
pub(super) fn devices(allocator: &dyn DeviceAllocator) -> impl Iterator<Item = DeviceIndex> {
    let count = allocator
        .device_count()
        .expect("the devices can be counted");
    assert!(count >= 1, "there is no device to check");
    (0..=127).take(count as usize).map(index)
}

pub(super) fn index(number: u8) -> DeviceIndex {
    DeviceIndex::new(number).expect("at most 127")
}

pub(super) fn request(index: DeviceIndex, nbytes: u64) -> AllocationRequest {
    AllocationRequest::new(index, NonZeroU64::new(nbytes).expect("not zero"))
}

/// Bytes that differ from their neighbours and from one `seed` to the next.
pub(super) fn pattern(nbytes: usize, seed: u8) -> Vec<u8> {
    (0..nbytes)
        .map(|i| (i * 7 + i / 251) as u8 ^ seed)
        .collect()
}

/// A live block that nothing else uses. Freed, with success, when dropped.
pub(super) struct Block<'a> {
    pub(super) allocator: &'a dyn DeviceAllocator,
    pub(super) index: DeviceIndex,
    span: DeviceSpan,
}

impl<'a> Block<'a> {
    #[track_caller]
    pub(super) fn new(allocator: &'a dyn DeviceAllocator, index: DeviceIndex, nbytes: u64) -> Self {
        Self::aligned(allocator, index, nbytes, Alignment::DEVICE)
            .unwrap_or_else(|error| panic!("{nbytes} bytes on device {index}: {error}"))
    }

    pub(super) fn aligned(
        allocator: &'a dyn DeviceAllocator,
        index: DeviceIndex,
        nbytes: u64,
        alignment: Alignment,
    ) -> Result<Self, DeviceError> {
        let span = allocator.allocate(&request(index, nbytes).aligned_to(alignment))?;
        Ok(Self::own(allocator, index, span))
    }

    /// `span` came from `allocator` on device `index`, and nobody else has it.
    pub(super) fn own(
        allocator: &'a dyn DeviceAllocator,
        index: DeviceIndex,
        span: DeviceSpan,
    ) -> Self {
        Self {
            allocator,
            index,
            span,
        }
    }

    pub(super) fn span(&self) -> DeviceSpan {
        self.span
    }

    /// Gives up the block without freeing it.
    pub(super) fn into_span(self) -> DeviceSpan {
        let span = self.span;
        core::mem::forget(self);
        span
    }

    pub(super) fn part(&self, offset: u64, nbytes: u64) -> DeviceSpan {
        self.span.subspan(offset, nbytes).expect("inside the block")
    }

    #[track_caller]
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let dst = self.part(offset, bytes.len() as u64);
        let copy = HostToDevice::new(self.index, dst, bytes).expect("equal lengths");
        // SAFETY: a part of a live block, and `&mut self` excludes other users.
        unsafe { self.allocator.copy_host_to_device(copy) }.expect("a copy to the device");
    }

    #[track_caller]
    pub(super) fn read_part(&self, offset: u64, nbytes: u64) -> Vec<u8> {
        // No allocator is likely to copy this by accident.
        let mut bytes = std::vec![0x5A; usize::try_from(nbytes).expect("small")];
        let src = self.part(offset, nbytes);
        let copy = DeviceToHost::new(self.index, &mut bytes, src).expect("equal lengths");
        // SAFETY: a part of a live block, and `&self` excludes writers.
        unsafe { self.allocator.copy_device_to_host(copy) }.expect("a copy to the host");
        bytes
    }

    #[track_caller]
    pub(super) fn read(&self) -> Vec<u8> {
        self.read_part(0, self.span.len())
    }

    #[track_caller]
    pub(super) fn fill(&mut self, offset: u64, nbytes: u64, value: u8) {
        let dst = self.part(offset, nbytes);
        // SAFETY: a part of a live block, and `&mut self` excludes other users.
        unsafe { self.allocator.fill(dst, value, self.index) }.expect("a fill");
    }

    /// Copies `nbytes` bytes from `src`, starting at these offsets.
    #[track_caller]
    pub(super) fn copy_from(&mut self, offset: u64, src: &Block<'_>, from: u64, nbytes: u64) {
        let (dst, src_part) = (self.part(offset, nbytes), src.part(from, nbytes));
        let copy = DeviceToDevice::new((self.index, dst), (src.index, src_part));
        let copy = copy.expect("equal lengths");
        // SAFETY: parts of two live blocks, so they do not overlap; `&mut self` and `&src` exclude other users.
        unsafe { self.allocator.copy_device_to_device(copy) }.expect("a copy on the device");
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // SAFETY: the block is live, this value owns it, and no work that uses it is queued.
        let freed = unsafe { self.allocator.deallocate(self.span, self.index) };
        if !std::thread::panicking() {
            freed.expect("a live block can be freed");
        }
    }
}
