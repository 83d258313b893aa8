//! Verification of the FlatBuffer itself: that every offset, length and text is what it must be.
//!
//! The limits derive from the length, so that valid files of any size pass, while a small file
//! whose tables share parts cannot make us walk much more than it has bytes.

mod shape;
mod walk;

use alloc::string::{String, ToString};
use core::fmt::Write;

use flatbuffers::{
    ErrorTraceDetail, Follow, ForwardsUOffset, InvalidFlatbuffer, Verifiable, Verifier,
    VerifierOptions,
};

use crate::container::{ContainerError, FileKind, Layout};
use crate::error::{StructureError, StructureErrorKind};
use crate::generated::{ptd, pte};
use crate::number::file_len;
pub(crate) use shape::Shape;
use walk::{Fault, walk};

/// How much larger than the file its tables may be when followed one by one. Real files stay under
/// 4: their tables share field lists, and a field list is counted once per table.
const EXPANSION: usize = 16;

/// What a file may expand to whatever its length, so that tiny files need no exact accounting.
const FREE: usize = 64 * 1024;

/// A format of files that are FlatBuffers at their core.
pub(crate) trait Format {
    /// Its root table.
    type Root<'a>: Verifiable + Follow<'a, Inner = Self::Root<'a>>;
    /// Its name.
    const FILE: FileKind;
    /// The fields of the root table.
    const SHAPE: &'static Shape;

    /// Where the parts of a file lie, by its head and its length.
    fn layout(head: &[u8], file_len: u64) -> Result<Layout, ContainerError>;
}

/// Programs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProgramFormat {}

impl Format for ProgramFormat {
    type Root<'a> = pte::Program<'a>;
    const FILE: FileKind = FileKind::Program;
    const SHAPE: &'static Shape = &shape::PROGRAM;

    fn layout(head: &[u8], file_len: u64) -> Result<Layout, ContainerError> {
        Layout::program(head, file_len)
    }
}

/// Tensor data files.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FlatTensorFormat {}

impl Format for FlatTensorFormat {
    type Root<'a> = ptd::FlatTensor<'a>;
    const FILE: FileKind = FileKind::FlatTensor;
    const SHAPE: &'static Shape = &shape::FLAT_TENSOR;

    fn layout(head: &[u8], file_len: u64) -> Result<Layout, ContainerError> {
        Layout::flat_tensor(head, file_len)
    }
}

/// Refuses what is longer than the offsets of a FlatBuffer reach.
pub(crate) fn expect_addressable(file: FileKind, len: u64) -> Result<(), StructureError> {
    let limit = u64::from(u32::MAX);
    if len <= limit {
        return Ok(());
    }
    Err(StructureError {
        file,
        path: String::new(),
        kind: StructureErrorKind::TooLong { len, limit },
    })
}

/// The bytes that something of `len` bytes may expand to.
pub(crate) fn expansion_limit(len: usize) -> usize {
    len.saturating_mul(EXPANSION).saturating_add(FREE)
}

/// Verifies `bytes` as a FlatBuffer of format `F`.
pub(crate) fn verify<F: Format>(bytes: &[u8]) -> Result<(), StructureError> {
    let error = |kind| StructureError {
        file: F::FILE,
        path: String::new(),
        kind,
    };
    let len = file_len(bytes.len());
    expect_addressable(F::FILE, len)?;
    let root = bytes.first_chunk().copied().map_or(0, u32::from_le_bytes);
    let after_identifier = 8..=len.saturating_sub(4);
    if !after_identifier.contains(&u64::from(root)) {
        return Err(error(StructureErrorKind::Root { offset: root, len }));
    }
    let limit = expansion_limit(bytes.len());
    match walk(bytes, F::SHAPE, limit) {
        Ok(()) => {
            debug_assert_eq!(
                explain::<F>(bytes),
                None,
                "the walk takes what the verifier refuses"
            );
            Ok(())
        }
        Err(Fault::Expands) => {
            let limit = file_len(limit);
            Err(error(StructureErrorKind::Expands {
                len,
                limit,
                unit: "bytes",
            }))
        }
        Err(Fault::Damaged) => Err(explain::<F>(bytes).unwrap_or_else(|| {
            error(StructureErrorKind::Other(
                "refused without a known reason".to_string(),
            ))
        })),
    }
}

