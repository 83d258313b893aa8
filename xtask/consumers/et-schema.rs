//! Someone who looks into files and runs nothing.

use et_schema::{Layout, ParsedProgram, ReadError, ScalarType};

fn main() {
    let no_program = [0u8; 64];
    let error = ParsedProgram::from_file_bytes(&no_program).expect_err("it is no program");
    assert!(matches!(error, ReadError::Container(_)));
    assert!(Layout::detect(&no_program, 64).is_err());
    assert_eq!(ScalarType::from_code(6).map(ScalarType::name), Some("FLOAT"));
}
