//! Moving elements about: every operator that only does so says where each output element comes from as strides over the
//! input, and one loop copies.

use et_kernel::{
    Arguments, Element, KernelContext, KernelError, TensorId, TensorIn, TensorMeta, TensorOut,
};
use et_memory::Arena;

use crate::dims::{self, Sizes, Strides, Walk};
use crate::dispatch::word;
use crate::elementwise::scratch;

/// Edge of the square blocks that transpositions are done in.
const TILE: usize = 8;

/// Rows of blocks that are done before the next columns: what a cache line has of the usual elements.
const LINE: usize = 2 * TILE;

/// Elements of lines that are handed out together.
const LINES_BLOCK: usize = 1024;

/// A tensor's elements seen in another shape.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The shape.
    pub(crate) sizes: Sizes,
    /// Elements from one index to the next in the tensor's memory, for each dimension of the shape.
    pub(crate) strides: Strides,
    /// Where index 0 is in the tensor's memory.
    pub(crate) start: isize,
}

impl View {
    /// A tensor as it is.
    pub(crate) fn of(meta: &TensorMeta) -> Self {
        let mut view = Self {
            sizes: Sizes::new(),
            strides: Strides::new(),
            start: 0,
        };
        view.sizes.extend_from_slice(meta.sizes());
        let strides = meta.strides().iter();
        view.strides.extend(strides.map(|&stride| stride as isize));
        view
    }

    /// A shape whose elements are in index order.
    pub(crate) fn dense(sizes: &[usize]) -> Self {
        Self {
            sizes: sizes.into(),
            strides: dims::dense_strides(sizes),
            start: 0,
        }
    }

    /// Keeps the part `start`, `start + step`, … of `len` indices along `dim`.
    pub(crate) fn slice(&mut self, dim: usize, start: usize, step: isize, len: usize) {
        self.advance(dim, start);
        self.strides[dim] = self.strides[dim].saturating_mul(step);
        self.sizes[dim] = len;
    }

    /// Takes `dim` away, at `index` of it.
    pub(crate) fn select(&mut self, dim: usize, index: usize) {
        self.advance(dim, index);
        self.remove(dim);
    }

    /// Moves index 0 of `dim`. The sum may only be no number in a tensor of no elements, whose places nobody looks at.
    fn advance(&mut self, dim: usize, by: usize) {
        let by = self.strides[dim].saturating_mul(by as isize);
        self.start = self.start.saturating_add(by);
    }

    /// Takes a dimension away, at its index 0.
    pub(crate) fn remove(&mut self, dim: usize) {
        self.sizes.remove(dim);
        self.strides.remove(dim);
    }

    /// Adds a dimension before `dim`.
    pub(crate) fn insert(&mut self, dim: usize, size: usize, stride: isize) {
        self.sizes.insert(dim, size);
        self.strides.insert(dim, stride);
    }
}

/// The lines of tensors along one dimension, apart from which they are of the same shape.
pub(crate) struct Lines<const N: usize> {
    walk: Walk<N>,
    steps: [isize; N],
    /// Elements of a line of the last tensor.
    len: usize,
}

impl<const N: usize> Lines<N> {
    /// Along dimension `dim`, which a tensor without dimensions has for this purpose.
    pub(crate) fn new(views: [&View; N], dim: usize) -> Self {
        Self::with(
            &views[N - 1].sizes,
            |d| views.map(|view| view.strides[d]),
            dim,
        )
    }

    /// Of tensors of one shape, but for the dimension: lines are as long as the last tensor's.
    pub(crate) fn of(metas: [&TensorMeta; N], dim: usize) -> Self {
        let strides = |d: usize| metas.map(|meta| meta.strides()[d] as isize);
        Self::with(metas[N - 1].sizes(), strides, dim)
    }

