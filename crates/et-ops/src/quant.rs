//! Numbers as small whole numbers with a scale and a zero point, and back.

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet, TensorId,
};

use crate::arguments::output;
use crate::convert::{as_compute, as_dense, write_compute, write_dense};
use crate::dims::{Walk, dim_index};
use crate::dispatch::{compute, expect_dtype};
use crate::elementwise::scratch;
use crate::number::Number;

const FLOATING: ScalarTypeSet = ScalarTypeSet::FLOATING;

/// What quantised elements may be.
const QUANTISED: ScalarTypeSet = ScalarTypeSet::of(&[
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::UInt16,
]);

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "quantized_decomposed::quantize_per_tensor.out",
        FLOATING,
        |c| {
            let out = output(c, 6)?;
            let all = Grid::one(c, c.double(1)?, c.int(2)?)?;
            quantise(c, out, &all, 3)
        },
    ),
    Kernel::new(
        "quantized_decomposed::quantize_per_tensor.Tensor_out",
        FLOATING,
        |c| {
            let out = output(c, 6)?;
            let all = Grid::single_tensors(c)?;
            quantise(c, out, &all, 3)
        },
    ),
    Kernel::new(
        "quantized_decomposed::quantize_per_channel.out",
        FLOATING,
        |c| {
            let out = output(c, 7)?;
            let grid = Grid::per_channel(c)?;
            quantise(c, out, &grid, 4)
        },
    ),
    Kernel::new(
        "quantized_decomposed::quantize_per_token.out",
        FLOATING,
        |c| {
            let out = output(c, 6)?;
            let grid = Grid::per_token(c)?;
            quantise(c, out, &grid, 3)
        },
    ),
    Kernel::new(
        "quantized_decomposed::dequantize_per_tensor.out",
        QUANTISED,
        |c| {
            let out = output(c, 7)?;
            let all = Grid::one(c, c.double(1)?, c.int(2)?)?;
            dequantise(c, out, &all)
        },
    ),
    Kernel::new(
        "quantized_decomposed::dequantize_per_tensor.Tensor_out",
        QUANTISED,
        |c| {
            let out = output(c, 7)?;
            let all = Grid::single_tensors(c)?;
            dequantise(c, out, &all)
        },
    ),
    Kernel::new(
        "quantized_decomposed::dequantize_per_channel.out",
        QUANTISED,
        |c| {
            let out = output(c, 8)?;
            let grid = Grid::per_channel(c)?;
            dequantise(c, out, &grid)
        },
    ),
    Kernel::new(
        "quantized_decomposed::dequantize_per_token.out",
        QUANTISED,
        |c| {
            let out = output(c, 7)?;
            let grid = Grid::per_token(c)?;
            dequantise(c, out, &grid)
        },
    ),
    Kernel::new(
        "quantized_decomposed::choose_qparams.Tensor_out",
        FLOATING,
        choose,
    ),
    Kernel::new(
        "quantized_decomposed::choose_qparams_per_token_asymmetric.out",
        FLOATING,
        choose_per_token,
    ),
];

/// Scales and zero points, and which of them an element belongs to.
struct Grid<'a> {
    scales: &'a [f64],
    zero_points: &'a [i64],
    axis: Axis,
}

#[derive(Clone, Copy)]
enum Axis {
    /// One for all.
    None,
    /// One for each index of a dimension.
    Dim(usize),
    /// One for each line along the last dimension.
    Lines,
}

impl<'a> Grid<'a> {
    fn one(context: &KernelContext<'a>, scale: f64, zero_point: i64) -> Result<Self, KernelError> {
        let temp = context.temp();
        let (scales, zero_points) = (scratch::<f64>(temp, 1)?, scratch::<i64>(temp, 1)?);
        scales[0] = scale;
        zero_points[0] = zero_point;
        Ok(Self {
            scales,
            zero_points,
            axis: Axis::None,
        })
    }

    /// Arguments 1 and 2 as tensors of one element each.
    fn single_tensors(context: &mut KernelContext<'a>) -> Result<Self, KernelError> {
        let grid = Self::tensors(context, Axis::None)?;
        if grid.scales.len() != 1 {
            return Err(KernelError::invalid("a scale of more than one element"));
        }
        Ok(grid)
    }

