//! What becomes of sums before they are stored.

use std::ops::Range;

use pulp::Simd;
use pulp::bytemuck::cast_slice;

use super::lanes::Lanes;
use crate::number::Compute;

/// What sums are multiplied by, what is added to them then, and the two numbers that they are kept between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending<'a, T> {
    pub(crate) bias: Bias<'a, T>,
    pub(crate) low: T,
    pub(crate) high: T,
}

/// Which line's factor and term become part of a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bias<'a, T> {
    Nothing,
    /// Those of its row.
    Rows(Line<'a, T>),
    /// Those of its column.
    Columns(Line<'a, T>),
}

/// A term for each row or column, and maybe a factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a, T> {
    pub(crate) factors: Option<&'a [T]>,
    pub(crate) terms: &'a [T],
}

impl<'a, T> Line<'a, T> {
    /// Terms to add.
    pub(crate) const fn new(terms: &'a [T]) -> Self {
        Self {
            factors: None,
            terms,
        }
    }

    /// Those in `range` only.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        Self {
            factors: self.factors.map(|factors| &factors[range.clone()]),
            terms: &self.terms[range],
        }
    }

    /// Without the first.
    fn from(self, start: usize) -> Self {
        let end = self.terms.len();
        self.part(start..end)
    }

    fn has(&self, len: usize) -> bool {
        let factors = self.factors.map_or(len, <[T]>::len);
        self.terms.len() >= len && factors >= self.terms.len()
    }
}

impl<T: Compute> Line<'_, T> {
    /// The factor and the term at a place.
    #[inline(always)]
    fn at(&self, place: usize) -> [T; 2] {
        let factor = self.factors.map_or(T::one(), |factors| factors[place]);
        [factor, self.terms[place]]
    }
}

impl<T> Bias<'_, T> {
    /// Without the first rows and columns.
    fn from(self, row: usize, column: usize) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Rows(rows) => Self::Rows(rows.from(row)),
            Self::Columns(columns) => Self::Columns(columns.from(column)),
        }
    }

    fn transposed(self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Rows(rows) => Self::Columns(rows),
            Self::Columns(columns) => Self::Rows(columns),
        }
    }

    /// Whether there is a number for each of so many rows and columns.
    pub(crate) fn fits(&self, rows: usize, columns: usize) -> bool {
        match self {
            Self::Nothing => true,
            Self::Rows(all) => all.has(rows),
            Self::Columns(all) => all.has(columns),
        }
    }
}

impl<'a, T: Compute> Ending<'a, T> {
    /// Sums stay what they are.
    pub(crate) const NOTHING: Self = Self {
        bias: Bias::Nothing,
        low: T::LOWEST,
        high: T::HIGHEST,
    };

    /// Whether sums are kept between two numbers that are not as far apart as can be.
    pub(crate) fn clamps(&self) -> bool {
        T::LOWEST.less(self.low) || self.high.less(T::HIGHEST)
    }

    /// Whether sums stay what they are.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.bias, Bias::Nothing) && !self.clamps()
    }

    /// Without the first rows and columns.
    pub(super) fn from(self, row: usize, column: usize) -> Self {
        Self {
            bias: self.bias.from(row, column),
            ..self
        }
    }

    pub(super) fn transposed(self) -> Self {
        Self {
            bias: self.bias.transposed(),
            ..self
        }
    }

    /// What becomes part of the sums of a row, if that is the same for all of them.
    #[inline(always)]
    pub(super) fn of_row(&self, row: usize) -> [T; 2] {
        match self.bias {
            Bias::Rows(rows) => rows.at(row),
            _ => [T::one(), T::zero()],
        }
    }

    /// What becomes of the sum at a row and a column.
    #[inline(always)]
    pub(crate) fn of(&self, sum: T, row: usize, column: usize) -> T {
        let [factor, term] = match self.bias {
            Bias::Nothing => return self.kept(sum),
            Bias::Rows(rows) => rows.at(row),
            Bias::Columns(columns) => columns.at(column),
        };
        self.kept(sum.times(factor).plus(term))
    }

    /// `sum` between the two numbers.
    #[inline(always)]
    pub(crate) fn kept(&self, sum: T) -> T {
        sum.max_nan(self.low).min_nan(self.high)
    }
}

/// The sums of a vector, times their factors, with their terms, between two numbers.
#[inline(always)]
pub(super) fn ended<T: Lanes, S: Simd>(
    simd: S,
    sum: T::Vector<S>,
    [factor, term]: [T::Vector<S>; 2],
    [low, high]: [T::Vector<S>; 2],
) -> T::Vector<S> {
    let sum = T::multiply_add(simd, sum, factor, term);
    let sum = <T as Lanes>::max_nan(simd, sum, low);
    <T as Lanes>::min_nan(simd, sum, high)
}

/// A single sum, rounded as those of [`ended`].
#[inline(always)]
pub(super) fn ended_one<T: Lanes, S: Simd>(
    simd: S,
    sum: T,
    ending: &Ending<'_, T>,
    row: usize,
    column: usize,
) -> T {
    let [factor, term] = match ending.bias {
        Bias::Nothing => [T::one(), T::zero()],
        Bias::Rows(rows) => rows.at(row),
        Bias::Columns(columns) => columns.at(column),
    };
    let [sum, factor, term] = [sum, factor, term].map(|x| T::splat(simd, x));
    let bounds = [ending.low, ending.high].map(|x| T::splat(simd, x));
    let sums = [ended::<T, S>(simd, sum, [factor, term], bounds)];
    cast_slice(&sums)[0]
}
