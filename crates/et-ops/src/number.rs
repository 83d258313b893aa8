//! Numbers that tensors hold, and their conversions.

use et_kernel::{Bool8, Element, Scalar};
use half::{bf16, f16};

macro_rules! number {
    ($($rust:ty, $from:ident);+ $(;)?) => {
        /// An element that is a number or truth value, convertible to every other.
        pub(crate) trait Number: Element {
            /// The element as a `B`. Whole numbers wrap; fractions are cut off toward zero; everything but 0 is true.
            fn cast<B: Number>(self) -> B;

            $(
                #[doc(hidden)]
                fn $from(value: $rust) -> Self;
            )+

            /// A program's number as an element.
            fn from_scalar(scalar: Scalar) -> Self {
                match scalar {
                    Scalar::Int(value) => Self::from_i64(value),
                    Scalar::Double(value) => Self::from_f64(value),
                    Scalar::Bool(value) => Self::from_bool8(value.into()),
                }
            }
        }
    };
}

number! {
    u8, from_u8; i8, from_i8; i16, from_i16; i32, from_i32; i64, from_i64;
    u16, from_u16; u32, from_u32; u64, from_u64;
    f16, from_f16; bf16, from_bf16; f32, from_f32; f64, from_f64; Bool8, from_bool8;
}

/// `Number` for a primitive type. Floating point numbers go to small integers by way of `i64`, so that -1.0 becomes 255
/// rather than 0 as an unsigned byte, as PyTorch has it on the common machines.
macro_rules! primitive {
    ($($rust:ty, $name:ident, |$float:ident| $from_float:expr;)+) => {$(
        impl Number for $rust {
            #[inline(always)]
            fn cast<B: Number>(self) -> B {
                B::$name(self)
            }
            #[inline(always)]
            fn from_u8(value: u8) -> Self { value as $rust }
            #[inline(always)]
            fn from_i8(value: i8) -> Self { value as $rust }
            #[inline(always)]
            fn from_i16(value: i16) -> Self { value as $rust }
            #[inline(always)]
            fn from_i32(value: i32) -> Self { value as $rust }
            #[inline(always)]
            fn from_i64(value: i64) -> Self { value as $rust }
            #[inline(always)]
            fn from_u16(value: u16) -> Self { value as $rust }
            #[inline(always)]
            fn from_u32(value: u32) -> Self { value as $rust }
            #[inline(always)]
            fn from_u64(value: u64) -> Self { value as $rust }
            #[inline(always)]
            fn from_f16(value: f16) -> Self { Self::from_f32(value.to_f32()) }
            #[inline(always)]
            fn from_bf16(value: bf16) -> Self { Self::from_f32(value.to_f32()) }
            #[inline(always)]
            fn from_f32($float: f32) -> Self { $from_float }
            #[inline(always)]
            fn from_f64($float: f64) -> Self { $from_float }
            #[inline(always)]
            fn from_bool8(value: Bool8) -> Self { value.get() as u8 as $rust }
        }
    )+};
}

primitive! {
    u8, from_u8, |x| x as i64 as u8;
    i8, from_i8, |x| x as i64 as i8;
    i16, from_i16, |x| x as i64 as i16;
    i32, from_i32, |x| x as i64 as i32;
    i64, from_i64, |x| x as i64;
    u16, from_u16, |x| x as i64 as u16;
    u32, from_u32, |x| x as i64 as u32;
    u64, from_u64, |x| if x < 0.0 { x as i64 as u64 } else { x as u64 };
    f32, from_f32, |x| x as f32;
    f64, from_f64, |x| x as f64;
}

/// `Number` for a type that every other is first made into a `$via` for.
macro_rules! via {
    ($rust:ty, $name:ident, $via:ty, |$x:ident| $make:expr) => {
        impl Number for $rust {
            #[inline(always)]
            fn cast<B: Number>(self) -> B {
                B::$name(self)
            }
            via!(@ $via, |$x| $make; from_u8 u8, from_i8 i8, from_i16 i16, from_i32 i32, from_i64 i64,
                from_u16 u16, from_u32 u32, from_u64 u64, from_f16 f16, from_bf16 bf16, from_f32 f32, from_f64 f64,
                from_bool8 Bool8);
        }
    };
    (@ $via:ty, |$x:ident| $make:expr; $($from:ident $type:ty),+) => {$(
        #[inline(always)]
        fn $from(value: $type) -> Self {
            let $x: $via = value.cast();
            $make
        }
    )+};
}

