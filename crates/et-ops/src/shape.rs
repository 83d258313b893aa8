//! Operators that only move elements: views made real, parts, repetitions.

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, PrepareContext, Prepared, ScalarTypeSet,
    TensorId,
};

use crate::arguments::output;
use crate::blocks::{self, Blocks};
use crate::dims::{self, DimSet, Sizes, Strides, Walk, dim_index, dim_set};
use crate::matmul;
use crate::plan::{self, NewPlan, keep, moving};
use crate::view::{self, View};

const ANY: ScalarTypeSet = crate::dispatch::MOVABLE;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::permute_copy.out", ANY, permute_or_multiply).with_prepare(prepare_permute),
    moving("aten::transpose_copy.int_out", ANY, |c| keep(c, transpose)),
    moving("aten::t_copy.out", ANY, |c| keep(c, matrix_transpose)),
    moving("aten::expand_copy.out", ANY, |c| keep(c, expand)),
    moving("aten::repeat.out", ANY, |c| keep(c, repeat)),
    moving("aten::squeeze_copy.dim_out", ANY, |c| {
        keep(c, |c, plan| {
            let dim = c.int(1)?;
            squeeze(c, plan, &[dim])
        })
    }),
    moving("aten::squeeze_copy.dims_out", ANY, |c| {
        keep(c, |c, plan| {
            let dims = c.int_list(1)?;
            squeeze(c, plan, &dims)
        })
    }),
    moving("aten::unsqueeze_copy.out", ANY, |c| keep(c, unsqueeze)),
    moving("aten::slice_copy.Tensor_out", ANY, |c| keep(c, slice)),
    moving("aten::narrow_copy.out", ANY, |c| keep(c, narrow)),
    moving("aten::select_copy.int_out", ANY, |c| keep(c, select)),
    moving("aten::diagonal_copy.out", ANY, |c| keep(c, diagonal)),
    moving("aten::unfold_copy.out", ANY, |c| keep(c, unfold)),
    moving("aten::flip.out", ANY, |c| keep(c, flip)),
    moving("aten::view_copy.out", ANY, |c| keep(c, reshape)),
    moving("aten::_unsafe_view.out", ANY, |c| keep(c, reshape)),
    moving("aten::alias_copy.out", ANY, |c| keep(c, whole)),
    moving("aten::detach_copy.out", ANY, |c| keep(c, whole)),
    moving("aten::lift_fresh_copy.out", ANY, |c| keep(c, whole)),
    moving("aten::as_strided_copy.out", ANY, |c| keep(c, as_strided)),
];

fn whole(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 1)?);
    let view = View::of(context.meta(input));
    plan.copy(context, out, input, &view)
}

/// Dimension `i` of the output is dimension `order[i]` of the input.
fn permute_by(
    context: &mut KernelContext<'_>,
    plan: NewPlan<'_>,
    out: TensorId,
    input: TensorId,
    order: &[usize],
) -> Result<(), KernelError> {
    let of = View::of(context.meta(input));
    let view = View {
        sizes: order.iter().map(|&dim| of.sizes[dim]).collect(),
        strides: order.iter().map(|&dim| of.strides[dim]).collect(),
        start: 0,
    };
    plan.copy(context, out, input, &view)
}

/// A permutation may be a part of the product behind it.
fn prepare_permute(context: &PrepareContext<'_>) -> Result<Prepared, KernelError> {
    let prepared = matmul::prepare_transposed(context)?;
    if prepared.absorbed > 0 {
        return Ok(prepared);
    }
    plan::prepare(context)
}

fn permute_or_multiply(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    match context.take_state::<matmul::Job>() {
        Some(product) => matmul::multiply(context, product),
        None => keep(context, permute),
    }
}

