//! Tensor data files (.ptd): named blobs with the layouts of those that are tensors.

use alloc::boxed::Box;
use core::ops::Range;

use crate::aligned_bytes::AlignedBytes;
use crate::byte_source::ByteSource;
use crate::checked::Checked;
use crate::container::{ContainerError, Layout};
use crate::error::ReadError;
use crate::generated::ptd;
use crate::list::List;
use crate::number::mem_index;
use crate::problem::Problems;
use crate::scalar_type::ScalarType;
use crate::structure::FlatTensorFormat;
use crate::validate::{self, Collect, FirstError};
use crate::view::{SegmentView, checked_nbytes, numbers, table_at, tables};

/// A tensor data file whose FlatBuffer is well-formed. Reading it is safe; what it says may be
/// nonsense.
#[derive(Debug, Clone)]
pub struct ParsedFlatTensor(Checked<FlatTensorFormat>);

impl ParsedFlatTensor {
    /// Checks the FlatBuffer part of a file, which is `layout.flatbuffer_range()` of it.
    ///
    /// # Errors
    /// [`ReadError::Structure`] with the damaged field, or if `bytes` and `layout` do not belong together.
    pub fn parse(bytes: AlignedBytes, layout: Layout) -> Result<Self, ReadError> {
        Checked::parse(bytes, layout).map(Self)
    }

    /// Reads the FlatBuffer part of a file, and no more of it, and parses it.
    ///
    /// # Errors
    /// The source fails, the container or the FlatBuffer is damaged, or there is no memory.
    pub fn read<S: ByteSource + ?Sized>(source: &S) -> Result<Self, ReadError> {
        Checked::read(source).map(Self)
    }

    /// The contents.
    pub fn root(&self) -> FlatTensorView<'_> {
        FlatTensorView {
            root: self.0.root(),
            layout: self.0.layout(),
        }
    }

    /// Where the parts of the file lie.
    pub fn layout(&self) -> &Layout {
        self.0.layout()
    }

    /// Everything that is wrong or odd about the file, in its order.
    pub fn problems(&self) -> Problems {
        let mut sink = Collect::default();
        match validate::flat_tensor(&self.root(), &mut sink) {
            Ok(()) => sink.problems,
            Err(stop) => match stop {},
        }
    }

    /// Checks what the file says, and stops at the first error. Warnings are not errors.
    ///
    /// # Errors
    /// [`ReadError::Invalid`] with the field, what it holds, and what was expected.
    pub fn validate(self) -> Result<VerifiedFlatTensor, ReadError> {
        validate::flat_tensor(&self.root(), &mut FirstError).map_err(Box::new)?;
        Ok(VerifiedFlatTensor(self))
    }
}

/// A tensor data file that was checked: names are unique, segments lie in the file, and no tensor
/// is larger than its segment.
#[derive(Debug, Clone)]
pub struct VerifiedFlatTensor(ParsedFlatTensor);

impl VerifiedFlatTensor {
    /// Checks the FlatBuffer part of a file, which is `layout.flatbuffer_range()` of it, and what it
    /// says.
    ///
    /// # Errors
    /// As for [`ParsedFlatTensor::parse`] and [`ParsedFlatTensor::validate`].
    pub fn verify(bytes: AlignedBytes, layout: Layout) -> Result<Self, ReadError> {
        ParsedFlatTensor::parse(bytes, layout)?.validate()
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
    /// The source fails, there is no memory, or the file is refused: [`ReadError`] says where.
    pub fn read<S: ByteSource + ?Sized>(source: &S) -> Result<Self, ReadError> {
        ParsedFlatTensor::read(source)?.validate()
    }

    /// The contents.
    pub fn root(&self) -> FlatTensorView<'_> {
        self.0.root()
    }

    /// Where the parts of the file lie.
    pub fn layout(&self) -> &Layout {
        self.0.layout()
    }

    /// The same file as one that was only parsed.
    pub fn as_parsed(&self) -> &ParsedFlatTensor {
        &self.0
    }
}

/// The contents of a tensor data file.
#[derive(Debug, Clone, Copy)]
pub struct FlatTensorView<'a> {
    root: ptd::FlatTensor<'a>,
    layout: &'a Layout,
}

impl<'a> FlatTensorView<'a> {
    pub(crate) fn table(&self) -> ptd::FlatTensor<'a> {
        self.root
    }

    /// Where the parts of the file lie.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// The schema version that the writer put in; 0 in every known file.
    pub fn version(&self) -> u32 {
        self.root.version()
    }

    /// The segment table.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = SegmentView> + use<'a> {
        tables(self.root.segments()).map(|table| SegmentView {
            offset: table.offset(),
            size: table.size(),
        })
    }

    /// The entry at `index` of the segment table.
    pub fn segment(&self, index: u32) -> Option<SegmentView> {
        table_at(self.root.segments(), mem_index(index)).map(|table| SegmentView {
            offset: table.offset(),
            size: table.size(),
        })
    }

    /// Where the bytes of a segment lie in the file; `None` without such a segment.
    ///
    /// # Errors
    /// The segment's offset and size lead out of the file's segment data. Never for a verified file.
    pub fn segment_range(&self, index: u32) -> Option<Result<Range<u64>, ContainerError>> {
        self.segment(index)
            .map(|segment| self.layout.locate(segment.offset, segment.size))
    }

    /// The named blobs, in the order of the file.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = FlatTensorEntry<'a>> + use<'a> {
        tables(self.root.named_data()).map(FlatTensorEntry::new)
    }

    /// The first blob of this name.
    pub fn entry(&self, key: &str) -> Option<FlatTensorEntry<'a>> {
        self.entries().find(|entry| entry.key == key)
    }
}

/// A named blob.
#[derive(Debug, Clone, Copy)]
pub struct FlatTensorEntry<'a> {
    /// The name.
    pub key: &'a str,
    /// Index into the segment table.
    pub segment_index: u32,
    /// What the bytes mean, if they are a tensor.
    pub layout: Option<TensorLayoutView<'a>>,
}

impl<'a> FlatTensorEntry<'a> {
    fn new(table: ptd::NamedData<'a>) -> Self {
        Self {
            key: table.key().unwrap_or_default(),
            segment_index: table.segment_index(),
            layout: table.tensor_layout().map(TensorLayoutView),
        }
    }
}

/// The layout of a tensor in a tensor data file.
#[derive(Debug, Clone, Copy)]
pub struct TensorLayoutView<'a>(ptd::TensorLayout<'a>);

impl<'a> TensorLayoutView<'a> {
    /// The element type; `None` if this version does not know it (never in a verified file).
    pub fn scalar_type(&self) -> Option<ScalarType> {
        ScalarType::from_code(self.scalar_type_code())
    }

    /// The format's number of the element type.
    pub fn scalar_type_code(&self) -> i8 {
        self.0.scalar_type().0
    }

    /// Length of each dimension, in logical order.
    pub fn sizes(&self) -> List<'a, i32> {
        numbers(self.0.sizes())
    }

    /// The dimensions from the slowest in memory to the fastest.
    pub fn dim_order(&self) -> &'a [u8] {
        self.0
            .dim_order()
            .map(|order| order.bytes())
            .unwrap_or_default()
    }

    /// Bytes of all elements; `None` if a size is negative, the product does not fit 63 bits, or the
    /// element type is unknown.
    pub fn nbytes(&self) -> Option<u64> {
        checked_nbytes(self.sizes(), self.scalar_type()?)
    }
}
