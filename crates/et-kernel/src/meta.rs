//! What a tensor is, apart from its bytes: element type, shape, layout, bound, device.

use core::fmt;

use et_device::{Alignment, Device};
use smallvec::SmallVec;

use crate::ScalarType;

/// The largest number of dimensions.
pub const MAX_RANK: usize = 16;

type Dims = SmallVec<[usize; 6]>;

/// Whether and how a tensor's shape may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dynamism {
    /// Never.
    Static,
    /// Up to as many elements as the shape it was made with.
    Bound,
}

/// A tensor's description. Elements are always dense in the order that `dim_order` gives.
#[derive(Clone, PartialEq, Eq)]
pub struct TensorMeta {
    dtype: ScalarType,
    dynamism: Dynamism,
    device: Device,
    /// Whether `dim_order` is index order, which is asked all the time.
    is_contiguous: bool,
    sizes: Dims,
    strides: Dims,
    dim_order: SmallVec<[u8; 8]>,
    bound: Dims,
    numel: usize,
    bound_numel: usize,
}

impl TensorMeta {
    /// A tensor on the host whose dimensions are laid out in index order, of fixed shape.
    ///
    /// # Errors
    /// [`ShapeError`] if there are more than [`MAX_RANK`] dimensions, or more bytes than can be addressed.
    pub fn contiguous(dtype: ScalarType, sizes: &[usize]) -> Result<Self, ShapeError> {
        let order: SmallVec<[u8; 16]> = (0..=u8::MAX).take(sizes.len()).collect();
        Self::new(dtype, sizes, &order)
    }

    /// A tensor on the host whose dimensions are laid out in `dim_order` (outermost first), of fixed shape.
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous), and if `dim_order` does not name each dimension once.
    pub fn new(dtype: ScalarType, sizes: &[usize], dim_order: &[u8]) -> Result<Self, ShapeError> {
        check_dim_order(sizes.len(), dim_order)?;
        let numel = checked_numel(dtype, sizes)?;
        let mut strides = SmallVec::from_elem(0, sizes.len());
        fill_strides(&mut strides, sizes, dim_order);
        Ok(Self {
            dtype,
            dynamism: Dynamism::Static,
            device: Device::CPU,
            is_contiguous: dim_order.is_sorted(),
            sizes: sizes.into(),
            strides,
            dim_order: dim_order.into(),
            bound: sizes.into(),
            numel,
            bound_numel: numel,
        })
    }

    /// The same on `device`.
    #[must_use]
    pub fn on(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// The same, with `dynamism`; the present shape becomes the bound.
    #[must_use]
    pub fn with_dynamism(mut self, dynamism: Dynamism) -> Self {
        // A shape of no dimension has nothing to change.
        self.dynamism = if self.sizes.is_empty() {
            Dynamism::Static
        } else {
            dynamism
        };
        self.bound.clone_from(&self.sizes);
        self.bound_numel = self.numel;
        self
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// Elements along each dimension.
    #[inline]
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Elements along dimension `dim`, counted from the end if negative.
    pub fn size(&self, dim: i64) -> Option<usize> {
        let rank = i64::try_from(self.rank()).ok()?;
        let dim = if dim < 0 { dim.checked_add(rank)? } else { dim };
        self.sizes.get(usize::try_from(dim).ok()?).copied()
    }

    /// How many elements apart neighbours along each dimension are.
    #[inline]
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// The dimensions, outermost first.
    #[inline]
    pub fn dim_order(&self) -> &[u8] {
        &self.dim_order
    }

    /// Whether the dimensions are laid out in index order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.is_contiguous
    }

    /// Whether the elements of both are at the same places: equal shapes in equal order.
    #[inline]
    pub fn is_laid_out_as(&self, other: &Self) -> bool {
        let both = self.is_contiguous && other.is_contiguous;
        equal(&self.sizes, &other.sizes) && (both || equal(&self.dim_order, &other.dim_order))
    }

    /// The number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.numel
    }

    /// Bytes of the present shape.
    #[inline]
    pub fn nbytes(&self) -> usize {
        // `new` and `resize` proved that this does not overflow.
        self.numel * self.dtype.nbytes()
    }

    /// The largest shape: what memory is planned for.
    pub fn bound(&self) -> &[usize] {
        &self.bound
    }

    /// Bytes of the largest shape.
    pub fn bound_nbytes(&self) -> usize {
        self.bound_numel * self.dtype.nbytes()
    }

    /// Whether the shape may change.
    #[inline]
    pub fn dynamism(&self) -> Dynamism {
        self.dynamism
    }

    /// Where the bytes are.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// What an element's address must be a multiple of.
    #[inline]
    pub fn alignment(&self) -> Alignment {
        // Element sizes are 1, 2, 4, 8 or 16.
        Alignment::new(self.dtype.nbytes() as u64).unwrap_or(Alignment::ONE)
    }

    /// Gives the tensor the shape `sizes`, dense in the same dimension order. Nothing changes on an error.
    ///
    /// The bound is on the number of elements, as in the C++ runtime: a `[3, 2]` may become `[2, 3]` or `[6, 1]`.
    ///
    /// # Errors
    /// [`ShapeError::Rank`], [`ShapeError::Static`] or [`ShapeError::OverBound`].
    #[inline]
    pub fn resize(&mut self, sizes: &[usize]) -> Result<(), ShapeError> {
        if equal(sizes, &self.sizes) {
            return Ok(());
        }
        self.change(sizes)
    }

    fn change(&mut self, sizes: &[usize]) -> Result<(), ShapeError> {
        if sizes.len() != self.rank() {
            return Err(ShapeError::Rank {
                expected: shown(&self.sizes),
                found: shown(sizes),
            });
        }
        if self.dynamism == Dynamism::Static {
            return Err(ShapeError::Static {
                expected: shown(&self.sizes),
                found: shown(sizes),
            });
        }
        let numel = checked_numel(self.dtype, sizes)?;
        if numel > self.bound_numel {
            return Err(ShapeError::OverBound {
                bound: shown(&self.bound),
                found: shown(sizes),
            });
        }
        self.sizes.copy_from_slice(sizes);
        fill_strides(&mut self.strides, sizes, &self.dim_order);
        self.numel = numel;
        Ok(())
    }
}

