//! Where bytes are: on the host or on a device.

use core::fmt;
use core::ptr::NonNull;

use et_device::{Alignment, Device, DeviceSpan};

/// A claim on `len` bytes of host memory at `base`, without a lifetime. The host's counterpart of [`DeviceSpan`].
///
/// Whoever makes one from an allocation knows that the end does not wrap; parts are checked. Reading or writing through
/// it is up to whoever can prove that the memory is live and unaliased.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HostSpan {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a span is an address and a number; it gives no access by itself.
unsafe impl Send for HostSpan {}
// SAFETY: as above.
unsafe impl Sync for HostSpan {}

impl HostSpan {
    /// `len` bytes at `base`, which are (part of) one allocation or none.
    #[inline]
    pub const fn new(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len }
    }

    /// The bytes of a slice. The span does not keep it alive or borrowed.
    pub fn of(bytes: &[u8]) -> Self {
        // The pointer is only written through by somebody who proves that it may be.
        Self {
            base: NonNull::from(bytes).cast(),
            len: bytes.len(),
        }
    }

    /// The bytes of a slice that may be written. The span does not keep it alive or borrowed.
    pub fn of_mut(bytes: &mut [u8]) -> Self {
        let len = bytes.len();
        Self {
            base: NonNull::from(bytes).cast(),
            len,
        }
    }

    /// The first address.
    #[inline]
    pub const fn base(self) -> NonNull<u8> {
        self.base
    }

    /// In bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether the span holds no byte.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The `len` bytes that start `offset` bytes into this span, if they are inside it.
    #[inline]
    pub fn subspan(self, offset: usize, len: usize) -> Option<Self> {
        let end = offset.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // Anyone may claim any span, so nothing is taken for granted here: not even that its end does not wrap.
        let base = self.base.as_ptr().wrapping_add(offset);
        (base.addr() >= self.base.addr().get())
            .then(|| NonNull::new(base))
            .flatten()
            .map(|base| Self { base, len })
    }

    /// Whether the address is a multiple of `alignment`.
    #[inline]
    pub fn is_aligned(self, alignment: Alignment) -> bool {
        u64::try_from(self.base.addr().get()).is_ok_and(|address| alignment.divides(address))
    }

    /// Whether the two have a byte in common.
    #[inline]
    pub fn overlaps(self, other: Self) -> bool {
        let (a, b) = (self.base.addr().get(), other.base.addr().get());
        let apart = match a.checked_sub(b) {
            Some(distance) => distance >= other.len,
            None => b.abs_diff(a) >= self.len,
        };
        !(self.is_empty() || other.is_empty() || apart)
    }
}

impl fmt::Debug for HostSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostSpan({:p}, {} bytes)", self.base, self.len)
    }
}

/// Where some bytes are. Whoever reads this must say what happens for device memory: it cannot be dereferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In host memory.
    Host(HostSpan),
    /// On a device that is not the CPU.
    Device(Device, DeviceSpan),
}

impl Place {
    /// The device.
    #[inline]
    pub const fn device(&self) -> Device {
        match self {
            Self::Host(_) => Device::CPU,
            Self::Device(device, _) => *device,
        }
    }

    /// In bytes.
    #[inline]
    pub fn nbytes(&self) -> u64 {
        match self {
            Self::Host(span) => u64::try_from(span.len()).unwrap_or(u64::MAX),
            Self::Device(_, span) => span.len(),
        }
    }

    /// The `nbytes` bytes that start `offset_bytes` into this place, if they are inside it.
    #[inline]
    pub fn subplace(self, offset_bytes: u64, nbytes: u64) -> Option<Self> {
        match self {
            Self::Host(span) => {
                let (offset, len) = (
                    usize::try_from(offset_bytes).ok()?,
                    usize::try_from(nbytes).ok()?,
                );
                span.subspan(offset, len).map(Self::Host)
            }
            Self::Device(device, span) => span
                .subspan(offset_bytes, nbytes)
                .ok()
                .map(|part| Self::Device(device, part)),
        }
    }

    /// Whether the address is a multiple of `alignment`.
    #[inline]
    pub fn is_aligned(&self, alignment: Alignment) -> bool {
        match self {
            Self::Host(span) => span.is_aligned(alignment),
            Self::Device(_, span) => span.base().is_aligned(alignment),
        }
    }

    /// Whether the two have a byte in common.
    #[inline]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host(a), Self::Host(b)) => a.overlaps(*b),
            (Self::Device(da, a), Self::Device(db, b)) => da == db && a.overlaps(*b),
            (Self::Host(_), Self::Device(..)) | (Self::Device(..), Self::Host(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_false_claim_has_no_parts_that_wrap() {
        let base = NonNull::new(core::ptr::without_provenance_mut(usize::MAX)).unwrap();
        let claim = HostSpan::new(base, usize::MAX);
        assert_eq!(claim.subspan(0, 8).unwrap().base(), base);
        for offset in [1, 2, usize::MAX / 2, usize::MAX - 8] {
            assert_eq!(claim.subspan(offset, 8), None);
        }
    }

    proptest! {
        #[test]
        fn host_parts_exist_exactly_where_u128_says(whole in 0..64usize, offset in any::<usize>(), len in any::<usize>(), small in any::<bool>()) {
            let (offset, len) = if small { (offset % 80, len % 80) } else { (offset, len) };
            let bytes = [0u8; 64];
            let span = HostSpan::of(&bytes[..whole]);
            let fits = offset as u128 + len as u128 <= whole as u128;
            prop_assert_eq!(span.subspan(offset, len).is_some(), fits);
        }

        #[test]
        fn host_overlap_agrees_with_counting(a in 0..32usize, la in 0..16usize, b in 0..32usize, lb in 0..16usize) {
            let bytes = [0u8; 64];
            let span = |at, len| HostSpan::of(&bytes[at..at + len]);
            let shared = (a..a + la).any(|byte| (b..b + lb).contains(&byte));
            prop_assert_eq!(span(a, la).overlaps(span(b, lb)), shared);
        }
    }
}
