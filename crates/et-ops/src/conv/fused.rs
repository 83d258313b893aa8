//! Convolutions that do the instructions behind them too: normalisation by constants is a factor and a term for each channel, and with
//! them and with keeping the result between two numbers sums are finished where they are stored. Weights are used as they lie.

use et_kernel::{
    Arguments, Element, Kernel, KernelError, Overlap, PrepareContext, Prepared, ScalarType,
    TensorId,
};

use pulp::NullaryFnOnce;

use super::Plan;
use super::finish::Finish;
use crate::number::Compute;
use crate::product::Line;
use crate::simd;

/// A convolution with what follows it.
pub(super) struct Fused {
    channels: usize,
    /// A factor for each channel if `scales`, and a term for each if there are any.
    lines: Vec<f32>,
    scales: bool,
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
        && context.is_constant(6)
        && meta.rank() == context.meta(out).rank()
        && context.meta(out).sizes().get(1) == Some(&channels)
        && meta.dtype() == ScalarType::Float
        && meta.numel() > 0;
    usual.then_some(())?;
    let bias = match bias {
        Some(bias) => Some(floats(context, bias).filter(|bias| bias.len() == channels)?),
        None => None,
    };
    let (stage, norm) = last_stage(context, input, out, channels)?;
    let norm = norm.filter(|_| stage.scales);
    let len =
        channels * (usize::from(norm.is_some()) + usize::from(norm.is_some() || bias.is_some()));
    context.may_keep(size_of::<f32>() * len).then_some(())?;
    let mut lines = vec![0.0; len];
    match &norm {
        Some(norm) => norm.put(bias, lines.split_at_mut(channels)),
        None => lines.copy_from_slice(bias.unwrap_or_default()),
    }
    let fused = Fused {
        channels,
        lines,
        scales: norm.is_some(),
        range: stage.range,
        out: stage.out,
    };
    Some((fused, stage.followers))
}

/// The furthest follower whose output can be written while the input is read, and what normalisation there is on the way.
fn last_stage<'a>(
    context: &PrepareContext<'a>,
    input: TensorId,
    out: TensorId,
    channels: usize,
) -> Option<(Stage, Option<Norm<'a>>)> {
    let mut best = None;
    let (mut norm, mut range, mut last) = (None, ANY, out);
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
                    norm = Some(found);
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
                scales: norm.is_some(),
                range,
                out: to,
            });
        }
    }
    best.map(|stage| (stage, norm))
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

/// A normalisation by constants.
struct Norm<'a> {
    weight: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    mean: &'a [f32],
    variance: &'a [f32],
    eps: f64,
}

/// A normalisation of so many channels, and where to.
fn normalisation<'a>(next: &PrepareContext<'a>, channels: usize) -> Option<(TensorId, Norm<'a>)> {
    let line = |at: usize| {
        let line = floats(next, next.tensor(at).ok()?)?;
        (line.len() == channels).then_some(line)
    };
    let optional = |at: usize| match next.optional_tensor(at).ok()? {
        Some(_) => line(at).map(Some),
        None => Some(None),
    };
    for moments in [8, 9] {
        (next.meta(next.tensor(moments).ok()?).numel() == 0).then_some(())?;
    }
    let norm = Norm {
        weight: optional(1)?,
        bias: optional(2)?,
        mean: line(3)?,
        variance: line(4)?,
        eps: next.double(6).ok().filter(|_| next.is_constant(6))?,
    };
    Some((next.tensor(7).ok()?, norm))
}

impl Norm<'_> {
    /// As a factor and a term for each channel, of sums that lack a bias.
    fn put(&self, bias: Option<&[f32]>, lines: (&mut [f32], &mut [f32])) {
        simd::run(Put {
            norm: self,
            bias,
            lines,
        });
    }
}

struct Put<'a> {
    norm: &'a Norm<'a>,
    bias: Option<&'a [f32]>,
    lines: (&'a mut [f32], &'a mut [f32]),
}

impl NullaryFnOnce for Put<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            norm,
            bias,
            lines: (factors, terms),
        } = self;
        let channels = factors.len();
        let variance = &norm.variance[..channels];
        match norm.weight {
            Some(weight) => {
                let weight = &weight[..channels];
                for i in 0..channels {
                    factors[i] =
                        (f64::from(weight[i]) / (f64::from(variance[i]) + norm.eps).sqrt()) as f32;
                }
            }
            None => {
                for i in 0..channels {
                    factors[i] = (1.0 / (f64::from(variance[i]) + norm.eps).sqrt()) as f32;
                }
            }
        }
        // Less the mean times the factor, as it is rounded here.
        let (mean, terms) = (&norm.mean[..channels], &mut terms[..channels]);
        for i in 0..channels {
            let own = bias.map_or(0.0, |bias| f64::from(bias[i]));
            let shift = norm.bias.map_or(0.0, |bias| f64::from(bias[i]));
            terms[i] = ((own - f64::from(mean[i])) * f64::from(factors[i]) + shift) as f32;
        }
    }
}

/// The elements of a constant, if they are of the usual type.
fn floats<'a>(context: &PrepareContext<'a>, id: TensorId) -> Option<&'a [f32]> {
    let usual = context.meta(id).dtype() == ScalarType::Float;
    et_kernel::from_bytes(context.constant_bytes(id).filter(|_| usual)?)
}

impl Fused {
    /// What becomes of sums of type `C`, if that is the type and there are as many channels as when the method was loaded.
    pub(super) fn finish<C: Compute>(&self, plan: &Plan<'_>) -> Option<Finish<'_, C>> {
        (plan.groups * plan.out_channels == self.channels).then_some(())?;
        let lines = same::<C>(&self.lines)?;
        let (factors, terms) = match self.scales {
            true => lines.split_at(self.channels),
            false => (&[][..], lines),
        };
        let line = Line {
            factors: self.scales.then_some(factors),
            terms,
        };
        Some(Finish {
            line: (!terms.is_empty()).then_some(line),
            low: C::from_f32(self.range[0]),
            high: C::from_f32(self.range[1]),
        })
    }
}

/// The same elements under the name of their type.
fn same<C: Element>(elements: &[f32]) -> Option<&[C]> {
    let same = C::DTYPE == ScalarType::Float;
    et_kernel::from_bytes(et_kernel::as_bytes(elements)).filter(|_| same)
}