impl fmt::Debug for TensorMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.sizes())?;
        if !self.is_contiguous() {
            write!(f, " in order {:?}", self.dim_order())?;
        }
        if self.dynamism == Dynamism::Bound {
            write!(f, " up to {:?}", self.bound())?;
        }
        write!(f, " on {}", self.device)
    }
}

/// A shape that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// Too many dimensions.
    #[error("{found} dimensions are more than {MAX_RANK}")]
    TooManyDims {
        /// How many.
        found: usize,
    },
    /// The dimension order is not a permutation of the dimensions.
    #[error("dimension order {found} does not name each of {rank} dimensions once")]
    DimOrder {
        /// Dimensions.
        rank: usize,
        /// The order, as a list.
        found: Box<str>,
    },
    /// More bytes than can be addressed.
    #[error("a {dtype} tensor of shape {sizes} has more bytes than can be addressed")]
    TooLarge {
        /// The element type.
        dtype: ScalarType,
        /// The shape, as a list.
        sizes: Box<str>,
    },
    /// A resize to another number of dimensions.
    #[error(
        "a tensor of shape {expected} cannot be given shape {found} of another number of dimensions"
    )]
    Rank {
        /// The shape it has, as a list.
        expected: Box<str>,
        /// The shape asked for.
        found: Box<str>,
    },
    /// A resize of a tensor whose shape is fixed.
    #[error(
        "a tensor of fixed shape {expected} cannot be given shape {found}; other shapes need a program that was exported with dynamic dimensions"
    )]
    Static {
        /// The shape it has, as a list.
        expected: Box<str>,
        /// The shape asked for.
        found: Box<str>,
    },
    /// A resize to more elements than the bound.
    #[error("shape {found} has more elements than the bound {bound}")]
    OverBound {
        /// The largest shape, as a list.
        bound: Box<str>,
        /// The shape asked for.
        found: Box<str>,
    },
}

#[inline]
fn equal<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    // Lists are short: a loop costs less than a call.
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a == b)
}

/// A list as error messages print it. Errors are rare, so they may allocate.
fn shown(list: &[impl fmt::Debug]) -> Box<str> {
    format!("{list:?}").into()
}