    fn with(sizes: &[usize], strides: impl Fn(usize) -> [isize; N], dim: usize) -> Self {
        let others = (0..sizes.len()).filter(|&d| d != dim);
        Self {
            walk: Walk::new(others.map(|d| (sizes[d], strides(d)))),
            steps: if sizes.is_empty() {
                [0; N]
            } else {
                strides(dim)
            },
            len: sizes.get(dim).copied().unwrap_or(1),
        }
    }

    /// Calls `visit` with where each line starts in the tensors, its steps there, and its length.
    pub(crate) fn each(
        &self,
        mut visit: impl FnMut([isize; N], [isize; N], usize) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        if self.len == 0 {
            return Ok(());
        }
        self.walk.each(|at| visit(at, self.steps, self.len))
    }
}

impl Lines<2> {
    /// How many elements a line has.
    pub(crate) const fn line_len(&self) -> usize {
        self.len
    }

    /// Whether lines are beside each other: the elements at one place of all lines of a row are neighbours.
    pub(crate) fn is_across(&self) -> bool {
        matches!(self.walk.inner(), (2.., [1, 1])) && self.steps.iter().all(|&step| step > 1)
    }

    /// Calls `visit` with where rows of lines beside each other start in both, and how many lines they have; and with the steps
    /// along the lines.
    pub(crate) fn rows(
        &self,
        mut visit: impl FnMut([usize; 2], usize, [usize; 2]),
    ) -> Result<(), KernelError> {
        if self.len == 0 {
            return Ok(());
        }
        let steps = self.steps.map(|step| step as usize);
        self.walk.runs(|at, count| {
            visit(at.map(|at| at as usize), count, steps);
            Ok(())
        })
    }

    /// Lets `make` write lines of `to` from those of `from`, one or several at a time, one behind the other: in place where the
    /// elements of both are neighbours, else by way of buffers.
    pub(crate) fn make<C: Element>(
        &self,
        temp: &Arena,
        to: &mut [C],
        from: &[C],
        mut make: impl FnMut(&[C], &mut [C]),
    ) -> Result<(), KernelError> {
        let direct = self.len == 1 || self.steps == [1, 1];
        if direct && let Some(([0, 0], count)) = self.walk.only_run(self.len) {
            // Several short lines at a time, but no more than the nearest cache has.
            let elements = (LINES_BLOCK / self.len.max(1)).max(1) * self.len;
            let (to, from) = (&mut to[..count * self.len], &from[..count * self.len]);
            let both = to
                .chunks_mut(elements.max(1))
                .zip(from.chunks(elements.max(1)));
            both.for_each(|(to, from)| make(from, to));
            return Ok(());
        }
        if direct {
            return self.each(|[at, source], _, len| {
                let (at, source) = (at as usize, source as usize);
                make(&from[source..source + len], &mut to[at..at + len]);
                Ok(())
            });
        }
        let buffers = scratch::<C>(temp, 2 * self.len)?;
        let (line, result) = buffers.split_at_mut(self.len);
        self.each(|[at, source], [to_step, from_step], _| {
            for (i, x) in line.iter_mut().enumerate() {
                *x = from[(source + from_step * i as isize) as usize];
            }
            make(line, result);
            for (i, x) in result.iter().enumerate() {
                to[(at + to_step * i as isize) as usize] = *x;
            }
            Ok(())
        })
    }
}

/// Fails unless the two tensors have elements of one type.
pub(crate) fn expect_same_dtype(
    context: &KernelContext<'_>,
    a: TensorId,
    b: TensorId,
) -> Result<(), KernelError> {
    let (a, b) = (context.meta(a).dtype(), context.meta(b).dtype());
    if a == b {
        return Ok(());
    }
    Err(KernelError::invalid(format!(
        "the input has elements {a} and the output {b}"
    )))
}

/// Whether two tensors share bytes.
pub(crate) fn overlap(
    context: &KernelContext<'_>,
    a: TensorId,
    b: TensorId,
) -> Result<bool, KernelError> {
    let places = context.place(a)?.zip(context.place(b)?);
    Ok(places.is_some_and(|(a, b)| a.overlaps(&b)))
}