fn permute(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, dims, out) = (
        context.tensor(0)?,
        context.int_list(1)?,
        output(context, 2)?,
    );
    let rank = context.meta(input).rank();
    if dims.len() != rank {
        return Err(KernelError::invalid(format!(
            "a permutation of {} dimensions for a tensor of {rank}",
            dims.len()
        )));
    }
    dim_set("dimension", &dims, rank)?;
    let order: Sizes = dims
        .iter()
        .map(|&dim| dim_index("dimension", dim, rank))
        .collect::<Result<_, _>>()?;
    permute_by(context, plan, out, input, &order)
}

fn transpose(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 3)?);
    let rank = context.meta(input).rank();
    let a = dim_index("dimension", context.int(1)?, rank)?;
    let b = dim_index("dimension", context.int(2)?, rank)?;
    let mut order: Sizes = (0..rank).collect();
    if rank > 0 {
        order.swap(a, b);
    }
    permute_by(context, plan, out, input, &order)
}

fn matrix_transpose(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 1)?);
    match context.meta(input).rank() {
        0 | 1 => whole(context, plan),
        2 => permute_by(context, plan, out, input, &[1, 0]),
        rank => Err(KernelError::invalid(format!(
            "t_copy of a tensor of {rank} dimensions; it takes up to 2"
        ))),
    }
}

/// -1 among the sizes keeps the input's.
fn expand(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, wanted, out) = (
        context.tensor(0)?,
        context.int_list(1)?,
        output(context, 3)?,
    );
    let meta = context.meta(input);
    let added = wanted.len().checked_sub(meta.rank()).ok_or_else(|| {
        KernelError::invalid("expand_copy to fewer dimensions than the input has")
    })?;
    let mut sizes = Sizes::new();
    for (i, &size) in wanted.iter().enumerate() {
        sizes.push(match size {
            -1 if i >= added => meta.sizes()[i - added],
            size => dims::size("size", size)?,
        });
    }
    dims::numel(&sizes)?;
    let view = View {
        strides: dims::broadcast_strides(meta, &sizes)?,
        sizes,
        start: 0,
    };
    plan.copy(context, out, input, &view)
}

/// As if the input lay in a space where it repeats: dimension `d` of the output is `repeats[d]` times the input's.
fn repeat(context: &mut KernelContext<'_>, mut plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, repeats, out) = (
        context.tensor(0)?,
        context.int_list(1)?,
        output(context, 2)?,
    );
    let repeats = dims::sizes("the number of repeats", &repeats)?;
    view::expect_same_dtype(context, out, input)?;
    let meta = context.meta(input);
    let added = repeats
        .len()
        .checked_sub(meta.rank())
        .ok_or_else(|| KernelError::invalid("fewer repeats than the input has dimensions"))?;
    let mut whole = View::of(meta);
    whole.sizes.insert_many(0, std::iter::repeat_n(1, added));
    whole.strides.insert_many(0, std::iter::repeat_n(0, added));
    let sizes: Sizes = repeats
        .iter()
        .zip(&whole.sizes)
        .map(|(&repeat, &size)| repeat.checked_mul(size))
        .collect::<Option<_>>()
        .ok_or_else(|| KernelError::invalid("a repeated size is too large"))?;
    dims::numel(&sizes)?;
    context.resize(out, &sizes)?;
    // Each dimension in two: which repetition, and where in the input.
    let meta = context.meta(out);
    let walk = Walk::new(meta.dim_order().iter().flat_map(|&dim| {
        let dim = usize::from(dim);
        let (own, stride) = (whole.sizes[dim], meta.strides()[dim] as isize);
        [
            (repeats[dim], [times(stride, own), 0]),
            (own, [stride, whole.strides[dim]]),
        ]
    }));
    plan.add(context, out, input, walk)
}

/// Takes away those of the named dimensions that have size 1.
fn squeeze(
    context: &mut KernelContext<'_>,
    plan: NewPlan<'_>,
    dims: &[i64],
) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 2)?);
    let mut view = View::of(context.meta(input));
    let rank = view.sizes.len();
    let named = if dims.is_empty() {
        DimSet::NONE
    } else {
        dim_set("dimension", dims, rank)?
    };
    for dim in (0..rank).rev() {
        if named.contains(dim) && view.sizes[dim] == 1 {
            view.remove(dim);
        }
    }
    plan.copy(context, out, input, &view)
}

