//! Convolution as a product: the elements under each window become a column of a matrix.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use et_kernel::KernelError;
use et_memory::Arena;
use smallvec::SmallVec;

use super::{Finish, Plan};
use crate::dims;
use crate::elementwise::scratch;
use crate::number::Number;
use crate::product::{Extent, MOST_PARTS, Matrix, MatrixMut, Product, Room};
use crate::simd;
use crate::window::SPATIAL;

/// Elements of columns that are made at a time, so that they are still in the cache when they are multiplied.
const BLOCK_NUMEL: usize = 64 * 1024;

/// Windows that are made at a time at least, however large their columns are.
const LEAST_WINDOWS: usize = 16;

/// Puts the products into the output, and finishes them.
pub(super) fn run<C: Product>(
    temp: &Arena,
    plan: &Plan<'_>,
    to: &mut [C],
    from: &[C],
    weight: &[C],
    finish: &Finish<'_, C>,
) -> Result<(), KernelError> {
    let blocks = Blocks::new(plan);
    let parts = match plan.groups {
        1 => plan.parts(blocks.depth),
        _ => 1,
    };
    let rows = plan.out_channels.div_ceil(parts);
    let rows = match parts {
        1 => rows,
        // Of few channels no part should have many more than another.
        _ if rows < 4 * Extent::TILE_ROWS => rows,
        _ => rows.next_multiple_of(Extent::TILE_ROWS),
    };
    let extent = Extent {
        m: rows,
        n: blocks.len,
        k: blocks.depth,
    };
    let columns = match blocks.direct {
        Some(_) => 0,
        None => dims::numel(&[blocks.depth, blocks.len])?,
    };
    if parts == 1 {
        let (columns, mut room) = (scratch(temp, columns)?, Room::new(temp));
        for (n, group) in (0..plan.batch).flat_map(|n| (0..plan.groups).map(move |g| (n, g))) {
            let own = group * rows..(group + 1) * rows;
            let to = &mut to[n * plan.output.batch + own.start * plan.output.channel..];
            let work = Rows {
                n,
                group,
                own,
                plan,
                from,
                weight,
                finish,
            };
            work.run(&blocks, to, columns, &mut room)?;
        }
        return Ok(());
    }
    let [high, wide] = Room::<C>::most(extent);
    let mut pieces: SmallVec<[[&mut [C]; 3]; MOST_PARTS]> = SmallVec::new();
    for _ in 0..parts {
        pieces.push([
            scratch(temp, columns)?,
            scratch(temp, high)?,
            scratch(temp, wide)?,
        ]);
    }
    for n in 0..plan.batch {
        let to = &mut to[n * plan.output.batch..][..plan.out_channels * plan.output.channel];
        let chunks = to.chunks_mut(rows * plan.output.channel);
        let failed = Mutex::new(None);
        plan.each(
            chunks.zip(&mut pieces).enumerate(),
            |(part, (to, pieces))| {
                let own = part * rows..((part + 1) * rows).min(plan.out_channels);
                let work = Rows {
                    n,
                    group: 0,
                    own,
                    plan,
                    from,
                    weight,
                    finish,
                };
                let [columns, high, wide] = pieces;
                if let Err(error) = work.run(&blocks, to, columns, &mut Room::lent([high, wide])) {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            },
        );
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// How the windows are cut into blocks.
struct Blocks {
    /// Elements under a window.
    depth: usize,
    /// Windows in a block.
    len: usize,
    /// Windows that one block may be of: without a common distance between pixels (an unusual dimension order) only those of
    /// a row.
    run: usize,
    /// The distance between the output's pixels.
    pixel: Option<usize>,
    /// See [`is_direct`].
    direct: Option<usize>,
}

impl Blocks {
    fn new(plan: &Plan<'_>) -> Self {
        let windows = &plan.windows;
        let depth = plan.in_channels * windows.taps();
        let pixel = plan.output.pixel(windows.output);
        let run = match pixel {
            Some(_) => windows.windows(),
            None => windows.output[2],
        };
        let len = (BLOCK_NUMEL / depth).max(LEAST_WINDOWS).min(run);
        Self {
            depth,
            len,
            run,
            pixel,
            direct: is_direct(plan),
        }
    }
}

/// Some channels of the output of one image.
struct Rows<'a, C> {
    n: usize,
    group: usize,
    /// The channels.
    own: Range<usize>,
    plan: &'a Plan<'a>,
    from: &'a [C],
    weight: &'a [C],
    finish: &'a Finish<'a, C>,
}

impl<C: Product> Rows<'_, C> {
    /// `to` starts with the first of the channels.
    fn run(
        &self,
        blocks: &Blocks,
        to: &mut [C],
        columns: &mut [C],
        room: &mut Room<'_, C>,
    ) -> Result<(), KernelError> {
        let (plan, depth) = (self.plan, blocks.depth);
        let source = self.n * plan.input.batch + self.group * plan.in_channels * plan.input.channel;
        let from = &self.from[source..];
        let ending = self.finish.ending_of(self.own.clone());
        let a = Matrix {
            elements: &self.weight[self.own.start * depth..self.own.end * depth],
            row_stride: depth,
            column_stride: 1,
        };
        let mut first = 0;
        while first < plan.windows.windows() {
            let count = blocks.len.min(blocks.run - first % blocks.run);
            let extent = Extent {
                m: self.own.len(),
                n: count,
                k: depth,
            };
            let b = match blocks.direct {
                Some(pixel) => Matrix {
                    elements: &from[first * pixel..],
                    row_stride: plan.input.channel,
                    column_stride: pixel,
                },
                None => {
                    gather(plan, columns, from, first, count);
                    Matrix {
                        elements: &*columns,
                        row_stride: count,
                        column_stride: 1,
                    }
                }
            };
            let start = place(plan, blocks.pixel, first);
            let out = MatrixMut {
                elements: &mut to[start..],
                row_stride: plan.output.channel,
                column_stride: blocks.pixel.unwrap_or(plan.output.spatial[2]),
            };
            C::multiply(room, extent, out, false, a, b, &ending)?;
            first += count;
        }
        Ok(())
    }
}

/// Where a window lies in a channel of the output.
fn place(plan: &Plan<'_>, pixel: Option<usize>, window: usize) -> usize {
    if let Some(pixel) = pixel {
        return window * pixel;
    }
    let [_, height, width] = plan.windows.output;
    let [z, y, x] = plan.output.spatial;
    let row = window / width;
    row / height * z + row % height * y + window % width * x
}

/// For windows of a single element that are the input itself: the distance between its pixels.
fn is_direct(plan: &Plan<'_>) -> Option<usize> {
    let windows = &plan.windows;
    let same =
        windows.taps() == 1 && windows.stride == [1; SPATIAL] && windows.padding == [0; SPATIAL];
    if same {
        plan.input.pixel(windows.input)
    } else {
        None
    }
}

/// Fills `columns` for `count` windows from window `first` on: a row for each channel and tap.
fn gather<C: Number>(plan: &Plan<'_>, columns: &mut [C], from: &[C], first: usize, count: usize) {
    let windows = &plan.windows;
    let [kz, ky, kx] = windows.kernel;
    let mut rows = columns.chunks_exact_mut(count);
    for channel in 0..plan.in_channels {
        let from = &from[channel * plan.input.channel..];
        for z in 0..kz {
            for y in 0..ky {
                for x in 0..kx {
                    if let Some(to) = rows.next() {
                        gather_tap(plan, to, from, first, [z, y, x]);
                    }
                }
            }
        }
    }
}

/// The elements under one tap of the windows from `first` on.
fn gather_tap<C: Number>(
    plan: &Plan<'_>,
    mut to: &mut [C],
    from: &[C],
    first: usize,
    tap: [usize; SPATIAL],
) {
    let windows = &plan.windows;
    let [_, height, width] = windows.output;
    let inside = windows.inside(2, tap[2]);
    let mut window = first;
    while !to.is_empty() {
        let (row, column) = (window / width, window % width);
        let len = to.len().min(width - column);
        let (run, rest) = to.split_at_mut(len);
        to = rest;
        window += len;
        let z = windows.place(0, row / height, tap[0]);
        let y = windows.place(1, row % height, tap[1]);
        let (Some(z), Some(y)) = (z, y) else {
            run.fill(C::default());
            continue;
        };
        let from = &from[z * plan.input.spatial[0] + y * plan.input.spatial[1]..];
        // The part of the run whose windows have this tap inside of the input.
        let start = inside.start.clamp(column, column + len);
        let end = inside.end.clamp(start, column + len);
        run[..start - column].fill(C::default());
        run[end - column..].fill(C::default());
        gather_run(
            plan,
            &mut run[start - column..end - column],
            from,
            start,
            tap[2],
        );
    }
}

/// The elements under one tap of windows that follow each other in a row, the first of which is `window`.
fn gather_run<C: Number>(plan: &Plan<'_>, run: &mut [C], from: &[C], window: usize, tap: usize) {
    let (windows, pixel) = (&plan.windows, plan.input.spatial[2]);
    let Some(x) = windows.place(2, window, tap).filter(|_| !run.is_empty()) else {
        return;
    };
    let from = &from[x * pixel..];
    match windows.stride[2] * pixel {
        1 => run.copy_from_slice(&from[..run.len()]),
        step => simd::take_every(&from[..(run.len() - 1) * step + 1], step, run),
    }
}
