//! Comparing documents field by field.

use serde_json::Value;

/// Where bytes lie in a file, which another writer may choose in another way.
pub(super) const PLACES: &[&str] = &[
    "alignment",
    "file",
    "length",
    "position",
    "program_size",
    "segment_base_offset",
];

/// How many fields were compared, and where documents differ.
#[derive(Debug)]
pub(super) struct Comparison {
    /// Fields that were the same or not.
    pub(super) fields: u64,
    /// Path, expected and found value of each that was not.
    pub(super) differences: Vec<String>,
    /// Keys that are left out, hashes besides.
    skipped: &'static [&'static str],
}

impl Comparison {
    /// A comparison that leaves these keys out.
    pub(super) fn new(skipped: &'static [&'static str]) -> Self {
        Self {
            fields: 0,
            differences: Vec::new(),
            skipped,
        }
    }

    /// The same comparison going on without these keys.
    pub(super) fn without(&mut self, skipped: &'static [&'static str]) -> &mut Self {
        self.skipped = skipped;
        self
    }

    /// Compares all fields of `expected` with those of `found`, which may have more. Null, an empty list and a missing field
    /// are the same.
    pub(super) fn compare(&mut self, path: &str, expected: &Value, found: &Value) {
        match (expected, found) {
            _ if is_nothing(expected) && is_nothing(found) => self.fields += 1,
            (Value::Object(fields), _) if !is_nothing(found) => {
                for (key, value) in fields {
                    if key != "sha256" && !self.skipped.contains(&key.as_str()) {
                        self.compare(&format!("{path}.{key}"), value, &found[key]);
                    }
                }
            }
            (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
                for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                    self.compare(&format!("{path}[{index}]"), expected, found);
                }
            }
            _ => {
                self.fields += 1;
                if expected != found {
                    let difference = format!("{path}: expected {expected}, found {found}");
                    self.differences.push(difference);
                }
            }
        }
    }

    /// A cell of the table.
    pub(super) fn verdict(&self) -> String {
        match self.differences.len() {
            0 => format!("{} same", self.fields),
            count => format!("{count} of {} differ", self.fields),
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => value.is_null(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(expected: Value, found: Value, fields: u64, differences: &[&str]) {
        let mut comparison = Comparison::new(&["position"]);
        comparison.compare("", &expected, &found);
        assert_eq!(comparison.differences, differences);
        assert_eq!(comparison.fields, fields);
    }

    #[test]
    fn nothing_empty_and_missing_are_the_same() {
        check(
            json!({"a": null, "b": [], "c": {}}),
            json!({"b": null}),
            3,
            &[],
        );
    }

    #[test]
    fn hashes_and_skipped_keys_are_left_out() {
        let expected = json!({"sha256": "x", "position": 1, "size": 2});
        check(expected, json!({"sha256": "y", "size": 2}), 1, &[]);
    }

    #[test]
    fn every_other_difference_has_its_path() {
        check(
            json!({"a": [{"b": 1}, {"b": 2}], "c": 3}),
            json!({"a": [{"b": 1}, {"b": 4}], "more": 0}),
            3,
            &[".a[1].b: expected 2, found 4", ".c: expected 3, found null"],
        );
    }

    #[test]
    fn lists_of_other_lengths_and_objects_that_are_missing_differ() {
        check(
            json!([1]),
            json!([1, 2]),
            1,
            &[": expected [1], found [1,2]"],
        );
        check(
            json!({"a": {"b": 0}}),
            json!({"c": 0}),
            1,
            &[".a: expected {\"b\":0}, found null"],
        );
        check(
            json!({"b": 0}),
            json!(7),
            1,
            &[".b: expected 0, found null"],
        );
    }
}
