//! Writing what was read: nothing is lost, and writing again gives the same bytes.

use std::path::Path;

use et_schema::builder::{FlatTensorBuilder, MethodBuilder, ProgramBuilder};
use et_schema::owned::{DataSegment, FlatTensor, Program, Tensor};
use et_schema::write::{
    ByteSink, FileSegments, WriteError, WriteOptions, write_flat_tensor, write_program,
};
use et_schema::{
    ByteSource, ConstantView, ScalarType, SourceError, VerifiedFlatTensor, VerifiedProgram,
};

use crate::base::weight_program;
use crate::corpus;

/// Reads a program and writes it.
fn rewrite(file: &[u8]) -> Vec<u8> {
    let verified = VerifiedProgram::from_file_bytes(file).unwrap();
    let program = Program::from_verified(&verified).unwrap();
    let source = file;
    let segments = FileSegments::new(&source, verified.layout(), &program.segments).unwrap();
    let options = WriteOptions::like(verified.layout(), &program.segments);
    let mut written = Vec::new();
    write_program(&program, &segments, &options, &mut written).unwrap();
    written
}

/// The bytes of each segment.
fn segments(file: &[u8], program: &VerifiedProgram) -> Vec<Vec<u8>> {
    let root = program.root();
    (0..u32::try_from(root.segments().len()).unwrap())
        .map(|index| {
            let range = root.segment_range(index).unwrap().unwrap();
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
            file[start..end].to_vec()
        })
        .collect()
}

#[track_caller]
fn check_rewritten(file: &[u8], path: &Path) {
    let written = rewrite(file);
    let [before, after] =
        [file, &written].map(|file| VerifiedProgram::from_file_bytes(file).unwrap());
    let [old, new] = [&before, &after].map(|program| Program::from_verified(program).unwrap());
    assert_eq!(old, new, "{}", path.display());
    assert_eq!(
        segments(file, &before),
        segments(&written, &after),
        "{}",
        path.display()
    );
    assert_eq!(
        before.layout().pte_header().is_some(),
        after.layout().pte_header().is_some()
    );
    assert!(
        rewrite(&written) == written,
        "{}: other bytes the second time",
        path.display()
    );
}

#[test]
fn real_programs_survive_rewriting() {
    for path in corpus::files("pte") {
        check_rewritten(&std::fs::read(&path).unwrap(), &path);
    }
}

