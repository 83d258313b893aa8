//! Convolution as a product: the elements under each window become a column of a matrix.

use et_kernel::KernelError;
use et_memory::Arena;

use super::{Plan, scratch_of};
use crate::number::Number;
use crate::product::{Extent, Matrix, MatrixMut, Product};
use crate::window::SPATIAL;

/// Bytes of columns that are made at a time, so that they are still in the cache when they are multiplied.
const BLOCK_NBYTES: usize = 256 * 1024;

pub(super) fn run<C: Product>(
    temp: &Arena,
    plan: &Plan,
    to: &mut [C],
    from: &[C],
    weight: &[C],
) -> Result<(), KernelError> {
    let (windows, taps) = (&plan.windows, plan.windows.taps());
    let depth = plan.in_channels * taps;
    let pixel = plan.output.pixel(windows.output);
    // Without a common distance between pixels (an unusual dimension order), one row of pixels at a time has one.
    let row = windows.output[2];
    let block = match pixel {
        Some(_) => (BLOCK_NBYTES / size_of::<C>() / depth.max(1))
            .max(row)
            .min(windows.windows()),
        None => row,
    };
    let block = block.div_ceil(row) * row;
    let pixel = pixel.unwrap_or(plan.output.spatial[2]);
    let direct = is_direct(plan);
    let columns = if direct.is_some() {
        &mut []
    } else {
        scratch_of::<C>(temp, &[depth, block])?
    };
    for n in 0..plan.batch {
        for group in 0..plan.groups {
            let source = n * plan.input.batch + group * plan.in_channels * plan.input.channel;
            let target = n * plan.output.batch + group * plan.out_channels * plan.output.channel;
            let weight = &weight[group * plan.out_channels * depth..][..plan.out_channels * depth];
            for first in (0..windows.windows()).step_by(block) {
                let count = block.min(windows.windows() - first);
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
                let start = target + place(plan, first, pixel);
                let out = MatrixMut {
                    elements: &mut to[start..],
                    row_stride: plan.output.channel,
                    column_stride: pixel,
                };
                let a = Matrix {
                    elements: weight,
                    row_stride: depth,
                    column_stride: 1,
                };
                C::multiply(extent, out, true, a, b)?;
            }
        }
    }
    Ok(())
}

/// Where window `first` (the first of a row) lies in a channel of the output.
fn place(plan: &Plan, first: usize, pixel: usize) -> usize {
    if plan.output.pixel(plan.windows.output).is_some() {
        return first * pixel;
    }
    let [_, height, width] = plan.windows.output;
    let [z, y, _] = plan.output.spatial;
    let row = first / width;
    row / height * z + row % height * y
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

/// Fills `columns` for `count` windows from window `first` (the first of a row) on: a row for each channel and tap.
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
    to: &mut [C],
    from: &[C],
    first: usize,
    tap: [usize; SPATIAL],
) {
    let windows = &plan.windows;
    let [_, height, width] = windows.output;
    let inside = windows.inside(2, tap[2]);
    let step = windows.stride[2] * plan.input.spatial[2];
    for (i, run) in to.chunks_mut(width).enumerate() {
        let row = first / width + i;
        let z = windows.place(0, row / height, tap[0]);
        let y = windows.place(1, row % height, tap[1]);
        let (Some(z), Some(y)) = (z, y) else {
            run.fill(C::default());
            continue;
        };
        run[..inside.start].fill(C::default());
        run[inside.end..].fill(C::default());
        let run = &mut run[inside.clone()];
        let Some(x) = windows
            .place(2, inside.start, tap[2])
            .filter(|_| !run.is_empty())
        else {
            continue;
        };
        let start =
            z * plan.input.spatial[0] + y * plan.input.spatial[1] + x * plan.input.spatial[2];
        if step == 1 {
            run.copy_from_slice(&from[start..start + run.len()]);
        } else {
            for (to, from) in run.iter_mut().zip(from[start..].iter().step_by(step)) {
                *to = *from;
            }
        }
    }
}
