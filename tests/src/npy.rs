//! Reading `.npy` files.

use std::path::Path;

use et_kernel::{ScalarType, Tensor, TensorMeta};

/// The host tensor in a file, whose elements are taken to be `dtype`.
///
/// # Panics
/// If the file cannot be read or is not of the kind that recorded cases use.
pub(crate) fn read(path: &Path, dtype: ScalarType) -> Tensor {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{}", path.display());
    let header_len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (header, data) = bytes[10..].split_at(header_len);
    let header = String::from_utf8_lossy(header);
    assert!(header.contains("'fortran_order': False"), "{header}");
    let sizes = sizes(&header).unwrap_or_else(|| panic!("no shape in {header}"));
    let meta = TensorMeta::contiguous(dtype, &sizes).expect("a recorded shape can be");
    Tensor::from_bytes(meta, data).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sizes(header: &str) -> Option<Vec<usize>> {
    let (_, rest) = header.split_once("'shape': (")?;
    let (list, _) = rest.split_once(')')?;
    Some(
        list.split(',')
            .filter_map(|n| n.trim().parse().ok())
            .collect(),
    )
}
