//! What becomes of sums before they are stored.

use pulp::Simd;

use super::lanes::Lanes;
use crate::number::Compute;

/// A number to add to each sum, and the two numbers that sums are kept between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending<'a, T> {
    pub(crate) bias: Bias<'a, T>,
    pub(crate) low: T,
    pub(crate) high: T,
}

/// Which number is added to a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bias<'a, T> {
    Nothing,
    /// That of its row.
    Rows(&'a [T]),
    /// That of its column.
    Columns(&'a [T]),
}

impl<'a, T> Bias<'a, T> {
    /// Without the first rows and columns.
    fn from(self, row: usize, column: usize) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Rows(rows) => Self::Rows(&rows[row..]),
            Self::Columns(columns) => Self::Columns(&columns[column..]),
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
            Self::Rows(all) => all.len() >= rows,
            Self::Columns(all) => all.len() >= columns,
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

    /// What is added to the sums of a row, if that is the same for all of them.
    #[inline(always)]
    pub(super) fn of_row(&self, row: usize) -> T {
        match self.bias {
            Bias::Rows(rows) => rows[row],
            _ => T::zero(),
        }
    }

    /// What becomes of the sum at a row and a column.
    #[inline(always)]
    pub(crate) fn of(&self, sum: T, row: usize, column: usize) -> T {
        let sum = match self.bias {
            Bias::Nothing => sum,
            Bias::Rows(rows) => sum.plus(rows[row]),
            Bias::Columns(columns) => sum.plus(columns[column]),
        };
        self.kept(sum)
    }

    /// `sum` between the two numbers.
    #[inline(always)]
    pub(crate) fn kept(&self, sum: T) -> T {
        sum.max_nan(self.low).min_nan(self.high)
    }
}

/// The sums of a vector with what is added to them, between two numbers.
#[inline(always)]
pub(super) fn ended<T: Lanes, S: Simd>(
    simd: S,
    sum: T::Vector<S>,
    bias: T::Vector<S>,
    [low, high]: [T::Vector<S>; 2],
) -> T::Vector<S> {
    let sum = T::add(simd, sum, bias);
    let sum = <T as Lanes>::max_nan(simd, sum, low);
    <T as Lanes>::min_nan(simd, sum, high)
}
