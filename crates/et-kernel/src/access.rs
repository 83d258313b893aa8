//! Access to the bytes of several tensors of one value table at a time.
//!
//! Tensors of a method point into planned memory, where one value may lie over another. References are therefore made
//! only here, after their ranges were compared.

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
    borrow: PhantomData<&'a [u8]>,
}

impl<'a> LockstepIn<'a> {
    /// The description.
    pub fn meta(&self) -> &'a TensorMeta {
        self.meta
    }

    /// The elements, in memory order; `None` if they are the output's own bytes.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] if they are not `T`.
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
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> LockstepOut<'a> {
    /// The description.
    pub fn meta(&self) -> &'a TensorMeta {
        self.meta
    }

    /// The elements, in memory order, to write; `None` if an input is the same bytes.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] if they are not `T`.
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
pub(crate) fn disjoint<'v, const OUT: usize, const IN: usize>(
    values: &'v mut [EValue],
    temp: &'v Arena,
    outputs: [TensorId; OUT],
    inputs: [TensorId; IN],
) -> Result<([TensorOut<'v>; OUT], [TensorIn<'v>; IN]), KernelError> {
    let values: &'v [EValue] = values;
    let out_spans = try_map(outputs, |id| writable_span(values, id))?;
    for (i, first) in out_spans.iter().enumerate() {
        if let Some(j) = (0..i).find(|&j| out_spans[j].overlaps(*first)) {
            return Err(KernelError::OverlappingOutputs {
                first: outputs[j].0.0,
                second: outputs[i].0.0,
            });
        }
    }
    let inputs = try_map(inputs, |id| {
        let span = span(values, id)?;
        let meta = tensor(values, id).meta();
        if out_spans.iter().any(|out| out.overlaps(span)) {
            return Ok(TensorIn {
                meta,
                bytes: copy_to(temp, meta, span)?,
            });
        }
        // SAFETY: the span is live and initialised (the table's tensors are), and apart from everything written while
        // the borrow of the table lasts: the outputs.
        let bytes = unsafe { slice::from_raw_parts(span.base().as_ptr(), span.len()) };
        Ok::<_, KernelError>(TensorIn { meta, bytes })
    })?;
    let mut ids = outputs.into_iter();
    let outputs = out_spans.map(|span| {
        let id = ids.next().expect("one id per span");
        // SAFETY: the span is live and initialised, apart from the other outputs and from every input; `values` was
        // borrowed exclusively, so there is no other reference.
        let bytes = unsafe { slice::from_raw_parts_mut(span.base().as_ptr(), span.len()) };
        TensorOut {
            meta: tensor(values, id).meta(),
            bytes,
        }
    });
    Ok((outputs, inputs))
}

/// See [`KernelContext::lockstep`](crate::KernelContext::lockstep).
pub(crate) fn lockstep<'v, const IN: usize>(
    values: &'v mut [EValue],
    temp: &'v Arena,
    output: TensorId,
    inputs: [TensorId; IN],
) -> Result<(LockstepOut<'v>, [LockstepIn<'v>; IN]), KernelError> {
    let values: &'v [EValue] = values;
    let out_span = writable_span(values, output)?;
    let out_meta = tensor(values, output).meta();
    let mut any_in_place = false;
    let inputs = try_map(inputs, |id| {
        let mut span = span(values, id)?;
        let meta = tensor(values, id).meta();
        let same = span == out_span && meta.dtype().nbytes() == out_meta.dtype().nbytes();
        let in_place = same && !span.is_empty() && meta.dim_order() == out_meta.dim_order();
        if !in_place && span.overlaps(out_span) {
            span = HostSpan::of(copy_to(temp, meta, span)?);
        }
        any_in_place |= in_place;
        Ok::<_, KernelError>(LockstepIn {
            meta,
            span,
            in_place,
            borrow: PhantomData,
        })
    })?;
    Ok((
        LockstepOut {
            meta: out_meta,
            span: out_span,
            in_place: any_in_place,
            borrow: PhantomData,
        },
        inputs,
    ))
}

/// Where the bytes of a tensor's present shape are; `None` if there are none.
pub(crate) fn place(tensor: &Tensor, id: TensorId) -> Result<Option<Place>, KernelError> {
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

pub(crate) fn expect_writable(tensor: &Tensor) -> Result<(), KernelError> {
    if tensor.is_read_only() {
        Err(TensorError::ReadOnly.into())
    } else {
        Ok(())
    }
}

fn tensor(values: &[EValue], id: TensorId) -> &Tensor {
    values[id.0.position()]
        .as_tensor()
        .expect("a tensor id names a tensor of its method")
}

/// The host bytes of a tensor's present shape. A tensor of none has an empty span somewhere, aligned for any element.
fn span(values: &[EValue], id: TensorId) -> Result<HostSpan, KernelError> {
    let tensor = tensor(values, id);
    if !tensor.device().is_cpu() {
        return Err(KernelError::OnDevice {
            device: tensor.device(),
        });
    }
    match place(tensor, id)? {
        Some(Place::Host(span)) => Ok(span),
        Some(Place::Device(device, _)) => Err(KernelError::OnDevice { device }),
        None => Ok(HostSpan::new(
            std::ptr::NonNull::<u128>::dangling().cast(),
            0,
        )),
    }
}

fn writable_span(values: &[EValue], id: TensorId) -> Result<HostSpan, KernelError> {
    expect_writable(tensor(values, id))?;
    span(values, id)
}

/// A copy of the bytes in scratch memory.
fn copy_to<'v>(
    temp: &'v Arena,
    meta: &TensorMeta,
    span: HostSpan,
) -> Result<&'v [u8], KernelError> {
    let copy = temp.allocate(span.len(), meta.alignment())?;
    // SAFETY: the span is live and initialised; the piece of scratch memory is new, so the two are apart.
    unsafe { std::ptr::copy_nonoverlapping(span.base().as_ptr(), copy.as_mut_ptr(), copy.len()) };
    Ok(copy)
}

fn part<T: Element>(span: HostSpan, start: usize, len: usize) -> Result<HostSpan, KernelError> {
    let bytes = |elements: usize| elements.checked_mul(size_of::<T>());
    let part = bytes(start)
        .zip(bytes(len))
        .and_then(|(start, len)| span.subspan(start, len));
    part.ok_or_else(|| KernelError::invalid("a block of elements is outside its tensor"))
}

fn expect_dtype<T: Element>(meta: &TensorMeta) -> Result<(), KernelError> {
    let (expected, found) = (T::DTYPE, meta.dtype());
    if expected == found {
        Ok(())
    } else {
        Err(TensorError::Dtype { expected, found }.into())
    }
}

fn misaligned() -> KernelError {
    TensorError::Misaligned.into()
}

/// `array.map` for functions that can fail.
fn try_map<T, U, E, const N: usize>(
    items: [T; N],
    mut f: impl FnMut(T) -> Result<U, E>,
) -> Result<[U; N], E> {
    let mut failed = None;
    let mapped = items.map(|item| {
        if failed.is_some() {
            return None;
        }
        f(item).map_err(|error| failed = Some(error)).ok()
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(mapped.map(|item| item.expect("no item failed"))),
    }
}
