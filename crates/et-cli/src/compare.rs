//! Outputs against what was expected, within a tolerance per type.

mod number;
#[cfg(test)]
mod tests;

use crate::value::{Tensor, Value};
use et_schema::ScalarType;
use number::Elements;
use std::fmt;

pub(crate) use number::{Number, numbers};

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

    pub(crate) fn get(&self, scalar_type: ScalarType) -> f64 {
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
        closeness: Closeness,
    },
    /// An item of a list.
    Item {
        index: usize,
        mismatch: Box<Mismatch>,
    },
}

impl Mismatch {
    /// How far the elements are off, where it is about elements.
    pub(crate) fn closeness(&self) -> Option<Closeness> {
        match self {
            Self::Element { closeness, .. } => Some(*closeness),
            Self::Item { mismatch, .. } => mismatch.closeness(),
            _ => None,
        }
    }
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
                closeness: _,
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
        let Some((position, worst, found, expected)) = self.example else {
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
            closeness: Closeness {
                difference: worst,
                relative: worst / magnitude,
            },
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
