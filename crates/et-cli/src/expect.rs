//! A folder of recorded outputs, and how close the outputs of a run come to them.

use crate::calls::{self, Call, Calls, Item};
use crate::compare::{Closeness, Mismatch, Tolerances, compare};
use crate::failure::Failure;
use crate::value::{Tensor, Value};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

/// The documents that may tell the outputs of a folder, the first there counts: of a recorded case, and what
/// `--output-dir` writes.
const DOCUMENTS: [&str; 2] = ["meta.json", "outputs.json"];

/// Recorded outputs: from the document of calls in the folder, or else from its `.npy` files alone.
#[derive(Debug)]
pub(crate) struct Expectation {
    folder: PathBuf,
    recorded: Option<Recorded>,
}

/// The calls that a document tells of.
#[derive(Debug)]
struct Recorded {
    document: PathBuf,
    calls: Vec<Call>,
}

/// One output beside what was recorded for it.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The call, from 0.
    pub(crate) run: usize,
    /// The output of that call, from 0.
    pub(crate) output: usize,
    /// How close it is, or how it differs.
    pub(crate) result: Result<Closeness, Mismatch>,
}

impl Expectation {
    /// Opens a folder; one of the [`DOCUMENTS`] in it is used where there is one.
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        let found = std::fs::metadata(folder)
            .map_err(|error| Failure::io("open the folder", folder, &error))?;
        if !found.is_dir() {
            return Err(Failure::usage(format!(
                "{} is not a folder",
                folder.display()
            )));
        }
        let documents = DOCUMENTS.map(|name| folder.join(name)).into_iter();
        let recorded = documents
            .filter(|document| document.is_file())
            .map(|document| {
                let calls = Calls::read_outputs(&document)?.runs;
                Ok::<_, Failure>(Recorded { document, calls })
            })
            .next()
            .transpose()?;
        Ok(Self {
            folder: folder.into(),
            recorded,
        })
    }

    /// Compares the outputs of one call with what was recorded for it.
    pub(crate) fn compare(
        &self,
        run: usize,
        method: &str,
        outputs: &[Value],
        tolerances: &Tolerances,
    ) -> Result<Vec<Comparison>, Failure> {
        let expected = self.outputs(run, method, outputs)?;
        let pairs = outputs.iter().zip(&expected).enumerate();
        let comparisons = pairs.filter_map(|(output, (found, expected))| {
            let result = compare(found, expected.as_ref()?, tolerances);
            Some(Comparison {
                run,
                output,
                result,
            })
        });
        Ok(comparisons.collect())
    }

    /// What is expected of one call, an entry per output; `None` where nothing is recorded.
    fn outputs(
        &self,
        run: usize,
        method: &str,
        outputs: &[Value],
    ) -> Result<Vec<Option<Value>>, Failure> {
        let Some(Recorded { document, calls }) = &self.recorded else {
            let output = |(index, value): (usize, &Value)| self.file_of(run, index, value);
            return outputs.iter().enumerate().map(output).collect();
        };
        let items = recorded_items(calls, run, method, outputs.len())
            .map_err(|problem| format!("{}: {problem}", document.display()))
            .map_err(|message| Failure::file("expect.calls", message))?;
        items.iter().map(|item| item.load(None).map(Some)).collect()
    }

    /// The file that holds an output of a call, by the naming of recorded cases.
    fn file_of(&self, run: usize, index: usize, value: &Value) -> Result<Option<Value>, Failure> {
        let Value::Tensor(Tensor { scalar_type, .. }) = value else {
            return Ok(None);
        };
        let run = if run == 0 {
            String::new()
        } else {
            format!("r{run}_")
        };
        let file = self.folder.join(format!("{run}out_{index}.npy"));
        calls::read_tensor(&file, Some(*scalar_type)).map(|tensor| Some(Value::Tensor(tensor)))
    }
}

fn recorded_items<'a>(
    calls: &'a [Call],
    run: usize,
    method: &str,
    count: usize,
) -> Result<&'a [Item], String> {
    let call = calls
        .get(run)
        .ok_or_else(|| format!("no run {run} is recorded"))?;
    if call.method != method {
        return Err(format!(
            "run {run} is recorded of {}, not of {method}",
            call.method
        ));
    }
    let items = call.outputs.as_deref();
    let items = items.ok_or_else(|| format!("runs[{run}] has no outputs"))?;
    if items.len() != count {
        let recorded = items.len();
        return Err(format!(
            "run {run}: {recorded} outputs are recorded, {count} were made"
        ));
    }
    Ok(items)
}

