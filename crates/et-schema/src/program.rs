//! Programs in memory, by how far they were checked.

use alloc::boxed::Box;

use crate::aligned_bytes::AlignedBytes;
use crate::byte_source::ByteSource;
use crate::checked::Checked;
use crate::container::Layout;
use crate::error::ReadError;
use crate::problem::Problems;
use crate::structure::ProgramFormat;
use crate::validate::{self, Collect, FirstError};
use crate::view::ProgramView;

/// A program whose FlatBuffer is well-formed. Reading it is safe; what it says may be nonsense.
///
/// This is for looking at files. To run a program, [`validate`](Self::validate) it.
#[derive(Debug, Clone)]
pub struct ParsedProgram(Checked<ProgramFormat>);

impl ParsedProgram {
    /// Checks the FlatBuffer part of a program, which is `layout.flatbuffer_range()` of its file.
    ///
    /// # Errors
    /// [`ReadError::Structure`] with the damaged field, or if `bytes` and `layout` do not belong together.
    pub fn parse(bytes: AlignedBytes, layout: Layout) -> Result<Self, ReadError> {
        Checked::parse(bytes, layout).map(Self)
    }

    /// Parses a whole file that is in memory. Only the FlatBuffer part is copied.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn from_file_bytes(file: &[u8]) -> Result<Self, ReadError> {
        Self::read(file)
    }

    /// Reads the FlatBuffer part of a file, and no more of it, and parses it.
    ///
    /// # Errors
    /// The source fails, the container or the FlatBuffer is damaged, or there is no memory.
    pub fn read<S: ByteSource + ?Sized>(source: &S) -> Result<Self, ReadError> {
        Checked::read(source).map(Self)
    }

    /// The program.
    pub fn root(&self) -> ProgramView<'_> {
        ProgramView::new(self.0.root(), self.0.layout())
    }

    /// Where the parts of the file lie.
    pub fn layout(&self) -> &Layout {
        self.0.layout()
    }

    /// The FlatBuffer part of the file, header included.
    pub fn flatbuffer(&self) -> &[u8] {
        self.0.flatbuffer()
    }

    /// Everything that is wrong or odd about the program, in the order of the file.
    pub fn problems(&self) -> Problems {
        let mut sink = Collect::default();
        match validate::program(&self.root(), &mut sink) {
            Ok(()) => sink.problems,
            Err(stop) => match stop {},
        }
    }

    /// Checks what the program says, and stops at the first error. Warnings are not errors.
    ///
    /// # Errors
    /// [`ReadError::Invalid`] with the field, what it holds, and what was expected.
    pub fn validate(self) -> Result<VerifiedProgram, ReadError> {
        validate::program(&self.root(), &mut FirstError).map_err(Box::new)?;
        Ok(VerifiedProgram(self))
    }
}

/// A program that was checked from the first byte to the last index: what a runtime may run.
///
/// A cheap handle; clones share the bytes. Segments are not part of it: their places in the file are
/// ([`ProgramView::segment_range`]), and were checked against the file's length.
#[derive(Debug, Clone)]
pub struct VerifiedProgram(ParsedProgram);

impl VerifiedProgram {
    /// Checks the FlatBuffer part of a program, which is `layout.flatbuffer_range()` of its file, and
    /// what it says.
    ///
    /// # Errors
    /// As for [`ParsedProgram::parse`] and [`ParsedProgram::validate`].
    pub fn verify(bytes: AlignedBytes, layout: Layout) -> Result<Self, ReadError> {
        ParsedProgram::parse(bytes, layout)?.validate()
    }

    /// Verifies a whole file that is in memory. Only the FlatBuffer part is copied.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn from_file_bytes(file: &[u8]) -> Result<Self, ReadError> {
        Self::read(file)
    }

    /// Reads the FlatBuffer part of a file, and no more of it, and verifies it.
    ///
    /// # Errors
    /// The source fails, there is no memory, or the program is refused: [`ReadError`] says where.
    pub fn read<S: ByteSource + ?Sized>(source: &S) -> Result<Self, ReadError> {
        ParsedProgram::read(source)?.validate()
    }

    /// Takes a program as verified without looking.
    ///
    /// # Errors
    /// [`ReadError::Structure`] if `bytes` are not as many as `layout` says, or `layout` is that of
    /// another kind of file.
    ///
    /// # Safety
    /// `bytes` must be the FlatBuffer part of a file for which [`verify`](Self::verify) succeeds.
    /// Reading any other through the views may reach outside of `bytes`.
    pub unsafe fn assume_verified(bytes: AlignedBytes, layout: Layout) -> Result<Self, ReadError> {
        // SAFETY: the caller promises that verification, of which parsing is a part, succeeds.
        let checked = unsafe { Checked::assume_verified(bytes, layout)? };
        Ok(Self(ParsedProgram(checked)))
    }

    /// The program.
    pub fn root(&self) -> ProgramView<'_> {
        self.0.root()
    }

    /// Where the parts of the file lie.
    pub fn layout(&self) -> &Layout {
        self.0.layout()
    }

    /// The FlatBuffer part of the file, header included.
    pub fn flatbuffer(&self) -> &[u8] {
        self.0.flatbuffer()
    }

    /// The same program as one that was only parsed.
    pub fn as_parsed(&self) -> &ParsedProgram {
        &self.0
    }
}
