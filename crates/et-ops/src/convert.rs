//! Elements of one type to elements of another.

use et_kernel::{Element, KernelError, ScalarType, ScalarTypeSet, TensorIn, TensorOut};
use et_memory::Arena;
use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::dispatch::{compute, element};
use crate::elementwise::scratch;
use crate::number::Number;
use crate::view::{self, View, words};

/// Elements that are converted at a time.
const BLOCK: usize = 256;

/// Converts all elements of `from`; `to` has room for as many.
pub(crate) fn convert(
    from: (ScalarType, &[u8]),
    to: (ScalarType, &mut [u8]),
) -> Result<(), KernelError> {
    if from.0 == to.0 {
        to.1.copy_from_slice(from.1);
        return Ok(());
    }
    if is_computed_in(to.0) {
        return compute!(real_and_bool, "the output", to.0, C => {
            reader::<C>(from.0)?(from.1, as_elements_mut(to.1)?)
        });
    }
    if is_computed_in(from.0) {
        return compute!(real_and_bool, "the input", from.0, C => {
            writer::<C>(to.0)?(words(from.1)?, to.1)
        });
    }
    // By way of a type that holds the values of both.
    if from.0.is_floating() || to.0.is_floating() {
        convert_by::<f64>(from, to)
    } else {
        convert_by::<i64>(from, to)
    }
}

/// Whether elements of this type are computed in it, and in no wider one.
fn is_computed_in(dtype: ScalarType) -> bool {
    ScalarTypeSet::REAL_AND_BOOL.contains(dtype)
        && !matches!(dtype, ScalarType::Half | ScalarType::BFloat16)
}

fn convert_by<V: Number>(
    (from_dtype, from): (ScalarType, &[u8]),
    (to_dtype, to): (ScalarType, &mut [u8]),
) -> Result<(), KernelError> {
    let (read, write) = (reader::<V>(from_dtype)?, writer::<V>(to_dtype)?);
    let mut block = [V::default(); BLOCK];
    let from = from.chunks(BLOCK * from_dtype.nbytes());
    for (from, to) in from.zip(to.chunks_mut(BLOCK * to_dtype.nbytes())) {
        let block = &mut block[..from.len() / from_dtype.nbytes()];
        read(from, block)?;
        write(block, to)?;
    }
    Ok(())
}

/// Makes numbers of as many elements, given as bytes.
type Reader<V> = fn(&[u8], &mut [V]) -> Result<(), KernelError>;

/// Makes elements, as bytes, of as many numbers.
type Writer<V> = fn(&[V], &mut [u8]) -> Result<(), KernelError>;

fn reader<V: Number>(dtype: ScalarType) -> Result<Reader<V>, KernelError> {
    element!("the input", dtype, T => {
        Ok((|from, to| {
            cast(words::<T>(from)?, to);
            Ok(())
        }) as Reader<V>)
    })
}

fn writer<V: Number>(dtype: ScalarType) -> Result<Writer<V>, KernelError> {
    element!("the output", dtype, T => {
        Ok((|from, to| {
            cast(from, as_elements_mut::<T>(to)?);
            Ok(())
        }) as Writer<V>)
    })
}

fn as_elements_mut<T: Element>(bytes: &mut [u8]) -> Result<&mut [T], KernelError> {
    et_kernel::from_bytes_mut(bytes).ok_or_else(|| et_kernel::TensorError::Misaligned.into())
}

/// `to[i]` is the number `from[i]`; there are as many.
pub(crate) fn cast<A: Number, B: Number>(from: &[A], to: &mut [B]) {
    if A::DTYPE == ScalarType::Half
        && let Some((from, to)) = seen_as::<A, B, f16, f32>(from, to)
    {
        // With the machine's instruction for it, where there is one.
        return from.convert_to_f32_slice(to);
    }
    if A::DTYPE == ScalarType::Float
        && let Some((from, to)) = seen_as::<A, B, f32, f16>(from, to)
    {
        return to.convert_from_f32_slice(from);
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.cast();
    }
}

