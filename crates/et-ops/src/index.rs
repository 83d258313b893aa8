//! Operators that find elements by index tensors.

mod advanced;
mod along;

use et_kernel::{Arguments, KernelContext, KernelError, TensorId};
use et_memory::Arena;

use crate::convert::as_dense;
use crate::dispatch::{INDEX, expect_dtype};
use crate::elementwise::scratch;

pub(crate) use advanced::KERNELS as ADVANCED_KERNELS;
pub(crate) use along::KERNELS;

/// A tensor's elements in index order as `i64`, in scratch memory.
fn read_indices<'a>(
    context: &mut KernelContext<'a>,
    temp: &'a Arena,
    id: TensorId,
) -> Result<&'a [i64], KernelError> {
    expect_index(context, id)?;
    let indices = scratch::<i64>(temp, context.meta(id).numel())?;
    let ([], [input]) = context.disjoint([], [id])?;
    indices.copy_from_slice(as_dense(temp, input)?);
    Ok(indices)
}

fn expect_index(context: &KernelContext<'_>, id: TensorId) -> Result<(), KernelError> {
    expect_dtype("the index", context.meta(id).dtype(), INDEX)
}

/// An index inside of `size`. Negative ones are none: PyTorch and the C++ runtime refuse them where one index tensor is asked for.
#[inline]
fn inside(index: i64, size: usize) -> Result<usize, KernelError> {
    usize::try_from(index)
        .ok()
        .filter(|&from_start| from_start < size)
        .ok_or_else(|| outside(index, size))
}

/// An index counted from the end if negative, inside of `size`.
#[inline]
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
#[inline(never)]
fn outside(index: i64, size: usize) -> KernelError {
    KernelError::invalid(format!("index {index} is outside of size {size}"))
}
