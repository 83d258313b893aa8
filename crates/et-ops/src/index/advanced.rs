//! Several index tensors at once: `x[:, i, j]`.

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet, TensorId,
};
use et_memory::Arena;
use smallvec::SmallVec;

use super::along::{Put, added, put_blocks, ready_blocks, take};
use super::{read_indices, wrap};
use crate::arguments::output;
use crate::convert::as_dense;
use crate::copies::copy_beside;
use crate::dims::{self, Dims, Sizes, Strides, Walk};
use crate::dispatch::{INDEX, MOVABLE, NUMBERS, element, word};
use crate::elementwise::scratch;
use crate::number::Number;
use crate::view::{View, copy_walk, dense_copy, expect_same_dtype, words, words_mut};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::index.Tensor_out", MOVABLE, index),
    Kernel::new("aten::index_put.out", NUMBERS, |c| {
        let (input, out) = (c.tensor(0)?, output(c, 4)?);
        expect_same_dtype(c, out, input)?;
        index_put(c, out, input)
    }),
    Kernel::new("aten::index_put_", NUMBERS, |c| {
        c.expect_arguments(4..=5)?;
        let out = c.tensor(0)?;
        index_put(c, out, out)
    }),
    Kernel::new("aten::nonzero.out", NUMBERS, nonzero),
];

/// The elements that index tensors select: which dimensions they replace by which shape, and where each leads to.
struct Selection<'a> {
    columns: Columns<'a>,
    /// The dimensions that are not indexed, in order.
    rest: Sizes,
    /// The shape that the index tensors are broadcast to.
    shape: Sizes,
    /// Where the dimensions of `shape` stand among the result's.
    at: usize,
}

/// Index tensors, of which more than 8 take a heap block.
type Columns<'a> = SmallVec<[Column<'a>; 8]>;

/// An index tensor for one dimension.
struct Column<'a> {
    dim: usize,
    indices: &'a [i64],
    shape: Sizes,
    /// Of the indices in the shape that all index tensors are broadcast to.
    strides: Strides,
}

impl<'a> Selection<'a> {
    /// Nothing yet: selections are large, so they are filled where they stay.
    fn new() -> Self {
        Self {
            columns: SmallVec::new(),
            rest: Sizes::new(),
            shape: Sizes::new(),
            at: 0,
        }
    }

    /// Becomes that of argument 1's index tensors into a tensor seen as `of`.
    fn read(
        &mut self,
        context: &mut KernelContext<'a>,
        temp: &'a Arena,
        of: &View,
    ) -> Result<(), KernelError> {
        let columns = &mut self.columns;
        self.at = read_columns(context, temp, of, columns)?;
        self.shape = dims::broadcast(columns.iter().map(|column| &column.shape[..]))?;
        dims::numel(&self.shape)?;
        for column in columns.iter_mut() {
            column.broadcast(&self.shape)?;
        }
        let free = |dim: &usize| columns.iter().all(|column| column.dim != *dim);
        self.rest.extend((0..of.sizes.len()).filter(free));
        Ok(())
    }

    /// The result's shape.
    fn sizes(&self, of: &View) -> Sizes {
        let mut sizes: Sizes = self.rest.iter().map(|&dim| of.sizes[dim]).collect();
        sizes.insert_many(self.at, self.shape.iter().copied());
        sizes
    }

    /// The walk over the dimensions that are not indexed, along the result and the tensor, given the result's strides.
    fn walk(&self, of: &View, result: &[isize]) -> Walk<2> {
        let width = self.shape.len();
        let mut dims: Dims<(usize, [isize; 2])> = Dims::new();
        for (i, &dim) in self.rest.iter().enumerate() {
            let place = if i < self.at { i } else { i + width };
            dims.push((of.sizes[dim], [result[place], of.strides[dim]]));
        }
        dims.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[1]));
        Walk::new(dims)
    }

    /// Calls `visit` for each element of the index shape, in order: its positions in the result and in the tensor, with 0 for
    /// the dimensions that are not indexed.
    fn each(
        &self,
        of: &View,
        result: &[isize],
        mut visit: impl FnMut([isize; 2]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let result = &result[self.at..self.at + self.shape.len()];
        let count: usize = self.shape.iter().product();
        let mut index: Strides = SmallVec::from_elem(0, self.shape.len());
        for _ in 0..count {
            let place = |strides: &[isize]| -> isize {
                index
                    .iter()
                    .zip(strides)
                    .map(|(i, stride)| i * stride)
                    .sum()
            };
            let mut position = 0;
            for column in &self.columns {
                let chosen = wrap(
                    column.indices[place(&column.strides) as usize],
                    of.sizes[column.dim],
                )?;
                position += of.strides[column.dim] * chosen as isize;
            }
            visit([place(result), position])?;
            for (i, &size) in index.iter_mut().zip(&self.shape).rev() {
                *i += 1;
                if (*i as usize) < size {
                    break;
                }
                *i = 0;
            }
        }
        Ok(())
    }
}

