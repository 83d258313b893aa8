//! How numbers, names and tables look to people.

use comfy_table::{CellAlignment, Table, presets};

/// Rows of a table that are shown before the rest is only counted.
pub(crate) const MAX_ROWS: usize = 50;
/// Characters of a name from a file that are shown.
const MAX_NAME: usize = 120;

/// A table without lines, indented by two, with a title above and a blank line behind.
#[derive(Debug)]
pub(crate) struct Section {
    title: String,
    table: Table,
    shown: usize,
    hidden: usize,
}

impl Section {
    /// A table with these column heads; a head that starts with `>` has its column on the right.
    pub(crate) fn new(title: &str, heads: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(heads.iter().map(|head| head.trim_start_matches('>')));
        for (index, head) in heads.iter().enumerate() {
            if head.starts_with('>')
                && let Some(column) = table.column_mut(index)
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self {
            title: title.into(),
            table,
            shown: 0,
            hidden: 0,
        }
    }

    /// Adds a row, or counts it where there are too many.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        if self.shown == MAX_ROWS {
            self.hidden += 1;
        } else {
            self.shown += 1;
            self.table.add_row(cells);
        }
    }

    /// Appends the section to a text; one without rows is left out.
    pub(crate) fn write_to(&self, text: &mut String) {
        if self.shown == 0 {
            return;
        }
        text.push_str(&self.title);
        text.push('\n');
        for line in self.table.lines() {
            text.push_str("  ");
            text.push_str(line.trim_end().strip_prefix(' ').unwrap_or(line.trim_end()));
            text.push('\n');
        }
        if self.hidden > 0 {
            text.push_str(&format!(
                "  … and {} more (--json lists all)\n",
                self.hidden
            ));
        }
        text.push('\n');
    }
}

/// Bytes for people: exact below 1 KiB, else three digits and a unit.
pub(crate) fn bytes(nbytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if nbytes < 1024 {
        return format!("{nbytes} B");
    }
    let mut value = nbytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 9.995 {
        2
    } else {
        usize::from(value < 99.95)
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Bytes for people with the exact number behind where that says more.
pub(crate) fn bytes_exact(nbytes: u64) -> String {
    match nbytes {
        0..1024 => bytes(nbytes),
        _ => format!("{} ({nbytes} bytes)", bytes(nbytes)),
    }
}

/// A count with its noun, in the singular where it is 1.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A name from a file: short, and nothing in it can steer a terminal.
pub(crate) fn name(text: &str) -> String {
    let shown: String = text.chars().take(MAX_NAME).collect();
    let cut = if shown.len() < text.len() { "…" } else { "" };
    let plain = line(&shown) == shown && !shown.contains('\u{fffd}');
    match plain {
        true => format!("{shown}{cut}"),
        false => format!("\"{}{cut}\"", line(&shown.escape_debug().to_string())),
    }
}

/// A message in one line that cannot steer a terminal, whatever names from files are in it.
pub(crate) fn line(text: &str) -> String {
    // What turns the direction of writing around is no control character, and as misleading.
    let steers =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|c| {
            if steers(c) {
                c.escape_unicode().to_string()
            } else {
                c.to_string()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_bytes(nbytes: u64, expected: &str) {
        assert_eq!(bytes(nbytes), expected);
    }

    #[test]
    fn sizes_have_three_digits() {
        check_bytes(0, "0 B");
        check_bytes(1023, "1023 B");
        check_bytes(1024, "1.00 KiB");
        check_bytes(3056, "2.98 KiB");
        check_bytes(10_240, "10.0 KiB");
        check_bytes(102_400, "100 KiB");
        check_bytes(1024 * 1024 - 1, "1.00 MiB");
        check_bytes(u64::MAX, "16.0 EiB");
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(name("layers.0.weight"), "layers.0.weight");
        assert_eq!(name("a\x1b[2Jb"), "\"a\\u{1b}[2Jb\"");
        assert_eq!(name(&"x".repeat(500)).chars().count(), MAX_NAME + 1);
    }

    #[test]
    fn messages_cannot_steer_the_terminal() {
        assert_eq!(
            line("no µs, \u{1b}[31m\nred\u{202e}"),
            "no µs, \\u{1b}[31m\\u{a}red\\u{202e}"
        );
    }

    #[test]
    fn long_tables_count_the_rest() {
        let mut section = Section::new("rows", &["#", ">bytes"]);
        for index in 0..MAX_ROWS + 3 {
            section.row([index.to_string(), "7".into()]);
        }
        let mut text = String::new();
        section.write_to(&mut text);
        assert!(
            text.starts_with("rows\n  #   bytes\n  0       7\n"),
            "{text}"
        );
        assert!(text.contains("… and 3 more"), "{text}");
    }

    #[test]
    fn a_table_without_rows_is_left_out() {
        let mut text = String::new();
        Section::new("rows", &["#"]).write_to(&mut text);
        assert_eq!(text, "");
    }
}
