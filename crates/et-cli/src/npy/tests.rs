use super::*;

/// A file with this header text and these bytes of data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend_from_slice(&u16::try_from(header.len()).unwrap().to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

fn header(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

#[track_caller]
fn check_round_trip(dtype: Dtype, sizes: &[usize]) {
    let count = sizes.iter().product::<usize>() * dtype.nbytes();
    let limit = if dtype == Dtype::Bool { 2 } else { 251 };
    let bytes: Vec<u8> = (0..count).map(|i| (i % limit) as u8).collect();
    let file = encode(dtype, sizes, &bytes).unwrap();
    assert_eq!((file.len() - count) % 64, 0);
    let sizes = sizes.to_vec();
    assert_eq!(
        decode(&file),
        Ok(Array {
            dtype,
            sizes,
            bytes
        })
    );
}

#[track_caller]
fn check_error(file: &[u8], expected: &str) {
    let text = decode(file).unwrap_err().to_string();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn every_type_and_rank_is_read_as_written() {
    for (dtype, ..) in DTYPES {
        for sizes in [&[][..], &[3], &[2, 3], &[2, 0, 3], &[2; 16]] {
            check_round_trip(dtype, sizes);
        }
    }
}

#[test]
fn the_written_header_is_the_one_numpy_writes() {
    let file = encode(Dtype::Float32, &[2, 3], &[0; 24]).unwrap();
    let expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    assert_eq!(&file[10..10 + expected.len()], expected.as_bytes());
    assert_eq!(file.len(), 128 + 24);
    let one = encode(Dtype::Bool, &[3], &[0; 3]).unwrap();
    assert!(
        String::from_utf8_lossy(&one).contains("'|b1', 'fortran_order': False, 'shape': (3,), }")
    );
    let none = encode(Dtype::Int64, &[], &[0; 8]).unwrap();
    assert!(String::from_utf8_lossy(&none).contains("'shape': (), }"));
}

#[test]
fn big_endian_elements_are_swapped() {
    let array = decode(&file(
        &header(">i4", "False", "(2,)"),
        &[0, 0, 0, 1, 0, 0, 0, 2],
    ))
    .unwrap();
    assert_eq!(array.bytes, [1, 0, 0, 0, 2, 0, 0, 0]);
    let complex = decode(&file(
        &header(">c8", "False", "()"),
        &[1, 2, 3, 4, 5, 6, 7, 8],
    ))
    .unwrap();
    assert_eq!(complex.bytes, [4, 3, 2, 1, 8, 7, 6, 5]);
}

#[test]
fn fortran_order_is_transposed() {
    // [[1, 2, 3], [4, 5, 6]] with the first index fastest.
    let array = decode(&file(&header("|u1", "True", "(2, 3)"), &[1, 4, 2, 5, 3, 6])).unwrap();
    assert_eq!(array.bytes, [1, 2, 3, 4, 5, 6]);
    let cube = decode(&file(
        &header("|u1", "True", "(2, 2, 2)"),
        &[0, 1, 2, 3, 4, 5, 6, 7],
    ));
    assert_eq!(cube.unwrap().bytes, [0, 4, 2, 6, 1, 5, 3, 7]);
    assert_eq!(
        decode(&file(&header("|u1", "True", "()"), &[9]))
            .unwrap()
            .bytes,
        [9]
    );
    assert!(
        decode(&file(&header("|u1", "True", "(0, 2)"), &[]))
            .unwrap()
            .bytes
            .is_empty()
    );
}

#[test]
fn later_versions_have_a_longer_length_field() {
    let text = header("|u1", "False", "(1,)");
    for major in [2, 3] {
        let mut file = vec![0x93, b'N', b'U', b'M', b'P', b'Y', major, 0];
        file.extend_from_slice(&u32::try_from(text.len()).unwrap().to_le_bytes());
        file.extend_from_slice(text.as_bytes());
        file.push(7);
        assert_eq!(decode(&file).unwrap().bytes, [7]);
    }
}

#[test]
fn python_leaves_room_for_other_spellings() {
    let text = "  {\"shape\":(2),'fortran_order':False,\"descr\":'u1'}";
    assert_eq!(decode(&file(text, &[1, 2])).unwrap().sizes, [2]);
}

#[test]
fn what_is_not_npy_is_refused() {
    check_error(b"", "not a .npy file");
    check_error(b"\x93NUMPY\x01", "not a .npy file");
    check_error(b"PK\x03\x04abcdefgh", "starts with [50, 4b");
    check_error(b"\x93NUMPY\x04\x00\x00\x00", "version 4.0");
}

#[test]
fn lengths_beyond_the_file_are_refused() {
    check_error(
        b"\x93NUMPY\x01\x00\xff",
        "needs 10 bytes and the file has 9",
    );
    check_error(b"\x93NUMPY\x01\x00\xff\xff", "needs 65545 bytes");
    check_error(
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        "needs 4294967307 bytes",
    );
}

#[test]
fn shapes_that_overflow_or_disagree_with_the_data_are_refused() {
    check_error(
        &file(&header("<f8", "False", "(4294967296, 4294967296)"), &[]),
        "be counted",
    );
    check_error(
        &file(&header("<f4", "False", "(2, 3)"), &[0; 23]),
        "24 bytes of data",
    );
    check_error(
        &file(&header("<f4", "False", "(2, 3)"), &[0; 25]),
        "the file has 25",
    );
    check_error(
        &file(&header("<f4", "False", "(99999999999999999999,)"), &[]),
        "a size",
    );
    check_error(&file(&header("<f4", "False", "(-1,)"), &[]), "a size");
    let many = format!("({})", "1, ".repeat(65));
    check_error(
        &file(&header("<f4", "False", &many), &[0; 4]),
        "65 dimensions",
    );
}

#[test]
fn other_element_types_are_refused() {
    for descr in ["<U4", "|O", "<M8[s]", "f3", "", "\u{e9}4"] {
        check_error(
            &file(&header(descr, "False", "(1,)"), &[0; 4]),
            "not supported",
        );
    }
    let structured = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }";
    check_error(&file(structured, &[0; 4]), "expected a string");
}

#[test]
fn damaged_headers_are_refused() {
    check_error(&file("", &[]), "expected `{`");
    check_error(&file("{", &[]), "a string");
    check_error(&file("{'descr", &[]), "end of the string");
    check_error(&file("{'descr'", &[]), "expected `:`");
    check_error(&file("{'other': 1}", &[]), "a known key");
    check_error(&file("{'fortran_order': 1}", &[]), "`True` or `False`");
    check_error(&file("{'shape': (1", &[]), "`,` or `)`");
    check_error(&file("{'shape': (1,), }", &[]), "no descr");
    check_error(
        &file(&(header("|u1", "False", "()") + "x"), &[0]),
        "end of the header",
    );
}

#[test]
fn bools_are_zero_or_one() {
    check_error(
        &file(&header("|b1", "False", "(3,)"), &[0, 1, 2]),
        "element 2 is 2",
    );
}

#[test]
fn no_prefix_or_changed_byte_of_a_file_panics() {
    let good = encode(Dtype::Int16, &[2, 2], &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    for length in 0..good.len() {
        assert!(decode(&good[..length]).is_err());
    }
    for at in 0..good.len() {
        for value in 0..=255 {
            let mut bad = good.clone();
            bad[at] = value;
            // Any answer is right; not returning is what would be wrong.
            let _ = decode(&bad);
        }
    }
}
