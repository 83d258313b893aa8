//! Writing a file so that it is either whole or as it was.

use crate::failure::{Blame, Failure};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// A new file that takes the place of another when it is complete.
#[derive(Debug)]
pub(crate) struct Replacement {
    target: PathBuf,
    out: Out,
}

#[derive(Debug)]
enum Out {
    /// Beside the target, until it is complete.
    Beside(BufWriter<NamedTempFile>),
    /// A pipe or a device: nothing can take its place.
    Through(BufWriter<File>),
}

impl Replacement {
    /// Starts a file; what is at `target` stays there until [`finish`](Self::finish).
    pub(crate) fn create(target: &Path) -> Result<Self, Failure> {
        let fault = |error| Failure::io("write", target, &error);
        // A link stays one; what it points to is replaced.
        let place = match target.canonicalize() {
            Ok(place) => place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => target.into(),
            Err(error) => return Err(fault(error)),
        };
        let out = open(&place).map_err(fault)?;
        Ok(Self { target: place, out })
    }

    /// What was written so far, to look at before it takes its place; `None` where it went through.
    pub(crate) fn written(&mut self) -> Result<Option<&Path>, Failure> {
        match &mut self.out {
            Out::Through(_) => Ok(None),
            Out::Beside(file) => {
                let flushed = file.flush();
                flushed.map_err(|error| Failure::io("write", &self.target, &error))?;
                Ok(Some(file.get_ref().path()))
            }
        }
    }

    /// Puts the file in its place.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let finished = match self.out {
            Out::Through(mut file) => file.flush(),
            Out::Beside(file) => persist(file, &self.target),
        };
        finished.map_err(|error| Failure::io("write", &self.target, &error))
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Beside(file) => file.write(bytes),
            Out::Through(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Beside(file) => file.flush(),
            Out::Through(file) => file.flush(),
        }
    }
}

/// Writes a whole file, or leaves it as it was.
pub(crate) fn write(target: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = Replacement::create(target)?;
    file.write_all(bytes)
        .map_err(|error| Failure::io("write", target, &error))?;
    file.finish()
}

/// Refuses standard output, by whatever name: results go to files, since it has the report.
pub(crate) fn check_target(target: &Path) -> Result<(), Failure> {
    match target == Path::new("-") || is_stdout(target) {
        true => Err(Failure::new(
            Blame::CommandLine,
            "usage",
            "the output must be a file; standard output has the report",
        )),
        false => Ok(()),
    }
}

#[cfg(unix)]
fn is_stdout(target: &Path) -> bool {
    use std::io::IsTerminal;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let stdout = io::stdout();
    let Ok(stdout_file) = stdout.as_fd().try_clone_to_owned().map(File::from) else {
        return false;
    };
    let (Ok(out), Ok(target)) = (stdout_file.metadata(), target.metadata()) else {
        return false;
    };
    // Where both are the null device nothing is mixed.
    let is_lost = out.file_type().is_char_device() && !stdout.is_terminal();
    (out.dev(), out.ino()) == (target.dev(), target.ino()) && !is_lost
}

/// No file has that name elsewhere.
#[cfg(not(unix))]
fn is_stdout(_: &Path) -> bool {
    false
}

/// Refuses results that would take the place of each other, or of what the command reads.
pub(crate) fn expect_apart<'a>(
    results: impl IntoIterator<Item = &'a Path>,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let mut taken: Vec<(PathBuf, &Path)> = read.into_iter().map(|it| (resolved(it), it)).collect();
    for result in results {
        let place = resolved(result);
        if let Some((_, other)) = taken.iter().find(|(taken, _)| *taken == place) {
            let (result, other) = (result.display(), other.display());
            return Err(Failure::usage(format!(
                "{result} would be written over {other}: choose another file for the result"
            )));
        }
        taken.push((place, result));
    }
    Ok(())
}

/// The path without links and dots, as far as it is there.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn open(place: &Path) -> io::Result<Out> {
    let before = place.metadata().ok();
    if before.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        let file = File::options().write(true).open(place)?;
        return Ok(Out::Through(BufWriter::new(file)));
    }
    let folder = match place.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // Its absence is told without the name that is made up below.
    folder.metadata()?;
    let mut builder = Builder::new();
    builder.prefix(".et-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As any other new file: the mask takes away from these.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(folder).map_err(without_path)?;
    if let Some(before) = before {
        file.as_file().set_permissions(before.permissions())?;
    }
    Ok(Out::Beside(BufWriter::new(file)))
}

/// The error itself, without the name that was made up for the file.
fn without_path(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|error| error.source());
    let inner = inner.and_then(|error| error.downcast_ref::<io::Error>());
    match inner.and_then(io::Error::raw_os_error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
}

fn persist(file: BufWriter<NamedTempFile>, target: &Path) -> io::Result<()> {
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    // Names must not reach the disk before bytes do.
    file.as_file().sync_all()?;
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect()
    }

    #[test]
    fn what_is_not_finished_leaves_the_target_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        write(&target, b"old").unwrap();
        let mut file = Replacement::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(
            std::fs::read(file.written().unwrap().unwrap()).unwrap(),
            b"new"
        );
        drop(file);
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        write(&target, b"newer").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"newer");
        assert_eq!(names(dir.path()), ["x"]);
    }

    #[cfg(unix)]
    #[test]
    fn permissions_and_links_stay() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("x"), dir.path().join("link"));
        write(&target, b"old").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(
            (std::fs::read(&target).unwrap(), mode(&target)),
            (b"new".to_vec(), 0o640)
        );
    }

    #[test]
    fn folders_are_no_targets() {
        let dir = tempfile::tempdir().unwrap();
        let failure = write(dir.path(), b"x").unwrap_err();
        assert_eq!(failure.blame, Blame::File);
        let failure = write(&dir.path().join("no/such"), b"x").unwrap_err();
        assert_eq!(failure.blame, Blame::File);
        assert!(!failure.message.contains(".et-"), "{}", failure.message);
        assert!(check_target(Path::new("-")).is_err());
        assert!(check_target(Path::new("x")).is_ok());
    }
}
