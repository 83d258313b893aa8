//! Outputs against what was expected, within a tolerance per type.

use crate::value::{Tensor, Value};
use et_schema::ScalarType;
use half::{bf16, f16};
use std::fmt;

/// How far elements may be off, relative to `max(1, largest expected magnitude)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tolerances(Vec<(ScalarType, f64)>);

impl Default for Tolerances {
    /// Floats a little, everything else not at all.
    fn default() -> Self {
        Self(vec![
            (ScalarType::BFloat16, 2e-2),
            (ScalarType::Half, 5e-3),
            (ScalarType::Float, 1e-4),
            (ScalarType::Double, 1e-6),
            (ScalarType::ComplexHalf, 5e-3),
            (ScalarType::ComplexFloat, 1e-4),
            (ScalarType::ComplexDouble, 1e-6),
        ])
    }
}

impl Tolerances {
    /// Uses `tolerance` for elements of this type from now on.
    pub(crate) fn set(&mut self, scalar_type: ScalarType, tolerance: f64) {
        self.0.retain(|(known, _)| *known != scalar_type);
        self.0.push((scalar_type, tolerance));
    }

    fn get(&self, scalar_type: ScalarType) -> f64 {
        let found = self.0.iter().find(|(known, _)| *known == scalar_type);
        found.map_or(0.0, |(_, tolerance)| *tolerance)
    }
}

/// How close two equal-enough values are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Closeness {
    /// The largest absolute difference.
    pub(crate) difference: f64,
    /// That difference relative to `max(1, largest expected magnitude)`.
    pub(crate) relative: f64,
}

/// How a value is not what was expected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mismatch {
    /// Another kind of value.
    Kind {
        expected: &'static str,
        found: &'static str,
    },
    /// A scalar, string or list length that is not equal.
    Value { expected: String, found: String },
    /// Elements of another type.
    ScalarType {
        expected: ScalarType,
        found: ScalarType,
    },
    /// Another shape.
    Sizes {
        expected: Vec<usize>,
        found: Vec<usize>,
    },
    /// An element that is too far off: the worst one.
    Element {
        index: Vec<usize>,
        expected: String,
        found: String,
        limit: f64,
        count: usize,
    },
    /// An item of a list.
    Item {
        index: usize,
        mismatch: Box<Mismatch>,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind { expected, found } => write!(f, "expected a {expected}, found a {found}"),
            Self::Value { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::ScalarType { expected, found } => {
                write!(
                    f,
                    "expected {} elements, found {}",
                    expected.name(),
                    found.name()
                )
            }
            Self::Sizes { expected, found } => {
                write!(f, "expected sizes {expected:?}, found {found:?}")
            }
            Self::Element {
                index,
                expected,
                found,
                limit,
                count,
            } => {
                write!(f, "at {index:?} expected {expected}, found {found} ")?;
                write!(
                    f,
                    "(may differ by {limit:.3e}; {count} elements differ by more)"
                )
            }
            Self::Item { index, mismatch } => write!(f, "item {index}: {mismatch}"),
        }
    }
}

/// Compares a value with what was expected: scalars must be equal, tensors close.
pub(crate) fn compare(
    found: &Value,
    expected: &Value,
    tolerances: &Tolerances,
) -> Result<Closeness, Mismatch> {
    match (found, expected) {
        (Value::Tensor(found), Value::Tensor(expected)) => {
            compare_tensors(found, expected, tolerances)
        }
        (Value::List(found), Value::List(expected)) => compare_lists(found, expected, tolerances),
        (Value::Double(a), Value::Double(b)) if a.is_nan() && b.is_nan() => {
            Ok(Closeness::default())
        }
        _ if found == expected => Ok(Closeness::default()),
        _ if found.kind() != expected.kind() => Err(Mismatch::Kind {
            expected: expected.kind(),
            found: found.kind(),
        }),
        _ => Err(Mismatch::Value {
            expected: scalar(expected),
            found: scalar(found),
        }),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Int(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::String(value) => format!("{value:?}"),
        Value::OnDevice(tensor) => format!("a tensor on {}", tensor.device),
        Value::None | Value::Tensor(_) | Value::List(_) => value.kind().into(),
    }
}

fn compare_lists(
    found: &[Value],
    expected: &[Value],
    tolerances: &Tolerances,
) -> Result<Closeness, Mismatch> {
    if found.len() != expected.len() {
        let items = |list: &[Value]| format!("{} items", list.len());
        return Err(Mismatch::Value {
            expected: items(expected),
            found: items(found),
        });
    }
    let mut worst = Closeness::default();
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let closeness =
            compare(found, expected, tolerances).map_err(|mismatch| Mismatch::Item {
                index,
                mismatch: Box::new(mismatch),
            })?;
        worst = worst.or_worse(closeness);
    }
    Ok(worst)
}

