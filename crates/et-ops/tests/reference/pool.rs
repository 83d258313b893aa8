//! Pooling: the largest and the mean of windows, and windows that share the input out.

use et_kernel::ScalarType;

use crate::array::{Array, indices};
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, TYPES, check};
use crate::number::Number::{self, Float, Whole};

/// Windows along one dimension.
#[derive(Clone, Copy)]
struct Windows {
    input: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil: bool,
}

impl Windows {
    fn draw(choices: &mut Choices, ceil: bool, dilated: bool) -> Self {
        let kernel = choices.within(1, 3) as usize;
        Self {
            input: choices.within(1, 7) as usize,
            kernel,
            stride: choices.within(1, 3) as usize,
            padding: choices.below(kernel / 2 + 1),
            dilation: if dilated {
                choices.within(1, 2) as usize
            } else {
                1
            },
            ceil,
        }
    }

    fn count(&self) -> Option<usize> {
        let reach = self.dilation * (self.kernel - 1) + 1;
        let room = (self.input + 2 * self.padding).checked_sub(reach)?;
        let mut count = room / self.stride + 1;
        if self.ceil && room % self.stride > 0 && count * self.stride < self.input + self.padding {
            count += 1;
        }
        Some(count)
    }

    /// The places of a window's taps, inside of the input.
    fn places(self, window: usize) -> impl Iterator<Item = usize> {
        (0..self.kernel).filter_map(move |tap| {
            let at = (window * self.stride + tap * self.dilation).checked_sub(self.padding)?;
            (at < self.input).then_some(at)
        })
    }

    /// How many taps lie in the input or in its padding.
    fn padded(self, window: usize) -> usize {
        let start = window * self.stride;
        (start + self.kernel).min(self.input + 2 * self.padding) - start
    }
}

/// Outer sizes, windows of each dimension, and what they make.
struct Case {
    outer: Vec<usize>,
    windows: Vec<Windows>,
    ceil: bool,
}

impl Case {
    fn draw(choices: &mut Choices, rank: usize, dilated: bool) -> Self {
        let outer = match choices.truth() {
            true => vec![choices.below(3), 1 + choices.below(3)],
            false => vec![choices.below(4)],
        };
        let ceil = choices.truth();
        let windows = (0..rank)
            .map(|_| Windows::draw(choices, ceil, dilated))
            .collect();
        Self {
            outer,
            windows,
            ceil,
        }
    }

    fn list(&self, of: impl Fn(&Windows) -> usize) -> Vec<usize> {
        self.windows.iter().map(of).collect()
    }

    fn input(&self) -> Vec<usize> {
        [&self.outer[..], &self.list(|w| w.input)].concat()
    }

    fn sizes(&self) -> Option<Vec<usize>> {
        let counts: Option<Vec<usize>> = self.windows.iter().map(Windows::count).collect();
        Some([&self.outer[..], &counts?].concat())
    }

    /// The input's indices under the window of a result.
    fn under(&self, result: &[usize]) -> Vec<Vec<usize>> {
        let (outer, place) = result.split_at(self.outer.len());
        let mut all = vec![outer.to_vec()];
        for (windows, &window) in self.windows.iter().zip(place) {
            let places: Vec<usize> = windows.places(window).collect();
            all = all
                .iter()
                .flat_map(|index| places.iter().map(|&at| [&index[..], &[at]].concat()))
                .collect();
        }
        all
    }
}

#[test]
fn the_largest_of_a_window() {
    check(300, |choices| {
        let dtype = choices.pick(&TYPES[..9]);
        let case = Case::draw(choices, 2, true);
        let fill = choices.fill();
        let x = choices.array(dtype, &case.input(), fill);
        let own_stride = case.windows.iter().all(|w| w.stride == w.kernel);
        let stride = if own_stride {
            Vec::new()
        } else {
            case.list(|w| w.stride)
        };
        let rank = x.rank();
        let call = Call::new("aten::max_pool2d_with_indices.out")
            .tensor(&x)
            .ints(&case.list(|w| w.kernel))
            .ints(&stride)
            .ints(&case.list(|w| w.padding))
            .ints(&case.list(|w| w.dilation))
            .truth(case.ceil)
            .out(choices, dtype, rank)
            .out(choices, ScalarType::Long, rank);
        let Some(sizes) = case.sizes() else {
            return call.fails(choices);
        };
        let best = |i: &[usize]| -> (Number, i128) {
            let mut best: Option<(Number, i128)> = None;
            for index in case.under(i) {
                let value = x.at(&index);
                let place = (index[rank - 2] * case.windows[1].input + index[rank - 1]) as i128;
                if best.is_none_or(|(best, _)| best.less(value) || value.is_nan()) {
                    best = Some((value, place));
                }
            }
            best.unwrap()
        };
        // A dilated window may lie beside the input with all of its taps.
        if indices(&sizes).any(|i| case.under(&i).is_empty()) {
            return;
        }
        let values = Array::new(dtype, &sizes, |i| best(i).0);
        let places = Array::new(ScalarType::Long, &sizes, |i| Whole(best(i).1));
        call.gives(choices, &[&values, &places], 0.0);
    });
}

