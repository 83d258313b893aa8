//! Products of floating-point matrices, cut into blocks that stay in the caches.

use std::array;

use et_kernel::KernelError;
use pulp::{Simd, WithSimd};

use super::ending::Ending;
use super::lanes::{Lanes, count};
use super::pack::{self, Room};
use super::row::{self, Row};
use super::tile::{Dots, ROWS, Target, Tile};
use super::{Extent, Matrix, MatrixMut, share};

/// Terms of the sums that are taken at a time: a panel of the right operand is in the fastest cache.
pub(super) const DEPTH: usize = 384;

/// Rows that are taken at a time: so much of the left operand is in the second cache. A multiple of [`ROWS`].
pub(super) const HEIGHT: usize = 240;

/// Columns that are taken at a time. A multiple of any panel's width.
pub(super) const WIDTH: usize = 512;

/// Up to so many rows the right operand is read where it is: a copy would be used too rarely.
const IN_PLACE: usize = 48;

/// As [`IN_PLACE`], where the rows of the right operand compete for the same places in a cache.
const CROWDED_IN_PLACE: usize = 12;

/// Bytes between rows that compete are a multiple of this.
const CROWDED_NBYTES: usize = 1024;

/// Up to so many rows or columns products of two contiguous operands are taken one by one.
const ONE_BY_ONE: usize = 16;

/// `out = a b`, or `out += a b`, of matrices that have as many elements as `extent` says, with an ending for each element.
pub(super) fn multiply<T: Lanes>(
    room: &mut Room<'_, T>,
    extent: Extent,
    out: MatrixMut<'_, T>,
    accumulate: bool,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    ending: &Ending<'_, T>,
) -> Result<(), KernelError> {
    if extent.m == 0 || extent.n == 0 {
        return Ok(());
    }
    let job = Job::new(extent, out, accumulate, a, b, ending).in_better_order();
    let way = job.way();
    share::multiply(room, Job { way, ..job })
}

/// How the sums of a product are made. Parts of a product are made in the same way as the whole, for their sums to be the same.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// From tiles of copies.
    Blocks,
    /// One by one, of operands that both lie in the order of the terms.
    Dots,
}

/// A product to compute.
#[derive(Debug)]
pub(super) struct Job<'a, T> {
    pub(super) extent: Extent,
    pub(super) out: MatrixMut<'a, T>,
    pub(super) accumulate: bool,
    pub(super) a: Matrix<'a, T>,
    pub(super) b: Matrix<'a, T>,
    pub(super) ending: Ending<'a, T>,
    pub(super) way: Way,
}

impl<'a, T> Matrix<'a, T> {
    /// With a stride of 1 in directions of a single element.
    fn simplified(mut self, rows: usize, columns: usize) -> Self {
        if rows < 2 {
            self.row_stride = 1;
        }
        if columns < 2 {
            self.column_stride = 1;
        }
        self
    }

    /// What starts at an element.
    pub(super) fn from(self, i: usize, j: usize) -> Self {
        Matrix {
            elements: &self.elements[i * self.row_stride + j * self.column_stride..],
            ..self
        }
    }