fn unsqueeze(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 2)?);
    let mut view = View::of(context.meta(input));
    let dim = dim_index("dimension", context.int(1)?, view.sizes.len() + 1)?;
    view.insert(dim, 1, 0);
    plan.copy(context, out, input, &view)
}

/// A part of a dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) start: usize,
    pub(crate) step: usize,
    pub(crate) len: usize,
    /// Whether the dimension stays, rather than that it goes with its only index.
    pub(crate) keeps: bool,
}

impl Slice {
    /// One index, in whose place nothing stays.
    pub(crate) const fn index(start: usize) -> Self {
        Self {
            start,
            step: 1,
            len: 1,
            keeps: false,
        }
    }

    /// `len` indices from `start` on.
    pub(crate) const fn run(start: usize, len: usize) -> Self {
        Self {
            start,
            step: 1,
            len,
            keeps: true,
        }
    }

    /// With bounds brought inside as Python does.
    pub(crate) fn new(
        size: usize,
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    ) -> Result<Self, KernelError> {
        let step = usize::try_from(step)
            .ok()
            .filter(|&step| step > 0)
            .ok_or_else(|| KernelError::invalid(format!("step {step} is not positive")))?;
        let inside = |bound: i64| {
            let bound = if bound < 0 {
                bound.saturating_add(size as i64)
            } else {
                bound
            };
            bound.clamp(0, size as i64) as usize
        };
        let start = inside(start.unwrap_or(0));
        let end = inside(end.unwrap_or(i64::MAX)).max(start);
        Ok(Self {
            start,
            step,
            len: (end - start).div_ceil(step),
            keeps: true,
        })
    }

    /// Gives `out` the shape of the part of `input` along `dim`. Mostly it has that already.
    pub(crate) fn resize(
        &self,
        context: &mut KernelContext<'_>,
        out: TensorId,
        input: TensorId,
        dim: usize,
    ) -> Result<(), KernelError> {
        let (own, whole) = (context.meta(out).sizes(), context.meta(input).sizes());
        let kept = usize::from(self.keeps);
        let has = own.len() + 1 == whole.len() + kept
            && own[..dim] == whole[..dim]
            && (!self.keeps || own[dim] == self.len)
            && own[dim + kept..] == whole[dim + 1..];
        if has {
            return Ok(());
        }
        let sizes = self.sizes(whole, dim);
        context.resize(out, &sizes)
    }

    /// The shape of the part along `dim`.
    fn sizes(&self, whole: &[usize], dim: usize) -> Sizes {
        let mut sizes = Sizes::new();
        sizes.extend_from_slice(whole);
        if self.keeps {
            sizes[dim] = self.len;
        } else {
            sizes.remove(dim);
        }
        sizes
    }

    /// Keeps the view's part along `dim`.
    pub(crate) fn cut(&self, view: &mut View, dim: usize) {
        if !self.keeps {
            return view.select(dim, self.start);
        }
        // A step beyond the end is never taken.
        let step = isize::try_from(self.step).unwrap_or(isize::MAX);
        let step = if self.len > 1 { step } else { 1 };
        view.slice(dim, self.start, step, self.len);
    }
}

/// Makes `out` a copy of a part of `input` along `dim`.
pub(crate) fn copy_part(
    context: &mut KernelContext<'_>,
    plan: NewPlan<'_>,
    out: TensorId,
    input: TensorId,
    dim: usize,
    part: &Slice,
) -> Result<(), KernelError> {
    // What is done only once needs no walk. Where the two are one tensor, the new shape is the input's as well.
    let plain =
        part.step == 1 && out != input && !plan.is_kept() && context.meta(out).is_contiguous();
    let blocks = Blocks::of(context.meta(input), dim).filter(|_| plain);
    let Some(blocks) = blocks else {
        let mut view = View::of(context.meta(input));
        part.cut(&mut view, dim);
        return plan.copy(context, out, input, &view);
    };
    view::expect_same_dtype(context, out, input)?;
    part.resize(context, out, input, dim)?;
    if part.len == blocks.size && context.place(out)? == context.place(input)? {
        return Ok(());
    }
    let ([out], [input]) = context.disjoint([out], [input])?;
    let cut = Blocks {
        size: part.len,
        ..blocks
    };
    blocks::copy(
        (out.bytes, cut, 0),
        (input.bytes, blocks, part.start),
        part.len,
    )
}