impl<'a> Column<'a> {
    fn new(dim: usize, indices: &'a [i64], shape: Sizes) -> Self {
        Self {
            dim,
            indices,
            shape,
            strides: SmallVec::new(),
        }
    }

    /// Fills in the strides of the indices seen in the shape that they are broadcast to.
    fn broadcast(&mut self, shape: &[usize]) -> Result<(), KernelError> {
        dims::expect_broadcast(&self.shape, shape)?;
        self.strides.resize(shape.len(), 0);
        let mut stride = 1;
        for (own, &size) in self.strides.iter_mut().rev().zip(self.shape.iter().rev()) {
            *own = if size == 1 { 0 } else { stride };
            stride *= size as isize;
        }
        Ok(())
    }
}

/// Makes argument 1's index tensors columns, and says where their dimensions go in the result: where the first stands if they are
/// neighbours, else in front.
fn read_columns<'a>(
    context: &mut KernelContext<'a>,
    temp: &'a Arena,
    of: &View,
    columns: &mut Columns<'a>,
) -> Result<usize, KernelError> {
    let rank = of.sizes.len();
    let mut dim = 0;
    // An empty list of something else is no list of tensors.
    context.optional_tensor_in_list(1, 0)?;
    for item in 0..context.list_len(1)? {
        let Some(Some(id)) = context.optional_tensor_in_list(1, item)? else {
            dim += 1;
            continue;
        };
        let meta = context.meta(id);
        if matches!(meta.dtype(), ScalarType::Bool | ScalarType::Byte) {
            let width = meta.rank();
            if meta.sizes() != of.sizes.get(dim..dim + width).unwrap_or(&[]) || width == 0 {
                return Err(KernelError::invalid(format!(
                    "a mask of shape {:?} for a tensor of shape {:?}",
                    meta.sizes(),
                    of.sizes
                )));
            }
            mask_columns(context, temp, id, dim, columns)?;
            dim += width;
        } else {
            let shape = meta.sizes().into();
            let indices = read_indices(context, temp, id)?;
            columns.push(Column::new(dim, indices, shape));
            dim += 1;
        }
    }
    if dim > rank {
        return Err(KernelError::invalid(format!(
            "indices for {dim} dimensions of a tensor that has {rank}"
        )));
    }
    let neighbours = columns
        .windows(2)
        .all(|pair| pair[1].dim == pair[0].dim + 1);
    Ok(match columns.first() {
        Some(first) if neighbours => first.dim,
        _ => 0,
    })
}

/// The places where a mask is true, as one column for each of its dimensions.
fn mask_columns<'a>(
    context: &mut KernelContext<'a>,
    temp: &'a Arena,
    id: TensorId,
    dim: usize,
    columns: &mut Columns<'a>,
) -> Result<(), KernelError> {
    let sizes: Sizes = context.meta(id).sizes().into();
    let ([], [mask]) = context.disjoint([], [id])?;
    let dense = dense_copy(temp, mask)?;
    let count = dense.iter().filter(|&&byte| byte != 0).count();
    let mut inner = 1;
    for d in (0..sizes.len()).rev() {
        let indices = scratch::<i64>(temp, count)?;
        let places = dense.iter().enumerate().filter(|(_, byte)| **byte != 0);
        for (index, (place, _)) in indices.iter_mut().zip(places) {
            *index = (place / inner % sizes[d]) as i64;
        }
        inner *= sizes[d];
        let shape = Sizes::from_slice(&[count]);
        columns.push(Column::new(dim + d, indices, shape));
    }
    let added = columns.len() - sizes.len();
    columns[added..].reverse();
    Ok(())
}

