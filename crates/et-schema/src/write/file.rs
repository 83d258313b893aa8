//! The file around the FlatBuffer: header, padding, segments.

use alloc::vec;
use alloc::vec::Vec;

use super::WriteError;
use super::encode::{self, BLOB_ALIGNMENT};
use crate::aligned_bytes::OutOfMemory;
use crate::byte_source::{ByteSource, SourceError};
use crate::container::{Layout, PtdHeader, PteHeader};
use crate::number::file_len;
use crate::owned::{DataSegment, FlatTensor, Program};

/// The largest alignment that can be asked for.
const MAX_ALIGNMENT: u64 = 65536;

/// How files are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The segment base is a multiple of this. A power of two.
    pub segment_alignment: u32,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            segment_alignment: Self::DEFAULT_ALIGNMENT,
        }
    }
}

impl WriteOptions {
    /// What exporters use unless told otherwise.
    pub const DEFAULT_ALIGNMENT: u32 = 128;

    /// Segments aligned to this many bytes.
    pub fn aligned(segment_alignment: u32) -> Self {
        Self { segment_alignment }
    }

    /// Options that keep the alignments of an existing file: segments that were aligned there stay
    /// so, up to 4096 bytes.
    pub fn like(layout: &Layout, segments: &[DataSegment]) -> Self {
        let base = layout.segment_region().map_or(0, |region| region.start);
        let places = segments
            .iter()
            .filter(|segment| segment.size > 0)
            .fold(base, |places, segment| places | segment.offset);
        let common = 1u32.checked_shl(places.trailing_zeros()).unwrap_or(4096);
        Self {
            segment_alignment: common.clamp(BLOB_ALIGNMENT_U32, 4096),
        }
    }
}

const BLOB_ALIGNMENT_U32: u32 = 16;

/// Takes the bytes of a file, in order.
pub trait ByteSink {
    /// Takes the next bytes, all of them.
    ///
    /// # Errors
    /// [`WriteError::Sink`] or [`WriteError::OutOfMemory`].
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError>;
}

impl ByteSink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.try_reserve(bytes.len()).map_err(|_| OutOfMemory {
            nbytes: file_len(bytes.len()),
        })?;
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// The bytes of a file's segments, by index.
pub trait SegmentBytes {
    /// How many segments there are.
    fn count(&self) -> usize;

    /// How many bytes a segment has; 0 if there is no such segment.
    fn nbytes(&self, index: usize) -> u64;

    /// Fills `into` with the bytes at `offset` of a segment.
    ///
    /// # Errors
    /// The bytes are not there or could not be read.
    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), SourceError>;
}

impl<B: AsRef<[u8]>> SegmentBytes for [B] {
    fn count(&self) -> usize {
        self.len()
    }

    fn nbytes(&self, index: usize) -> u64 {
        self.get(index)
            .map_or(0, |bytes| file_len(bytes.as_ref().len()))
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        self.get(index)
            .map(AsRef::as_ref)
            .unwrap_or_default()
            .read_at(offset, into)
    }
}

/// The segments of an existing file, read from it when they are needed.
pub struct FileSegments<'a> {
    source: &'a dyn ByteSource,
    /// Position in the file and bytes.
    places: Vec<(u64, u64)>,
}

impl<'a> FileSegments<'a> {
    /// The segments with these entries in the segment table of the file `source`.
    ///
    /// # Errors
    /// A segment leaves the file's segment data.
    pub fn new(
        source: &'a dyn ByteSource,
        layout: &Layout,
        segments: &[DataSegment],
    ) -> Result<Self, crate::container::ContainerError> {
        let places = segments
            .iter()
            .map(|segment| {
                Ok((
                    layout.locate(segment.offset, segment.size)?.start,
                    segment.size,
                ))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { source, places })
    }
}

impl SegmentBytes for FileSegments<'_> {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn nbytes(&self, index: usize) -> u64 {
        self.places.get(index).map_or(0, |(_, size)| *size)
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        let nbytes = file_len(into.len());
        let (start, size) = self.places.get(index).copied().unwrap_or_default();
        let out_of_range = SourceError::OutOfRange {
            offset,
            nbytes,
            len: size,
        };
        let end = offset.checked_add(nbytes).filter(|end| *end <= size);
        let place = end
            .and_then(|_| start.checked_add(offset))
            .ok_or(out_of_range)?;
        self.source.read_at(place, into)
    }
}