/// The comparisons of all calls as one JSON object.
///
/// `unrecorded` outputs were made of which nothing is recorded.
pub(crate) fn summary(comparisons: &[Comparison], unrecorded: usize) -> Json {
    let mut worst = Closeness::default();
    let mut mismatches = Vec::new();
    for comparison in comparisons {
        match &comparison.result {
            Ok(closeness) => worst = worst.or_worse(*closeness),
            Err(mismatch) => {
                worst = worst.or_worse(mismatch.closeness().unwrap_or_default());
                mismatches.push(json!({
                    "run": comparison.run,
                    "output": comparison.output,
                    "message": mismatch.to_string(),
                }));
            }
        }
    }
    json!({
        "outputs": comparisons.len(),
        "not_recorded": unrecorded,
        "worst_difference": worst.difference,
        "worst_relative_difference": worst.relative,
        "mismatches": mismatches,
    })
}

/// The failure that comparisons amount to, if one output differs or there was nothing to compare.
pub(crate) fn failure(comparisons: &[Comparison]) -> Option<Failure> {
    if comparisons.is_empty() {
        let message = "nothing was compared: no output of these calls is recorded";
        return Some(Failure::file("expect.nothing", message));
    }
    let mut bad = comparisons.iter().filter_map(|comparison| {
        let mismatch = comparison.result.as_ref().err()?;
        Some((comparison.run, comparison.output, mismatch))
    });
    let (run, output, mismatch) = bad.next()?;
    let more = match bad.count() {
        0 => String::new(),
        count => format!(" ({count} more outputs differ)"),
    };
    let message = format!("run {run}, output {output}: {mismatch}{more}");
    Some(Failure::file("expect.mismatch", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::{self, Dtype};
    use et_schema::ScalarType;

    fn bytes(values: &[u8]) -> Value {
        let sizes = vec![values.len()];
        let scalar_type = ScalarType::Byte;
        Value::Tensor(Tensor {
            scalar_type,
            sizes,
            bytes: values.to_vec(),
        })
    }

    fn folder(meta: Option<&str>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, value| {
            std::fs::write(
                dir.path().join(name),
                npy::encode(Dtype::UInt8, &[1], &[value]).unwrap(),
            )
            .unwrap();
        };
        write("out_0.npy", 1);
        write("r1_out_0.npy", 2);
        if let Some(meta) = meta {
            std::fs::write(dir.path().join("meta.json"), meta).unwrap();
        }
        dir
    }

    fn compare_in(
        folder: &tempfile::TempDir,
        run: usize,
        outputs: &[Value],
    ) -> Result<Vec<Comparison>, Failure> {
        let expectation = Expectation::open(folder.path())?;
        expectation.compare(run, "f", outputs, &Tolerances::default())
    }

    const META: &str = r#"{"runs": [{"method": "f", "inputs": [], "outputs": [
        {"kind": "tensor", "file": "out_0.npy"}, {"kind": "int", "value": 3}]}]}"#;

    #[test]
    fn files_alone_are_found_by_their_names() {
        let folder = folder(None);
        let first = compare_in(&folder, 0, &[bytes(&[1]), Value::None]).unwrap();
        assert_eq!(first.len(), 1);
        assert!(failure(&first).is_none());
        let second = compare_in(&folder, 1, &[bytes(&[1])]).unwrap();
        let failure = failure(&second).unwrap();
        assert_eq!(failure.id, "expect.mismatch");
        assert!(
            failure
                .message
                .starts_with("run 1, output 0: at [0] expected 2, found 1")
        );
    }

    #[test]
    fn a_missing_file_is_a_failure() {
        let failure = compare_in(&folder(None), 7, &[bytes(&[1])]).unwrap_err();
        assert!(
            failure.message.contains("r7_out_0.npy"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn a_document_covers_scalars_too() {
        let folder = folder(Some(META));
        let good = compare_in(&folder, 0, &[bytes(&[1]), Value::Int(3)]).unwrap();
        assert_eq!(summary(&good, 0)["outputs"], 2);
        assert!(failure(&good).is_none());
        let bad = compare_in(&folder, 0, &[bytes(&[9]), Value::Int(4)]).unwrap();
        assert!(
            failure(&bad)
                .unwrap()
                .message
                .ends_with("(1 more outputs differ)")
        );
        assert_eq!(summary(&bad, 0)["mismatches"][1]["output"], 1);
    }

    #[test]
    fn calls_that_are_not_the_recorded_ones_are_refused() {
        let folder = folder(Some(META));
        let message =
            |run, outputs: &[Value]| compare_in(&folder, run, outputs).unwrap_err().message;
        assert!(message(1, &[]).ends_with("no run 1 is recorded"));
        assert!(message(0, &[Value::None]).ends_with("2 outputs are recorded, 1 were made"));
        let other = Expectation::open(folder.path()).unwrap();
        assert!(other.compare(0, "g", &[], &Tolerances::default()).is_err());
    }

    #[test]
    fn nothing_to_compare_is_a_failure() {
        assert_eq!(failure(&[]).unwrap().id, "expect.nothing");
    }

    #[test]
    fn a_missing_folder_is_a_failure() {
        assert!(Expectation::open(Path::new("no/such/folder")).is_err());
        assert!(Expectation::open(Path::new("Cargo.toml")).is_err());
    }
}
