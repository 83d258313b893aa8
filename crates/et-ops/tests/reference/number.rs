//! Numbers of any element type, as the reference computes with them.

use et_kernel::ScalarType;
use half::{bf16, f16};

/// A whole number (or truth value) or a floating point number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Whole(i128),
    Float(f64),
}

use Number::{Float, Whole};

impl Number {
    pub(crate) fn float(self) -> f64 {
        match self {
            Whole(x) => x as f64,
            Float(x) => x,
        }
    }

    /// Fractions are cut off.
    pub(crate) fn whole(self) -> i128 {
        match self {
            Whole(x) => x,
            Float(x) => x as i128,
        }
    }

    pub(crate) fn truth(self) -> bool {
        match self {
            Whole(x) => x != 0,
            Float(x) => x != 0.0,
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        self.float().is_nan()
    }

    /// As an element of `dtype`: rounded or wrapped.
    pub(crate) fn cast(self, dtype: ScalarType) -> Self {
        decode(dtype, &encode(dtype, self))
    }

    /// Whether this is less; never for what is no number.
    pub(crate) fn less(self, other: Self) -> bool {
        match (self, other) {
            (Whole(a), Whole(b)) => a < b,
            (a, b) => a.float() < b.float(),
        }
    }

    pub(crate) fn equal(self, other: Self) -> bool {
        match (self, other) {
            (Whole(a), Whole(b)) => a == b,
            (a, b) => a.float() == b.float(),
        }
    }

    /// Whether the two are the same for one who found this and expected `other`, as elements of `dtype`.
    pub(crate) fn close(self, other: Self, dtype: ScalarType, slack: f64) -> bool {
        let (Float(a), Float(b)) = (self, other) else {
            return self.equal(other);
        };
        if a == b || a.is_nan() && b.is_nan() {
            return true;
        }
        // At the edge of what the type can hold a rounding error decides.
        let most = largest(dtype);
        if a.is_infinite() || b.is_infinite() {
            let near = |x: f64| x.is_infinite() || x.abs() > most * (1.0 - 0.02 * slack);
            return near(a) && near(b) && a.signum() == b.signum();
        }
        (a - b).abs() <= slack * precision(dtype) * b.abs().max(1.0)
    }
}

impl From<bool> for Number {
    fn from(truth: bool) -> Self {
        Whole(truth.into())
    }
}

/// How close floating point results come to exact ones.
pub(crate) fn precision(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::Double => 1e-11,
        ScalarType::Float => 4e-6,
        ScalarType::Half => 2e-3,
        _ => 1.6e-2,
    }
}

fn largest(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::Double => f64::MAX,
        ScalarType::Half => 65504.0,
        _ => f32::MAX.into(),
    }
}

/// The bytes of an element.
pub(crate) fn encode(dtype: ScalarType, number: Number) -> Vec<u8> {
    let (float, whole) = (number.float(), number.whole());
    match dtype {
        ScalarType::Float => (float as f32).to_ne_bytes().into(),
        ScalarType::Double => float.to_ne_bytes().into(),
        ScalarType::Half => f16::from_f64(float).to_ne_bytes().into(),
        ScalarType::BFloat16 => bf16::from_f64(float).to_ne_bytes().into(),
        ScalarType::Bool => vec![number.truth().into()],
        // The low bytes of a whole number, which wraps.
        _ => (whole as i64).to_le_bytes()[..dtype.nbytes()].into(),
    }
}

/// The element whose bytes these are.
pub(crate) fn decode(dtype: ScalarType, bytes: &[u8]) -> Number {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    match dtype {
        ScalarType::Float => Float(f32::from_bits(bits as u32).into()),
        ScalarType::Double => Float(f64::from_bits(bits)),
        ScalarType::Half => Float(f16::from_bits(bits as u16).to_f64()),
        ScalarType::BFloat16 => Float(bf16::from_bits(bits as u16).to_f64()),
        ScalarType::Bool => Whole((bits != 0).into()),
        ScalarType::Char => Whole((bits as i8).into()),
        ScalarType::Short => Whole((bits as i16).into()),
        ScalarType::Int => Whole((bits as i32).into()),
        ScalarType::Long => Whole((bits as i64).into()),
        _ => Whole(bits.into()),
    }
}

/// PyTorch's type for two operands, row by row of its own table.
pub(crate) fn promote(a: ScalarType, b: ScalarType) -> ScalarType {
    use ScalarType::{BFloat16, Bool, Byte, Char, Double, Float, Half, Int, Long, Short};
    const ORDER: [ScalarType; 10] = [
        Byte, Char, Short, Int, Long, Half, Float, Double, Bool, BFloat16,
    ];
    const TABLE: [[ScalarType; 10]; 10] = [
        [
            Byte, Short, Short, Int, Long, Half, Float, Double, Byte, BFloat16,
        ],
        [
            Short, Char, Short, Int, Long, Half, Float, Double, Char, BFloat16,
        ],
        [
            Short, Short, Short, Int, Long, Half, Float, Double, Short, BFloat16,
        ],
        [Int, Int, Int, Int, Long, Half, Float, Double, Int, BFloat16],
        [
            Long, Long, Long, Long, Long, Half, Float, Double, Long, BFloat16,
        ],
        [
            Half, Half, Half, Half, Half, Half, Float, Double, Half, Float,
        ],
        [
            Float, Float, Float, Float, Float, Float, Float, Double, Float, Float,
        ],
        [
            Double, Double, Double, Double, Double, Double, Double, Double, Double, Double,
        ],
        [
            Byte, Char, Short, Int, Long, Half, Float, Double, Bool, BFloat16,
        ],
        [
            BFloat16, BFloat16, BFloat16, BFloat16, BFloat16, Float, Float, Double, BFloat16,
            BFloat16,
        ],
    ];
    let row = |dtype| ORDER.iter().position(|own| *own == dtype).unwrap();
    TABLE[row(a)][row(b)]
}
