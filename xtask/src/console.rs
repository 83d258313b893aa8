//! What the commands print. A closed pipe ends the printing, not the command.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write, stderr, stdout};

/// Prints one line on stdout.
pub(crate) fn line(text: Arguments<'_>) {
    // A reader that went away must not change the result of a check.
    let _ = writeln!(stdout(), "{text}");
}

/// Prints one line on stderr.
pub(crate) fn problem(text: Arguments<'_>) {
    // As above.
    let _ = writeln!(stderr(), "{text}");
}

/// Replaces the progress line on a terminal; prints nothing elsewhere.
pub(crate) fn progress(text: Arguments<'_>) {
    let mut out = stderr();
    if out.is_terminal() {
        // As above.
        let _ = write!(out, "\r\x1b[K{text}").and_then(|()| out.flush());
    }
}
