//! Numbers as small whole numbers with a scale and a zero point, and back.

use et_kernel::{
    Arguments, Element, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet, TensorId,
};

use crate::arguments::output;
use crate::convert::{as_compute, as_dense, write_compute, write_dense};
use crate::dims::{Walk, dim_index};
use crate::dispatch::{compute, expect_dtype};
use crate::elementwise::{map_along, scratch};
use crate::number::{Compute, Number};

const FLOATING: ScalarTypeSet = ScalarTypeSet::FLOATING;

/// What quantised elements may be.
const QUANTISED: ScalarTypeSet = ScalarTypeSet::of(&[
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::UInt16,
]);

/// Evaluates an expression with a type name bound to the type of quantised elements.
macro_rules! quantised {
    ($what:expr, $dtype:expr, $Q:ident => $body:expr) => {
        crate::dispatch::compute!(@ QUANTISED, $what, $dtype, $Q => $body;
            ScalarType::Byte => u8,
            ScalarType::Char => i8,
            ScalarType::Short => i16,
            ScalarType::Int => i32,
            ScalarType::UInt16 => u16)
    };
}

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "quantized_decomposed::quantize_per_tensor.out",
        FLOATING,
        |c| {
            let out = output(c, 6)?;
            let all = Grid::one(c.double(1)?, c.int(2)?);
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
            let all = Grid::one(c.double(1)?, c.int(2)?);
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
    /// Where the axis is none.
    all: (f64, i64),
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
    const fn one(scale: f64, zero_point: i64) -> Self {
        Self {
            all: (scale, zero_point),
            scales: &[],
            zero_points: &[],
            axis: Axis::None,
        }
    }

    /// Arguments 1 and 2 as tensors of one element each.
    fn single_tensors(context: &mut KernelContext<'a>) -> Result<Self, KernelError> {
        let grid = Self::tensors(context, Axis::None)?;
        match (grid.scales, grid.zero_points) {
            (&[scale], &[zero_point]) => Ok(Self::one(scale, zero_point)),
            _ => Err(KernelError::invalid("a scale of more than one element")),
        }
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
            all: (0.0, 0),
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

    /// [`map_along`] of a walk of this grid: `function` is given the scale and the zero point of a run.
    fn map<A: Element, B: Element, F: Fn(A) -> B>(
        &self,
        walk: &Walk<2>,
        to: &mut [B],
        from: &[A],
        function: impl Fn(f64, i64) -> F,
    ) -> Result<(), KernelError> {
        map_along(walk, to, from, |at| match self.axis {
            Axis::None => function(self.all.0, self.all.1),
            _ => function(self.scales[at], self.zero_points[at]),
        })
    }

    /// The walk over the output's memory: positions in the input, and which scale.
    fn walk(&self, out: &et_kernel::TensorMeta, input: &et_kernel::TensorMeta) -> Walk<2> {
        if matches!(self.axis, Axis::None) && out.is_laid_out_as(input) {
            return Walk::new([(out.numel(), [1, 0])]);
        }
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
    let ([mut out], [input]) = context.disjoint([out], [input])?;
    let walk = grid.walk(out.meta, input.meta);
    let from = as_compute::<f32>(temp, input)?;
    quantised!("the output", out.meta.dtype(), Q => {
        grid.map(&walk, out.elements_mut::<Q>()?, from, |scale, zero_point| {
            // As PyTorch rounds: by the reciprocal of the scale, in single width.
            let (inverse, zero) = (1.0 / scale as f32, zero_point as f64);
            let (low, high) = (low as f64, high as f64);
            let exact = [zero, low, high].iter().all(|x| x.abs() <= EXACT);
            let (low_f32, high_f32, zero_f32) = (low as f32, high as f32, zero as f32);
            move |x: f32| -> Q {
                let rounded = (x * inverse).round_ties_even();
                if exact {
                    let value = (rounded + zero_f32).max(low_f32).min(high_f32);
                    return crate::math::nearest(value).1.cast();
                }
                ((f64::from(rounded) + zero).max(low).min(high) as i32).cast()
            }
        })
    })
}

/// Sums of whole numbers up to this size are exact in single width, or beyond all bounds up to it.
const EXACT: f64 = 4_194_303.0;

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
    compute!(floating, "the output", out.meta.dtype(), C => {
        write_compute::<C>(temp, out, |to| quantised!("the input", input.meta.dtype(), Q => {
            grid.map(&walk, to, input.elements::<Q>()?, |scale, zero_point| {
                let narrow = size_of::<Q>() < 4 && zero_point.abs() <= EXACT as i64;
                let (scale, zero) = (C::from_f64(scale), zero_point as i32);
                move |q: Q| -> C {
                    if narrow {
                        return (q.cast::<i32>() - zero).cast::<C>().times(scale);
                    }
                    q.cast::<i64>().wrapping_sub(zero_point).cast::<C>().times(scale)
                }
            })
        }))
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
