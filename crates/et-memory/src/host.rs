//! One owned, aligned, zeroed block of host memory.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::fmt;
use core::ptr::NonNull;
use core::slice;

use et_device::Alignment;

use crate::{HostSpan, MemoryError};

/// A block of host memory that starts as zeros and stays at its address when the buffer is moved.
///
/// Planned values are reached through raw pointers into the block; that is why this is not a `Box<[u8]>`, whose moves
/// would invalidate them.
pub struct HostBuffer {
    base: NonNull<u8>,
    nbytes: usize,
    /// What the system gave: the buffer, and what lies before it up to its alignment.
    block: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is plain bytes that only this value owns; access through `&self` reads, through `&mut self` writes.
unsafe impl Send for HostBuffer {}
// SAFETY: as above.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// `nbytes` zero bytes, aligned to [`Alignment::HOST`] at least.
    ///
    /// # Errors
    /// [`MemoryError::HostOutOfMemory`] if there is not so much, or if it cannot be addressed.
    pub fn zeroed(nbytes: u64, alignment: Alignment) -> Result<Self, MemoryError> {
        let failed = MemoryError::HostOutOfMemory { nbytes };
        let alignment = alignment.max(Alignment::HOST);
        let (size, layout) = host_layout(nbytes, alignment).ok_or_else(|| failed.clone())?;
        // SAFETY: the layout's size is not zero; `host_layout` saw to that.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(failed)?;
        let mut buffer = Self {
            base: block,
            nbytes: size,
            block,
            layout,
        };
        let skip = bytes_to_aligned(block, alignment)
            .filter(|skip| {
                skip.checked_add(size)
                    .is_some_and(|end| end <= layout.size())
            })
            .expect("the layout has room for the alignment");
        // SAFETY: `skip + size` bytes are inside the block, as was just checked.
        buffer.base = unsafe { block.add(skip) };
        Ok(buffer)
    }

    /// In bytes.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// The whole block, as a claim that carries no lifetime.
    pub fn span(&self) -> HostSpan {
        // The allocation exists, so its end cannot wrap.
        HostSpan::new(self.base, self.nbytes)
    }

    /// The bytes.
    ///
    /// # Safety
    /// Nobody writes the block through a [`HostSpan`] while the slice is alive.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the block is live and initialised (zeroed at birth); the caller excludes writers.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.nbytes) }
    }

    /// The bytes, to write.
    ///
    /// # Safety
    /// Nobody reads or writes the block through a [`HostSpan`] while the slice is alive.
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block is live and initialised; the caller excludes other access.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.nbytes) }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: `block` came from `alloc_zeroed` with this layout, and this is its only release.
        unsafe { dealloc(self.block.as_ptr(), self.layout) };
    }
}

impl fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBuffer({} bytes)", self.nbytes)
    }
}

/// How many bytes behind `block` the next multiple of `alignment` is.
fn bytes_to_aligned(block: NonNull<u8>, alignment: Alignment) -> Option<usize> {
    let address = u64::try_from(block.addr().get()).ok()?;
    let skip = alignment.round_up(address)?.checked_sub(address)?;
    usize::try_from(skip).ok()
}

/// What allocators align to without being asked. Zeroed memory of a stricter alignment they fill byte by byte, so that
/// every page is touched; from this one on, large blocks are fresh pages of the system's.
const NATURAL: usize = 16;

/// The size as the host counts, and the layout of a block with room for it at any multiple of `alignment`.
fn host_layout(nbytes: u64, alignment: Alignment) -> Option<(usize, Layout)> {
    let size = usize::try_from(nbytes).ok()?;
    let skipped = usize::try_from(alignment.get())
        .ok()?
        .saturating_sub(NATURAL);
    // One byte at least, so that an empty buffer has an address of its own too.
    let layout = Layout::from_size_align(size.max(1).checked_add(skipped)?, NATURAL);
    Some((size, layout.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_zeroed_and_aligned() {
        for (nbytes, alignment) in [(0, 1), (1, 1), (100, 64), (4096, 4096), (7, 1 << 16)] {
            let buffer = HostBuffer::zeroed(nbytes, Alignment::new(alignment).unwrap()).unwrap();
            // SAFETY: nothing else uses the buffer.
            let bytes = unsafe { buffer.bytes() };
            assert_eq!(bytes.len() as u64, nbytes);
            assert!(bytes.iter().all(|&b| b == 0));
            assert_eq!(bytes.as_ptr() as u64 % alignment.max(64), 0);
        }
    }

    #[test]
    fn a_large_buffer_takes_no_memory_before_it_is_used() {
        // The interpreter has no pages of its own.
        if cfg!(miri) {
            return;
        }
        // What is touched of it is a byte at each end. Addresses of 32 bits are soon used up.
        let nbytes: u64 = if cfg!(target_pointer_width = "64") {
            8 << 30
        } else {
            1 << 29
        };
        let mut buffer = HostBuffer::zeroed(nbytes, Alignment::new(4096).unwrap()).unwrap();
        let last = usize::try_from(nbytes - 1).unwrap();
        // SAFETY: nothing else uses the buffer.
        let bytes = unsafe { buffer.bytes_mut() };
        bytes[0] = 1;
        assert_eq!(bytes[last], 0);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for nbytes in [1 << 62, u64::MAX, u64::MAX - 63, (1 << 63) - 1] {
            let error = HostBuffer::zeroed(nbytes, Alignment::ONE).unwrap_err();
            assert_eq!(error, MemoryError::HostOutOfMemory { nbytes });
        }
    }

    #[test]
    fn moving_a_buffer_leaves_its_bytes_where_they_are() {
        let buffer = HostBuffer::zeroed(16, Alignment::ONE).unwrap();
        let before = buffer.span().base();
        let moved = Box::new(buffer);
        assert_eq!(moved.span().base(), before);
    }
}
