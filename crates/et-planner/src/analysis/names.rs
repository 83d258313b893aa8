//! Indices that cannot be mixed up.

use std::fmt;

/// A value of a method, by its place in the list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueIndex(u32);

impl ValueIndex {
    /// The value at this place. A file has room for fewer than 2^31 values, so every place of one fits.
    ///
    /// # Panics
    ///
    /// For 2^31 and more.
    pub fn new(index: usize) -> Self {
        let index = i32::try_from(index).expect("a method has fewer than 2^31 values");
        Self(index.cast_unsigned())
    }

    /// The place as fields of the format hold it.
    pub(crate) fn field(self) -> i32 {
        self.0.cast_signed()
    }

    /// The place.
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ValueIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
