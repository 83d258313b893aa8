//! Convolutions that do the instructions behind them too: normalisation by constants goes into the weights, and keeping
//! the result between two numbers costs nothing where the sums are stored.

use et_kernel::{
    Arguments, Element, Kernel, KernelError, Overlap, PrepareContext, Prepared, ScalarType,
    TensorId,
};

use super::Plan;
use super::finish::Finish;
use crate::number::Compute;
use crate::simd;

/// A convolution with what follows it.
pub(super) struct Fused {
    weight: Vec<f32>,
    bias: Vec<f32>,
    range: [f32; 2],
    /// The last follower's output.
    pub(super) out: TensorId,
}

/// How many followers are done, and what becomes of the output by the last of them.
struct Stage {
    followers: usize,
    scales: bool,
    range: [f32; 2],
    out: TensorId,
}

/// A factor and a bias for each channel.
type Lines = (Vec<f64>, Vec<f64>);

const ANY: [f32; 2] = [f32::NEG_INFINITY, f32::INFINITY];

pub(super) fn prepare(context: &PrepareContext<'_>) -> Result<Prepared, KernelError> {
    // Whatever is unusual is left to the run, errors too.
    Ok(match fused(context) {
        Some((fused, followers)) => Prepared::with_state(fused).absorbing(followers),
        None => Prepared::nothing(),
    })
}

fn fused(context: &PrepareContext<'_>) -> Option<(Fused, usize)> {
    let [input, weight, out] = [
        context.tensor(0).ok()?,
        context.tensor(1).ok()?,
        context.tensor(9).ok()?,
    ];
    let bias = context.optional_tensor(2).ok()?;
    let meta = context.meta(weight);
    let channels = *meta.sizes().first()?;
    let usual = !context.boolean(6).ok()?
        && meta.rank() == context.meta(out).rank()
        && context.meta(out).sizes().get(1) == Some(&channels)
        && meta.is_contiguous();
    let elements = floats(context, weight).filter(|_| usual)?;
    let bias = match bias {
        Some(bias) => Some(floats(context, bias).filter(|bias| bias.len() == channels)?),
        None => None,
    };
    let (stage, lines) = last_stage(context, input, out, channels)?;
    let (scales, shifts) = lines.filter(|_| stage.scales).unzip();
    let scale = |channel: usize| scales.as_ref().map_or(1.0, |s: &Vec<f64>| s[channel]);
    let shift = |channel: usize| shifts.as_ref().map_or(0.0, |s: &Vec<f64>| s[channel]);
    if elements.is_empty() || !context.may_keep(size_of_val(elements) + 4 * channels) {
        return None;
    }
    let row_len = elements.len() / channels;
    let mut scaled = vec![0.0; elements.len()];
    let rows = scaled
        .chunks_exact_mut(row_len)
        .zip(elements.chunks_exact(row_len));
    for (channel, (to, row)) in rows.enumerate() {
        let scale = scale(channel);
        simd::map(row, to, |x| (f64::from(x) * scale) as f32);
    }
    let fused = Fused {
        weight: scaled,
        bias: (0..channels)
            .map(|channel| {
                let bias = bias.map_or(0.0, |bias| f64::from(bias[channel]));
                (bias * scale(channel) + shift(channel)) as f32
            })
            .collect(),
        range: stage.range,
        out: stage.out,
    };
    Some((fused, stage.followers))
}

/// The furthest follower whose output can be written while the input is read, and what normalisation there is on the way.
fn last_stage(
    context: &PrepareContext<'_>,
    input: TensorId,
    out: TensorId,
    channels: usize,
) -> Option<(Stage, Option<Lines>)> {
    let mut best = None;
    let (mut lines, mut range, mut last) = (None, ANY, out);
    let mut followers = 0;
    while let Some((kernel, next)) = context.follower(followers) {
        let Some(name) = crate::own(&kernel).map(Kernel::name) else {
            break;
        };
        let reads_it = next.tensor(0).is_ok_and(|read| read == last);
        let to = match name {
            _ if !reads_it => None,
            "aten::_native_batch_norm_legit_no_training.out" if followers == 0 => {
                normalisation(&next, channels).map(|(to, found)| {
                    lines = Some(found);
                    to
                })
            }
            _ => bounds(name, &next).map(|([low, high], to)| {
                // One range after the other is a range again.
                range = range.map(|end| end.max_nan(low).min_nan(high));
                to
            }),
        };
        let Some(to) = to.filter(|&to| is_alike(&next, to, last)) else {
            break;
        };
        followers += 1;
        last = to;
        if context.overlap(to, input) == Overlap::Disjoint {
            best = Some(Stage {
                followers,
                scales: lines.is_some(),
                range,
                out: to,
            });
        }
    }
    best.map(|stage| (stage, lines))
}

