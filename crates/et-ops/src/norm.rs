//! Softmax and normalisations.

use et_kernel::{Arguments, Kernel, KernelContext, KernelError, ScalarTypeSet, TensorId};
use et_memory::Arena;
use pulp::NullaryFnOnce;

use crate::arguments::{output, three_outputs};
use crate::convert::{as_compute, as_dense, write_compute, write_dense};
use crate::dims::{self, Sizes, Walk, dim_index};
use crate::dispatch::{compute, expect_dtype};
use crate::elementwise::{map_along, scratch};
use crate::memo;
use crate::number::{Float, Number};
use crate::promote::expect_castable;
use crate::simd;
use crate::view::{Lines, expect_same_dtype};

const FLOATING: ScalarTypeSet = ScalarTypeSet::FLOATING;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::_softmax.out", FLOATING, |c| softmax(c, false))
        .with_prepare(memo::prepare::<AlongLines>),
    Kernel::new("aten::_log_softmax.out", FLOATING, |c| softmax(c, true))
        .with_prepare(memo::prepare::<AlongLines>),
    Kernel::new("aten::native_layer_norm.out", FLOATING, |c| {
        memo::keep(c, layer_norm, normalise)
    })
    .with_prepare(memo::prepare::<Norm>),
    Kernel::new("aten::native_group_norm.out", FLOATING, |c| {
        memo::keep(c, group_norm, normalise)
    })
    .with_prepare(memo::prepare::<Norm>),
    Kernel::new(
        "aten::_native_batch_norm_legit_no_training.out",
        FLOATING,
        batch_norm,
    ),
    Kernel::new(
        "aten::_native_batch_norm_legit.no_stats_out",
        FLOATING,
        batch_norm_of_itself,
    ),
];

/// What is made of lines of a tensor, and where it goes.
struct AlongLines {
    out: TensorId,
    input: TensorId,
    lines: Lines<2>,
}

/// `_softmax(self, dim, half_to_float)`, or its logarithm.
fn softmax(context: &mut KernelContext<'_>, log: bool) -> Result<(), KernelError> {
    memo::keep(context, softmax_lines, |context, call| {
        let temp = context.temp();
        let ([out], [input]) = context.disjoint([call.out], [call.input])?;
        let lines = &call.lines;
        compute!(floating, "the input", input.meta.dtype(), C => {
            let from = as_compute::<C>(temp, input)?;
            write_compute::<C>(temp, out, |to| {
                let len = lines.line_len();
                if lines.is_across() {
                    return lines.rows(|[at, source], count, [to_step, from_step]| {
                        let (from, to) = (&from[source..], &mut to[at..]);
                        simd::run(SoftmaxAcross { from, from_step, to, to_step, count, len, log });
                    });
                }
                lines.make(temp, to, from, |from, to| simd::run(Softmax { from, to, len, log }))
            })
        })
    })
}

fn softmax_lines(context: &mut KernelContext<'_>) -> Result<AlongLines, KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 3)?);
    context.boolean(2)?;
    let meta = context.meta(input);
    expect_dtype("the input", meta.dtype(), FLOATING)?;
    let dim = dim_index("dimension", context.int(1)?, meta.rank())?;
    expect_castable(meta.dtype(), context.meta(out).dtype())?;
    context.resize_like(out, input)?;
    let lines = Lines::of([context.meta(out), context.meta(input)], dim);
    Ok(AlongLines { out, input, lines })
}

/// The softmax of lines of `len` elements.
struct Softmax<'a, C> {
    from: &'a [C],
    to: &'a mut [C],
    len: usize,
    log: bool,
}

impl<C: Float> NullaryFnOnce for Softmax<'_, C> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { from, to, len, log } = self;
        for (to, from) in to.chunks_mut(len).zip(from.chunks(len)) {
            let most = simd::fold(C::LOWEST, from, |x| x, C::max_nan);
            for (to, x) in to.iter_mut().zip(from) {
                *to = x.minus(most);
            }
        }
        if !log {
            // Of all lines at once, since they may be shorter than a vector.
            for x in to.iter_mut() {
                *x = x.exp();
            }
        }
        for line in to.chunks_mut(len) {
            let total = simd::sum(line, |x| if log { x.exp() } else { x });
            let total = C::from_f64(total);
            if log {
                let shift = total.ln();
                line.iter_mut().for_each(|x| *x = x.minus(shift));
            } else {
                line.iter_mut().for_each(|x| *x = x.over(total));
            }
        }
    }
}

/// Places of lines that are summed up in the element's own width before their sum is added to the others.
const TERMS: usize = 128;

