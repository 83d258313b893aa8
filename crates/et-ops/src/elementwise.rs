//! Operators that compute each element of the output from the elements of the inputs at the same place.
//!
//! One loop serves all of them: it walks the output in memory order, broadcasts the inputs, converts element types block by
//! block, and hands slices to the operator. An input may be the output itself.

pub(crate) mod arithmetic;
pub(crate) mod compare;
pub(crate) mod unary;

use et_device::Alignment;
use et_kernel::{
    Arguments, Element, KernelContext, KernelError, LockstepIn, LockstepOut, TensorId, TensorMeta,
    from_bytes_mut,
};
use et_memory::Arena;

use crate::convert::{as_compute, cast, write_compute};
use crate::dims::{self, Walk, broadcast_stride};
use crate::dispatch::element;
use crate::number::{Compute, Number};
use crate::promote::Operand;
use crate::simd;

/// Elements that are converted at a time.
const BLOCK: usize = 512;

/// Gives `out` the shape that the inputs broadcast to.
pub(crate) fn resize_broadcast(
    context: &mut KernelContext<'_>,
    out: TensorId,
    inputs: &[TensorId],
) -> Result<(), KernelError> {
    let [first, rest @ ..] = inputs else {
        return Ok(());
    };
    let sizes = context.meta(*first).sizes();
    if rest.iter().all(|id| context.meta(*id).sizes() == sizes) {
        return context.resize_like(out, *first);
    }
    let shapes = || inputs.iter().map(|id| context.meta(*id).sizes());
    if dims::is_broadcast(context.meta(out).sizes(), shapes()) {
        return Ok(());
    }
    let sizes = dims::broadcast(shapes())?;
    context.resize(out, &sizes)
}

/// `out[i] = f(input[i])`, computed in `C`. The output is resized.
pub(crate) fn unary<C: Compute, O: Compute>(
    context: &mut KernelContext<'_>,
    out: TensorId,
    input: TensorId,
    f: impl Fn(C) -> O,
) -> Result<(), KernelError> {
    let apply = |[a]: [&[C]; 1], to: &mut [O]| simd::map(a, to, &f);
    if is_plain::<C, O, 1>(context, out, [input]) {
        return plain(context, out, [input], &apply);
    }
    context.resize_like(out, input)?;
    general(context, out, [input], &apply)
}

/// `out[i] = f(a[i], b[i])`, computed in `C`. The output is resized.
pub(crate) fn binary<C: Compute, O: Compute>(
    context: &mut KernelContext<'_>,
    out: TensorId,
    operands: [Operand; 2],
    f: impl Fn(C, C) -> O,
) -> Result<(), KernelError> {
    match operands {
        [Operand::Tensor(a), Operand::Tensor(b)] => {
            let apply = |[a, b]: [&[C]; 2], to: &mut [O]| simd::map2(a, b, to, &f);
            if is_plain::<C, O, 2>(context, out, [a, b]) {
                return plain(context, out, [a, b], &apply);
            }
            if is_single(context.meta(b), context.meta(a)) {
                let b = single(context, b)?;
                return with_right(context, out, a, b, f);
            }
            if is_single(context.meta(a), context.meta(b)) {
                let a = single(context, a)?;
                return with_left(context, out, a, b, f);
            }
            resize_broadcast(context, out, &[a, b])?;
            general(context, out, [a, b], &apply)
        }
        [Operand::Tensor(a), Operand::Number(b)] => {
            with_right(context, out, a, C::from_scalar(b), f)
        }
        [Operand::Number(a), Operand::Tensor(b)] => {
            with_left(context, out, C::from_scalar(a), b, f)
        }
        [Operand::Number(_), Operand::Number(_)] => {
            Err(KernelError::invalid("one of the operands must be a tensor"))
        }
    }
}

/// `out[i] = f(a[i], b)`.
fn with_right<C: Compute, O: Compute>(
    context: &mut KernelContext<'_>,
    out: TensorId,
    a: TensorId,
    b: C,
    f: impl Fn(C, C) -> O,
) -> Result<(), KernelError> {
    unary(context, out, a, |a| f(a, b))
}

