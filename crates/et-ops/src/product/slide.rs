//! Windows that slide over a plane: sums of the same few places around each element, times a factor each.
#![expect(
    clippy::needless_range_loop,
    reason = "loops over constant ranges are unrolled, and closures would be compiled without the machine's vectors"
)]

use pulp::bytemuck::cast_slice;
use pulp::{Simd, WithSimd};

use super::lanes::{Lanes, count};
use crate::number::Compute;

/// What becomes of a sum before it is stored: the bias is added, and it is kept between two numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending<T> {
    pub(crate) bias: T,
    pub(crate) low: T,
    pub(crate) high: T,
}

impl<T: Compute> Ending<T> {
    #[inline(always)]
    pub(crate) fn of(&self, sum: T) -> T {
        sum.plus(self.bias).max_nan(self.low).min_nan(self.high)
    }
}

/// A plane to make: element (y, x) is the sum of `factors[t]` times the element of `from` at
/// `offsets[t] + y * from_pitch + x`.
#[derive(Debug)]
pub(crate) struct Slide<'a, T> {
    pub(crate) from: &'a [T],
    pub(crate) from_pitch: usize,
    pub(crate) offsets: &'a [i64],
    pub(crate) factors: &'a [T],
    /// No more than the plane.
    pub(crate) to: &'a mut [T],
    pub(crate) to_pitch: usize,
    /// Rows and columns.
    pub(crate) size: [usize; 2],
    pub(crate) ending: Ending<T>,
}

/// Elements that must follow the last one that is read: vectors read on past the end of a row.
pub(crate) const SLACK: usize = 64;

impl<T: Compute> Slide<'_, T> {
    /// One by one.
    pub(super) fn plain(self) {
        let [height, width] = self.size;
        for y in 0..height {
            for x in 0..width {
                let mut sum = T::zero();
                for (offset, factor) in self.offsets.iter().zip(self.factors) {
                    let from = self.from[*offset as usize + y * self.from_pitch + x];
                    sum = sum.plus(factor.times(from));
                }
                self.to[y * self.to_pitch + x] = self.ending.of(sum);
            }
        }
    }
}

impl<T: Lanes> WithSimd for Slide<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let [height, width] = self.size;
        let lanes = count::<T, S>();
        let mut x = 0;
        while x < width {
            let vectors = if width - x > lanes { 2 } else { 1 };
            let mut y = 0;
            while y < height {
                y += match (height - y, vectors) {
                    (4.., 2) => self.tile::<S, 4, 2>(simd, y, x),
                    (2.., 2) => self.tile::<S, 2, 2>(simd, y, x),
                    (_, 2) => self.tile::<S, 1, 2>(simd, y, x),
                    (7.., _) => self.tile::<S, 7, 1>(simd, y, x),
                    (4.., _) => self.tile::<S, 4, 1>(simd, y, x),
                    (2.., _) => self.tile::<S, 2, 1>(simd, y, x),
                    _ => self.tile::<S, 1, 1>(simd, y, x),
                };
            }
            x += vectors * lanes;
        }
    }
}

impl<T: Lanes> Slide<'_, T> {
    /// `R` rows by `V` vectors; how many rows those are.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        y: usize,
        x: usize,
    ) -> usize {
        let (lanes, pitch) = (count::<T, S>(), self.from_pitch);
        let mut sums = [[T::splat(simd, T::zero()); V]; R];
        // Rows of one length, so that one check of a tap is enough for all of them.
        let start = y * pitch + x;
        let len = self.from.len() - start - (R - 1) * pitch;
        let mut rows = [&self.from[..0]; R];
        for r in 0..R {
            rows[r] = &self.from[start + r * pitch..][..len];
        }
        for (offset, factor) in self.offsets.iter().zip(self.factors) {
            let (first, factor) = (*offset as usize, T::splat(simd, *factor));
            for r in 0..R {
                let (row, _) = T::vectors::<S>(&rows[r][first..first + V * lanes]);
                for v in 0..V {
                    sums[r][v] = T::multiply_add(simd, row[v], factor, sums[r][v]);
                }
            }
        }
        let columns = (self.size[1] - x).min(V * lanes);
        for r in 0..R {
            for v in 0..V {
                sums[r][v] = ended(simd, sums[r][v], &self.ending);
            }
            let to = &mut self.to[(y + r) * self.to_pitch + x..];
            // In a plane of one column of tiles what follows a row is the next row, which is written later.
            let spills = self.size[1] == self.to_pitch && columns == self.to_pitch;
            if columns == V * lanes || spills && to.len() >= V * lanes {
                let (to, _) = T::vectors_mut::<S>(&mut to[..V * lanes]);
                to[..V].copy_from_slice(&sums[r]);
            } else {
                to[..columns].copy_from_slice(&cast_slice(&sums[r])[..columns]);
            }
        }
        R
    }
}

#[inline(always)]
fn ended<T: Lanes, S: Simd>(simd: S, sum: T::Vector<S>, ending: &Ending<T>) -> T::Vector<S> {
    let sum = T::add(simd, sum, T::splat(simd, ending.bias));
    let sum = <T as Lanes>::max_nan(simd, sum, T::splat(simd, ending.low));
    <T as Lanes>::min_nan(simd, sum, T::splat(simd, ending.high))
}
