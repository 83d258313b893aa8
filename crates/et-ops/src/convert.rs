//! Elements of one type to elements of another.

use et_kernel::{Element, KernelError, ScalarType, TensorIn, TensorOut};
use et_memory::Arena;

use crate::dims;
use crate::dispatch::element;
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
    // By way of a type that holds the values of both.
    if from.0.is_floating() || to.0.is_floating() {
        convert_by::<f64>(from, to)
    } else {
        convert_by::<i64>(from, to)
    }
}

fn convert_by<V: Number>(
    (from_dtype, from): (ScalarType, &[u8]),
    (to_dtype, to): (ScalarType, &mut [u8]),
) -> Result<(), KernelError> {
    let mut block = [V::default(); BLOCK];
    let from = from.chunks(BLOCK * from_dtype.nbytes());
    for (from, to) in from.zip(to.chunks_mut(BLOCK * to_dtype.nbytes())) {
        let n = from.len() / from_dtype.nbytes();
        element!("the input", from_dtype, T => read::<T, V>(from, &mut block[..n]))?;
        element!("the output", to_dtype, T => write::<T, V>(&block[..n], to))?;
    }
    Ok(())
}

fn read<T: Number, V: Number>(from: &[u8], to: &mut [V]) -> Result<(), KernelError> {
    for (to, from) in to.iter_mut().zip(words::<T>(from)?) {
        *to = from.cast();
    }
    Ok(())
}

fn write<T: Number, V: Number>(from: &[V], to: &mut [u8]) -> Result<(), KernelError> {
    let to = et_kernel::from_bytes_mut::<T>(to).ok_or(et_kernel::TensorError::Misaligned)?;
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.cast();
    }
    Ok(())
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
    let region = View::of(out.meta);
    let view = View {
        sizes: region.sizes.clone(),
        strides: dims::dense_strides(&region.sizes),
        start: 0,
    };
    view::copy_region(out, &region, dense, &view)
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