    fn transposed(self) -> Self {
        Matrix {
            elements: self.elements,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

impl<'a, T: Lanes> Job<'a, T> {
    pub(super) fn new(
        extent: Extent,
        out: MatrixMut<'a, T>,
        accumulate: bool,
        a: Matrix<'a, T>,
        b: Matrix<'a, T>,
        ending: &Ending<'a, T>,
    ) -> Self {
        Self {
            way: Way::Blocks,
            ending: *ending,
            extent,
            out,
            accumulate,
            a: a.simplified(extent.m, extent.k),
            b: b.simplified(extent.k, extent.n),
        }
    }

    /// The product or the transposed one, whichever is better.
    fn in_better_order(self) -> Self {
        if self.is_better_transposed() {
            self.transposed()
        } else {
            self
        }
    }

    fn way(&self) -> Way {
        let Extent { m, n, .. } = self.extent;
        let runs = self.a.column_stride == 1 && self.b.row_stride == 1;
        match runs && m.min(n) <= ONE_BY_ONE {
            true => Way::Dots,
            false => Way::Blocks,
        }
    }

    /// Whether the right operand is read once only, in the order in which it lies.
    fn is_row(&self, lanes: usize) -> bool {
        let Extent { m, n, .. } = self.extent;
        let dense = [self.a, self.b].map(|matrix| matrix.column_stride == 1) == [true; 2];
        // A single last column would be summed up in another order.
        m == 1 && n >= lanes && n % lanes != 1 && dense && self.out.column_stride == 1
    }

    /// Whether the transposed product reads its operands in better order, or copies less of them.
    fn is_better_transposed(&self) -> bool {
        let Extent { m, n, .. } = self.extent;
        if m == 1 || n == 1 {
            return n == 1 && m > 1;
        }
        let (a_runs, b_runs) = (self.a.column_stride == 1, self.b.row_stride == 1);
        match (a_runs, b_runs) {
            // The right operand is copied: the smaller one of the two should be.
            (true, true) => m < n,
            (true, false) => false,
            (false, true) => true,
            (false, false) => self.out.column_stride != 1 && self.out.row_stride == 1,
        }
    }

    /// Whether panels of the right operand need no copy.
    fn is_read_in_place(&self) -> bool {
        let crowded = (self.b.row_stride * size_of::<T>()).is_multiple_of(CROWDED_NBYTES);
        let most = if crowded { CROWDED_IN_PLACE } else { IN_PLACE };
        self.b.column_stride == 1 && self.extent.m <= most
    }

    /// Elements of scratch memory for a part of so many rows and columns: for rows of the left operand, and for panels.
    pub(super) fn room(&self, extent: Extent) -> [usize; 2] {
        let Extent { m, n, k } = extent;
        if matches!(self.way, Way::Dots) {
            return [0; 2];
        }
        let rows = if self.a.column_stride == 1 {
            0
        } else {
            m.min(HEIGHT)
        };
        let panels = if self.is_read_in_place() {
            0
        } else {
            n.min(WIDTH)
        };
        [rows, panels.max(1).next_multiple_of(pack::WIDEST)].map(|len| len * depth(k))
    }

    /// `out^T = b^T a^T`.
    pub(super) fn transposed(self) -> Self {
        let Extent { m, n, k } = self.extent;
        Self {
            extent: Extent { m: n, n: m, k },
            out: MatrixMut {
                elements: self.out.elements,
                row_stride: self.out.column_stride,
                column_stride: self.out.row_stride,
            },
            accumulate: self.accumulate,
            a: self.b.transposed(),
            b: self.a.transposed(),
            ending: self.ending.transposed(),
            way: self.way,
        }
    }

    /// For sums that are added to what is there if `accumulate`, and that have all of their terms then if `is_last`.
    #[inline(always)]
    pub(super) fn target(
        &mut self,
        i: usize,
        j: usize,
        accumulate: bool,
        is_last: bool,
    ) -> Target<'_, T> {
        let MatrixMut {
            row_stride,
            column_stride,
            ..
        } = self.out;
        Target {
            elements: &mut self.out.elements[i * row_stride + j * column_stride..],
            row_stride,
            column_stride,
            columns: self.extent.n - j,
            accumulate,
            ending: match is_last && !self.ending.is_nothing() {
                true => Some(&self.ending),
                false => None,
            },
            place: [i, j],
        }
    }
}

/// A product, or a part of one.
pub(super) struct Work<'a, 'b, T> {
    pub(super) room: &'a mut Room<'b, T>,
    pub(super) job: Job<'a, T>,
}

impl<T: Lanes> WithSimd for Work<'_, '_, T> {
    type Output = Result<(), KernelError>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { room, mut job } = self;
        match job.way {
            Way::Dots => one_by_one(simd, &mut job),
            Way::Blocks if job.is_row(count::<T, S>()) => one_row(simd, &mut job),
            Way::Blocks => return blocks(simd, room, &mut job),
        }
        Ok(())
    }
}

/// Terms that are taken at a time.
fn depth(terms: usize) -> usize {
    terms.div_ceil(terms.div_ceil(DEPTH))
}

/// A single row; the sums are those that [`blocks`] would make.
fn one_row<T: Lanes, S: Simd>(simd: S, job: &mut Job<'_, T>) {
    let Extent { n, k, .. } = job.extent;
    let (depth, lanes) = (depth(k), count::<T, S>());
    let mut j = 0;
    while j < n {
        // What is left for the last piece fills a vector.
        let columns = match n - j {
            rest if rest <= row::SUMS => rest,
            rest if rest < row::SUMS + lanes => row::SUMS - lanes,
            _ => row::SUMS,
        };
        for l in (0..k).step_by(depth) {
            let deep = depth.min(k - l);
            let (a, b) = (job.a.from(0, l), job.b.from(l, j));
            let target = job.target(0, j, job.accumulate || l > 0, l + deep == k);
            simd.vectorize(Row {
                left: &a.elements[..deep],
                right: b.elements,
                stride: b.row_stride,
                columns,
                target,
            });
        }
        j += columns;
    }
}

/// Rows of the left operand, columns of the right one.
fn one_by_one<T: Lanes, S: Simd>(simd: S, job: &mut Job<'_, T>) {
    let Extent { m, n, .. } = job.extent;
    let mut j = 0;
    while j < n {
        let step = match n - j {
            8.. if m == 1 => 8,
            4.. => 4,
            _ => 1,
        };
        let mut i = 0;
        while i < m {
            i += match (m - i, step) {
                (_, 8) => dots::<T, S, 1, 8>(simd, job, i, j),
                (1, 4) => dots::<T, S, 1, 4>(simd, job, i, j),
                (2, 4) => dots::<T, S, 2, 4>(simd, job, i, j),
                (_, 4) => dots::<T, S, 3, 4>(simd, job, i, j),
                (1..3, _) => dots::<T, S, 1, 1>(simd, job, i, j),
                _ => dots::<T, S, 3, 1>(simd, job, i, j),
            };
        }
        j += step;
    }
}

fn dots<T: Lanes, S: Simd, const R: usize, const C: usize>(
    simd: S,
    job: &mut Job<'_, T>,
    i: usize,
    j: usize,
) -> usize {
    let (a, b, k) = (job.a, job.b, job.extent.k);
    let accumulate = job.accumulate;
    simd.vectorize(Dots::<T, R, C> {
        rows: array::from_fn(|r| &a.elements[(i + r) * a.row_stride..][..k]),
        columns: array::from_fn(|c| &b.elements[(j + c) * b.column_stride..][..k]),
        target: job.target(i, j, accumulate, true),
    });
    R
}

/// Where the rows of a block of the left operand are.
#[derive(Clone, Copy, Debug)]
struct Rows<'a, T> {
    elements: &'a [T],
    stride: usize,
    len: usize,
}

