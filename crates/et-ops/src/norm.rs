//! Softmax and normalisations.

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, ScalarTypeSet, TensorId, TensorMeta,
};
use et_memory::Arena;

use crate::arguments::{output, three_outputs};
use crate::convert::{as_compute, as_dense, write_compute, write_dense};
use crate::dims::{self, Sizes, Walk, dim_index};
use crate::dispatch::{compute, expect_dtype};
use crate::elementwise::scratch;
use crate::number::{Float, Number};
use crate::promote::expect_castable;
use crate::reduce::{lanes, sum};
use crate::simd;
use crate::view::expect_same_dtype;

const FLOATING: ScalarTypeSet = ScalarTypeSet::FLOATING;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::_softmax.out", FLOATING, |c| softmax(c, false)),
    Kernel::new("aten::_log_softmax.out", FLOATING, |c| softmax(c, true)),
    Kernel::new("aten::native_layer_norm.out", FLOATING, layer_norm),
    Kernel::new("aten::native_group_norm.out", FLOATING, group_norm),
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

/// `_softmax(self, dim, half_to_float)`, or its logarithm.
fn softmax(context: &mut KernelContext<'_>, log: bool) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 3)?);
    context.boolean(2)?;
    let meta = context.meta(input);
    expect_dtype("the input", meta.dtype(), FLOATING)?;
    let dim = dim_index("dimension", context.int(1)?, meta.rank())?;
    expect_castable(meta.dtype(), context.meta(out).dtype())?;
    context.resize_like(out, input)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let (in_meta, out_meta) = (input.meta, out.meta);
    let line = |meta: &TensorMeta| meta.strides().get(dim).map_or(0, |&stride| stride as isize);
    let steps = [line(out_meta), line(in_meta)];
    let len = in_meta.sizes().get(dim).copied().unwrap_or(1);
    let others = out_meta
        .dim_order()
        .iter()
        .map(|&other| usize::from(other))
        .filter(|&other| other != dim);
    let walk = Walk::new(others.map(|d| {
        let strides = [out_meta, in_meta].map(|meta| meta.strides()[d] as isize);
        (in_meta.sizes()[d], strides)
    }));
    compute!(floating, "the input", in_meta.dtype(), C => {
        let from = as_compute::<C>(temp, input)?;
        write_compute::<C>(temp, out, |to| {
            if to.is_empty() {
                return Ok(());
            }
            softmax_lines(temp, &walk, steps, len, to, from, log)
        })
    })
}

/// Line by line: a line whose elements are neighbours on both sides in place, any other by way of a buffer.
fn softmax_lines<C: Float>(
    temp: &Arena,
    walk: &Walk<2>,
    [to_step, from_step]: [isize; 2],
    len: usize,
    to: &mut [C],
    from: &[C],
    log: bool,
) -> Result<(), KernelError> {
    if len == 1 || (to_step == 1 && from_step == 1) {
        return walk.each(|[at, source]| {
            let (at, source) = (at as usize, source as usize);
            softmax_line(&from[source..source + len], &mut to[at..at + len], log);
            Ok(())
        });
    }
    let buffers = scratch::<C>(temp, 2 * len)?;
    let (line, result) = buffers.split_at_mut(len);
    walk.each(|[at, source]| {
        for (i, x) in line.iter_mut().enumerate() {
            *x = from[(source + from_step * i as isize) as usize];
        }
        softmax_line(line, result, log);
        for (i, x) in result.iter().enumerate() {
            to[(at + to_step * i as isize) as usize] = *x;
        }
        Ok(())
    })
}

fn softmax_line<C: Float>(from: &[C], to: &mut [C], log: bool) {
    let most = lanes(C::LOWEST, from, C::max_nan);
    simd::map(from, to, |x: C| x.minus(most).exp());
    let total = C::from_f64(sum(to));
    if log {
        let shift = total.ln();
        simd::map(from, to, |x: C| x.minus(most).minus(shift));
    } else {
        for x in to {
            *x = x.over(total);
        }
    }
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
    let numel = context.meta(id).numel();
    if numel != len {
        return Err(KernelError::invalid(format!(
            "a weight or bias of {numel} elements for {len}"
        )));
    }
    // A copy, since the next call of the context ends what it lent before.
    let copy = scratch::<C>(temp, len)?;
    let ([], [input]) = context.disjoint([], [id])?;
    copy.copy_from_slice(as_dense::<C>(temp, input)?);
    Ok(Some(copy))
}

