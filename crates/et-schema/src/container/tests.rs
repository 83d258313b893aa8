use alloc::string::ToString;

use super::*;

/// A head with this header, at most [`HEAD_LEN`] bytes.
fn head(kind: FileKind, header_len: u32, fields: &[u64]) -> [u8; HEAD_LEN] {
    let mut head = [0; HEAD_LEN];
    head[4..8].copy_from_slice(&kind.identifier());
    head[8..12].copy_from_slice(&kind.magic());
    head[12..16].copy_from_slice(&header_len.to_le_bytes());
    for (index, field) in fields.iter().enumerate() {
        head[16 + 8 * index..24 + 8 * index].copy_from_slice(&field.to_le_bytes());
    }
    head
}

#[track_caller]
fn check_program(
    header_len: u32,
    fields: &[u64],
    file_len: u64,
    expected: Result<Range<u64>, &str>,
) {
    let layout = Layout::program(&head(FileKind::Program, header_len, fields), file_len);
    let found = layout.map(|layout| layout.segment_region().unwrap_or(0..0));
    assert_eq!(
        found.as_ref().map_err(ContainerError::id),
        expected.as_ref().map_err(|id| *id)
    );
}

#[test]
fn r_hdr_01_less_than_64_bytes_are_too_short() {
    let error = PteHeader::parse(&head(FileKind::Program, 32, &[])[..63]).unwrap_err();
    assert_eq!((error.id(), error.code()), ("schema.file-too-short", 0x12));
}

#[test]
fn r_hdr_02_other_magic_means_no_header() {
    let mut bytes = head(FileKind::Program, 32, &[]);
    bytes[11] = b'1';
    assert_eq!(PteHeader::parse(&bytes), Ok(None));
}

#[test]
fn r_hdr_03_header_shorter_than_its_fields_is_invalid() {
    let error = PteHeader::parse(&head(FileKind::Program, 16, &[])).unwrap_err();
    assert_eq!((error.id(), error.code()), ("schema.header-length", 0x23));
}

#[test]
fn r_hdr_04_data_size_is_read_only_where_the_header_has_it() {
    for (header_len, data_size) in [(24, None), (31, None), (32, Some(7)), (100, Some(7))] {
        let header = PteHeader::parse(&head(FileKind::Program, header_len, &[1, 2, 7])).unwrap();
        assert_eq!(
            header.map(|header| header.segment_data_size),
            Some(data_size)
        );
    }
}

#[test]
fn segments_lie_between_the_base_and_their_end() {
    check_program(32, &[100, 128, 64], 192, Ok(128..192));
    check_program(32, &[100, 128, 64], 4096, Ok(128..192));
}

#[test]
fn old_headers_leave_the_rest_of_the_file_to_segments() {
    check_program(24, &[100, 128], 192, Ok(128..192));
    check_program(24, &[100, 4096], 192, Err("schema.beyond-end-of-file"));
}

#[test]
fn a_header_without_segments_is_fine() {
    check_program(32, &[100, 0, 0], 100, Ok(0..0));
}

#[test]
fn b_28_segment_data_without_a_base_is_refused() {
    check_program(32, &[100, 0, 16], 192, Err("schema.segment-base"));
}

#[test]
fn b_28_segments_inside_of_the_flatbuffer_are_refused() {
    check_program(32, &[100, 16, 16], 192, Err("schema.segment-base"));
    check_program(32, &[100, 99, 16], 192, Err("schema.segment-base"));
}

#[test]
fn b7_base_plus_size_that_wraps_is_refused() {
    check_program(
        32,
        &[100, u64::MAX - 7, 16],
        192,
        Err("schema.offset-wraps"),
    );
}

#[test]
fn parts_past_the_end_of_the_file_are_refused() {
    check_program(32, &[193, 256, 0], 192, Err("schema.beyond-end-of-file"));
    check_program(32, &[100, 128, 65], 192, Err("schema.beyond-end-of-file"));
    check_program(32, &[u64::MAX, 0, 0], 192, Err("schema.beyond-end-of-file"));
}

#[test]
fn a_header_longer_than_the_flatbuffer_is_refused() {
    check_program(32, &[39, 0, 0], 192, Err("schema.header-length"));
    check_program(u32::MAX, &[100, 0, 0], 192, Err("schema.header-length"));
}

