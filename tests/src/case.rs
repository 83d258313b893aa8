//! Recorded cases: a program, calls, and the answers that are right.

use std::path::{Path, PathBuf};

use et_kernel::{Environment, ScalarType};
use et_module::{DataFile, Error, Module, ModuleOptions, Program, Value};
use serde_json::Value as Json;

use crate::{compare, npy};

/// A folder with a program, its inputs and its expected outputs.
#[derive(Clone, Debug)]
pub struct Case {
    /// The folder's name.
    pub name: String,
    /// What was recorded.
    pub meta: Json,
    dir: PathBuf,
}

/// One call of a case.
#[derive(Debug)]
pub struct Run {
    /// The method.
    pub method: String,
    /// Its inputs.
    pub inputs: Vec<Value>,
    /// What it gives.
    pub outputs: Vec<Value>,
    quantised: bool,
}

impl Case {
    /// All recorded cases: those of the repository, or of the collection beside it where that is.
    pub fn all() -> Vec<Self> {
        let beside = workspace().join("../shared/corpus");
        if beside.is_dir() {
            return Self::all_in(&beside);
        }
        Self::fixtures()
    }

    /// The cases that are part of the repository.
    pub fn fixtures() -> Vec<Self> {
        Self::all_in(&workspace().join("tests/fixtures"))
    }

    fn all_in(dir: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let mut cases: Vec<Self> = entries
            .map(|entry| {
                entry
                    .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
                    .path()
            })
            .filter(|path| path.is_dir())
            .map(|path| Self::open(&path))
            .collect();
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(!cases.is_empty(), "no case in {}", dir.display());
        cases
    }

    /// A case of the repository.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn fixture(name: &str) -> Self {
        Self::open(&workspace().join("tests/fixtures").join(name))
    }

    /// A case that is not whole must not go missing.
    fn open(dir: &Path) -> Self {
        let path = dir.join("meta.json");
        let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let meta = serde_json::from_slice(&text);
        let name = dir.file_name().expect("a case is a folder with a name");
        Self {
            name: name.to_string_lossy().into_owned(),
            meta: meta.unwrap_or_else(|e| panic!("{}: {e}", path.display())),
            dir: dir.to_owned(),
        }
    }

    /// The program file.
    pub fn path(&self) -> PathBuf {
        self.dir.join("model.pte")
    }

    /// The data files.
    pub fn data_paths(&self) -> Vec<PathBuf> {
        let files = self.meta["files"].as_object();
        let names = files.into_iter().flatten().map(|(name, _)| name);
        names
            .filter(|name| name.ends_with(".ptd"))
            .map(|name| self.dir.join(name))
            .collect()
    }

    /// Whether device memory was recorded for it.
    pub fn uses_devices(&self) -> bool {
        self.meta["tags"]
            .as_array()
            .is_some_and(|tags| tags.iter().any(|tag| tag == "device"))
    }

    /// The operators of its methods and of the programs nested in them, as recorded.
    pub fn operators(&self) -> Vec<String> {
        let nested = self.meta["nested_programs"]
            .as_object()
            .into_iter()
            .flatten();
        let programs = nested
            .map(|(_, program)| program)
            .chain([&self.meta["program"]]);
        let mut names: Vec<String> = programs.flat_map(operators_of).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether its methods share state, which takes shared arenas.
    pub fn shares_state(&self) -> bool {
        self.name == "mut_shared_methods"
    }

    /// A module for the program, with its data files and options.
    ///
    /// # Errors
    /// As for [`Program::open`] and [`Module::add_data`].
    pub fn module(&self, environment: &Environment) -> Result<Module, Error> {
        let mut module = Module::new(Program::open(self.path())?, environment.clone());
        for path in self.data_paths() {
            module.add_data(DataFile::open(path)?)?;
        }
        let mut options = ModuleOptions::default();
        options.share_arenas = self.shares_state();
        module.set_options(options);
        Ok(module)
    }

    /// The calls, in order.
    ///
    /// # Panics
    /// If the record is damaged.
    pub fn runs(&self) -> Vec<Run> {
        let runs = self.meta["runs"].as_array().expect("a list of runs");
        runs.iter().map(|run| self.run(run)).collect()
    }

    fn run(&self, run: &Json) -> Run {
        let values = |key: &str| -> Vec<Value> {
            let list = run[key].as_array().expect("a list of values");
            list.iter().map(|item| self.value(item)).collect()
        };
        Run {
            method: run["method"].as_str().expect("a method's name").to_owned(),
            inputs: values("inputs"),
            outputs: values("outputs"),
            quantised: self.name.starts_with("quant"),
        }
    }

    fn value(&self, item: &Json) -> Value {
        let value = &item["value"];
        match item["kind"].as_str().unwrap_or_default() {
            "none" => Value::None,
            "int" => Value::Int(value.as_i64().expect("a whole number")),
            "double" => Value::Double(value.as_f64().expect("a number")),
            "bool" => Value::Bool(value.as_bool().expect("a truth value")),
            "string" => Value::Str(value.as_str().expect("a text").to_owned()),
            "tensor" => {
                let name = item["scalar_type"].as_str().unwrap_or_default();
                let dtype = et_schema::ScalarType::from_name(name)
                    .and_then(|dtype| ScalarType::from_raw(dtype.code()))
                    .unwrap_or_else(|| panic!("element type {name}"));
                let file = item["file"].as_str().expect("a file's name");
                npy::read(&self.dir.join(file), dtype).into()
            }
            other => panic!("a value of kind {other:?}"),
        }
    }
}

impl Run {
    /// The first output that is not as recorded, and how.
    pub fn difference(&self, outputs: &[Value]) -> Option<String> {
        if outputs.len() != self.outputs.len() {
            let (found, expected) = (outputs.len(), self.outputs.len());
            return Some(format!("{found} outputs, expected {expected}"));
        }
        let mut pairs = outputs.iter().zip(&self.outputs).enumerate();
        pairs.find_map(|(index, (got, expected))| {
            let difference = compare::difference(got, expected, self.quantised)?;
            Some(format!("output {index} of {}: {difference}", self.method))
        })
    }
}

/// Every operator that is named anywhere in a recorded program.
fn operators_of(program: &Json) -> Vec<String> {
    match program {
        Json::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| match (key.as_str(), value) {
                ("operators", Json::Array(names)) => {
                    names.iter().filter_map(operator_name).collect()
                }
                ("operators", Json::Object(names)) => names.keys().cloned().collect(),
                _ => operators_of(value),
            })
            .collect(),
        Json::Array(items) => items.iter().flat_map(operators_of).collect(),
        _ => Vec::new(),
    }
}

fn operator_name(operator: &Json) -> Option<String> {
    operator
        .as_str()
        .or_else(|| operator["name"].as_str())
        .map(str::to_owned)
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