/// Mean and reciprocal deviation of a run.
fn moments<C: Float>(xs: &[C], eps: f64) -> (f64, f64) {
    moments_of(std::iter::once(xs), eps)
}

/// The sum of squared distances from `centre`.
fn squares<C: Float>(xs: &[C], centre: C) -> C {
    struct Work<'a, C>(&'a [C], C);
    impl<C: Float> pulp::NullaryFnOnce for Work<'_, C> {
        type Output = C;
        #[inline(always)]
        fn call(self) -> C {
            let mut lanes = [C::zero(); 16];
            let (chunks, rest) = self.0.as_chunks::<16>();
            for chunk in chunks {
                for (lane, x) in lanes.iter_mut().zip(chunk) {
                    let distance = x.minus(self.1);
                    *lane = lane.plus(distance.times(distance));
                }
            }
            for (lane, x) in lanes.iter_mut().zip(rest) {
                let distance = x.minus(self.1);
                *lane = lane.plus(distance.times(distance));
            }
            lanes.into_iter().fold(C::zero(), C::plus)
        }
    }
    simd::run(Work(xs, centre))
}

/// `native_layer_norm(input, normalized_shape, weight, bias, eps, out, mean, rstd)`.
fn layer_norm(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, shape) = (context.tensor(0)?, context.int_list(1)?);
    let (weight, bias) = (context.optional_tensor(2)?, context.optional_tensor(3)?);
    let (eps, outputs) = (context.double(4)?, three_outputs(context, 5)?);
    let shape = dims::sizes("size", &shape)?;
    let sizes: Sizes = context.meta(input).sizes().into();
    let Some(kept) = sizes
        .len()
        .checked_sub(shape.len())
        .filter(|&kept| sizes[kept..] == shape[..])
    else {
        return Err(KernelError::invalid(format!(
            "a norm over {shape:?} of a tensor of shape {sizes:?}"
        )));
    };
    let mut moment_sizes = sizes.clone();
    moment_sizes[kept..].fill(1);
    let job = Norm {
        rows: sizes[..kept].iter().product(),
        row: dims::numel(&shape)?,
        channels: dims::numel(&shape)?,
        groups: 1,
        eps,
    };
    context.resize_like(outputs[0], input)?;
    context.resize(outputs[1], &moment_sizes)?;
    context.resize(outputs[2], &moment_sizes)?;
    normalise(context, input, outputs, [weight, bias], &job)
}

/// `native_group_norm(input, weight, bias, N, C, HxW, group, eps, out, mean, rstd)`.
fn group_norm(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
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
    let job = Norm {
        rows,
        row: dims::numel(&[channels / groups, area])?,
        channels: channels / groups,
        groups,
        eps,
    };
    context.resize_like(outputs[0], input)?;
    context.resize(outputs[1], &[batch, groups])?;
    context.resize(outputs[2], &[batch, groups])?;
    normalise(context, input, outputs, [weight, bias], &job)
}

/// Rows to normalise, each of its own. A row's elements belong to `channels` channels in turn, as many elements each; rows to
/// `groups` groups of channels.
struct Norm {
    rows: usize,
    row: usize,
    channels: usize,
    groups: usize,
    eps: f64,
}

