//! Mutants that are well-formed: a program is read, one or more of its numbers or lists are changed, and it is written again.

use et_schema::owned::{ExecutionPlan, Instruction, Program, Tensor, Value};
use et_schema::write::{WriteOptions, write_program};
use et_schema::{DeviceTag, ScalarType, VerifiedProgram};

use crate::random::Random;

/// A changed program; `None` if the file cannot be read or the change cannot be written.
pub(crate) fn through_schema(original: &[u8], random: &mut Random) -> Option<(Vec<u8>, String)> {
    let (mut program, segments) = read(original)?;
    let edits: Vec<&str> = (0..=random.below(3))
        .map(|_| edit(&mut program, random))
        .collect();
    let mut bytes = Vec::new();
    write_program(
        &program,
        &segments[..],
        &WriteOptions::default(),
        &mut bytes,
    )
    .ok()?;
    Some((bytes, format!("edited: {}", edits.join(", "))))
}

/// A program and the bytes of its segments.
pub(crate) fn read(file: &[u8]) -> Option<(Program, Vec<Vec<u8>>)> {
    let verified = VerifiedProgram::from_file_bytes(file).ok()?;
    let program = Program::from_verified(&verified).ok()?;
    let segment = |index| {
        let range = verified.root().segment_range(index)?.ok()?;
        let bytes = file.get(range.start as usize..range.end as usize)?;
        Some(bytes.to_vec())
    };
    let count = u32::try_from(program.segments.len()).ok()?;
    let segments = (0..count).map(segment).collect::<Option<_>>()?;
    Some((program, segments))
}

/// A number that is wrong more often than not.
fn number(random: &mut Random) -> i64 {
    const NUMBERS: [i64; 12] = [
        0,
        1,
        2,
        -1,
        -2,
        16,
        17,
        255,
        i32::MAX as i64,
        i32::MIN as i64,
        i64::MAX,
        i64::MIN,
    ];
    match random.below(3) {
        0 => random.below(64) as i64,
        _ => random.pick(&NUMBERS).unwrap_or(0),
    }
}

fn edit(program: &mut Program, random: &mut Random) -> &'static str {
    let at = random.below(program.execution_plan.len());
    match random.below(10) {
        0 => edit_segments(program, random),
        1 if !program.execution_plan.is_empty() => {
            let plan = program.execution_plan[at].clone();
            program.execution_plan.push(plan);
            "plan twice"
        }
        _ => program
            .execution_plan
            .get_mut(at)
            .map_or("nothing", |plan| edit_plan(plan, random)),
    }
}

fn edit_segments(program: &mut Program, random: &mut Random) -> &'static str {
    if let Some(segment) = &mut program.constant_segment {
        match random.below(3) {
            0 => segment.segment_index = number(random) as u32,
            1 => change(&mut segment.offsets, random, |random| number(random) as u64),
            _ => segment.offsets.clear(),
        }
        return "constant segment";
    }
    if let Some(named) = program
        .named_data
        .as_mut()
        .and_then(|list| list.first_mut())
    {
        named.segment_index = number(random) as u32;
        return "named data";
    }
    program.constant_buffer.truncate(1);
    "constant buffer"
}

