//! The C++ runtime on this machine: a Python environment with its wheel, made by `benches/peer/setup.sh`.

use crate::{console, process, workspace};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the setup leaves in an environment that is ready.
const LIBRARY: &str = "libfake_device.so";

/// An environment that is ready.
pub(crate) struct Peer {
    python: PathBuf,
}

impl Peer {
    /// The environment that `PEER_VENV` names, or one in the target folder, made first if need be. `None`, said in one line, where
    /// there can be none.
    pub(crate) fn find(what: &str) -> Option<Self> {
        if let Some(dir) = std::env::var_os("PEER_VENV") {
            let ready = Self::ready(&workspace::root().join(dir));
            if ready.is_none() {
                skip(what, "PEER_VENV names no environment that is set up");
            }
            return ready;
        }
        let dir = workspace::target_dir().join("peer-venv");
        let mut setup = process::tool("bash");
        let output = setup
            .arg("benches/peer/setup.sh")
            .arg(&dir)
            .output()
            .map_err(|error| format!("bash does not start: {error}"))
            .and_then(|output| match output.status.success() {
                true => Ok(()),
                false => Err(last_line(&output.stderr)),
            });
        match output {
            Ok(()) => Self::ready(&dir),
            Err(reason) => {
                skip(what, &reason);
                None
            }
        }
    }

    fn ready(dir: &Path) -> Option<Self> {
        let python = dir.join("bin/python");
        (python.is_file() && dir.join(LIBRARY).is_file()).then_some(Self { python })
    }

    /// What one of the scripts in `benches/peer` prints.
    pub(crate) fn output(
        &self,
        script: &str,
        configure: impl FnOnce(&mut Command),
    ) -> Result<String> {
        let mut command = process::tool(&self.python.to_string_lossy());
        command.arg(workspace::root().join("benches/peer").join(script));
        configure(&mut command);
        process::output(&mut command)
    }
}

fn skip(what: &str, reason: &str) {
    console::line(format_args!(
        "{what}: skipped, as the C++ runtime cannot be set up: {reason}"
    ));
}

/// The last line that says something.
fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("no message").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_line_that_says_something() {
        assert_eq!(last_line(b"one\nno python3\n\n"), "no python3");
        assert_eq!(last_line(b""), "no message");
    }

    #[test]
    fn an_environment_without_the_library_is_not_ready() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::write(dir.path().join("bin/python"), "").unwrap();
        assert!(Peer::ready(dir.path()).is_none());
        std::fs::write(dir.path().join(LIBRARY), "").unwrap();
        assert!(Peer::ready(dir.path()).is_some());
    }
}
