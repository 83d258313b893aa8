//! Matrix products on slices.

mod blocked;
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

use crate::dims::Walk;
use crate::number::{Compute, Number};
pub(crate) use ending::{Bias, Ending};
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

    /// Whether there is a [`slide`](Self::slide) that is better than nothing.
    const SLIDES: bool = false;

    /// Makes planes.
    fn slide<I: Iterator<Item = Plane>>(_: Slide<'_, Self, I>) {}
}

/// Fails unless `rows` by `columns` elements are inside of a slice of `len`.
fn expect_inside(
    (rows, columns): (usize, usize),
    (row_stride, column_stride): (usize, usize),
    len: usize,
) -> Result<(), KernelError> {
    let [row_stride, column_stride] = [row_stride as isize, column_stride as isize];
    Walk::new([(rows, [row_stride]), (columns, [column_stride])]).check([len])
}

fn expect_fits<T>(
    extent: Extent,
    out: &MatrixMut<'_, T>,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    ending: &Ending<'_, T>,
) -> Result<(), KernelError> {
    let Extent { m, n, k } = extent;
    if !ending.bias.fits(m, n) {
        return Err(KernelError::invalid("a bias of too few elements"));
    }
    expect_inside(
        (m, n),
        (out.row_stride, out.column_stride),
        out.elements.len(),
    )?;
    expect_inside((m, k), (a.row_stride, a.column_stride), a.elements.len())?;
    expect_inside((k, n), (b.row_stride, b.column_stride), b.elements.len())
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
                expect_fits(extent, &out, &a, &b, ending)?;
                if extent.k == 0 {
                    plain(extent, out, accumulate, a, b, ending);
                    return Ok(());
                }
                blocked::multiply(room, extent, out, accumulate, a, b, ending)
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
                expect_fits(extent, &out, &a, &b, ending)?;
                plain(extent, out, accumulate, a, b, ending);
                Ok(())
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