#[test]
fn segments_are_located_in_their_region_only() {
    let layout = Layout::program(&head(FileKind::Program, 32, &[100, 128, 64]), 192).unwrap();
    assert_eq!(layout.locate(0, 64), Ok(128..192));
    assert_eq!(layout.locate(64, 0), Ok(192..192));
    for (offset, size, id) in [
        (0, 65, "schema.segment-out-of-bounds"),
        (65, 0, "schema.segment-out-of-bounds"),
        (u64::MAX, 1, "schema.offset-wraps"),
        (u64::MAX - 63, 64, "schema.offset-wraps"),
    ] {
        assert_eq!(layout.locate(offset, size).unwrap_err().id(), id);
    }
}

#[test]
fn b_28_without_a_region_only_empty_segments_exist() {
    let mut bytes = [0; HEAD_LEN];
    bytes[4..8].copy_from_slice(b"ET12");
    let layout = Layout::program(&bytes, 1000).unwrap();
    assert_eq!(
        (layout.flatbuffer_range(), layout.segment_region()),
        (0..1000, None)
    );
    assert_eq!(layout.locate(0, 0), Ok(0..0));
    assert_eq!(
        layout.locate(0, 1).unwrap_err().id(),
        "schema.segment-out-of-bounds"
    );
}

#[test]
fn a13_the_message_shows_what_was_seen() {
    let error = Layout::program(&[b'x'; HEAD_LEN], 960).unwrap_err();
    assert_eq!(
        error.to_string(),
        "not an ExecuTorch program file: identifier hex 78 78 78 78 \"xxxx\", \
         expected hex 45 54 31 32 \"ET12\", in a file of 960 bytes"
    );
    let error = Layout::program(b"\x7fELF\x02", 5).unwrap_err();
    assert_eq!(
        error.to_string(),
        "not a valid program file: 5 bytes (hex 7f 45 4c 46 02 \"\\x7fELF\\x02\"), \
         at least 64 are needed"
    );
}

#[test]
fn tensor_data_files_need_their_header() {
    let fields = [48, 100, 160, 64];
    let layout = Layout::flat_tensor(&head(FileKind::FlatTensor, 40, &fields), 224).unwrap();
    assert_eq!(layout.flatbuffer_range(), 0..148);
    assert_eq!(layout.segment_region(), Some(160..224));
    for (header_len, fields, id) in [
        (39, [48, 100, 160, 64], "schema.header-length"),
        (40, [48, u64::MAX, 160, 64], "schema.offset-wraps"),
        (40, [48, 100, 160, 65], "schema.beyond-end-of-file"),
        (40, [48, 100, u64::MAX, 64], "schema.offset-wraps"),
        (40, [48, 100, 147, 64], "schema.segment-base"),
    ] {
        let error =
            Layout::flat_tensor(&head(FileKind::FlatTensor, header_len, &fields), 224).unwrap_err();
        assert_eq!((error.id(), error.code()), (id, 0x24));
    }
    let mut bytes = head(FileKind::FlatTensor, 40, &fields);
    bytes[8] = 0;
    assert_eq!(
        Layout::flat_tensor(&bytes, 224).unwrap_err().id(),
        "schema.header-missing"
    );
}
/// The example of the header that writers and readers of the format agree on.
#[test]
fn golden_eh00_the_bytes_of_a_header() {
    let mut head = alloc::vec![0; 8];
    head[4..8].copy_from_slice(b"ET12");
    head.extend([0x65, 0x68, 0x30, 0x30, 0x20, 0x00, 0x00, 0x00]);
    head.extend([0x44, 0x33, 0x44, 0x33, 0x22, 0x11, 0x22, 0x11]);
    head.extend([0x88, 0x77, 0x88, 0x77, 0x66, 0x55, 0x66, 0x55]);
    head.extend([0x22, 0x33, 0x22, 0x33, 0x44, 0x55, 0x44, 0x55]);
    head.resize(64, 0);
    let header = PteHeader::parse(&head).unwrap().unwrap();
    assert_eq!(header.header_len, 32);
    assert_eq!(header.program_size, 0x1122_1122_3344_3344);
    assert_eq!(header.segment_base_offset, 0x5566_5566_7788_7788);
    assert_eq!(header.segment_data_size, Some(0x5544_5544_3322_3322));
}
