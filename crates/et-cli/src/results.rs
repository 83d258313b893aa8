//! The outputs of calls as files: `run<i>_out<j>.npy` and `outputs.json`.

use crate::failure::Failure;
use crate::npy;
use crate::replacement;
use crate::report::pretty;
use crate::value::{Tensor, Value};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

/// The list of all outputs.
const LIST: &str = "outputs.json";

/// Refuses a folder where outputs might take the place of what the command reads: a file with a name as outputs have, or those that
/// they are compared with.
pub(crate) fn expect_apart<'a>(
    folder: &Path,
    read: impl IntoIterator<Item = &'a Path>,
    expected: Option<&Path>,
) -> Result<(), Failure> {
    let folder = replacement::resolved(folder);
    let lost = |path: &Path| {
        let path = replacement::resolved(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.parent() == Some(&*folder) && is_output(&name)
    };
    let expected = expected.map(|expected| expected.join(LIST));
    let expected = expected.as_deref().filter(|list| list.is_file());
    let mut read = read.into_iter();
    match read
        .find(|path| lost(path))
        .or(expected.filter(|list| lost(list)))
    {
        None => Ok(()),
        Some(path) => Err(Failure::usage(format!(
            "{} might be written over: choose another folder for the outputs",
            path.display()
        ))),
    }
}

/// Whether a file of this name is among those that outputs are written to.
fn is_output(name: &str) -> bool {
    let is_tensor = |name: &str| {
        let (run, output) = name.strip_prefix("run")?.split_once("_out")?;
        let output = output.strip_suffix(".npy")?;
        let digits = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'_')
        };
        Some(digits(run) && digits(output))
    };
    name == LIST || is_tensor(name).unwrap_or(false)
}

/// A folder that receives outputs.
#[derive(Debug)]
pub(crate) struct Results {
    folder: PathBuf,
    runs: Vec<Json>,
}

impl Results {
    /// Makes the folder where it is missing.
    pub(crate) fn create(folder: &Path) -> Result<Self, Failure> {
        if folder.metadata().is_ok_and(|found| !found.is_dir()) {
            let folder = folder.display();
            return Err(Failure::usage(format!("{folder} is not a folder")));
        }
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::io("make the folder", folder, &error))?;
        Ok(Self {
            folder: folder.into(),
            runs: Vec::new(),
        })
    }

    /// Writes the tensors of the next call.
    pub(crate) fn add(&mut self, method: &str, outputs: &[Value]) -> Result<(), Failure> {
        let run = self.runs.len();
        let outputs = outputs
            .iter()
            .enumerate()
            .map(|(index, value)| self.write(&format!("run{run}_out{index}"), value))
            .collect::<Result<Vec<_>, _>>()?;
        self.runs
            .push(json!({"method": method, "outputs": outputs}));
        Ok(())
    }

    /// Writes `outputs.json`.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let document = json!({"format": "et-outputs", "version": 1, "runs": self.runs});
        replacement::write(&self.folder.join(LIST), pretty(&document).as_bytes())
    }

    fn write(&self, name: &str, value: &Value) -> Result<Json, Failure> {
        match value {
            Value::Tensor(tensor) => {
                let file = format!("{name}.npy");
                replacement::write(&self.folder.join(&file), &npy_bytes(tensor)?)?;
                let mut entry = describe(value);
                entry["file"] = file.into();
                Ok(entry)
            }
            Value::List(items) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.write(&format!("{name}_{index}"), item))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(json!({"kind": "list", "items": items}))
            }
            _ => Ok(describe(value)),
        }
    }
}

/// A value without its elements, in the form that documents of calls use.
pub(crate) fn describe(value: &Value) -> Json {
    let kind = value.kind();
    match value {
        Value::None => json!({"kind": kind}),
        Value::Int(value) => json!({"kind": kind, "value": value}),
        Value::Double(value) => json!({"kind": kind, "value": double(*value)}),
        Value::Bool(value) => json!({"kind": kind, "value": value}),
        Value::String(value) => json!({"kind": kind, "value": value}),
        Value::List(items) => {
            json!({"kind": kind, "items": items.iter().map(describe).collect::<Vec<_>>()})
        }
        Value::OnDevice(tensor) => json!({
            "kind": kind,
            "scalar_type": tensor.scalar_type.name(),
            "sizes": tensor.sizes,
            "device": tensor.device.to_string(),
        }),
        Value::Tensor(tensor) => json!({
            "kind": kind,
            "scalar_type": tensor.scalar_type.name(),
            "sizes": tensor.sizes,
            "npy_dtype": tensor.npy_dtype().map(npy::Dtype::name),
        }),
    }
}

/// JSON has no infinities and no NaN; documents of calls spell them out.
fn double(value: f64) -> Json {
    match value {
        _ if value.is_nan() => "nan".into(),
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        _ => value.into(),
    }
}

fn npy_bytes(tensor: &Tensor) -> Result<Vec<u8>, Failure> {
    let Some(dtype) = tensor.npy_dtype() else {
        let name = tensor.scalar_type.name();
        return Err(Failure::file(
            "npy",
            format!(".npy files cannot hold {name} elements"),
        ));
    };
    Ok(npy::encode(dtype, &tensor.sizes, &tensor.bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Calls;
    use et_schema::ScalarType;

    fn bfloat16() -> Value {
        let scalar_type = ScalarType::BFloat16;
        Value::Tensor(Tensor {
            scalar_type,
            sizes: vec![2],
            bytes: vec![0x80, 0x3f, 0, 0x40],
        })
    }

    #[test]
    fn names_of_outputs_are_known() {
        for name in ["outputs.json", "run0_out12.npy", "run3_out0_1.npy"] {
            assert!(is_output(name), "{name}");
        }
        for name in [
            "in_0.npy",
            "run0.npy",
            "run0_out0.npy.bak",
            "runs_out0.npy",
            "meta.json",
        ] {
            assert!(!is_output(name), "{name}");
        }
    }

    #[test]
    fn written_outputs_can_be_read_as_recorded_ones() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("new/folder");
        let list = Value::List(vec![Value::Bool(true), bfloat16()]);
        let outputs = [
            bfloat16(),
            Value::Double(f64::INFINITY),
            list,
            Value::String("x".into()),
        ];
        let mut results = Results::create(&folder).unwrap();
        results.add("f", &outputs).unwrap();
        results.finish().unwrap();

        let mut document: Json =
            serde_json::from_slice(&std::fs::read(folder.join("outputs.json")).unwrap()).unwrap();
        assert_eq!(document["format"], "et-outputs");
        document["runs"][0]["inputs"] = json!([]);
        let calls = folder.join("calls.json");
        std::fs::write(&calls, document.to_string()).unwrap();
        let call = Calls::read(&calls).unwrap().runs.remove(0);
        let read: Vec<Value> = call
            .outputs
            .unwrap()
            .iter()
            .map(|item| item.load(None).unwrap())
            .collect();
        assert_eq!(read, outputs);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_a_failure() {
        assert!(Results::create(Path::new("Cargo.toml/x")).is_err());
    }
}
