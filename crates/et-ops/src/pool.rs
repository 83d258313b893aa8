//! Pooling.

use et_kernel::{
    Arguments, IntList, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet, TensorId,
    TensorMeta,
};

use crate::arguments::{output, two_outputs};
use crate::convert::{as_compute, write_compute};
use crate::dims::Sizes;
use crate::dispatch::{REAL, compute, expect_dtype};
use crate::number::{Compute, Number};
use crate::view::expect_same_dtype;
use crate::window::{SPATIAL, Windows, per_dim, spatial, spatial_strides};

const FLOATING: ScalarTypeSet = ScalarTypeSet::FLOATING;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::max_pool2d_with_indices.out", REAL, max_pool),
    Kernel::new("aten::avg_pool2d.out", FLOATING, |c| average_pool(c, 2)),
    Kernel::new("aten::avg_pool1d.out", FLOATING, |c| average_pool(c, 1)),
    Kernel::new("aten::_adaptive_avg_pool2d.out", FLOATING, |c| {
        adaptive_average(c, 2)
    }),
    Kernel::new("aten::adaptive_avg_pool2d.out", FLOATING, |c| {
        adaptive_average(c, 2)
    }),
    Kernel::new("aten::_adaptive_avg_pool3d.out", FLOATING, |c| {
        adaptive_average(c, 3)
    }),
];

/// Planes of a tensor: all dimensions before the spatial ones, of which there may be one or two.
struct Planes {
    outer: [usize; 2],
    strides: [usize; 2],
    spatial: [usize; SPATIAL],
}

impl Planes {
    fn new(meta: &TensorMeta, rank: usize) -> Self {
        let outer_rank = meta.rank() - rank;
        let (mut outer, mut strides) = ([1; 2], [0; 2]);
        outer[2 - outer_rank..].copy_from_slice(&meta.sizes()[..outer_rank]);
        strides[2 - outer_rank..].copy_from_slice(&meta.strides()[..outer_rank]);
        Self {
            outer,
            strides,
            spatial: spatial_strides(meta.strides(), rank),
        }
    }

    fn start(&self, [n, c]: [usize; 2]) -> usize {
        n * self.strides[0] + c * self.strides[1]
    }

    fn at(&self, start: usize, [z, y, x]: [usize; SPATIAL]) -> usize {
        start + z * self.spatial[0] + y * self.spatial[1] + x * self.spatial[2]
    }
}

fn expect_rank(meta: &TensorMeta, rank: usize) -> Result<(), KernelError> {
    if (rank + 1..=rank + 2).contains(&meta.rank()) {
        return Ok(());
    }
    Err(KernelError::invalid(format!(
        "pooling over {rank} dimensions of a tensor of {}",
        meta.rank()
    )))
}

/// The windows of arguments 1 (kernel), 2 (stride, the kernel's size if empty), 3 (padding).
fn windows(
    context: &KernelContext<'_>,
    meta: &TensorMeta,
    rank: usize,
    dilation: &[i64],
) -> Result<Windows, KernelError> {
    expect_rank(meta, rank)?;
    let (kernel, stride) = (context.int_list(1)?, context.optional_int_list(2)?);
    let stride: Option<IntList> = stride.filter(|list| !list.is_empty());
    let windows = Windows {
        input: spatial(meta.sizes(), rank),
        kernel: per_dim("the kernel's size", &kernel, rank, 1)?,
        stride: per_dim("stride", stride.as_deref().unwrap_or(&kernel), rank, 1)?,
        padding: per_dim("padding", &context.int_list(3)?, rank, 0)?,
        dilation: per_dim("dilation", dilation, rank, 1)?,
        output: [0; SPATIAL],
    };
    for d in 0..SPATIAL {
        if windows.padding[d] > windows.kernel[d] / 2 {
            return Err(KernelError::invalid(
                "padding of more than half of the kernel",
            ));
        }
    }
    Ok(windows)
}