#[test]
fn the_mean_of_a_window() {
    check(300, |choices| {
        let dtype = choices.pick(&FLOATS);
        let rank = choices.pick(&[2, 1]);
        let case = Case::draw(choices, rank, false);
        let x = choices.array(dtype, &case.input(), Fill::Small);
        let with_padding = choices.truth();
        let divisor = (rank == 2 && choices.truth()).then(|| choices.within(1, 5));
        let call = Call::new(match rank {
            1 => "aten::avg_pool1d.out",
            _ => "aten::avg_pool2d.out",
        });
        let call = call
            .tensor(&x)
            .ints(&case.list(|w| w.kernel))
            .ints(&case.list(|w| w.stride))
            .ints(&case.list(|w| w.padding))
            .truth(case.ceil)
            .truth(with_padding);
        let call = match (rank, divisor) {
            (1, _) => call,
            (_, Some(divisor)) => call.int(divisor),
            (_, None) => call.none(),
        };
        let call = call.out(choices, dtype, x.rank());
        let Some(sizes) = case.sizes() else {
            return call.fails(choices);
        };
        let expected = Array::new(dtype, &sizes, |i| {
            let under = case.under(i);
            let sum: f64 = under.iter().map(|index| x.at(index).float()).sum();
            let windows = case.windows.iter().zip(&i[case.outer.len()..]);
            let padded: usize = windows.map(|(w, &window)| w.padded(window)).product();
            let count = match divisor {
                Some(divisor) => divisor as f64,
                None if with_padding => padded as f64,
                None => under.len() as f64,
            };
            Float(sum / count)
        });
        call.gives(choices, &[&expected], 8.0);
    });
}

#[test]
fn windows_that_share_the_input_out() {
    check(200, |choices| {
        let dtype = choices.pick(&FLOATS);
        let rank = choices.pick(&[2, 3]);
        let case = Case::draw(choices, rank, false);
        let x = choices.array(dtype, &case.input(), Fill::Small);
        let wanted: Vec<usize> = (0..rank).map(|_| choices.within(1, 5) as usize).collect();
        let span = |d: usize, window: usize| {
            let input = case.windows[d].input;
            window * input / wanted[d]..((window + 1) * input).div_ceil(wanted[d])
        };
        let sizes = [&case.outer[..], &wanted].concat();
        let expected = Array::new(dtype, &sizes, |i| {
            let (outer, place) = i.split_at(case.outer.len());
            let spans: Vec<_> = place
                .iter()
                .enumerate()
                .map(|(d, &window)| span(d, window))
                .collect();
            let lens: Vec<usize> = spans.iter().map(|span| span.len()).collect();
            let values = indices(&lens).map(|inner| {
                let place = inner.iter().zip(&spans).map(|(i, span)| span.start + i);
                x.at(&outer.iter().copied().chain(place).collect::<Vec<_>>())
                    .float()
            });
            Float(values.sum::<f64>() / lens.iter().product::<usize>() as f64)
        });
        let name = match (rank, choices.truth()) {
            (3, _) => "aten::_adaptive_avg_pool3d.out",
            (_, true) => "aten::_adaptive_avg_pool2d.out",
            (_, false) => "aten::adaptive_avg_pool2d.out",
        };
        Call::new(name)
            .tensor(&x)
            .ints(&wanted)
            .out(choices, dtype, x.rank())
            .gives(choices, &[&expected], 8.0);
    });
}
