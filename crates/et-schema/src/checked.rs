//! A file whose FlatBuffer was verified, whichever format it has.

use alloc::string::String;
use alloc::sync::Arc;
use core::marker::PhantomData;

use crate::aligned_bytes::AlignedBytes;
use crate::byte_source::ByteSource;
use crate::container::{HEAD_LEN, Layout};
use crate::error::{ReadError, StructureError, StructureErrorKind};
use crate::number::file_len;
use crate::structure::{self, Format};

/// The FlatBuffer part of a file of format `F`, well-formed. A cheap handle; clones share the bytes.
#[derive(Debug, Clone)]
pub(crate) struct Checked<F> {
    inner: Arc<Inner>,
    format: PhantomData<F>,
}

#[derive(Debug)]
struct Inner {
    /// Well-formed as the format's root table: checked in `parse`, or promised in `assume_verified`.
    bytes: AlignedBytes,
    layout: Layout,
}

impl<F: Format> Checked<F> {
    /// Checks the FlatBuffer part of a file, which is `layout.flatbuffer_range()` of it.
    pub(crate) fn parse(bytes: AlignedBytes, layout: Layout) -> Result<Self, ReadError> {
        expect_extent::<F>(bytes.as_slice(), &layout)?;
        structure::verify::<F>(bytes.as_slice())?;
        Ok(Self::new(bytes, layout))
    }

    /// Reads the FlatBuffer part of a file, and no more of it, and checks it.
    pub(crate) fn read<S: ByteSource + ?Sized>(source: &S) -> Result<Self, ReadError> {
        let len = source.len();
        let mut head = [0; HEAD_LEN];
        let there = usize::try_from(len).unwrap_or(HEAD_LEN).min(HEAD_LEN);
        let head = head.get_mut(..there).unwrap_or_default();
        source.read_at(0, head)?;
        let layout = F::layout(head, len)?;
        let nbytes = layout.flatbuffer_range().end;
        // Before memory is taken for what could not be verified.
        structure::expect_addressable(F::FILE, nbytes)?;
        let mut bytes = AlignedBytes::zeroed(nbytes)?;
        source.read_at(0, bytes.as_mut_slice())?;
        Self::parse(bytes, layout)
    }

    /// Takes the FlatBuffer part of a file as well-formed.
    ///
    /// # Safety
    /// [`parse`](Self::parse) would succeed.
    pub(crate) unsafe fn assume_verified(
        bytes: AlignedBytes,
        layout: Layout,
    ) -> Result<Self, ReadError> {
        expect_extent::<F>(bytes.as_slice(), &layout)?;
        Ok(Self::new(bytes, layout))
    }

    fn new(bytes: AlignedBytes, layout: Layout) -> Self {
        Self {
            inner: Arc::new(Inner { bytes, layout }),
            format: PhantomData,
        }
    }

    /// The root table.
    pub(crate) fn root(&self) -> F::Root<'_> {
        // SAFETY: `inner.bytes` is well-formed as the format's root table by the field's invariant, and
        // nothing can write to it.
        unsafe { flatbuffers::root_unchecked::<F::Root<'_>>(self.inner.bytes.as_slice()) }
    }

    /// Where the parts of the file lie.
    pub(crate) fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// The FlatBuffer part of the file, header included.
    pub(crate) fn flatbuffer(&self) -> &[u8] {
        self.inner.bytes.as_slice()
    }
}

fn expect_extent<F: Format>(bytes: &[u8], layout: &Layout) -> Result<(), StructureError> {
    let expected = layout.flatbuffer_range().end;
    let found = file_len(bytes.len());
    let kind = if layout.kind() != F::FILE {
        StructureErrorKind::Layout {
            found: layout.kind(),
        }
    } else if found != expected {
        StructureErrorKind::Length { found, expected }
    } else {
        return Ok(());
    };
    Err(StructureError {
        file: F::FILE,
        path: String::new(),
        kind,
    })
}