/// `out[i] = f(a, b[i])`.
fn with_left<C: Compute, O: Compute>(
    context: &mut KernelContext<'_>,
    out: TensorId,
    a: C,
    b: TensorId,
    f: impl Fn(C, C) -> O,
) -> Result<(), KernelError> {
    unary(context, out, b, |b| f(a, b))
}

/// Whether a tensor is a single element that `other` does not have to be broadcast for.
fn is_single(meta: &TensorMeta, other: &TensorMeta) -> bool {
    meta.numel() == 1 && meta.rank() <= other.rank()
}

/// The element of a tensor that has one.
fn single<C: Compute>(context: &mut KernelContext<'_>, id: TensorId) -> Result<C, KernelError> {
    let ([], [input]) = context.disjoint([], [id])?;
    if input.meta.dtype() == C::DTYPE {
        return Ok(input.elements::<C>()?[0]);
    }
    element!("an operand", input.meta.dtype(), T => Ok(input.elements::<T>()?[0].cast()))
}

/// Computes a run of the output's elements from runs of the inputs'.
type Apply<'f, C, O, const N: usize> = dyn Fn([&[C]; N], &mut [O]) + 'f;

/// Calls `apply` with runs of the inputs' elements, as `C`, and the place of the output's, as `O`. The output has its shape,
/// which the inputs broadcast to.
pub(crate) fn walk<C: Compute, O: Compute, const N: usize>(
    context: &mut KernelContext<'_>,
    out: TensorId,
    inputs: [TensorId; N],
    apply: &Apply<'_, C, O, N>,
) -> Result<(), KernelError> {
    if is_plain::<C, O, N>(context, out, inputs) {
        return plain(context, out, inputs, apply);
    }
    general(context, out, inputs, apply)
}