/// Argument `at` as a dimension of the input, and its size.
pub(crate) fn cut_dim(
    context: &KernelContext<'_>,
    input: TensorId,
    at: usize,
) -> Result<(usize, usize), KernelError> {
    let meta = context.meta(input);
    let dim = dim_index("dimension", context.int(at)?, meta.rank())?;
    match meta.sizes().get(dim) {
        Some(&size) => Ok((dim, size)),
        None => Err(KernelError::invalid("the input has no dimension to cut")),
    }
}

/// The rank of a tensor that must have a dimension.
fn rank_of_some(view: &View) -> Result<usize, KernelError> {
    match view.sizes.len() {
        0 => Err(KernelError::invalid("the input has no dimension to cut")),
        rank => Ok(rank),
    }
}

fn slice(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 5)?);
    let (dim, size) = cut_dim(context, input, 1)?;
    let (start, end) = (context.optional_int(2)?, context.optional_int(3)?);
    let part = Slice::new(size, start, end, context.int(4)?)?;
    copy_part(context, plan, out, input, dim, &part)
}

fn narrow(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 4)?);
    let (dim, size) = cut_dim(context, input, 1)?;
    let (start, len) = (context.int(2)?, dims::size("the length", context.int(3)?)?);
    let start = usize::try_from(if start < 0 {
        start.saturating_add(size as i64)
    } else {
        start
    })
    .ok()
    .filter(|&start| start <= size && len <= size - start)
    .ok_or_else(|| KernelError::invalid("narrow_copy outside of the input"))?;
    copy_part(context, plan, out, input, dim, &Slice::run(start, len))
}

/// An index into a dimension, counted from the end if negative.
pub(crate) fn index_into(size: usize, index: i64) -> Result<usize, KernelError> {
    let from_start = if index < 0 {
        index.saturating_add(size as i64)
    } else {
        index
    };
    usize::try_from(from_start)
        .ok()
        .filter(|&index| index < size)
        .ok_or_else(|| KernelError::invalid(format!("index {index} is outside of size {size}")))
}

fn select(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 3)?);
    let (dim, size) = cut_dim(context, input, 1)?;
    let index = index_into(size, context.int(2)?)?;
    copy_part(context, plan, out, input, dim, &Slice::index(index))
}

/// `diagonal_copy(self, offset, dim1, dim2)`: the diagonal becomes the last dimension.
fn diagonal(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 4)?);
    let mut view = View::of(context.meta(input));
    let rank = rank_of_some(&view)?;
    let a = dim_index("dimension", context.int(2)?, rank)?;
    let b = dim_index("dimension", context.int(3)?, rank)?;
    if a == b {
        return Err(KernelError::invalid("a diagonal of one dimension"));
    }
    let offset = context.int(1)?;
    let skipped = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let (mut rows, mut columns) = (view.sizes[a], view.sizes[b]);
    let (cut, stride) = if offset < 0 {
        (&mut rows, view.strides[a])
    } else {
        (&mut columns, view.strides[b])
    };
    *cut = cut.saturating_sub(skipped);
    let len = rows.min(columns);
    if len > 0 {
        view.start += stride * skipped as isize;
    }
    let step = view.strides[a] + view.strides[b];
    view.remove(a.max(b));
    view.remove(a.min(b));
    view.insert(view.sizes.len(), len, step);
    plan.copy(context, out, input, &view)
}