impl Closeness {
    /// The worse of both.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        if other.relative > self.relative {
            other
        } else {
            self
        }
    }
}

fn compare_tensors(
    found: &Tensor,
    expected: &Tensor,
    tolerances: &Tolerances,
) -> Result<Closeness, Mismatch> {
    let scalar_type = expected.scalar_type;
    if found.scalar_type != scalar_type {
        return Err(Mismatch::ScalarType {
            expected: scalar_type,
            found: found.scalar_type,
        });
    }
    if found.sizes != expected.sizes {
        let (expected, found) = (expected.sizes.clone(), found.sizes.clone());
        return Err(Mismatch::Sizes { expected, found });
    }
    let tolerance = tolerances.get(scalar_type);
    let elements = Elements::of(scalar_type);
    let pairs = elements
        .read(&found.bytes)
        .zip(elements.read(&expected.bytes));
    let magnitude = elements
        .read(&expected.bytes)
        .map(Number::magnitude)
        .fold(1.0, f64::max);
    let mut tally = Tally {
        limit: tolerance * magnitude,
        ..Tally::default()
    };
    for (position, (found, expected)) in pairs.enumerate() {
        tally.add(position, found, expected);
    }
    tally.finish(magnitude, elements, &expected.sizes)
}

/// What comparing the elements has shown so far.
#[derive(Default)]
struct Tally {
    limit: f64,
    worst: f64,
    too_far: usize,
    /// The worst element that is too far off.
    example: Option<(usize, f64, Number, Number)>,
}

impl Tally {
    fn add(&mut self, position: usize, found: Number, expected: Number) {
        let difference = found.difference(expected);
        if difference <= self.limit {
            self.worst = self.worst.max(difference);
            return;
        }
        self.too_far += 1;
        if self
            .example
            .as_ref()
            .is_none_or(|(_, worst, ..)| difference > *worst)
        {
            self.example = Some((position, difference, found, expected));
        }
    }

    fn finish(
        self,
        magnitude: f64,
        elements: Elements,
        sizes: &[usize],
    ) -> Result<Closeness, Mismatch> {
        let Some((position, _, found, expected)) = self.example else {
            return Ok(Closeness {
                difference: self.worst,
                relative: self.worst / magnitude,
            });
        };
        Err(Mismatch::Element {
            index: index_of(position / elements.per_element, sizes),
            expected: expected.to_string(),
            found: found.to_string(),
            limit: self.limit,
            count: self.too_far,
        })
    }
}

/// The index of the element at `position` in C order.
fn index_of(position: usize, sizes: &[usize]) -> Vec<usize> {
    let mut rest = position;
    let mut index: Vec<usize> = sizes
        .iter()
        .rev()
        .map(|&size| {
            let place = rest % size.max(1);
            rest /= size.max(1);
            place
        })
        .collect();
    index.reverse();
    index
}