fn index(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 2)?);
    expect_same_dtype(context, out, input)?;
    if let Some((dim, index)) = only_index(context, input)? {
        let mut shape = Sizes::new();
        shape.extend_from_slice(context.meta(index).sizes());
        return take(context, out, input, dim, (index, &shape), wrap);
    }
    let temp = context.temp();
    if let Some(points) = points(context, out, input)? {
        return take_points(context, out, input, points);
    }
    let of = View::of(context.meta(input));
    let mut selection = Selection::new();
    selection.read(context, temp, &of)?;
    let sizes = selection.sizes(&of);
    dims::numel(&sizes)?;
    context.resize(out, &sizes)?;
    let ([mut out], [input]) = context.disjoint([out], [input])?;
    let own = dims::strides(out.meta);
    let mut walk = selection.walk(&of, &own);
    word!(out.meta.dtype(), T => {
        let (to, from) = (words_mut::<T>(&mut out)?, words::<T>(input.bytes)?);
        selection.each(&of, &own, |start| {
            walk.start_at(start);
            copy_walk(&walk, to, from)
        })
    })
}

/// Index tensors that name points: as many as dimensions in front.
#[derive(Clone, Copy)]
struct Points {
    indices: [TensorId; MOST_POINTS],
    count: usize,
}

/// Dimensions that points may have to be looked up at once.
const MOST_POINTS: usize = 3;

/// Argument 1's index tensors, if they are of one shape, one for each dimension in front, and all tensors are in index order; and
/// if the output has its shape already.
fn points(
    context: &KernelContext<'_>,
    out: TensorId,
    input: TensorId,
) -> Result<Option<Points>, KernelError> {
    let (of, own) = (context.meta(input), context.meta(out));
    let count = context.list_len(1)?;
    if count == 0 || count > MOST_POINTS.min(of.rank()) {
        return Ok(None);
    }
    let mut indices = [input; MOST_POINTS];
    for (item, slot) in indices[..count].iter_mut().enumerate() {
        let Some(Some(id)) = context.optional_tensor_in_list(1, item)? else {
            return Ok(None);
        };
        *slot = id;
    }
    let shape = context.meta(indices[0]).sizes();
    let fits = |&id: &TensorId| {
        let meta = context.meta(id);
        id != out && INDEX.contains(meta.dtype()) && meta.is_contiguous() && meta.sizes() == shape
    };
    let (front, behind) = own.sizes().split_at(shape.len().min(own.rank()));
    let ready = front == shape
        && *behind == of.sizes()[count..]
        && out != input
        && of.is_contiguous()
        && own.is_contiguous();
    Ok((ready && indices[..count].iter().all(fits)).then_some(Points { indices, count }))
}

fn take_points(
    context: &mut KernelContext<'_>,
    out: TensorId,
    input: TensorId,
    Points { indices, count }: Points,
) -> Result<(), KernelError> {
    let temp = context.temp();
    let [a, b, c] = indices;
    let ([mut out], [input, columns @ ..]) = context.disjoint([out], [input, a, b, c])?;
    let of = input.meta;
    let mut lists: [&[i64]; MOST_POINTS] = [&[]; MOST_POINTS];
    for (list, column) in lists[..count].iter_mut().zip(columns) {
        *list = as_dense(temp, column)?;
    }
    let lists = &lists[..count];
    let inner: usize = of.sizes()[count..].iter().product();
    word!(of.dtype(), T => {
        let (to, from) = (words_mut::<T>(&mut out)?, words::<T>(input.bytes)?);
        for i in 0..lists[0].len() {
            let mut at = 0;
            for ((list, &size), stride) in lists.iter().zip(of.sizes()).zip(of.strides()) {
                at += wrap(list[i], size)? * stride;
            }
            match inner {
                0 => {}
                1 => to[i] = from[at],
                _ => to[i * inner..][..inner].copy_from_slice(&from[at..at + inner]),
            }
        }
        Ok(())
    })
}

