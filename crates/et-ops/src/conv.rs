//! Convolution: products of matrices where that pays, plane by plane where every channel is its own group.

mod columns;
mod depthwise;
mod finish;
mod fused;
mod transposed;

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, TensorId, TensorIn, TensorMeta, TensorOut,
    Workers,
};
use et_memory::Arena;

use crate::arguments::output;
use crate::convert::{as_compute, as_dense, write_compute};
use crate::dims::{self, Sizes};
use crate::dispatch::{REAL, compute};
use crate::elementwise::scratch;
use crate::number::Number;
use crate::product::{MOST_PARTS, PART, Product};
use crate::view::expect_same_dtype;
use crate::window::{SPATIAL, Windows, per_dim, spatial, spatial_strides};

use finish::Finish;
use fused::Fused;

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::convolution.out", REAL, convolution).with_prepare(fused::prepare)];

/// A convolution's sizes, and where the elements of its tensors are.
pub(crate) struct Plan<'a> {
    /// Threads that help.
    pub(crate) workers: Option<&'a Workers>,
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    /// Channels of the input and of the output, of one group.
    pub(crate) in_channels: usize,
    pub(crate) out_channels: usize,
    pub(crate) windows: Windows,
    pub(crate) input: Layout,
    pub(crate) output: Layout,
}

impl Plan<'_> {
    /// Channels of the output, counted through the batch.
    fn channels(&self) -> usize {
        self.batch * self.groups * self.out_channels
    }

    /// Whether channels follow each other in the output without gaps, through the batch.
    fn is_dense(&self) -> bool {
        let plane = self.windows.windows();
        self.output.channel == plane
            && (self.batch == 1 || self.output.batch == plane * self.groups * self.out_channels)
    }

    /// How many parts of the output's channels to do at the same time, if each element is a sum of `terms` products.
    fn parts(&self, terms: usize) -> usize {
        let threads = self.workers.map_or(1, Workers::threads);
        let plane = self.windows.windows();
        if threads == 1 || !self.is_dense() {
            return 1;
        }
        let products = self.channels().saturating_mul(plane).saturating_mul(terms);
        (products / PART)
            .min(threads)
            .min(MOST_PARTS)
            .clamp(1, self.channels().max(1))
    }

    /// Does `work` for each item, on several threads if there are any.
    fn each<I: Iterator + Send>(&self, items: I, work: impl Fn(I::Item) + Sync) {
        match self.workers {
            Some(workers) => workers.each(items, work),
            None => items.for_each(work),
        }
    }
}

/// Strides of a tensor's batch, channels and spatial dimensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) batch: usize,
    pub(crate) channel: usize,
    pub(crate) spatial: [usize; SPATIAL],
}

impl Layout {
    /// Of a tensor whose batch dimension may be missing.
    fn new(meta: &TensorMeta, rank: usize) -> Self {
        let strides = meta.strides();
        let has_batch = strides.len() == rank + 2;
        Self {
            batch: if has_batch { strides[0] } else { 0 },
            channel: strides[usize::from(has_batch)],
            spatial: spatial_strides(strides, rank),
        }
    }

    /// The distance from one place to the next, counting places in index order, if that is the same everywhere.
    pub(crate) fn pixel(&self, sizes: [usize; SPATIAL]) -> Option<usize> {
        let mut stride = None;
        let mut expected = None;
        for d in (0..SPATIAL).rev() {
            if sizes[d] == 1 {
                continue;
            }
            let own = self.spatial[d];
            if expected.is_some_and(|expected| expected != own) {
                return None;
            }
            stride = stride.or(Some(own));
            expected = Some(own * sizes[d]);
        }
        Some(stride.unwrap_or(1))
    }
}

/// Arguments of `convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out)`.
struct Call {
    input: TensorId,
    weight: TensorId,
    bias: Option<TensorId>,
    out: TensorId,
    transposed: bool,
}

fn convolution(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let fused = context.take_state::<Fused>();
    let call = Call {
        input: context.tensor(0)?,
        weight: context.tensor(1)?,
        bias: context.optional_tensor(2)?,
        out: output(context, 9)?,
        transposed: context.boolean(6)?,
    };
    for id in [Some(call.weight), call.bias, Some(call.out)]
        .into_iter()
        .flatten()
    {
        expect_same_dtype(context, id, call.input)?;
    }
    let (mut plan, sizes) = plan(context, &call)?;
    let out = fused.as_ref().map_or(call.out, |fused| fused.out);
    context.resize(out, &sizes)?;
    let temp = context.temp();
    let bias = call.bias.unwrap_or(call.weight);
    let ([out], [input, weight, bias]) =
        context.disjoint([out], [call.input, call.weight, bias])?;
    let rank = weight.meta.rank() - 2;
    plan.input = Layout::new(input.meta, rank);
    plan.output = Layout::new(out.meta, rank);
    compute!(real, "the input", input.meta.dtype(), C => {
        if let Some(fused) = fused {
            let finish = fused.finish::<C>(&plan).ok_or_else(|| {
                KernelError::invalid("the weights are not like those that the method was loaded with")
            })?;
            let weight = as_dense::<C>(temp, weight)?;
            return run::<C>(temp, &plan, false, out, input, weight, &finish);
        }
        let bias = call.bias.map(|_| as_dense::<C>(temp, bias)).transpose()?;
        let weight = as_dense::<C>(temp, weight)?;
        run::<C>(temp, &plan, call.transposed, out, input, weight, &Finish::new(bias))
    })
}

