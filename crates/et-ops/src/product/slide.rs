//! Windows that slide over planes: every element of the output is the sum of the same few places around it, times a factor each.
//!
//! Rows are copied to a strip that fits the fastest cache, with their padding, and with columns taken apart by their remainder
//! by the stride, so that what neighbours have under a tap are neighbours too. Borders are then like any other place.
#![expect(
    clippy::needless_range_loop,
    reason = "loops over constant ranges are unrolled, and closures would be compiled without the machine's vectors"
)]

use std::ops::Range;

use pulp::bytemuck::cast_slice;
use pulp::{Simd, WithSimd};

use super::ending::{Ending, ended};
use super::lanes::{Lanes, count};

/// Sizes of planes and windows: rows first, columns second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) input: [usize; 2],
    pub(crate) output: [usize; 2],
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) padding: [usize; 2],
    pub(crate) dilation: [usize; 2],
    /// Elements from one row to the next, of the input and of the output.
    pub(crate) pitch: [usize; 2],
    /// Columns of the strip for each remainder.
    width: usize,
    /// Rows of the output that are made of one strip.
    rows: usize,
}

/// Elements of a strip, where the rows of a few windows need no more.
const STRIP: usize = 4096;

/// Rows of the output that are made of a strip at least.
const LEAST_ROWS: usize = 8;

/// Elements behind the strip.
const SLACK: usize = 64;

/// Strides up to which taking rows apart pays.
const MOST_STRIDE: usize = 4;

/// Taps of any other windows than the usual ones.
const MOST_TAPS: usize = 256;

impl Frame {
    /// The same with its strip, unless there is so much padding, or such a stride, that another way is better.
    pub(crate) fn sized(mut self) -> Option<Self> {
        let [height, width] = [0, 1].map(|d| {
            let padded = self.padding[d].checked_mul(2)?.checked_add(self.input[d])?;
            (padded <= 4 * (self.input[d] + SLACK)).then_some(padded)
        });
        (height.is_some() && self.stride[1] <= MOST_STRIDE && self.taps() <= MOST_TAPS)
            .then_some(())?;
        self.width = width?.div_ceil(self.stride[1]);
        let fits = STRIP / (self.width * self.stride[1]);
        let more = fits.saturating_sub(self.reach()) / self.stride[0];
        self.rows = (more / 4 * 4).max(LEAST_ROWS).min(self.output[0]);
        Some(self)
    }

    pub(crate) fn new(input: [usize; 2], output: [usize; 2]) -> Self {
        Self {
            input,
            output,
            kernel: [1; 2],
            stride: [1; 2],
            padding: [0; 2],
            dilation: [1; 2],
            pitch: [input[1], output[1]],
            width: 0,
            rows: 0,
        }
    }

    fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Rows under one window.
    fn reach(&self) -> usize {
        (self.kernel[0] - 1) * self.dilation[0] + 1
    }

    /// Elements of the strip with one remainder.
    fn part(&self) -> usize {
        (self.rows.saturating_sub(1) * self.stride[0] + self.reach()) * self.width
    }

    /// Elements of room for a strip. Vectors are read on past the end of a row, and rows past that of a strip.
    pub(crate) fn room(&self) -> usize {
        self.part() * self.stride[1] + self.stride[0].min(MOST_STRIDE) * self.width + SLACK
    }

    /// Where the first window has a tap.
    fn offset(&self, row: usize, column: usize) -> usize {
        let (row, column) = (row * self.dilation[0], column * self.dilation[1]);
        let step = self.stride[1];
        row * self.width + column % step * self.part() + column / step
    }
}

/// One plane: its channel, and where it starts in the input and the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plane {
    pub(crate) channel: usize,
    pub(crate) source: usize,
    pub(crate) target: usize,
}

/// Planes to make.
#[derive(Debug)]
pub(crate) struct Slide<'a, T, I> {
    pub(crate) frame: &'a Frame,
    pub(crate) planes: I,
    pub(crate) from: &'a [T],
    pub(crate) to: &'a mut [T],
    /// The factors of each channel.
    pub(crate) factors: &'a [T],
    /// With the numbers that are added as rows, one for each channel.
    pub(crate) ending: Ending<'a, T>,
    pub(crate) room: &'a mut [T],
    /// Whether planes follow each other in the output without gaps, in the order in which they are made.
    pub(crate) dense: bool,
}

