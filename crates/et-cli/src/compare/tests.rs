//! What counts as equal, close and too far.

use super::*;
use half::{bf16, f16};

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
