//! The element types of the file formats.

/// The type of a tensor's elements, with the numeric codes of the file.
///
/// Codes 8–10 and 18–21 never occur in files that an exporter wrote, but the runtime's numbering
/// has them, so they are read too.
#[repr(i8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ScalarType {
    /// Unsigned 8-bit integer.
    Byte = 0,
    /// Signed 8-bit integer.
    Char = 1,
    /// Signed 16-bit integer.
    Short = 2,
    /// Signed 32-bit integer.
    Int = 3,
    /// Signed 64-bit integer.
    Long = 4,
    /// IEEE 16-bit float.
    Half = 5,
    /// IEEE 32-bit float.
    Float = 6,
    /// IEEE 64-bit float.
    Double = 7,
    /// Two 16-bit floats.
    ComplexHalf = 8,
    /// Two 32-bit floats.
    ComplexFloat = 9,
    /// Two 64-bit floats.
    ComplexDouble = 10,
    /// One byte, 0 or 1.
    Bool = 11,
    /// Signed 8-bit integer with a scale.
    QInt8 = 12,
    /// Unsigned 8-bit integer with a scale.
    QUInt8 = 13,
    /// Signed 32-bit integer with a scale.
    QInt32 = 14,
    /// The upper half of a 32-bit float.
    BFloat16 = 15,
    /// Two unsigned 4-bit numbers in a byte.
    QUInt4x2 = 16,
    /// Four unsigned 2-bit numbers in a byte.
    QUInt2x4 = 17,
    /// Eight 1-bit fields in a byte.
    Bits1x8 = 18,
    /// Four 2-bit fields in a byte.
    Bits2x4 = 19,
    /// Two 4-bit fields in a byte.
    Bits4x2 = 20,
    /// Eight bits without meaning.
    Bits8 = 21,
    /// Sixteen bits without meaning.
    Bits16 = 22,
    /// 8-bit float, 5 exponent bits.
    Float8E5m2 = 23,
    /// 8-bit float, 4 exponent bits, finite.
    Float8E4m3fn = 24,
    /// 8-bit float, 5 exponent bits, finite, unsigned zero.
    Float8E5m2fnuz = 25,
    /// 8-bit float, 4 exponent bits, finite, unsigned zero.
    Float8E4m3fnuz = 26,
    /// Unsigned 16-bit integer.
    UInt16 = 27,
    /// Unsigned 32-bit integer.
    UInt32 = 28,
    /// Unsigned 64-bit integer.
    UInt64 = 29,
}

/// Per code, in order: the type, its name in the schema, its size in bytes.
const TABLE: [(ScalarType, &str, u8); 30] = [
    (ScalarType::Byte, "BYTE", 1),
    (ScalarType::Char, "CHAR", 1),
    (ScalarType::Short, "SHORT", 2),
    (ScalarType::Int, "INT", 4),
    (ScalarType::Long, "LONG", 8),
    (ScalarType::Half, "HALF", 2),
    (ScalarType::Float, "FLOAT", 4),
    (ScalarType::Double, "DOUBLE", 8),
    (ScalarType::ComplexHalf, "COMPLEXHALF", 4),
    (ScalarType::ComplexFloat, "COMPLEXFLOAT", 8),
    (ScalarType::ComplexDouble, "COMPLEXDOUBLE", 16),
    (ScalarType::Bool, "BOOL", 1),
    (ScalarType::QInt8, "QINT8", 1),
    (ScalarType::QUInt8, "QUINT8", 1),
    (ScalarType::QInt32, "QINT32", 4),
    (ScalarType::BFloat16, "BFLOAT16", 2),
    (ScalarType::QUInt4x2, "QUINT4X2", 1),
    (ScalarType::QUInt2x4, "QUINT2X4", 1),
    (ScalarType::Bits1x8, "BITS1X8", 1),
    (ScalarType::Bits2x4, "BITS2X4", 1),
    (ScalarType::Bits4x2, "BITS4X2", 1),
    (ScalarType::Bits8, "BITS8", 1),
    (ScalarType::Bits16, "BITS16", 2),
    (ScalarType::Float8E5m2, "FLOAT8E5M2", 1),
    (ScalarType::Float8E4m3fn, "FLOAT8E4M3FN", 1),
    (ScalarType::Float8E5m2fnuz, "FLOAT8E5M2FNUZ", 1),
    (ScalarType::Float8E4m3fnuz, "FLOAT8E4M3FNUZ", 1),
    (ScalarType::UInt16, "UINT16", 2),
    (ScalarType::UInt32, "UINT32", 4),
    (ScalarType::UInt64, "UINT64", 8),
];

impl ScalarType {
    /// Every type, in the order of the codes.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The type with this code, if the format has one.
    pub fn from_code(code: i8) -> Option<Self> {
        TABLE.get(usize::try_from(code).ok()?).map(|row| row.0)
    }

    /// The number that stands for the type in files.
    #[expect(
        clippy::as_conversions,
        reason = "reads the discriminant, which is an i8"
    )]
    pub const fn code(self) -> i8 {
        self as i8
    }

    /// The name in the schema, such as `FLOAT`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The type with this schema name.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Bytes of one element (for packed types, of one pack).
    pub fn element_size(self) -> u64 {
        u64::from(self.row().2)
    }

    fn row(self) -> &'static (Self, &'static str, u8) {
        usize::try_from(self.code())
            .ok()
            .and_then(|index| TABLE.get(index))
            .expect("the table has one row per variant, checked by a test")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_stand_at_their_codes() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(usize::try_from(row.0.code()), Ok(index), "{}", row.1);
            assert_eq!(ScalarType::from_name(row.1), Some(row.0));
            assert_eq!(row.0.row(), row);
        }
    }

    #[test]
    fn codes_outside_of_the_table_have_no_type() {
        for code in [-128, -1, 30, 127] {
            assert_eq!(ScalarType::from_code(code), None);
        }
    }

    #[test]
    fn names_agree_with_the_generated_schema() {
        use crate::generated::scalar::ScalarType as Wire;
        for wire in Wire::ENUM_VALUES {
            assert_eq!(
                ScalarType::from_code(wire.0).map(ScalarType::name),
                wire.variant_name()
            );
        }
    }
}
