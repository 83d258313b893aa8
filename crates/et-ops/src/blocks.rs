//! Runs of neighbouring bytes, which parts of tensors along one dimension consist of: no need to walk through their dimensions.

use et_kernel::{KernelError, TensorMeta};

use crate::dispatch::MOVABLE;

/// A tensor in index order, cut along a dimension: as often as there are indices of the dimensions in front of it, there is a run
/// for each of its own indices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// Indices of the dimensions in front.
    pub(crate) outer: usize,
    /// Indices of the dimension.
    pub(crate) size: usize,
    /// Bytes of what is behind it.
    pub(crate) inner: usize,
}

impl Blocks {
    /// Of a tensor whose dimensions are in index order, and whose elements may be moved about; `None` for any other.
    pub(crate) fn of(meta: &TensorMeta, dim: usize) -> Option<Self> {
        let sizes = meta.sizes();
        if !meta.is_contiguous() || dim >= sizes.len() || !MOVABLE.contains(meta.dtype()) {
            return None;
        }
        let inner: usize = sizes[dim + 1..].iter().product();
        Some(Self {
            outer: sizes[..dim].iter().product(),
            size: sizes[dim],
            inner: inner * meta.dtype().nbytes(),
        })
    }
}

/// Copies `len` indices of a dimension, from index `start` of each side on. Both have as many outer indices and as much behind the
/// dimension.
pub(crate) fn copy(
    (to, to_blocks, to_start): (&mut [u8], Blocks, usize),
    (from, from_blocks, from_start): (&[u8], Blocks, usize),
    len: usize,
) -> Result<(), KernelError> {
    let inner = to_blocks.inner;
    let run = len * inner;
    if run == 0 || to_blocks.outer == 0 {
        return Ok(());
    }
    if to_start + len > to_blocks.size || from_start + len > from_blocks.size {
        return Err(KernelError::invalid("a part reaches outside of its tensor"));
    }
    let to = to.chunks_exact_mut(to_blocks.size * inner);
    let from = from.chunks_exact(from_blocks.size * inner);
    for (to, from) in to.zip(from) {
        let (to, from) = (&mut to[to_start * inner..], &from[from_start * inner..]);
        to[..run].copy_from_slice(&from[..run]);
    }
    Ok(())
}
