//! Damaged FlatBuffers and headers (group A of the known faults).

use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::{ExecutionPlan, Program, Tensor};
use et_schema::{
    AlignedBytes, ByteSource, HEAD_LEN, Layout, ParsedFlatTensor, ParsedProgram, ReadError,
    ScalarType, SourceError, VerifiedProgram, raw,
};
use flatbuffers::FlatBufferBuilder;

use crate::base::{
    base, check_method, check_refused, check_warned, device_method, load, method, program, tables,
    weight_file, weight_program,
};
use crate::measure::{cheap, cost};

fn with_word(file: &[u8], at: usize, word: u32) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at..at + 4].copy_from_slice(&word.to_le_bytes());
    file
}

/// Every 4-byte word replaced by each of these, and by itself and some more.
fn every_word(file: &[u8], mut look: impl FnMut(&[u8])) {
    for at in (0..file.len() - 3).step_by(4) {
        let word = u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let edges = [
            0,
            1,
            4,
            0x7FFF_FFFF,
            0x8000_0000,
            0xFFFF_FFFE,
            0xFFFF_FFFF,
            word.wrapping_add(1),
            word.wrapping_sub(1),
            word.wrapping_add(4),
            word.wrapping_sub(4),
            word << 16,
        ];
        for edge in edges {
            look(&with_word(file, at, edge));
        }
    }
}