#[test]
fn real_tensor_data_survives_rewriting() {
    for path in corpus::files("ptd") {
        let file = std::fs::read(&path).unwrap();
        let verified = VerifiedFlatTensor::from_file_bytes(&file).unwrap();
        let contents = FlatTensor::from_verified(&verified).unwrap();
        let source = file.as_slice();
        let segments = FileSegments::new(&source, verified.layout(), &contents.segments).unwrap();
        let options = WriteOptions::like(verified.layout(), &contents.segments);
        let mut written = Vec::new();
        write_flat_tensor(&contents, &segments, &options, &mut written).unwrap();
        let again = VerifiedFlatTensor::from_file_bytes(&written).unwrap();
        assert_eq!(FlatTensor::from_verified(&again).unwrap(), contents);
        for (old, new) in verified.root().entries().zip(again.root().entries()) {
            let bytes = |file: &[u8], of: &VerifiedFlatTensor, segment| {
                let range = of.root().segment_range(segment).unwrap().unwrap();
                let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
                file[start..end].to_vec()
            };
            let old = bytes(&file, &verified, old.segment_index);
            assert_eq!(
                old,
                bytes(&written, &again, new.segment_index),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn a17_constants_are_aligned_as_asked() {
    for alignment in [16, 64, 1024, 4096] {
        let mut program = ProgramBuilder::new();
        program.constant_alignment(alignment);
        let mut forward = MethodBuilder::new("forward");
        for _ in 0..3 {
            let data = program.constant(&[7; 48]);
            forward.output(Tensor::new(ScalarType::Float, &[4, 3]).with_data(data));
        }
        program.method(forward);
        let file = program.to_bytes().unwrap();
        let verified = VerifiedProgram::from_file_bytes(&file).unwrap();
        let root = verified.root();
        for index in 1..=3 {
            let Some(ConstantView::Segment {
                segment, offset, ..
            }) = root.constant(index)
            else {
                panic!("no constant {index}");
            };
            let start = root.segment_range(segment).unwrap().unwrap().start + offset;
            assert_eq!(start % u64::from(alignment), 0, "alignment {alignment}");
            let start = usize::try_from(start).unwrap();
            assert_eq!(file[start..start + 48], [7; 48]);
        }
    }
}

#[test]
fn inline_blobs_are_aligned_in_the_file() {
    let mut program = ProgramBuilder::new();
    let mut forward = MethodBuilder::new("forward");
    for len in [1, 15, 16, 17] {
        let data = program.inline_constant(&vec![len; usize::from(len)]);
        forward.output(Tensor::new(ScalarType::Byte, &[i32::from(len)]).with_data(data));
    }
    // A segment, so that there is a header, which moves everything.
    program.segment(&[1]);
    program.method(forward);
    let verified = VerifiedProgram::from_file_bytes(&program.to_bytes().unwrap()).unwrap();
    assert!(verified.layout().pte_header().is_some());
    let start = verified.flatbuffer().as_ptr().addr();
    for constant in verified.root().inline_constants() {
        assert_eq!((constant.as_ptr().addr() - start) % 16, 0);
    }
}

#[test]
fn b14_offsets_past_4_gib_keep_both_halves() {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(6 << 30);
    forward.input(Tensor::new(ScalarType::Byte, &[64]).planned(memory, (5 << 30) + 7));
    let mut program = ProgramBuilder::new();
    program.method(forward);
    let file = program.to_bytes().unwrap();
    let verified = VerifiedProgram::from_file_bytes(&file).unwrap();
    let value = verified.root().plan("forward").unwrap().value(0).unwrap();
    let allocation = value.as_tensor().unwrap().allocation().unwrap();
    assert_eq!(
        (allocation.memory_id, allocation.offset),
        (memory, (5 << 30) + 7)
    );
    assert_eq!(rewrite(&file), file);
}

#[test]
fn a16_what_offsets_cannot_reach_is_an_error() {
    let mut program = ProgramBuilder::new();
    program
        .program_mut()
        .constant_buffer
        .resize_with(11, || et_schema::owned::Buffer {
            storage: vec![0; 200 << 20],
        });
    let error = program.build().unwrap().to_bytes().unwrap_err();
    assert_eq!(error.id(), "schema.flatbuffer-too-large", "{error}");
}

#[test]
fn built_tensor_data_is_valid_and_aligned() {
    for alignment in [16, 128, 4096] {
        let mut file = FlatTensorBuilder::new();
        file.alignment(alignment)
            .tensor("weight", ScalarType::Float, &[4, 3], &[1; 48])
            .tensor("none", ScalarType::Float, &[0, 3], &[])
            .blob("blob", &[2; 5]);
        let verified = VerifiedFlatTensor::from_file_bytes(&file.to_bytes().unwrap()).unwrap();
        assert_eq!(verified.as_parsed().problems().list(), []);
        for entry in verified.root().entries() {
            let range = verified
                .root()
                .segment_range(entry.segment_index)
                .unwrap()
                .unwrap();
            assert!(range.is_empty() || range.start.is_multiple_of(u64::from(alignment)));
        }
    }
}

/// A file that is mostly zeros: pieces with their positions.
#[derive(Default)]
struct Sparse {
    pieces: Vec<(u64, Vec<u8>)>,
    len: u64,
}

impl ByteSink for Sparse {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        // Padding comes in large pieces, nothing else in this test does.
        if bytes.len() < 4096 {
            self.pieces.push((self.len, bytes.to_vec()));
        }
        self.len += u64::try_from(bytes.len()).unwrap();
        Ok(())
    }
}

impl ByteSource for Sparse {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        for (at, byte) in (offset..).zip(into.iter_mut()) {
            let index = self.pieces.partition_point(|(start, _)| *start <= at);
            let (start, piece) = &self.pieces[index - 1];
            *byte = piece
                .get(usize::try_from(at - start).unwrap())
                .copied()
                .unwrap_or(0);
        }
        Ok(())
    }
}

#[test]
fn data_past_4_gib_is_written_and_found() {
    let far = 5 << 30;
    let mut forward = MethodBuilder::new("forward");
    forward.output(Tensor::new(ScalarType::Byte, &[16]).with_data(1));
    let mut program = ProgramBuilder::new();
    program.constant(&[7; 16]);
    program.segment(&[9; 16]);
    program.method(forward);
    let mut built = program.build().unwrap();
    built.program.segments[0].offset = far;
    let mut file = Sparse::default();
    let segments = built.segments.as_slice();
    write_program(&built.program, segments, &built.options, &mut file).unwrap();
    assert!(file.len > far);

    let verified = VerifiedProgram::read(&file).unwrap();
    let root = verified.root();
    let Some(ConstantView::Segment {
        segment,
        offset,
        available,
    }) = root.constant(1)
    else {
        panic!("no constant");
    };
    let range = root.segment_range(segment).unwrap().unwrap();
    assert_eq!((offset, available, range.end), (0, 16, file.len));
    let mut bytes = [0; 16];
    file.read_at(range.start, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 16]);
}

/// A segment without bytes may lie anywhere in the segment data; rewritten, that may be shorter, and the file is still valid.
#[test]
fn empty_segments_past_the_others_are_written_at_their_end() {
    let mut program = weight_program().build().unwrap();
    program.program.segments.push(DataSegment {
        offset: 1 << 40,
        size: 0,
    });
    let segments = [&program.segments[..], &[Vec::new()]].concat();
    let mut file = Vec::new();
    write_program(&program.program, &segments[..], &program.options, &mut file).unwrap();
    let read = Program::from_verified(&VerifiedProgram::from_file_bytes(&file).unwrap()).unwrap();
    let [weights, empty] = read.segments[..] else {
        panic!("{:?}", read.segments);
    };
    assert_eq!(
        (empty.offset, empty.size),
        (weights.offset + weights.size, 0)
    );

    let mut data = FlatTensorBuilder::new();
    data.blob("some", &[1, 2, 3]).blob("none", &[]);
    let verified = VerifiedFlatTensor::from_file_bytes(&data.to_bytes().unwrap()).unwrap();
    let mut owned = FlatTensor::from_verified(&verified).unwrap();
    owned.segments[1].offset = 1 << 40;
    let (segments, mut file) = ([&[1, 2, 3][..], &[]], Vec::new());
    write_flat_tensor(&owned, &segments[..], &WriteOptions::default(), &mut file).unwrap();
    assert!(VerifiedFlatTensor::from_file_bytes(&file).is_ok());
}
