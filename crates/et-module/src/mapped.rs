//! Segments from a mapped file.
#![expect(
    unsafe_code,
    reason = "a mapping can change under its reader; the constructor says so"
)]

use std::fs::File;
use std::path::Path;

use et_kernel::SharedBytes;
use et_schema::{ByteSource, SourceError};
use memmap2::Mmap;

use crate::error::ErrorKind;
use crate::source::{DataSource, MemorySource};
use crate::{DataFile, Error, Program};

/// A file that is mapped into memory: segments are used where they are, and read from disk when they are first touched.
#[derive(Debug)]
pub struct MappedSource(MemorySource);

/// Whether mapped pages must stay in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageLock {
    /// Pages come and go as the system likes.
    #[default]
    None,
    /// All pages are locked, or opening fails.
    Required,
    /// All pages are locked if the system allows it.
    IfAllowed,
}

impl MappedSource {
    /// Maps a file.
    ///
    /// # Errors
    /// [`ErrorKind::Open`] if it cannot be opened, mapped or (if that is required) locked.
    ///
    /// # Safety
    /// As long as anything made from the source exists, nobody changes the file or makes it shorter: constants and delegate blobs
    /// are read from the mapping while programs run. (The FlatBuffer part is copied before it is verified, so what was checked
    /// stays as it was.)
    pub unsafe fn open(path: &Path, lock: PageLock) -> Result<Self, Error> {
        let opened = File::open(path).and_then(|file| {
            // SAFETY: the caller promises that the file stays as it is.
            let map = unsafe { Mmap::map(&file)? };
            match lock {
                PageLock::None => {}
                PageLock::Required => map_lock(&map)?,
                PageLock::IfAllowed => {
                    if let Err(error) = map_lock(&map) {
                        tracing::warn!(%error, "the mapped pages could not be locked");
                    }
                }
            }
            Ok(map)
        });
        let map = opened.map_err(|error| Error::from(ErrorKind::Open(error)).in_file(path))?;
        Ok(Self(MemorySource::new(map)))
    }
}

#[cfg(unix)]
fn map_lock(map: &Mmap) -> std::io::Result<()> {
    map.lock()
}

#[cfg(not(unix))]
fn map_lock(_map: &Mmap) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

impl ByteSource for MappedSource {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        self.0.read_at(offset, into)
    }
}

impl DataSource for MappedSource {
    fn load(&self, range: std::ops::Range<u64>) -> Result<SharedBytes, SourceError> {
        self.0.load(range)
    }
}

impl Program {
    /// Loads a program from a file whose segments are mapped.
    ///
    /// # Errors
    /// As [`Program::open`].
    ///
    /// # Safety
    /// As [`MappedSource::open`].
    pub unsafe fn open_mapped(path: impl AsRef<Path>, lock: PageLock) -> Result<Self, Error> {
        let path = path.as_ref();
        // SAFETY: passed on to the caller.
        let source = unsafe { MappedSource::open(path, lock)? };
        Self::load(source).map_err(|error| error.in_file(path))
    }
}

impl DataFile {
    /// Loads a data file that is mapped.
    ///
    /// # Errors
    /// As [`DataFile::open`].
    ///
    /// # Safety
    /// As [`MappedSource::open`].
    pub unsafe fn open_mapped(path: impl AsRef<Path>, lock: PageLock) -> Result<Self, Error> {
        let path = path.as_ref();
        // SAFETY: passed on to the caller.
        let source = unsafe { MappedSource::open(path, lock)? };
        Self::load(source).map_err(|error| error.in_file(path))
    }
}
