//! The program as a whole: methods, segments, constants, named data.

use core::ops::Range;

use super::{PlanView, numbers, table_at, tables};
use crate::container::{ContainerError, Layout};
use crate::generated::pte;
use crate::list::List;
use crate::number::mem_index;

/// A whole program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramView<'a> {
    root: pte::Program<'a>,
    layout: &'a Layout,
}

impl<'a> ProgramView<'a> {
    pub(crate) fn new(root: pte::Program<'a>, layout: &'a Layout) -> Self {
        Self { root, layout }
    }

    pub(crate) fn table(&self) -> pte::Program<'a> {
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

    /// The methods, in the order of the file.
    pub fn plans(&self) -> impl ExactSizeIterator<Item = PlanView<'a>> + use<'a> {
        tables(self.root.execution_plan()).map(PlanView::new)
    }

    /// The method at `index`.
    pub fn plan_at(&self, index: usize) -> Option<PlanView<'a>> {
        table_at(self.root.execution_plan(), index).map(PlanView::new)
    }

    /// The first method of this name.
    pub fn plan(&self, name: &str) -> Option<PlanView<'a>> {
        self.plans().find(|plan| plan.name() == name)
    }

    /// The segment table.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = SegmentView> + use<'a> {
        tables(self.root.segments()).map(SegmentView::new)
    }

    /// The entry at `index` of the segment table.
    pub fn segment(&self, index: u32) -> Option<SegmentView> {
        table_at(self.root.segments(), mem_index(index)).map(SegmentView::new)
    }

    /// Where the bytes of a segment lie in the file; `None` without such a segment.
    ///
    /// # Errors
    /// The segment's offset and size lead out of the file's segment data. Never for a verified
    /// program.
    pub fn segment_range(&self, index: u32) -> Option<Result<Range<u64>, ContainerError>> {
        self.segment(index)
            .map(|segment| self.layout.locate(segment.offset, segment.size))
    }

    /// Where constants lie; `None` in old files and in files without constants.
    pub fn constant_segment(&self) -> Option<SubsegmentView<'a>> {
        self.root.constant_segment().map(SubsegmentView::new)
    }

    /// Constants inside of the FlatBuffer, as old files have them. Entry 0 stands for "none".
    pub fn inline_constants(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        tables(self.root.constant_buffer()).map(|buffer| {
            buffer
                .storage()
                .map(|bytes| bytes.bytes())
                .unwrap_or_default()
        })
    }

    /// The constant that a tensor's `data_buffer_idx` names; `None` for index 0, which names none,
    /// and for an index that the program does not have.
    pub fn constant(&self, data_buffer_idx: u32) -> Option<ConstantView<'a>> {
        if data_buffer_idx == 0 {
            return None;
        }
        let index = mem_index(data_buffer_idx);
        if let Some(list) = self.constant_segment()
            && !list.offsets().is_empty()
        {
            return self.in_segment(list, index);
        }
        let buffer = table_at(self.root.constant_buffer(), index)?;
        Some(ConstantView::Inline(
            buffer
                .storage()
                .map(|bytes| bytes.bytes())
                .unwrap_or_default(),
        ))
    }

    /// The lists of initial data of planned tensors.
    pub fn mutable_data(&self) -> impl ExactSizeIterator<Item = SubsegmentView<'a>> + use<'a> {
        tables(self.root.mutable_data_segments()).map(SubsegmentView::new)
    }

    /// The initial data of a planned tensor, by its list ([`TensorView::mutable_data_list`]) and
    /// its `data_buffer_idx`; `None` for index 0, and for what the program does not have.
    ///
    /// [`TensorView::mutable_data_list`]: super::TensorView::mutable_data_list
    pub fn initial_data(&self, list: u64, data_buffer_idx: u32) -> Option<ConstantView<'a>> {
        if data_buffer_idx == 0 {
            return None;
        }
        let list = table_at(
            self.root.mutable_data_segments(),
            usize::try_from(list).ok()?,
        )?;
        self.in_segment(SubsegmentView::new(list), mem_index(data_buffer_idx))
    }

    fn in_segment(&self, list: SubsegmentView<'a>, index: usize) -> Option<ConstantView<'a>> {
        let offset = list.offsets().get(index)?;
        let segment = list.segment_index();
        let available = self.segment(segment)?.size.checked_sub(offset)?;
        Some(ConstantView::Segment {
            segment,
            offset,
            available,
        })
    }

    /// How many delegate blobs are inside of the FlatBuffer.
    pub fn num_inline_delegate_data(&self) -> usize {
        tables(self.root.backend_delegate_data()).len()
    }

    /// The delegate blob at `index` of those inside of the FlatBuffer.
    pub fn inline_delegate_data(&self, index: u32) -> Option<&'a [u8]> {
        let data = table_at(self.root.backend_delegate_data(), mem_index(index))?;
        Some(data.data().map(|bytes| bytes.bytes()).unwrap_or_default())
    }

    /// True if the program has a table of named data, even if it is empty.
    pub fn has_named_data(&self) -> bool {
        self.root.named_data().is_some()
    }

    /// Names for segments, in the order of the file.
    pub fn named_data(&self) -> impl ExactSizeIterator<Item = NamedDataView<'a>> + use<'a> {
        tables(self.root.named_data()).map(|entry| NamedDataView {
            key: entry.key().unwrap_or_default(),
            segment_index: entry.segment_index(),
        })
    }
}

/// An entry of the segment table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentView {
    /// Bytes from the segment base of the file.
    pub offset: u64,
    /// Bytes of data.
    pub size: u64,
}

impl SegmentView {
    fn new(table: pte::DataSegment<'_>) -> Self {
        Self {
            offset: table.offset(),
            size: table.size(),
        }
    }
}

/// Where tensors begin inside of one segment.
#[derive(Debug, Clone, Copy)]
pub struct SubsegmentView<'a>(pte::SubsegmentOffsets<'a>);

impl<'a> SubsegmentView<'a> {
    fn new(table: pte::SubsegmentOffsets<'a>) -> Self {
        Self(table)
    }

    /// The segment.
    pub fn segment_index(&self) -> u32 {
        self.0.segment_index()
    }

    /// Bytes from the start of the segment, by `data_buffer_idx`. Entry 0 stands for "none".
    pub fn offsets(&self) -> List<'a, u64> {
        numbers(self.0.offsets())
    }
}

/// Where the bytes of a constant, or of the initial data of a planned tensor, are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConstantView<'a> {
    /// In a segment of the file.
    Segment {
        /// Index into the segment table.
        segment: u32,
        /// Bytes from the start of the segment.
        offset: u64,
        /// Bytes from there to the end of the segment; the tensor's own size may be less.
        available: u64,
    },
    /// In the FlatBuffer.
    Inline(&'a [u8]),
}

impl ConstantView<'_> {
    /// How many bytes there are at most.
    pub fn available(&self) -> u64 {
        match self {
            Self::Segment { available, .. } => *available,
            Self::Inline(bytes) => crate::number::file_len(bytes.len()),
        }
    }
}

/// A name for the bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedDataView<'a> {
    /// The name.
    pub key: &'a str,
    /// Index into the segment table.
    pub segment_index: u32,
}
