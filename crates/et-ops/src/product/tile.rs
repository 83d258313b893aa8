//! The innermost products: a few rows by a few vectors of columns, summed up in registers.
#![expect(
    clippy::needless_range_loop,
    reason = "loops over constant ranges are unrolled, and closures would be compiled without the machine's vectors"
)]

use pulp::bytemuck::cast_slice;
use pulp::{Simd, WithSimd};

use super::ending::{Bias, Ending, ended, ended_one};
use super::lanes::{Lanes, count};

/// Rows of the largest tile.
pub(super) const ROWS: usize = 6;

/// Where a tile's sums go.
#[derive(Debug)]
pub(super) struct Target<'a, T> {
    /// From the tile's first element on.
    pub(super) elements: &'a mut [T],
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
    /// Columns that exist; the tile's others are left out.
    pub(super) columns: usize,
    pub(super) accumulate: bool,
    /// For sums that are whole: the ending of the product.
    pub(super) ending: Option<&'a Ending<'a, T>>,
    /// Where in the product the tile's first element is.
    pub(super) place: [usize; 2],
}

/// `R` rows by `V` vectors of columns.
pub(super) struct Tile<'a, T, const R: usize, const V: usize> {
    /// Rows of the left operand, all of one length.
    pub(super) rows: [&'a [T]; R],
    /// Rows of the right operand follow each other at a distance of `stride`.
    pub(super) panel: &'a [T],
    pub(super) stride: usize,
    pub(super) target: Target<'a, T>,
}

impl<T: Lanes, const R: usize, const V: usize> WithSimd for Tile<'_, T, R, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let sums = self.sums(simd);
        self.target.put(simd, &sums);
    }
}

impl<T: Lanes, const R: usize, const V: usize> Tile<'_, T, R, V> {
    #[inline(always)]
    fn sums<S: Simd>(&self, simd: S) -> [[T::Vector<S>; V]; R] {
        let width = V * count::<T, S>();
        let mut rows = self.rows;
        let len = rows[0].len();
        for row in &mut rows {
            *row = &row[..len];
        }
        let mut sums = [[T::splat(simd, T::zero()); V]; R];
        for l in 0..len {
            let (right, _) = T::vectors::<S>(&self.panel[l * self.stride..][..width]);
            let mut b = [T::splat(simd, T::zero()); V];
            b.copy_from_slice(&right[..V]);
            for i in 0..R {
                let a = T::splat(simd, rows[i][l]);
                for v in 0..V {
                    sums[i][v] = T::multiply_add(simd, a, b[v], sums[i][v]);
                }
            }
        }
        sums
    }
}