/// The output's shape: the outer dimensions, and the windows of the last `rank`.
fn pooled_sizes(meta: &TensorMeta, rank: usize, output: [usize; SPATIAL]) -> Sizes {
    let mut sizes: Sizes = meta.sizes()[..meta.rank() - rank].into();
    sizes.extend_from_slice(&output[SPATIAL - rank..]);
    sizes
}

/// Calls `visit` for every window: its plane, and its place in the plane.
fn each_window(
    outer: [usize; 2],
    [depth, height, width]: [usize; SPATIAL],
    mut visit: impl FnMut([usize; 2], [usize; SPATIAL]),
) {
    // Where there is no window, other sizes may be anything.
    if outer.contains(&0) || depth.min(height).min(width) == 0 {
        return;
    }
    for n in 0..outer[0] {
        for c in 0..outer[1] {
            for z in 0..depth {
                for y in 0..height {
                    for x in 0..width {
                        visit([n, c], [z, y, x]);
                    }
                }
            }
        }
    }
}

/// `max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode, out, indices)`.
fn max_pool(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, [out, indices]) = (context.tensor(0)?, two_outputs(context, 6)?);
    expect_same_dtype(context, out, input)?;
    expect_dtype(
        "the indices",
        context.meta(indices).dtype(),
        ScalarTypeSet::of(&[ScalarType::Long]),
    )?;
    let meta = context.meta(input);
    let dilation = context.int_list(4)?;
    let windows = windows(context, meta, 2, &dilation)?.sized(context.boolean(5)?)?;
    let sizes = pooled_sizes(meta, 2, windows.output);
    context.resize(out, &sizes)?;
    context.resize(indices, &sizes)?;
    let temp = context.temp();
    let ([out, mut indices], [input]) = context.disjoint([out, indices], [input])?;
    let planes = [input.meta, out.meta, indices.meta].map(|meta| Planes::new(meta, 2));
    let indices = indices.elements_mut::<i64>()?;
    compute!(real, "the input", input.meta.dtype(), C => {
        let from = as_compute::<C>(temp, input)?;
        write_compute::<C>(temp, out, |to| {
            max_windows(&windows, &planes, to, indices, from);
            Ok(())
        })
    })
}

fn max_windows<C: Compute>(
    windows: &Windows,
    [input, out, index]: &[Planes; 3],
    to: &mut [C],
    indices: &mut [i64],
    from: &[C],
) {
    let width = windows.input[2];
    each_window(input.outer, windows.output, |plane, [z, y, x]| {
        let start = input.start(plane);
        let (mut best, mut best_at) = (C::LOWEST, None);
        let columns = windows.taps_inside(2, x);
        for ky in windows.taps_inside(1, y) {
            let Some(row) = windows.place(1, y, ky) else {
                continue;
            };
            for kx in columns.clone() {
                let Some(column) = windows.place(2, x, kx) else {
                    continue;
                };
                let value = from[input.at(start, [z, row, column])];
                if best_at.is_none() || best.less(value) || value.is_nan() {
                    best = value;
                    best_at = Some(row * width + column);
                }
            }
        }
        to[out.at(out.start(plane), [z, y, x])] = best;
        indices[index.at(index.start(plane), [z, y, x])] = best_at.unwrap_or(0) as i64;
    });
}

