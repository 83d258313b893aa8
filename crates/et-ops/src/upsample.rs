//! Resizing of images.

use et_kernel::{Arguments, Kernel, KernelContext, KernelError, ScalarTypeSet, TensorId};

use crate::arguments::output;
use crate::convert::{as_compute, write_compute};
use crate::dims;
use crate::dispatch::{MOVABLE, compute, word};
use crate::elementwise::scratch;
use crate::number::{Compute, Number};
use crate::view::{expect_same_dtype, words, words_mut};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::upsample_nearest2d.vec_out", MOVABLE, |c| {
        let out = output(c, 3)?;
        let target = Target::from_lists(c, 1, 2)?;
        nearest(c, out, target)
    }),
    Kernel::new("aten::upsample_nearest2d.out", MOVABLE, |c| {
        let out = output(c, 4)?;
        let target = Target::from_numbers(c, 1, 2)?;
        nearest(c, out, target)
    }),
    Kernel::new(
        "aten::upsample_bilinear2d.vec_out",
        ScalarTypeSet::FLOATING,
        |c| {
            let out = output(c, 4)?;
            let target = Target::from_lists(c, 1, 3)?;
            bilinear(c, out, target, c.boolean(2)?)
        },
    ),
    Kernel::new(
        "aten::upsample_bilinear2d.out",
        ScalarTypeSet::FLOATING,
        |c| {
            let out = output(c, 5)?;
            let target = Target::from_numbers(c, 1, 3)?;
            bilinear(c, out, target, c.boolean(2)?)
        },
    ),
];

/// The size to make, and by which factors that is larger, where the program says so.
struct Target {
    size: [usize; 2],
    scales: [Option<f64>; 2],
}

/// The height and width of argument 0.
fn image(context: &KernelContext<'_>) -> Result<[usize; 2], KernelError> {
    let sizes = context.meta(context.tensor(0)?).sizes();
    match sizes {
        [_, _, height, width] => Ok([*height, *width]),
        _ => Err(KernelError::invalid(format!(
            "an image of shape {sizes:?}; it must have 4 dimensions"
        ))),
    }
}

impl Target {
    /// From an output size or else factors, each a list or nothing.
    fn from_lists(
        context: &KernelContext<'_>,
        size_at: usize,
        scales_at: usize,
    ) -> Result<Self, KernelError> {
        let input = image(context)?;
        let size = context.optional_int_list(size_at)?;
        let scales = context.optional_double_list(scales_at)?;
        match (size, scales) {
            (Some(size), None) => Ok(Self {
                size: pair(&dims::sizes("size", &size)?)?,
                scales: [None; 2],
            }),
            (None, Some(scales)) => {
                let scales = pair(scales)?;
                let mut size = [0; 2];
                for i in 0..2 {
                    let scaled = (input[i] as f64 * scales[i]).floor();
                    if !(scaled >= 0.0 && scaled < isize::MAX as f64) {
                        return Err(KernelError::invalid(format!(
                            "a size scaled by {}",
                            scales[i]
                        )));
                    }
                    size[i] = scaled as usize;
                }
                Ok(Self {
                    size,
                    scales: scales.map(Some),
                })
            }
            _ => Err(KernelError::invalid(
                "either an output size or factors, not both",
            )),
        }
    }

    /// From an output size, and a factor for each dimension or nothing.
    fn from_numbers(
        context: &KernelContext<'_>,
        size_at: usize,
        scales_at: usize,
    ) -> Result<Self, KernelError> {
        let size = dims::sizes("size", &context.int_list(size_at)?)?;
        Ok(Self {
            size: pair(&size)?,
            scales: [
                context.optional_double(scales_at)?,
                context.optional_double(scales_at + 1)?,
            ],
        })
    }
}

fn pair<T: Copy>(list: &[T]) -> Result<[T; 2], KernelError> {
    <[T; 2]>::try_from(list)
        .map_err(|_| KernelError::invalid(format!("{} entries for height and width", list.len())))
}

/// Input elements per output element.
fn step(input: usize, output: usize, scale: Option<f64>) -> f64 {
    match scale {
        Some(scale) if scale > 0.0 => 1.0 / scale,
        _ => input as f64 / output as f64,
    }
}

/// Resizes the output, which must have room, and refuses to make something of nothing.
fn prepare(
    context: &mut KernelContext<'_>,
    out: TensorId,
    target: &Target,
) -> Result<(TensorId, [usize; 2]), KernelError> {
    let (input, from) = (context.tensor(0)?, image(context)?);
    expect_same_dtype(context, out, input)?;
    let [batch, channels] = [0, 1].map(|dim| context.meta(input).sizes()[dim]);
    if from.contains(&0) || target.size.contains(&0) {
        return Err(KernelError::invalid(
            "an image of no pixels cannot be resized",
        ));
    }
    context.resize(out, &[batch, channels, target.size[0], target.size[1]])?;
    Ok((input, from))
}

