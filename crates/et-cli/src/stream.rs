//! Writing to stdout and stderr: a reader that went away ends the output quietly.

use crate::failure::{Blame, Failure};
use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes the whole result of a command to stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write_all(&mut io::stdout().lock(), text)
}

fn write_all(out: &mut impl Write, text: &str) -> Result<(), Failure> {
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What came of writing to stdout; a reader that went away is no failure.
pub(crate) fn printed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Blame::Environment,
            "io",
            format!("cannot write to stdout: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Writes one line of diagnostics to stderr.
pub(crate) fn note(text: Arguments<'_>) {
    // There is nowhere left to tell that stderr is gone.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        assert!(write_all(&mut Broken(io::ErrorKind::BrokenPipe), "x").is_ok());
    }

    #[test]
    fn a_full_disk_is_a_failure_of_the_environment() {
        let failure = write_all(&mut Broken(io::ErrorKind::StorageFull), "x").unwrap_err();
        assert_eq!(failure.blame, Blame::Environment);
    }
}
