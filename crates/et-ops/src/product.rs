//! Matrix products on slices.

mod blocked;
mod direct;
mod ending;
mod lanes;
mod pack;
mod row;
mod share;
mod slide;
#[cfg(test)]
mod tests;
mod tile;

use et_kernel::{Bool8, KernelError};

use crate::dims;
use crate::number::{Compute, Number};
pub(crate) use ending::{Bias, Ending, Line};
pub(crate) use pack::Room;
pub(crate) use slide::{Frame, Plane, Slide};

/// The most parts that an operator is done in.
pub(crate) const MOST_PARTS: usize = 8;

/// Products of two numbers that a part should have at least, to be worth waking a thread.
pub(crate) const PART: usize = 500_000;

/// A matrix in a slice: element (i, j) is at `i * row_stride + j * column_stride`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) elements: &'a [T],
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

/// A matrix to write, with dense or spread rows.
#[derive(Debug)]
pub(crate) struct MatrixMut<'a, T> {
    pub(crate) elements: &'a mut [T],
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

/// Rows, columns, and the length of the sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// How many products there are, and by how many elements the output, the left and the right operand of each are behind those of
/// the one before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    pub(crate) len: usize,
    pub(crate) steps: [usize; 3],
}

impl Series {
    /// A single product.
    pub(crate) const ONE: Self = Self {
        len: 1,
        steps: [0; 3],
    };

    /// Does `work` with the matrices of each product, until it fails.
    fn each<T, E>(
        self,
        out: MatrixMut<'_, T>,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        mut work: impl FnMut(MatrixMut<'_, T>, Matrix<'_, T>, Matrix<'_, T>) -> Result<(), E>,
    ) -> Result<(), E> {
        let [out_step, a_step, b_step] = self.steps;
        for i in 0..self.len {
            let elements = &mut out.elements[i * out_step..];
            let [a, b] = [(&a, i * a_step), (&b, i * b_step)].map(|(matrix, start)| Matrix {
                elements: &matrix.elements[start..],
                ..*matrix
            });
            work(MatrixMut { elements, ..out }, a, b)?;
        }
        Ok(())
    }
}

impl Extent {
    /// Rows that are computed side by side; parts of a product should have a multiple of so many.
    pub(crate) const TILE_ROWS: usize = tile::ROWS;
}

/// A type that products are computed in.
pub(crate) trait Product: Compute {
    /// `out = a b`, or `out += a b`, with an ending for each element.
    ///
    /// # Errors
    /// If a matrix does not have as many elements as `extent` says, or the scratch memory has no room.
    fn multiply(
        room: &mut Room<'_, Self>,
        extent: Extent,
        out: MatrixMut<'_, Self>,
        accumulate: bool,
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        ending: &Ending<'_, Self>,
    ) -> Result<(), KernelError>;

    /// `out = a b` for each product of a series, with an ending for each element.
    ///
    /// # Errors
    /// As [`multiply`](Self::multiply).
    fn multiply_each(
        room: &mut Room<'_, Self>,
        series: Series,
        extent: Extent,
        out: MatrixMut<'_, Self>,
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        ending: &Ending<'_, Self>,
    ) -> Result<(), KernelError>;

    /// Whether there is a [`slide`](Self::slide) that is better than nothing.
    const SLIDES: bool = false;

