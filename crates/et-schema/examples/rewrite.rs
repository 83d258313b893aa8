//! Reads a program (`.pte`) or tensor data (`.ptd`), takes it as owned values, and writes those: `rewrite FROM TO`.
//!
//! A program that wants to change a file has the change between reading and writing.

use std::env::args_os;
use std::error::Error;
use std::fs;

use et_schema::owned::{FlatTensor, Program};
use et_schema::write::{FileSegments, WriteOptions, write_flat_tensor, write_program};
use et_schema::{FileKind, VerifiedFlatTensor, VerifiedProgram};

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = args_os().skip(1);
    let (Some(from), Some(to), None) = (paths.next(), paths.next(), paths.next()) else {
        return Err("usage: rewrite FROM TO".into());
    };
    let file = fs::read(from)?;
    let written = match FileKind::detect(&file) {
        Some(FileKind::FlatTensor) => rewrite_data(&file)?,
        _ => rewrite_program(&file)?,
    };
    fs::write(to, written)?;
    Ok(())
}

fn rewrite_program(file: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let verified = VerifiedProgram::from_file_bytes(file)?;
    let program = Program::from_verified(&verified)?;
    let segments = FileSegments::new(&file, verified.layout(), &program.segments)?;
    let options = WriteOptions::like(verified.layout(), &program.segments);
    let mut written = Vec::new();
    write_program(&program, &segments, &options, &mut written)?;
    Ok(written)
}

fn rewrite_data(file: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let verified = VerifiedFlatTensor::from_file_bytes(file)?;
    let contents = FlatTensor::from_verified(&verified)?;
    let segments = FileSegments::new(&file, verified.layout(), &contents.segments)?;
    let options = WriteOptions::like(verified.layout(), &contents.segments);
    let mut written = Vec::new();
    write_flat_tensor(&contents, &segments, &options, &mut written)?;
    Ok(written)
}
