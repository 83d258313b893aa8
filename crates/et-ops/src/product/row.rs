//! A single row of a product: the right operand is read once, in the order in which it lies.
#![expect(
    clippy::needless_range_loop,
    reason = "loops over constant ranges are unrolled, and closures would be compiled without the machine's vectors"
)]

use std::array;

use pulp::bytemuck::cast_slice;
use pulp::{Simd, WithSimd};

use super::lanes::{Lanes, count};
use super::tile::Target;

/// Sums that are made at a time: they stay in the fastest cache. A multiple of any vector's length.
pub(super) const SUMS: usize = 1024;

/// Rows of the right operand that are read side by side.
const ROWS: usize = 8;

/// Some sums of a row, each the same as in a tile.
pub(super) struct Row<'a, T> {
    pub(super) left: &'a [T],
    /// Rows of the right operand follow each other at a distance of `stride`.
    pub(super) right: &'a [T],
    pub(super) stride: usize,
    /// No more than [`SUMS`], and as many as a vector holds at least.
    pub(super) columns: usize,
    /// With columns that lie side by side.
    pub(super) target: Target<'a, T>,
}

impl<T: Lanes> WithSimd for Row<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let mut sums = [T::zero(); SUMS];
        let (sums, _) = T::vectors_mut::<S>(&mut sums);
        let (whole, lanes) = (self.columns / count::<T, S>(), count::<T, S>());
        // Columns that fill no vector are the end of a last one, which begins earlier.
        let mut last = [T::splat(simd, T::zero())];
        let mut l = 0;
        while l < self.left.len() {
            let (sums, last) = (&mut sums[..whole], &mut last[0]);
            l += match self.left.len() - l {
                ROWS.. => self.add::<S, ROWS>(simd, l, sums, last),
                _ => self.add::<S, 1>(simd, l, sums, last),
            };
        }
        for v in 0..whole {
            self.target.at_column(v * lanes).put(simd, &[[sums[v]]]);
        }
        let rest = self.columns % lanes;
        let last: &[T] = cast_slice(&last);
        for j in 0..rest {
            self.target
                .put_one(simd, last[lanes - rest + j], 0, whole * lanes + j);
        }
    }
}

impl<T: Lanes> Row<'_, T> {
    /// The terms of `R` rows from row `l` on.
    #[inline(always)]
    fn add<S: Simd, const R: usize>(
        &self,
        simd: S,
        l: usize,
        sums: &mut [T::Vector<S>],
        last: &mut T::Vector<S>,
    ) -> usize {
        let columns = self.columns;
        let rows: [&[T]; R] = array::from_fn(|r| &self.right[(l + r) * self.stride..][..columns]);
        let mut vectors = [T::vectors::<S>(&[]).0; R];
        let mut factors = [T::splat(simd, T::zero()); R];
        for r in 0..R {
            vectors[r] = &T::vectors::<S>(rows[r]).0[..sums.len()];
            factors[r] = T::splat(simd, self.left[l + r]);
        }
        for v in 0..sums.len() {
            let mut sum = sums[v];
            for r in 0..R {
                sum = T::multiply_add(simd, factors[r], vectors[r][v], sum);
            }
            sums[v] = sum;
        }
        for r in 0..R {
            let (ends, _) = T::vectors::<S>(&rows[r][columns - count::<T, S>()..]);
            *last = T::multiply_add(simd, factors[r], ends[0], *last);
        }
        R
    }
}
