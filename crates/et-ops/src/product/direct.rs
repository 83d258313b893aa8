//! Small products, straight from the operands: copies of them, or other preparations, would take longer than the product.
#![expect(
    clippy::needless_range_loop,
    reason = "loops over constant ranges are unrolled, and closures would be compiled without the machine's vectors"
)]

use pulp::bytemuck::cast_slice;
use pulp::{Arch, Simd, WithSimd};

use super::blocked::Job;
use super::ending::{Bias, Ending};
use super::lanes::{Lanes, count};
use super::{Extent, Matrix, MatrixMut, Series};

/// Products of two numbers up to which a product is small.
const MOST: usize = 16 * 1024;

/// `out = a b` for each product of a series, if the products are small; whether they are. All matrices are inside of their elements, and
/// there are terms to sum up.
pub(super) fn multiply<T: Lanes>(
    series: Series,
    extent: Extent,
    out: &mut MatrixMut<'_, T>,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    ending: &Ending<'_, T>,
) -> bool {
    if extent.m.saturating_mul(extent.n).saturating_mul(extent.k) > MOST {
        return false;
    }
    let out = MatrixMut {
        elements: &mut *out.elements,
        ..*out
    };
    let job = Job::new(extent, out, false, a, b, ending);
    let [step, a_step, b_step] = series.steps;
    let (series, job) = match job.b.column_stride == 1 || is_dots(&job) {
        true => (series, job),
        false => {
            let steps = [step, b_step, a_step];
            (Series { steps, ..series }, job.transposed())
        }
    };
    let reads = job.b.column_stride == 1 || is_dots(&job);
    if reads {
        Arch::new().dispatch(Direct { series, job });
    }
    reads
}

/// Whether rows of the left operand and columns of the right one each lie in one piece, and rows of the right one do not.
fn is_dots<T>(job: &Job<'_, T>) -> bool {
    let spread = job.b.column_stride != 1 || job.extent.n == 1;
    spread && job.a.column_stride == 1 && job.b.row_stride == 1
}

/// Whether rows of the output follow each other, are shorter than a vector, and are not kept between two numbers.
fn is_narrow<T: Lanes>(job: &Job<'_, T>, lanes: usize) -> bool {
    let (n, out) = (job.extent.n, &job.out);
    let dense = out.column_stride == 1 && (out.row_stride == n || job.extent.m == 1);
    dense && n < lanes && !job.ending.clamps() && !matches!(job.ending.bias, Bias::Rows(_))
}

/// A series of small products.
struct Direct<'a, T> {
    series: Series,
    job: Job<'a, T>,
}

impl<T: Lanes> WithSimd for Direct<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { series, mut job } = self;
        let (a, b, dots) = (job.a.elements, job.b.elements, is_dots(&job));
        let narrow = is_narrow(&job, count::<T, S>());
        let [out_step, a_step, b_step] = series.steps;
        for i in 0..series.len {
            job.a.elements = &a[i * a_step..];
            job.b.elements = &b[i * b_step..];
            if dots {
                each_dot(simd, &mut job);
            } else if narrow {
                narrow_rows(simd, &mut job);
            } else {
                tiles(simd, &mut job);
            }
            if i + 1 < series.len {
                let later = std::mem::take(&mut job.out.elements);
                job.out.elements = &mut later[out_step..];
            }
        }
    }
}

/// Rows that are narrower than a vector, and lie in one piece.
#[inline(always)]
fn narrow_rows<T: Lanes, S: Simd>(simd: S, job: &mut Job<'_, T>) {
    let Extent { m, n, .. } = job.extent;
    let line = match job.ending.bias {
        Bias::Columns(line) => Some([
            line.factors.map_or(T::splat(simd, T::one()), |factors| {
                T::first(simd, factors, n)
            }),
            T::first(simd, line.terms, n),
        ]),
        _ => None,
    };
    let mut i = 0;
    while i < m {
        i += match m - i {
            1 => narrow::<T, S, 1>(simd, job, i, line),
            2 => narrow::<T, S, 2>(simd, job, i, line),
            3 => narrow::<T, S, 3>(simd, job, i, line),
            _ => narrow::<T, S, 4>(simd, job, i, line),
        };
    }
}

/// `R` such rows; how many rows that is. A row may be stored together with what follows it in the matrix, which is made later.
#[inline(always)]
fn narrow<T: Lanes, S: Simd, const R: usize>(
    simd: S,
    job: &mut Job<'_, T>,
    i: usize,
    line: Option<[T::Vector<S>; 2]>,
) -> usize {
    let (a, b, Extent { m, n, k }) = (job.a, job.b, job.extent);
    let lanes = count::<T, S>();
    let mut rows = [a.elements; R];
    for r in 0..R {
        rows[r] = &a.elements[(i + r) * a.row_stride..];
    }
    let mut sums = [T::splat(simd, T::zero()); R];
    for l in 0..k {
        let from = &b.elements[l * b.row_stride..];
        let right = match from.get(..lanes) {
            Some(from) => T::vectors::<S>(from).0[0],
            None => T::first(simd, from, n),
        };
        for r in 0..R {
            let left = T::splat(simd, rows[r][l * a.column_stride]);
            sums[r] = T::multiply_add(simd, left, right, sums[r]);
        }
    }
    let out = &mut job.out.elements[i * n..m * n];
    for r in 0..R {
        if let Some([factor, term]) = line {
            sums[r] = T::multiply_add(simd, sums[r], factor, term);
        }
        let out = &mut out[r * n..];
        if let Some(out) = out.get_mut(..lanes) {
            T::vectors_mut::<S>(out).0[0] = sums[r];
        } else {
            let stored = [sums[r]];
            let stored: &[T] = cast_slice(&stored);
            for (out, sum) in out[..n].iter_mut().zip(stored) {
                *out = *sum;
            }
        }
    }
    R
}