/// The position of these bytes, which occur once.
#[track_caller]
fn find(file: &[u8], bytes: &[u8]) -> usize {
    let mut places = file
        .windows(bytes.len())
        .enumerate()
        .filter(|(_, seen)| *seen == bytes);
    let (at, _) = places.next().expect("not there");
    assert!(places.next().is_none(), "there more than once");
    at
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a1_root_offsets_outside_of_the_file_are_refused_with_offset_and_length() {
    let file = base();
    let len = u32::try_from(file.len()).unwrap();
    for root in [0, 4, 7, len - 3, len, 0x7FFF_FFFF, 0xFFFF_FFFF] {
        let error = load(&with_word(&file, 0, root)).unwrap_err();
        assert_eq!(
            (error.id(), error.code()),
            ("schema.flatbuffer-out-of-bounds", 0x23)
        );
        let text = error.to_string();
        assert!(
            text.contains(&root.to_string()) && text.contains(&len.to_string()),
            "{text}"
        );
    }
}

#[test]
fn a2_any_word_of_a_program_may_be_anything() {
    let mut delegate = device_method();
    let mut outer = ProgramBuilder::new();
    let data = outer.delegate_data(&[1; 20]);
    let index = delegate.delegate("backend", data, &[("target_device", b"cuda:0")]);
    delegate.delegate_call(index, &[1, 2]);
    outer.method(delegate);
    for file in [
        base(),
        weight_program().to_bytes().unwrap(),
        outer.to_bytes().unwrap(),
    ] {
        every_word(&file, |mutant| {
            let _ = load(mutant);
        });
    }
}

#[test]
fn files_cut_anywhere_are_refused_or_fine() {
    let file = weight_program().to_bytes().unwrap();
    for len in 0..file.len() {
        let error = load(&file[..len]).unwrap_err();
        assert!(matches!(error, ReadError::Container(_)), "{len}: {error}");
    }
    // Without a header only the FlatBuffer itself can tell.
    let file = base();
    for len in 0..file.len() {
        let _ = load(&file[..len]);
    }
}

#[test]
fn a4_texts_without_an_end_or_not_utf_8_are_refused() {
    let file = base();
    let name = find(&file, b"forward\0");
    let mut unended = file.clone();
    unended[name + 7] = b'x';
    check_refused(&unended, "schema.flatbuffer-text", "execution_plan[0].name");
    let mut binary = file.clone();
    binary[name] = 0xFF;
    check_refused(&binary, "schema.flatbuffer-text", "execution_plan[0].name");
    let to_the_end = u32::try_from(file.len() - name).unwrap();
    let long = with_word(&file, name - 4, to_the_end);
    check_refused(&long, "schema.flatbuffer-text", "execution_plan[0].name");
    let longer = with_word(&file, name - 4, to_the_end + 1);
    check_refused(
        &longer,
        "schema.flatbuffer-out-of-bounds",
        "execution_plan[0].name",
    );
}

#[test]
fn a4_control_characters_in_names_are_escaped_in_messages() {
    let mut twice = ProgramBuilder::new();
    for _ in 0..2 {
        let mut named = method();
        named.plan_mut().name = "\u{1b}[31m\n".repeat(100);
        twice.method(named);
    }
    let loaded = load(&twice.to_bytes().unwrap()).unwrap();
    let text = loaded.as_parsed().problems().list()[0].to_string();
    assert!(
        text.chars().all(|char| !char.is_control()) && text.len() < 1000,
        "{text}"
    );
}

#[test]
fn a5_forged_lengths_of_the_method_list_are_refused() {
    let file = program(method()).to_bytes().unwrap();
    // The list of methods: its length 1, then an offset to the only plan.
    let parsed = ParsedProgram::from_file_bytes(&file).unwrap();
    assert_eq!(parsed.root().plans().len(), 1);
    let vector = position_of_plans(&file);
    check_refused(
        &with_word(&file, vector, 0),
        "schema.missing-field",
        "execution_plan",
    );
    let id = load(&with_word(&file, vector, 0x1000_0000)).unwrap_err();
    assert_eq!(
        (id.id(), id.path()),
        ("schema.flatbuffer-out-of-bounds", Some("execution_plan"))
    );
    let error = load(&with_word(&file, vector, 2)).unwrap_err();
    assert!(
        error.path().unwrap().starts_with("execution_plan"),
        "{error}"
    );
}

/// Where the length of the method list is: follows root, field list and field as the format says.
fn position_of_plans(file: &[u8]) -> usize {
    let word =
        |at: usize| usize::try_from(u32::from_le_bytes(file[at..at + 4].try_into().unwrap()));
    let root = word(0).unwrap();
    let back = i32::from_le_bytes(file[root..root + 4].try_into().unwrap());
    let fields = root
        .checked_add_signed(-isize::try_from(back).unwrap())
        .unwrap();
    // Two lengths, then one entry per field; the methods are the second.
    let entry = fields + 4 + 2;
    let field = root + usize::from(u16::from_le_bytes([file[entry], file[entry + 1]]));
    field + word(field).unwrap()
}

#[test]
fn a7_forged_lengths_of_other_lists_are_refused() {
    let file = base();
    let args = find(&file, &words(&[5, 0, 1, 4, 2, 3]));
    let field = "execution_plan[0].chains[0].instructions[0].KernelCall.args";
    check_refused(
        &with_word(&file, args, 0x2000_0000),
        "schema.flatbuffer-out-of-bounds",
        field,
    );
    // One more: the next word is read as an index, which it cannot be or may be.
    let _ = load(&with_word(&file, args, 6));

    let mut without_operators = method();
    without_operators.plan_mut().operators.clear();
    let field = "chains[0].instructions[0].KernelCall.op_index";
    check_method(without_operators, "schema.index-out-of-range", field);

    let mut without_delegates = method();
    without_delegates.delegate_call(0, &[0]);
    let field = "chains[0].instructions[1].DelegateCall.delegate_index";
    check_method(without_delegates, "schema.index-out-of-range", field);
}

#[test]
fn a11_every_entry_verifies_the_whole_file() {
    let file = base();
    let args = find(&file, &words(&[5, 0, 1, 4, 2, 3]));
    let bad = with_word(&file, args, 0xFFFF_FFFF);
    assert!(VerifiedProgram::from_file_bytes(&bad).is_err());
    assert!(VerifiedProgram::read(bad.as_slice()).is_err());
    assert!(ParsedProgram::from_file_bytes(&bad).is_err());
    let layout = Layout::program(&bad[..64], bad.len().try_into().unwrap()).unwrap();
    let bytes = AlignedBytes::copy_of(&bad).unwrap();
    assert!(VerifiedProgram::verify(bytes, layout).is_err());
}

#[test]
fn a12_many_plans_and_many_dimensions_are_cheap() {
    let mut many = ProgramBuilder::new();
    many.program_mut().execution_plan = vec![ExecutionPlan::default(); 100_000];
    let file = many.to_bytes().unwrap();
    check_refused(&file, "schema.missing-field", "execution_plan[0].chains");
    let problems = ParsedProgram::from_file_bytes(&file).unwrap().problems();
    assert_eq!(
        (problems.num_errors(), problems.errors().count()),
        (100_000, 1000)
    );

    let mut deep = method();
    deep.tensor(Tensor::new(ScalarType::Float, &[1; 10_000]));
    check_method(deep, "schema.rank", "values[5].Tensor.sizes");

    let mut negative = method();
    negative.tensor(Tensor::new(ScalarType::Float, &[-100]));
    check_method(negative, "schema.negative", "values[5].Tensor.sizes[0]");

    let mut no_data = method();
    no_data.tensor(Tensor::new(ScalarType::Float, &[1]).with_data(999));
    check_method(
        no_data,
        "schema.index-out-of-range",
        "values[5].Tensor.data_buffer_idx",
    );
}

#[test]
fn a13_other_files_are_named_by_what_was_seen() {
    let noise: Vec<u8> = (0..960u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut older = base();
    older[7] = b'1';
    let json =
        b"{\"version\": 1, \"methods\": [\"forward\"], \"inputs\": [], \"outputs\": [1]}    ";
    for (file, seen, id) in [
        (
            noise.as_slice(),
            format!("{:02x} {:02x}", noise[4], noise[5]),
            "schema.wrong-identifier",
        ),
        (
            older.as_slice(),
            "\"ET11\"".into(),
            "schema.wrong-identifier",
        ),
        (&[], "no bytes".into(), "schema.file-too-short"),
        (b"ET12ET1", "\"ET12ET1\"".into(), "schema.file-too-short"),
        (
            &json[..],
            "hex 72 73 69 6f \"rsio\"".into(),
            "schema.wrong-identifier",
        ),
    ] {
        let error = load(file).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.id(), id, "{text}");
        assert!(text.contains(&seen), "{text}");
        assert!(text.contains(&format!("{} bytes", file.len())), "{text}");
    }
}

#[test]
fn a14_a_million_values_are_no_reason_to_refuse() {
    let mut large = method();
    for index in 0..1_000_100 {
        large.int(index);
    }
    let file = program(large).to_bytes().unwrap();
    let (loaded, nbytes, _) = cost(|| VerifiedProgram::from_file_bytes(&file));
    assert_eq!(
        loaded.unwrap().root().plan("forward").unwrap().num_values(),
        1_000_105
    );
    // The copy of the FlatBuffer and one bit per value.
    assert!(
        nbytes < file.len() + (1 << 20),
        "{nbytes} bytes for a file of {}",
        file.len()
    );
}

#[test]
fn a14_tables_that_share_a_large_part_are_refused_early() {
    for (entries, values) in [(40, 4000), (4000, 4000), (20_000, 20_000)] {
        let mut fbb = FlatBufferBuilder::new();
        let null = raw::pte::Null::create(&mut fbb, &raw::pte::NullArgs {});
        let args = raw::pte::EValueArgs {
            val_type: raw::pte::KernelTypes::Null,
            val: Some(null.as_union_value()),
        };
        let value = raw::pte::EValue::create(&mut fbb, &args);
        let values = Some(fbb.create_vector(&vec![value; values]));
        let args = raw::pte::ExecutionPlanArgs {
            values,
            ..Default::default()
        };
        let plan = raw::pte::ExecutionPlan::create(&mut fbb, &args);
        let execution_plan = Some(fbb.create_vector(&vec![plan; entries]));
        let args = raw::pte::ProgramArgs {
            execution_plan,
            ..Default::default()
        };
        let root = raw::pte::Program::create(&mut fbb, &args);
        fbb.finish(root, Some("ET12"));
        let error = load(fbb.finished_data()).unwrap_err();
        assert_eq!(error.id(), "schema.flatbuffer-expands", "{error}");
    }
}

#[test]
fn unknown_union_members_are_refused_untouched() {
    let file = base();
    for (tag, id) in [
        (12u8, "schema.unknown-code"),
        (255, "schema.unknown-code"),
        (0, "schema.unknown-code"),
    ] {
        let mut mutant = file.clone();
        for at in tags_of_ints(&file) {
            mutant[at] = tag;
        }
        check_refused(&mutant, id, "execution_plan[0].values[4].unknown");
    }
}

/// Where the type tag of the only Int value is, found by trying.
fn tags_of_ints(file: &[u8]) -> Vec<usize> {
    let kind = |file: &[u8]| {
        let program = ParsedProgram::from_file_bytes(file).ok()?;
        let kinds: Vec<_> = program
            .root()
            .plan_at(0)?
            .values()
            .map(|value| value.kind())
            .collect();
        Some(kinds)
    };
    let before = kind(file).unwrap();
    let mut tags = Vec::new();
    for at in 8..file.len() {
        let mut mutant = file.to_vec();
        mutant[at] = 99;
        if let Some(after) = kind(&mutant)
            && after.len() == before.len()
            && after[..4] == before[..4]
            && after[4] == et_schema::ValueKind::Unknown
        {
            tags.push(at);
        }
    }
    assert_eq!(tags.len(), 1);
    tags
}

#[test]
fn newer_fields_are_told_and_not_lost_silently() {
    let mut fbb = FlatBufferBuilder::new();
    let plan = tables().execution_plan.unwrap()[0].pack(&mut fbb);
    let plans = fbb.create_vector(&[plan]);
    let start = fbb.start_table();
    fbb.push_slot_always(raw::pte::Program::VT_EXECUTION_PLAN, plans);
    fbb.push_slot_always(4 + 2 * 9, 7u32);
    let root = fbb.end_table(start);
    fbb.finish(root, Some("ET12"));
    let file = fbb.finished_data();
    check_warned(file, &[("schema.newer-field", "program")]);
    let loaded = load(file).unwrap();
    let error = Program::from_verified(&loaded).unwrap_err();
    assert_eq!(
        (error.path.as_str(), error.found.as_str()),
        ("program", "field number 9")
    );
    assert_eq!(
        Program::without_newer_fields(&loaded).execution_plan.len(),
        1
    );
}

#[test]
fn tables_round_trip_through_the_generated_code() {
    let file = raw::encode_program(&tables());
    assert!(load(&file).is_ok());
}

#[test]
fn methods_without_instructions_are_fine() {
    assert!(load(&program(MethodBuilder::new("constant")).to_bytes().unwrap()).is_ok());
}

/// A file that says how long it is, and of which only the head can be read.
struct HeadOnly {
    head: Vec<u8>,
    len: u64,
}

impl ByteSource for HeadOnly {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        self.head.as_slice().read_at(offset, into)
    }
}