/// `avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out)`; without the divisor
/// for one dimension.
fn average_pool(context: &mut KernelContext<'_>, rank: usize) -> Result<(), KernelError> {
    let input = context.tensor(0)?;
    let out = output(context, if rank == 1 { 6 } else { 7 })?;
    expect_same_dtype(context, out, input)?;
    let meta = context.meta(input);
    let windows = windows(context, meta, rank, &[1])?.sized(context.boolean(4)?)?;
    let with_padding = context.boolean(5)?;
    let divisor = if rank == 1 {
        None
    } else {
        context.optional_int(6)?
    };
    if divisor == Some(0) {
        return Err(KernelError::invalid("averages divided by 0"));
    }
    let sizes = pooled_sizes(meta, rank, windows.output);
    let count = Count {
        divisor,
        with_padding,
    };
    average(
        context,
        input,
        out,
        rank,
        &sizes,
        |d, window| {
            let start = window * windows.stride[d];
            let end = (start + windows.kernel[d]).min(windows.input[d] + windows.padding[d]);
            let end_padded =
                (start + windows.kernel[d]).min(windows.input[d] + 2 * windows.padding[d]);
            let inside = start.saturating_sub(windows.padding[d]);
            Span {
                start: inside,
                end: end.saturating_sub(windows.padding[d]).max(inside),
                padded: end_padded - start,
            }
        },
        count,
    )
}

/// The part of a dimension that a window covers, and how many elements that is with padding.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    padded: usize,
}

/// What sums are divided by.
#[derive(Clone, Copy)]
struct Count {
    divisor: Option<i64>,
    with_padding: bool,
}

impl Count {
    fn of(self, spans: &[Span; SPATIAL]) -> f64 {
        match self.divisor {
            Some(divisor) => divisor as f64,
            None if self.with_padding => spans.iter().map(|span| span.padded as f64).product(),
            None => spans
                .iter()
                .map(|span| (span.end - span.start) as f64)
                .product(),
        }
    }
}

/// Averages over the spans that `span` gives for each dimension and window.
fn average(
    context: &mut KernelContext<'_>,
    input: TensorId,
    out: TensorId,
    rank: usize,
    sizes: &[usize],
    span: impl Fn(usize, usize) -> Span,
    count: Count,
) -> Result<(), KernelError> {
    context.resize(out, sizes)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let [from_planes, to_planes] = [input.meta, out.meta].map(|meta| Planes::new(meta, rank));
    let output = spatial(out.meta.sizes(), rank);
    compute!(floating, "the input", input.meta.dtype(), C => {
        let from = as_compute::<C>(temp, input)?;
        write_compute::<C>(temp, out, |to| {
            each_window(from_planes.outer, output, |plane, window| {
                let spans = [span(0, window[0]), span(1, window[1]), span(2, window[2])];
                let start = from_planes.start(plane);
                let mut total = 0.0;
                for z in spans[0].start..spans[0].end {
                    for y in spans[1].start..spans[1].end {
                        for x in spans[2].start..spans[2].end {
                            total += from[from_planes.at(start, [z, y, x])].cast::<f64>();
                        }
                    }
                }
                to[to_planes.at(to_planes.start(plane), window)] = C::from_f64(total / count.of(&spans));
            });
            Ok(())
        })
    })
}

/// `_adaptive_avg_pool2d(self, output_size, out)`: windows that share the input out evenly.
fn adaptive_average(context: &mut KernelContext<'_>, rank: usize) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 2)?);
    expect_same_dtype(context, out, input)?;
    let meta = context.meta(input);
    expect_rank(meta, rank)?;
    let wanted = per_dim("the output's size", &context.int_list(1)?, rank, 1)?;
    let sizes = pooled_sizes(meta, rank, wanted);
    let from = spatial(meta.sizes(), rank);
    if from.contains(&0) {
        return Err(KernelError::invalid(
            "an image of no pixels cannot be shared out",
        ));
    }
    let count = Count {
        divisor: None,
        with_padding: false,
    };
    average(
        context,
        input,
        out,
        rank,
        &sizes,
        |d, window| {
            // Sizes are of tensors that exist, so the products stay within 128 bits.
            let share = |i: usize| i as u128 * from[d] as u128;
            let start = (share(window) / wanted[d] as u128) as usize;
            let end = share(window + 1).div_ceil(wanted[d] as u128) as usize;
            Span {
                start,
                end,
                padded: end - start,
            }
        },
        count,
    )
}
