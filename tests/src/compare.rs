//! Results against recorded ones.

use et_kernel::{ScalarType, Tensor};
use et_module::Value;

/// What is wrong with `got`, if anything is.
pub(crate) fn difference(got: &Value, expected: &Value, quantised: bool) -> Option<String> {
    match (got, expected) {
        (Value::Tensor(got), Value::Tensor(expected)) => tensors(got, expected, quantised),
        (Value::None, Value::None) => None,
        (Value::Int(got), Value::Int(expected)) if got == expected => None,
        (Value::Bool(got), Value::Bool(expected)) if got == expected => None,
        (Value::Str(got), Value::Str(expected)) if got == expected => None,
        (Value::Double(got), Value::Double(expected)) if close(*got, *expected, 1e-6) => None,
        _ => Some(format!("got {got}, expected {expected}")),
    }
}

fn tensors(got: &Tensor, expected: &Tensor, quantised: bool) -> Option<String> {
    if got.dtype() != expected.dtype() || got.sizes() != expected.sizes() {
        return Some(format!("got {got:?}, expected {expected:?}"));
    }
    let order: Vec<u8> = (0..).take(got.sizes().len()).collect();
    let got = numbers(
        &got.in_dim_order(&order)
            .expect("any tensor can be laid out so"),
    );
    let expected_numbers = numbers(expected);
    let largest = expected_numbers
        .iter()
        .filter(|n| n.is_finite())
        .fold(SMALLEST, |largest, n| largest.max(n.abs()));
    let allowed = match (tolerance(expected.dtype()), quantised) {
        (Some(tolerance), false) => tolerance * largest,
        // A quantised value may fall on the other side of a rounding edge.
        (Some(tolerance), true) => (tolerance + 0.05) * largest,
        (None, false) => 0.0,
        (None, true) => 1.0,
    };
    let wrong = |(_, (got, expected)): &(usize, (f64, f64))| !close(*got, *expected, allowed);
    let pairs = got.into_iter().zip(expected_numbers);
    let (position, (got, expected)) = pairs.enumerate().find(wrong)?;
    Some(format!(
        "element {position}: got {got}, expected {expected} (± {allowed})"
    ))
}

fn close(got: f64, expected: f64, allowed: f64) -> bool {
    got == expected || (got.is_nan() && expected.is_nan()) || (got - expected).abs() <= allowed
}

/// Results are compared as if their largest element were no smaller: what is left when sums cancel out is noise.
const SMALLEST: f64 = 1e-3;

/// Relative to the largest element; whole numbers must be equal.
fn tolerance(dtype: ScalarType) -> Option<f64> {
    match dtype {
        ScalarType::Float => Some(1e-4),
        ScalarType::Double => Some(1e-6),
        ScalarType::Half => Some(5e-3),
        ScalarType::BFloat16 => Some(2e-2),
        _ => None,
    }
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.bytes().expect("a tensor on the host");
    let read = |element: &[u8]| -> f64 {
        match tensor.dtype() {
            ScalarType::Float => f32::from_le_bytes(fixed(element)).into(),
            ScalarType::Double => f64::from_le_bytes(fixed(element)),
            ScalarType::Half => half(u16::from_le_bytes(fixed(element))),
            ScalarType::BFloat16 => {
                let bits = u32::from(u16::from_le_bytes(fixed(element))) << 16;
                f32::from_bits(bits).into()
            }
            ScalarType::Bool => f64::from(u8::from(element[0] != 0)),
            ScalarType::Byte => element[0].into(),
            ScalarType::Char => i8::from_le_bytes(fixed(element)).into(),
            ScalarType::Short => i16::from_le_bytes(fixed(element)).into(),
            ScalarType::Int => i32::from_le_bytes(fixed(element)).into(),
            // Whole numbers beyond 2^53 are told apart by their low bits.
            ScalarType::Long => long(i64::from_le_bytes(fixed(element))),
            other => panic!("no recorded case has {other} elements"),
        }
    };
    let width = tensor.dtype().nbytes();
    let numbers = bytes.chunks_exact(width).map(read);
    match tensor.dtype() {
        ScalarType::Long => {
            let low = bytes
                .chunks_exact(width)
                .map(|element| f64::from(u32::from_le_bytes(fixed(&element[..4]))));
            numbers.chain(low).collect()
        }
        _ => numbers.collect(),
    }
}

fn long(value: i64) -> f64 {
    value as f64
}

fn fixed<const N: usize>(element: &[u8]) -> [u8; N] {
    element.try_into().expect("elements of one width")
}

/// A 16-bit IEEE number.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    sign * match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(elements: &[f32]) -> Value {
        Tensor::from_slice(elements, &[elements.len()])
            .unwrap()
            .into()
    }

    #[test]
    fn the_tolerance_grows_with_the_largest_element() {
        let expected = floats(&[1000.0, 1.0]);
        assert_eq!(difference(&floats(&[1000.0, 1.09]), &expected, false), None);
        assert!(difference(&floats(&[1000.0, 1.2]), &expected, false).is_some());
        assert!(difference(&floats(&[1000.0]), &expected, false).is_some());
        assert!(difference(&floats(&[f32::NAN, 1.0]), &expected, false).is_some());
    }

    #[test]
    fn small_results_are_not_all_alike() {
        let expected = floats(&[9e-5, 0.0]);
        assert_eq!(difference(&floats(&[9e-5, 9e-8]), &expected, false), None);
        assert!(difference(&floats(&[0.0, 0.0]), &expected, false).is_some());
    }

    #[test]
    fn a_quantised_whole_number_may_be_its_neighbour_and_no_other() {
        let bytes = |elements: &[i64]| Value::from(Tensor::from_slice(elements, &[2]).unwrap());
        let expected = bytes(&[100, -1]);
        assert_eq!(difference(&bytes(&[101, -1]), &expected, true), None);
        assert!(difference(&bytes(&[102, -1]), &expected, true).is_some());
        assert!(difference(&bytes(&[101, -1]), &expected, false).is_some());
    }

    #[test]
    fn whole_numbers_must_be_equal_to_the_last_bit() {
        let long = |value: i64| Value::from(Tensor::from_slice(&[value], &[1]).unwrap());
        let big = (1 << 53) + 1;
        assert_eq!(difference(&long(big), &long(big), false), None);
        assert!(difference(&long(big - 1), &long(big), false).is_some());
    }

    #[test]
    fn halves_are_read() {
        assert_eq!(half(0x3c00), 1.0);
        assert_eq!(half(0xc000), -2.0);
        assert_eq!(half(0x0001), 2f64.powi(-24));
        assert_eq!(half(0x7c00), f64::INFINITY);
    }
}
