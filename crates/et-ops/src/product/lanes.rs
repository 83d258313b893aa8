//! Floating-point numbers side by side in vectors.

use pulp::Simd;
use pulp::bytemuck::{Pod, cast_slice_mut};

use crate::number::Compute;

/// A number that machines compute several of at a time.
pub(crate) trait Lanes: Compute + Pod {
    /// As many numbers as one register holds.
    type Vector<S: Simd>: Pod;

    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    fn add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn multiply<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a b + c`, rounded once where the machine does that as fast.
    fn multiply_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// The larger ones; where `a` is no number, `a`.
    fn max_nan<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// The smaller ones; where `a` is no number, `a`.
    fn min_nan<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// The sum of a vector's numbers.
    fn sum<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;
    /// The first `len` of `xs`, or as many as fit, and zeros behind them.
    fn first<S: Simd>(simd: S, xs: &[Self], len: usize) -> Self::Vector<S>;
    /// The whole vectors at the start of `xs`, and the rest.
    fn vectors<S: Simd>(xs: &[Self]) -> (&[Self::Vector<S>], &[Self]);
    /// As [`vectors`](Self::vectors), to write.
    fn vectors_mut<S: Simd>(xs: &mut [Self]) -> (&mut [Self::Vector<S>], &mut [Self]);
}

/// Numbers in a vector.
pub(super) const fn count<T: Lanes, S: Simd>() -> usize {
    size_of::<T::Vector<S>>() / size_of::<T>()
}

macro_rules! lanes {
    ($rust:ty, $vector:ident, $splat:ident, $add:ident, $multiply:ident, $multiply_add:ident, $less:ident, $select:ident, $sum:ident, $word:ty, $mask:ident, $vectors:ident, $vectors_mut:ident) => {
        impl Lanes for $rust {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
                simd.$splat(x)
            }

            #[inline(always)]
            fn add<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }

            #[inline(always)]
            fn multiply<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$multiply(a, b)
            }

            #[inline(always)]
            fn multiply_add<S: Simd>(
                simd: S,
                a: S::$vector,
                b: S::$vector,
                c: S::$vector,
            ) -> S::$vector {
                simd.$multiply_add(a, b, c)
            }

            #[inline(always)]
            fn max_nan<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$select(simd.$less(a, b), b, a)
            }

            #[inline(always)]
            fn min_nan<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$select(simd.$less(b, a), b, a)
            }

            #[inline(always)]
            fn sum<S: Simd>(simd: S, a: S::$vector) -> Self {
                simd.$sum(a)
            }

            #[inline(always)]
            fn first<S: Simd>(simd: S, xs: &[Self], len: usize) -> S::$vector {
                let (lanes, zero) = (count::<Self, S>(), simd.$splat(0.0));
                let Some(whole) = xs.get(..lanes) else {
                    let mut padded = [zero];
                    let to: &mut [Self] = cast_slice_mut(&mut padded);
                    for (to, x) in to.iter_mut().zip(xs).take(len) {
                        *to = *x;
                    }
                    return padded[0];
                };
                let vector = S::$vectors(whole).0[0];
                let mask = simd.$mask(0, len.min(lanes) as $word).mask();
                simd.$select(mask, vector, zero)
            }

            #[inline(always)]
            fn vectors<S: Simd>(xs: &[Self]) -> (&[S::$vector], &[Self]) {
                S::$vectors(xs)
            }

            #[inline(always)]
            fn vectors_mut<S: Simd>(xs: &mut [Self]) -> (&mut [S::$vector], &mut [Self]) {
                S::$vectors_mut(xs)
            }
        }
    };
}

lanes!(
    f32,
    f32s,
    splat_f32s,
    add_f32s,
    mul_f32s,
    mul_add_e_f32s,
    less_than_f32s,
    select_f32s,
    reduce_sum_f32s,
    u32,
    mask_between_m32s,
    as_simd_f32s,
    as_mut_simd_f32s
);
lanes!(
    f64,
    f64s,
    splat_f64s,
    add_f64s,
    mul_f64s,
    mul_add_e_f64s,
    less_than_f64s,
    select_f64s,
    reduce_sum_f64s,
    u64,
    mask_between_m64s,
    as_simd_f64s,
    as_mut_simd_f64s
);
