//! Mutants of texts, and of binary files with a text in front: words are exchanged for others, taken out or repeated.

use std::ops::Range;

use crate::random::Random;

/// What a word is exchanged for.
const WORDS: [&str; 30] = [
    "0",
    "1",
    "-1",
    "63",
    "64",
    "255",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "1e400",
    "0.5",
    "null",
    "true",
    "False",
    "inf",
    "[]",
    "{}",
    "\"\"",
    "\"x\"",
    "()",
    "\\u0000",
    "\u{e9}",
    ",",
    "\n",
    "'",
];

/// A text with one to three words changed.
pub(crate) fn edit(original: &[u8], random: &mut Random) -> (Vec<u8>, String) {
    let mut bytes = original.to_vec();
    let mut what = Vec::new();
    for _ in 0..=random.below(3) {
        what.push(edit_word(&mut bytes, random));
    }
    (bytes, format!("edited: {}", what.join(", ")))
}

fn edit_word(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let words = words(bytes);
    let Some(word) = pick(&words, random) else {
        return "nothing".to_owned();
    };
    let at = word.start;
    match random.below(8) {
        0 => {
            bytes.drain(word);
            format!("word at {at} taken out")
        }
        1 => {
            let again = bytes[word.clone()].to_vec();
            bytes.splice(at..at, again);
            format!("word at {at} twice")
        }
        2 => {
            // A run of words: a field, a row, an object.
            let end = pick(&words, random).map_or(at, |other| other.end);
            let run = at.min(end)..at.max(end).min(at.min(end) + 256);
            let again = bytes[run.clone()].to_vec();
            bytes.splice(run.start..run.start, again);
            format!("bytes {run:?} twice")
        }
        3 => {
            let other = pick(&words, random).map_or_else(Vec::new, |other| bytes[other].to_vec());
            bytes.splice(word, other);
            format!("word at {at} is another of them")
        }
        _ => {
            let new = random.pick(&WORDS).unwrap_or_default();
            bytes.splice(word, new.bytes());
            format!("word at {at} is {new:?}")
        }
    }
}

fn pick(words: &[Range<usize>], random: &mut Random) -> Option<Range<usize>> {
    words.get(random.below(words.len())).cloned()
}

/// Runs of letters and digits, and each other byte that can be seen.
fn words(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    for (at, byte) in bytes.iter().enumerate() {
        match words.last_mut() {
            Some(word) if word.end == at && belongs(byte) && belongs(&bytes[at - 1]) => {
                word.end = at + 1;
            }
            _ if byte.is_ascii_graphic() => words.push(at..at + 1),
            _ => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_and_single_signs() {
        let text = b"{\"a_1\": -2.5}";
        let found: Vec<&[u8]> = words(text).into_iter().map(|word| &text[word]).collect();
        let expected: [&[u8]; 7] = [b"{", b"\"", b"a_1", b"\"", b":", b"-2.5", b"}"];
        assert_eq!(found, expected);
    }

    #[test]
    fn any_text_can_be_edited() {
        for text in [&b""[..], b" ", b"x", b"a,b\n1,2\n"] {
            for case in 0..200 {
                edit(text, &mut Random::new(1, case));
            }
        }
    }
}
