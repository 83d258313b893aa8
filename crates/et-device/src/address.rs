//! Addresses on a device, and the arithmetic that is allowed on them.

use core::fmt;
use core::num::NonZeroU64;

/// A power of two in bytes. Ordered by size; there is no upper limit but `2^63`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Alignment(NonZeroU64);

impl Alignment {
    /// One byte: any address.
    pub const ONE: Self = Self(NonZeroU64::MIN);
    /// What planned host memory gets, in bytes (64: a cache line).
    pub const HOST: Self = Self::constant(64);
    /// What planned device memory gets, in bytes (256: what device libraries expect).
    pub const DEVICE: Self = Self::constant(256);

    /// The alignment of `nbytes` bytes; `None` if that is not a power of two.
    pub const fn new(nbytes: u64) -> Option<Self> {
        match NonZeroU64::new(nbytes) {
            Some(n) if n.is_power_of_two() => Some(Self(n)),
            _ => None,
        }
    }

    const fn constant(nbytes: u64) -> Self {
        match Self::new(nbytes) {
            Some(alignment) => alignment,
            None => Self::ONE,
        }
    }

    /// In bytes.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// `value` rounded up to a multiple of this; `None` if that does not fit.
    pub const fn round_up(self, value: u64) -> Option<u64> {
        value.checked_next_multiple_of(self.0.get())
    }

    /// Whether `value` is a multiple of this.
    pub const fn divides(self, value: u64) -> bool {
        value.trailing_zeros() >= self.0.get().trailing_zeros()
    }
}

/// An address in a device's address space. A number, not a Rust pointer: it cannot be dereferenced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DevicePtr(NonZeroU64);

impl DevicePtr {
    /// The address `address`; `None` for 0.
    pub const fn new(address: u64) -> Option<Self> {
        match NonZeroU64::new(address) {
            Some(address) => Some(Self(address)),
            None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The address `nbytes` further; `None` if that wraps.
    pub const fn checked_add(self, nbytes: u64) -> Option<Self> {
        match self.0.checked_add(nbytes) {
            Some(address) => Some(Self(address)),
            None => None,
        }
    }

    /// Whether the address is a multiple of `alignment`.
    pub const fn is_aligned(self, alignment: Alignment) -> bool {
        alignment.divides(self.0.get())
    }
}

impl fmt::Debug for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePtr({:#x})", self.0)
    }
}

/// A claim on `len` bytes at `base`. Proves that `base + len` does not wrap, and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceSpan {
    base: DevicePtr,
    len: u64,
}

impl DeviceSpan {
    /// `len` bytes at `base`.
    ///
    /// # Errors
    /// [`SpanError::Wraps`] if `base + len` is not a 64-bit number.
    pub const fn new(base: DevicePtr, len: u64) -> Result<Self, SpanError> {
        match base.checked_add(len) {
            Some(_) => Ok(Self { base, len }),
            None => Err(SpanError::Wraps {
                base: base.get(),
                len,
            }),
        }
    }

    /// The first address.
    pub const fn base(self) -> DevicePtr {
        self.base
    }

    /// In bytes.
    pub const fn len(self) -> u64 {
        self.len
    }

    /// Whether the span holds no byte.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// One past the last address.
    pub const fn end(self) -> u64 {
        // `new` proved that this does not wrap.
        self.base.get().wrapping_add(self.len)
    }

    /// The `len` bytes that start `offset` bytes into this span.
    ///
    /// # Errors
    /// [`SpanError::OutOfRange`] if they are not all inside it.
    pub const fn subspan(self, offset: u64, len: u64) -> Result<Self, SpanError> {
        let out_of_range = SpanError::OutOfRange {
            offset,
            len,
            available: self.len,
        };
        match offset.checked_add(len) {
            Some(end) if end <= self.len => {}
            _ => return Err(out_of_range),
        }
        match self.base.checked_add(offset) {
            Some(base) => Ok(Self { base, len }),
            None => Err(out_of_range),
        }
    }

    /// Whether every byte of `other` is in this span.
    pub const fn contains(self, other: Self) -> bool {
        self.base.get() <= other.base.get() && other.end() <= self.end()
    }

