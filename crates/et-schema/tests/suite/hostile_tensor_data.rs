//! Damaged and lying tensor data files (group E of the known faults).

use et_schema::builder::FlatTensorBuilder;
use et_schema::owned::{FlatTensor, TensorLayout};
use et_schema::summary::FlatTensorSummary;
use et_schema::{ParsedFlatTensor, ReadError, ScalarType, Severity, VerifiedFlatTensor};

use crate::base::weight_file;
use crate::measure::cheap;

/// Reads a file in every way there is.
#[track_caller]
fn load(file: &[u8]) -> Result<VerifiedFlatTensor, ReadError> {
    let loaded = cheap(|| VerifiedFlatTensor::from_file_bytes(file));
    if let Ok(parsed) = ParsedFlatTensor::read(file) {
        let problems = cheap(|| parsed.problems());
        let first = problems
            .list()
            .iter()
            .find(|problem| problem.severity == Severity::Error);
        assert_eq!(first.is_none(), loaded.is_ok());
        let summary = cheap(|| FlatTensorSummary::new(&parsed));
        assert_eq!(summary.named_data.len(), parsed.root().entries().len());
    }
    if let Ok(file) = &loaded {
        let _ = cheap(|| FlatTensor::from_verified(file));
    }
    loaded
}

#[track_caller]
fn check_refused(file: &[u8], id: &str, path: &str) {
    let error = load(file).expect_err("a hostile file was taken");
    assert_eq!(
        (error.id(), error.path().unwrap_or("")),
        (id, path),
        "{error}"
    );
    assert_eq!(error.code(), 0x24);
    assert!(load(&weight_file()).is_ok());
}

fn with_layout(sizes: &[i32], nbytes: usize) -> Vec<u8> {
    let mut file = FlatTensorBuilder::new();
    file.tensor("weight", ScalarType::Float, sizes, &vec![1; nbytes]);
    file.to_bytes().unwrap()
}

#[test]
fn e1_layouts_larger_than_their_data_are_refused() {
    let path = "named_data[0].tensor_layout";
    check_refused(&with_layout(&[32, 32], 16), "schema.size-mismatch", path);
    check_refused(
        &with_layout(&[i32::MAX; 3], 16),
        "schema.overflow",
        "named_data[0].tensor_layout.sizes",
    );
    check_refused(
        &with_layout(&[-4], 16),
        "schema.negative",
        "named_data[0].tensor_layout.sizes[0]",
    );
    check_refused(
        &with_layout(&[1; 17], 4),
        "schema.rank",
        "named_data[0].tensor_layout.sizes",
    );
}

#[test]
fn e1_data_larger_than_its_layout_is_told() {
    let file = load(&with_layout(&[2], 16)).unwrap();
    let problems = file.as_parsed().problems();
    assert_eq!((problems.num_errors(), problems.num_warnings()), (0, 1));
}

#[test]
fn e3_any_word_of_a_tensor_data_file_may_be_anything() {
    let file = weight_file();
    for at in (0..file.len() - 3).step_by(4) {
        for word in [0u32, 1, 7, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF] {
            let mut mutant = file.clone();
            mutant[at..at + 4].copy_from_slice(&word.to_le_bytes());
            let _ = load(&mutant);
        }
    }
    for len in 0..file.len() {
        assert!(load(&file[..len]).is_err());
    }
}

#[test]
fn e3_root_offsets_outside_of_the_file_are_refused() {
    let mut file = weight_file();
    file[..4].copy_from_slice(&0x7FFF_FFFFu32.to_le_bytes());
    check_refused(&file, "schema.flatbuffer-out-of-bounds", "");
}

#[test]
fn b_38_entries_without_a_layout_are_blobs() {
    let mut file = FlatTensorBuilder::new();
    file.blob("blob", &[1, 2, 3]);
    let file = load(&file.to_bytes().unwrap()).unwrap();
    let entry = file.root().entry("blob").unwrap();
    assert!(entry.layout.is_none());
    assert_eq!(file.root().segment(entry.segment_index).unwrap().size, 3);
}

#[test]
fn b_38_dimension_orders_have_the_length_of_the_sizes() {
    let dim_order = vec![0, 1, 2];
    let layout = TensorLayout {
        scalar_type: ScalarType::Float,
        sizes: vec![2, 3],
        dim_order,
    };
    let mut file = FlatTensorBuilder::new();
    file.entry("weight", Some(layout), &[1; 24]);
    let path = "named_data[0].tensor_layout.dim_order";
    check_refused(&file.to_bytes().unwrap(), "schema.dim-order", path);
}

#[test]
fn names_and_segments_are_there_and_unique() {
    let mut twice = FlatTensorBuilder::new();
    twice.blob("a", &[1]).blob("a", &[2]);
    check_refused(
        &twice.to_bytes().unwrap(),
        "schema.duplicate",
        "named_data[1].key",
    );
    let mut nowhere = FlatTensorBuilder::new();
    nowhere.blob("a", &[1]);
    nowhere.file_mut().named_data[0].segment_index = 1;
    let path = "named_data[0].segment_index";
    check_refused(
        &nowhere.to_bytes().unwrap(),
        "schema.index-out-of-range",
        path,
    );
}

#[test]
fn a_program_is_no_tensor_data_file() {
    let error = load(&crate::base::base()).unwrap_err();
    assert_eq!(
        (error.id(), error.code()),
        ("schema.wrong-identifier", 0x24)
    );
    let error = crate::base::load(&weight_file()).unwrap_err();
    assert_eq!(
        (error.id(), error.code()),
        ("schema.wrong-identifier", 0x23)
    );
}