/// Whether the elements of the two are the same in number, type and order.
fn is_alike(context: &PrepareContext<'_>, to: TensorId, from: TensorId) -> bool {
    let (to, from) = (context.meta(to), context.meta(from));
    to.is_laid_out_as(from) && to.dtype() == ScalarType::Float && from.dtype() == to.dtype()
}

/// What an operator that keeps numbers in a range does, and where to.
fn bounds(name: &str, next: &PrepareContext<'_>) -> Option<([f32; 2], TensorId)> {
    let number = |at: usize, missing: f32| {
        let number = next.optional_scalar(at).ok()?;
        Some(number.map_or(missing, |number| number.to_f64() as f32))
    };
    let [least, most] = ANY;
    let (range, out) = match name {
        "aten::relu.out" => ([0.0, most], 1),
        "aten::hardtanh.out" => ([number(1, -1.0)?, number(2, 1.0)?], 3),
        "aten::clamp.out" => ([number(1, least)?, number(2, most)?], 3),
        _ => return None,
    };
    let constant = (1..out).all(|at| next.is_constant(at));
    (constant && range[0] <= range[1]).then_some((range, next.tensor(out).ok()?))
}

/// A normalisation by constants as a factor and a bias for each channel, and where to.
fn normalisation(next: &PrepareContext<'_>, channels: usize) -> Option<(TensorId, Lines)> {
    let line = |at: usize| {
        let line = floats(next, next.tensor(at).ok()?)?;
        (line.len() == channels).then_some(line)
    };
    let optional = |at: usize| match next.optional_tensor(at).ok()? {
        Some(_) => line(at).map(Some),
        None => Some(None),
    };
    let (weight, bias) = (optional(1)?, optional(2)?);
    let (mean, variance) = (line(3)?, line(4)?);
    let eps = next.double(6).ok().filter(|_| next.is_constant(6))?;
    for moments in [8, 9] {
        (next.meta(next.tensor(moments).ok()?).numel() == 0).then_some(())?;
    }
    let of = |line: Option<&[f32]>, channel: usize, missing: f64| {
        line.map_or(missing, |line| f64::from(line[channel]))
    };
    let scale =
        |channel: usize| of(weight, channel, 1.0) / (f64::from(variance[channel]) + eps).sqrt();
    let shift = |channel: usize| of(bias, channel, 0.0) - f64::from(mean[channel]) * scale(channel);
    let lines = (
        (0..channels).map(scale).collect(),
        (0..channels).map(shift).collect(),
    );
    Some((next.tensor(7).ok()?, lines))
}

/// The elements of a constant, if they are of the usual type.
fn floats<'a>(context: &PrepareContext<'a>, id: TensorId) -> Option<&'a [f32]> {
    let usual = context.meta(id).dtype() == ScalarType::Float;
    et_kernel::from_bytes(context.constant_bytes(id).filter(|_| usual)?)
}

impl Fused {
    /// Weights, bias and range as `C`, if that is their type and they are of the sizes that the convolution has now.
    pub(super) fn parts<C: Compute>(&self, plan: &Plan<'_>) -> Option<(&[C], Finish<'_, C>)> {
        let channels = plan.groups * plan.out_channels;
        let numel = channels * plan.in_channels * plan.windows.taps();
        (self.bias.len() == channels && self.weight.len() == numel).then_some(())?;
        let finish = Finish {
            bias: Some(same(&self.bias)?),
            low: C::from_f32(self.range[0]),
            high: C::from_f32(self.range[1]),
        };
        Some((same(&self.weight)?, finish))
    }
}

/// The same elements under the name of their type.
fn same<C: Element>(elements: &[f32]) -> Option<&[C]> {
    let same = C::DTYPE == ScalarType::Float;
    et_kernel::from_bytes(et_kernel::as_bytes(elements)).filter(|_| same)
}
