//! Segments, constants, initial data and named data.

use alloc::vec::Vec;

use super::Check;
use super::sink::{Path, Sink};
use crate::container::Layout;
use crate::generated::pte;
use crate::problem::Rule;
use crate::view::{ProgramView, table_at, tables};

pub(super) fn program<S: Sink>(
    program: &ProgramView<'_>,
    check: &mut Check<'_, S>,
) -> Result<(), S::Stop> {
    let root = program.table();
    let segments = program
        .segments()
        .map(|segment| (segment.offset, segment.size));
    check.segments(segments, program.layout())?;
    check.newer_in_data(root)?;
    check.constants(program)?;
    check.mutable_data(root)?;
    let names = tables(root.named_data()).map(|entry| (entry.key(), entry.segment_index()));
    check.names(names, program.segments().len())
}

impl<S: Sink> Check<'_, S> {
    fn newer_in_data(&mut self, root: pte::Program<'_>) -> Result<(), S::Stop> {
        if !S::NEWER_FIELDS {
            return Ok(());
        }
        for (index, table) in tables(root.segments()).enumerate() {
            self.newer(&table._tab, 2, &Path::field("segments").at(index))?;
        }
        for (index, table) in tables(root.constant_buffer()).enumerate() {
            self.newer(&table._tab, 1, &Path::field("constant_buffer").at(index))?;
        }
        for (index, table) in tables(root.backend_delegate_data()).enumerate() {
            self.newer(
                &table._tab,
                1,
                &Path::field("backend_delegate_data").at(index),
            )?;
        }
        for (index, table) in tables(root.named_data()).enumerate() {
            self.newer(&table._tab, 2, &Path::field("named_data").at(index))?;
        }
        Ok(())
    }

    /// Each segment lies in the file's segment data, and no two overlap.
    pub(super) fn segments(
        &mut self,
        segments: impl ExactSizeIterator<Item = (u64, u64)>,
        layout: &Layout,
    ) -> Result<(), S::Stop> {
        let list = Path::field("segments");
        let mut used = Vec::with_capacity(segments.len());
        for (index, (offset, size)) in segments.enumerate() {
            match layout.locate(offset, size) {
                Ok(range) if size > 0 => used.push((range.start, range.end, index)),
                Ok(_) => {}
                Err(error) => {
                    let path = list.at(index);
                    self.error(
                        Rule::OutOfBounds,
                        &path,
                        error.kind,
                        "segment data of the file",
                    )?;
                }
            }
        }
        used.sort_unstable();
        for pair in used.windows(2) {
            let &[(_, end, first), (start, _, second)] = pair else {
                continue;
            };
            if start < end {
                let found = format_args!("starts before segments[{first}] ends");
                self.error(Rule::Overlap, &list.at(second), found, "bytes of its own")?;
            }
        }
        Ok(())
    }

    fn constants(&mut self, program: &ProgramView<'_>) -> Result<(), S::Stop> {
        let root = program.table();
        let Some(table) = root.constant_segment() else {
            return Ok(());
        };
        let path = Path::field("constant_segment");
        let num_offsets = table.offsets().map_or(0, |offsets| offsets.len());
        if num_offsets > 1 && tables(root.constant_buffer()).len() > 0 {
            self.error(
                Rule::Conflict,
                &path.dot("offsets"),
                format_args!("{num_offsets} constants"),
                "none, as constant_buffer has constants too",
            )?;
        }
        self.subsegment(root, table, &path)
    }

    fn mutable_data(&mut self, root: pte::Program<'_>) -> Result<(), S::Stop> {
        let list = Path::field("mutable_data_segments");
        for (index, table) in tables(root.mutable_data_segments()).enumerate() {
            let path = list.at(index);
            if table.offsets().is_none() {
                self.missing(&path.dot("offsets"), "a list of offsets")?;
            }
            self.subsegment(root, table, &path)?;
        }
        Ok(())
    }

    /// Every offset lies in the segment. Entry 0 only stands for "none".
    fn subsegment(
        &mut self,
        root: pte::Program<'_>,
        table: pte::SubsegmentOffsets<'_>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        self.newer(&table._tab, 2, path)?;
        let Some(offsets) = table.offsets().filter(|offsets| offsets.len() > 1) else {
            return Ok(());
        };
        let index = table.segment_index();
        let num_segments = tables(root.segments()).len();
        if !self.index(&path.dot("segment_index"), index, num_segments, "segments")? {
            return Ok(());
        }
        let segment = table_at(root.segments(), crate::number::mem_index(index));
        let size = segment.map_or(0, |segment| segment.size());
        let list = path.dot("offsets");
        for (index, offset) in offsets.iter().enumerate().skip(1) {
            if offset > size {
                let expected = format_args!("an offset inside of {size} bytes");
                self.error(Rule::OutOfBounds, &list.at(index), offset, expected)?;
            }
        }
        Ok(())
    }

    /// Every entry has a name of its own and a segment.
    pub(super) fn names<'a>(
        &mut self,
        entries: impl ExactSizeIterator<Item = (Option<&'a str>, u32)>,
        num_segments: usize,
    ) -> Result<(), S::Stop> {
        let list = Path::field("named_data");
        let mut seen = Vec::with_capacity(entries.len());
        for (index, (key, segment)) in entries.enumerate() {
            let path = list.at(index);
            self.name(key, &path.dot("key"), "a name")?;
            seen.extend(key.filter(|key| !key.is_empty()).map(|key| (key, index)));
            self.index(
                &path.dot("segment_index"),
                segment,
                num_segments,
                "segments",
            )?;
        }
        seen.sort_unstable();
        for pair in seen.windows(2) {
            let &[(key, first), (next, second)] = pair else {
                continue;
            };
            if key == next {
                let expected = format_args!("another name than named_data[{first}]");
                self.error(
                    Rule::Duplicate,
                    &list.at(second).dot("key"),
                    Quoted(key),
                    expected,
                )?;
            }
        }
        Ok(())
    }
}

/// A text of the file in a message: escaped, and cut where it would be long.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl core::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        const SHOWN: usize = 80;
        f.write_str("\"")?;
        for char in self.0.chars().take(SHOWN) {
            write!(f, "{}", char.escape_debug())?;
        }
        if self.0.chars().nth(SHOWN).is_some() {
            f.write_str("…")?;
        }
        f.write_str("\"")
    }
}