/// The softmax of lines of `len` elements beside each other.
struct SoftmaxAcross<'a, C> {
    from: &'a [C],
    from_step: usize,
    to: &'a mut [C],
    to_step: usize,
    count: usize,
    len: usize,
    log: bool,
}

impl<C: Float> NullaryFnOnce for SoftmaxAcross<'_, C> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        let mut start = 0;
        while start + 16 <= self.count {
            self.block::<16>(start);
            start += 16;
        }
        while start + 4 <= self.count {
            self.block::<4>(start);
            start += 4;
        }
        while start < self.count {
            self.block::<1>(start);
            start += 1;
        }
    }
}

impl<C: Float> SoftmaxAcross<'_, C> {
    /// The elements of `W` lines from `start` on at place `i`.
    #[inline(always)]
    fn from<const W: usize>(&self, start: usize, i: usize) -> &[C; W] {
        self.from[i * self.from_step + start..]
            .first_chunk()
            .expect("lines are inside of their tensor")
    }

    #[inline(always)]
    fn to<const W: usize>(&mut self, start: usize, i: usize) -> &mut [C; W] {
        self.to[i * self.to_step + start..]
            .first_chunk_mut()
            .expect("lines are inside of their tensor")
    }

    /// `W` lines from `start` on.
    #[inline(always)]
    fn block<const W: usize>(&mut self, start: usize) {
        let log = self.log;
        let mut most = [C::LOWEST; W];
        for i in 0..self.len {
            let from = self.from::<W>(start, i);
            most = std::array::from_fn(|k| most[k].max_nan(from[k]));
        }
        let (mut total, mut terms) = ([C::zero(); W], [C::zero(); W]);
        for i in 0..self.len {
            let from = self.from::<W>(start, i);
            let moved: [C; W] = std::array::from_fn(|k| from[k].minus(most[k]));
            let powers = moved.map(C::exp);
            *self.to(start, i) = if log { moved } else { powers };
            terms = std::array::from_fn(|k| terms[k].plus(powers[k]));
            if i % TERMS == TERMS - 1 || i + 1 == self.len {
                total = std::array::from_fn(|k| total[k].plus(terms[k]));
                terms = [C::zero(); W];
            }
        }
        if log {
            total = total.map(C::ln);
        }
        for i in 0..self.len {
            for (to, total) in self.to::<W>(start, i).iter_mut().zip(total) {
                *to = if log { to.minus(total) } else { to.over(total) };
            }
        }
    }
}

/// Fails unless a weight or bias has an element for each of `len`.
fn expect_one_each(
    context: &KernelContext<'_>,
    id: TensorId,
    len: usize,
) -> Result<(), KernelError> {
    let numel = context.meta(id).numel();
    if numel == len {
        return Ok(());
    }
    Err(KernelError::invalid(format!(
        "a weight or bias of {numel} elements for {len}"
    )))
}

/// An optional factor or summand per element or channel, as `C`.
fn optional<'a, C: Number>(
    context: &mut KernelContext<'a>,
    temp: &'a Arena,
    id: Option<TensorId>,
    len: usize,
) -> Result<Option<&'a [C]>, KernelError> {
    let Some(id) = id else {
        return Ok(None);
    };
    expect_one_each(context, id, len)?;
    // A copy, since the next call of the context ends what it lent before.
    let copy = scratch::<C>(temp, len)?;
    let ([], [input]) = context.disjoint([], [id])?;
    copy.copy_from_slice(as_dense::<C>(temp, input)?);
    Ok(Some(copy))
}

/// `native_layer_norm(input, normalized_shape, weight, bias, eps, out, mean, rstd)`.
fn layer_norm(context: &mut KernelContext<'_>) -> Result<Norm, KernelError> {
    let (input, shape) = (context.tensor(0)?, context.int_list(1)?);
    let (weight, bias) = (context.optional_tensor(2)?, context.optional_tensor(3)?);
    let (eps, outputs) = (context.double(4)?, three_outputs(context, 5)?);
    let shape = dims::sizes("size", &shape)?;
    let mut sizes = Sizes::new();
    sizes.extend_from_slice(context.meta(input).sizes());
    let Some(kept) = sizes
        .len()
        .checked_sub(shape.len())
        .filter(|&kept| sizes[kept..] == shape[..])
    else {
        return Err(KernelError::invalid(format!(
            "a norm over {shape:?} of a tensor of shape {sizes:?}"
        )));
    };
    let norm = Norm {
        input,
        outputs,
        factors: [weight, bias],
        rows: sizes[..kept].iter().product(),
        row: dims::numel(&shape)?,
        channels: dims::numel(&shape)?,
        groups: 1,
        eps,
    };
    sizes[kept..].fill(1);
    context.resize_like(outputs[0], input)?;
    context.resize(outputs[1], &sizes)?;
    context.resize(outputs[2], &sizes)?;
    norm.check(context)
}

