//! Small whole numbers with a scale and a zero point, for a tensor, a channel or a token.

use et_kernel::ScalarType;

use crate::array::Array;
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, check};
use crate::number::Number::{Float, Whole};

/// Types of quantised elements, with their ends.
const TYPES: [(ScalarType, i64, i64); 5] = [
    (ScalarType::Char, -128, 127),
    (ScalarType::Byte, 0, 255),
    (ScalarType::Short, -32768, 32767),
    (ScalarType::UInt16, 0, 65535),
    (ScalarType::Int, i32::MIN as i64, i32::MAX as i64),
];

/// Scales and zero points, and which of them an element has.
struct Grid {
    scales: Array,
    zero_points: Array,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Numbers,
    Single,
    Channel(usize),
    Token,
}

impl Grid {
    fn draw(choices: &mut Choices, shape: &[usize]) -> Self {
        let kind = match choices.below(4) {
            0 => Kind::Numbers,
            1 => Kind::Single,
            2 => Kind::Channel(choices.below(shape.len())),
            _ => Kind::Token,
        };
        let sizes = match kind {
            Kind::Numbers | Kind::Single => vec![1],
            Kind::Channel(dim) => vec![shape[dim]],
            Kind::Token => [&shape[..shape.len() - 1], &[1]].concat(),
        };
        let steps = choices.wholes(ScalarType::Long, &sizes, 1, 9);
        // Powers of two and their sums, whose reciprocals may be rounded.
        let mut scales = Array::new(ScalarType::Float, &sizes, |i| {
            Float(steps.at(i).float() / 16.0)
        });
        scales.order = choices.order(sizes.len());
        if kind == Kind::Numbers || choices.truth() {
            scales = scales.cast(ScalarType::Double);
        }
        Self {
            zero_points: choices.wholes(ScalarType::Long, &sizes, -3, 4),
            scales,
            kind,
        }
    }

    fn place(&self, i: &[usize]) -> Vec<usize> {
        match self.kind {
            Kind::Numbers | Kind::Single => vec![0],
            Kind::Channel(dim) => vec![i[dim]],
            Kind::Token => [&i[..i.len() - 1], &[0]].concat(),
        }
    }

    /// The call with the scale, the zero point and the channel.
    fn add(&self, choices: &mut Choices, call: Call, rank: usize) -> Call {
        if self.kind == Kind::Numbers {
            return call
                .double(self.scales.elements[0].float())
                .int(self.zero_points.elements[0].whole());
        }
        let call = call.tensor(&self.scales).tensor(&self.zero_points);
        match self.kind {
            Kind::Channel(dim) => call.int(choices.named(dim, rank)),
            _ => call,
        }
    }
}

const QUANTISE: [&str; 4] = [
    "quantized_decomposed::quantize_per_tensor.out",
    "quantized_decomposed::quantize_per_tensor.Tensor_out",
    "quantized_decomposed::quantize_per_channel.out",
    "quantized_decomposed::quantize_per_token.out",
];

const DEQUANTISE: [&str; 4] = [
    "quantized_decomposed::dequantize_per_tensor.out",
    "quantized_decomposed::dequantize_per_tensor.Tensor_out",
    "quantized_decomposed::dequantize_per_channel.out",
    "quantized_decomposed::dequantize_per_token.out",
];

impl Kind {
    fn position(self) -> usize {
        match self {
            Self::Numbers => 0,
            Self::Single => 1,
            Self::Channel(_) => 2,
            Self::Token => 3,
        }
    }
}

