//! Convolution in which every input channel is a group of its own.

use et_kernel::KernelError;
use et_memory::Arena;

use super::{Plan, scratch_of};
use crate::number::Compute;
use crate::simd;

pub(super) fn run<C: Compute>(
    temp: &Arena,
    plan: &Plan,
    to: &mut [C],
    from: &[C],
    weight: &[C],
) -> Result<(), KernelError> {
    if plan.input.channel == 1 && plan.output.channel == 1 && plan.out_channels == 1 {
        return channels_last(temp, plan, to, from, weight);
    }
    let mut padded = PaddedPlane::new(temp, plan)?;
    let taps = plan.windows.taps();
    for n in 0..plan.batch {
        for channel in 0..plan.groups * plan.out_channels {
            let source = n * plan.input.batch + channel / plan.out_channels * plan.input.channel;
            let target = n * plan.output.batch + channel * plan.output.channel;
            let (to, from) = (&mut to[target..], &from[source..]);
            let weight = &weight[channel * taps..][..taps];
            match &mut padded {
                Some(padded) => padded.convolve(plan, to, from, weight),
                None => plane(plan, to, from, weight),
            }
        }
    }
    Ok(())
}

/// A copy of one channel with its padding, so that no window reaches outside. For channels that are images with dense rows.
struct PaddedPlane<'a, C> {
    elements: &'a mut [C],
    /// Elements per row.
    width: usize,
}

impl<'a, C: Compute> PaddedPlane<'a, C> {
    /// Nothing, if the convolution is not of a kind that gains.
    fn new(temp: &'a Arena, plan: &Plan) -> Result<Option<Self>, KernelError> {
        let windows = &plan.windows;
        let square = windows.kernel == [1, 3, 3] || windows.kernel == [1, 5, 5];
        let images = windows.input[0] == 1 && windows.padding[0] == 0 && windows.dilation[0] == 1;
        let dense = plan.input.spatial[2] == 1 && plan.output.spatial[2] == 1;
        // The windows were found to fit, so the sums are small; their product may not be worth it.
        let [height, width] = [1, 2].map(|d| windows.input[d] + 2 * windows.padding[d]);
        let room = 4 * (windows.input[1] * windows.input[2] + 64);
        let small = height.checked_mul(width).is_some_and(|numel| numel <= room);
        if !(square && images && dense && small) || windows.dilation != [1; 3] {
            return Ok(None);
        }
        let elements = scratch_of::<C>(temp, &[height, width])?;
        // The padding stays as it is for every channel.
        elements.fill(C::zero());
        Ok(Some(Self { elements, width }))
    }

    fn convolve(&mut self, plan: &Plan, to: &mut [C], from: &[C], weight: &[C]) {
        let windows = &plan.windows;
        let [_, pad_y, pad_x] = windows.padding;
        let [_, height, width] = windows.input;
        for y in 0..height {
            let start = (y + pad_y) * self.width + pad_x;
            let row = &from[y * plan.input.spatial[1]..][..width];
            self.elements[start..start + width].copy_from_slice(row);
        }
        let planes = Planes {
            from: &*self.elements,
            from_width: self.width,
            to,
            to_pitch: plan.output.spatial[1],
            to_size: [windows.output[1], windows.output[2]],
            stride: [windows.stride[1], windows.stride[2]],
        };
        match windows.kernel[2] {
            3 => convolve_planes::<C, 3, 9>(planes, weight),
            _ => convolve_planes::<C, 5, 25>(planes, weight),
        }
    }
}

/// A padded image, and the one to make of it.
struct Planes<'a, C> {
    from: &'a [C],
    from_width: usize,
    to: &'a mut [C],
    to_pitch: usize,
    to_size: [usize; 2],
    stride: [usize; 2],
}

/// Adds the products with a kernel of `K` by `K` taps, which are `TAPS`.
fn convolve_planes<C: Compute, const K: usize, const TAPS: usize>(
    planes: Planes<'_, C>,
    weight: &[C],
) {
    struct Work<'a, C, const K: usize, const TAPS: usize>(Planes<'a, C>, [C; TAPS]);
    impl<C: Compute, const K: usize, const TAPS: usize> pulp::NullaryFnOnce for Work<'_, C, K, TAPS> {
        type Output = ();
        #[inline(always)]
        fn call(self) {
            let Work(planes, weight) = self;
            let [height, width] = planes.to_size;
            let [step_y, step_x] = planes.stride;
            for y in 0..height {
                let rows: [&[C]; K] = std::array::from_fn(|k| {
                    &planes.from[(y * step_y + k) * planes.from_width..][..planes.from_width]
                });
                let to = &mut planes.to[y * planes.to_pitch..][..width];
                match step_x {
                    1 => convolve_row::<C, K, TAPS, 1>(to, rows, &weight),
                    2 => convolve_row::<C, K, TAPS, 2>(to, rows, &weight),
                    _ => convolve_row_by(to, rows, &weight, step_x),
                }
            }
        }
    }
    let Ok(weight) = weight.try_into() else {
        return;
    };
    simd::run(Work::<C, K, TAPS>(planes, weight));
}

/// Windows that are computed side by side.
const SIDE: usize = 16;

