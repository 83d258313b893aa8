//! Convolution in which every input channel is a group of its own.

use super::Plan;
use crate::number::Compute;
use crate::simd;

pub(super) fn run<C: Compute>(plan: &Plan, to: &mut [C], from: &[C], weight: &[C]) {
    if plan.input.channel == 1 && plan.output.channel == 1 && plan.out_channels == 1 {
        return channels_last(plan, to, from, weight);
    }
    let taps = plan.windows.taps();
    for n in 0..plan.batch {
        for channel in 0..plan.groups * plan.out_channels {
            let source = n * plan.input.batch + channel / plan.out_channels * plan.input.channel;
            let target = n * plan.output.batch + channel * plan.output.channel;
            let weight = &weight[channel * taps..][..taps];
            plane(plan, &mut to[target..], &from[source..], weight);
        }
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
fn channels_last<C: Compute>(plan: &Plan, to: &mut [C], from: &[C], weight: &[C]) {
    let (windows, channels) = (&plan.windows, plan.groups);
    let [depth, height, width] = windows.output;
    let [kz, ky, kx] = windows.kernel;
    let taps = windows.taps();
    let [in_z, in_y, in_x] = plan.input.spatial;
    let [out_z, out_y, out_x] = plan.output.spatial;
    for n in 0..plan.batch {
        for window in 0..depth * height * width {
            let [z, y, x] = [
                window / width / height,
                window / width % height,
                window % width,
            ];
            let start = n * plan.output.batch + z * out_z + y * out_y + x * out_x;
            let to = &mut to[start..start + channels];
            for tap in 0..kz * ky * kx {
                let places = (
                    windows.place(0, z, tap / kx / ky),
                    windows.place(1, y, tap / kx % ky),
                    windows.place(2, x, tap % kx),
                );
                let (Some(z), Some(y), Some(x)) = places else {
                    continue;
                };
                let start = n * plan.input.batch + z * in_z + y * in_y + x * in_x;
                let from = &from[start..start + channels];
                let factors = weight[tap..].iter().step_by(taps);
                for ((to, from), factor) in to.iter_mut().zip(from).zip(factors) {
                    *to = to.plus(from.times(*factor));
                }
            }
        }
    }
}
