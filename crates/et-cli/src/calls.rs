//! Documents that list calls: which method, which inputs, and what was recorded as outputs.
#![doc = include_str!("calls.md")]

use crate::failure::Failure;
use crate::npy;
use crate::source;
use crate::value::{Tensor, Value};
use et_schema::ScalarType;
use serde_json::Value as Json;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// How deep lists may nest.
const MAX_DEPTH: usize = 8;

/// The kinds of values.
const KINDS: &str = "none, int, double, bool, string, tensor, list";

/// A document of calls, checked for form; files are not read yet.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The calls, in order.
    pub(crate) runs: Vec<Call>,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    /// The method.
    pub(crate) method: String,
    /// Its inputs, in order.
    pub(crate) inputs: Vec<Item>,
    /// Its recorded outputs, in order, where the document has them.
    pub(crate) outputs: Option<Vec<Item>>,
}

/// One value of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// Where the document says it, such as `runs[0].inputs[1]`.
    pub(crate) path: String,
    kind: ItemKind,
}

#[derive(Clone, Debug, PartialEq)]
enum ItemKind {
    Plain(Value),
    File {
        file: PathBuf,
        scalar_type: Option<ScalarType>,
        sizes: Option<Vec<usize>>,
    },
    List(Vec<Item>),
}

impl Calls {
    /// Reads a document; files in it are relative to its folder.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Self::read_with(path, parse_call)
    }

    /// The same for a document of which only the outputs matter, and which need not have inputs.
    pub(crate) fn read_outputs(path: &Path) -> Result<Self, Failure> {
        Self::read_with(path, |run, path, folder| {
            let mut run = run.clone();
            if let Some(run) = run.as_object_mut() {
                run.insert("inputs".into(), Json::Array(Vec::new()));
            }
            parse_call(&run, path, folder)
        })
    }

    fn read_with(path: &Path, parse_call: ParseCall) -> Result<Self, Failure> {
        let text = source::read(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder, parse_call)
            .map_err(|problem| Failure::file("calls", format!("{}: {problem}", path.display())))
    }

    /// The files that its inputs and recorded outputs are in.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let mut files = Vec::new();
        for call in &self.runs {
            let outputs = call.outputs.iter().flatten();
            call.inputs
                .iter()
                .chain(outputs)
                .for_each(|item| item.files(&mut files));
        }
        files
    }

    /// Whether these bytes are a document, whatever is in the files that it names.
    pub(crate) fn check(text: &[u8]) -> Result<(), String> {
        Self::parse(text, Path::new(""), parse_call).map(drop)
    }

    /// Checks the form of a document; the error says where and what.
    fn parse(text: &[u8], folder: &Path, parse_call: ParseCall) -> Result<Self, String> {
        let document: Json =
            serde_json::from_slice(text).map_err(|error| format!("not JSON: {error}"))?;
        let runs = &document["runs"];
        if runs.is_null() {
            return Err("no top-level key `runs`, the list of calls".into());
        }
        let runs = list(runs, "runs")?;
        if runs.is_empty() {
            return Err("`runs` is an empty list: there is no call".into());
        }
        let runs = runs
            .iter()
            .enumerate()
            .map(|(index, run)| parse_call(run, &format!("runs[{index}]"), folder))
            .collect::<Result<_, _>>()?;
        Ok(Self { runs })
    }
}

impl Item {
    fn files<'a>(&'a self, files: &mut Vec<&'a Path>) {
        match &self.kind {
            ItemKind::Plain(_) => {}
            ItemKind::File { file, .. } => files.push(file),
            ItemKind::List(items) => items.iter().for_each(|item| item.files(files)),
        }
    }
}

/// Reads one call: from the document, where it is in there, and the folder of its files.
type ParseCall = fn(&Json, &str, &Path) -> Result<Call, String>;

fn parse_call(run: &Json, path: &str, folder: &Path) -> Result<Call, String> {
    let items = |name: &str| parse_items(&run[name], &format!("{path}.{name}"), folder, 0);
    Ok(Call {
        method: text(&run["method"], &format!("{path}.method"))?.to_owned(),
        inputs: items("inputs")?,
        outputs: run.get("outputs").map(|_| items("outputs")).transpose()?,
    })
}

fn parse_items(items: &Json, path: &str, folder: &Path, depth: usize) -> Result<Vec<Item>, String> {
    list(items, path)?
        .iter()
        .enumerate()
        .map(|(index, item)| parse_item(item, format!("{path}[{index}]"), folder, depth))
        .collect()
}

