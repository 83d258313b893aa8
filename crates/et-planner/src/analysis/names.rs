//! Indices that cannot be mixed up.

use std::fmt;

/// A value of a method, by its place in the list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueIndex(u32);

impl ValueIndex {
    /// The value at this place. Methods have fewer than 2^31 values, so every place of one fits.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("a method has fewer than 2^31 values"))
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