/// Where a panel of the right operand is.
#[derive(Clone, Copy, Debug)]
struct Panel<'a, T> {
    elements: &'a [T],
    stride: usize,
}

/// A block of the right operand: the first columns where they are, the others copied.
#[derive(Clone, Copy, Debug)]
struct Block<'a, T> {
    right: Matrix<'a, T>,
    in_place: usize,
    copied: &'a [T],
    deep: usize,
    wide: usize,
    lanes: usize,
    /// Vectors in a row of the widest tile.
    most: usize,
}

impl<'a, T> Block<'a, T> {
    /// The panel at a column, and how many vectors wide it is.
    fn panel(&self, column: usize) -> (Panel<'a, T>, usize) {
        if column >= self.in_place {
            let vectors = if self.wide - column > self.lanes {
                2
            } else {
                1
            };
            let panel = Panel {
                elements: &self.copied[(column - self.in_place) * self.deep..],
                stride: vectors * self.lanes,
            };
            return (panel, vectors);
        }
        let vectors = match (self.in_place - column) / self.lanes {
            whole if whole >= self.most => self.most,
            2.. => 2,
            _ => 1,
        };
        let panel = Panel {
            elements: &self.right.elements[column..],
            stride: self.right.row_stride,
        };
        (panel, vectors)
    }
}

/// Block by block of terms, of columns and of rows.
fn blocks<T: Lanes, S: Simd>(
    simd: S,
    room: &mut Room<'_, T>,
    job: &mut Job<'_, T>,
) -> Result<(), KernelError> {
    let Extent { m, n, k } = job.extent;
    let (a, b) = (job.a, job.b);
    let (lanes, in_place) = (count::<T, S>(), job.is_read_in_place());
    let is_spread = a.column_stride != 1;
    let depth = depth(k);
    let row_len = if is_spread { HEIGHT.min(m) } else { 0 };
    let panel_len = if in_place {
        lanes
    } else {
        WIDTH.min(n).next_multiple_of(lanes)
    };
    room.reserve(depth * row_len, depth * panel_len)?;
    let (row_room, panel_room) = room.parts();
    for l in (0..k).step_by(depth) {
        let deep = depth.min(k - l);
        for j in (0..n).step_by(WIDTH) {
            let wide = WIDTH.min(n - j);
            let right = b.from(l, j);
            // A last column on its own would take as long as a vector of them.
            let whole = if wide % lanes == 1 { wide - 1 } else { wide };
            let first = if in_place { wide / lanes * lanes } else { 0 };
            pack::panels(panel_room, right, deep, first..whole, lanes);
            let rest = if whole < wide { deep } else { 0 };
            let (panel_room, column) = panel_room.split_at_mut(panel_room.len() - rest);
            if whole < wide {
                pack::rows(column, right.from(0, whole).transposed(), 1, deep);
            }
            let block = Block {
                right,
                in_place: first,
                copied: &*panel_room,
                deep,
                wide: whole,
                lanes,
                most: widest(m),
            };
            for i in (0..m).step_by(HEIGHT) {
                let high = HEIGHT.min(m - i);
                let mut rows = Rows {
                    elements: a.from(i, l).elements,
                    stride: a.row_stride,
                    len: deep,
                };
                if is_spread {
                    pack::rows(row_room, a.from(i, l), high, deep);
                    (rows.elements, rows.stride) = (&*row_room, deep);
                }
                strips(simd, job, [i, j], high, rows, &block, l);
                if whole < wide {
                    single(simd, job, [i, j + whole], high, rows, column, l);
                }
            }
        }
    }
    Ok(())
}

