//! Access to the bytes of several tensors of one value table at a time.
//!
//! Tensors of a method point into planned memory, where one value may lie over another. References are therefore made
//! only here, after their ranges were compared.
#![expect(
    unsafe_code,
    reason = "references to parts of one table are made here, after their ranges were compared"
)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::slice;

use et_memory::{Arena, HostSpan, Place};

use crate::dtype::{from_bytes, from_bytes_mut};
use crate::{EValue, Element, KernelError, Tensor, TensorError, TensorId, TensorMeta};

/// An input's description and bytes.
#[derive(Clone, Copy, Debug)]
pub struct TensorIn<'a> {
    /// The description.
    pub meta: &'a TensorMeta,
    /// The bytes of the present shape, in memory order.
    pub bytes: &'a [u8],
}

impl<'a> TensorIn<'a> {
    /// The elements, in memory order.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] if they are not `T`.
    #[inline]
    pub fn elements<T: Element>(&self) -> Result<&'a [T], KernelError> {
        expect_dtype::<T>(self.meta)?;
        from_bytes(self.bytes).ok_or_else(misaligned)
    }
}

/// An output's description and bytes.
#[derive(Debug)]
pub struct TensorOut<'a> {
    /// The description.
    pub meta: &'a TensorMeta,
    /// The bytes of the present shape, in memory order.
    pub bytes: &'a mut [u8],
}

impl TensorOut<'_> {
    /// The elements, in memory order, to write.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] if they are not `T`.
    #[inline]
    pub fn elements_mut<T: Element>(&mut self) -> Result<&mut [T], KernelError> {
        expect_dtype::<T>(self.meta)?;
        from_bytes_mut(self.bytes).ok_or_else(misaligned)
    }
}

/// An input that is read in step with an output, which may be the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct LockstepIn<'a> {
    meta: &'a TensorMeta,
    span: HostSpan,
    in_place: bool,
    /// Bytes that a [`LockstepOut`] writes: both stay on one thread, which cannot read and write at once.
    borrow: PhantomData<&'a Cell<u8>>,
}

impl<'a> LockstepIn<'a> {
    /// The description.
    #[inline]
    pub fn meta(&self) -> &'a TensorMeta {
        self.meta
    }

    /// The elements, in memory order; `None` if they are the output's own bytes.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] if they are not `T`.
    #[inline]
    pub fn elements<T: Element>(&self) -> Result<Option<&'a [T]>, KernelError> {
        expect_dtype::<T>(self.meta)?;
        if self.in_place {
            return Ok(None);
        }
        // SAFETY: `lockstep` found the span live, initialised, and apart from the output, the only thing that is written
        // while the borrow of the table lasts.
        let bytes = unsafe { slice::from_raw_parts(self.span.base().as_ptr(), self.span.len()) };
        from_bytes(bytes).map(Some).ok_or_else(misaligned)
    }

    /// Copies `block.len()` elements from position `start` (in memory order) to `block`.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] if they are not `T`, [`KernelError::Invalid`] if there are not so many.
    pub fn load<T: Element>(&self, start: usize, block: &mut [T]) -> Result<(), KernelError> {
        expect_dtype::<T>(self.meta)?;
        let from = part::<T>(self.span, start, block.len())?;
        // SAFETY: `part` is inside the live span; `block` is exclusively borrowed, so it is apart from it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.base().as_ptr(),
                block.as_mut_ptr().cast(),
                from.len(),
            )
        };
        Ok(())
    }
}

/// The output that is written in step with inputs, one of which may be the same bytes.
#[derive(Debug)]
pub struct LockstepOut<'a> {
    meta: &'a TensorMeta,
    span: HostSpan,
    in_place: bool,
    /// See [`LockstepIn`].
    borrow: PhantomData<&'a Cell<u8>>,
}

impl<'a> LockstepOut<'a> {
    /// The description.
    #[inline]
    pub fn meta(&self) -> &'a TensorMeta {
        self.meta
    }

    /// The elements, in memory order, to write; `None` if an input is the same bytes.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] if they are not `T`.
    #[inline]
    pub fn elements_mut<T: Element>(&mut self) -> Result<Option<&mut [T]>, KernelError> {
        expect_dtype::<T>(self.meta)?;
        if self.in_place {
            return Ok(None);
        }
        // SAFETY: `lockstep` found the span live, initialised, and apart from every input; `&mut self` makes this the
        // only reference to it.
        let bytes =
            unsafe { slice::from_raw_parts_mut(self.span.base().as_ptr(), self.span.len()) };
        from_bytes_mut(bytes).map(Some).ok_or_else(misaligned)
    }

    /// Copies `block` to the elements from position `start` (in memory order).
    ///
    /// # Errors
    /// [`KernelError::Tensor`] if they are not `T`, [`KernelError::Invalid`] if there are not so many.
    pub fn store<T: Element>(&mut self, start: usize, block: &[T]) -> Result<(), KernelError> {
        expect_dtype::<T>(self.meta)?;
        let to = part::<T>(self.span, start, block.len())?;
        // SAFETY: `part` is inside the live span, which is written only through `&mut self`; where an input is the same
        // bytes it makes no reference to them, so `block` is apart.
        unsafe {
            std::ptr::copy_nonoverlapping(block.as_ptr().cast(), to.base().as_ptr(), to.len())
        };
        Ok(())
    }
}