/// [`walk`] wherever the inputs are.
fn general<C: Compute, O: Compute, const N: usize>(
    context: &mut KernelContext<'_>,
    out: TensorId,
    inputs: [TensorId; N],
    apply: &Apply<'_, C, O, N>,
) -> Result<(), KernelError> {
    if context.meta(out).numel() <= SMALL {
        return small(context, out, inputs, apply);
    }
    let walk = broadcast_walk(context, out, inputs)?;
    let temp = context.temp();
    let (mut out, inputs) = context.lockstep(out, inputs)?;
    let (len, strides) = walk.inner();
    // Short runs are put together in buffers, but for inputs that lie as the output does.
    let short = len < SHORT && len < out.meta().numel();
    let alike = inputs
        .each_ref()
        .map(|input| input.meta().is_laid_out_as(out.meta()));
    let mut sink = Sink::<O>::new(&mut out, temp)?;
    let mut feeds = [const { None }; N];
    for (i, input) in inputs.iter().enumerate() {
        let direct = alike[i] || !short && strides[i] == 1;
        feeds[i] = Some(Feed::new(input, direct, strides[i], temp)?);
    }
    let mut feeds: [Feed<'_, C>; N] = feeds.map(|feed| feed.expect("one per input"));
    let buffered = short || sink.is_buffered() || feeds.iter().any(Feed::is_buffered);
    let block = if buffered { BLOCK } else { len.max(1) };
    // The first element of the output that is still to be computed, and how many there are inputs for.
    let (mut position, mut ready) = (0, 0);
    let mut starts = [0; N];
    let compute = |position: usize,
                   starts: [usize; N],
                   n: usize,
                   feeds: &[Feed<'_, C>; N],
                   sink: &mut Sink<'_, '_, O>| {
        let runs = std::array::from_fn(|i| feeds[i].run(starts[i], n));
        sink.write(position, n, |to| apply(runs, to))
    };
    walk.runs(|at, len| {
        let mut done = 0;
        while done < len {
            let n = (block - ready).min(len - done);
            for (i, feed) in feeds.iter_mut().enumerate() {
                let at = (at[i] + strides[i] * done as isize) as usize;
                feed.fill(at, ready, n)?;
                if ready == 0 {
                    starts[i] = at;
                }
            }
            (ready, done) = (ready + n, done + n);
            if ready == block || !short {
                compute(position, starts, ready, &feeds, &mut sink)?;
                (position, ready) = (position + ready, 0);
            }
        }
        Ok::<_, KernelError>(())
    })?;
    if ready > 0 {
        compute(position, starts, ready, &feeds, &mut sink)?;
    }
    Ok(())
}

/// Outputs of no more elements than this are computed in one go.
const SMALL: usize = 64;

/// [`walk`] for few elements, which are brought together one by one.
fn small<C: Compute, O: Compute, const N: usize>(
    context: &mut KernelContext<'_>,
    out: TensorId,
    inputs: [TensorId; N],
    apply: &Apply<'_, C, O, N>,
) -> Result<(), KernelError> {
    let walk = broadcast_walk(context, out, inputs)?;
    let temp = context.temp();
    let ([out], inputs) = context.disjoint([out], inputs)?;
    let mut from: [&[C]; N] = [&[]; N];
    for (elements, input) in from.iter_mut().zip(inputs) {
        *elements = as_compute(temp, input)?;
    }
    write_compute::<O>(temp, out, |to| {
        let mut blocks = [[C::default(); SMALL]; N];
        let mut ready = 0;
        walk.each(|at| {
            for ((block, from), at) in blocks.iter_mut().zip(from).zip(at) {
                block[ready] = from[at as usize];
            }
            ready += 1;
            Ok::<_, KernelError>(())
        })?;
        apply(blocks.each_ref().map(|block| &block[..to.len()]), to);
        Ok(())
    })
}

/// Runs of fewer elements than this are put together.
const SHORT: usize = 64;

/// Writes `to`, whose elements the walk passes in order, from those of `from` that its first positions lead to. Its second ones
/// are given to `function`, which makes what is done with the elements there.
pub(crate) fn map_along<A: Element, B: Element, F: Fn(A) -> B>(
    walk: &Walk<2>,
    to: &mut [B],
    from: &[A],
    function: impl Fn(usize) -> F,
) -> Result<(), KernelError> {
    let (_, [step, next]) = walk.inner();
    let mut rest = to;
    walk.runs(|[at, parameter], len| {
        let (to, behind) = std::mem::take(&mut rest).split_at_mut(len);
        rest = behind;
        let (at, parameter) = (at as usize, parameter as usize);
        if [step, next] == [1, 0] {
            simd::map(&from[at..at + len], to, function(parameter));
            return Ok(());
        }
        for (i, to) in to.iter_mut().enumerate() {
            *to = function(parameter + i * next as usize)(from[at + i * step as usize]);
        }
        Ok(())
    })
}

/// Whether nothing has to be broadcast, rearranged or converted: the most frequent case, and worth a way of its own where tensors
/// are small.
fn is_plain<C: Compute, O: Compute, const N: usize>(
    context: &KernelContext<'_>,
    out: TensorId,
    inputs: [TensorId; N],
) -> bool {
    let out = context.meta(out);
    let alike = |id: TensorId| {
        let meta = context.meta(id);
        meta.dtype() == C::DTYPE && meta.is_laid_out_as(out)
    };
    out.dtype() == O::DTYPE && inputs.into_iter().all(alike)
}

/// Elements that go through the stack at a time where an input is the output itself.
const PLAIN_BLOCK: usize = 128;

/// [`walk`] where [`is_plain`] holds.
fn plain<C: Compute, O: Compute, const N: usize>(
    context: &mut KernelContext<'_>,
    out: TensorId,
    inputs: [TensorId; N],
    apply: &Apply<'_, C, O, N>,
) -> Result<(), KernelError> {
    let (mut out, inputs) = context.lockstep(out, inputs)?;
    let mut slices = [None; N];
    for (slice, input) in slices.iter_mut().zip(&inputs) {
        *slice = input.elements::<C>()?;
    }
    if let Some(to) = out.elements_mut::<O>()? {
        apply(slices.map(Option::unwrap_or_default), to);
        return Ok(());
    }
    let (mut from, mut to) = (
        [[C::default(); PLAIN_BLOCK]; N],
        [O::default(); PLAIN_BLOCK],
    );
    let numel = out.meta().numel();
    for start in (0..numel).step_by(PLAIN_BLOCK) {
        let n = PLAIN_BLOCK.min(numel - start);
        for ((block, slice), input) in from.iter_mut().zip(&slices).zip(&inputs) {
            if slice.is_none() {
                input.load(start, &mut block[..n])?;
            }
        }
        let runs =
            std::array::from_fn(|i| slices[i].map_or(&from[i][..n], |s| &s[start..start + n]));
        apply(runs, &mut to[..n]);
        out.store(start, &to[..n])?;
    }
    Ok(())
}

/// The walk along inputs while the output they broadcast to is passed in memory order.
fn broadcast_walk<const N: usize>(
    context: &KernelContext<'_>,
    out: TensorId,
    inputs: [TensorId; N],
) -> Result<Walk<N>, KernelError> {
    let out = context.meta(out);
    let metas = inputs.map(|id| context.meta(id));
    for meta in metas {
        dims::expect_broadcast(meta.sizes(), out.sizes())?;
    }
    Ok(Walk::new(out.dim_order().iter().map(|&dim| {
        let dim = usize::from(dim);
        let stride =
            |meta: &TensorMeta| broadcast_stride((meta.sizes(), meta.strides()), out.rank(), dim);
        (out.sizes()[dim], metas.map(stride))
    })))
}

/// Converts `block.len()` elements of an input from position `start`, `stride` apart.
type Load<C> = fn(&LockstepIn<'_>, usize, isize, &mut [C]) -> Result<(), KernelError>;

/// Converts elements and puts them into an output, one after the other from position `start`.
type Store<O> = fn(&mut LockstepOut<'_>, usize, &[O]) -> Result<(), KernelError>;

/// An input: its own elements, or a buffer that they are converted into.
enum Feed<'a, C> {
    Direct(&'a [C]),
    Buffered {
        input: &'a LockstepIn<'a>,
        load: Load<C>,
        stride: isize,
        buffer: &'a mut [C],
        /// For an input that stays the same along a run: which element the buffer is full of, and how full.
        held: Option<(usize, usize)>,
    },
}

impl<'a, C: Compute> Feed<'a, C> {
    /// With its own elements if they are as they should be, and `direct` allows it.
    fn new(
        input: &'a LockstepIn<'a>,
        direct: bool,
        stride: isize,
        temp: &'a Arena,
    ) -> Result<Self, KernelError> {
        let dtype = input.meta().dtype();
        if direct
            && dtype == C::DTYPE
            && let Some(elements) = input.elements::<C>()?
        {
            return Ok(Self::Direct(elements));
        }
        Ok(Self::Buffered {
            input,
            load: element!("an input", dtype, T => Ok(load::<T, C> as Load<C>))?,
            stride,
            buffer: scratch(temp, BLOCK)?,
            held: None,
        })
    }

    fn is_buffered(&self) -> bool {
        matches!(self, Self::Buffered { .. })
    }

    /// Makes `n` elements from `at` on ready, behind `ready` others.
    fn fill(&mut self, at: usize, ready: usize, n: usize) -> Result<(), KernelError> {
        let Self::Buffered {
            input,
            load,
            stride,
            buffer,
            held,
        } = self
        else {
            return Ok(());
        };
        if *stride == 0 && ready == 0 {
            if held.is_some_and(|(element, len)| element == at && len >= n) {
                return Ok(());
            }
            *held = Some((at, n));
        } else if let Some((_, len)) = held {
            // What is held is in front, and no more than what is left of it.
            *len = ready.min(*len);
        }
        load(input, at, *stride, &mut buffer[ready..ready + n])
    }

    fn run(&self, start: usize, n: usize) -> &[C] {
        match self {
            Self::Direct(elements) => &elements[start..start + n],
            Self::Buffered { buffer, .. } => &buffer[..n],
        }
    }
}

/// The output: its own elements, or a buffer that they are converted from.
enum Sink<'a, 'b, O> {
    Direct(&'a mut [O]),
    Buffered {
        out: &'a mut LockstepOut<'b>,
        store: Store<O>,
        buffer: &'a mut [O],
    },
}

impl<'a, 'b, O: Compute> Sink<'a, 'b, O> {
    fn new(out: &'a mut LockstepOut<'b>, temp: &'a Arena) -> Result<Self, KernelError> {
        let dtype = out.meta().dtype();
        if dtype == O::DTYPE && out.elements_mut::<O>()?.is_some() {
            let elements = out.elements_mut::<O>()?;
            return Ok(Self::Direct(elements.expect("given a line ago")));
        }
        Ok(Self::Buffered {
            out,
            store: element!("the output", dtype, T => Ok(store::<T, O> as Store<O>))?,
            buffer: scratch(temp, BLOCK)?,
        })
    }

    fn is_buffered(&self) -> bool {
        matches!(self, Self::Buffered { .. })
    }

    /// Lets `make` write `n` elements from position `start` on.
    fn write(
        &mut self,
        start: usize,
        n: usize,
        make: impl FnOnce(&mut [O]),
    ) -> Result<(), KernelError> {
        match self {
            Self::Direct(elements) => {
                make(&mut elements[start..start + n]);
                Ok(())
            }
            Self::Buffered { out, store, buffer } => {
                make(&mut buffer[..n]);
                store(out, start, &buffer[..n])
            }
        }
    }
}

/// `len` elements of scratch memory.
pub(crate) fn scratch<T: Element>(temp: &Arena, len: usize) -> Result<&mut [T], KernelError> {
    let nbytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
        KernelError::invalid("scratch memory of more bytes than can be addressed")
    })?;
    let bytes = temp.allocate(nbytes, Alignment::HOST)?;
    Ok(from_bytes_mut(bytes).expect("scratch memory is aligned for any element"))
}

fn load<T: Number, C: Compute>(
    input: &LockstepIn<'_>,
    start: usize,
    stride: isize,
    block: &mut [C],
) -> Result<(), KernelError> {
    let Some(elements) = input.elements::<T>()? else {
        return load_in_place::<T, C>(input, start, block);
    };
    match stride {
        0 => block.fill(elements[start].cast()),
        1 => cast(&elements[start..start + block.len()], block),
        _ => {
            for (i, to) in block.iter_mut().enumerate() {
                *to = elements[start.wrapping_add_signed(stride * i as isize)].cast();
            }
        }
    }
    Ok(())
}

/// The input is the output itself, so its elements are one after the other as the output's are.
fn load_in_place<T: Number, C: Compute>(
    input: &LockstepIn<'_>,
    start: usize,
    block: &mut [C],
) -> Result<(), KernelError> {
    if T::DTYPE == C::DTYPE {
        return input.load(start, block);
    }
    let mut chunk = [T::default(); 64];
    for (i, to) in block.chunks_mut(chunk.len()).enumerate() {
        let chunk = &mut chunk[..to.len()];
        input.load(start + i * 64, chunk)?;
        cast(chunk, to);
    }
    Ok(())
}

fn store<T: Number, O: Compute>(
    out: &mut LockstepOut<'_>,
    start: usize,
    block: &[O],
) -> Result<(), KernelError> {
    if T::DTYPE == O::DTYPE {
        return out.store(start, block);
    }
    if let Some(elements) = out.elements_mut::<T>()? {
        cast(block, &mut elements[start..start + block.len()]);
        return Ok(());
    }
    let mut chunk = [T::default(); 64];
    for (i, from) in block.chunks(chunk.len()).enumerate() {
        let chunk = &mut chunk[..from.len()];
        cast(from, chunk);
        out.store(start + i * 64, chunk)?;
    }
    Ok(())
}