    /// Arguments 1 and 2 as tensors, the second of which may be missing.
    fn tensors(context: &mut KernelContext<'a>, axis: Axis) -> Result<Self, KernelError> {
        let temp = context.temp();
        let (scale, zero_point) = (context.tensor(1)?, context.optional_tensor(2)?);
        let count = context.meta(scale).numel();
        let (scales, zero_points) = (scratch::<f64>(temp, count)?, scratch::<i64>(temp, count)?);
        let ([], [input]) = context.disjoint([], [scale])?;
        scales.copy_from_slice(as_dense::<f64>(temp, input)?);
        zero_points.fill(0);
        if let Some(id) = zero_point {
            if context.meta(id).numel() != count {
                return Err(KernelError::invalid("not as many zero points as scales"));
            }
            let ([], [input]) = context.disjoint([], [id])?;
            zero_points.copy_from_slice(as_dense::<i64>(temp, input)?);
        }
        Ok(Self {
            scales,
            zero_points,
            axis,
        })
    }

    /// Argument 3 is the dimension.
    fn per_channel(context: &mut KernelContext<'a>) -> Result<Self, KernelError> {
        let input = context.tensor(0)?;
        let dim = dim_index("axis", context.int(3)?, context.meta(input).rank())?;
        let grid = Self::tensors(context, Axis::Dim(dim))?;
        let channels = context.meta(input).sizes().get(dim).copied().unwrap_or(1);
        if grid.scales.len() != channels {
            return Err(KernelError::invalid(format!(
                "{} scales for {channels} channels",
                grid.scales.len()
            )));
        }
        Ok(grid)
    }

    fn per_token(context: &mut KernelContext<'a>) -> Result<Self, KernelError> {
        let input = context.tensor(0)?;
        let grid = Self::tensors(context, Axis::Lines)?;
        let sizes = context.meta(input).sizes();
        let lines: usize = sizes.iter().rev().skip(1).product();
        if grid.scales.len() != lines {
            return Err(KernelError::invalid(format!(
                "{} scales for {lines} tokens",
                grid.scales.len()
            )));
        }
        Ok(grid)
    }

    /// The walk over the output's memory: positions in the input, and which scale.
    fn walk(&self, out: &et_kernel::TensorMeta, input: &et_kernel::TensorMeta) -> Walk<2> {
        let lines = crate::dims::dense_strides(&input.sizes()[..input.rank().saturating_sub(1)]);
        Walk::new(out.dim_order().iter().map(|&dim| {
            let dim = usize::from(dim);
            let scale = match self.axis {
                Axis::None => 0,
                Axis::Dim(axis) => isize::from(axis == dim),
                Axis::Lines => lines.get(dim).copied().unwrap_or(0),
            };
            (input.sizes()[dim], [input.strides()[dim] as isize, scale])
        }))
    }
}

/// `clamp(round(x / scale) + zero_point, low, high)`; the bounds are arguments `bounds_at` and the next.
fn quantise(
    context: &mut KernelContext<'_>,
    out: TensorId,
    grid: &Grid<'_>,
    bounds_at: usize,
) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let (low, high) = (context.int(bounds_at)?, context.int(bounds_at + 1)?);
    expect_dtype("the input", context.meta(input).dtype(), FLOATING)?;
    expect_dtype("the output", context.meta(out).dtype(), QUANTISED)?;
    if low > high {
        return Err(KernelError::invalid(format!("bounds from {low} to {high}")));
    }
    context.resize_like(out, input)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let walk = grid.walk(out.meta, input.meta);
    let from = as_compute::<f32>(temp, input)?;
    let (low, high) = (low as f64, high as f64);
    write_compute::<i32>(temp, out, |to| {
        let mut to = to.iter_mut();
        walk.each(|[at, scale]| {
            let scale = scale as usize;
            // As PyTorch rounds: by the reciprocal of the scale, in single width.
            let inverse = 1.0 / grid.scales[scale] as f32;
            let rounded = f64::from((from[at as usize] * inverse).round_ties_even());
            let value = (rounded + grid.zero_points[scale] as f64)
                .max(low)
                .min(high);
            if let Some(to) = to.next() {
                *to = value as i32;
            }
            Ok(())
        })
    })
}