/// The bytes of a tensor in index order: its own, or a copy.
pub(crate) fn dense_copy<'a>(
    temp: &'a Arena,
    input: TensorIn<'a>,
) -> Result<&'a [u8], KernelError> {
    if input.meta.is_contiguous() {
        return Ok(input.bytes);
    }
    let dtype = input.meta.dtype();
    let view = View::of(input.meta);
    let dense = dims::dense_strides(&view.sizes);
    let walk =
        Walk::new((0..view.sizes.len()).map(|d| (view.sizes[d], [dense[d], view.strides[d]])));
    word!(dtype, T => {
        let to = scratch::<T>(temp, input.meta.numel())?;
        copy_walk(&walk, to, words::<T>(input.bytes)?)?;
        Ok(et_kernel::as_bytes(to))
    })
}

/// Copies a view of elements that lie in `from` to an output of the view's shape.
pub(crate) fn copy_whole(out: TensorOut<'_>, from: &[u8], view: &View) -> Result<(), KernelError> {
    copy_words(&walk_whole(out.meta, view), out, from)
}

/// Copies a view of elements that lie in `from` to a region of an output, of the same shape.
pub(crate) fn copy_region(
    out: TensorOut<'_>,
    region: &View,
    from: &[u8],
    view: &View,
) -> Result<(), KernelError> {
    copy_words(&walk_region(out.meta, region, view), out, from)
}

/// The walk over a region of an output, along with a view of the same shape.
pub(crate) fn walk_region(out: &TensorMeta, region: &View, view: &View) -> Walk<2> {
    debug_assert_eq!(region.sizes, view.sizes);
    let dim = |dim: usize| (region.sizes[dim], [region.strides[dim], view.strides[dim]]);
    let mut walk = if out.rank() == region.sizes.len() {
        Walk::new(out.dim_order().iter().map(|&d| dim(usize::from(d))))
    } else {
        Walk::new((0..region.sizes.len()).map(dim))
    };
    walk.start_at([region.start, view.start]);
    walk
}

/// The walk over an output in the order of its memory, along with a view of the same shape.
pub(crate) fn walk_whole(out: &TensorMeta, view: &View) -> Walk<2> {
    debug_assert_eq!(out.sizes(), &view.sizes[..]);
    let mut walk = Walk::new(out.dim_order().iter().map(|&dim| {
        let dim = usize::from(dim);
        (
            view.sizes[dim],
            [out.strides()[dim] as isize, view.strides[dim]],
        )
    }));
    walk.start_at([0, view.start]);
    walk
}

/// Copies along a walk whose positions are those in `out` and in `from`.
pub(crate) fn copy_words(
    walk: &Walk<2>,
    mut out: TensorOut<'_>,
    from: &[u8],
) -> Result<(), KernelError> {
    word!(out.meta.dtype(), T => copy_walk(walk, words_mut::<T>(&mut out)?, words::<T>(from)?))
}

/// Bytes as elements of a type of the same size.
pub(crate) fn words<T: Element>(bytes: &[u8]) -> Result<&[T], KernelError> {
    et_kernel::from_bytes(bytes).ok_or_else(|| et_kernel::TensorError::Misaligned.into())
}

/// An output's bytes as elements of a type of the same size.
pub(crate) fn words_mut<'a, T: Element>(
    out: &'a mut TensorOut<'_>,
) -> Result<&'a mut [T], KernelError> {
    et_kernel::from_bytes_mut(out.bytes).ok_or_else(|| et_kernel::TensorError::Misaligned.into())
}