/// `native_group_norm(input, weight, bias, N, C, HxW, group, eps, out, mean, rstd)`.
fn group_norm(context: &mut KernelContext<'_>) -> Result<Norm, KernelError> {
    let input = context.tensor(0)?;
    let (weight, bias) = (context.optional_tensor(1)?, context.optional_tensor(2)?);
    let mut counts = [0; 4];
    for (i, count) in counts.iter_mut().enumerate() {
        *count = dims::size("a count", context.int(3 + i)?)?;
    }
    let [batch, channels, area, groups] = counts;
    let (eps, outputs) = (context.double(7)?, three_outputs(context, 8)?);
    let numel = dims::numel(&[batch, channels, area])?;
    let rows = dims::numel(&[batch, groups])?;
    let fits = groups > 0 && channels.is_multiple_of(groups);
    if !fits || numel != context.meta(input).numel() {
        return Err(KernelError::invalid(format!(
            "{batch} x {channels} x {area} elements in {groups} groups, of a tensor of shape {:?}",
            context.meta(input).sizes()
        )));
    }
    let norm = Norm {
        input,
        outputs,
        factors: [weight, bias],
        rows,
        row: dims::numel(&[channels / groups, area])?,
        channels: channels / groups,
        groups,
        eps,
    };
    context.resize_like(outputs[0], input)?;
    context.resize(outputs[1], &[batch, groups])?;
    context.resize(outputs[2], &[batch, groups])?;
    norm.check(context)
}

/// Rows to normalise, each of its own. A row's elements belong to `channels` channels in turn, as many elements each; rows to
/// `groups` groups of channels.
struct Norm {
    input: TensorId,
    outputs: [TensorId; 3],
    /// The weight and the bias, if there are any.
    factors: [Option<TensorId>; 2],
    rows: usize,
    row: usize,
    channels: usize,
    groups: usize,
    eps: f64,
}

impl Norm {
    fn check(self, context: &KernelContext<'_>) -> Result<Self, KernelError> {
        let input = context.meta(self.input);
        expect_dtype("the input", input.dtype(), FLOATING)?;
        expect_same_dtype(context, self.outputs[0], self.input)?;
        if Some(input.numel()) != self.rows.checked_mul(self.row) {
            // It was given the shape of another output.
            return Err(KernelError::invalid(
                "an input that is an output of another shape too",
            ));
        }
        for id in self.factors.into_iter().flatten() {
            expect_one_each(context, id, self.channels * self.groups)?;
        }
        Ok(self)
    }
}

fn normalise(context: &mut KernelContext<'_>, job: &Norm) -> Result<(), KernelError> {
    let temp = context.temp();
    let [weight, bias] = job.factors;
    // What is missing is not read.
    let read = [
        job.input,
        weight.unwrap_or(job.input),
        bias.unwrap_or(job.input),
    ];
    let ([out, means, rstds], [from, weight_in, bias_in]) = context.disjoint(job.outputs, read)?;
    compute!(floating, "the input", from.meta.dtype(), C => {
        let given = |id: Option<TensorId>, tensor| match id {
            Some(_) => as_dense::<C>(temp, tensor).map(Some),
            None => Ok(None),
        };
        let (weight, bias) = (given(weight, weight_in)?, given(bias, bias_in)?);
        let from = as_dense::<C>(temp, from)?;
        write_dense::<C>(temp, means, |means| write_dense::<C>(temp, rstds, |rstds| {
            write_dense::<C>(temp, out, |to| {
                simd::run(Rows { job, to, from, weight, bias, means, rstds });
                Ok(())
            })
        }))
    })
}

/// All rows of a [`Norm`].
struct Rows<'a, C> {
    job: &'a Norm,
    to: &'a mut [C],
    from: &'a [C],
    weight: Option<&'a [C]>,
    bias: Option<&'a [C]>,
    means: &'a mut [C],
    rstds: &'a mut [C],
}

