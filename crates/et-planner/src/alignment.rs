//! What places in planned buffers are multiples of.

use thiserror::Error;

/// What the places of values are multiples of, in bytes: a power of two of at least 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alignment(u64);

/// A number that is no [`Alignment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{found} is no alignment: it must be a power of two of at least {}", Alignment::LEAST.get())]
pub struct AlignmentError {
    /// The number.
    pub found: u64,
}

impl Alignment {
    /// No value is aligned to less than 16 bytes, as the C++ runtime's kernels expect.
    pub const LEAST: Self = Self(16);

    /// Multiples of this many bytes.
    ///
    /// # Errors
    ///
    /// [`AlignmentError`] for what is no power of two, or less than 16.
    pub const fn new(nbytes: u64) -> Result<Self, AlignmentError> {
        if nbytes.is_power_of_two() && nbytes >= Self::LEAST.0 {
            return Ok(Self(nbytes));
        }
        Err(AlignmentError { found: nbytes })
    }

    /// In bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The least multiple that is no less than `nbytes`; `None` if it has more than 64 bits.
    pub(crate) const fn round_up(self, nbytes: u64) -> Option<u64> {
        nbytes.checked_next_multiple_of(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_are_powers_of_two_of_at_least_16() {
        for nbytes in [16, 64, 1 << 63] {
            assert_eq!(Alignment::new(nbytes).map(Alignment::get), Ok(nbytes));
        }
        for found in [0, 1, 8, 20, 48, u64::MAX] {
            assert_eq!(Alignment::new(found), Err(AlignmentError { found }));
        }
    }
}