    /// Makes planes.
    fn slide<I: Iterator<Item = Plane>>(_: Slide<'_, Self, I>) {}
}

/// Fails unless all of so many matrices of `sizes`, each a step behind the one before it, are inside of a slice of `len`.
fn expect_inside(
    [count, rows, columns]: [usize; 3],
    strides: [usize; 3],
    len: usize,
) -> Result<(), KernelError> {
    let dims = [count, rows, columns].into_iter().zip(strides);
    let last = dims.clone().try_fold(0usize, |at, (size, stride)| {
        at.checked_add(size.saturating_sub(1).checked_mul(stride)?)
    });
    if last.is_some_and(|last| last < len) || count == 0 || rows == 0 || columns == 0 {
        return Ok(());
    }
    Err(dims::outside())
}

fn expect_fits<T>(
    series: Series,
    extent: Extent,
    out: &MatrixMut<'_, T>,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    ending: &Ending<'_, T>,
) -> Result<(), KernelError> {
    let Series { len, steps } = series;
    let Extent { m, n, k } = extent;
    if !ending.bias.fits(m, n) {
        return Err(KernelError::invalid("a bias of too few elements"));
    }
    let strides = [steps[0], out.row_stride, out.column_stride];
    expect_inside([len, m, n], strides, out.elements.len())?;
    let strides = [steps[1], a.row_stride, a.column_stride];
    expect_inside([len, m, k], strides, a.elements.len())?;
    let strides = [steps[2], b.row_stride, b.column_stride];
    expect_inside([len, k, n], strides, b.elements.len())
}

macro_rules! float_product {
    ($($rust:ty)+) => {$(
        impl Product for $rust {
            fn multiply(
                room: &mut Room<'_, Self>,
                extent: Extent,
                out: MatrixMut<'_, Self>,
                accumulate: bool,
                a: Matrix<'_, Self>,
                b: Matrix<'_, Self>,
                ending: &Ending<'_, Self>,
            ) -> Result<(), KernelError> {
                expect_fits(Series::ONE, extent, &out, &a, &b, ending)?;
                if extent.k == 0 {
                    plain(extent, out, accumulate, a, b, ending);
                    return Ok(());
                }
                blocked::multiply(room, extent, out, accumulate, a, b, ending)
            }

            fn multiply_each(
                room: &mut Room<'_, Self>,
                series: Series,
                extent: Extent,
                mut out: MatrixMut<'_, Self>,
                a: Matrix<'_, Self>,
                b: Matrix<'_, Self>,
                ending: &Ending<'_, Self>,
            ) -> Result<(), KernelError> {
                expect_fits(series, extent, &out, &a, &b, ending)?;
                let Extent { m, n, k } = extent;
                if series.len * m * n == 0 {
                    return Ok(());
                }
                if k > 0 && direct::multiply(series, extent, &mut out, a, b, ending) {
                    return Ok(());
                }
                series.each(out, a, b, |out, a, b| {
                    Self::multiply(room, extent, out, false, a, b, ending)
                })
            }

            const SLIDES: bool = true;

            fn slide<I: Iterator<Item = Plane>>(work: Slide<'_, Self, I>) {
                pulp::Arch::new().dispatch(work);
            }
        }
    )+};
}

float_product! { f32 f64 }

macro_rules! plain_product {
    ($($rust:ty)+) => {$(
        impl Product for $rust {
            fn multiply(
                _: &mut Room<'_, Self>,
                extent: Extent,
                out: MatrixMut<'_, Self>,
                accumulate: bool,
                a: Matrix<'_, Self>,
                b: Matrix<'_, Self>,
                ending: &Ending<'_, Self>,
            ) -> Result<(), KernelError> {
                expect_fits(Series::ONE, extent, &out, &a, &b, ending)?;
                plain(extent, out, accumulate, a, b, ending);
                Ok(())
            }

            fn multiply_each(
                _: &mut Room<'_, Self>,
                series: Series,
                extent: Extent,
                out: MatrixMut<'_, Self>,
                a: Matrix<'_, Self>,
                b: Matrix<'_, Self>,
                ending: &Ending<'_, Self>,
            ) -> Result<(), KernelError> {
                expect_fits(series, extent, &out, &a, &b, ending)?;
                if series.len * extent.m * extent.n == 0 {
                    return Ok(());
                }
                series.each(out, a, b, |out, a, b| {
                    plain(extent, out, false, a, b, ending);
                    Ok(())
                })
            }
        }
    )+};
}

plain_product! { u8 i8 i16 i32 i64 Bool8 }

/// Row by row of `b`, so that the inner loop runs along rows.
fn plain<T: Compute>(
    extent: Extent,
    out: MatrixMut<'_, T>,
    accumulate: bool,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    ending: &Ending<'_, T>,
) {
    let Extent { m, n, k } = extent;
    for i in 0..m {
        let at = |j| i * out.row_stride + j * out.column_stride;
        if !accumulate {
            (0..n).for_each(|j| out.elements[at(j)] = T::zero());
        }
        for l in 0..k {
            let factor = a.elements[i * a.row_stride + l * a.column_stride];
            for j in 0..n {
                let term = factor.times(b.elements[l * b.row_stride + j * b.column_stride]);
                out.elements[at(j)] = out.elements[at(j)].plus(term);
            }
        }
        if !ending.is_nothing() {
            (0..n).for_each(|j| out.elements[at(j)] = ending.of(out.elements[at(j)], i, j));
        }
    }
}

/// `elements *= factor`.
pub(crate) fn scale<C: Number + Compute>(elements: &mut [C], factor: C) {
    if !factor.equal(C::one()) {
        elements.iter_mut().for_each(|x| *x = x.times(factor));
    }
}
