//! Hostile files, made here, and what `et verify` and `et run` say of each: word for word what stands in `tests/hostile.txt`. With
//! `ET_TESTS_WRITE=1` that file is written anew, for somebody to read what changed.
#![expect(clippy::unwrap_used, reason = "nothing but a test is in here")]

use et_schema::ScalarType;
use et_schema::builder::{FlatTensorBuilder, MethodBuilder, ProgramBuilder};
use et_schema::owned::{ExecutionPlan, Instruction, JumpFalseCall, MoveCall, Tensor, Value};
use std::path::{Path, PathBuf};
use std::process::Command;

fn floats(sizes: &[i32]) -> Tensor {
    Tensor::new(ScalarType::Float, sizes)
}

/// `relu`, with a constant beside it: values 0 (input), 1 (output), 2 (constant), 3 (list of both), 4 (a number).
fn sound() -> (MethodBuilder, ProgramBuilder) {
    let mut program = ProgramBuilder::new();
    let data = program.constant(&[1; 48]);
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(64);
    let x = forward.input(floats(&[2, 3]).planned(memory, 0));
    let out = forward.output(floats(&[2, 3]).planned(memory, 32));
    forward.tensor(floats(&[4, 3]).with_data(data));
    forward.tensor_list(&[x, out]);
    forward.int(1);
    forward.kernel("aten::relu.out", &[x, out, out]);
    (forward, program)
}

/// The sound program with its method changed.
fn method(change: impl FnOnce(&mut ExecutionPlan)) -> Vec<u8> {
    let (mut forward, mut program) = sound();
    change(forward.plan_mut());
    program.method(forward);
    program.to_bytes().unwrap()
}

/// The sound program with its input or another value that is a tensor changed.
fn tensor(value: usize, change: impl FnOnce(&mut Tensor)) -> Vec<u8> {
    method(|plan| match &mut plan.values[value] {
        Value::Tensor(tensor) => change(tensor),
        other => panic!("{other:?}"),
    })
}

/// The sound program with the arguments of its call changed.
fn arguments(change: impl FnOnce(&mut Vec<i32>)) -> Vec<u8> {
    method(|plan| match &mut plan.chains[0].instructions[0] {
        Instruction::KernelCall(call) => change(&mut call.args),
        other => panic!("{other:?}"),
    })
}

/// The sound program as bytes, damaged.
fn damaged(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut file = method(|_| ());
    change(&mut file);
    file
}