impl<T: Lanes> Target<'_, T> {
    /// What begins at a later column.
    #[inline(always)]
    pub(super) fn at_column(&mut self, column: usize) -> Target<'_, T> {
        Target {
            elements: &mut self.elements[column * self.column_stride..],
            columns: self.columns - column,
            place: [self.place[0], self.place[1] + column],
            ..*self
        }
    }

    /// Stores one sum.
    #[inline(always)]
    pub(super) fn put_one<S: Simd>(&mut self, simd: S, sum: T, row: usize, column: usize) {
        let to = &mut self.elements[row * self.row_stride + column * self.column_stride];
        let sum = if self.accumulate { to.plus(sum) } else { sum };
        *to = match self.ending {
            Some(ending) => {
                let [i, j] = self.place;
                ended_one(simd, sum, ending, i + row, j + column)
            }
            None => sum,
        };
    }

    #[inline(always)]
    pub(super) fn put<S: Simd, const R: usize, const V: usize>(
        self,
        simd: S,
        sums: &[[T::Vector<S>; V]; R],
    ) {
        let width = V * count::<T, S>();
        if self.column_stride != 1 || self.columns < width {
            return self.put_each(simd, sums);
        }
        let bounds = match self.ending {
            Some(ending) => [T::splat(simd, ending.low), T::splat(simd, ending.high)],
            None => [T::splat(simd, T::zero()); 2],
        };
        let mut lines = [[T::splat(simd, T::one()), T::splat(simd, T::zero())]; V];
        if let Some(Bias::Columns(columns)) = self.ending.map(|ending| ending.bias) {
            for v in 0..V {
                let place = self.place[1] + v * count::<T, S>();
                if let Some(factors) = columns.factors {
                    lines[v][0] = T::vectors::<S>(&factors[place..][..count::<T, S>()]).0[0];
                }
                lines[v][1] = T::vectors::<S>(&columns.terms[place..][..count::<T, S>()]).0[0];
            }
        }
        let (ones, zeros) = ([T::one(); R], [T::zero(); R]);
        let (mut factors, mut terms, mut by_rows) = (&ones, &zeros, false);
        if let Some(Bias::Rows(rows)) = self.ending.map(|ending| ending.bias) {
            by_rows = true;
            let what = "a line has as many elements as there are rows";
            terms = rows.terms[self.place[0]..].first_chunk().expect(what);
            if let Some(all) = rows.factors {
                factors = all[self.place[0]..].first_chunk().expect(what);
            }
        }
        for i in 0..R {
            let row = &mut self.elements[i * self.row_stride..][..width];
            let (row, _) = T::vectors_mut::<S>(row);
            let mut sums = sums[i];
            if self.accumulate {
                for v in 0..V {
                    sums[v] = T::add(simd, row[v], sums[v]);
                }
            }
            if self.ending.is_some() {
                if by_rows {
                    lines = [[T::splat(simd, factors[i]), T::splat(simd, terms[i])]; V];
                }
                for v in 0..V {
                    sums[v] = ended::<T, S>(simd, sums[v], lines[v], bounds);
                }
            }
            row[..V].copy_from_slice(&sums);
        }
    }

    /// One by one, for places that are no vectors.
    #[inline(always)]
    fn put_each<S: Simd, const R: usize, const V: usize>(
        mut self,
        simd: S,
        sums: &[[T::Vector<S>; V]; R],
    ) {
        // A copy, so that the sums themselves can stay in registers.
        let mut stored = [[T::splat(simd, T::zero()); V]; R];
        for i in 0..R {
            for v in 0..V {
                stored[i][v] = sums[i][v];
            }
        }
        for j in 0..self.columns.min(V * count::<T, S>()) {
            for i in 0..R {
                self.put_one(simd, cast_slice(&stored[i])[j], i, j);
            }
        }
    }
}

/// Products of `R` rows of the left operand with `C` columns of the right one, where both lie in one piece.
pub(super) struct Dots<'a, T, const R: usize, const C: usize> {
    pub(super) rows: [&'a [T]; R],
    pub(super) columns: [&'a [T]; C],
    pub(super) target: Target<'a, T>,
}

impl<T: Lanes, const R: usize, const C: usize> WithSimd for Dots<'_, T, R, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let len = self.rows[0].len();
        let whole = len / count::<T, S>();
        let mut rows = [T::vectors::<S>(&[]); R];
        for i in 0..R {
            let (vectors, rest) = T::vectors::<S>(&self.rows[i][..len]);
            rows[i] = (&vectors[..whole], rest);
        }
        let mut columns = [T::vectors::<S>(&[]); C];
        for j in 0..C {
            let (vectors, rest) = T::vectors::<S>(&self.columns[j][..len]);
            columns[j] = (&vectors[..whole], rest);
        }
        let mut sums = [[T::splat(simd, T::zero()); C]; R];
        for l in 0..whole {
            for j in 0..C {
                let b = columns[j].0[l];
                for i in 0..R {
                    sums[i][j] = T::multiply_add(simd, rows[i].0[l], b, sums[i][j]);
                }
            }
        }
        for i in 0..R {
            for j in 0..C {
                let mut sum = T::sum(simd, sums[i][j]);
                for (a, b) in rows[i].1.iter().zip(columns[j].1) {
                    sum = sum.plus(a.times(*b));
                }
                self.target.put_one(simd, sum, i, j);
            }
        }
    }
}
