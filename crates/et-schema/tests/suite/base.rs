//! The small files that hostile ones are made from, and what must happen with those.

use et_schema::builder::{FlatTensorBuilder, MethodBuilder, ProgramBuilder};
use et_schema::owned::{Program, Tensor};
use et_schema::summary::ProgramSummary;
use et_schema::{ParsedProgram, ReadError, ScalarType, Severity, VerifiedProgram, raw};

use crate::measure::cheap;

pub(crate) fn matrix() -> Tensor {
    Tensor::new(ScalarType::Float, &[2, 3])
}

/// Two inputs (values 0 and 1), an intermediate (2), an output (3), a number (4); one planned buffer
/// of 96 bytes; one kernel call.
pub(crate) fn method() -> MethodBuilder {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(96);
    let a = forward.input(matrix().planned(memory, 0));
    let b = forward.input(matrix().planned(memory, 24));
    let between = forward.tensor(matrix().planned(memory, 48));
    let out = forward.output(matrix().planned(memory, 72));
    let alpha = forward.int(1);
    forward.kernel("aten::add.out", &[a, b, alpha, between, out]);
    forward
}

/// A program with this method only.
pub(crate) fn program(method: MethodBuilder) -> ProgramBuilder {
    let mut program = ProgramBuilder::new();
    program.method(method);
    program
}

/// The file called BASE.
pub(crate) fn base() -> Vec<u8> {
    program(method()).to_bytes().unwrap()
}

/// BASE with the intermediate and the output on a device, and the copies there and back.
pub(crate) fn device_method() -> MethodBuilder {
    let mut forward = MethodBuilder::new("forward");
    let host = forward.buffer(48);
    let device = forward.device_buffer(48, 1, 0);
    let a = forward.input(matrix().planned(host, 0));
    let on_device = forward.tensor(matrix().planned(device, 0).on_device(1, 0));
    let result = forward.tensor(matrix().planned(device, 24).on_device(1, 0));
    let out = forward.output(matrix().planned(host, 24));
    forward.kernel("et_copy::_h2d_copy.out", &[a, on_device, on_device]);
    forward.kernel("aten::relu.out", &[on_device, result, result]);
    forward.kernel("et_copy::_d2h_copy.out", &[result, out, out]);
    forward
}

/// BASE with an f32[4,3] constant in a segment.
pub(crate) fn weight_program() -> ProgramBuilder {
    let mut program = ProgramBuilder::new();
    let data = program.constant(&[1; 48]);
    let mut forward = method();
    forward.tensor(Tensor::new(ScalarType::Float, &[4, 3]).with_data(data));
    program.method(forward);
    program
}

/// The same constant in a tensor data file.
pub(crate) fn weight_file() -> Vec<u8> {
    let mut file = FlatTensorBuilder::new();
    file.tensor("weight", ScalarType::Float, &[4, 3], &[1; 48]);
    file.to_bytes().unwrap()
}

/// BASE as generated tables, in which anything can be made absent.
pub(crate) fn tables() -> raw::pte::ProgramT {
    raw::decode_program(&ParsedProgram::from_file_bytes(&base()).unwrap())
}

/// Reads a file in every way there is, however far it gets: no panic, little time and memory, and all
/// ways agree. Returns what loading says.
#[track_caller]
pub(crate) fn load(file: &[u8]) -> Result<VerifiedProgram, ReadError> {
    let loaded = cheap(|| VerifiedProgram::from_file_bytes(file));
    let parsed = match cheap(|| ParsedProgram::from_file_bytes(file)) {
        Ok(parsed) => parsed,
        Err(error) => {
            assert_eq!(loaded.as_ref().err(), Some(&error));
            // The two verifiers agree: there is a reason for each refusal.
            assert_ne!(error.id(), "schema.flatbuffer-damaged", "{error}");
            return loaded;
        }
    };
    let problems = cheap(|| parsed.problems());
    let first = problems
        .list()
        .iter()
        .find(|problem| problem.severity == Severity::Error);
    match &loaded {
        Ok(program) => {
            assert_eq!(first, None);
            let owned = cheap(|| Program::from_verified(program));
            assert!(owned.is_ok() || problems.num_warnings() > 0);
        }
        Err(ReadError::Invalid(problem)) => assert_eq!(first, Some(&**problem)),
        Err(error) => panic!("parsed, but loading says {error}"),
    }
    let summary = cheap(|| ProgramSummary::new(&parsed));
    assert_eq!(summary.methods.len(), parsed.root().plans().len());
    loaded
}

/// A file that must be refused for this reason, at this field; and the next file loads.
#[track_caller]
pub(crate) fn check_refused(file: &[u8], id: &str, path: &str) {
    let error = load(file).expect_err("a hostile file was taken");
    assert_eq!(
        (error.id(), error.path().unwrap_or("")),
        (id, path),
        "{error}"
    );
    assert!(error.to_string().starts_with(path) || !matches!(error, ReadError::Invalid(_)));
    assert!(load(&base()).is_ok());
}

/// A method that must be refused for this reason, at this field of it.
#[track_caller]
pub(crate) fn check_method(method: MethodBuilder, id: &str, field: &str) {
    let file = program(method).to_bytes().unwrap();
    check_refused(&file, id, &format!("execution_plan[0].{field}"));
}

/// A file that loads, though with these warnings.
#[track_caller]
pub(crate) fn check_warned(file: &[u8], expected: &[(&str, &str)]) {
    let program = load(file).unwrap();
    let problems = program.as_parsed().problems();
    let found: Vec<_> = problems
        .list()
        .iter()
        .map(|problem| (problem.rule.id(), problem.path.as_str()))
        .collect();
    assert_eq!(found, expected);
}