impl<T: Lanes, I: Iterator<Item = Plane>> WithSimd for Slide<'_, T, I> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let frame = self.frame;
        let mut offsets = [0; MOST_TAPS];
        for tap in 0..frame.taps() {
            offsets[tap] = frame.offset(tap / frame.kernel[1], tap % frame.kernel[1]);
        }
        self.room.fill(T::zero());
        for plane in self.planes {
            let [scale, bias] = self.ending.of_row(plane.channel);
            let mut strip = Strip {
                frame,
                strip: &mut *self.room,
                to: &mut self.to[plane.target..],
                taps: Taps {
                    offsets: &offsets[..frame.taps()],
                    factors: &self.factors[plane.channel * frame.taps()..][..frame.taps()],
                },
                scale,
                bias,
                bounds: [self.ending.low, self.ending.high],
                spills: self.dense && frame.pitch[1] == frame.output[1],
            };
            let from = &self.from[plane.source..];
            let mut first = 0;
            while first < frame.output[0] {
                let rows = first..(first + frame.rows).min(frame.output[0]);
                first = rows.end;
                simd.vectorize(Piece {
                    strip: strip.again(),
                    from,
                    rows,
                });
            }
        }
    }
}

/// What is at hand while a plane is made.
struct Strip<'a, T> {
    frame: &'a Frame,
    strip: &'a mut [T],
    /// From the plane's first element on.
    to: &'a mut [T],
    taps: Taps<'a, T>,
    scale: T,
    bias: T,
    bounds: [T; 2],
    /// Whether what follows a row in the output is the next row, which is made later.
    spills: bool,
}

/// Some rows of a plane.
struct Piece<'a, T> {
    strip: Strip<'a, T>,
    from: &'a [T],
    rows: Range<usize>,
}

impl<T: Lanes> WithSimd for Piece<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        self.strip.fill(self.from, &self.rows);
        let frame = self.strip.frame;
        match (frame.kernel, frame.stride, frame.dilation) {
            ([3, 3], [1, 1], [1, 1]) => simd.vectorize(Usual::<T, 3, 1>(self)),
            ([3, 3], [2, 2], [1, 1]) => simd.vectorize(Usual::<T, 3, 2>(self)),
            ([5, 5], [1, 1], [1, 1]) => simd.vectorize(Usual::<T, 5, 1>(self)),
            ([5, 5], [2, 2], [1, 1]) => simd.vectorize(Usual::<T, 5, 2>(self)),
            _ => simd.vectorize(Unusual(self)),
        }
    }
}

impl<T: Lanes> Strip<'_, T> {
    /// The same for a shorter time.
    #[inline(always)]
    fn again(&mut self) -> Strip<'_, T> {
        Strip {
            strip: &mut *self.strip,
            to: &mut *self.to,
            ..*self
        }
    }

    /// Takes the rows of the input under some rows of the output. What is padding on both sides of them stays zero.
    #[inline(always)]
    fn fill(&mut self, from: &[T], rows: &Range<usize>) {
        let frame = self.frame;
        let count = (rows.len() - 1) * frame.stride[0] + frame.reach();
        let first = rows.start * frame.stride[0];
        let start = first.max(frame.padding[0]).min(first + count);
        let end = (frame.padding[0] + frame.input[0]).clamp(start, first + count);
        // Where all rows are made of one strip, nothing is ever put into the other rows.
        if rows.len() < frame.output[0] {
            self.clear(0..start - first);
            self.clear(end - first..count);
        }
        for row in start..end {
            let from = &from[(row - frame.padding[0]) * frame.pitch[0]..][..frame.input[1]];
            let to = (row - first) * frame.width;
            match frame.stride[1] {
                1 => copy(&mut self.strip[to + frame.padding[1]..], from),
                2 => self.take_pairs(from, to),
                _ => self.take_each(from, to),
            }
        }
    }

    #[inline(always)]
    fn clear(&mut self, rows: Range<usize>) {
        let (width, part) = (self.frame.width, self.frame.part());
        for phase in 0..self.frame.stride[1] {
            let start = phase * part + rows.start * width;
            self.strip[start..start + rows.len() * width].fill(T::zero());
        }
    }

    /// Every other element to one part of the strip, those between to the other.
    #[inline(always)]
    fn take_pairs(&mut self, from: &[T], start: usize) {
        let before = self.frame.padding[1];
        let (even, odd) = self.strip.split_at_mut(self.frame.part());
        let (even, odd) = (
            &mut even[start + before.div_ceil(2)..],
            &mut odd[start + before / 2..],
        );
        // Which of the two the first element of the input belongs to.
        if before.is_multiple_of(2) {
            separate(even, odd, from);
        } else {
            separate(odd, even, from);
        }
    }

    #[inline(always)]
    fn take_each(&mut self, from: &[T], start: usize) {
        let (step, before) = (self.frame.stride[1], self.frame.padding[1]);
        for (x, element) in from.iter().enumerate() {
            let x = x + before;
            self.strip[x % step * self.frame.part() + start + x / step] = *element;
        }
    }

    /// Where sums go from a column on.
    #[inline(always)]
    fn column<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        row: usize,
        x: usize,
    ) -> Column<'_, T, S> {
        let (pitch, columns) = (self.frame.pitch[1], self.frame.output[1] - x);
        Column {
            to: &mut self.to[row * pitch + x..],
            pitch,
            columns,
            whole: self.spills || columns >= V * count::<T, S>(),
            scale: T::splat(simd, self.scale),
            bias: T::splat(simd, self.bias),
            bounds: self.bounds.map(|bound| T::splat(simd, bound)),
        }
    }
}

