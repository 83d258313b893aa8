//! Every real program at hand: the fixtures, and the whole corpus where `ET_CORPUS` names it.

use std::path::PathBuf;

use et_schema::{ParsedFlatTensor, ParsedProgram};

/// Files of the fixtures and of the corpus with this extension.
pub(crate) fn files(extension: &str) -> Vec<PathBuf> {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let corpus = std::env::var_os("ET_CORPUS").map(PathBuf::from);
    let mut files = Vec::new();
    for root in [Some(fixtures), corpus].into_iter().flatten() {
        for case in std::fs::read_dir(root).unwrap() {
            let case = case.unwrap().path();
            let Ok(entries) = std::fs::read_dir(case) else {
                continue;
            };
            files.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

#[test]
fn real_programs_have_no_errors() {
    let files = files("pte");
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let program = ParsedProgram::from_file_bytes(&bytes)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for problem in program.problems().list() {
            println!("{}: {:?} {problem}", file.display(), problem.severity);
        }
        program
            .validate()
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

#[test]
fn real_tensor_data_files_have_no_problems() {
    let files = files("ptd");
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let data = ParsedFlatTensor::read(bytes.as_slice())
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(data.problems().list(), [], "{}", file.display());
        for entry in data.root().entries() {
            let range = data
                .root()
                .segment_range(entry.segment_index)
                .unwrap()
                .unwrap();
            let nbytes = entry.layout.and_then(|layout| layout.nbytes()).unwrap();
            assert_eq!(
                range.end - range.start,
                nbytes,
                "{} {}",
                file.display(),
                entry.key
            );
        }
    }
}