/// A segment table for segments of these sizes and alignments, one after the other in their order.
///
/// Returns the table and the alignment that the segment base needs for it ([`WriteOptions`]): each
/// segment's position in the file is a multiple of `segment_alignment` and of its own alignment.
///
/// # Errors
/// [`WriteError::Alignment`], or [`WriteError::SegmentPlace`] if positions wrap.
pub fn lay_out(
    segments: &[(u64, u32)],
    segment_alignment: u32,
) -> Result<(Vec<DataSegment>, WriteOptions), WriteError> {
    let mut base = check_alignment("segments", u64::from(segment_alignment))?;
    let mut table = Vec::with_capacity(segments.len());
    let mut end = 0u64;
    for (index, (size, alignment)) in segments.iter().enumerate() {
        let own = check_alignment("a segment", u64::from(*alignment))?;
        let alignment = own.max(u64::from(segment_alignment));
        base = base.max(alignment);
        let place = || WriteError::SegmentPlace {
            index: file_len(index),
            offset: end,
        };
        // Empty segments take no place; putting them where the next byte goes would move that one.
        let offset = if *size == 0 {
            0
        } else {
            align_up(end, alignment).ok_or_else(place)?
        };
        if *size > 0 {
            end = offset.checked_add(*size).ok_or_else(place)?;
        }
        table.push(DataSegment {
            offset,
            size: *size,
        });
    }
    let segment_alignment = u32::try_from(base).unwrap_or(segment_alignment);
    Ok((table, WriteOptions { segment_alignment }))
}

/// Writes a program and its segments.
///
/// A program without a byte in any segment is written without a header. A segment of no bytes that lies past all others is written as
/// lying at their end.
///
/// # Errors
/// The program does not fit the format, the segment table does not fit the segments, a segment could
/// not be read, or the sink refused. What was written before the error stays written.
pub fn write_program<S, W>(
    program: &Program,
    segments: &S,
    options: &WriteOptions,
    to: &mut W,
) -> Result<(), WriteError>
where
    S: SegmentBytes + ?Sized,
    W: ByteSink + ?Sized,
{
    let order = place_segments(&program.segments, segments)?;
    let flatbuffer = match without_places_past_the_end(&program.segments, &order) {
        None => encode::program(program)?,
        Some(table) => {
            let mut program = program.clone();
            program.segments = table;
            encode::program(&program)?
        }
    };
    if order.is_empty() {
        return to.write(&flatbuffer);
    }
    let header_len = PteHeader::LEN;
    let plan = FilePlan::new(&flatbuffer, header_len, &order, options)?;
    let mut header = Vec::new();
    header.extend_from_slice(&PteHeader::MAGIC);
    header.extend_from_slice(&header_len.to_le_bytes());
    header.extend_from_slice(&plan.flatbuffer_len.to_le_bytes());
    header.extend_from_slice(&plan.base.to_le_bytes());
    header.extend_from_slice(&plan.data_size.to_le_bytes());
    plan.write(&flatbuffer, &header, &order, segments, to)
}

/// Writes a tensor data file and its segments.
///
/// # Errors
/// As for [`write_program`].
pub fn write_flat_tensor<S, W>(
    file: &FlatTensor,
    segments: &S,
    options: &WriteOptions,
    to: &mut W,
) -> Result<(), WriteError>
where
    S: SegmentBytes + ?Sized,
    W: ByteSink + ?Sized,
{
    let order = place_segments(&file.segments, segments)?;
    let flatbuffer = match without_places_past_the_end(&file.segments, &order) {
        None => encode::flat_tensor(file)?,
        Some(table) => {
            let mut file = file.clone();
            file.segments = table;
            encode::flat_tensor(&file)?
        }
    };
    let plan = FilePlan::new(&flatbuffer, PtdHeader::LEN, &order, options)?;
    let mut header = Vec::new();
    header.extend_from_slice(&PtdHeader::MAGIC);
    header.extend_from_slice(&PtdHeader::LEN.to_le_bytes());
    header.extend_from_slice(&file_len(plan.header_room).to_le_bytes());
    header.extend_from_slice(&file_len(flatbuffer.len()).to_le_bytes());
    header.extend_from_slice(&plan.base.to_le_bytes());
    header.extend_from_slice(&plan.data_size.to_le_bytes());
    plan.write(&flatbuffer, &header, &order, segments, to)
}

/// A segment with bytes: index, offset, size.
type Placed = (usize, u64, u64);

/// The segments that have bytes, in the order of their offsets.
fn place_segments<S: SegmentBytes + ?Sized>(
    table: &[DataSegment],
    segments: &S,
) -> Result<Vec<Placed>, WriteError> {
    if table.len() != segments.count() {
        let (found, expected) = (file_len(table.len()), file_len(segments.count()));
        return Err(WriteError::SegmentCount { found, expected });
    }
    let mut order = Vec::new();
    for (index, segment) in table.iter().enumerate() {
        let found = segments.nbytes(index);
        if found != segment.size {
            let (index, expected) = (file_len(index), segment.size);
            return Err(WriteError::SegmentSize {
                index,
                found,
                expected,
            });
        }
        if segment.size > 0 {
            order.push((index, segment.offset, segment.size));
        }
    }
    order.sort_by_key(|(index, offset, _)| (*offset, *index));
    let mut end = 0u64;
    for (index, offset, size) in &order {
        let place = WriteError::SegmentPlace {
            index: file_len(*index),
            offset: *offset,
        };
        if *offset < end {
            return Err(place);
        }
        end = offset.checked_add(*size).ok_or(place)?;
    }
    Ok(order)
}