/// One number of a tensor. Integers stay exact.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    /// The distance: 0 for two NaNs or equal infinities, infinite where only one is special.
    fn difference(self, other: Self) -> f64 {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => (a - b).unsigned_abs() as f64,
            (Self::Float(a), Self::Float(b)) if a == b || a.is_nan() && b.is_nan() => 0.0,
            (Self::Float(a), Self::Float(b)) if a.is_finite() && b.is_finite() => (a - b).abs(),
            _ => f64::INFINITY,
        }
    }

    /// The number in a few digits, for a look.
    pub(crate) fn short(self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Float(value) if value == 0.0 || !value.is_finite() => value.to_string(),
            Self::Float(value) if (1e-3..1e6).contains(&value.abs()) => {
                let text = format!("{value:.4}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            Self::Float(value) => format!("{value:.3e}"),
        }
    }

    /// The finite magnitude; 0 for NaN and infinities.
    fn magnitude(self) -> f64 {
        match self {
            Self::Int(value) => value.unsigned_abs() as f64,
            Self::Float(value) if value.is_finite() => value.abs(),
            Self::Float(_) => 0.0,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

/// The numbers of a tensor in logical order; complex ones count as two.
pub(crate) fn numbers(tensor: &Tensor) -> impl Iterator<Item = Number> {
    Elements::of(tensor.scalar_type).read(&tensor.bytes)
}

/// How the bytes of a tensor become numbers.
#[derive(Clone, Copy)]
struct Elements {
    /// Bytes of a number.
    nbytes: usize,
    /// Numbers of an element: 2 for complex ones.
    per_element: usize,
    convert: fn(&[u8]) -> Number,
}

/// A number from exactly as many bytes as its type has.
macro_rules! number {
    ($type:ty, $bytes:expr) => {
        <$type>::from_le_bytes(
            $bytes
                .try_into()
                .expect("invariant: chunks have the type's size"),
        )
    };
}

impl Elements {
    fn of(scalar_type: ScalarType) -> Self {
        let (nbytes, convert): (usize, fn(&[u8]) -> Number) = match scalar_type {
            ScalarType::Half | ScalarType::ComplexHalf => {
                (2, |b| Number::Float(f64::from(number!(f16, b))))
            }
            ScalarType::BFloat16 => (2, |b| Number::Float(f64::from(number!(bf16, b)))),
            ScalarType::Float | ScalarType::ComplexFloat => {
                (4, |b| Number::Float(f64::from(number!(f32, b))))
            }
            ScalarType::Double | ScalarType::ComplexDouble => {
                (8, |b| Number::Float(number!(f64, b)))
            }
            ScalarType::Char | ScalarType::QInt8 => (1, |b| Number::Int(number!(i8, b).into())),
            ScalarType::Short => (2, |b| Number::Int(number!(i16, b).into())),
            ScalarType::Int | ScalarType::QInt32 => (4, |b| Number::Int(number!(i32, b).into())),
            ScalarType::Long => (8, |b| Number::Int(number!(i64, b).into())),
            ScalarType::UInt16 | ScalarType::Bits16 => (2, |b| Number::Int(number!(u16, b).into())),
            ScalarType::UInt32 => (4, |b| Number::Int(number!(u32, b).into())),
            ScalarType::UInt64 => (8, |b| Number::Int(number!(u64, b).into())),
            // Bytes, bools, and types whose bits are only ever compared.
            _ => (1, |b| Number::Int(number!(u8, b).into())),
        };
        let complex = matches!(
            scalar_type,
            ScalarType::ComplexHalf | ScalarType::ComplexFloat | ScalarType::ComplexDouble
        );
        Self {
            nbytes,
            per_element: if complex { 2 } else { 1 },
            convert,
        }
    }

    fn read(self, bytes: &[u8]) -> impl Iterator<Item = Number> {
        bytes.chunks_exact(self.nbytes).map(self.convert)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(sizes: &[usize], values: &[f32]) -> Value {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Value::Tensor(Tensor {
            scalar_type: ScalarType::Float,
            sizes: sizes.to_vec(),
            bytes,
        })
    }

    fn longs(values: &[i64]) -> Value {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let sizes = vec![values.len()];
        Value::Tensor(Tensor {
            scalar_type: ScalarType::Long,
            sizes,
            bytes,
        })
    }

    #[track_caller]
    fn check_close(found: &Value, expected: &Value, difference: f64) {
        let closeness = compare(found, expected, &Tolerances::default()).unwrap();
        assert!(
            (closeness.difference - difference).abs() < 1e-7,
            "{closeness:?}"
        );
    }

    #[track_caller]
    fn check_mismatch(found: &Value, expected: &Value, text: &str) {
        let mismatch = compare(found, expected, &Tolerances::default())
            .unwrap_err()
            .to_string();
        assert!(mismatch.contains(text), "{mismatch}");
    }

    #[test]
    fn floats_may_be_off_by_the_tolerance_times_the_magnitude() {
        check_close(&floats(&[1], &[1.00005]), &floats(&[1], &[1.0]), 5e-5);
        check_close(
            &floats(&[2], &[1000.0, 0.05]),
            &floats(&[2], &[1000.0, 0.0]),
            0.05,
        );
        check_mismatch(
            &floats(&[2], &[1.0, 0.05]),
            &floats(&[2], &[1.0, 0.0]),
            "at [1] expected 0",
        );
        check_mismatch(
            &floats(&[1], &[1.0002]),
            &floats(&[1], &[1.0]),
            "1 elements differ",
        );
    }

    #[test]
    fn the_worst_element_is_named_by_its_index() {
        let expected = floats(&[2, 3], &[0.0; 6]);
        let found = floats(&[2, 3], &[0.0, 0.1, 0.0, 0.0, 0.0, 0.5]);
        check_mismatch(&found, &expected, "at [1, 2] expected 0, found 0.5");
        check_mismatch(&found, &expected, "2 elements differ");
    }

    #[test]
    fn special_numbers_stand_at_the_same_places() {
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0];
        check_close(&floats(&[4], &special), &floats(&[4], &special), 0.0);
        check_mismatch(
            &floats(&[1], &[1.0]),
            &floats(&[1], &[f32::NAN]),
            "expected NaN",
        );
        check_mismatch(
            &floats(&[1], &[f32::NAN]),
            &floats(&[1], &[1.0]),
            "found NaN",
        );
        let (inf, minus_inf) = (
            floats(&[1], &[f32::INFINITY]),
            floats(&[1], &[-f32::INFINITY]),
        );
        check_mismatch(&inf, &minus_inf, "expected -inf, found inf");
        check_mismatch(&floats(&[1], &[f32::MAX]), &inf, "expected inf");
    }

    #[test]
    fn infinities_do_not_widen_the_tolerance() {
        let expected = floats(&[2], &[f32::INFINITY, 0.0]);
        check_mismatch(&floats(&[2], &[f32::INFINITY, 0.1]), &expected, "at [1]");
    }

    #[test]
    fn integers_are_exact_beyond_the_range_of_floats() {
        let big = 9_007_199_254_740_993;
        check_close(&longs(&[big]), &longs(&[big]), 0.0);
        check_mismatch(
            &longs(&[big - 1]),
            &longs(&[big]),
            "expected 9007199254740993",
        );
        check_mismatch(
            &longs(&[i64::MIN]),
            &longs(&[i64::MAX]),
            "expected 9223372036854775807",
        );
    }

    #[test]
    fn a_tolerance_can_be_set_per_type() {
        let mut tolerances = Tolerances::default();
        tolerances.set(ScalarType::Long, 1.0);
        assert!(compare(&longs(&[4]), &longs(&[5]), &tolerances).is_ok());
        assert!(compare(&longs(&[0]), &longs(&[9]), &tolerances).is_ok());
        tolerances.set(ScalarType::Long, 0.0);
        assert!(compare(&longs(&[4]), &longs(&[5]), &tolerances).is_err());
    }

    #[test]
    fn half_and_bfloat16_are_read_as_numbers() {
        let tensor = |scalar_type, bits: u16| {
            let bytes = bits.to_le_bytes().to_vec();
            Value::Tensor(Tensor {
                scalar_type,
                sizes: vec![],
                bytes,
            })
        };
        // 1.0 and the next number above it.
        let half = |bits| tensor(ScalarType::Half, bits);
        check_close(&half(0x3c01), &half(0x3c00), f64::from(f16::EPSILON));
        let brain = |bits| tensor(ScalarType::BFloat16, bits);
        check_close(&brain(0x3f81), &brain(0x3f80), f64::from(bf16::EPSILON));
        check_mismatch(
            &brain(0x3f80),
            &half(0x3c00),
            "expected HALF elements, found BFLOAT16",
        );
    }

    #[test]
    fn shapes_and_kinds_must_agree() {
        check_mismatch(
            &floats(&[1, 2], &[0.0; 2]),
            &floats(&[2], &[0.0; 2]),
            "sizes [2]",
        );
        check_mismatch(&Value::None, &Value::Int(1), "expected a int, found a none");
        check_mismatch(&Value::Int(2), &Value::Int(1), "expected 1, found 2");
        check_mismatch(&Value::Bool(true), &Value::Bool(false), "expected false");
        let nan = Value::Double(f64::NAN);
        check_close(&nan, &nan, 0.0);
        check_mismatch(
            &Value::Double(0.1),
            &Value::Double(0.1 + 1e-17 + 1e-16),
            "found 0.1",
        );
    }

    #[test]
    fn lists_are_compared_item_by_item() {
        let list = |last| Value::List(vec![Value::None, Value::Int(last)]);
        check_close(&list(1), &list(1), 0.0);
        check_mismatch(&list(2), &list(1), "item 1: expected 1, found 2");
        check_mismatch(
            &Value::List(vec![]),
            &list(1),
            "expected 2 items, found 0 items",
        );
    }

    #[test]
    fn numbers_are_shown_in_a_few_digits() {
        let shown = |value| Number::Float(value).short();
        let values = [0.0, 0.25, -1.0, 123_456.789, 1e-5, 1e9, f64::NAN].map(shown);
        assert_eq!(
            values,
            [
                "0",
                "0.25",
                "-1",
                "123456.789",
                "1.000e-5",
                "1.000e9",
                "NaN"
            ]
        );
        assert_eq!(
            Number::Int(i128::from(u64::MAX)).short(),
            "18446744073709551615"
        );
    }

    #[test]
    fn empty_tensors_are_equal() {
        check_close(&floats(&[0, 3], &[]), &floats(&[0, 3], &[]), 0.0);
    }

    #[test]
    fn a_complex_number_counts_as_one_element() {
        let tensor = |values: [f32; 4]| {
            let bytes = values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            let scalar_type = ScalarType::ComplexFloat;
            Value::Tensor(Tensor {
                scalar_type,
                sizes: vec![2],
                bytes,
            })
        };
        check_mismatch(&tensor([0.0, 0.0, 0.0, 1.0]), &tensor([0.0; 4]), "at [1]");
    }
}