/// A single column of a block of rows, for the terms from `first` on.
fn single<T: Lanes, S: Simd>(
    simd: S,
    job: &mut Job<'_, T>,
    [i, j]: [usize; 2],
    high: usize,
    rows: Rows<'_, T>,
    column: &[T],
    first: usize,
) {
    let accumulate = job.accumulate || first > 0;
    let is_last = first + rows.len == job.extent.k;
    let mut row = 0;
    while row < high {
        let target = job.target(i + row, j, accumulate, is_last);
        row += match high - row {
            4.. => column_tile::<T, S, 4>(simd, rows, row, column, target),
            _ => column_tile::<T, S, 1>(simd, rows, row, column, target),
        };
    }
}

fn column_tile<T: Lanes, S: Simd, const R: usize>(
    simd: S,
    rows: Rows<'_, T>,
    row: usize,
    column: &[T],
    target: Target<'_, T>,
) -> usize {
    simd.vectorize(Dots::<T, R, 1> {
        rows: array::from_fn(|r| &rows.elements[(row + r) * rows.stride..][..rows.len]),
        columns: [column],
        target,
    });
    R
}

/// Vectors in a row of the widest tile for so many rows: enough sums at a time to keep the machine busy.
fn widest(rows: usize) -> usize {
    match rows {
        1 => 8,
        2 => 4,
        _ => 2,
    }
}

/// All tiles of a block of rows and a block of columns, for the terms from `first` on.
fn strips<T: Lanes, S: Simd>(
    simd: S,
    job: &mut Job<'_, T>,
    [i, j]: [usize; 2],
    high: usize,
    rows: Rows<'_, T>,
    block: &Block<'_, T>,
    first: usize,
) {
    let accumulate = job.accumulate || first > 0;
    let is_last = first + block.deep == job.extent.k;
    let mut column = 0;
    while column < block.wide {
        let (panel, vectors) = block.panel(column);
        let mut row = 0;
        while row < high {
            let target = job.target(i + row, j + column, accumulate, is_last);
            let rows = Rows {
                elements: &rows.elements[row * rows.stride..],
                ..rows
            };
            row += strip(simd, rows, high - row, panel, vectors, target);
        }
        column += vectors * block.lanes;
    }
}

/// A tile of as many of the rows as it can have; how many those are.
fn strip<T: Lanes, S: Simd>(
    simd: S,
    rows: Rows<'_, T>,
    high: usize,
    panel: Panel<'_, T>,
    vectors: usize,
    target: Target<'_, T>,
) -> usize {
    match (high, vectors) {
        (1, 1) => tile::<T, S, 1, 1>(simd, rows, panel, target),
        (2, 1) => tile::<T, S, 2, 1>(simd, rows, panel, target),
        (3, 1) => tile::<T, S, 3, 1>(simd, rows, panel, target),
        (4, 1) => tile::<T, S, 4, 1>(simd, rows, panel, target),
        (5, 1) => tile::<T, S, 5, 1>(simd, rows, panel, target),
        (_, 1) => tile::<T, S, ROWS, 1>(simd, rows, panel, target),
        (1, 8) => tile::<T, S, 1, 8>(simd, rows, panel, target),
        (2, 4) => tile::<T, S, 2, 4>(simd, rows, panel, target),
        (1, _) => tile::<T, S, 1, 2>(simd, rows, panel, target),
        (2, _) => tile::<T, S, 2, 2>(simd, rows, panel, target),
        (3, _) => tile::<T, S, 3, 2>(simd, rows, panel, target),
        (4, _) => tile::<T, S, 4, 2>(simd, rows, panel, target),
        (5, _) => tile::<T, S, 5, 2>(simd, rows, panel, target),
        (_, _) => tile::<T, S, ROWS, 2>(simd, rows, panel, target),
    }
}

fn tile<T: Lanes, S: Simd, const R: usize, const V: usize>(
    simd: S,
    rows: Rows<'_, T>,
    panel: Panel<'_, T>,
    target: Target<'_, T>,
) -> usize {
    simd.vectorize(Tile::<T, R, V> {
        rows: array::from_fn(|r| &rows.elements[r * rows.stride..][..rows.len]),
        panel: panel.elements,
        stride: panel.stride,
        target,
    });
    R
}