/// What the verifier of the flatbuffers crate says against `bytes`. Its limits are those of the
/// walk, four times over, as it counts some bytes more than once.
fn explain<F: Format>(bytes: &[u8]) -> Option<StructureError> {
    let len = bytes.len();
    let options = VerifierOptions {
        max_depth: 64,
        max_tables: usize::MAX,
        max_apparent_size: expansion_limit(len).saturating_mul(4),
        ignore_missing_null_terminator: false,
    };
    let mut verifier = Verifier::new(&options, bytes);
    let error = <ForwardsUOffset<F::Root<'_>>>::run_verifier(&mut verifier, 0).err()?;
    Some(describe(F::FILE, len, &options, &error))
}

fn describe(
    file: FileKind,
    len: usize,
    options: &VerifierOptions,
    error: &InvalidFlatbuffer,
) -> StructureError {
    let (trace, kind) = kind_of(len, options, error);
    StructureError {
        file,
        path: trace.map(path_of).unwrap_or_default(),
        kind,
    }
}

fn kind_of<'a>(
    len: usize,
    options: &VerifierOptions,
    error: &'a InvalidFlatbuffer,
) -> (Option<&'a [ErrorTraceDetail]>, StructureErrorKind) {
    use StructureErrorKind as Kind;
    let len = file_len(len);
    let expands = |limit, unit| Kind::Expands {
        len,
        limit: file_len(limit),
        unit,
    };
    match error {
        InvalidFlatbuffer::RangeOutOfBounds { range, error_trace } => (
            Some(error_trace.as_ref()),
            Kind::OutOfBounds {
                start: file_len(range.start),
                end: file_len(range.end),
                len,
            },
        ),
        InvalidFlatbuffer::SignedOffsetOutOfBounds {
            soffset,
            position,
            error_trace,
        } => (
            Some(error_trace.as_ref()),
            Kind::FieldList {
                position: file_len(*position),
                offset: *soffset,
            },
        ),
        InvalidFlatbuffer::Unaligned {
            position,
            error_trace,
            ..
        } => (
            Some(error_trace.as_ref()),
            Kind::Unaligned {
                position: file_len(*position),
            },
        ),
        InvalidFlatbuffer::Utf8Error {
            range, error_trace, ..
        } => (
            Some(error_trace.as_ref()),
            Kind::Text {
                start: file_len(range.start),
                end: file_len(range.end),
            },
        ),
        InvalidFlatbuffer::MissingNullTerminator { range, error_trace } => (
            Some(error_trace.as_ref()),
            Kind::TextEnd {
                start: file_len(range.start),
                end: file_len(range.end),
            },
        ),
        InvalidFlatbuffer::InconsistentUnion { error_trace, .. } => {
            (Some(error_trace.as_ref()), Kind::Union)
        }
        InvalidFlatbuffer::TooManyTables => (None, expands(options.max_tables, "tables")),
        InvalidFlatbuffer::ApparentSizeTooLarge => {
            (None, expands(options.max_apparent_size, "bytes"))
        }
        InvalidFlatbuffer::DepthLimitReached => (None, expands(options.max_depth, "levels")),
        // Our schemas have no required fields.
        InvalidFlatbuffer::MissingRequiredField { .. } => (None, Kind::Other(error.to_string())),
    }
}

/// The trace runs from the innermost field outwards.
fn path_of(trace: &[ErrorTraceDetail]) -> String {
    let mut path = String::new();
    for detail in trace.iter().rev() {
        let field = match detail {
            ErrorTraceDetail::VectorElement { index, .. } => {
                write!(path, "[{index}]").expect("writing to a string does not fail");
                continue;
            }
            ErrorTraceDetail::TableField { field_name, .. } => field_name,
            ErrorTraceDetail::UnionVariant { variant, .. } => variant,
        };
        // The union's own field is not part of our paths, its variant is: `values[7].Tensor`.
        if matches!(field.as_ref(), "val" | "instr_args") {
            continue;
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(field.rsplit("::").next().unwrap_or(field));
    }
    path
}
