//! Inputs given on the command line: `int:4`, `double:2.5`, `bool:true`, `string:one`, `none`, or a file.

use crate::value::Value;
use std::path::{Path, PathBuf};

/// One `--input`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// A value that was written out.
    Literal(Value),
    /// A `.npy` file.
    File(PathBuf),
}

/// Reads an `--input`; what is no literal is the name of a file.
pub(crate) fn parse(text: &str) -> Result<Input, String> {
    let literal = match text.split_once(':') {
        _ if text == "none" => Value::None,
        Some(("int", digits)) => Value::Int(number(digits, "integer")?),
        Some(("double", digits)) => Value::Double(number(digits, "number")?),
        Some(("bool", word)) => Value::Bool(number(word, "bool (`true` or `false`)")?),
        Some(("string", rest)) => Value::String(rest.to_owned()),
        _ => return Ok(Input::File(text.into())),
    };
    Ok(Input::Literal(literal))
}

/// The files among inputs.
pub(crate) fn files(inputs: &[Input]) -> impl Iterator<Item = &Path> {
    inputs.iter().filter_map(|input| match input {
        Input::File(file) => Some(file.as_path()),
        Input::Literal(_) => None,
    })
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(parse(text), Ok(Input::Literal(expected)));
    }

    #[test]
    fn literals_have_a_kind_in_front() {
        check("none", Value::None);
        check("int:-4", Value::Int(-4));
        check("double:2.5e3", Value::Double(2500.0));
        check("double:-inf", Value::Double(f64::NEG_INFINITY));
        check("bool:true", Value::Bool(true));
        check("string:a:b", Value::String("a:b".into()));
        check("string:", Value::String(String::new()));
    }

    #[test]
    fn anything_else_is_a_file() {
        for text in ["x.npy", "./int:4", "none.npy", "c:x.npy"] {
            assert_eq!(parse(text), Ok(Input::File(text.into())));
        }
    }

    #[test]
    fn a_broken_literal_is_an_error() {
        for text in [
            "int:",
            "int:4.5",
            "int:9223372036854775808",
            "bool:1",
            "double:x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