/// `(q - zero_point) * scale`.
fn dequantise(
    context: &mut KernelContext<'_>,
    out: TensorId,
    grid: &Grid<'_>,
) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    expect_dtype("the input", context.meta(input).dtype(), QUANTISED)?;
    expect_dtype("the output", context.meta(out).dtype(), FLOATING)?;
    context.resize_like(out, input)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let walk = grid.walk(out.meta, input.meta);
    let from = as_compute::<i32>(temp, input)?;
    compute!(floating, "the output", out.meta.dtype(), C => {
        write_compute::<C>(temp, out, |to| {
            let mut to = to.iter_mut();
            walk.each(|[at, scale]| {
                let scale = scale as usize;
                let steps = i64::from(from[at as usize]).wrapping_sub(grid.zero_points[scale]);
                if let Some(to) = to.next() {
                    *to = C::from_f64(steps as f64 * grid.scales[scale]);
                }
                Ok(())
            })
        })
    })
}

/// The scale and zero point for which `low..=high` covers `least..=most` and 0.
fn parameters([least, most]: [f64; 2], [low, high]: [f64; 2], eps: f64) -> (f64, i64) {
    let (least, most) = (least.min(0.0), most.max(0.0));
    let scale = ((most - least) / (high - low)).max(eps);
    // The end whose rounding error is smaller decides.
    let from_low = low - least / scale;
    let from_high = high - most / scale;
    let low_error = low.abs() + (least / scale).abs();
    let high_error = high.abs() + (most / scale).abs();
    let exact = if low_error < high_error {
        from_low
    } else {
        from_high
    };
    (scale, exact.clamp(low, high).round_ties_even() as i64)
}

/// `choose_qparams(input, quant_min, quant_max, eps, dtype, scale, zero_point)`.
fn choose(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let (low, high, eps) = (context.int(1)?, context.int(2)?, context.double(3)?);
    let [scale_out, zero_out] = crate::arguments::two_outputs(context, 5)?;
    if low >= high || context.meta(input).numel() == 0 {
        return Err(KernelError::invalid(
            "parameters for no range of whole numbers, or for no elements",
        ));
    }
    write_parameters(
        context,
        input,
        [scale_out, zero_out],
        &[1],
        [low as f64, high as f64],
        eps,
    )
}

/// `choose_qparams_per_token_asymmetric(input, dtype, scale, zero_point)`: for whole numbers of 8 bits.
fn choose_per_token(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let outputs = crate::arguments::two_outputs(context, 2)?;
    let mut sizes: crate::dims::Sizes = context.meta(input).sizes().into();
    match sizes.last_mut() {
        Some(last) if *last > 0 => *last = 1,
        _ => return Err(KernelError::invalid("parameters for tokens of no elements")),
    }
    write_parameters(
        context,
        input,
        outputs,
        &sizes,
        [-128.0, 127.0],
        f64::from(f32::EPSILON),
    )
}

/// A scale and a zero point for each of as many equal parts of the input as the outputs have elements.
fn write_parameters(
    context: &mut KernelContext<'_>,
    input: TensorId,
    [scale_out, zero_out]: [TensorId; 2],
    sizes: &[usize],
    bounds: [f64; 2],
    eps: f64,
) -> Result<(), KernelError> {
    expect_dtype("the input", context.meta(input).dtype(), FLOATING)?;
    context.resize(scale_out, sizes)?;
    context.resize(zero_out, sizes)?;
    let temp = context.temp();
    let ([scales, zero_points], [input]) = context.disjoint([scale_out, zero_out], [input])?;
    let from = as_dense::<f32>(temp, input)?;
    let count: usize = sizes.iter().product();
    let line = from.len().checked_div(count).unwrap_or(0).max(1);
    let of = |i: usize| {
        let part = &from[i * line..(i + 1) * line];
        let least = crate::reduce::lanes(f32::INFINITY, part, f32::min);
        let most = crate::reduce::lanes(f32::NEG_INFINITY, part, f32::max);
        parameters([least, most].map(f64::from), bounds, eps)
    };
    write_dense::<f64>(temp, scales, |to| {
        to.iter_mut().enumerate().for_each(|(i, to)| *to = of(i).0);
        Ok(())
    })?;
    write_dense::<i64>(temp, zero_points, |to| {
        to.iter_mut().enumerate().for_each(|(i, to)| *to = of(i).1);
        Ok(())
    })
}