/// The one index tensor of argument 1 and its dimension, if there is no other and it is no mask.
fn only_index(
    context: &KernelContext<'_>,
    input: TensorId,
) -> Result<Option<(usize, TensorId)>, KernelError> {
    context.optional_tensor_in_list(1, 0)?;
    let mut only = None;
    for dim in 0..context.list_len(1)? {
        let Some(Some(id)) = context.optional_tensor_in_list(1, dim)? else {
            continue;
        };
        let is_index = INDEX.contains(context.meta(id).dtype());
        if only.is_some() || !is_index || dim >= context.meta(input).rank() {
            return Ok(None);
        }
        only = Some((dim, id));
    }
    Ok(only.filter(|_| {
        context
            .list_len(1)
            .is_ok_and(|len| len <= context.meta(input).rank())
    }))
}

/// `out = input; out[indices] = values`, or `+=`.
fn index_put(
    context: &mut KernelContext<'_>,
    out: TensorId,
    input: TensorId,
) -> Result<(), KernelError> {
    let (values, accumulate) = (context.tensor(2)?, context.boolean(3)?);
    expect_same_dtype(context, out, values)?;
    let put = if accumulate { Put::Add } else { Put::Set };
    let temp = context.temp();
    // Indices are read before anything is written: they may lie over the output.
    context.resize_like(out, input)?;
    if let Some((dim, index)) = only_index(context, out)?.filter(|_| !accumulate)
        && let Some(blocks) = ready_blocks(context, values, out, dim, context.meta(index).sizes())
    {
        let indices = read_indices(context, temp, index)?;
        let (mut out, values) = copy_beside(context, out, input, values)?;
        return word!(out.meta.dtype(), T => {
            put_blocks(words_mut::<T>(&mut out)?, words::<T>(values.bytes)?, blocks, indices, wrap)
        });
    }
    let of = View::of(context.meta(out));
    let mut selection = Selection::new();
    selection.read(context, temp, &of)?;
    let sizes = selection.sizes(&of);
    let strides = dims::broadcast_strides(context.meta(values), &sizes)?;
    let (out, values) = copy_beside(context, out, input, values)?;
    let mut walk = selection.walk(&of, &strides);
    match put {
        Put::Set => word!(out.meta.dtype(), T => {
            let mut out = out;
            let (to, from) = (words_mut::<T>(&mut out)?, words::<T>(values.bytes)?);
            let mut walk = walk.swapped();
            selection.each(&of, &strides, |[value, at]| {
                walk.start_at([at, value]);
                copy_walk(&walk, to, from)
            })
        }),
        Put::Add => element!("the output", out.meta.dtype(), T => {
            let mut out = out;
            let (to, from) = (out.elements_mut::<T>()?, values.elements::<T>()?);
            selection.each(&of, &strides, |start| {
                walk.start_at(start);
                add_walk(&walk, to, from)
            })
        }),
    }
}

/// Adds along a walk whose positions are those in `from` and in `to`.
fn add_walk<T: Number>(walk: &Walk<2>, to: &mut [T], from: &[T]) -> Result<(), KernelError> {
    walk.check([from.len(), to.len()])?;
    walk.each(|[source, at]| {
        let (to, from) = (&mut to[at as usize], from[source as usize]);
        *to = added(*to, from);
        Ok(())
    })
}

/// `nonzero(self)`: a row of indices for each element that is not 0.
fn nonzero(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 1)?);
    crate::dispatch::expect_dtype(
        "the output",
        context.meta(out).dtype(),
        ScalarTypeSet::of(&[ScalarType::Long]),
    )?;
    let temp = context.temp();
    let sizes: Sizes = context.meta(input).sizes().into();
    let ([], [elements]) = context.disjoint([], [input])?;
    let dense = dense_copy(temp, elements)?;
    let dtype = elements.meta.dtype();
    let truths = scratch::<et_kernel::Bool8>(temp, elements.meta.numel())?;
    crate::convert::convert(
        (dtype, dense),
        (ScalarType::Bool, et_kernel::as_bytes_mut(truths)),
    )?;
    let count = truths.iter().filter(|truth| truth.get()).count();
    context.resize(out, &[count, sizes.len()])?;
    let ([mut out], []) = context.disjoint([out], [])?;
    let [row, column] = [out.meta.strides()[0], out.meta.strides()[1]];
    let to = out.elements_mut::<i64>()?;
    let places = truths.iter().enumerate().filter(|(_, truth)| truth.get());
    for (i, (mut place, _)) in places.enumerate() {
        for dim in (0..sizes.len()).rev() {
            to[i * row + dim * column] = (place % sizes[dim]) as i64;
            place /= sizes[dim];
        }
    }
    Ok(())
}
