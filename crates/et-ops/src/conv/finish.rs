//! What becomes of the sums of a convolution before anybody sees them.

use std::ops::Range;

use crate::number::Compute;
use crate::product::{Bias, Ending};
use crate::simd;

/// A number to add to each channel, and the numbers that sums are kept between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish<'a, C> {
    pub(super) bias: Option<&'a [C]>,
    pub(super) low: C,
    pub(super) high: C,
}

impl<'a, C: Compute> Finish<'a, C> {
    /// A bias, if there is one.
    pub(super) fn new(bias: Option<&'a [C]>) -> Self {
        Self {
            bias,
            low: C::LOWEST,
            high: C::HIGHEST,
        }
    }

    /// Of sums whose rows are the channels.
    pub(super) fn ending(&self) -> Ending<'a, C> {
        Ending {
            bias: self.bias.map_or(Bias::Nothing, Bias::Rows),
            low: self.low,
            high: self.high,
        }
    }

    /// Of sums whose rows are some of the channels.
    pub(super) fn ending_of(&self, channels: Range<usize>) -> Ending<'a, C> {
        Self {
            bias: self.bias.map(|bias| &bias[channels]),
            ..*self
        }
        .ending()
    }

    /// For sums that have their bias.
    pub(super) fn clamp(&self, sums: &mut [C]) {
        let ending = self.ending();
        if ending.clamps() {
            simd::change(sums, |sum| ending.kept(sum));
        }
    }
}
