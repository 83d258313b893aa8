//! Tensor data files: alone, and beside the program that needs them.

use crate::failure::Failure;
use crate::render::{self, Section};
use crate::source::Source;
use et_schema::summary::{FlatTensorSummary, NamedTensorSummary};
use et_schema::{ParsedFlatTensor, Problems, ProgramView, TensorLocation};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A tensor data file that was read.
pub(super) struct DataFile {
    name: String,
    summary: FlatTensorSummary,
    problems: Problems,
}

impl DataFile {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        Self::read(&Source::open(path)?)
    }

    /// Reads a file that was opened.
    pub(super) fn read(source: &Source) -> Result<Self, Failure> {
        let parsed = ParsedFlatTensor::read(source).map_err(|error| source.refused(&error))?;
        let problems = parsed.problems();
        Ok(Self {
            name: source.name(),
            summary: FlatTensorSummary::new(&parsed),
            problems,
        })
    }

    /// What is wrong with the file.
    pub(super) fn problems(&self) -> &Problems {
        &self.problems
    }

    /// The first line about the file.
    pub(super) fn headline(&self) -> String {
        let count = render::count(self.summary.named_data.len() as u64, "named block");
        let nbytes = render::bytes(self.summary.segment_data_size);
        format!("{}: tensor data, {count}, {nbytes} of data\n", self.name)
    }

    /// The names with what they hold.
    pub(super) fn section(&self) -> Section {
        let mut section = Section::new("data", &["name", "type", "sizes", ">bytes", ">segment"]);
        for entry in &self.summary.named_data {
            let layout = entry.tensor_layout.as_ref();
            section.row([
                render::name(&entry.key),
                layout.map_or_else(|| "-".into(), |layout| layout.scalar_type.clone()),
                layout.map_or_else(|| "-".into(), |layout| format!("{:?}", layout.sizes)),
                entry
                    .nbytes
                    .map_or_else(|| "?".into(), |nbytes| nbytes.to_string()),
                entry.segment_index.to_string(),
            ]);
        }
        section
    }

    /// The file as an object of a document.
    pub(super) fn to_json(&self) -> Json {
        let summary = serde_json::to_value(&self.summary);
        let mut summary = summary.expect("invariant: a summary's keys are field names");
        summary["file"] = self.name.as_str().into();
        summary
    }

    fn entry(&self, key: &str) -> Option<&NamedTensorSummary> {
        self.summary
            .named_data
            .iter()
            .find(|entry| entry.key == key)
    }
}

/// The tensors that a program keeps elsewhere, and the file that has each.
pub(super) struct External<'a> {
    owners: BTreeMap<String, Option<(&'a DataFile, &'a NamedTensorSummary)>>,
}

impl<'a> External<'a> {
    /// Looks for the program's external tensors.
    pub(super) fn find(program: &ProgramView<'_>, files: &'a [DataFile]) -> Self {
        let names: BTreeSet<&str> = program
            .plans()
            .flat_map(|plan| plan.values())
            .filter_map(|value| value.as_tensor())
            .filter(|tensor| tensor.location() == TensorLocation::External)
            .filter_map(|tensor| tensor.fully_qualified_name())
            .collect();
        let owner = |name: &str| {
            files
                .iter()
                .find_map(|file| Some((file, file.entry(name)?)))
        };
        Self {
            owners: names
                .into_iter()
                .map(|name| (name.into(), owner(name)))
                .collect(),
        }
    }

    /// The tensors as a table.
    pub(super) fn section(&self) -> Section {
        let mut section = Section::new("external data", &["name", "file", ">bytes"]);
        for (name, owner) in &self.owners {
            let [file, nbytes] = match owner {
                Some((file, entry)) => [
                    file.name.clone(),
                    entry
                        .nbytes
                        .map_or_else(|| "?".into(), |nbytes| nbytes.to_string()),
                ],
                None => ["in no file given".into(), "-".into()],
            };
            section.row([render::name(name), file, nbytes]);
        }
        section
    }

    /// The tensors as a list of a document.
    pub(super) fn to_json(&self) -> Json {
        let entry = |(name, owner): (&String, &Option<(&DataFile, &NamedTensorSummary)>)| {
            json!({
                "name": name,
                "file": owner.map(|(file, _)| file.name.as_str()),
                "nbytes": owner.and_then(|(_, entry)| entry.nbytes),
            })
        };
        self.owners.iter().map(entry).collect()
    }
}