via!(f16, from_f16, f32, |x| f16::from_f32(x));
via!(bf16, from_bf16, f32, |x| bf16::from_f32(x));

impl Number for Bool8 {
    #[inline(always)]
    fn cast<B: Number>(self) -> B {
        B::from_bool8(self)
    }
    #[inline(always)]
    fn from_u8(value: u8) -> Self {
        (value != 0).into()
    }
    #[inline(always)]
    fn from_i8(value: i8) -> Self {
        (value != 0).into()
    }
    #[inline(always)]
    fn from_i16(value: i16) -> Self {
        (value != 0).into()
    }
    #[inline(always)]
    fn from_i32(value: i32) -> Self {
        (value != 0).into()
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        (value != 0).into()
    }
    #[inline(always)]
    fn from_u16(value: u16) -> Self {
        (value != 0).into()
    }
    #[inline(always)]
    fn from_u32(value: u32) -> Self {
        (value != 0).into()
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        (value != 0).into()
    }
    #[inline(always)]
    fn from_f16(value: f16) -> Self {
        (value.to_f32() != 0.0).into()
    }
    #[inline(always)]
    fn from_bf16(value: bf16) -> Self {
        (value.to_f32() != 0.0).into()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        (value != 0.0).into()
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        (value != 0.0).into()
    }
    #[inline(always)]
    fn from_bool8(value: Bool8) -> Self {
        value.get().into()
    }
}

/// A number that arithmetic is done in: 16-bit floating point elements are computed as `f32`.
pub(crate) trait Compute: Number {
    /// What sums of such numbers are kept in: floating point numbers in full width, whole ones wrapping.
    type Total: Compute;
    /// Whether fractions exist.
    const FLOATING: bool;
    /// Smallest value (minus infinity where there is one).
    const LOWEST: Self;
    /// Largest value (infinity where there is one).
    const HIGHEST: Self;

    /// Sum, wrapping; "or" of truth values.
    fn plus(self, other: Self) -> Self;
    /// Difference, wrapping.
    fn minus(self, other: Self) -> Self;
    /// Product, wrapping; "and" of truth values.
    fn times(self, other: Self) -> Self;
    /// Quotient, cut off toward zero. A whole number's by 0 is 0; whoever minds checks before.
    fn quotient_trunc(self, other: Self) -> Self;
    /// Quotient, rounded down. A whole number's by 0 is 0.
    fn quotient_floor(self, other: Self) -> Self;
    /// Remainder with the sign of `self`. A whole number's by 0 is 0.
    fn rem_trunc(self, other: Self) -> Self;
    /// Remainder with the sign of `other`. A whole number's by 0 is 0.
    fn rem_floor(self, other: Self) -> Self;
    /// `self` to the power `exponent`.
    fn power(self, exponent: Self) -> Self;
    /// Whether this is no number.
    fn is_nan(self) -> bool;
    /// Whether this is less than `other`; false before truth, and never for what is no number.
    fn less(self, other: Self) -> bool;
    /// Whether the two are equal; never for what is no number.
    fn equal(self, other: Self) -> bool;
    /// Whether this is not 0.
    #[inline(always)]
    fn truth(self) -> bool {
        self.cast::<Bool8>().get()
    }
    /// Zero.
    #[inline(always)]
    fn zero() -> Self {
        Self::default()
    }
    /// One.
    #[inline(always)]
    fn one() -> Self {
        Self::from_u8(1)
    }
    /// The larger; no number if either is none.
    #[inline(always)]
    fn max_nan(self, other: Self) -> Self {
        if other.less(self) || self.is_nan() {
            self
        } else {
            other
        }
    }
    /// The smaller; no number if either is none.
    #[inline(always)]
    fn min_nan(self, other: Self) -> Self {
        if self.less(other) || self.is_nan() {
            self
        } else {
            other
        }
    }
}