fn parse_item(item: &Json, path: String, folder: &Path, depth: usize) -> Result<Item, String> {
    let value = &item["value"];
    let at = |name: &str| format!("{path}.{name}");
    let kind = match text(&item["kind"], &at("kind"))? {
        "none" => ItemKind::Plain(Value::None),
        "int" => ItemKind::Plain(Value::Int(
            value
                .as_i64()
                .ok_or_else(|| wrong(&at("value"), "a 64-bit integer", value))?,
        )),
        "bool" => ItemKind::Plain(Value::Bool(
            value
                .as_bool()
                .ok_or_else(|| wrong(&at("value"), "a bool", value))?,
        )),
        "double" => ItemKind::Plain(Value::Double(parse_double(value, &at("value"))?)),
        "string" => ItemKind::Plain(Value::String(text(value, &at("value"))?.to_owned())),
        "tensor" => ItemKind::File {
            file: folder.join(text(&item["file"], &at("file"))?),
            scalar_type: parse_scalar_type(&item["scalar_type"], &at("scalar_type"))?,
            sizes: parse_sizes(&item["sizes"], &at("sizes"))?,
        },
        "list" if depth < MAX_DEPTH => ItemKind::List(parse_items(
            &item["items"],
            &at("items"),
            folder,
            depth + 1,
        )?),
        "list" => return Err(format!("{path}: lists nest more than {MAX_DEPTH} deep")),
        _ => {
            return Err(wrong(
                &at("kind"),
                &format!("one of {KINDS}"),
                &item["kind"],
            ));
        }
    };
    Ok(Item { path, kind })
}

fn parse_double(value: &Json, path: &str) -> Result<f64, String> {
    match value.as_str() {
        Some("inf") => Ok(f64::INFINITY),
        Some("-inf") => Ok(f64::NEG_INFINITY),
        Some("nan") => Ok(f64::NAN),
        _ => value
            .as_f64()
            .ok_or_else(|| wrong(path, "a number, \"inf\", \"-inf\" or \"nan\"", value)),
    }
}

fn parse_scalar_type(value: &Json, path: &str) -> Result<Option<ScalarType>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let name = text(value, path)?;
    match ScalarType::from_name(name) {
        Some(scalar_type) => Ok(Some(scalar_type)),
        None => Err(wrong(
            path,
            "the name of a scalar type such as \"FLOAT\"",
            value,
        )),
    }
}

fn parse_sizes(value: &Json, path: &str) -> Result<Option<Vec<usize>>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let size = |size: &Json| size.as_u64().and_then(|size| usize::try_from(size).ok());
    match list(value, path)?.iter().map(size).collect() {
        Some(sizes) => Ok(Some(sizes)),
        None => Err(wrong(path, "a list of sizes", value)),
    }
}

fn list<'a>(value: &'a Json, path: &str) -> Result<&'a [Json], String> {
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| wrong(path, "a list", value))
}

fn text<'a>(value: &'a Json, path: &str) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| wrong(path, "a string", value))
}

fn wrong(path: &str, expected: &str, found: &Json) -> String {
    if found.is_null() {
        return format!("{path}: {expected} is missing");
    }
    let mut found = found.to_string();
    if found.chars().count() > 60 {
        found = found.chars().take(57).collect::<String>() + "...";
    }
    format!("{path}: expected {expected}, found {found}")
}

impl Item {
    /// The value itself; reads its file, whose elements must be of the type that the document says.
    ///
    /// `wanted` is the type of the program, for documents that don't say one.
    pub(crate) fn load(&self, wanted: Option<ScalarType>) -> Result<Value, Failure> {
        match &self.kind {
            ItemKind::Plain(value) => Ok(value.clone()),
            ItemKind::List(items) => {
                let values = items.iter().map(|item| item.load(wanted));
                Ok(Value::List(values.collect::<Result<_, _>>()?))
            }
            ItemKind::File {
                file,
                scalar_type,
                sizes,
            } => {
                let tensor = read_tensor(file, scalar_type.or(wanted))?;
                if sizes.as_ref().is_some_and(|sizes| *sizes != tensor.sizes) {
                    let message = format!(
                        "{}: sizes {:?} are said for {}, which has {:?}",
                        self.path,
                        sizes.as_deref().unwrap_or_default(),
                        file.display(),
                        tensor.sizes
                    );
                    return Err(Failure::file("calls", message));
                }
                Ok(Value::Tensor(tensor))
            }
        }
    }
}

