//! Between arrays in logical order, as files have them, and tensors in their memory order.

use crate::failure::{Blame, Failure};
use crate::room::{self, NoRoom};
use crate::value::Tensor as Array;
use et_kernel::{Tensor, TensorError, TensorMeta};
use et_schema::ScalarType;

/// Why one is not made of the other.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayoutError {
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

impl LayoutError {
    /// What a user is told; `what` it is about.
    pub(crate) fn failure(&self, id: &'static str, what: &str) -> Failure {
        let message = format!("{what}: {self}");
        match self {
            Self::NoRoom(_) | Self::Tensor(TensorError::Memory(_)) => {
                Failure::new(Blame::Environment, "memory", message)
            }
            Self::Tensor(_) => Failure::file(id, message),
        }
    }
}

/// A host tensor with the array's elements, laid out in `dim_order`.
pub(crate) fn to_tensor(array: &Array, dim_order: &[u8]) -> Result<Tensor, LayoutError> {
    let dtype = et_kernel::ScalarType::from_raw(array.scalar_type.code())
        .expect("invariant: both crates know the format's types");
    let meta = TensorMeta::new(dtype, &array.sizes, dim_order).map_err(TensorError::from)?;
    if meta.is_contiguous() {
        return Ok(Tensor::from_bytes(meta, &array.bytes)?);
    }
    let mut bytes = room::copy(&array.bytes)?;
    each_element(&meta, |logical, memory| {
        bytes[memory].copy_from_slice(&array.bytes[logical]);
    });
    Ok(Tensor::from_bytes(meta, &bytes)?)
}

/// The elements of a host tensor in logical order.
pub(crate) fn to_array(tensor: &Tensor) -> Result<Array, LayoutError> {
    let meta = tensor.meta();
    let memory_order = tensor.bytes()?;
    let mut bytes = room::copy(memory_order)?;
    if !meta.is_contiguous() {
        each_element(meta, |logical, memory| {
            bytes[logical].copy_from_slice(&memory_order[memory]);
        });
    }
    Ok(Array {
        scalar_type: scalar_type(meta.dtype()),
        sizes: meta.sizes().to_vec(),
        bytes,
    })
}

/// The same type in the crate that knows the schema's names.
pub(crate) fn scalar_type(dtype: et_kernel::ScalarType) -> ScalarType {
    ScalarType::from_code(dtype.as_raw()).expect("invariant: both crates know the format's types")
}

/// Calls `visit` with the bytes of each element in logical order and in memory order.
fn each_element(
    meta: &TensorMeta,
    mut visit: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>),
) {
    let nbytes = meta.dtype().nbytes();
    let mut index = vec![0; meta.rank()];
    for position in 0..meta.numel() {
        let element: usize = index
            .iter()
            .zip(meta.strides())
            .map(|(i, stride)| i * stride)
            .sum();
        let (logical, memory) = (position * nbytes, element * nbytes);
        visit(logical..logical + nbytes, memory..memory + nbytes);
        advance(&mut index, meta.sizes());
    }
}

/// The next index in logical order; wraps to all zeros at the end.
fn advance(index: &mut [usize], sizes: &[usize]) {
    for (i, &size) in index.iter_mut().zip(sizes).rev() {
        *i += 1;
        if *i < size {
            return;
        }
        *i = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(sizes: &[usize]) -> Array {
        let count: usize = sizes.iter().product();
        let bytes = (0..count as u16).flat_map(u16::to_le_bytes).collect();
        Array {
            scalar_type: ScalarType::Half,
            sizes: sizes.to_vec(),
            bytes,
        }
    }

    #[track_caller]
    fn check_round_trip(sizes: &[usize], dim_order: &[u8]) {
        let array = array(sizes);
        let tensor = to_tensor(&array, dim_order).unwrap();
        assert_eq!(tensor.meta().dim_order(), dim_order);
        assert_eq!(to_array(&tensor).unwrap(), array);
    }

    #[test]
    fn every_order_comes_back() {
        check_round_trip(&[], &[]);
        check_round_trip(&[5], &[0]);
        check_round_trip(&[2, 3], &[0, 1]);
        check_round_trip(&[2, 3], &[1, 0]);
        check_round_trip(&[2, 3, 4, 5], &[0, 2, 3, 1]);
        check_round_trip(&[2, 3, 4], &[2, 0, 1]);
        check_round_trip(&[2, 0, 4], &[1, 2, 0]);
    }

    #[test]
    fn memory_follows_the_order_of_the_dimensions() {
        let tensor = to_tensor(&array(&[2, 3]), &[1, 0]).unwrap();
        let elements: Vec<u16> = tensor
            .bytes()
            .unwrap()
            .chunks_exact(2)
            .map(|bytes| u16::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        assert_eq!(elements, [0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn an_order_that_is_no_permutation_is_an_error() {
        assert!(to_tensor(&array(&[2, 3]), &[1, 1]).is_err());
    }

    #[test]
    fn types_have_the_same_numbers_in_both_crates() {
        for known in ScalarType::all() {
            let dtype = et_kernel::ScalarType::from_raw(known.code()).unwrap();
            assert_eq!(scalar_type(dtype), known);
            assert_eq!(dtype.nbytes() as u64, known.element_size());
        }
    }
}