#[inline(always)]
fn convolve_row<C: Compute, const K: usize, const TAPS: usize, const STEP: usize>(
    to: &mut [C],
    rows: [&[C]; K],
    weight: &[C; TAPS],
) {
    let (blocks, rest) = to.as_chunks_mut::<SIDE>();
    let done = blocks.len() * SIDE;
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut sums = *block;
        for (ky, row) in rows.iter().enumerate() {
            // One check for all that the block reads of the row.
            let row = &row[i * SIDE * STEP..][..(SIDE - 1) * STEP + K];
            for kx in 0..K {
                let factor = weight[ky * K + kx];
                for (x, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.plus(factor.times(row[x * STEP + kx]));
                }
            }
        }
        *block = sums;
    }
    convolve_row_by(rest, rows.map(|row| &row[done * STEP..]), weight, STEP);
}

#[inline(always)]
fn convolve_row_by<C: Compute, const K: usize, const TAPS: usize>(
    to: &mut [C],
    rows: [&[C]; K],
    weight: &[C; TAPS],
    step: usize,
) {
    for (x, to) in to.iter_mut().enumerate() {
        let mut sum = *to;
        for (ky, row) in rows.iter().enumerate() {
            let row = &row[x * step..][..K];
            for (kx, from) in row.iter().enumerate() {
                sum = sum.plus(weight[ky * K + kx].times(*from));
            }
        }
        *to = sum;
    }
}

/// One channel: each tap's part of a row is a multiple of a row of the input.
fn plane<C: Compute>(plan: &Plan, to: &mut [C], from: &[C], weight: &[C]) {
    let windows = &plan.windows;
    let [depth, height, _] = windows.output;
    let [_, ky, kx] = windows.kernel;
    let [in_z, in_y, in_x] = plan.input.spatial;
    let [out_z, out_y, out_x] = plan.output.spatial;
    for z in 0..depth {
        for y in 0..height {
            let row = z * out_z + y * out_y;
            for (tap, weight) in weight.iter().enumerate() {
                let [tap_z, tap_y, tap_x] = [tap / kx / ky, tap / kx % ky, tap % kx];
                let places = (windows.place(0, z, tap_z), windows.place(1, y, tap_y));
                let inside = windows.inside(2, tap_x);
                let (Some(z), Some(y)) = places else {
                    continue;
                };
                let Some(x) = windows
                    .place(2, inside.start, tap_x)
                    .filter(|_| !inside.is_empty())
                else {
                    continue;
                };
                let from = &from[z * in_z + y * in_y + x * in_x..];
                let to = &mut to[row + inside.start * out_x..];
                add_multiple(
                    (to, out_x),
                    (from, windows.stride[2] * in_x),
                    *weight,
                    inside.len(),
                );
            }
        }
    }
}

/// `to[i] += from[i] * factor`, with the steps given.
#[inline]
fn add_multiple<C: Compute>(
    (to, to_step): (&mut [C], usize),
    (from, from_step): (&[C], usize),
    factor: C,
    count: usize,
) {
    if to_step == 1 && from_step == 1 {
        simd::update(&mut to[..count], &from[..count], |to: C, from: C| {
            to.plus(from.times(factor))
        });
        return;
    }
    let to = to.iter_mut().step_by(to_step.max(1));
    let from = from.iter().step_by(from_step.max(1));
    for (to, from) in to.zip(from).take(count) {
        *to = to.plus(from.times(factor));
    }
}

/// All channels of a pixel are neighbours: a pixel's vector at a time.
fn channels_last<C: Compute>(
    temp: &Arena,
    plan: &Plan,
    to: &mut [C],
    from: &[C],
    weight: &[C],
) -> Result<(), KernelError> {
    let (windows, channels) = (&plan.windows, plan.groups);
    let [depth, height, width] = windows.output;
    let [_, ky, kx] = windows.kernel;
    let taps = windows.taps();
    let [in_z, in_y, in_x] = plan.input.spatial;
    let [out_z, out_y, out_x] = plan.output.spatial;
    // Each tap's factors side by side, as the channels are.
    let factors = scratch_of::<C>(temp, &[taps, channels])?;
    for (tap, line) in factors.chunks_exact_mut(channels).enumerate() {
        for (channel, factor) in line.iter_mut().enumerate() {
            *factor = weight[channel * taps + tap];
        }
    }
    for n in 0..plan.batch {
        for window in 0..depth * height * width {
            let [z, y, x] = [
                window / width / height,
                window / width % height,
                window % width,
            ];
            let start = n * plan.output.batch + z * out_z + y * out_y + x * out_x;
            let to = &mut to[start..start + channels];
            for (tap, factors) in factors.chunks_exact(channels).enumerate() {
                let places = (
                    windows.place(0, z, tap / kx / ky),
                    windows.place(1, y, tap / kx % ky),
                    windows.place(2, x, tap % kx),
                );
                let (Some(z), Some(y), Some(x)) = places else {
                    continue;
                };
                let start = n * plan.input.batch + z * in_z + y * in_y + x * in_x;
                simd::add_products(to, &from[start..start + channels], factors);
            }
        }
    }
    Ok(())
}
