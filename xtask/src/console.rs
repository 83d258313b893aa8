//! What the commands print. A closed pipe ends the printing, not the command.

use comfy_table::{Table, presets};
use std::fmt::Arguments;
use std::io::{IsTerminal, Write, stderr, stdout};

/// Prints one line on stdout.
pub(crate) fn line(text: Arguments<'_>) {
    // A reader that went away must not change the result of a check.
    let _ = writeln!(stdout(), "{text}");
}

/// A table as text: no lines, no padding at the ends.
pub(crate) fn plain(table: &mut Table) -> String {
    table.load_style(presets::NOTHING);
    let lines: Vec<String> = table
        .lines()
        .map(|line| {
            line.strip_prefix(' ')
                .unwrap_or(&line)
                .trim_end()
                .to_owned()
        })
        .collect();
    lines.join("\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_no_padding_at_the_ends() {
        let mut table = Table::new();
        table.set_header(["a", "b"]).add_row(["long", ""]);
        assert_eq!(plain(&mut table), "a     b\nlong");
    }
}