/// `unfold_copy(self, dimension, size, step)`: windows, whose inside becomes the last dimension.
fn unfold(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 4)?);
    let mut view = View::of(context.meta(input));
    let dim = dim_index("dimension", context.int(1)?, rank_of_some(&view)?)?;
    let (size, step) = (
        dims::size("the size of a window", context.int(2)?)?,
        dims::size("the step", context.int(3)?)?,
    );
    if step == 0 || size > view.sizes[dim] {
        return Err(KernelError::invalid("windows that do not fit the input"));
    }
    let windows = (view.sizes[dim] - size) / step + 1;
    let stride = view.strides[dim];
    view.sizes[dim] = windows;
    view.strides[dim] = stride.saturating_mul(isize::try_from(step).unwrap_or(isize::MAX));
    if windows == 1 {
        view.strides[dim] = 0;
    }
    view.insert(view.sizes.len(), size, stride);
    plan.copy(context, out, input, &view)
}

fn flip(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, dims, out) = (
        context.tensor(0)?,
        context.int_list(1)?,
        output(context, 2)?,
    );
    let mut view = View::of(context.meta(input));
    let rank = view.sizes.len();
    if !dims.is_empty() {
        let flipped = dim_set("dimension", &dims, rank)?;
        for dim in (0..rank).filter(|&dim| flipped.contains(dim)) {
            let size = view.sizes[dim];
            view.slice(dim, size.saturating_sub(1), -1, size);
        }
    }
    plan.copy(context, out, input, &view)
}

/// The shape that a list asks for, in which one -1 stands for what is left of `numel` elements.
pub(crate) fn inferred_shape(wanted: &[i64], numel: usize) -> Result<Sizes, KernelError> {
    let refused = || KernelError::invalid(format!("{numel} elements cannot have shape {wanted:?}"));
    let mut open = None;
    let mut sizes = Sizes::new();
    for (i, &size) in wanted.iter().enumerate() {
        if size == -1 && open.is_none() {
            open = Some(i);
            sizes.push(1);
        } else {
            sizes.push(usize::try_from(size).map_err(|_| refused())?);
        }
    }
    let known = dims::numel(&sizes)?;
    match open {
        Some(open) if known > 0 && numel.is_multiple_of(known) => sizes[open] = numel / known,
        None if known == numel => {}
        _ => return Err(refused()),
    }
    Ok(sizes)
}

fn reshape(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, wanted, out) = (
        context.tensor(0)?,
        context.int_list(1)?,
        output(context, 2)?,
    );
    let sizes = inferred_shape(&wanted, context.meta(input).numel())?;
    if context.meta(input).is_contiguous() {
        return plan.copy(context, out, input, &View::dense(&sizes));
    }
    view::expect_same_dtype(context, out, input)?;
    context.resize(out, &sizes)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let dense = view::dense_copy(temp, input)?;
    view::copy_whole(out, dense, &View::dense(&sizes))
}

fn as_strided(context: &mut KernelContext<'_>, plan: NewPlan<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 4)?);
    let sizes = dims::sizes("size", &context.int_list(1)?)?;
    let strides: Strides = context
        .int_list(2)?
        .iter()
        .map(|&stride| stride as isize)
        .collect();
    let start = context.optional_int(3)?.unwrap_or(0);
    if sizes.len() != strides.len() || start < 0 || strides.iter().any(|&stride| stride < 0) {
        return Err(KernelError::invalid(
            "as_strided_copy with strides that do not fit the sizes, or negative ones",
        ));
    }
    dims::numel(&sizes)?;
    let view = View {
        sizes,
        strides,
        start: start as isize,
    };
    plan.copy(context, out, input, &view)
}

/// A stride over `factor` elements. Where that is no number the tensor has no elements, and nobody takes the step.
pub(crate) fn times(stride: isize, factor: usize) -> isize {
    stride.saturating_mul(isize::try_from(factor).unwrap_or(isize::MAX))
}
