//! Element types: what a tensor holds.
#![expect(
    unsafe_code,
    reason = "elements are bytes, and bytes elements, for types that allow both"
)]

use core::fmt;

use half::{bf16, f16};

/// The type of a tensor's elements, by the file format's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are the format's own")]
pub enum ScalarType {
    Byte = 0,
    Char = 1,
    Short = 2,
    Int = 3,
    Long = 4,
    Half = 5,
    Float = 6,
    Double = 7,
    ComplexHalf = 8,
    ComplexFloat = 9,
    ComplexDouble = 10,
    Bool = 11,
    QInt8 = 12,
    QUInt8 = 13,
    QInt32 = 14,
    BFloat16 = 15,
    QUInt4x2 = 16,
    QUInt2x4 = 17,
    Bits1x8 = 18,
    Bits2x4 = 19,
    Bits4x2 = 20,
    Bits8 = 21,
    Bits16 = 22,
    Float8E5M2 = 23,
    Float8E4M3Fn = 24,
    Float8E5M2Fnuz = 25,
    Float8E4M3Fnuz = 26,
    UInt16 = 27,
    UInt32 = 28,
    UInt64 = 29,
}

/// Every type with its printed name and its size in bytes, in the order of the format's numbers.
const TYPES: [(ScalarType, &str, usize); 30] = [
    (ScalarType::Byte, "Byte", 1),
    (ScalarType::Char, "Char", 1),
    (ScalarType::Short, "Short", 2),
    (ScalarType::Int, "Int", 4),
    (ScalarType::Long, "Long", 8),
    (ScalarType::Half, "Half", 2),
    (ScalarType::Float, "Float", 4),
    (ScalarType::Double, "Double", 8),
    (ScalarType::ComplexHalf, "ComplexHalf", 4),
    (ScalarType::ComplexFloat, "ComplexFloat", 8),
    (ScalarType::ComplexDouble, "ComplexDouble", 16),
    (ScalarType::Bool, "Bool", 1),
    (ScalarType::QInt8, "QInt8", 1),
    (ScalarType::QUInt8, "QUInt8", 1),
    (ScalarType::QInt32, "QInt32", 4),
    (ScalarType::BFloat16, "BFloat16", 2),
    (ScalarType::QUInt4x2, "QUInt4x2", 1),
    (ScalarType::QUInt2x4, "QUInt2x4", 1),
    (ScalarType::Bits1x8, "Bits1x8", 1),
    (ScalarType::Bits2x4, "Bits2x4", 1),
    (ScalarType::Bits4x2, "Bits4x2", 1),
    (ScalarType::Bits8, "Bits8", 1),
    (ScalarType::Bits16, "Bits16", 2),
    (ScalarType::Float8E5M2, "Float8E5M2", 1),
    (ScalarType::Float8E4M3Fn, "Float8E4M3Fn", 1),
    (ScalarType::Float8E5M2Fnuz, "Float8E5M2Fnuz", 1),
    (ScalarType::Float8E4M3Fnuz, "Float8E4M3Fnuz", 1),
    (ScalarType::UInt16, "UInt16", 2),
    (ScalarType::UInt32, "UInt32", 4),
    (ScalarType::UInt64, "UInt64", 8),
];

impl ScalarType {
    /// The type with the format's number `raw`, if there is one.
    pub fn from_raw(raw: i8) -> Option<Self> {
        let position = usize::try_from(raw).ok()?;
        TYPES.get(position).map(|(dtype, ..)| *dtype)
    }

    /// The format's number.
    pub const fn as_raw(self) -> i8 {
        self as i8
    }

    /// Bytes per element.
    #[inline]
    pub const fn nbytes(self) -> usize {
        TYPES[self as usize].2
    }