/// Some columns of the output, from a row on.
struct Column<'a, T: Lanes, S: Simd> {
    to: &'a mut [T],
    pitch: usize,
    columns: usize,
    /// Whether all that a vector holds may be stored.
    whole: bool,
    scale: T::Vector<S>,
    bias: T::Vector<S>,
    bounds: [T::Vector<S>; 2],
}

impl<T: Lanes, S: Simd> Column<'_, T, S> {
    /// Stores the sums of a row.
    #[inline(always)]
    fn put<const V: usize>(&mut self, simd: S, row: usize, sums: &[T::Vector<S>; V]) {
        let wide = V * count::<T, S>();
        let mut ends = [self.bias; V];
        for v in 0..V {
            ends[v] = ended::<T, S>(simd, sums[v], [self.scale, self.bias], self.bounds);
        }
        let to = &mut self.to[row * self.pitch..];
        if self.whole && to.len() >= wide {
            let (to, _) = T::vectors_mut::<S>(&mut to[..wide]);
            to[..V].copy_from_slice(&ends);
        } else {
            // A copy, so that the sums themselves can stay in registers.
            let mut stored = [self.bias; V];
            stored.copy_from_slice(&ends);
            let columns = self.columns.min(wide);
            to[..columns].copy_from_slice(&cast_slice(&stored)[..columns]);
        }
    }
}

/// Where the taps of a window are.
#[derive(Clone, Copy)]
struct Taps<'a, T> {
    offsets: &'a [usize],
    factors: &'a [T],
}

/// Columns of vectors, whose last one ends where the rows do if these are long enough: some elements are made twice.
#[inline(always)]
fn columns(width: usize, lanes: usize) -> impl Iterator<Item = usize> {
    (0..width)
        .step_by(lanes)
        .map(move |x| x.min(width.saturating_sub(lanes)))
}

/// Windows of any kind.
struct Unusual<'a, T>(Piece<'a, T>);

impl<T: Lanes> WithSimd for Unusual<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Piece {
            mut strip, rows, ..
        } = self.0;
        let (lanes, frame) = (count::<T, S>(), strip.frame);
        for y in 0..rows.len() {
            let start = y * frame.stride[0] * frame.width;
            for x in columns(frame.output[1], lanes) {
                let from = &strip.strip[start + x..];
                let mut sums = T::splat(simd, T::zero());
                for (offset, factor) in strip.taps.offsets.iter().zip(strip.taps.factors) {
                    let (row, _) = T::vectors::<S>(&from[*offset..][..lanes]);
                    sums = T::multiply_add(simd, row[0], T::splat(simd, *factor), sums);
                }
                strip
                    .column::<S, 1>(simd, rows.start, x)
                    .put(simd, y, &[sums]);
            }
        }
    }
}

/// Windows of `K` by `K` next to each other, with a stride of `STEP`. Every row of the strip is read once, and serves all windows
/// that it is under: their sums are made side by side, as the vectors of a column from top to bottom.
struct Usual<'a, T, const K: usize, const STEP: usize>(Piece<'a, T>);

impl<T: Lanes, const K: usize, const STEP: usize> WithSimd for Usual<'_, T, K, STEP> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.0.strip.frame.output[1] > count::<T, S>() {
            self.columns::<S, 2>(simd);
        } else {
            self.columns::<S, 1>(simd);
        }
    }
}

