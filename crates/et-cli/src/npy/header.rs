//! The header of a `.npy` file: a Python dictionary with three keys.

use super::{Dtype, MAX_RANK, NpyError};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Magic and the two version bytes.
const PREFIX: usize = 8;
/// What NumPy aligns the data to.
const ALIGNMENT: usize = 64;

/// What the header says.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) dtype: Dtype,
    pub(super) big_endian: bool,
    pub(super) fortran_order: bool,
    pub(super) sizes: Vec<usize>,
    /// Where the elements start; inside of the file.
    pub(super) data_offset: usize,
}

/// Reads the header of a whole file.
pub(super) fn parse(file: &[u8]) -> Result<Header, NpyError> {
    if !file.starts_with(MAGIC) || file.len() < PREFIX {
        let found = file[..file.len().min(PREFIX)].to_vec();
        return Err(NpyError::Magic { found });
    }
    let length_bytes = match (file[6], file[7]) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        (major, minor) => return Err(NpyError::Version { major, minor }),
    };
    let start = PREFIX + length_bytes;
    let too_short = |needed| NpyError::HeaderLength {
        needed,
        found: file.len(),
    };
    let length = file.get(PREFIX..start).ok_or_else(|| too_short(start))?;
    let length = length
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let data_offset = start
        .checked_add(length)
        .ok_or_else(|| too_short(usize::MAX))?;
    let text = file
        .get(start..data_offset)
        .ok_or_else(|| too_short(data_offset))?;
    Parser { text, at: 0 }.dictionary()?.finish(data_offset)
}

/// The bytes before the elements.
pub(super) fn write(dtype: Dtype, sizes: &[usize]) -> Vec<u8> {
    let order = if dtype.nbytes() == 1 { '|' } else { '<' };
    let code = dtype.row().2;
    let mut shape: String = sizes.iter().map(|size| format!("{size}, ")).collect();
    if sizes.len() > 1 {
        shape.truncate(shape.len() - 2);
    }
    let mut text = format!(
        "{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({}), }}",
        shape.trim_end()
    );
    // Padding and the final newline.
    let end = (PREFIX + 2 + text.len() + 1).next_multiple_of(ALIGNMENT);
    while PREFIX + 2 + text.len() + 1 < end {
        text.push(' ');
    }
    text.push('\n');
    let length = u16::try_from(text.len()).expect("invariant: 64 sizes fit into 64 KiB");
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[1, 0]);
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(text.as_bytes());
    file
}

/// The keys found so far.
#[derive(Default)]
struct Dictionary {
    descr: Option<String>,
    fortran_order: Option<bool>,
    shape: Option<Vec<usize>>,
}

impl Dictionary {
    fn finish(self, data_offset: usize) -> Result<Header, NpyError> {
        let descr = self.descr.ok_or(NpyError::MissingKey("descr"))?;
        let (order, code) = match descr.split_at_checked(1) {
            Some((order @ ("<" | ">" | "|" | "="), code)) => (order, code),
            _ => ("<", descr.as_str()),
        };
        let Some(dtype) = Dtype::from_code(code) else {
            return Err(NpyError::Dtype(descr));
        };
        Ok(Header {
            dtype,
            big_endian: order == ">",
            fortran_order: self
                .fortran_order
                .ok_or(NpyError::MissingKey("fortran_order"))?,
            sizes: self.shape.ok_or(NpyError::MissingKey("shape"))?,
            data_offset,
        })
    }
}

/// Reads the few Python literals that occur: strings, `True`, `False`, tuples of numbers.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn dictionary(&mut self) -> Result<Dictionary, NpyError> {
        let mut found = Dictionary::default();
        self.expect(b'{', "`{`")?;
        while !self.accept(b'}') {
            let key_at = self.at;
            let key = self.string()?;
            self.expect(b':', "`:`")?;
            match key.as_str() {
                "descr" => found.descr = Some(self.string()?),
                "fortran_order" => found.fortran_order = Some(self.boolean()?),
                "shape" => found.shape = Some(self.tuple()?),
                _ => {
                    return Err(NpyError::Header {
                        at: key_at,
                        expected: "a known key",
                    });
                }
            }
            if !self.accept(b',') {
                self.expect(b'}', "`,` or `}`")?;
                break;
            }
        }
        self.skip_space();
        if self.at < self.text.len() {
            return self.fail("the end of the header");
        }
        Ok(found)
    }

    fn string(&mut self) -> Result<String, NpyError> {
        self.skip_space();
        let quote = match self.text.get(self.at) {
            Some(&quote @ (b'\'' | b'"')) => quote,
            _ => return self.fail("a string"),
        };
        let start = self.at + 1;
        let Some(length) = self.text[start..].iter().position(|&byte| byte == quote) else {
            return self.fail("the end of the string");
        };
        self.at = start + length + 1;
        Ok(String::from_utf8_lossy(&self.text[start..start + length]).into_owned())
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.skip_space();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.fail("`True` or `False`")
    }

    fn tuple(&mut self) -> Result<Vec<usize>, NpyError> {
        self.expect(b'(', "`(`")?;
        let mut sizes = Vec::new();
        while !self.accept(b')') {
            sizes.push(self.number()?);
            if sizes.len() > MAX_RANK {
                return Err(NpyError::Rank(sizes.len()));
            }
            if !self.accept(b',') {
                self.expect(b')', "`,` or `)`")?;
                break;
            }
        }
        Ok(sizes)
    }

    fn number(&mut self) -> Result<usize, NpyError> {
        self.skip_space();
        let digits = self.text[self.at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let text = std::str::from_utf8(&self.text[self.at..self.at + digits]);
        match text.ok().and_then(|text| text.parse().ok()) {
            Some(number) => {
                self.at += digits;
                Ok(number)
            }
            None => self.fail("a size"),
        }
    }

    fn expect(&mut self, byte: u8, name: &'static str) -> Result<(), NpyError> {
        if self.accept(byte) {
            Ok(())
        } else {
            self.fail(name)
        }
    }

    fn accept(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, NpyError> {
        Err(NpyError::Header {
            at: self.at,
            expected,
        })
    }
}