impl<C: Float> NullaryFnOnce for Rows<'_, C> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let job = self.job;
        let share = 1.0 / job.row as f64;
        for row in 0..job.rows {
            let range = row * job.row..(row + 1) * job.row;
            let (from, to) = (&self.from[range.clone()], &mut self.to[range]);
            let (mean, variance) = moments(std::iter::once(from), share);
            // In the element's own width: rows may be short, and these take longer than the rest.
            let deviation = C::from_f64(variance + job.eps).sqrt();
            let (mean, rstd) = (C::from_f64(mean), C::one().over(deviation));
            (self.means[row], self.rstds[row]) = (mean, rstd);
            let first = row % job.groups * job.channels;
            let own = first..first + job.channels;
            let weight = self.weight.map(|list| &list[own.clone()]);
            let bias = self.bias.map(|list| &list[own.clone()]);
            let moved = |x: &C| x.minus(mean).times(rstd);
            if job.row == job.channels {
                each_of_its_own(to, from, moved, weight, bias);
                continue;
            }
            let area = (job.row / job.channels.max(1)).max(1);
            let runs = to.chunks_mut(area).zip(from.chunks(area));
            for (channel, (to, from)) in runs.enumerate() {
                let weight = weight.map_or(C::one(), |weight| weight[channel]);
                let bias = bias.map_or(C::zero(), |bias| bias[channel]);
                for (to, x) in to.iter_mut().zip(from) {
                    *to = moved(x).times(weight).plus(bias);
                }
            }
        }
    }
}

/// `to[i] = f(from[i]) * weight[i] + bias[i]`.
#[inline(always)]
fn each_of_its_own<C: Float>(
    to: &mut [C],
    from: &[C],
    f: impl Fn(&C) -> C,
    weight: Option<&[C]>,
    bias: Option<&[C]>,
) {
    match (weight, bias) {
        (None, None) => to.iter_mut().zip(from).for_each(|(to, x)| *to = f(x)),
        (Some(weight), None) => to
            .iter_mut()
            .zip(from)
            .zip(weight)
            .for_each(|((to, x), weight)| *to = f(x).times(*weight)),
        (None, Some(bias)) => to
            .iter_mut()
            .zip(from)
            .zip(bias)
            .for_each(|((to, x), bias)| *to = f(x).plus(*bias)),
        (Some(weight), Some(bias)) => {
            // By eights: rows are often short, and what a loop over several vectors leaves over goes one by one.
            let (to, to_rest) = to.as_chunks_mut::<8>();
            let (from, from_rest) = from.as_chunks::<8>();
            let (weight, weight_rest) = weight.as_chunks::<8>();
            let (bias, bias_rest) = bias.as_chunks::<8>();
            for (((to, x), weight), bias) in to.iter_mut().zip(from).zip(weight).zip(bias) {
                *to = std::array::from_fn(|i| f(&x[i]).times(weight[i]).plus(bias[i]));
            }
            let factors = weight_rest.iter().zip(bias_rest);
            for ((to, x), (weight, bias)) in to_rest.iter_mut().zip(from_rest).zip(factors) {
                *to = f(x).times(*weight).plus(*bias);
            }
        }
    }
}

/// [`moments`] of runs.
struct Moments<R>(R);

impl<'a, C: Float, R: Iterator<Item = &'a [C]> + Clone> NullaryFnOnce for Moments<R> {
    type Output = (f64, f64);

    #[inline(always)]
    fn call(self) -> (f64, f64) {
        let count: usize = self.0.clone().map(<[C]>::len).sum();
        moments(self.0, 1.0 / count as f64)
    }
}

/// Mean and variance of several runs together; `share` is what each element has in them.
#[inline(always)]
fn moments<'a, C: Float>(runs: impl Iterator<Item = &'a [C]> + Clone, share: f64) -> (f64, f64) {
    let (mut total, mut squares) = (0.0, 0.0);
    for run in runs.clone() {
        total += simd::sum(run, |x| x);
    }
    let mean = total * share;
    let centre = C::from_f64(mean);
    for run in runs {
        squares += simd::sum(run, |x| {
            let distance = x.minus(centre);
            distance.times(distance)
        });
    }
    (mean, squares * share)
}