/// The table with segments of no bytes that lie past the last byte of all moved to there: a place that the written file has. `None`
/// if there are none.
fn without_places_past_the_end(
    table: &[DataSegment],
    order: &[Placed],
) -> Option<Vec<DataSegment>> {
    let last = order.last();
    let end = last.map_or(0, |(_, offset, size)| offset.saturating_add(*size));
    table.iter().any(|segment| segment.offset > end).then(|| {
        let clamped = table.iter().map(|segment| DataSegment {
            offset: segment.offset.min(end),
            size: segment.size,
        });
        clamped.collect()
    })
}

/// Where everything goes in a file with a header.
struct FilePlan {
    /// Bytes that the header takes, padding included.
    header_room: usize,
    /// Bytes to the end of the FlatBuffer, header included.
    flatbuffer_len: u64,
    base: u64,
    data_size: u64,
}

impl FilePlan {
    fn new(
        flatbuffer: &[u8],
        header_len: u32,
        order: &[Placed],
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let alignment = check_alignment("segments", u64::from(options.segment_alignment))?;
        let header_room = u64::from(header_len).next_multiple_of(file_len(BLOB_ALIGNMENT));
        let flatbuffer_len = file_len(flatbuffer.len()).saturating_add(header_room);
        let base = align_up(flatbuffer_len, alignment);
        let data_size = order
            .last()
            .map_or(0, |(_, offset, size)| offset.saturating_add(*size));
        let base = base.filter(|base| base.checked_add(data_size).is_some());
        let index = order.last().map_or(0, |(index, ..)| file_len(*index));
        let base = base.ok_or(WriteError::SegmentPlace {
            index,
            offset: data_size,
        })?;
        let header_room =
            usize::try_from(header_room).expect("invariant: a header has less than 100 bytes");
        Ok(Self {
            header_room,
            flatbuffer_len,
            base,
            data_size,
        })
    }

    fn write<S, W>(
        &self,
        flatbuffer: &[u8],
        header: &[u8],
        order: &[Placed],
        segments: &S,
        to: &mut W,
    ) -> Result<(), WriteError>
    where
        S: SegmentBytes + ?Sized,
        W: ByteSink + ?Sized,
    {
        let (root, rest) = flatbuffer
            .split_first_chunk()
            .expect("a flatbuffer has a root offset");
        let (identifier, tables) = rest.split_at_checked(4).expect("and an identifier");
        // The header goes between the identifier and the tables, which moves the root table.
        let root = u32::try_from(self.header_room)
            .ok()
            .and_then(|moved| u32::from_le_bytes(*root).checked_add(moved))
            .expect("invariant: offsets of a flatbuffer have 31 bits, and a header is short");
        to.write(&root.to_le_bytes())?;
        to.write(identifier)?;
        to.write(header)?;
        pad(to, file_len(self.header_room.saturating_sub(header.len())))?;
        to.write(tables)?;
        pad(to, self.base.saturating_sub(self.flatbuffer_len))?;
        let mut position = 0u64;
        for (index, offset, size) in order {
            pad(to, offset.saturating_sub(position))?;
            copy(segments, *index, *size, to)?;
            position = offset.saturating_add(*size);
        }
        Ok(())
    }
}

fn copy<S, W>(segments: &S, index: usize, size: u64, to: &mut W) -> Result<(), WriteError>
where
    S: SegmentBytes + ?Sized,
    W: ByteSink + ?Sized,
{
    const CHUNK: usize = 64 * 1024;
    let mut chunk = vec![0; usize::try_from(size).unwrap_or(CHUNK).min(CHUNK)];
    let mut done = 0u64;
    while done < size {
        let left = usize::try_from(size.saturating_sub(done))
            .unwrap_or(CHUNK)
            .min(CHUNK);
        let part = chunk.get_mut(..left).unwrap_or_default();
        segments.read(index, done, part)?;
        to.write(part)?;
        done = done.saturating_add(file_len(left));
    }
    Ok(())
}

fn pad<W: ByteSink + ?Sized>(to: &mut W, mut nbytes: u64) -> Result<(), WriteError> {
    const ZEROS: [u8; 4096] = [0; 4096];
    while nbytes > 0 {
        let len = usize::try_from(nbytes)
            .unwrap_or(ZEROS.len())
            .min(ZEROS.len());
        to.write(ZEROS.get(..len).unwrap_or(&ZEROS))?;
        nbytes = nbytes.saturating_sub(file_len(len));
    }
    Ok(())
}

fn check_alignment(what: &'static str, found: u64) -> Result<u64, WriteError> {
    if found.is_power_of_two() && found <= MAX_ALIGNMENT {
        return Ok(found);
    }
    Err(WriteError::Alignment { what, found })
}

fn align_up(position: u64, alignment: u64) -> Option<u64> {
    position.checked_next_multiple_of(alignment)
}

#[cfg(test)]
mod tests;
