//! Convolution in which every input channel is a group of its own.

use std::ops::Range;

use et_kernel::KernelError;
use et_memory::Arena;
use smallvec::SmallVec;

use super::{Finish, Plan, scratch_of};
use crate::elementwise::scratch;
use crate::number::Compute;
use crate::product::{Frame, MOST_PARTS, Plane, Product, Slide};
use crate::simd;

/// How many times as long a product takes as one of a matrix.
const COST: usize = 4;

pub(super) fn run<C: Product>(
    temp: &Arena,
    plan: &Plan<'_>,
    to: &mut [C],
    from: &[C],
    weight: &[C],
    finish: &Finish<'_, C>,
) -> Result<(), KernelError> {
    if C::SLIDES
        && let Some(frame) = frame(plan)
    {
        return slide(temp, plan, &frame, to, from, weight, finish);
    }
    to.fill(C::default());
    if plan.input.channel == 1 && plan.output.channel == 1 && plan.out_channels == 1 {
        channels_last(temp, plan, to, from, weight)?;
    } else {
        planes(plan, 0..plan.channels()).for_each(|found| {
            let weight = &weight[found.channel * plan.windows.taps()..][..plan.windows.taps()];
            plane(plan, &mut to[found.target..], &from[found.source..], weight);
        });
    }
    finish.apply(plan, to);
    Ok(())
}

/// Some channels of the output, counted through the batch, and where they and their channels of the input start.
fn planes(plan: &Plan<'_>, channels: Range<usize>) -> impl Iterator<Item = Plane> {
    let of_image = plan.groups * plan.out_channels;
    channels.map(move |index| {
        let (n, channel) = (index / of_image, index % of_image);
        let group = channel / plan.out_channels;
        Plane {
            channel,
            source: n * plan.input.batch + group * plan.input.channel,
            target: n * plan.output.batch + channel * plan.output.channel,
        }
    })
}

/// The sizes, if channels are images with dense rows.
fn frame(plan: &Plan<'_>) -> Option<Frame> {
    let windows = &plan.windows;
    let images = windows.input[0] == 1 && windows.kernel[0] == 1 && windows.padding[0] == 0;
    let dense = plan.input.spatial[2] == 1 && plan.output.spatial[2] == 1;
    if !(images && dense) {
        return None;
    }
    let last = |sizes: [usize; 3]| [sizes[1], sizes[2]];
    let mut frame = Frame::new(last(windows.input), last(windows.output));
    frame.kernel = last(windows.kernel);
    frame.stride = last(windows.stride);
    frame.padding = last(windows.padding);
    frame.dilation = last(windows.dilation);
    frame.pitch = [plan.input.spatial[1], plan.output.spatial[1]];
    frame.sized()
}

fn slide<C: Product>(
    temp: &Arena,
    plan: &Plan<'_>,
    frame: &Frame,
    to: &mut [C],
    from: &[C],
    weight: &[C],
    finish: &Finish<'_, C>,
) -> Result<(), KernelError> {
    let parts = plan.parts(COST * plan.windows.taps());
    let mut rooms: SmallVec<[&mut [C]; MOST_PARTS]> = SmallVec::new();
    for _ in 0..parts {
        rooms.push(scratch(temp, frame.room())?);
    }
    let channels = plan.channels().div_ceil(parts);
    // Without parts everything is one, wherever the channels are.
    let len = if parts == 1 {
        to.len()
    } else {
        channels * plan.output.channel
    };
    let work = |(part, (to, room)): (usize, (&mut [C], &mut &mut [C]))| {
        let own = part * channels..((part + 1) * channels).min(plan.channels());
        let planes = planes(plan, own).map(|plane| Plane {
            target: plane.target - part * len,
            ..plane
        });
        C::slide(Slide {
            frame,
            planes,
            from,
            to,
            factors: weight,
            ending: finish.ending(),
            room,
            dense: plan.is_dense(),
        });
    };
    plan.each(to.chunks_mut(len).zip(&mut rooms).enumerate(), work);
    Ok(())
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
