//! Real device programs without their devices, made device-aware again.

use super::*;

/// Takes the copies and the devices out of a method: what an exporter without device memory would have written.
fn strip(method: &ExecutionPlan) -> ExecutionPlan {
    let mut stripped = method.clone();
    // Device buffers come last.
    let devices = stripped.non_const_buffer_device.take().unwrap_or_default();
    let host_buffers = devices
        .iter()
        .map(|entry| usize::try_from(entry.buffer_idx).unwrap())
        .min();
    stripped
        .non_const_buffer_sizes
        .truncate(host_buffers.unwrap_or(usize::MAX));
    let old = method.chains[0].instructions.clone();
    let host: BTreeMap<i32, i32> = old
        .iter()
        .filter_map(|instruction| match copied(method, instruction)? {
            ("_h2d_copy", args) => Some((args[1], args[0])),
            (_, args) => Some((args[0], args[1])),
        })
        .collect();
    // What a delegate gives gets a new place behind all others, and its views with it: copies kept it from the call's
    // inputs.
    let analysis = Analysis::new(method, &Hints::default()).unwrap();
    let mut moved = BTreeMap::new();
    for (number, value) in stripped.values.iter_mut().enumerate() {
        let Some(tensor) = value.as_tensor_mut() else {
            continue;
        };
        let index = i32::try_from(number).unwrap();
        let group = analysis.group(ValueIndex::new(number));
        let was_on_device = !tensor.device().is_cpu();
        let is_given = host.iter().any(|(from, to)| *to == index && *from < index);
        tensor.set_device(DeviceTag::CPU);
        if tensor.allocation_info.is_none() {
            continue;
        }
        if was_on_device && host.contains_key(&index) {
            tensor.allocation_info = None;
        } else if was_on_device || is_given || moved.contains_key(&group) {
            let size = &mut stripped.non_const_buffer_sizes[1];
            let offset = *moved.entry(group).or_insert(*size);
            *size += i64::try_from(tensor.nbytes().unwrap().next_multiple_of(16)).unwrap();
            *tensor = tensor.clone().planned(1, u64::try_from(offset).unwrap());
        }
    }
    let is_copy = |instruction: &&Instruction| copied(method, instruction).is_some();
    let before = |target: i32| {
        let removed = old
            .iter()
            .take(usize::try_from(target).unwrap())
            .filter(is_copy)
            .count();
        target - i32::try_from(removed).unwrap()
    };
    let kept = old
        .iter()
        .filter(|instruction| !is_copy(instruction))
        .cloned()
        .map(|mut instruction| {
            match &mut instruction {
                Instruction::DelegateCall(call) => {
                    for argument in &mut call.args {
                        *argument = host.get(argument).copied().unwrap_or(*argument);
                    }
                }
                Instruction::JumpFalseCall(call) => {
                    call.destination_instruction = before(call.destination_instruction);
                }
                _ => {}
            }
            instruction
        });
    stripped.chains[0].instructions = kept.collect();
    stripped
}

fn copies(method: &ExecutionPlan) -> [Vec<u64>; 2] {
    let mut copies = [Vec::new(), Vec::new()];
    for instruction in &method.chains[0].instructions {
        if let Some((name, args)) = copied(method, instruction) {
            let tensor = method.values[usize::try_from(args[0]).unwrap()]
                .as_tensor()
                .unwrap();
            copies[usize::from(name == "_d2h_copy")].push(tensor.nbytes().unwrap());
        }
    }
    copies
}

fn device_bytes(method: &ExecutionPlan) -> i64 {
    let devices = method.non_const_buffer_device.iter().flatten();
    let sizes = devices
        .map(|entry| method.non_const_buffer_sizes[usize::try_from(entry.buffer_idx).unwrap()]);
    sizes.sum()
}

#[test]
fn stripped_programs_get_the_same_copies_again_or_fewer() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
    let mut seen = 0;
    for folder in std::fs::read_dir(fixtures).unwrap() {
        let path = folder.unwrap().path();
        let Ok(bytes) = std::fs::read(path.join("model.pte")) else {
            continue;
        };
        let program = et_schema::VerifiedProgram::from_file_bytes(&bytes).unwrap();
        for method in &Program::from_verified(&program).unwrap().execution_plan {
            let theirs = copies(method);
            if theirs.iter().all(Vec::is_empty) {
                continue;
            }
            let mut again = strip(method);
            let on_device = |values: &[i32]| {
                let mut tensors = values
                    .iter()
                    .map(|&value| method.values[usize::try_from(value).unwrap()].as_tensor());
                tensors.any(|tensor| tensor.is_some_and(|tensor| !tensor.device().is_cpu()))
            };
            let options = skipping(on_device(&method.inputs), on_device(&method.outputs));
            let report = propagate_method(&mut again, &options).unwrap();
            let ours = copies(&again);
            let counted = [report.h2d.count, report.d2h.count];
            assert_eq!(ours.each_ref().map(Vec::len), counted);
            for (ours, mut theirs) in ours.iter().zip(theirs) {
                theirs.retain(|size| *size > 0);
                let fewer =
                    ours.len() < theirs.len() && ours.iter().sum::<u64>() < theirs.iter().sum();
                assert!(fewer || *ours == theirs, "{}", path.display());
            }
            assert!(
                device_bytes(&again) <= device_bytes(method),
                "{}",
                path.display()
            );
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen} methods");
}
