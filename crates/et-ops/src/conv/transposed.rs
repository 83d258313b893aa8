//! Transposed convolution: each input element adds a multiple of the kernel to the output.

use et_kernel::KernelError;
use et_memory::Arena;

use super::{Plan, scratch_of};
use crate::product::{Extent, Matrix, MatrixMut, Product};
use crate::window::{SPATIAL, Windows};

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
    plan: &Plan,
    to: &mut [C],
    from: &[C],
    weight: &[C],
) -> Result<(), KernelError> {
    let windows = &plan.windows;
    let taps = windows.taps();
    let width = windows.input[2];
    let rows = windows.input[0] * windows.input[1];
    let depth = plan.out_channels * taps;
    let columns = scratch_of::<C>(temp, &[depth, width])?;
    for n in 0..plan.batch {
        for group in 0..plan.groups {
            let source = n * plan.input.batch + group * plan.in_channels * plan.input.channel;
            let target = n * plan.output.batch + group * plan.out_channels * plan.output.channel;
            let weight = &weight[group * plan.in_channels * depth..][..plan.in_channels * depth];
            for row in 0..rows {
                let [z, y] = [row / windows.input[1], row % windows.input[1]];
                let start = source + z * plan.input.spatial[0] + y * plan.input.spatial[1];
                let extent = Extent {
                    m: depth,
                    n: width,
                    k: plan.in_channels,
                };
                let out = MatrixMut {
                    elements: &mut *columns,
                    row_stride: width,
                    column_stride: 1,
                };
                let a = Matrix {
                    elements: weight,
                    row_stride: 1,
                    column_stride: depth,
                };
                let b = Matrix {
                    elements: &from[start..],
                    row_stride: plan.input.channel,
                    column_stride: plan.input.spatial[2],
                };
                C::multiply(extent, out, false, a, b)?;
                add_row(plan, &mut to[target..], columns, [z, y]);
            }
        }
    }
    Ok(())
}

/// Adds the products of one row of the input to the output.
fn add_row<C: Product>(plan: &Plan, to: &mut [C], columns: &[C], [z, y]: [usize; 2]) {
    let windows = &plan.windows;
    let [_, ky, kx] = windows.kernel;
    let (taps, width) = (windows.taps(), windows.input[2]);
    let [out_z, out_y, out_x] = plan.output.spatial;
    // Seen from the output, the windows are those of a convolution whose input it is.
    let place = |d: usize, window: usize, tap: usize| {
        (window * windows.stride[d] + tap * windows.dilation[d])
            .checked_sub(windows.padding[d])
            .filter(|&at| at < windows.output[d])
    };
    for (i, products) in columns.chunks_exact(width).enumerate() {
        let (channel, tap) = (i / taps, i % taps);
        let [tap_z, tap_y, tap_x] = [tap / kx / ky, tap / kx % ky, tap % kx];
        let (Some(z), Some(y)) = (place(0, z, tap_z), place(1, y, tap_y)) else {
            continue;
        };
        let row = channel * plan.output.channel + z * out_z + y * out_y;
        for (x, product) in products.iter().enumerate() {
            if let Some(x) = place(2, x, tap_x) {
                let to = &mut to[row + x * out_x];
                *to = to.plus(*product);
            }
        }
    }
}