fn edit_plan(plan: &mut ExecutionPlan, random: &mut Random) -> &'static str {
    match random.below(12) {
        0 => {
            change(&mut plan.inputs, random, |random| number(random) as i32);
            "inputs"
        }
        1 => {
            change(&mut plan.outputs, random, |random| number(random) as i32);
            "outputs"
        }
        2 => {
            change(&mut plan.non_const_buffer_sizes, random, number);
            "buffer sizes"
        }
        3 => {
            for device in plan.non_const_buffer_device.iter_mut().flatten() {
                match random.below(3) {
                    0 => device.buffer_idx = number(random) as i32,
                    1 => device.device_type = number(random) as i8,
                    _ => device.device_index = number(random) as i8,
                }
            }
            "buffer devices"
        }
        4 => {
            let at = random.below(plan.delegates.len());
            if let Some(delegate) = plan.delegates.get_mut(at) {
                match random.below(3) {
                    0 => delegate.processed.index = number(random) as u32,
                    1 => delegate.compile_specs.clear(),
                    _ => delegate.id.clear(),
                }
            }
            "delegate"
        }
        5 => {
            plan.operators.truncate(random.below(plan.operators.len()));
            "operators"
        }
        6 | 7 => edit_instruction(plan, random),
        _ => {
            let at = random.below(plan.values.len());
            plan.values
                .get_mut(at)
                .map_or("nothing", |value| edit_value(value, random))
        }
    }
}

fn edit_instruction(plan: &mut ExecutionPlan, random: &mut Random) -> &'static str {
    let Some(chain) = plan.chains.first_mut() else {
        return "nothing";
    };
    let at = random.below(chain.instructions.len());
    if random.below(6) == 0 && !chain.instructions.is_empty() {
        let again = chain.instructions[at].clone();
        chain.instructions.push(again);
        return "instruction twice";
    }
    match chain.instructions.get_mut(at) {
        Some(Instruction::KernelCall(call)) => match random.below(3) {
            0 => call.op_index = number(random) as i32,
            _ => change(&mut call.args, random, |random| number(random) as i32),
        },
        Some(Instruction::DelegateCall(call)) => match random.below(3) {
            0 => call.delegate_index = number(random) as i32,
            _ => change(&mut call.args, random, |random| number(random) as i32),
        },
        Some(Instruction::MoveCall(call)) => call.move_to = number(random) as i32,
        Some(Instruction::JumpFalseCall(call)) => {
            call.destination_instruction = number(random) as i32
        }
        Some(Instruction::FreeCall(call)) => call.value_index = number(random) as i32,
        _ => {}
    }
    "instruction"
}

fn edit_value(value: &mut Value, random: &mut Random) -> &'static str {
    match value {
        Value::Tensor(tensor) => edit_tensor(tensor, random),
        Value::Int(number_) => *number_ = number(random),
        Value::IntList(items) => change(items, random, number),
        Value::TensorList(items) | Value::OptionalTensorList(items) => {
            change(items, random, |random| number(random) as i32);
        }
        other => *other = Value::Null,
    }
    "value"
}

fn edit_tensor(tensor: &mut Tensor, random: &mut Random) {
    match random.below(9) {
        0 | 1 => change(&mut tensor.sizes, random, |random| number(random) as i32),
        2 => change(&mut tensor.dim_order, random, |random| number(random) as u8),
        3 => tensor.data_buffer_idx = number(random) as u32,
        4 => tensor.storage_offset = number(random) as i32,
        5 => tensor.set_device(DeviceTag::new(number(random) as i8, number(random) as i8)),
        6 => tensor.scalar_type = random.pick(&TYPES).unwrap_or(ScalarType::Float),
        7 => tensor.allocation_info = None,
        _ => {
            if let Some(allocation) = &mut tensor.allocation_info {
                match random.below(2) {
                    0 => allocation.memory_id = number(random) as u32,
                    _ => allocation.memory_offset = number(random) as u64,
                }
            }
        }
    }
}

const TYPES: [ScalarType; 5] = [
    ScalarType::Float,
    ScalarType::Long,
    ScalarType::Bool,
    ScalarType::Double,
    ScalarType::Byte,
];

/// Changes, adds or removes one item.
fn change<T>(list: &mut Vec<T>, random: &mut Random, item: impl Fn(&mut Random) -> T) {
    let at = random.below(list.len());
    match (random.below(4), list.get_mut(at)) {
        (0, Some(_)) => {
            list.remove(at);
        }
        (1, _) | (_, None) => list.push(item(random)),
        (_, Some(slot)) => *slot = item(random),
    }
}