/// The same slices, if their elements are `X` and `Y` and they are of one length.
fn seen_as<'a, A: Element, B: Element, X: Element, Y: Element>(
    from: &'a [A],
    to: &'a mut [B],
) -> Option<(&'a [X], &'a mut [Y])> {
    let alike = A::DTYPE == X::DTYPE && B::DTYPE == Y::DTYPE && from.len() == to.len();
    if !alike {
        return None;
    }
    et_kernel::from_bytes(et_kernel::as_bytes(from))
        .zip(et_kernel::from_bytes_mut(et_kernel::as_bytes_mut(to)))
}

/// A number as the bytes of an element.
pub(crate) fn element_bytes(
    dtype: ScalarType,
    number: et_kernel::Scalar,
) -> Result<[u8; 8], KernelError> {
    fn bytes<T: Number>(number: et_kernel::Scalar) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..size_of::<T>()].copy_from_slice(et_kernel::as_bytes(&[T::from_scalar(number)]));
        bytes
    }
    element!("the output", dtype, T => Ok(bytes::<T>(number)))
}

/// Fills `to` with the element whose bytes come first in `element`.
pub(crate) fn fill<T: Element>(to: &mut [T], element: [u8; 8]) {
    let mut value = [T::default()];
    et_kernel::as_bytes_mut(&mut value).copy_from_slice(&element[..size_of::<T>()]);
    to.fill(value[0]);
}

/// The elements of an input as `C`: its own, or a converted copy.
pub(crate) fn as_compute<'a, C: Number>(
    temp: &'a Arena,
    input: TensorIn<'a>,
) -> Result<&'a [C], KernelError> {
    if input.meta.dtype() == C::DTYPE {
        return input.elements();
    }
    let copy = scratch::<C>(temp, input.meta.numel())?;
    convert(
        (input.meta.dtype(), input.bytes),
        (C::DTYPE, et_kernel::as_bytes_mut(copy)),
    )?;
    Ok(copy)
}

/// Lets `make` write the elements of an output as `C`: in place, or in scratch memory from which they are converted. What
/// they hold at first is unspecified.
pub(crate) fn write_compute<C: Number>(
    temp: &Arena,
    mut out: TensorOut<'_>,
    make: impl FnOnce(&mut [C]) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let dtype = out.meta.dtype();
    if dtype == C::DTYPE {
        return make(out.elements_mut()?);
    }
    let elements = scratch::<C>(temp, out.meta.numel())?;
    make(elements)?;
    convert(
        (C::DTYPE, et_kernel::as_bytes(elements)),
        (dtype, out.bytes),
    )
}

/// As [`write_compute`], but for elements in index order: they are moved to where the output's dimension order has them.
pub(crate) fn write_dense<C: Number>(
    temp: &Arena,
    out: TensorOut<'_>,
    make: impl FnOnce(&mut [C]) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    if out.meta.is_contiguous() {
        return write_compute(temp, out, make);
    }
    let elements = scratch::<C>(temp, out.meta.numel())?;
    make(elements)?;
    let dtype = out.meta.dtype();
    let dense = scratch::<u8>(temp, out.meta.nbytes())?;
    convert((C::DTYPE, et_kernel::as_bytes(elements)), (dtype, dense))?;
    let view = View::dense(out.meta.sizes());
    view::copy_whole(out, dense, &view)
}

/// The elements of an input as `C` in index order.
pub(crate) fn as_dense<'a, C: Number>(
    temp: &'a Arena,
    input: TensorIn<'a>,
) -> Result<&'a [C], KernelError> {
    if input.meta.is_contiguous() {
        return as_compute(temp, input);
    }
    let dense = view::dense_copy(temp, input)?;
    let elements = scratch::<C>(temp, input.meta.numel())?;
    convert(
        (input.meta.dtype(), dense),
        (C::DTYPE, et_kernel::as_bytes_mut(elements)),
    )?;
    Ok(elements)
}