#[test]
fn to_small_numbers() {
    check(300, |choices| {
        let dtype = choices.pick(&FLOATS);
        let (out, least, most) = choices.pick(&TYPES);
        let (shape, _) = choices.shape_and_dim();
        let grid = Grid::draw(choices, &shape);
        let x = choices.array(dtype, &shape, Fill::Small);
        let (low, high) = match choices.truth() {
            true => (least.max(-8), most.min(7)),
            false => (least, most),
        };
        let expected = Array::new(out, &shape, |i| {
            let place = grid.place(i);
            // Products are of single width, and a half is rounded to even.
            let inverse = 1.0 / grid.scales.at(&place).float() as f32;
            let steps = (x.at(i).float() as f32 * inverse).round_ties_even() as i128;
            Whole((steps + grid.zero_points.at(&place).whole()).clamp(low.into(), high.into()))
        });
        let call = Call::new(QUANTISE[grid.kind.position()]).tensor(&x);
        grid.add(choices, call, shape.len())
            .int(low)
            .int(high)
            .int(out.as_raw())
            .out(choices, out, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn from_small_numbers() {
    check(300, |choices| {
        let (dtype, least, most) = choices.pick(&TYPES);
        let out = choices.pick(&FLOATS);
        let (shape, _) = choices.shape_and_dim();
        let grid = Grid::draw(choices, &shape);
        let x = choices.wholes(dtype, &shape, least.max(-200), most.min(200));
        let expected = Array::new(out, &shape, |i| {
            let place = grid.place(i);
            let steps = x.at(i).whole() - grid.zero_points.at(&place).whole();
            Float(steps as f64 * grid.scales.at(&place).float())
        });
        let call = Call::new(DEQUANTISE[grid.kind.position()]).tensor(&x);
        grid.add(choices, call, shape.len())
            .int(least)
            .int(most)
            .int(dtype.as_raw())
            .none()
            .out(choices, out, shape.len())
            .gives(choices, &[&expected], 1.0);
    });
}

/// Scale and zero point for which the range of whole numbers covers the numbers and 0.
fn parameters(xs: &[f64], low: f64, high: f64, eps: f64) -> (f64, i128) {
    let least = xs.iter().copied().fold(0.0, f64::min);
    let most = xs.iter().copied().fold(0.0, f64::max);
    let scale = ((most - least) / (high - low)).max(eps);
    let exact = match low.abs() + (least / scale).abs() < high.abs() + (most / scale).abs() {
        true => low - least / scale,
        false => high - most / scale,
    };
    (scale, exact.clamp(low, high).round_ties_even() as i128)
}

#[test]
fn scales_and_zero_points_are_chosen() {
    check(200, |choices| {
        let dtype = choices.pick(&FLOATS[..2]);
        let (mut shape, _) = choices.shape_and_dim();
        shape.iter_mut().for_each(|size| *size = (*size).max(1));
        let x = choices.array(dtype, &shape, Fill::Small);
        let single = choices.truth();
        let (low, high) = match single {
            true => choices.pick(&[(-128, 127), (0, 255), (-8, 7)]),
            false => (-128, 127),
        };
        let (sizes, eps) = match single {
            true => (vec![1], 0.01),
            false => (
                [&shape[..shape.len() - 1], &[1]].concat(),
                f64::from(f32::EPSILON),
            ),
        };
        let of = |i: &[usize]| {
            let values: Vec<f64> = match single {
                true => x.elements.iter().map(|x| x.float()).collect(),
                false => {
                    let line = 0..*shape.last().unwrap();
                    line.map(|at| x.at(&[&i[..i.len() - 1], &[at]].concat()).float())
                        .collect()
                }
            };
            parameters(&values, low as f64, high as f64, eps)
        };
        let scales = Array::new(ScalarType::Double, &sizes, |i| Float(of(i).0));
        let zero_points = Array::new(ScalarType::Long, &sizes, |i| Whole(of(i).1));
        let call = match single {
            true => Call::new("quantized_decomposed::choose_qparams.Tensor_out")
                .tensor(&x)
                .int(low)
                .int(high)
                .double(eps)
                .int(1),
            false => Call::new("quantized_decomposed::choose_qparams_per_token_asymmetric.out")
                .tensor(&x)
                .int(1),
        };
        call.out(choices, ScalarType::Double, sizes.len())
            .out(choices, ScalarType::Long, sizes.len())
            .gives(choices, &[&scales, &zero_points], 1.0);
    });
}
