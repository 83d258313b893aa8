//! FILE arguments: a path that is read piece by piece, or `-` for standard input.

use crate::failure::{Blame, Failure};
use et_module::DataSource;
use et_schema::{ByteSource, FileKind, HEAD_LEN, ReadError, SourceError};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A file that was opened, or all of standard input. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Source(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Read at a position when asked for; the lock holds seek and read together.
    File { file: Mutex<File>, nbytes: u64 },
    /// What cannot be read at a position.
    Bytes(Vec<u8>),
}

impl Source {
    /// Opens a file; `-` reads standard input to its end.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let content = if path == Path::new("-") {
            read_stdin().map(Content::Bytes)
        } else {
            open_file(path)
        };
        let content = content.map_err(|error| Failure::io("read", path, &error))?;
        Ok(Self::new(path, content))
    }

    /// Bytes that stand in for a file.
    #[cfg(test)]
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self::new(Path::new("test"), Content::Bytes(bytes))
    }

    fn new(path: &Path, content: Content) -> Self {
        Self(Arc::new(Inner {
            path: path.into(),
            content,
        }))
    }

    /// The name to show: the path, or what standard input is called.
    pub(crate) fn name(&self) -> String {
        if self.0.path == Path::new("-") {
            return "standard input".into();
        }
        self.0.path.display().to_string()
    }

    /// The format that the file's identifier says.
    pub(crate) fn kind(&self) -> Option<FileKind> {
        let mut head = [0; HEAD_LEN];
        let there = ByteSource::len(self).min(HEAD_LEN as u64) as usize;
        self.read_at(0, &mut head[..there]).ok()?;
        FileKind::detect(&head[..there])
    }

    /// The failure that a refused file is.
    pub(crate) fn refused(&self, error: &ReadError) -> Failure {
        let blame = match error {
            ReadError::OutOfMemory(_) | ReadError::Source(SourceError::Failed { .. }) => {
                Blame::Environment
            }
            _ => Blame::File,
        };
        let failure = Failure::new(blame, error.id(), format!("{}: {error}", self.name()))
            .with("file", self.name())
            .with("code", error.code());
        match error.path() {
            Some(path) if !path.is_empty() => failure.with("path", path),
            _ => failure,
        }
    }
}

/// All bytes of a file, or of standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = if path == Path::new("-") {
        read_stdin()
    } else {
        read_file(path)
    };
    bytes.map_err(|error| Failure::io("read", path, &error))
}

/// Refuses a command line that names standard input twice: it can be read only once.
pub(crate) fn expect_one_stdin<'a>(
    files: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let files = files.into_iter();
    match files.filter(|path| **path == *Path::new("-")).count() {
        0 | 1 => Ok(()),
        _ => Err(Failure::usage(
            "`-` is given more than once, and standard input can be read only once",
        )),
    }
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let stdin = io::stdin().lock();
    #[cfg(unix)]
    if !io::IsTerminal::is_terminal(&stdin) {
        let stdin = File::from(std::os::fd::AsFd::as_fd(&stdin).try_clone_to_owned()?);
        expect_end(&stdin.metadata()?)?;
    }
    read_to_end(stdin)
}

fn read_to_end(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    expect_end(&file.metadata()?)?;
    read_to_end(file)
}

/// Refuses what has no end to read to, as `/dev/zero` and its like, which would fill all memory.
fn expect_end(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_char_device(&metadata.file_type()) {
        let error = "it is a device, not a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    Ok(())
}

fn open_file(path: &Path) -> io::Result<Content> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    expect_end(&metadata)?;
    if !metadata.is_file() {
        // A pipe: no length, no positions.
        return read_to_end(file).map(Content::Bytes);
    }
    Ok(Content::File {
        file: Mutex::new(file),
        nbytes: metadata.len(),
    })
}

/// Segments are read when a method needs them.
impl DataSource for Source {}

impl ByteSource for Source {
    fn len(&self) -> u64 {
        match &self.0.content {
            Content::File { nbytes, .. } => *nbytes,
            Content::Bytes(bytes) => ByteSource::len(bytes),
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        let (file, nbytes) = match &self.0.content {
            Content::Bytes(bytes) => return bytes.read_at(offset, into),
            Content::File { file, nbytes } => (file, *nbytes),
        };
        let wanted = into.len() as u64;
        if offset.checked_add(wanted).is_none_or(|end| end > nbytes) {
            return Err(SourceError::OutOfRange {
                offset,
                nbytes: wanted,
                len: nbytes,
            });
        }
        let mut file = file.lock().expect("invariant: reading does not panic");
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(into))
            .map_err(|error| SourceError::Failed {
                offset,
                nbytes: wanted,
                reason: error.to_string(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_never_ends_is_refused() {
        for path in ["/dev/zero", "/dev/full"] {
            let error = Source::open(Path::new(path)).unwrap_err();
            assert!(matches!(error.blame, Blame::File));
            assert!(read(Path::new(path)).is_err());
        }
    }

    #[test]
    fn a_file_is_read_at_a_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, [1, 2, 3, 4]).unwrap();
        let source = Source::open(&path).unwrap();
        let mut bytes = [0; 2];
        source.read_at(1, &mut bytes).unwrap();
        assert_eq!((ByteSource::len(&source), bytes), (4, [2, 3]));
        for offset in [3, 4, u64::MAX] {
            let error = source.read_at(offset, &mut bytes).unwrap_err();
            assert!(
                matches!(error, SourceError::OutOfRange { len: 4, .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, [1, 2, 3, 4]).unwrap();
        let source = Source::open(&path).unwrap();
        std::fs::write(&path, [1]).unwrap();
        let error = source.read_at(0, &mut [0; 4]).unwrap_err();
        assert!(matches!(error, SourceError::Failed { .. }), "{error}");
    }

    #[test]
    fn folders_and_missing_files_are_refused() {
        for path in [".", "no/such/file"] {
            assert_eq!(
                Source::open(Path::new(path)).unwrap_err().blame,
                Blame::File
            );
        }
    }
}