fn run<C: Product>(
    temp: &Arena,
    plan: &Plan<'_>,
    transposed: bool,
    out: TensorOut<'_>,
    input: TensorIn<'_>,
    weight: &[C],
    finish: &Finish<'_, C>,
) -> Result<(), KernelError> {
    let from = as_compute::<C>(temp, input)?;
    write_compute::<C>(temp, out, |to| {
        if to.is_empty() || from.is_empty() || weight.is_empty() {
            to.fill(C::default());
            finish.apply(plan, to);
            Ok(())
        } else if transposed {
            to.fill(C::default());
            transposed::run(temp, plan, to, from, weight)?;
            finish.apply(plan, to);
            Ok(())
        } else if plan.in_channels > 1 || plan.groups == 1 {
            columns::run(temp, plan, to, from, weight, finish)
        } else {
            depthwise::run(temp, plan, to, from, weight, finish)
        }
    })
}

/// The sizes of everything, checked. Layouts are filled in later.
fn plan<'a>(context: &KernelContext<'a>, call: &Call) -> Result<(Plan<'a>, Sizes), KernelError> {
    let (input, weight) = (context.meta(call.input), context.meta(call.weight));
    let rank = weight
        .rank()
        .checked_sub(2)
        .filter(|rank| (1..=SPATIAL).contains(rank));
    let rank = rank
        .filter(|rank| (rank + 1..=rank + 2).contains(&input.rank()))
        .ok_or_else(|| {
            KernelError::invalid(format!(
                "a convolution of {input:?} with weights {weight:?}"
            ))
        })?;
    let groups = dims::size("the number of groups", context.int(8)?)?;
    let has_batch = input.rank() == rank + 2;
    let channels = input.sizes()[usize::from(has_batch)];
    let [first, second] = [weight.sizes()[0], weight.sizes()[1]];
    let fits = groups > 0
        && first.is_multiple_of(groups)
        && channels.is_multiple_of(groups)
        && if call.transposed {
            first == channels
        } else {
            second == channels / groups
        };
    if !fits {
        return Err(KernelError::invalid(format!(
            "{channels} channels in {groups} groups, with weights of shape {:?}",
            weight.sizes()
        )));
    }
    let (in_channels, out_channels) = if call.transposed {
        (first / groups, second)
    } else {
        (second, first / groups)
    };
    if let Some(bias) = call.bias
        && context.meta(bias).sizes() != [groups * out_channels]
    {
        return Err(KernelError::invalid(format!(
            "a bias of shape {:?} for {} channels",
            context.meta(bias).sizes(),
            groups * out_channels
        )));
    }
    let windows = Windows {
        input: spatial(input.sizes(), rank),
        kernel: spatial(weight.sizes(), rank),
        stride: per_dim("stride", &context.int_list(3)?, rank, 1)?,
        padding: per_dim("padding", &context.int_list(4)?, rank, 0)?,
        dilation: per_dim("dilation", &context.int_list(5)?, rank, 1)?,
        output: [1; SPATIAL],
    };
    let windows = if call.transposed {
        let extra = per_dim("output padding", &context.int_list(7)?, rank, 0)?;
        transposed::sized(windows, extra)?
    } else {
        windows.sized(false)?
    };
    let mut sizes = Sizes::new();
    sizes.extend(has_batch.then(|| input.sizes()[0]));
    sizes.push(groups * out_channels);
    sizes.extend_from_slice(&windows.output[SPATIAL - rank..]);
    dims::numel(&sizes)?;
    let nowhere = Layout {
        batch: 0,
        channel: 0,
        spatial: [0; SPATIAL],
    };
    let plan = Plan {
        workers: context.environment().workers.as_deref(),
        batch: if has_batch { input.sizes()[0] } else { 1 },
        groups,
        in_channels,
        out_channels,
        windows,
        input: nowhere,
        output: nowhere,
    };
    Ok((plan, sizes))
}

/// `len` elements of scratch memory whose number is a product that may be too large.
fn scratch_of<'a, C: Number>(temp: &'a Arena, sizes: &[usize]) -> Result<&'a mut [C], KernelError> {
    scratch(temp, dims::numel(sizes)?)
}

#[cfg(test)]
mod tests;
