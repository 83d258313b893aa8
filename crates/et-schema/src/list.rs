//! Lists of numbers that are read where they lie in the file.

use core::fmt;
use core::marker::PhantomData;

/// Numbers in the file, decoded one by one as they are asked for.
pub struct List<'a, T> {
    /// A multiple of `T::SIZE` long.
    bytes: &'a [u8],
    items: PhantomData<T>,
}

/// A number that a [`List`] can hold.
pub trait Item: Copy + sealed::Decode {}

pub(crate) mod sealed {
    /// Reading a number from its bytes in the file.
    pub trait Decode: Sized {
        /// Bytes in the file.
        const SIZE: usize;

        /// The number in the first `SIZE` bytes.
        fn decode(bytes: &[u8]) -> Option<Self>;
    }
}

macro_rules! items {
    ($($number:ty),*) => {$(
        impl sealed::Decode for $number {
            const SIZE: usize = size_of::<$number>();

            fn decode(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().copied().map(<$number>::from_le_bytes)
            }
        }

        impl Item for $number {}
    )*};
}

items!(u8, i32, u32, i64, u64, f64);

impl sealed::Decode for bool {
    const SIZE: usize = 1;

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.first().map(|byte| *byte != 0)
    }
}

impl Item for bool {}

impl<'a, T: Item> List<'a, T> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            items: PhantomData,
        }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.bytes.len().checked_div(T::SIZE).unwrap_or(0)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<T> {
        self.bytes
            .get(index.checked_mul(T::SIZE)?..)
            .and_then(T::decode)
    }

    /// The numbers in order.
    pub fn iter(&self) -> Iter<'a, T> {
        Iter {
            chunks: self.bytes.chunks_exact(T::SIZE),
            items: PhantomData,
        }
    }
}

impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self {
            bytes: &[],
            items: PhantomData,
        }
    }
}

impl<T: Item + fmt::Debug> fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Item + PartialEq> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Item> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The numbers of a [`List`], in order.
pub struct Iter<'a, T> {
    chunks: core::slice::ChunksExact<'a, u8>,
    items: PhantomData<T>,
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
            items: PhantomData,
        }
    }
}

impl<T: Item> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.chunks.next().and_then(T::decode)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

impl<T: Item> ExactSizeIterator for Iter<'_, T> {}

impl<T: Item> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<T> {
        self.chunks.next_back().and_then(T::decode)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn numbers_are_little_endian() {
        let list = List::<u32>::new(&[1, 0, 0, 0, 0, 0, 0, 0x80]);
        assert_eq!(list.len(), 2);
        assert_eq!(list.iter().collect::<Vec<_>>(), [1, 0x8000_0000]);
        assert_eq!((list.get(1), list.get(2)), (Some(0x8000_0000), None));
        assert_eq!(list.get(usize::MAX), None);
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        let list = List::<bool>::new(&[0, 1, 0xFF]);
        assert_eq!(list.iter().collect::<Vec<_>>(), [false, true, true]);
    }
}
