//! Convolution in which every input channel is a group of its own.

use std::ops::Range;

use et_kernel::KernelError;
use et_memory::Arena;
use smallvec::SmallVec;

use super::{Finish, MOST_PARTS, Plan, fill_bias, scratch_of};
use crate::number::Compute;
use crate::product::{Ending, Product, SLACK, Slide};
use crate::simd;

pub(super) fn run<C: Product>(
    temp: &Arena,
    plan: &Plan<'_>,
    to: &mut [C],
    from: &[C],
    weight: &[C],
    finish: &Finish<'_, C>,
) -> Result<(), KernelError> {
    let parts = plan.parts(plan.windows.taps());
    let mut phases: SmallVec<[Phases<'_, C>; MOST_PARTS]> = SmallVec::new();
    for _ in 0..parts {
        phases.extend(Phases::new(temp, plan)?);
    }
    if !phases.is_empty() {
        let channels = plan.channels().div_ceil(parts);
        // Without parts everything is one, wherever the channels are.
        let len = if parts == 1 {
            to.len()
        } else {
            channels * plan.output.channel
        };
        let work = |(part, (to, phases)): (usize, (&mut [C], &mut Phases<'_, C>))| {
            let start = part * len;
            let own = part * channels..((part + 1) * channels).min(plan.channels());
            each_channel(plan, own, |channel, source, target| {
                let weight = &weight[channel * plan.windows.taps()..][..plan.windows.taps()];
                phases.fill(plan, &from[source..]);
                phases.convolve(
                    plan,
                    &mut to[target - start..],
                    weight,
                    finish.ending(channel),
                );
            });
        };
        plan.each(to.chunks_mut(len).zip(&mut phases).enumerate(), work);
        return Ok(());
    }
    fill_bias(plan, to, finish.bias);
    if plan.input.channel == 1 && plan.output.channel == 1 && plan.out_channels == 1 {
        channels_last(temp, plan, to, from, weight)?;
    } else {
        each_channel(plan, 0..plan.channels(), |channel, source, target| {
            let weight = &weight[channel * plan.windows.taps()..][..plan.windows.taps()];
            plane(plan, &mut to[target..], &from[source..], weight);
        });
    }
    finish.clamp(to);
    Ok(())
}

/// Calls `visit` with each of some channels of the output, counted through the batch, and where it and its channel of the
/// input start.
fn each_channel(
    plan: &Plan<'_>,
    channels: Range<usize>,
    mut visit: impl FnMut(usize, usize, usize),
) {
    let of_image = plan.groups * plan.out_channels;
    for index in channels {
        let (n, channel) = (index / of_image, index % of_image);
        let source = n * plan.input.batch + channel / plan.out_channels * plan.input.channel;
        let target = n * plan.output.batch + channel * plan.output.channel;
        visit(channel, source, target);
    }
}

/// One channel with its padding, taken apart by the remainders of rows and columns by the strides, so that what windows that are
/// neighbours have under a tap are neighbours too. For channels that are images with dense rows.
struct Phases<'a, C> {
    elements: &'a mut [C],
    /// Elements per row.
    width: usize,
    /// Elements per remainder.
    numel: usize,
    /// Where the first window has each tap.
    offsets: &'a mut [i64],
}

/// Strides up to which taking a channel apart pays.
const MOST_STRIDE: usize = 4;

impl<'a, C: Product> Phases<'a, C> {
    /// Nothing, if the convolution is not of a kind that gains.
    fn new(temp: &'a Arena, plan: &Plan<'_>) -> Result<Option<Self>, KernelError> {
        let windows = &plan.windows;
        let images = windows.input[0] == 1 && windows.kernel[0] == 1 && windows.padding[0] == 0;
        let dense = plan.input.spatial[2] == 1 && plan.output.spatial[2] == 1;
        let [step_y, step_x] = [windows.stride[1], windows.stride[2]];
        // The windows were found to fit, so the sums are small; their product may not be worth it.
        let [height, width] =
            [1, 2].map(|d| (windows.input[d] + 2 * windows.padding[d]).div_ceil(windows.stride[d]));
        let room = 4 * (windows.input[1] * windows.input[2] + 64);
        let small = height
            .checked_mul(width)
            .and_then(|numel| numel.checked_mul(step_y * step_x))
            .is_some_and(|numel| numel <= room);
        if !(images && dense && small) || step_y.max(step_x) > MOST_STRIDE {
            return Ok(None);
        }
        let numel = height * width;
        let elements = scratch_of::<C>(temp, &[numel * step_y * step_x + SLACK])?;
        // The padding stays as it is for every channel.
        elements.fill(C::zero());
        let offsets = scratch_of::<i64>(temp, &[windows.taps()])?;
        let columns = windows.kernel[2];
        let offset = |tap: usize| {
            let y = tap / columns * windows.dilation[1];
            let x = tap % columns * windows.dilation[2];
            let phase = y % step_y * step_x + x % step_x;
            phase * numel + y / step_y * width + x / step_x
        };
        for (tap, to) in offsets.iter_mut().enumerate() {
            *to = offset(tap) as i64;
        }
        Ok(Some(Self {
            elements,
            width,
            numel,
            offsets,
        }))
    }

    /// Takes a channel of the input.
    fn fill(&mut self, plan: &Plan<'_>, from: &[C]) {
        let windows = &plan.windows;
        let [_, step_y, step_x] = windows.stride;
        let [_, height, width] = windows.input;
        for y in 0..height {
            let row = &from[y * plan.input.spatial[1]..][..width];
            let y = y + windows.padding[1];
            let start = y % step_y * step_x * self.numel + y / step_y * self.width;
            for phase in 0..step_x {
                // The first column of this remainder.
                let first = (phase + step_x - windows.padding[2] % step_x) % step_x;
                let start = start + phase * self.numel + (first + windows.padding[2]) / step_x;
                let to = &mut self.elements[start..];
                simd::take_every(row.get(first..).unwrap_or_default(), step_x, to);
            }
        }
    }

    fn convolve(&self, plan: &Plan<'_>, to: &mut [C], weight: &[C], ending: Ending<C>) {
        let [_, height, width] = plan.windows.output;
        let to_pitch = plan.output.spatial[1];
        let len = height.saturating_sub(1) * to_pitch + width;
        C::slide(Slide {
            from: &*self.elements,
            from_pitch: self.width,
            offsets: &*self.offsets,
            factors: weight,
            to: &mut to[..len],
            to_pitch,
            size: [height, width],
            ending,
        });
    }
}

/// One channel: each tap's part of a row is a multiple of a row of the input.
fn plane<C: Compute>(plan: &Plan<'_>, to: &mut [C], from: &[C], weight: &[C]) {
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
    plan: &Plan<'_>,
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
