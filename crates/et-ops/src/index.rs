//! Operators that find elements by index tensors.

mod advanced;
mod along;

use et_kernel::{Arguments, KernelContext, KernelError, TensorId};
use et_memory::Arena;

use crate::convert::convert;
use crate::dispatch::{INDEX, expect_dtype};
use crate::elementwise::scratch;
use crate::view::dense_copy;

pub(crate) use advanced::KERNELS as ADVANCED_KERNELS;
pub(crate) use along::KERNELS;

/// A tensor's elements in index order as `i64`, in scratch memory.
fn read_indices<'a>(
    context: &mut KernelContext<'a>,
    temp: &'a Arena,
    id: TensorId,
) -> Result<&'a [i64], KernelError> {
    let meta = context.meta(id);
    expect_dtype("the index", meta.dtype(), INDEX)?;
    let indices = scratch::<i64>(temp, meta.numel())?;
    let ([], [input]) = context.disjoint([], [id])?;
    let dense = dense_copy(temp, input)?;
    convert(
        (input.meta.dtype(), dense),
        (
            et_kernel::ScalarType::Long,
            et_kernel::as_bytes_mut(indices),
        ),
    )?;
    Ok(indices)
}

/// An index counted from the end if negative, inside of `size`.
fn wrap(index: i64, size: usize) -> Result<usize, KernelError> {
    let from_start = if index < 0 {
        index.wrapping_add(size as i64)
    } else {
        index
    };
    if (0..size as i64).contains(&from_start) {
        return Ok(from_start as usize);
    }
    Err(outside(index, size))
}

#[cold]
fn outside(index: i64, size: usize) -> KernelError {
    KernelError::invalid(format!("index {index} is outside of size {size}"))
}
