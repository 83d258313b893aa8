//! The JSON forms, against what the exporter's own reader saw in the same files.

use std::path::Path;

use et_schema::owned::Program;
use et_schema::summary::ProgramSummary;
use et_schema::{ParsedProgram, VerifiedProgram};
use serde_json::Value;

use crate::corpus;

/// Removes what the two sides may differ in: hashes, and everything that counts as absent.
fn normal(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("sha256");
            map.values_mut().for_each(normal);
            map.retain(|_, value| !value.is_null() && *value != Value::Array(Vec::new()));
        }
        Value::Array(list) => list.iter_mut().for_each(normal),
        _ => {}
    }
}

/// What `expected` has and `found` has not, or has otherwise.
fn difference(path: &str, expected: &Value, found: &Value) -> Option<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().find_map(|(key, value)| {
                difference(
                    &format!("{path}.{key}"),
                    value,
                    found.get(key).unwrap_or(&Value::Null),
                )
            })
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => expected
            .iter()
            .zip(found)
            .enumerate()
            .find_map(|(index, (expected, found))| {
                difference(&format!("{path}[{index}]"), expected, found)
            }),
        _ if expected == found => None,
        _ => Some(format!("{path}: expected {expected}, found {found}")),
    }
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    let mut value = serde_json::from_str(&text).unwrap();
    normal(&mut value);
    value
}

#[track_caller]
fn check(expected: &Value, found: impl serde::Serialize, path: &Path) {
    let mut found = serde_json::to_value(found).unwrap();
    normal(&mut found);
    assert_eq!(difference("", expected, &found), None, "{}", path.display());
}

#[test]
fn summaries_agree_with_the_exporters_reader() {
    for path in corpus::files("pte") {
        let mut expected = read(&path.with_file_name("meta.json"))["program"].take();
        // Programs inside of delegates are the business of whoever knows the backend.
        expected.as_object_mut().unwrap().remove("nested_programs");
        let program = ParsedProgram::from_file_bytes(&std::fs::read(&path).unwrap()).unwrap();
        check(&expected, ProgramSummary::new(&program), &path);
    }
}

#[test]
fn programs_agree_with_the_exporters_reader_in_every_field() {
    for path in corpus::files("pte") {
        let expected = read(&path.with_file_name("program.json"));
        let program = VerifiedProgram::from_file_bytes(&std::fs::read(&path).unwrap()).unwrap();
        let program = Program::from_verified(&program).unwrap();
        check(&expected, &program, &path);
        // And the other way round: nothing of ours is missing on their side.
        let mut ours = serde_json::to_value(&program).unwrap();
        normal(&mut ours);
        assert_eq!(difference("", &ours, &expected), None, "{}", path.display());
    }
}

#[test]
fn numbers_that_json_lacks_are_texts() {
    let list = vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0];
    let json = serde_json::to_string(&et_schema::owned::Value::DoubleList(list)).unwrap();
    assert_eq!(
        json,
        r#"{"DoubleList":{"items":["inf","-inf","nan",-0.0]}}"#
    );
}