/// Reads a `.npy` file as elements of `wanted`, or of the file's own type.
pub(crate) fn read_tensor(file: &Path, wanted: Option<ScalarType>) -> Result<Tensor, Failure> {
    let bytes = source::read(file)?;
    let bad = |error: &dyn Display| Failure::file("npy", format!("{}: {error}", file.display()));
    let array = npy::decode(&bytes).map_err(|error| match error {
        npy::NpyError::NoRoom(error) => error.into(),
        error => bad(&error),
    })?;
    Tensor::from_npy(array, wanted).map_err(|error| bad(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Calls, String> {
        Calls::parse(text.as_bytes(), Path::new("folder"), parse_call)
    }

    fn input(item: &str) -> Result<Item, String> {
        let text = format!(r#"{{"runs": [{{"method": "f", "inputs": [{item}]}}]}}"#);
        Ok(parse(&text)?.runs.remove(0).inputs.remove(0))
    }

    #[track_caller]
    fn check_plain(item: &str, expected: Value) {
        assert_eq!(input(item).unwrap().load(None).unwrap(), expected);
    }

    #[track_caller]
    fn check_error(item: &str, expected: &str) {
        let text = input(item).unwrap_err();
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn plain_values_are_read() {
        check_plain(r#"{"kind": "none"}"#, Value::None);
        check_plain(
            r#"{"kind": "int", "value": -9223372036854775808}"#,
            Value::Int(i64::MIN),
        );
        check_plain(r#"{"kind": "bool", "value": true}"#, Value::Bool(true));
        check_plain(
            r#"{"kind": "string", "value": "x"}"#,
            Value::String("x".into()),
        );
        check_plain(
            r#"{"kind": "double", "value": "-inf"}"#,
            Value::Double(f64::NEG_INFINITY),
        );
        check_plain(r#"{"kind": "double", "value": 2}"#, Value::Double(2.0));
        let list = r#"{"kind": "list", "items": [{"kind": "int", "value": 1}, {"kind": "none"}]}"#;
        check_plain(list, Value::List(vec![Value::Int(1), Value::None]));
    }

    #[test]
    fn a_tensor_names_a_file_beside_the_document() {
        let item = input(r#"{"kind": "tensor", "file": "a.npy", "scalar_type": "BFLOAT16"}"#);
        let expected = ItemKind::File {
            file: Path::new("folder").join("a.npy"),
            scalar_type: Some(ScalarType::BFloat16),
            sizes: None,
        };
        assert_eq!(item.unwrap().kind, expected);
    }

    #[test]
    fn the_example_of_the_description_is_a_document() {
        let description = include_str!("calls.md");
        let (_, example) = description.split_once("```json\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let [call] = &parse(example).unwrap().runs[..] else {
            panic!("one call: {example}");
        };
        assert_eq!(call.method, "forward");
        assert_eq!(call.inputs.len(), 3);
        assert_eq!(call.outputs.as_ref().unwrap().len(), 1);
    }

    #[test]
    fn the_description_names_every_kind() {
        let description = include_str!("calls.md");
        for kind in KINDS.split(", ") {
            assert!(description.contains(&format!("| `{kind}` |")), "{kind}");
        }
        let found = input(r#"{"kind": "x"}"#).unwrap_err();
        assert!(found.contains(KINDS), "{found}");
    }

    #[test]
    fn errors_say_where_and_what() {
        check_error(
            r#"{"kind": "int", "value": 1.5}"#,
            "runs[0].inputs[0].value: expected a 64",
        );
        check_error(
            r#"{"kind": "int"}"#,
            "runs[0].inputs[0].value: a 64-bit integer is missing",
        );
        check_error(r#"{"kind": "blob"}"#, "expected one of none");
        check_error(r#"{"value": 1}"#, "inputs[0].kind: a string is missing");
        check_error(
            r#"{"kind": "tensor"}"#,
            "inputs[0].file: a string is missing",
        );
        let tensor = r#"{"kind": "tensor", "file": "a", "scalar_type": "FLOAT7"}"#;
        check_error(tensor, "a scalar type");
        check_error(
            r#"{"kind": "tensor", "file": "a", "sizes": [-1]}"#,
            "a list of sizes",
        );
        let deep = r#"{"kind": "list", "items": ["#.repeat(9) + &"]}".repeat(9);
        check_error(&deep, "more than 8 deep");
    }

    #[test]
    fn what_is_no_document_of_calls_is_refused() {
        assert!(parse("{").unwrap_err().starts_with("not JSON"));
        for text in ["{}", "7", r#"{"calls": []}"#] {
            let found = parse(text).unwrap_err();
            assert_eq!(found, "no top-level key `runs`, the list of calls");
        }
        let found = parse(r#"{"runs": []}"#).unwrap_err();
        assert_eq!(found, "`runs` is an empty list: there is no call");
        let long = format!(r#"{{"runs": "{}"}}"#, "x".repeat(500));
        assert!(parse(&long).unwrap_err().len() < 120);
    }

    #[test]
    fn a_file_of_another_shape_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = npy::encode(npy::Dtype::Int8, &[3], &[1, 2, 3]).unwrap();
        std::fs::write(dir.path().join("a.npy"), file).unwrap();
        let load = |sizes: &str| {
            let item = format!(r#"{{"kind": "tensor", "file": "a.npy", "sizes": {sizes}}}"#);
            let text = format!(r#"{{"runs": [{{"method": "f", "inputs": [{item}]}}]}}"#);
            let calls = Calls::parse(text.as_bytes(), dir.path(), parse_call).unwrap();
            calls.runs[0].inputs[0].load(None)
        };
        assert!(load("[3]").is_ok());
        let failure = load("[1, 3]").unwrap_err();
        assert!(
            failure.message.contains("inputs[0]: sizes [1, 3]"),
            "{}",
            failure.message
        );
    }
}
