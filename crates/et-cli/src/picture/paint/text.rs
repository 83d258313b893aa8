//! Text that may come from a file, in a document of markup.

/// Width of a character in a box.
const CHARACTER: f64 = 5.8;

/// The text with nothing in it that is markup, or that no document may hold.
pub(in super::super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// The first of two labels that is not wider than `width`.
pub(in super::super) fn fitting<'a>(long: &'a str, short: &'a str, width: f64) -> Option<&'a str> {
    let fits = |label: &&str| label.chars().count() as f64 * CHARACTER <= width;
    [long, short].into_iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_controls_do_no_harm() {
        assert_eq!(
            escaped("a<b>&\"c\"\u{1b}[2J\u{0}\nd"),
            "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}[2J\u{fffd}\nd"
        );
    }

    #[test]
    fn the_longest_label_that_fits_is_taken() {
        assert_eq!(fitting("layer.weight", "12", 100.0), Some("layer.weight"));
        assert_eq!(fitting("layer.weight", "12", 20.0), Some("12"));
        assert_eq!(fitting("layer.weight", "12", 5.0), None);
    }
}