fn nearest(
    context: &mut KernelContext<'_>,
    out: TensorId,
    target: Target,
) -> Result<(), KernelError> {
    let (input, from_size) = prepare(context, out, &target)?;
    if context.meta(out).numel() == 0 {
        return Ok(());
    }
    let temp = context.temp();
    let [rows, columns] = [0, 1].map(|i| {
        let step = step(from_size[i], target.size[i], target.scales[i]) as f32;
        let places = scratch::<u64>(temp, target.size[i])?;
        for (to, place) in places.iter_mut().enumerate() {
            *place = ((to as f32 * step) as usize).min(from_size[i] - 1) as u64;
        }
        Ok::<_, KernelError>(&*places)
    });
    let (rows, columns) = (rows?, columns?);
    let ([mut out], [input]) = context.disjoint([out], [input])?;
    let (own, of) = (out.meta.strides(), input.meta.strides());
    let [batch, channels] = [out.meta.sizes()[0], out.meta.sizes()[1]];
    word!(out.meta.dtype(), T => {
        let (to, from) = (words_mut::<T>(&mut out)?, words::<T>(input.bytes)?);
        for plane in 0..batch * channels {
            let [n, c] = [plane / channels, plane % channels];
            for (y, row) in rows.iter().enumerate() {
                let at = n * own[0] + c * own[1] + y * own[2];
                let source = n * of[0] + c * of[1] + *row as usize * of[2];
                for (x, column) in columns.iter().enumerate() {
                    to[at + x * own[3]] = from[source + *column as usize * of[3]];
                }
            }
        }
        Ok(())
    })
}

/// Two neighbours and the share of the second.
type Mix = (usize, usize, f64);

/// Where an output element lies between input elements.
fn mix(at: usize, [input, output]: [usize; 2], scale: Option<f64>, corners: bool) -> Mix {
    let place = if corners {
        match output {
            1 => 0.0,
            _ => at as f64 * (input - 1) as f64 / (output - 1) as f64,
        }
    } else {
        ((at as f64 + 0.5) * step(input, output, scale) - 0.5).max(0.0)
    };
    let low = (place as usize).min(input - 1);
    (
        low,
        (low + 1).min(input - 1),
        (place - low as f64).clamp(0.0, 1.0),
    )
}

fn bilinear(
    context: &mut KernelContext<'_>,
    out: TensorId,
    target: Target,
    corners: bool,
) -> Result<(), KernelError> {
    let (input, from_size) = prepare(context, out, &target)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let (own, of) = (out.meta.strides(), input.meta.strides());
    let [batch, channels] = [out.meta.sizes()[0], out.meta.sizes()[1]];
    let mixed = |i: usize, at: usize| {
        mix(
            at,
            [from_size[i], target.size[i]],
            target.scales[i],
            corners,
        )
    };
    let width = target.size[1];
    // Where the neighbours of each column are, from the start of a row.
    let (lefts, rights) = (scratch::<u64>(temp, width)?, scratch::<u64>(temp, width)?);
    compute!(floating, "the input", input.meta.dtype(), C => {
        let shares = scratch::<C>(temp, width)?;
        for x in 0..width {
            let (left, right, across) = mixed(1, x);
            [lefts[x], rights[x]] = [left, right].map(|column| (column * of[3]) as u64);
            shares[x] = C::from_f64(across);
        }
        let from = as_compute::<C>(temp, input)?;
        write_compute::<C>(temp, out, |to| {
            for plane in 0..batch * channels {
                let [n, c] = [plane / channels, plane % channels];
                let source = n * of[0] + c * of[1];
                for y in 0..target.size[0] {
                    let at = n * own[0] + c * own[1] + y * own[2];
                    let (top, bottom, down) = mixed(0, y);
                    let [top, bottom] = [top, bottom].map(|row| &from[source + row * of[2]..]);
                    let down = C::from_f64(down);
                    let columns = lefts.iter().zip(&*rights).zip(&*shares);
                    for (x, ((left, right), across)) in columns.enumerate() {
                        let line = |row: &[C]| {
                            between(row[*left as usize], row[*right as usize], *across)
                        };
                        to[at + x * own[3]] = between(line(top), line(bottom), down);
                    }
                }
            }
            Ok(())
        })
    })
}

/// The number that lies between two at `share` of the way.
fn between<C: Compute>(low: C, high: C, share: C) -> C {
    low.times(C::one().minus(share)).plus(high.times(share))
}
