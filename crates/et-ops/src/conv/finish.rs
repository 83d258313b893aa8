//! What becomes of the sums of a convolution before anybody sees them.

use std::ops::Range;

use super::Plan;
use crate::number::Compute;
use crate::product::{Bias, Ending, Line};
use crate::simd;

/// What the sums of each channel are multiplied by and what is added to them, and the numbers that they are kept between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish<'a, C> {
    pub(super) line: Option<Line<'a, C>>,
    pub(super) low: C,
    pub(super) high: C,
}

impl<'a, C: Compute> Finish<'a, C> {
    /// A bias, if there is one.
    pub(super) fn new(bias: Option<&'a [C]>) -> Self {
        Self {
            line: bias.map(Line::new),
            low: C::LOWEST,
            high: C::HIGHEST,
        }
    }

    /// Of sums whose rows are the channels.
    pub(super) fn ending(&self) -> Ending<'a, C> {
        Ending {
            bias: self.line.map_or(Bias::Nothing, Bias::Rows),
            low: self.low,
            high: self.high,
        }
    }

    /// Of sums whose rows are some of the channels.
    pub(super) fn ending_of(&self, channels: Range<usize>) -> Ending<'a, C> {
        Self {
            line: self.line.map(|line| line.part(channels)),
            ..*self
        }
        .ending()
    }

    /// Finishes sums that start as 0.
    pub(super) fn apply(&self, plan: &Plan<'_>, sums: &mut [C]) {
        let (ending, channels) = (self.ending(), plan.groups * plan.out_channels);
        if ending.is_nothing() {
            return;
        }
        if plan.output.channel == 1 && channels > 1 {
            for pixel in sums.chunks_exact_mut(channels) {
                for (channel, sum) in pixel.iter_mut().enumerate() {
                    *sum = ending.of(*sum, channel, 0);
                }
            }
            return;
        }
        // Channels are planes: what lies between one and the next belongs to the one.
        for (i, plane) in sums.chunks_mut(plan.output.channel.max(1)).enumerate() {
            simd::change(plane, |sum| ending.of(sum, i % channels, 0));
        }
    }
}