    /// The name, as PyTorch's C++ spells it.
    pub const fn name(self) -> &'static str {
        TYPES[self as usize].1
    }

    /// Whether this is a floating point type of 16 bits or more.
    #[inline]
    pub const fn is_floating(self) -> bool {
        matches!(
            self,
            Self::Half | Self::BFloat16 | Self::Float | Self::Double
        )
    }

    /// Whether this is an integer type, `Bool` excepted.
    pub const fn is_integral(self) -> bool {
        matches!(
            self,
            Self::Byte
                | Self::Char
                | Self::Short
                | Self::Int
                | Self::Long
                | Self::UInt16
                | Self::UInt32
                | Self::UInt64
        )
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of element types, for saying what a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ScalarTypeSet(u32);

impl ScalarTypeSet {
    /// No type.
    pub const NONE: Self = Self(0);
    /// Every type of the format.
    pub const ALL: Self = Self((1 << TYPES.len()) - 1);
    /// `Half`, `BFloat16`, `Float`, `Double`.
    pub const FLOATING: Self = Self::of(&[
        ScalarType::Half,
        ScalarType::BFloat16,
        ScalarType::Float,
        ScalarType::Double,
    ]);
    /// `Byte`, `Char`, `Short`, `Int`, `Long`.
    pub const INTEGRAL: Self = Self::of(&[
        ScalarType::Byte,
        ScalarType::Char,
        ScalarType::Short,
        ScalarType::Int,
        ScalarType::Long,
    ]);
    /// `FLOATING`, `INTEGRAL` and `Bool`.
    pub const REAL_AND_BOOL: Self =
        Self(Self::FLOATING.0 | Self::INTEGRAL.0 | Self::of(&[ScalarType::Bool]).0);

    /// The set of these types.
    pub const fn of(types: &[ScalarType]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < types.len() {
            bits |= 1 << types[i] as u32;
            i += 1;
        }
        Self(bits)
    }

    /// The set without `dtype`.
    #[must_use]
    pub const fn without(self, dtype: ScalarType) -> Self {
        Self(self.0 & !(1 << dtype as u32))
    }

    /// Whether `dtype` is in the set.
    #[inline]
    pub const fn contains(self, dtype: ScalarType) -> bool {
        self.0 >> dtype as u32 & 1 == 1
    }

    /// The types in the set, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = ScalarType> {
        TYPES
            .into_iter()
            .map(|(dtype, ..)| dtype)
            .filter(move |&dtype| self.contains(dtype))
    }
}

/// A `Bool` element: a byte, true unless 0. Never a Rust `bool`, which may only be 0 or 1 while files hold anything.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Bool8(pub u8);

impl Bool8 {
    /// The truth value.
    #[inline(always)]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool8 {
    #[inline(always)]
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl PartialEq for Bool8 {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool8 {}

/// A Rust type that is the element type of some tensors.
///
/// # Safety
/// Every bit pattern is a value, the type has no padding, and its size is `DTYPE.nbytes()`.
pub unsafe trait Element: Copy + Default + Send + Sync + fmt::Debug + 'static {
    /// The element type it stands for.
    const DTYPE: ScalarType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),+ $(,)?) => {$(
        // SAFETY: a primitive number (or one in a transparent wrapper): any bits will do, no padding, size as in `TYPES`
        // (the assertion below compares).
        unsafe impl Element for $rust {
            const DTYPE: ScalarType = ScalarType::$dtype;
        }
        const _: () = assert!(size_of::<$rust>() == ScalarType::$dtype.nbytes());
    )+};
}

elements! {
    u8 => Byte, i8 => Char, i16 => Short, i32 => Int, i64 => Long,
    f16 => Half, bf16 => BFloat16, f32 => Float, f64 => Double,
    Bool8 => Bool, u16 => UInt16, u32 => UInt32, u64 => UInt64,
}

/// `elements` as bytes, in memory order.
pub fn as_bytes<T: Element>(elements: &[T]) -> &[u8] {
    let nbytes = size_of_val(elements);
    // SAFETY: an `Element` has no padding, so its bytes are initialised; the length is the slice's own.
    unsafe { core::slice::from_raw_parts(elements.as_ptr().cast(), nbytes) }
}

/// `elements` as bytes, in memory order, to write.
pub fn as_bytes_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    let nbytes = size_of_val(elements);
    // SAFETY: as `as_bytes`; and any bytes written are a valid `Element`.
    unsafe { core::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), nbytes) }
}

/// `bytes` as elements; `None` if the address is not aligned for `T` or the length not a multiple of its size.
#[inline]
pub fn from_bytes<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: any bytes are a valid `Element`.
    let (head, elements, tail) = unsafe { bytes.align_to::<T>() };
    (head.is_empty() && tail.is_empty()).then_some(elements)
}

/// `bytes` as elements to write; `None` as for [`from_bytes`].
#[inline]
pub fn from_bytes_mut<T: Element>(bytes: &mut [u8]) -> Option<&mut [T]> {
    // SAFETY: any bytes are a valid `Element`, and an `Element` has no padding.
    let (head, elements, tail) = unsafe { bytes.align_to_mut::<T>() };
    (head.is_empty() && tail.is_empty()).then_some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_ti_05_numbers_are_those_of_the_format() {
        for (position, (dtype, name, _)) in TYPES.into_iter().enumerate() {
            assert_eq!(dtype as usize, position, "{name}");
            assert_eq!(ScalarType::from_raw(dtype.as_raw()), Some(dtype));
            assert_eq!(format!("{dtype:?}"), name);
        }
        assert_eq!(ScalarType::from_raw(30), None);
        assert_eq!(ScalarType::from_raw(-1), None);
    }

    #[test]
    fn a_bool_byte_is_true_unless_zero() {
        assert!(Bool8(0xff).get() && Bool8(0xff) == Bool8(1) && !Bool8(0).get());
    }
}