fn check_dim_order(rank: usize, dim_order: &[u8]) -> Result<(), ShapeError> {
    if rank > MAX_RANK {
        return Err(ShapeError::TooManyDims { found: rank });
    }
    let seen = dim_order.iter().fold(0u32, |seen, &dim| {
        seen | 1u32.checked_shl(dim.into()).unwrap_or(0)
    });
    if dim_order.len() != rank || seen != (1 << rank) - 1 {
        return Err(ShapeError::DimOrder {
            rank,
            found: shown(dim_order),
        });
    }
    Ok(())
}

fn checked_numel(dtype: ScalarType, sizes: &[usize]) -> Result<usize, ShapeError> {
    // Dimensions of size 0 must not hide an overflow of the others: strides count them as 1.
    let spread = sizes
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size.max(1)));
    let nbytes = spread
        .and_then(|n| n.checked_mul(dtype.nbytes()))
        .filter(|&n| n <= isize::MAX as usize);
    if nbytes.is_none() {
        return Err(ShapeError::TooLarge {
            dtype,
            sizes: shown(sizes),
        });
    }
    Ok(sizes.iter().product())
}

/// Dense strides; a size of 0 counts as 1. The caller has checked that nothing overflows.
fn fill_strides(strides: &mut [usize], sizes: &[usize], dim_order: &[u8]) {
    let mut stride = 1;
    for &dim in dim_order.iter().rev() {
        strides[usize::from(dim)] = stride;
        stride *= sizes[usize::from(dim)].max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(sizes: &[usize]) -> TensorMeta {
        TensorMeta::contiguous(ScalarType::Float, sizes).unwrap()
    }

    #[test]
    fn r_ti_06_a_zero_size_counts_as_one_in_strides() {
        let mut meta = float(&[2, 1, 3]).with_dynamism(Dynamism::Bound);
        meta.resize(&[1, 0, 2]).unwrap();
        assert_eq!((meta.strides(), meta.numel()), (&[2, 2, 1][..], 0));
    }

    #[test]
    fn r_ti_08_channels_last_puts_channels_innermost() {
        let meta = TensorMeta::new(ScalarType::Float, &[1, 3, 4, 5], &[0, 2, 3, 1]).unwrap();
        assert_eq!(meta.strides(), [60, 1, 15, 3]);
        assert!(!meta.is_contiguous());
    }

    #[test]
    fn r_ti_07_a_dim_order_is_a_permutation() {
        for order in [
            &[0u8][..],
            &[0, 0],
            &[0, 2],
            &[0, 1, 2],
            &[255, 0],
            &[32, 0],
        ] {
            assert!(
                TensorMeta::new(ScalarType::Float, &[2, 3], order).is_err(),
                "{order:?}"
            );
        }
        let sizes = [1; 17];
        assert_eq!(
            TensorMeta::contiguous(ScalarType::Byte, &sizes),
            Err(ShapeError::TooManyDims { found: 17 })
        );
        assert!(TensorMeta::contiguous(ScalarType::Byte, &sizes[..16]).is_ok());
    }

    #[test]
    fn shapes_that_overflow_are_refused_even_with_a_zero() {
        for sizes in [
            &[usize::MAX, 2][..],
            &[usize::MAX / 4 + 1, 4],
            &[0, usize::MAX, 2],
            &[usize::MAX / 8 + 1, 1],
        ] {
            assert!(matches!(
                TensorMeta::contiguous(ScalarType::Float, sizes),
                Err(ShapeError::TooLarge { .. })
            ));
        }
    }

    #[test]
    fn r_rsz_04_a_bound_limits_the_number_of_elements() {
        let mut meta = float(&[3, 2]).with_dynamism(Dynamism::Bound);
        for sizes in [[1, 1], [3, 2], [2, 3], [6, 1], [0, 9]] {
            meta.resize(&sizes).unwrap();
        }
        let before = meta.clone();
        assert!(matches!(
            meta.resize(&[4, 2]),
            Err(ShapeError::OverBound { .. })
        ));
        assert_eq!(
            meta.resize(&[6]),
            Err(ShapeError::Rank {
                expected: shown(meta.sizes()),
                found: "[6]".into()
            })
        );
        assert_eq!(meta, before);
    }

    #[test]
    fn r_rsz_03_a_static_shape_only_takes_itself() {
        let mut meta = float(&[3, 2]);
        assert_eq!(meta.resize(&[3, 2]), Ok(()));
        assert!(matches!(
            meta.resize(&[2, 2]),
            Err(ShapeError::Static { .. })
        ));
    }
}