/// See [`KernelContext::disjoint`](crate::KernelContext::disjoint).
#[inline]
pub(crate) fn disjoint<'v, const OUT: usize, const IN: usize>(
    values: &'v mut [EValue],
    temp: &'v Arena,
    outputs: [TensorId; OUT],
    inputs: [TensorId; IN],
) -> Result<([TensorOut<'v>; OUT], [TensorIn<'v>; IN]), KernelError> {
    let values: &'v [EValue] = values;
    let (written, read) = (
        outputs.map(|id| tensor(values, id)),
        inputs.map(|id| tensor(values, id)),
    );
    let out_spans = spans(written, outputs, writable_span)?;
    let mut in_spans = spans(read, inputs, span)?;
    for (i, first) in out_spans.iter().enumerate() {
        if let Some(j) = (0..i).find(|&j| out_spans[j].overlaps(*first)) {
            return Err(KernelError::OverlappingOutputs {
                first: outputs[j].0.0,
                second: outputs[i].0.0,
            });
        }
    }
    for (tensor, span) in read.into_iter().zip(&mut in_spans) {
        if out_spans.iter().any(|out| out.overlaps(*span)) {
            *span = copy_to(temp, tensor.meta(), *span)?;
        }
    }
    let inputs = std::array::from_fn(|i| {
        // SAFETY: the span is live and initialised (the table's tensors and the arena's pieces are), and apart from
        // everything written while the borrow of the table lasts: the outputs. Scratch memory is handed out once.
        let bytes =
            unsafe { slice::from_raw_parts(in_spans[i].base().as_ptr(), in_spans[i].len()) };
        TensorIn {
            meta: read[i].meta(),
            bytes,
        }
    });
    let outputs = std::array::from_fn(|i| {
        // SAFETY: the span is live and initialised, apart from the other outputs and from every input; `values` was
        // borrowed exclusively, so there is no other reference.
        let bytes =
            unsafe { slice::from_raw_parts_mut(out_spans[i].base().as_ptr(), out_spans[i].len()) };
        TensorOut {
            meta: written[i].meta(),
            bytes,
        }
    });
    Ok((outputs, inputs))
}

/// See [`KernelContext::lockstep`](crate::KernelContext::lockstep).
#[inline]
pub(crate) fn lockstep<'v, const IN: usize>(
    values: &'v mut [EValue],
    temp: &'v Arena,
    output: TensorId,
    inputs: [TensorId; IN],
) -> Result<(LockstepOut<'v>, [LockstepIn<'v>; IN]), KernelError> {
    let values: &'v [EValue] = values;
    let (written, read) = (tensor(values, output), inputs.map(|id| tensor(values, id)));
    let out_span = writable_span(written, output)?;
    let out_meta = written.meta();
    let mut in_spans = spans(read, inputs, span)?;
    let mut in_place = [false; IN];
    for i in 0..IN {
        if !in_spans[i].overlaps(out_span) {
            continue;
        }
        let meta = read[i].meta();
        let same = in_spans[i] == out_span && meta.dtype().nbytes() == out_meta.dtype().nbytes();
        in_place[i] = same && meta.dim_order() == out_meta.dim_order();
        if !in_place[i] {
            in_spans[i] = copy_to(temp, meta, in_spans[i])?;
        }
    }
    let output = LockstepOut {
        meta: out_meta,
        span: out_span,
        in_place: in_place.contains(&true),
        borrow: PhantomData,
    };
    let inputs = std::array::from_fn(|i| LockstepIn {
        meta: read[i].meta(),
        span: in_spans[i],
        in_place: in_place[i],
        borrow: PhantomData,
    });
    Ok((output, inputs))
}

/// Where the bytes of a tensor's present shape are; `None` if there are none.
#[inline]
pub(crate) fn place(tensor: &Tensor, id: TensorId) -> Result<Option<Place>, KernelError> {
    match host_span(tensor) {
        Some(span) => Ok(Some(Place::Host(span))),
        None => other_place(tensor, id),
    }
}