impl<T: Lanes, const K: usize, const STEP: usize> Usual<'_, T, K, STEP> {
    /// Columns of `V` vectors.
    #[inline(always)]
    fn columns<S: Simd, const V: usize>(self, simd: S) {
        let Piece {
            mut strip, rows, ..
        } = self.0;
        let (frame, wide) = (strip.frame, V * count::<T, S>());
        let mut factors = [[T::splat(simd, T::zero()); K]; K];
        let (lines, _) = strip.taps.factors.as_chunks::<K>();
        for y in 0..K {
            for x in 0..K {
                factors[y][x] = T::splat(simd, lines[y][x]);
            }
        }
        // Windows that begin before the last row of the last one that is done.
        let open = (K - 1) / STEP;
        for x in columns(frame.output[1], wide) {
            // Of the window that begins with this row, of the one before, and so on.
            let mut sums = [[T::splat(simd, T::zero()); V]; K];
            for y in 0..rows.len() + open {
                for after in 0..STEP {
                    let row = &strip.strip[(y * STEP + after) * frame.width + x..];
                    let taps = Self::taps::<S, V>(simd, row, frame.part());
                    for window in 0..K {
                        if after + window * STEP < K {
                            let factors = &factors[after + window * STEP];
                            for v in 0..V {
                                let mut sum = T::multiply(simd, taps[0][v], factors[0]);
                                for tap in 1..K {
                                    sum = T::multiply_add(simd, taps[tap][v], factors[tap], sum);
                                }
                                sums[window][v] = T::add(simd, sums[window][v], sum);
                            }
                        }
                    }
                }
                if y >= open {
                    let mut column = strip.column::<S, V>(simd, rows.start, x);
                    column.put(simd, y - open, &sums[open]);
                }
                for window in (1..K).rev() {
                    sums[window] = sums[window - 1];
                }
                sums[0] = [T::splat(simd, T::zero()); V];
            }
        }
    }

    /// What a row of the strip has under each tap.
    #[inline(always)]
    fn taps<S: Simd, const V: usize>(simd: S, row: &[T], part: usize) -> [[T::Vector<S>; V]; K] {
        let wide = V * count::<T, S>();
        let mut parts = [row; STEP];
        for phase in 0..STEP {
            parts[phase] = &row[phase * part..][..wide + (K - 1) / STEP];
        }
        let mut taps = [[T::splat(simd, T::zero()); V]; K];
        for tap in 0..K {
            let (vectors, _) = T::vectors::<S>(&parts[tap % STEP][tap / STEP..tap / STEP + wide]);
            taps[tap].copy_from_slice(&vectors[..V]);
        }
        taps
    }
}

/// Elements that are copied at a time.
const RUN: usize = 8;

/// Copies all elements; a call of the system's function would take longer than most rows.
#[inline(always)]
fn copy<T: Copy>(to: &mut [T], from: &[T]) {
    let to = &mut to[..from.len()];
    let (runs, _) = from.as_chunks::<RUN>();
    for (to, from) in to.as_chunks_mut::<RUN>().0.iter_mut().zip(runs) {
        *to = *from;
    }
    // The rest, with some of what is there already.
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<RUN>(), from.last_chunk::<RUN>()) {
        *to = *from;
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

/// Copies all elements to two places in turns.
#[inline(always)]
fn separate<T: Copy>(even: &mut [T], odd: &mut [T], from: &[T]) {
    let (pairs, last) = from.as_chunks::<2>();
    let (runs, _) = pairs.as_chunks::<SHORT>();
    let to = even.as_chunks_mut::<SHORT>().0.iter_mut();
    let to = to.zip(odd.as_chunks_mut::<SHORT>().0);
    for ((even, odd), pairs) in to.zip(runs) {
        separate_run(even, odd, pairs);
    }
    let (to, odd) = (&mut even[..pairs.len()], &mut odd[..pairs.len()]);
    // The rest, with some of what is there already.
    let ends = (
        to.last_chunk_mut(),
        odd.last_chunk_mut(),
        pairs.last_chunk(),
    );
    if let (Some(even), Some(odd), Some(pairs)) = ends {
        separate_run(even, odd, pairs);
    } else {
        for ((even, odd), pair) in to.iter_mut().zip(odd).zip(pairs) {
            (*even, *odd) = (pair[0], pair[1]);
        }
    }
    if let [last] = last {
        even[pairs.len()] = *last;
    }
}

/// Pairs that are separated at a time.
const SHORT: usize = 4;

#[inline(always)]
fn separate_run<T: Copy>(even: &mut [T; SHORT], odd: &mut [T; SHORT], pairs: &[[T; 2]; SHORT]) {
    let pairs = *pairs;
    *even = pairs.map(|pair| pair[0]);
    *odd = pairs.map(|pair| pair[1]);
}
