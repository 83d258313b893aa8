//! Where a program's bytes come from.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use et_kernel::SharedBytes;
use et_schema::{AlignedBytes, ByteSource, SourceError};

use crate::Error;
use crate::error::ErrorKind;

/// Bytes that segments are loaded from, at any time and from any thread, for as long as a program needs them.
pub trait DataSource: ByteSource + Send + Sync {
    /// The bytes in `range`: a part of what is in memory already, or a new block.
    ///
    /// # Errors
    /// As [`ByteSource::read_at`], or if there is no memory for them.
    fn load(&self, range: Range<u64>) -> Result<SharedBytes, SourceError> {
        read_block(self, range)
    }
}

/// A file's bytes, all in memory.
#[derive(Clone, Debug)]
pub struct MemorySource(SharedBytes);

impl MemorySource {
    /// These bytes. They are used where they are, without a copy; constants that are not aligned there are copied one by one.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(SharedBytes::new(bytes))
    }
}

impl ByteSource for MemorySource {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        (*self.0).read_at(offset, into)
    }
}

impl DataSource for MemorySource {
    fn load(&self, range: Range<u64>) -> Result<SharedBytes, SourceError> {
        let part = || {
            self.0
                .slice(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
        };
        part().ok_or(SourceError::OutOfRange {
            offset: range.start,
            nbytes: range.end.saturating_sub(range.start),
            len: self.len(),
        })
    }
}

/// A file that is read at need: the FlatBuffer part once, and then each segment that is used.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
}

impl FileSource {
    /// Opens a file.
    ///
    /// # Errors
    /// [`ErrorKind::Open`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let open = || {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            let len = metadata.len();
            Ok(Self { file, len })
        };
        open().map_err(|error| Error::from(ErrorKind::Open(error)).in_file(path))
    }
}

impl ByteSource for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        let nbytes = into.len() as u64;
        if offset.checked_add(nbytes).is_none_or(|end| end > self.len) {
            return Err(SourceError::OutOfRange {
                offset,
                nbytes,
                len: self.len,
            });
        }
        read_exact_at(&self.file, into, offset).map_err(|error| SourceError::Failed {
            offset,
            nbytes,
            reason: error.to_string(),
        })
    }
}

impl DataSource for FileSource {}

/// Reads `range` of a source into a block of its own, aligned for any element.
fn read_block<S: ByteSource + ?Sized>(
    source: &S,
    range: Range<u64>,
) -> Result<SharedBytes, SourceError> {
    let nbytes = range.end.saturating_sub(range.start);
    let outside = SourceError::OutOfRange {
        offset: range.start,
        nbytes,
        len: source.len(),
    };
    if range
        .start
        .checked_add(nbytes)
        .is_none_or(|end| end > source.len())
    {
        return Err(outside);
    }
    let mut block = AlignedBytes::zeroed(nbytes).map_err(|error| SourceError::Failed {
        offset: range.start,
        nbytes,
        reason: error.to_string(),
    })?;
    source.read_at(range.start, block.as_mut_slice())?;
    Ok(SharedBytes::new(Block(block)))
}

struct Block(AlignedBytes);

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !into.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, into, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        into = &mut into[count..];
        offset += count as u64;
    }
    Ok(())
}