fn set(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Each file, by the fault that it is an instance of.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let weights = || {
        let mut file = FlatTensorBuilder::new();
        file.tensor("weight", ScalarType::Float, &[4, 3], &[1; 48]);
        file
    };
    let mut layout = weights();
    if let Some(entry) = layout.file_mut().named_data.first_mut()
        && let Some(layout) = &mut entry.tensor_layout
    {
        layout.sizes = vec![32, 32];
    }
    vec![
        (
            "A1 root offset",
            damaged(|file| set(file, 0, &u32::MAX.to_le_bytes())),
        ),
        ("A1 root offset 0", damaged(|file| set(file, 0, &[0; 4]))),
        (
            "A2 inner offset",
            damaged(|file| set(file, 48, &u32::MAX.to_le_bytes())),
        ),
        ("A13 empty", Vec::new()),
        (
            "A13 text",
            b"{\"this\": \"is JSON, and long enough to be a file of something else\"}\n".to_vec(),
        ),
        ("A13 older version", damaged(|file| set(file, 4, b"ET11"))),
        ("cut", damaged(|file| file.truncate(200))),
        ("A12 plans without end", {
            let mut program = ProgramBuilder::new();
            for _ in 0..3 {
                program.method(MethodBuilder::new("same"));
            }
            program.to_bytes().unwrap()
        }),
        (
            "A12 dimensions",
            tensor(0, |it| {
                it.sizes = vec![1; 10_000];
                it.dim_order = (0..10_000u32).map(|dim| dim as u8).collect();
            }),
        ),
        (
            "B1 product of sizes",
            tensor(0, |it| it.sizes = vec![i32::MAX, i32::MAX]),
        ),
        (
            "B3 planned offset",
            tensor(0, |it| {
                it.allocation_info.as_mut().unwrap().memory_offset = u64::MAX - 7
            }),
        ),
        (
            "B7 segment base",
            damaged(|file| set(file, 24, &(u64::MAX - 7).to_le_bytes())),
        ),
        (
            "B14 high half",
            tensor(0, |it| {
                it.allocation_info.as_mut().unwrap().memory_offset = 1 << 32
            }),
        ),
        (
            "B19 planned buffer",
            method(|plan| plan.non_const_buffer_sizes[1] = 1 << 62),
        ),
        ("C2 argument", arguments(|args| args[0] = i32::MAX)),
        ("C2 fewer arguments", arguments(|args| args.truncate(1))),
        ("C2 another kind", arguments(|args| args[0] = 4)),
        (
            "C4 move",
            method(|plan| {
                plan.chains[0]
                    .instructions
                    .push(Instruction::MoveCall(MoveCall {
                        move_from: 0,
                        move_to: 4,
                    }))
            }),
        ),
        ("C7 input", method(|plan| plan.inputs = vec![999])),
        ("C7 input twice", method(|plan| plan.inputs = vec![0, 0])),
        (
            "C8 list",
            method(|plan| plan.values[3] = Value::TensorList(vec![0, -1])),
        ),
        (
            "C8 list in itself",
            method(|plan| plan.values[3] = Value::TensorList(vec![3])),
        ),
        ("C9 constant", tensor(2, |it| it.data_buffer_idx = 999)),
        (
            "C11 17 dimensions",
            tensor(0, |it| {
                it.sizes = vec![1; 17];
                it.dim_order = (0..17).collect();
            }),
        ),
        (
            "C jump",
            method(|plan| {
                plan.chains[0]
                    .instructions
                    .push(Instruction::JumpFalseCall(JumpFalseCall {
                        cond_value_index: 4,
                        destination_instruction: 77,
                    }))
            }),
        ),
        ("D6 negative size", tensor(0, |it| it.sizes = vec![2, -3])),
        (
            "D6 negative buffer",
            method(|plan| plan.non_const_buffer_sizes[1] = -1),
        ),
        (
            "order of dimensions",
            tensor(0, |it| it.dim_order = vec![0, 0]),
        ),
        (
            "M7 operators",
            method(|plan| {
                for operator in &mut plan.operators {
                    operator.name = "acme::frobnicate".into();
                }
            }),
        ),
        ("E1 layout", layout.to_bytes().unwrap()),
        ("E3 root of data", {
            let mut file = weights().to_bytes().unwrap();
            set(&mut file, 0, &u32::MAX.to_le_bytes());
            file
        }),
    ]
}

/// What `et` answers, with its exit status; the file's path is left out.
fn answer(command: &str, file: &Path) -> String {
    let mut et = Command::new(env!("CARGO_BIN_EXE_et"));
    let output = et.arg(command).arg(file).output().unwrap();
    let status = output
        .status
        .code()
        .map_or("a signal".into(), |code| code.to_string());
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    let name = file.display().to_string();
    format!(
        "$ et {command} FILE    # status {status}\n{}",
        text.replace(&name, "FILE")
    )
}

#[test]
fn every_hostile_file_is_answered_in_words_that_help() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for (name, bytes) in files() {
        let is_data = bytes.get(4..8) == Some(b"FT01");
        let file = folder
            .path()
            .join(if is_data { "file.ptd" } else { "file.pte" });
        std::fs::write(&file, &bytes).unwrap();
        text.push_str(&format!("== {name}: {} bytes\n", bytes.len()));
        let mut answers = answer("verify", &file);
        if !is_data {
            answers.push_str(&answer("run", &file));
        }
        // None of them is taken for sound, ends by a signal, or panics.
        let refused = ["status 1", "status 2", "status 3"];
        assert!(
            refused.iter().any(|status| answers.contains(status)),
            "{answers}"
        );
        assert!(
            !answers.contains("a signal") && !answers.contains("panicked"),
            "{answers}"
        );
        text.push_str(&answers);
        text.push('\n');
    }
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hostile.txt");
    if std::env::var_os("ET_TESTS_WRITE").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap();
    for (found, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}