fn normalise(
    context: &mut KernelContext<'_>,
    input: TensorId,
    outputs: [TensorId; 3],
    [weight, bias]: [Option<TensorId>; 2],
    job: &Norm,
) -> Result<(), KernelError> {
    let dtype = context.meta(input).dtype();
    expect_dtype("the input", dtype, FLOATING)?;
    expect_same_dtype(context, outputs[0], input)?;
    let temp = context.temp();
    let channels = job.channels * job.groups;
    compute!(floating, "the input", dtype, C => {
        let weight = optional::<C>(context, temp, weight, channels)?;
        let bias = optional::<C>(context, temp, bias, channels)?;
        let ([out, means, rstds], [input]) = context.disjoint(outputs, [input])?;
        let from = as_dense::<C>(temp, input)?;
        let moments = scratch::<f64>(temp, 2 * job.rows)?;
        let (mean, rstd) = moments.split_at_mut(job.rows);
        write_dense::<C>(temp, out, |to| {
            normalise_rows(job, to, from, [weight, bias], mean, rstd);
            Ok(())
        })?;
        for (out, values) in [(means, mean), (rstds, rstd)] {
            write_dense::<C>(temp, out, |to| {
                for (to, value) in to.iter_mut().zip(values.iter()) {
                    *to = C::from_f64(*value);
                }
                Ok(())
            })?;
        }
        Ok(())
    })
}

fn normalise_rows<C: Float>(
    job: &Norm,
    to: &mut [C],
    from: &[C],
    [weight, bias]: [Option<&[C]>; 2],
    means: &mut [f64],
    rstds: &mut [f64],
) {
    for row in 0..job.rows {
        let range = row * job.row..(row + 1) * job.row;
        let (from, to) = (&from[range.clone()], &mut to[range]);
        let (mean, rstd) = moments(from, job.eps);
        (means[row], rstds[row]) = (mean, rstd);
        let (mean, rstd) = (C::from_f64(mean), C::from_f64(rstd));
        simd::map(from, to, |x: C| x.minus(mean).times(rstd));
        let first = row % job.groups * job.channels;
        let channels = first..first + job.channels;
        let [weight, bias] = [weight, bias].map(|list| list.map(|list| &list[channels.clone()]));
        scale_and_shift(to, weight, bias, job.row / job.channels.max(1));
    }
}

/// `row[i] = row[i] * weight[i / area] + bias[i / area]`.
fn scale_and_shift<C: Float>(row: &mut [C], weight: Option<&[C]>, bias: Option<&[C]>, area: usize) {
    if area == 1 {
        if let Some(weight) = weight {
            row.iter_mut()
                .zip(weight)
                .for_each(|(x, w)| *x = x.times(*w));
        }
        if let Some(bias) = bias {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x = x.plus(*b));
        }
        return;
    }
    for (channel, run) in row.chunks_mut(area.max(1)).enumerate() {
        let weight = weight.map_or(C::one(), |weight| weight[channel]);
        let bias = bias.map_or(C::zero(), |bias| bias[channel]);
        run.iter_mut().for_each(|x| *x = x.times(weight).plus(bias));
    }
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
            let (mean, rstd) = moments_of(planes, eps);
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

/// Mean and reciprocal deviation of several runs together.
fn moments_of<'a, C: Float>(runs: impl Iterator<Item = &'a [C]> + Clone, eps: f64) -> (f64, f64) {
    let (count, total) = runs.clone().fold((0.0, 0.0), |(n, total), run| {
        (n + run.len() as f64, total + sum(run))
    });
    let mean = total / count;
    let centre = C::from_f64(mean);
    let squares: f64 = runs
        .flat_map(|run| run.chunks(1024))
        .map(|run| squares(run, centre).cast::<f64>())
        .sum();
    (mean, 1.0 / (squares / count + eps).sqrt())
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
    let (_, [step, channel_step]) = walk.inner();
    let from = as_compute::<C>(temp, input)?;
    write_compute::<C>(temp, out, |to| {
        let mut at = 0;
        walk.runs(|[source, channel], len| {
            let (source, channel) = (source as usize, channel as usize);
            let run = &mut to[at..at + len];
            at += len;
            if step == 1 && channel_step == 0 {
                let (scale, shift) = (scales[channel], shifts[channel]);
                simd::map(&from[source..source + len], run, |x: C| {
                    x.times(scale).plus(shift)
                });
                return Ok(());
            }
            for (i, to) in run.iter_mut().enumerate() {
                let x = from[source + step as usize * i];
                let channel = channel + channel_step as usize * i;
                *to = x.times(scales[channel]).plus(shifts[channel]);
            }
            Ok(())
        })
    })
}
