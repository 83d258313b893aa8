use alloc::vec;

use super::*;
use crate::container::HEAD_LEN;

fn table(places: &[(u64, u64)]) -> Vec<DataSegment> {
    places
        .iter()
        .map(|(offset, size)| DataSegment {
            offset: *offset,
            size: *size,
        })
        .collect()
}

/// Writes an empty program with these segments.
fn write(
    places: &[(u64, u64)],
    segments: &[Vec<u8>],
    segment_alignment: u32,
) -> Result<Vec<u8>, WriteError> {
    let program = Program {
        segments: table(places),
        ..Program::default()
    };
    let mut file = Vec::new();
    write_program(
        &program,
        segments,
        &WriteOptions::aligned(segment_alignment),
        &mut file,
    )?;
    Ok(file)
}

#[test]
fn lay_out_aligns_each_segment_and_the_base() {
    let (table, options) = lay_out(&[(0, 1), (5, 16), (7, 1024), (1, 1)], 128).unwrap();
    let offsets: Vec<_> = table.iter().map(|segment| segment.offset).collect();
    assert_eq!(
        (offsets, options.segment_alignment),
        (vec![0, 0, 1024, 1152], 1024)
    );
}

#[test]
fn lay_out_refuses_what_is_no_alignment() {
    for alignment in [0, 3, 14, 131_072] {
        assert_eq!(
            lay_out(&[], alignment).unwrap_err().id(),
            "schema.write-alignment"
        );
        assert_eq!(
            lay_out(&[(1, alignment)], 16).unwrap_err().id(),
            "schema.write-alignment"
        );
    }
}

#[test]
fn lay_out_refuses_sizes_that_wrap() {
    let error = lay_out(&[(u64::MAX, 1), (1, 1)], 16).unwrap_err();
    assert!(
        matches!(error, WriteError::SegmentPlace { index: 1, .. }),
        "{error}"
    );
}

#[test]
fn segments_keep_their_places_in_any_order() {
    let segments = [vec![1; 3], vec![2; 5], vec![]];
    let file = write(&[(16, 3), (0, 5), (99, 0)], &segments, 64).unwrap();
    let layout = Layout::program(&file[..HEAD_LEN], file_len(file.len())).unwrap();
    let region = layout.segment_region().unwrap();
    assert_eq!((region.start % 64, region.end - region.start), (0, 19));
    let base = usize::try_from(region.start).unwrap();
    assert_eq!(
        file[base..],
        [2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]
    );
}

#[test]
fn a_program_without_segment_bytes_has_no_header() {
    let file = write(&[(0, 0)], &[vec![]], 64).unwrap();
    assert_ne!(file[8..12], PteHeader::MAGIC);
}

#[test]
fn segments_that_do_not_fit_their_table_are_refused() {
    let one = [vec![0; 4]];
    let error = write(&[], &one, 16).unwrap_err();
    assert_eq!(
        error,
        WriteError::SegmentCount {
            found: 0,
            expected: 1
        }
    );
    let error = write(&[(0, 5)], &one, 16).unwrap_err();
    assert_eq!(
        error,
        WriteError::SegmentSize {
            index: 0,
            found: 4,
            expected: 5
        }
    );
    let error = write(&[(u64::MAX - 1, 4)], &one, 16).unwrap_err();
    assert_eq!(
        error,
        WriteError::SegmentPlace {
            index: 0,
            offset: u64::MAX - 1
        }
    );
    let two = [vec![0; 4], vec![0; 4]];
    let error = write(&[(0, 4), (3, 4)], &two, 16).unwrap_err();
    assert_eq!(
        error,
        WriteError::SegmentPlace {
            index: 1,
            offset: 3
        }
    );
    let error = write(&[(0, 4)], &one, 48).unwrap_err();
    assert_eq!(error.id(), "schema.write-alignment");
}

#[test]
fn options_like_a_file_keep_what_its_segments_have_in_common() {
    for (alignment, offset, expected) in [(4096, 0, 4096), (4096, 256, 256), (64, 128, 64)] {
        let places = [(0, 1), (offset + 8192, 1)];
        let file = write(&places, &[vec![1], vec![2]], alignment).unwrap();
        let layout = Layout::program(&file[..HEAD_LEN], file_len(file.len())).unwrap();
        let base = layout.segment_region().unwrap().start;
        let found = WriteOptions::like(&layout, &table(&places)).segment_alignment;
        let exact = 1u64 << (base | offset).trailing_zeros();
        assert_eq!(u64::from(found), exact.clamp(16, 4096));
        assert!(found >= expected);
    }
}

/// Refuses everything after some bytes.
struct Full(usize);

impl ByteSink for Full {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(WriteError::Sink {
            reason: "full".into(),
        })?;
        Ok(())
    }
}

#[test]
fn a_full_output_is_an_error_wherever_it_happens() {
    let segments = [vec![1; 100_000]];
    let program = Program {
        segments: table(&[(0, 100_000)]),
        ..Program::default()
    };
    let options = WriteOptions::default();
    let mut file = Vec::new();
    write_program(&program, segments.as_slice(), &options, &mut file).unwrap();
    for room in (0..file.len()).step_by(37) {
        let result = write_program(&program, segments.as_slice(), &options, &mut Full(room));
        assert_eq!(result.unwrap_err().id(), "schema.write-failed");
    }
    write_program(
        &program,
        segments.as_slice(),
        &options,
        &mut Full(file.len()),
    )
    .unwrap();
}

/// A source that has fewer bytes than its table says.
#[test]
fn segments_that_cannot_be_read_are_an_error() {
    let file = write(&[(0, 4)], &[vec![1; 4]], 16).unwrap();
    let layout = Layout::program(&file[..HEAD_LEN], file_len(file.len())).unwrap();
    let short = &file[..file.len() - 1];
    let segments = FileSegments::new(&short, &layout, &table(&[(0, 4)])).unwrap();
    let program = Program {
        segments: table(&[(0, 4)]),
        ..Program::default()
    };
    let result = write_program(
        &program,
        &segments,
        &WriteOptions::default(),
        &mut Vec::new(),
    );
    assert_eq!(result.unwrap_err().id(), "schema.read-failed");
    assert!(FileSegments::new(&short, &layout, &table(&[(0, 5)])).is_err());
}
