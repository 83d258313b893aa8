//! NumPy's `.npy` files: arrays of plain numbers in logical order.
//!
//! Both byte orders and both index orders are read; what comes out is little-endian and C order. Files are
//! taken for hostile: every length is checked before it is used, and nothing is allocated that the file's own
//! size does not cover.

mod header;

use crate::room::{self, NoRoom};
use header::Header;

/// The largest number of dimensions that is read; NumPy's own limit is 64.
const MAX_RANK: usize = 64;

/// The element types that are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    Float32,
    Float64,
    Complex64,
    Complex128,
}

/// Per type: NumPy's name, its code in the header, bytes of an element.
const DTYPES: [(Dtype, &str, &str, usize); 14] = [
    (Dtype::Bool, "bool", "b1", 1),
    (Dtype::Int8, "int8", "i1", 1),
    (Dtype::Int16, "int16", "i2", 2),
    (Dtype::Int32, "int32", "i4", 4),
    (Dtype::Int64, "int64", "i8", 8),
    (Dtype::UInt8, "uint8", "u1", 1),
    (Dtype::UInt16, "uint16", "u2", 2),
    (Dtype::UInt32, "uint32", "u4", 4),
    (Dtype::UInt64, "uint64", "u8", 8),
    (Dtype::Float16, "float16", "f2", 2),
    (Dtype::Float32, "float32", "f4", 4),
    (Dtype::Float64, "float64", "f8", 8),
    (Dtype::Complex64, "complex64", "c8", 8),
    (Dtype::Complex128, "complex128", "c16", 16),
];

impl Dtype {
    /// NumPy's name, such as `float32`.
    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of one element.
    pub(crate) fn nbytes(self) -> usize {
        self.row().3
    }

    /// Bytes that are swapped together when the byte order differs: a complex number has two parts.
    fn word_nbytes(self) -> usize {
        match self {
            Self::Complex64 | Self::Complex128 => self.nbytes() / 2,
            _ => self.nbytes(),
        }
    }

    fn from_code(code: &str) -> Option<Self> {
        DTYPES.iter().find(|row| row.2 == code).map(|row| row.0)
    }

    fn row(self) -> &'static (Self, &'static str, &'static str, usize) {
        DTYPES
            .iter()
            .find(|row| row.0 == self)
            .expect("invariant: the table has a row for each type")
    }
}

/// An array: little-endian elements in C order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Array {
    /// The type of the elements.
    pub(crate) dtype: Dtype,
    /// The size of each dimension; none for a single element.
    pub(crate) sizes: Vec<usize>,
    /// The elements.
    pub(crate) bytes: Vec<u8>,
}

/// Why bytes are not an array that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NpyError {
    #[error("not a .npy file: it starts with {found:02x?}")]
    Magic { found: Vec<u8> },
    #[error("unknown .npy version {major}.{minor}")]
    Version { major: u8, minor: u8 },
    #[error("the header needs {needed} bytes and the file has {found}")]
    HeaderLength { needed: usize, found: usize },
    #[error("damaged header at byte {at}: expected {expected}")]
    Header { at: usize, expected: &'static str },
    #[error("the header has no {0}")]
    MissingKey(&'static str),
    #[error("elements of type {0:?} are not supported")]
    Dtype(String),
    #[error("{0} dimensions are more than the limit of {MAX_RANK}")]
    Rank(usize),
    #[error("the shape {0:?} has more bytes than can be counted")]
    Overflow(Vec<usize>),
    #[error(
        "the shape {sizes:?} of {dtype} needs {expected} bytes of data and the file has {found}"
    )]
    DataLength {
        sizes: Vec<usize>,
        dtype: &'static str,
        expected: usize,
        found: usize,
    },
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("element {index} is {found}, which is no bool")]
    NotBool { index: usize, found: u8 },
}

/// Reads a whole `.npy` file.
pub(crate) fn decode(file: &[u8]) -> Result<Array, NpyError> {
    let Header {
        dtype,
        big_endian,
        fortran_order,
        sizes,
        data_offset,
    } = header::parse(file)?;
    let expected = byte_count(&sizes, dtype)?;
    let data = &file[data_offset..];
    if data.len() != expected {
        let found = data.len();
        return Err(NpyError::DataLength {
            sizes,
            dtype: dtype.name(),
            expected,
            found,
        });
    }
    let mut bytes = room::copy(data)?;
    if big_endian {
        bytes
            .chunks_exact_mut(dtype.word_nbytes())
            .for_each(<[u8]>::reverse);
    }
    if fortran_order {
        bytes = to_c_order(&bytes, &sizes, dtype.nbytes())?;
    }
    if dtype == Dtype::Bool
        && let Some(index) = bytes.iter().position(|&byte| byte > 1)
    {
        return Err(NpyError::NotBool {
            index,
            found: bytes[index],
        });
    }
    Ok(Array {
        dtype,
        sizes,
        bytes,
    })
}

/// The bytes of a `.npy` file with these elements.
///
/// # Panics
/// If `bytes` are not as many as type and sizes say.
pub(crate) fn encode(dtype: Dtype, sizes: &[usize], bytes: &[u8]) -> Result<Vec<u8>, NoRoom> {
    assert_eq!(
        byte_count(sizes, dtype),
        Ok(bytes.len()),
        "the elements do not fill the shape"
    );
    let header = header::write(dtype, sizes);
    let mut file = room::reserve(header.len().saturating_add(bytes.len()))?;
    file.extend_from_slice(&header);
    file.extend_from_slice(bytes);
    Ok(file)
}

/// Bytes of all elements together.
fn byte_count(sizes: &[usize], dtype: Dtype) -> Result<usize, NpyError> {
    // A zero makes the array empty, even where the other sizes alone would overflow.
    if sizes.contains(&0) {
        return Ok(0);
    }
    sizes
        .iter()
        .try_fold(dtype.nbytes(), |product, &size| product.checked_mul(size))
        .ok_or_else(|| NpyError::Overflow(sizes.to_vec()))
}

/// Reorders elements whose first index runs fastest into those whose last does.
fn to_c_order(bytes: &[u8], sizes: &[usize], nbytes: usize) -> Result<Vec<u8>, NoRoom> {
    let mut strides = Vec::with_capacity(sizes.len());
    let mut stride = nbytes;
    for &size in sizes {
        strides.push(stride);
        stride = stride.wrapping_mul(size);
    }
    let mut ordered = room::reserve(bytes.len())?;
    let mut index = vec![0; sizes.len()];
    while ordered.len() < bytes.len() {
        let at: usize = index
            .iter()
            .zip(&strides)
            .map(|(i, stride)| i * stride)
            .sum();
        ordered.extend_from_slice(&bytes[at..at + nbytes]);
        advance(&mut index, sizes);
    }
    Ok(ordered)
}

/// The next index in C order; wraps to all zeros at the end.
fn advance(index: &mut [usize], sizes: &[usize]) {
    for (i, &size) in index.iter_mut().zip(sizes).rev() {
        *i += 1;
        if *i < size {
            return;
        }
        *i = 0;
    }
}

#[cfg(test)]
mod tests;