#[test]
fn files_longer_than_offsets_reach_are_refused_before_they_are_read() {
    let head = base()[..HEAD_LEN].to_vec();
    assert_eq!(Layout::program(&head, 1 << 33).unwrap().pte_header(), None);
    for len in [1 << 32, 1 << 33, u64::MAX] {
        let source = HeadOnly {
            head: head.clone(),
            len,
        };
        let error = cheap(|| ParsedProgram::read(&source)).unwrap_err();
        assert_eq!(error.id(), "schema.flatbuffer-too-long", "{error}");
        let error = cheap(|| VerifiedProgram::read(&source)).unwrap_err();
        assert_eq!(error.id(), "schema.flatbuffer-too-long", "{error}");
    }
}

#[test]
fn layouts_of_other_kinds_and_lengths_are_told_apart() {
    let (program, data) = (base(), weight_file());
    let bytes = |file: &[u8], layout: &Layout| {
        let nbytes = usize::try_from(layout.flatbuffer_range().end).unwrap();
        AlignedBytes::copy_of(&file[..nbytes]).unwrap()
    };
    let of_program = Layout::detect(&program, program.len() as u64).unwrap();
    let of_data = Layout::detect(&data, data.len() as u64).unwrap();
    let id = |result: Result<(), ReadError>| result.unwrap_err().id();
    let parse_program = |file: &[u8], layout: &Layout| {
        ParsedProgram::parse(bytes(file, layout), layout.clone()).map(|_| ())
    };
    assert_eq!(
        id(parse_program(&data, &of_data)),
        "schema.flatbuffer-layout"
    );
    let as_data = ParsedFlatTensor::parse(bytes(&program, &of_program), of_program.clone());
    assert_eq!(id(as_data.map(|_| ())), "schema.flatbuffer-layout");
    let short = AlignedBytes::copy_of(&program[..16]).unwrap();
    let short = ParsedProgram::parse(short, of_program.clone()).map(|_| ());
    assert_eq!(id(short), "schema.flatbuffer-length");
    assert!(parse_program(&program, &of_program).is_ok());
}