/// `_native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps, out, _, _)`.
fn batch_norm(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let (weight, bias) = (context.optional_tensor(1)?, context.optional_tensor(2)?);
    let (mean, variance) = (context.tensor(3)?, context.tensor(4)?);
    context.double(5)?;
    let (eps, outputs) = (context.double(6)?, three_outputs(context, 7)?);
    let meta = context.meta(input);
    let dtype = meta.dtype();
    expect_dtype("the input", dtype, FLOATING)?;
    let Some(&channels) = meta.sizes().get(1) else {
        return Err(KernelError::invalid(
            "batch norm of a tensor without channels",
        ));
    };
    expect_same_dtype(context, outputs[0], input)?;
    context.resize_like(outputs[0], input)?;
    context.resize(outputs[1], &[0])?;
    context.resize(outputs[2], &[0])?;
    let temp = context.temp();
    compute!(floating, "the input", dtype, C => {
        let weight = optional::<C>(context, temp, weight, channels)?;
        let bias = optional::<C>(context, temp, bias, channels)?;
        let mean = optional::<C>(context, temp, Some(mean), channels)?;
        let variance = optional::<C>(context, temp, Some(variance), channels)?;
        let lines = scratch::<C>(temp, 2 * channels)?;
        let (scales, shifts) = lines.split_at_mut(channels);
        for channel in 0..channels {
            let of = |list: Option<&[C]>, missing: f64| {
                list.map_or(missing, |list| list[channel].cast::<f64>())
            };
            let scale = of(weight, 1.0) / (of(variance, 0.0) + eps).sqrt();
            scales[channel] = C::from_f64(scale);
            shifts[channel] = C::from_f64(of(bias, 0.0) - of(mean, 0.0) * scale);
        }
        let ([out], [input]) = context.disjoint([outputs[0]], [input])?;
        scale_channels::<C>(temp, out, input, scales, shifts)
    })
}

/// `_native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps, out, mean, rstd)`: by the input's own mean
/// and deviation.
fn batch_norm_of_itself(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let (weight, bias) = (context.optional_tensor(1)?, context.optional_tensor(2)?);
    context.boolean(3)?;
    context.double(4)?;
    let (eps, outputs) = (context.double(5)?, three_outputs(context, 6)?);
    let dtype = context.meta(input).dtype();
    expect_dtype("the input", dtype, FLOATING)?;
    let Some(&channels) = context.meta(input).sizes().get(1) else {
        return Err(KernelError::invalid(
            "batch norm of a tensor without channels",
        ));
    };
    expect_same_dtype(context, outputs[0], input)?;
    context.resize_like(outputs[0], input)?;
    context.resize(outputs[1], &[channels])?;
    context.resize(outputs[2], &[channels])?;
    let temp = context.temp();
    compute!(floating, "the input", dtype, C => {
        let weight = optional::<C>(context, temp, weight, channels)?;
        let bias = optional::<C>(context, temp, bias, channels)?;
        let ([out, means, rstds], [input]) = context.disjoint(outputs, [input])?;
        let from = as_dense::<C>(temp, input)?;
        let lines = scratch::<C>(temp, 4 * channels)?;
        let (scales, lines) = lines.split_at_mut(channels);
        let (shifts, lines) = lines.split_at_mut(channels);
        let (mean_line, rstd_line) = lines.split_at_mut(channels);
        let area: usize = input.meta.sizes()[2..].iter().product();
        for channel in 0..channels {
            let planes = from.chunks_exact(area.max(1)).skip(channel).step_by(channels);
            let (mean, variance) = simd::run(Moments(planes));
            let rstd = 1.0 / (variance + eps).sqrt();
            let scale = weight.map_or(1.0, |weight| weight[channel].cast()) * rstd;
            let shift = bias.map_or(0.0, |bias| bias[channel].cast()) - mean * scale;
            (scales[channel], shifts[channel]) = (C::from_f64(scale), C::from_f64(shift));
            (mean_line[channel], rstd_line[channel]) = (C::from_f64(mean), C::from_f64(rstd));
        }
        for (out, line) in [(means, mean_line), (rstds, rstd_line)] {
            write_compute::<C>(temp, out, |to| {
                to.copy_from_slice(line);
                Ok(())
            })?;
        }
        scale_channels::<C>(temp, out, input, scales, shifts)
    })
}

/// `out = input * scale + shift`, by channel.
fn scale_channels<C: Float>(
    temp: &Arena,
    out: et_kernel::TensorOut<'_>,
    input: et_kernel::TensorIn<'_>,
    scales: &[C],
    shifts: &[C],
) -> Result<(), KernelError> {
    let (out_meta, in_meta) = (out.meta, input.meta);
    let dims = out_meta.dim_order().iter().map(|&dim| usize::from(dim));
    let walk = Walk::new(dims.map(|dim| {
        let of_channel = isize::from(dim == 1);
        (
            in_meta.sizes()[dim],
            [in_meta.strides()[dim] as isize, of_channel],
        )
    }));
    let from = as_compute::<C>(temp, input)?;
    write_compute::<C>(temp, out, |to| {
        map_along(&walk, to, from, |channel| {
            let (scale, shift) = (scales[channel], shifts[channel]);
            move |x: C| x.times(scale).plus(shift)
        })
    })
}
