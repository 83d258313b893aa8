//! Convolutions of one to three dimensions: strided, padded, dilated, in groups, transposed.

use et_kernel::ScalarType;

use crate::array::{Array, indices};
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, TYPES, check};
use crate::number::Number::{self, Float, Whole};

/// The parameters of a convolution, for each dimension.
struct Parameters {
    kernel: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    /// Of the output of a transposed one.
    extra: Vec<usize>,
}

impl Parameters {
    fn draw(choices: &mut Choices, rank: usize, transposed: bool) -> Self {
        let mut list = |low, high| -> Vec<usize> {
            (0..rank)
                .map(|_| choices.within(low, high) as usize)
                .collect()
        };
        let (kernel, stride, padding, dilation) = (list(1, 3), list(1, 3), list(0, 2), list(1, 2));
        let extra = stride
            .iter()
            .zip(&dilation)
            .map(|(stride, dilation)| match transposed {
                true => stride.max(dilation) - 1,
                false => 0,
            });
        Self {
            extra: extra.collect(),
            kernel,
            stride,
            padding,
            dilation,
        }
    }

    /// The output's size along `dim`, if there is any.
    fn size(&self, dim: usize, input: usize, transposed: bool) -> Option<usize> {
        let reach = self.dilation[dim] * (self.kernel[dim] - 1) + 1;
        if transposed {
            let whole = input.checked_sub(1)? * self.stride[dim] + reach + self.extra[dim];
            return whole.checked_sub(2 * self.padding[dim]);
        }
        let room = (input + 2 * self.padding[dim]).checked_sub(reach)?;
        Some(room / self.stride[dim] + 1)
    }

    /// The input's index for an output's index and a tap, in a convolution that is not transposed.
    fn source(&self, out: &[usize], tap: &[usize], input: &[usize]) -> Option<Vec<usize>> {
        let index = (0..out.len()).map(|d| {
            let at = (out[d] * self.stride[d] + tap[d] * self.dilation[d])
                .checked_sub(self.padding[d])?;
            (at < input[d]).then_some(at)
        });
        index.collect()
    }

    /// The input's index that reaches an output's index by a tap, in a transposed one.
    fn origin(&self, out: &[usize], tap: &[usize], input: &[usize]) -> Option<Vec<usize>> {
        let index = (0..out.len()).map(|d| {
            let spread = (out[d] + self.padding[d]).checked_sub(tap[d] * self.dilation[d])?;
            let at = spread / self.stride[d];
            (spread % self.stride[d] == 0 && at < input[d]).then_some(at)
        });
        index.collect()
    }
}

#[test]
fn convolutions() {
    check(700, |choices| {
        let rank = choices.pick(&[2, 1, 2, 3]);
        let transposed = choices.below(3) == 0;
        let dtype = match choices.below(3) {
            0 => choices.pick(&TYPES[..9]),
            _ => ScalarType::Float,
        };
        let parameters = Parameters::draw(choices, rank, transposed);
        let groups = choices.within(1, 3) as usize;
        let depthwise = choices.below(3) == 0;
        let (own_in, own_out) = match depthwise {
            true => (1, choices.within(1, 2) as usize),
            false => (choices.within(1, 3) as usize, choices.within(1, 4) as usize),
        };
        let batch = choices.truth().then(|| choices.below(3));
        let spatial: Vec<usize> = (0..rank)
            .map(|_| choices.within(1, 8 / rank as i64 + 1) as usize)
            .collect();
        let sizes: Option<Vec<usize>> = (0..rank)
            .map(|d| parameters.size(d, spatial[d], transposed))
            .collect();
        let outer = |channels: usize| batch.into_iter().chain([channels]);
        let input_sizes: Vec<usize> = outer(groups * own_in)
            .chain(spatial.iter().copied())
            .collect();
        let weight_sizes: Vec<usize> = match transposed {
            true => vec![groups * own_in, own_out],
            false => vec![groups * own_out, own_in],
        };
        let weight_sizes = [&weight_sizes[..], &parameters.kernel].concat();
        let input = choices.array(dtype, &input_sizes, Fill::Small);
        let weight = choices.array(dtype, &weight_sizes, Fill::Small);
        let bias = choices
            .truth()
            .then(|| choices.array(dtype, &[groups * own_out], Fill::Small));
        let call = Call::new("aten::convolution.out")
            .tensor(&input)
            .tensor(&weight)
            .optional(bias.as_ref())
            .ints(&parameters.stride)
            .ints(&parameters.padding)
            .ints(&parameters.dilation)
            .truth(transposed)
            .ints(&parameters.extra)
            .int(groups)
            .out(choices, dtype, input_sizes.len());
        let Some(sizes) = sizes else {
            return call.fails(choices);
        };
        let out_sizes: Vec<usize> = outer(groups * own_out).chain(sizes).collect();
        let leading = usize::from(batch.is_some());
        let expected = Array::new(dtype, &out_sizes, |i| {
            let (outer, place) = i.split_at(leading + 1);
            let channel = outer[leading];
            let group = channel / own_out;
            let mut sum = bias.as_ref().map_or(Whole(0), |bias| bias.at(&[channel]));
            for tap in indices(&parameters.kernel) {
                let source = match transposed {
                    true => parameters.origin(place, &tap, &spatial),
                    false => parameters.source(place, &tap, &spatial),
                };
                let Some(source) = source else {
                    continue;
                };
                for own in 0..own_in {
                    let from = group * own_in + own;
                    let x = input.at(&[&outer[..leading], &[from], &source].concat());
                    let w = match transposed {
                        true => weight.at(&[&[from, channel % own_out], &tap[..]].concat()),
                        false => weight.at(&[&[channel, own], &tap[..]].concat()),
                    };
                    sum = added(sum, x, w, dtype);
                }
            }
            sum
        });
        call.gives(choices, &[&expected], 60.0);
    });
}

fn added(sum: Number, x: Number, w: Number, dtype: ScalarType) -> Number {
    match FLOATS.contains(&dtype) {
        true => Float(sum.float() + x.float() * w.float()),
        false => Whole(sum.whole() + x.whole() * w.whole()),
    }
}
