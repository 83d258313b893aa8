//! What becomes of the sums of a convolution before anybody sees them.

use crate::number::Compute;
use crate::product::Ending;
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

    /// Of one channel.
    pub(super) fn ending(&self, channel: usize) -> Ending<C> {
        Ending {
            bias: self.bias.map_or(C::zero(), |bias| bias[channel]),
            low: self.low,
            high: self.high,
        }
    }

    fn clamps(&self) -> bool {
        C::LOWEST.less(self.low) || self.high.less(C::HIGHEST)
    }

    /// For sums that have their bias.
    pub(super) fn clamp(&self, sums: &mut [C]) {
        if self.clamps() {
            let ending = Ending {
                bias: C::zero(),
                ..self.ending(0)
            };
            simd::change(sums, |sum| ending.of(sum));
        }
    }

    /// Finishes a block of sums: rows are channels from `first` on, columns pixels.
    pub(super) fn block(
        &self,
        sums: &mut [C],
        [row_stride, column_stride]: [usize; 2],
        first: usize,
        [rows, columns]: [usize; 2],
    ) {
        if self.bias.is_none() && !self.clamps() {
            return;
        }
        if column_stride == 1 || rows == 1 && columns == 1 {
            for row in 0..rows {
                let ending = self.ending(first + row);
                let sums = &mut sums[row * row_stride..][..columns];
                simd::change(sums, |sum| ending.of(sum));
            }
            return;
        }
        let ending = self.ending(first);
        for column in 0..columns {
            let sums = &mut sums[column * column_stride..];
            match self.bias {
                Some(bias) if row_stride == 1 => {
                    let bias = &bias[first..first + rows];
                    simd::update(&mut sums[..rows], bias, |sum, bias| {
                        Ending { bias, ..ending }.of(sum)
                    });
                }
                None if row_stride == 1 => simd::change(&mut sums[..rows], |sum| ending.of(sum)),
                _ => {
                    for row in 0..rows {
                        let sum = &mut sums[row * row_stride];
                        *sum = self.ending(first + row).of(*sum);
                    }
                }
            }
        }
    }
}