    /// Whether the two have a byte in common.
    pub const fn overlaps(self, other: Self) -> bool {
        !self.is_empty()
            && !other.is_empty()
            && self.base.get() < other.end()
            && other.base.get() < self.end()
    }
}

impl fmt::Debug for DeviceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSpan({:#x}..{:#x})", self.base.get(), self.end())
    }
}

/// Why a span cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// The end is past the address space.
    #[error("{len} bytes at address {base:#x} wrap around the address space")]
    Wraps {
        /// First address.
        base: u64,
        /// Bytes.
        len: u64,
    },
    /// The part is not inside the whole.
    #[error("{len} bytes at offset {offset} are outside a span of {available} bytes")]
    OutOfRange {
        /// Bytes from the start of the whole.
        offset: u64,
        /// Bytes asked for.
        len: u64,
        /// Bytes of the whole.
        available: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edge() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            0..64u64,
            (u64::MAX - 64)..=u64::MAX,
            (1u64 << 63) - 8..(1 << 63) + 8
        ]
    }

    proptest! {
        #[test]
        fn spans_exist_exactly_where_u128_says(base in edge(), len in edge()) {
            let Some(ptr) = DevicePtr::new(base) else { return Ok(()) };
            let fits = u128::from(base) + u128::from(len) <= u128::from(u64::MAX);
            prop_assert_eq!(DeviceSpan::new(ptr, len).is_ok(), fits);
        }

        #[test]
        fn subspans_exist_exactly_where_u128_says(base in edge(), whole in edge(), offset in edge(), len in edge()) {
            let Some(Ok(span)) = DevicePtr::new(base).map(|p| DeviceSpan::new(p, whole)) else { return Ok(()) };
            let fits = u128::from(offset) + u128::from(len) <= u128::from(whole);
            let part = span.subspan(offset, len);
            prop_assert_eq!(part.is_ok(), fits);
            if let Ok(part) = part {
                prop_assert!(span.contains(part));
                prop_assert_eq!(part.base().get(), base + offset);
            }
        }

        #[test]
        fn overlap_agrees_with_u128(a in 1..64u64, la in 0..16u64, b in 1..64u64, lb in 0..16u64) {
            let span = |base, len| DeviceSpan::new(DevicePtr::new(base).unwrap(), len).unwrap();
            let shared = (a..a + la).any(|byte| (b..b + lb).contains(&byte));
            prop_assert_eq!(span(a, la).overlaps(span(b, lb)), shared);
        }

        #[test]
        fn rounding_agrees_with_u128(value in edge(), shift in 0..64u32) {
            let alignment = Alignment::new(1 << shift).unwrap();
            let expected = u128::from(value).next_multiple_of(1 << shift);
            prop_assert_eq!(alignment.round_up(value).map(u128::from), u64::try_from(expected).ok().map(u128::from));
            prop_assert_eq!(alignment.divides(value), u128::from(value) % (1u128 << shift) == 0);
        }
    }

    #[test]
    fn only_powers_of_two_align() {
        for nbytes in [0, 3, 5, 6, 12, 34, u64::MAX] {
            assert_eq!(Alignment::new(nbytes), None, "{nbytes}");
        }
        assert_eq!(Alignment::HOST.get(), 64);
        assert_eq!(Alignment::DEVICE.get(), 256);
    }

    #[test]
    fn subspan_rejects_offsets_that_wrap() {
        let span = DeviceSpan::new(DevicePtr::new(4096).unwrap(), 4096).unwrap();
        let error = span.subspan(u64::MAX - 15, 64).unwrap_err();
        assert_eq!(
            error,
            SpanError::OutOfRange {
                offset: u64::MAX - 15,
                len: 64,
                available: 4096
            }
        );
    }

    #[test]
    fn r_ha_02_an_empty_part_may_sit_at_the_end_but_not_beyond() {
        let span = DeviceSpan::new(DevicePtr::new(8).unwrap(), 8).unwrap();
        assert!(span.subspan(8, 0).unwrap().is_empty());
        assert!(span.subspan(9, 0).is_err());
    }
}
