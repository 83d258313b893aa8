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
    source: Box<dyn DataSource>,
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
        Ok(Self(Arc::new(Inner {
            verified,
            source: Box::new(source),
        })))
    }

    /// The names, in file order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.verified.root().entries().map(|entry| entry.key)
    }

    fn bytes(&self, key: &str) -> Result<Option<SharedBytes>, Error> {
        let root = self.0.verified.root();
        let Some(entry) = root.entry(key) else {
            return Ok(None);
        };
        let Some(range) = root.segment_range(entry.segment_index) else {
            return Ok(None);
        };
        Ok(Some(self.0.source.load(range?)?))
    }

    fn layout(&self, key: &str) -> Option<TensorMeta> {
        meta_of(&self.0.verified.root().entry(key)?.layout?)
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
    pub(crate) files: &'a DataFiles,
    pub(crate) program: &'a Program,
    pub(crate) outer: &'a dyn NamedData,
}

impl MethodData<'_> {
    /// No name may be both in a data file and in the program: which one is meant?
    pub(crate) fn check_duplicates(&self) -> Result<(), Error> {
        let mut names = self.program.view().named_data().map(|entry| entry.key);
        match names.find(|name| self.files.owners.contains_key(*name)) {
            Some(name) => Err(ErrorKind::DuplicateData {
                name: name.to_owned(),
            }
            .into()),
            None => Ok(()),
        }
    }

    fn segment_of(&self, key: &str) -> Option<u32> {
        self.program
            .view()
            .named_data()
            .find(|entry| entry.key == key)
            .map(|entry| entry.segment_index)
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
        match self.segment_of(key) {
            Some(segment) => self.program.segment(segment).map(Some).map_err(failed),
            None => self.outer.bytes(key),
        }
    }

    fn layout(&self, key: &str) -> Option<TensorMeta> {
        match self.files.owner(key) {
            Some(file) => file.layout(key),
            None if self.segment_of(key).is_some() => None,
            None => self.outer.layout(key),
        }
    }

    fn keys(&self) -> Vec<String> {
        let own = self
            .program
            .view()
            .named_data()
            .map(|entry| entry.key.to_owned())
            .collect::<Vec<_>>();
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