/// All tiles: those of a strip of columns one below the other.
#[inline(always)]
fn tiles<T: Lanes, S: Simd>(simd: S, job: &mut Job<'_, T>) {
    let (n, lanes) = (job.extent.n, count::<T, S>());
    let mut j = 0;
    while j + 2 * lanes <= n {
        strip::<T, S, 2>(simd, job, j);
        j += 2 * lanes;
    }
    while j < n {
        // The last columns fill a vector, together with some that are there already, if there are so many.
        let start = j.min(n.saturating_sub(lanes));
        strip::<T, S, 1>(simd, job, start);
        j = start + lanes;
    }
}

#[inline(always)]
fn strip<T: Lanes, S: Simd, const V: usize>(simd: S, job: &mut Job<'_, T>, j: usize) {
    let m = job.extent.m;
    let mut i = 0;
    while i < m {
        i += match m - i {
            1 => tile::<T, S, 1, V>(simd, job, i, j),
            2 => tile::<T, S, 2, V>(simd, job, i, j),
            3 => tile::<T, S, 3, V>(simd, job, i, j),
            _ => tile::<T, S, 4, V>(simd, job, i, j),
        };
    }
}

/// `R` rows by `V` vectors of columns; how many rows that is.
#[inline(always)]
fn tile<T: Lanes, S: Simd, const R: usize, const V: usize>(
    simd: S,
    job: &mut Job<'_, T>,
    i: usize,
    j: usize,
) -> usize {
    let (a, b, Extent { n, k, .. }) = (job.a, job.b, job.extent);
    let width = V * count::<T, S>();
    let mut rows = [a.elements; R];
    for r in 0..R {
        rows[r] = &a.elements[(i + r) * a.row_stride..];
    }
    let mut sums = [[T::splat(simd, T::zero()); V]; R];
    for l in 0..k {
        let from = &b.elements[l * b.row_stride + j..];
        let mut right = [T::splat(simd, T::zero()); V];
        match from.get(..width) {
            Some(from) => right.copy_from_slice(&T::vectors::<S>(from).0[..V]),
            None => right[0] = T::first(simd, from, n - j),
        }
        for r in 0..R {
            let left = T::splat(simd, rows[r][l * a.column_stride]);
            for v in 0..V {
                sums[r][v] = T::multiply_add(simd, left, right[v], sums[r][v]);
            }
        }
    }
    job.target(i, j, false, true).put(simd, &sums);
    R
}

/// Rows of the left operand by columns of the right one.
#[inline(always)]
fn each_dot<T: Lanes, S: Simd>(simd: S, job: &mut Job<'_, T>) {
    let Extent { m, n, .. } = job.extent;
    let mut j = 0;
    while j < n {
        let columns = if n - j < 4 { 1 } else { 4 };
        let mut i = 0;
        while i < m {
            i += match (m - i, columns) {
                (1, 1) => dots::<T, S, 1, 1>(simd, job, i, j),
                (_, 1) => dots::<T, S, 2, 1>(simd, job, i, j),
                (1, _) => dots::<T, S, 1, 4>(simd, job, i, j),
                (_, _) => dots::<T, S, 2, 4>(simd, job, i, j),
            };
        }
        j += columns;
    }
}

/// Products of `R` rows with `C` columns; how many rows that is.
#[inline(always)]
fn dots<T: Lanes, S: Simd, const R: usize, const C: usize>(
    simd: S,
    job: &mut Job<'_, T>,
    i: usize,
    j: usize,
) -> usize {
    let (a, b, k) = (job.a, job.b, job.extent.k);
    let lanes = count::<T, S>();
    let (mut rows, mut columns) = ([a.elements; R], [b.elements; C]);
    for r in 0..R {
        rows[r] = &a.elements[(i + r) * a.row_stride..];
    }
    for c in 0..C {
        columns[c] = &b.elements[(j + c) * b.column_stride..];
    }
    let mut sums = [[T::splat(simd, T::zero()); C]; R];
    let mut l = 0;
    while l < k {
        let mut left = [T::splat(simd, T::zero()); R];
        for r in 0..R {
            left[r] = T::first(simd, &rows[r][l..], k - l);
        }
        for c in 0..C {
            let right = T::first(simd, &columns[c][l..], k - l);
            for r in 0..R {
                sums[r][c] = T::multiply_add(simd, left[r], right, sums[r][c]);
            }
        }
        l += lanes;
    }
    let mut target = job.target(i, j, false, true);
    for r in 0..R {
        for c in 0..C {
            target.put_one(simd, T::sum(simd, sums[r][c]), r, c);
        }
    }
    R
}
