//! Bytes by name: data files (`.ptd`), and a program's own named data.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use et_kernel::{NamedData, NamedDataError, ScalarType, SharedBytes, TensorMeta};
use et_schema::{TensorLayoutView, VerifiedFlatTensor};

use crate::error::ErrorKind;
use crate::source::{DataSource, FileSource, MemorySource};
use crate::{Error, Program};

/// A verified data file: tensors and other bytes by name. Cheap to clone.
#[derive(Clone)]
pub struct DataFile(Arc<Inner>);

struct Inner {
    verified: VerifiedFlatTensor,
    /// What there is of each name; the first, if the file has it twice.
    entries: BTreeMap<String, Entry>,
    source: Box<dyn DataSource>,
}

struct Entry {
    segment: u32,
    layout: Option<TensorMeta>,
}

impl DataFile {
    /// Loads a data file. Tensors are read when they are asked for.
    ///
    /// # Errors
    /// [`ErrorKind::Open`], [`ErrorKind::Read`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::load(FileSource::open(path)?).map_err(|error| error.in_file(path))
    }

    /// Loads a data file that is in memory.
    ///
    /// # Errors
    /// [`ErrorKind::Read`].
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Self, Error> {
        Self::load(MemorySource::new(bytes))
    }

    /// Loads a data file from any source.
    ///
    /// # Errors
    /// [`ErrorKind::Read`].
    pub fn load(source: impl DataSource + 'static) -> Result<Self, Error> {
        let verified = VerifiedFlatTensor::read(&source)?;
        let mut entries = BTreeMap::new();
        for entry in verified.root().entries() {
            entries
                .entry(entry.key.to_owned())
                .or_insert_with(|| Entry {
                    segment: entry.segment_index,
                    layout: entry.layout.as_ref().and_then(meta_of),
                });
        }
        Ok(Self(Arc::new(Inner {
            verified,
            entries,
            source: Box::new(source),
        })))
    }

    /// The names, in file order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.verified.root().entries().map(|entry| entry.key)
    }

    fn bytes(&self, key: &str) -> Result<Option<SharedBytes>, Error> {
        let Some(entry) = self.0.entries.get(key) else {
            return Ok(None);
        };
        let Some(range) = self.0.verified.root().segment_range(entry.segment) else {
            return Ok(None);
        };
        Ok(Some(self.0.source.load(range?)?))
    }

    fn layout(&self, key: &str) -> Option<TensorMeta> {
        self.0.entries.get(key)?.layout.clone()
    }
}

impl std::fmt::Debug for DataFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DataFile")
            .field(&self.keys().collect::<Vec<_>>())
            .finish()
    }
}

fn meta_of(layout: &TensorLayoutView<'_>) -> Option<TensorMeta> {
    let dtype = ScalarType::from_raw(layout.scalar_type()?.code())?;
    let sizes: Option<Vec<usize>> = layout
        .sizes()
        .iter()
        .map(|size| usize::try_from(size).ok())
        .collect();
    TensorMeta::new(dtype, &sizes?, layout.dim_order()).ok()
}

/// Data files that a program's external tensors are looked up in. No name may be in two of them.
#[derive(Clone, Debug, Default)]
pub struct DataFiles {
    files: Vec<DataFile>,
    owners: BTreeMap<String, usize>,
}

impl DataFiles {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateData`] if one of its names is in another file; nothing is added then.
    pub fn add(&mut self, file: DataFile) -> Result<(), Error> {
        if let Some(name) = file.keys().find(|key| self.owners.contains_key(*key)) {
            return Err(ErrorKind::DuplicateData {
                name: name.to_owned(),
            }
            .into());
        }
        for key in file.keys() {
            self.owners.insert(key.to_owned(), self.files.len());
        }
        self.files.push(file);
        Ok(())
    }

    fn owner(&self, key: &str) -> Option<&DataFile> {
        self.files.get(*self.owners.get(key)?)
    }
}

/// No data at all.
pub(crate) struct NoData;

impl NamedData for NoData {
    fn bytes(&self, _key: &str) -> Result<Option<SharedBytes>, NamedDataError> {
        Ok(None)
    }

    fn layout(&self, _key: &str) -> Option<TensorMeta> {
        None
    }

    fn keys(&self) -> Vec<String> {
        Vec::new()
    }
}

/// All named data that a method can see: data files first, then its program's own, then what its surroundings have.
pub(crate) struct MethodData<'a> {
    files: &'a DataFiles,
    program: &'a Program,
    /// The segment of each of the program's own names; the first, if it has one twice.
    segments: BTreeMap<&'a str, u32>,
    outer: &'a dyn NamedData,
}

impl<'a> MethodData<'a> {
    pub(crate) fn new(
        files: &'a DataFiles,
        program: &'a Program,
        outer: &'a dyn NamedData,
    ) -> Self {
        let mut segments = BTreeMap::new();
        for entry in program.view().named_data() {
            segments.entry(entry.key).or_insert(entry.segment_index);
        }
        Self {
            files,
            program,
            segments,
            outer,
        }
    }

    /// No name may be both in a data file and in the program: which one is meant?
    pub(crate) fn check_duplicates(&self) -> Result<(), Error> {
        let twice = self
            .segments
            .keys()
            .find(|name| self.files.owners.contains_key(**name));
        match twice {
            Some(name) => Err(ErrorKind::DuplicateData {
                name: (*name).to_owned(),
            }
            .into()),
            None => Ok(()),
        }
    }
}

impl NamedData for MethodData<'_> {
    fn bytes(&self, key: &str) -> Result<Option<SharedBytes>, NamedDataError> {
        let failed = |error: Error| NamedDataError {
            key: key.to_owned(),
            source: Box::new(error),
        };
        if let Some(file) = self.files.owner(key) {
            return file.bytes(key).map_err(failed);
        }
        match self.segments.get(key) {
            Some(&segment) => self.program.segment(segment).map(Some).map_err(failed),
            None => self.outer.bytes(key),
        }
    }

    fn layout(&self, key: &str) -> Option<TensorMeta> {
        match self.files.owner(key) {
            Some(file) => file.layout(key),
            None if self.segments.contains_key(key) => None,
            None => self.outer.layout(key),
        }
    }

    fn keys(&self) -> Vec<String> {
        let own = self.segments.keys().map(|key| (*key).to_owned());
        let mut keys: Vec<String> = self
            .files
            .owners
            .keys()
            .cloned()
            .chain(own)
            .chain(self.outer.keys())
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}