/// [`place`] of a tensor that is empty or on a device, or what is wrong.
fn other_place(tensor: &Tensor, id: TensorId) -> Result<Option<Place>, KernelError> {
    let nbytes = tensor.meta().nbytes() as u64;
    if nbytes == 0 {
        return Ok(None);
    }
    let whole = tensor
        .place()
        .ok_or(KernelError::NoMemory { value: id.0.0 })?;
    let found = usize::try_from(whole.nbytes()).unwrap_or(usize::MAX);
    let short = TensorError::Length {
        expected: tensor.meta().nbytes(),
        found,
    };
    Ok(Some(whole.subplace(0, nbytes).ok_or(short)?))
}

#[inline]
pub(crate) fn expect_writable(tensor: &Tensor) -> Result<(), KernelError> {
    if tensor.is_read_only() {
        Err(TensorError::ReadOnly.into())
    } else {
        Ok(())
    }
}

#[inline]
fn tensor(values: &[EValue], id: TensorId) -> &Tensor {
    values[id.0.position()]
        .as_tensor()
        .expect("a tensor id names a tensor of its method")
}

/// Where a tensor without elements is: no bytes, at an address that suits any element.
const NOWHERE: HostSpan = HostSpan::new(std::ptr::NonNull::<u128>::dangling().cast(), 0);

/// The host bytes of a tensor's present shape. A tensor of none has an empty span somewhere, aligned for any element.
#[inline]
fn span(tensor: &Tensor, id: TensorId) -> Result<HostSpan, KernelError> {
    if let Some(span) = host_span(tensor) {
        return Ok(span);
    }
    other_span(tensor, id)
}

/// The usual case of [`span`].
#[inline]
fn host_span(tensor: &Tensor) -> Option<HostSpan> {
    let Some(Place::Host(whole)) = tensor.place() else {
        return None;
    };
    let fits = tensor.device().is_cpu() && tensor.meta().numel() > 0;
    fits.then(|| whole.subspan(0, tensor.meta().nbytes()))
        .flatten()
}

/// [`span`] of a tensor without elements, or what is wrong.
#[cold]
fn other_span(tensor: &Tensor, id: TensorId) -> Result<HostSpan, KernelError> {
    if !tensor.device().is_cpu() {
        return Err(KernelError::OnDevice {
            device: tensor.device(),
        });
    }
    match other_place(tensor, id)? {
        Some(Place::Host(span)) => Ok(span),
        Some(Place::Device(device, _)) => Err(KernelError::OnDevice { device }),
        None => Ok(NOWHERE),
    }
}

#[inline]
fn writable_span(tensor: &Tensor, id: TensorId) -> Result<HostSpan, KernelError> {
    expect_writable(tensor)?;
    span(tensor, id)
}

/// A copy of the bytes in scratch memory.
#[cold]
fn copy_to(temp: &Arena, meta: &TensorMeta, span: HostSpan) -> Result<HostSpan, KernelError> {
    let copy = temp.allocate(span.len(), meta.alignment())?;
    // SAFETY: the span is live and initialised; the piece of scratch memory is new, so the two are apart.
    unsafe { std::ptr::copy_nonoverlapping(span.base().as_ptr(), copy.as_mut_ptr(), copy.len()) };
    Ok(HostSpan::of_mut(copy))
}

fn part<T: Element>(span: HostSpan, start: usize, len: usize) -> Result<HostSpan, KernelError> {
    let bytes = |elements: usize| elements.checked_mul(size_of::<T>());
    let part = bytes(start)
        .zip(bytes(len))
        .and_then(|(start, len)| span.subspan(start, len));
    part.ok_or_else(|| KernelError::invalid("a block of elements is outside its tensor"))
}

#[inline]
fn expect_dtype<T: Element>(meta: &TensorMeta) -> Result<(), KernelError> {
    let (expected, found) = (T::DTYPE, meta.dtype());
    if expected == found {
        Ok(())
    } else {
        Err(TensorError::Dtype { expected, found }.into())
    }
}

#[cold]
fn misaligned() -> KernelError {
    TensorError::Misaligned.into()
}

/// The span of each tensor.
#[inline]
fn spans<const N: usize>(
    tensors: [&Tensor; N],
    ids: [TensorId; N],
    span: impl Fn(&Tensor, TensorId) -> Result<HostSpan, KernelError>,
) -> Result<[HostSpan; N], KernelError> {
    let mut spans = [NOWHERE; N];
    for ((slot, tensor), id) in spans.iter_mut().zip(tensors).zip(ids) {
        *slot = span(tensor, id)?;
    }
    Ok(spans)
}
