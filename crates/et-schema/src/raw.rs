//! The generated tables, for tests that need files which nobody else can write.
//!
//! No part of the public interface: it changes with the schema and with flatc.

pub use crate::generated::{ptd, pte, scalar};

use alloc::vec::Vec;

use flatbuffers::FlatBufferBuilder;

/// The FlatBuffer of a program in which anything may be absent. There is no header.
///
/// # Panics
/// If it does not fit 2 GiB.
pub fn encode_program(program: &pte::ProgramT) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let root = program.pack(&mut fbb);
    fbb.finish(root, Some("ET12"));
    fbb.finished_data().to_vec()
}

/// The tables of a program, to be changed and encoded again.
pub fn decode_program(program: &crate::ParsedProgram) -> pte::ProgramT {
    program.root().table().unpack()
}
