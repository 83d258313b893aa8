//! Transposed convolution: each input element adds a multiple of the kernel to the output.

use et_kernel::KernelError;
use et_memory::Arena;

use super::{Plan, scratch_of};
use crate::product::{Ending, Extent, Matrix, MatrixMut, Product, Room};
use crate::window::{SPATIAL, Windows};

/// Bytes of products that are made at a time.
const BLOCK_NBYTES: usize = 256 * 1024;

/// Pixels that are taken at a time at least.
const LEAST_PIXELS: usize = 16;

/// Fills in the output's sizes.
pub(super) fn sized(mut windows: Windows, extra: [usize; SPATIAL]) -> Result<Windows, KernelError> {
    for (d, extra) in extra.into_iter().enumerate() {
        let [input, kernel, stride] = [windows.input[d], windows.kernel[d], windows.stride[d]];
        let (dilation, padding) = (windows.dilation[d], windows.padding[d]);
        let size = || {
            let spread = input.checked_sub(1)?.checked_mul(stride)?;
            let reach = kernel.checked_sub(1)?.checked_mul(dilation)?;
            let whole = spread
                .checked_add(reach)?
                .checked_add(1)?
                .checked_add(extra)?;
            whole.checked_sub(padding.checked_mul(2)?)
        };
        let fits = stride > 0 && dilation > 0 && (extra == 0 || extra < stride.max(dilation));
        windows.output[d] = size().filter(|_| fits).ok_or_else(|| {
            KernelError::invalid(format!(
                "a transposed convolution of size {input} with kernel {kernel}, stride {stride}, padding {padding}, dilation \
                 {dilation} and output padding {}",
                extra
            ))
        })?;
    }
    Ok(windows)
}

/// For each pixel of the input the products with all taps first, then their sums where they belong.
pub(super) fn run<C: Product>(
    temp: &Arena,
    plan: &Plan<'_>,
    to: &mut [C],
    from: &[C],
    weight: &[C],
) -> Result<(), KernelError> {
    let windows = &plan.windows;
    let width = windows.input[2];
    let rows = windows.input[0] * windows.input[1];
    let depth = plan.out_channels * windows.taps();
    let block = (BLOCK_NBYTES / size_of::<C>() / depth)
        .max(LEAST_PIXELS)
        .min(width);
    let columns = scratch_of::<C>(temp, &[depth, block])?;
    let mut room = Room::new(temp);
    for n in 0..plan.batch {
        for group in 0..plan.groups {
            let source = n * plan.input.batch + group * plan.in_channels * plan.input.channel;
            let target = n * plan.output.batch + group * plan.out_channels * plan.output.channel;
            let a = Matrix {
                elements: &weight[group * plan.in_channels * depth..][..plan.in_channels * depth],
                row_stride: 1,
                column_stride: depth,
            };
            for (row, x) in
                (0..rows).flat_map(|row| (0..width).step_by(block).map(move |x| (row, x)))
            {
                let [z, y] = [row / windows.input[1], row % windows.input[1]];
                let [in_z, in_y, in_x] = plan.input.spatial;
                let count = block.min(width - x);
                let extent = Extent {
                    m: depth,
                    n: count,
                    k: plan.in_channels,
                };
                let out = MatrixMut {
                    elements: &mut *columns,
                    row_stride: count,
                    column_stride: 1,
                };
                let b = Matrix {
                    elements: &from[source + z * in_z + y * in_y + x * in_x..],
                    row_stride: plan.input.channel,
                    column_stride: in_x,
                };
                C::multiply(&mut room, extent, out, false, a, b, &Ending::NOTHING)?;
                add_run(plan, &mut to[target..], columns, count, [z, y, x]);
            }
        }
    }
    Ok(())
}

/// Adds the products of `count` pixels that follow each other in a row of the input to the output.
fn add_run<C: Product>(
    plan: &Plan<'_>,
    to: &mut [C],
    columns: &[C],
    count: usize,
    [z, y, first]: [usize; SPATIAL],
) {
    let windows = &plan.windows;
    let [_, ky, kx] = windows.kernel;
    let taps = windows.taps();
    let [out_z, out_y, out_x] = plan.output.spatial;
    // Where a tap over a pixel lies in the output.
    let place = |d: usize, pixel: usize, tap: usize| {
        (pixel * windows.stride[d] + tap * windows.dilation[d])
            .checked_sub(windows.padding[d])
            .filter(|&at| at < windows.output[d])
    };
    let products = columns.chunks_exact(count).take(plan.out_channels * taps);
    for (i, products) in products.enumerate() {
        let (channel, tap) = (i / taps, i % taps);
        let [tap_z, tap_y, tap_x] = [tap / kx / ky, tap / kx % ky, tap % kx];
        let (Some(z), Some(y)) = (place(0, z, tap_z), place(1, y, tap_y)) else {
            continue;
        };
        let row = channel * plan.output.channel + z * out_z + y * out_y;
        for (x, product) in products.iter().enumerate() {
            if let Some(x) = place(2, first + x, tap_x) {
                let to = &mut to[row + x * out_x];
                *to = to.plus(*product);
            }
        }
    }
}