/// Copies along a walk whose positions are those in `to` and in `from`.
pub(crate) fn copy_walk<T: Copy>(
    walk: &Walk<2>,
    to: &mut [T],
    from: &[T],
) -> Result<(), KernelError> {
    if let Some(([at, source], len)) = walk.only_run(1) {
        if len == 0 {
            return Ok(());
        }
        let part = |start: isize| {
            let start = usize::try_from(start).ok()?;
            Some(start..start.checked_add(len)?)
        };
        let to = part(at).and_then(|part| to.get_mut(part));
        let from = part(source).and_then(|part| from.get(part));
        let (to, from) = to.zip(from).ok_or_else(dims::outside)?;
        to.copy_from_slice(from);
        return Ok(());
    }
    walk.check([to.len(), from.len()])?;
    let (columns, [to_step, from_step]) = walk.inner();
    // Walks backward are rare, and done plainly; short ones are done before blocks are laid out.
    if to_step == 1
        && from_step > 1
        && columns >= TILE
        && let Some(dim) = walk.find([None, Some(1)])
        && walk.is_forward()
    {
        return copy_transposed(walk.clone().with_second_innermost(dim), to, from);
    }
    walk.runs(|[at, source], len| {
        let (at, source) = (at as usize, source as usize);
        match (to_step, from_step) {
            (1, 1) => to[at..at + len].copy_from_slice(&from[source..source + len]),
            (1, 0) => to[at..at + len].fill(from[source]),
            (1, 2..) => {
                let from = from[source..].iter().step_by(from_step as usize);
                to[at..at + len]
                    .iter_mut()
                    .zip(from)
                    .for_each(|(to, x)| *to = *x);
            }
            (1, _) => {
                for (i, to) in to[at..at + len].iter_mut().enumerate() {
                    *to = from[source.wrapping_add_signed(from_step * i as isize)];
                }
            }
            _ => {
                for i in 0..len as isize {
                    to[at.wrapping_add_signed(to_step * i)] =
                        from[source.wrapping_add_signed(from_step * i)];
                }
            }
        }
        Ok(())
    })
}

/// The innermost dimension is dense in `to`, the one around it in `from`: square blocks, so that both sides use whole cache
/// lines.
fn copy_transposed<T: Copy>(walk: Walk<2>, to: &mut [T], from: &[T]) -> Result<(), KernelError> {
    let (columns, [_, from_pitch]) = walk.inner();
    if columns == 0 {
        // The other dimensions may be of any size then.
        return Ok(());
    }
    let walk = walk.outer();
    let (_, [to_pitch, _]) = walk.inner();
    let [to_pitch, from_pitch] = [to_pitch as usize, from_pitch as usize];
    walk.runs(|[at, source], rows| {
        let [at, source] = [at as usize, source as usize];
        for row in (0..rows).step_by(LINE) {
            for column in (0..columns).step_by(TILE) {
                for row in (row..rows.min(row + LINE)).step_by(TILE) {
                    let at = at + to_pitch * row + column;
                    let source = source + from_pitch * column + row;
                    let size = [TILE.min(rows - row), TILE.min(columns - column)];
                    let (to, from) = (&mut to[at..], &from[source..]);
                    if size == [TILE; 2] {
                        transpose_tile((to, to_pitch), (from, from_pitch));
                    } else {
                        transpose_part((to, to_pitch), (from, from_pitch), size);
                    }
                }
            }
        }
        Ok(())
    })
}

/// A whole tile: its lines are read at once, and written at once.
fn transpose_tile<T: Copy>((to, to_pitch): (&mut [T], usize), (from, from_pitch): (&[T], usize)) {
    let line = |i: usize| -> &[T; TILE] {
        from[i * from_pitch..]
            .first_chunk()
            .expect("the walk was checked")
    };
    let lines: [&[T; TILE]; TILE] = std::array::from_fn(line);
    for row in 0..TILE {
        let to = &mut to[row * to_pitch..][..TILE];
        for (to, line) in to.iter_mut().zip(lines) {
            *to = line[row];
        }
    }
}

/// A tile at the edge.
fn transpose_part<T: Copy>(
    (to, to_pitch): (&mut [T], usize),
    (from, from_pitch): (&[T], usize),
    [rows, columns]: [usize; 2],
) {
    for row in 0..rows {
        for column in 0..columns {
            to[row * to_pitch + column] = from[column * from_pitch + row];
        }
    }
}