macro_rules! compute_integer {
    ($($rust:ty)+) => {$(
        impl Compute for $rust {
            type Total = Self;
            const FLOATING: bool = false;
            const LOWEST: Self = Self::MIN;
            const HIGHEST: Self = Self::MAX;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn quotient_trunc(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn quotient_floor(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let quotient = self.wrapping_div(other);
                let remainder = self.wrapping_rem(other);
                #[allow(unused_comparisons, reason = "of unsigned types too")]
                if remainder != 0 && (remainder < 0) != (other < 0) {
                    quotient.wrapping_sub(1)
                } else {
                    quotient
                }
            }
            #[inline(always)]
            fn rem_trunc(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn rem_floor(self, other: Self) -> Self {
                let remainder = self.rem_trunc(other);
                #[allow(unused_comparisons, reason = "of unsigned types too")]
                if remainder != 0 && (remainder < 0) != (other < 0) {
                    remainder.wrapping_add(other)
                } else {
                    remainder
                }
            }
            fn power(self, exponent: Self) -> Self {
                integer_power(self, exponent)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn equal(self, other: Self) -> bool {
                self == other
            }
        }
    )+};
}

compute_integer! { u8 i8 i16 i32 i64 }

/// By squaring, wrapping. A negative exponent leaves 1 and -1 as they are by parity, and makes everything else 0.
fn integer_power<T: Compute>(base: T, exponent: T) -> T {
    let minus_one = T::zero().minus(T::one());
    let mut exponent: i64 = exponent.cast();
    if exponent < 0 {
        return match exponent % 2 {
            _ if base.equal(T::one()) => base,
            0 if base.equal(minus_one) => T::one(),
            _ if base.equal(minus_one) => base,
            _ => T::zero(),
        };
    }
    let (mut result, mut square) = (T::one(), base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.times(square);
        }
        square = square.times(square);
        exponent >>= 1;
    }
    result
}

macro_rules! compute_float {
    ($($rust:ty)+) => {$(
        impl Compute for $rust {
            type Total = f64;
            const FLOATING: bool = true;
            const LOWEST: Self = Self::NEG_INFINITY;
            const HIGHEST: Self = Self::INFINITY;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn quotient_trunc(self, other: Self) -> Self {
                (self / other).trunc()
            }
            #[inline(always)]
            fn quotient_floor(self, other: Self) -> Self {
                if other == 0.0 {
                    return self / other;
                }
                // From the exact remainder, since the rounded quotient may lie on the wrong side of a whole number.
                let remainder = self % other;
                let mut quotient = (self - remainder) / other;
                if remainder != 0.0 && (remainder < 0.0) != (other < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $rust).copysign(self / other);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }
            #[inline(always)]
            fn rem_trunc(self, other: Self) -> Self {
                self % other
            }
            #[inline(always)]
            fn rem_floor(self, other: Self) -> Self {
                let remainder = self % other;
                if remainder != 0.0 && (remainder < 0.0) != (other < 0.0) {
                    remainder + other
                } else {
                    remainder
                }
            }
            fn power(self, exponent: Self) -> Self {
                self.powf(exponent)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn equal(self, other: Self) -> bool {
                self == other
            }
        }
    )+};
}

compute_float! { f32 f64 }

impl Compute for Bool8 {
    type Total = Self;
    const FLOATING: bool = false;
    const LOWEST: Self = Self(0);
    const HIGHEST: Self = Self(1);

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        (self.get() | other.get()).into()
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        (self.get() ^ other.get()).into()
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        (self.get() & other.get()).into()
    }
    #[inline(always)]
    fn quotient_trunc(self, other: Self) -> Self {
        self.times(other)
    }
    #[inline(always)]
    fn quotient_floor(self, other: Self) -> Self {
        self.times(other)
    }
    #[inline(always)]
    fn rem_trunc(self, _: Self) -> Self {
        Self(0)
    }
    #[inline(always)]
    fn rem_floor(self, _: Self) -> Self {
        Self(0)
    }
    #[inline(always)]
    fn power(self, exponent: Self) -> Self {
        (self.get() | !exponent.get()).into()
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        !self.get() & other.get()
    }
    #[inline(always)]
    fn equal(self, other: Self) -> bool {
        self == other
    }
}

/// A floating point number that functions are computed in.
pub(crate) trait Float: Compute {
    /// `e^x`.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The quotient.
    fn over(self, divisor: Self) -> Self;
}

impl Float for f32 {
    #[inline(always)]
    fn exp(self) -> Self {
        crate::math::exp(self)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        f32::ln(self)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }
    #[inline(always)]
    fn over(self, divisor: Self) -> Self {
        self / divisor
    }
}

impl Float for f64 {
    #[inline(always)]
    fn exp(self) -> Self {
        f64::exp(self)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        f64::ln(self)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn over(self, divisor: Self) -> Self {
        self / divisor
    }
}
