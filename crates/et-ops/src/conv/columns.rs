//! Convolution as a product: the elements under each window become a column of a matrix.

use et_kernel::KernelError;
use et_memory::Arena;

use super::{Plan, scratch_of};
use crate::number::Number;
use crate::product::{Extent, Matrix, MatrixMut, Product, Room};
use crate::window::SPATIAL;

/// Bytes of columns that are made at a time, so that they are still in the cache when they are multiplied.
const BLOCK_NBYTES: usize = 256 * 1024;

/// Windows that are made at a time at least, however large their columns are.
const LEAST_WINDOWS: usize = 16;

/// Puts the products into the output, or adds them to it.
pub(super) fn run<C: Product>(
    temp: &Arena,
    plan: &Plan,
    to: &mut [C],
    from: &[C],
    weight: &[C],
    add: bool,
) -> Result<(), KernelError> {
    let (windows, taps) = (&plan.windows, plan.windows.taps());
    let depth = plan.in_channels * taps;
    let row = windows.output[2];
    // Without a common distance between pixels (an unusual dimension order) only the pixels of a row have one.
    let pixel = plan.output.pixel(windows.output);
    let run = if pixel.is_some() {
        windows.windows()
    } else {
        row
    };
    let block = (BLOCK_NBYTES / size_of::<C>() / depth)
        .max(LEAST_WINDOWS)
        .min(run);
    let direct = is_direct(plan);
    let columns = if direct.is_some() {
        &mut []
    } else {
        scratch_of::<C>(temp, &[depth, block])?
    };
    let mut room = Room::new(temp);
    for n in 0..plan.batch {
        for group in 0..plan.groups {
            let source = n * plan.input.batch + group * plan.in_channels * plan.input.channel;
            let target = n * plan.output.batch + group * plan.out_channels * plan.output.channel;
            let a = Matrix {
                elements: &weight[group * plan.out_channels * depth..][..plan.out_channels * depth],
                row_stride: depth,
                column_stride: 1,
            };
            let mut first = 0;
            while first < windows.windows() {
                let count = block.min(run - first % run);
                let extent = Extent {
                    m: plan.out_channels,
                    n: count,
                    k: depth,
                };
                let b = match direct {
                    Some(pixel) => Matrix {
                        elements: &from[source + first * pixel..],
                        row_stride: plan.input.channel,
                        column_stride: pixel,
                    },
                    None => {
                        gather(plan, columns, &from[source..], first, count);
                        Matrix {
                            elements: &*columns,
                            row_stride: count,
                            column_stride: 1,
                        }
                    }
                };
                let start = target + place(plan, pixel, first);
                let out = MatrixMut {
                    elements: &mut to[start..],
                    row_stride: plan.output.channel,
                    column_stride: pixel.unwrap_or(plan.output.spatial[2]),
                };
                C::multiply(&mut room, extent, out, add, a, b)?;
                first += count;
            }
        }
    }
    Ok(())
}

/// Where a window lies in a channel of the output.
fn place(plan: &Plan, pixel: Option<usize>, window: usize) -> usize {
    if let Some(pixel) = pixel {
        return window * pixel;
    }
    let [_, height, width] = plan.windows.output;
    let [z, y, x] = plan.output.spatial;
    let row = window / width;
    row / height * z + row % height * y + window % width * x
}

/// For windows of a single element that are the input itself: the distance between its pixels.
fn is_direct(plan: &Plan) -> Option<usize> {
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
fn gather<C: Number>(plan: &Plan, columns: &mut [C], from: &[C], first: usize, count: usize) {
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
    plan: &Plan,
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
fn gather_run<C: Number>(plan: &Plan, run: &mut [C], from: &[C], window: usize, tap: usize) {
    let (windows, pixel) = (&plan.windows, plan.input.spatial[2]);
    let Some(x) = windows.place(2, window, tap).filter(|_| !run.is_empty()) else {
        return;
    };
    let from = &from[x * pixel..];
    match windows.stride[2] * pixel {
        1 => run.copy_from_slice(&from[..run.len()]),
        step => {
            for (to, from) in run.iter_mut().zip(from.iter().step_by(step)) {
                *to = *from;
            }
        }
    }
}
