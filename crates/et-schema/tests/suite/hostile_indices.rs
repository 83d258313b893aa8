//! Indices, kinds, instructions, devices (group C of the known faults, and what upstream never
//! checks).

use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::{Chain, DataLocation, Instruction, NonConstBufferDevice, Tensor, Value};
use et_schema::{Dynamism, ScalarType, raw};

use crate::base::{
    check_method, check_refused, check_warned, device_method, load, matrix, method, program,
    tables, weight_program,
};

#[track_caller]
fn check(change: impl FnOnce(&mut MethodBuilder), id: &str, field: &str) {
    let mut method = method();
    change(&mut method);
    check_method(method, id, field);
}

#[track_caller]
fn check_device(change: impl FnOnce(&mut MethodBuilder), id: &str, field: &str) {
    let mut method = device_method();
    change(&mut method);
    check_method(method, id, field);
}

#[test]
fn c2_arguments_name_values() {
    for index in [-1, 5, i32::MAX, i32::MIN] {
        let field = "chains[0].instructions[1].KernelCall.args[1]";
        check(
            |it| _ = it.kernel("aten::relu.out", &[0, index]),
            "schema.index-out-of-range",
            field,
        );
    }
}

#[test]
fn b_01_every_operator_index_is_checked() {
    for index in [-1, 1, i32::MAX] {
        let mut method = method();
        let plan = method.plan_mut();
        let Instruction::KernelCall(call) = &mut plan.chains[0].instructions[0] else {
            panic!()
        };
        call.op_index = index;
        method.kernel("aten::relu.out", &[0, 2, 2]);
        if index == 1 {
            // The second operator: another call, but one that exists.
            assert!(load(&program(method).to_bytes().unwrap()).is_ok());
            continue;
        }
        check_method(
            method,
            "schema.index-out-of-range",
            "chains[0].instructions[0].KernelCall.op_index",
        );
    }
}

#[test]
fn c4_moves_are_between_values_of_one_kind() {
    let field = |end| format!("chains[0].instructions[1].MoveCall{end}");
    check(
        |it| _ = it.move_value(-1, 0),
        "schema.index-out-of-range",
        &field(".move_from"),
    );
    check(
        |it| _ = it.move_value(0, 5),
        "schema.index-out-of-range",
        &field(".move_to"),
    );
    check(
        |it| _ = it.move_value(0, 4),
        "schema.wrong-kind",
        &field(""),
    );
    check(
        |it| _ = it.move_value(4, 0),
        "schema.wrong-kind",
        &field(""),
    );
    let mut harmless = method();
    harmless.move_value(2, 2);
    assert!(load(&program(harmless).to_bytes().unwrap()).is_ok());
}

#[test]
fn b_15_jumps_stay_in_their_chain() {
    for target in [-1, 3, i32::MAX] {
        let field = "chains[0].instructions[1].JumpFalseCall.destination_instruction";
        let change = |it: &mut MethodBuilder| {
            let cond = it.bool(true);
            it.jump_false(cond, target);
        };
        check(change, "schema.index-out-of-range", field);
    }
    for target in [0, 1, 2] {
        let mut method = method();
        let cond = method.bool(true);
        method.jump_false(cond, target);
        assert!(load(&program(method).to_bytes().unwrap()).is_ok());
    }
}

#[test]
fn conditions_are_truth_values() {
    let field = "chains[0].instructions[1].JumpFalseCall.cond_value_index";
    check(|it| _ = it.jump_false(4, 0), "schema.wrong-kind", field);
    check(
        |it| _ = it.jump_false(9, 0),
        "schema.index-out-of-range",
        field,
    );
}

#[test]
fn only_tensors_are_freed() {
    let field = "chains[0].instructions[1].FreeCall.value_index";
    check(|it| _ = it.free(4), "schema.wrong-kind", field);
    check(|it| _ = it.free(-1), "schema.index-out-of-range", field);
}

#[test]
fn b_14_delegate_indices_are_checked_before_running() {
    let field = "chains[0].instructions[1].DelegateCall.delegate_index";
    check(
        |it| _ = it.delegate_call(0, &[]),
        "schema.index-out-of-range",
        field,
    );
    check(
        |it| _ = it.delegate_call(-1, &[]),
        "schema.index-out-of-range",
        field,
    );
}

#[test]
fn c7_inputs_and_outputs_name_values() {
    for (index, field) in [(999, "inputs[2]"), (-1, "inputs[2]")] {
        check(
            |it| it.mark_input(index),
            "schema.index-out-of-range",
            field,
        );
    }
    check(
        |it| it.mark_output(5),
        "schema.index-out-of-range",
        "outputs[1]",
    );
    check(|it| it.mark_input(0), "schema.duplicate", "inputs[2]");
    let mut twice = method();
    twice.mark_output(3);
    twice.mark_output(0);
    assert!(load(&program(twice).to_bytes().unwrap()).is_ok());
}

#[test]
fn c7_a_constant_is_no_input() {
    let mut program = weight_program();
    program.program_mut().execution_plan[0].inputs.push(5);
    check_refused(
        &program.to_bytes().unwrap(),
        "schema.conflict",
        "execution_plan[0].inputs[2]",
    );
    check(
        |it| _ = it.input(matrix().external("w")),
        "schema.conflict",
        "inputs[2]",
    );
}

#[test]
fn lists_among_inputs_are_told() {
    let mut listed = method();
    let list = listed.int_list(&[1, 2]);
    listed.mark_output(list);
    let file = program(listed).to_bytes().unwrap();
    check_warned(
        &file,
        &[("schema.unsupported", "execution_plan[0].outputs[1]")],
    );
}

#[test]
fn c8_lists_name_tensors() {
    let field = "values[5].TensorList.items[1]";
    check(
        |it| _ = it.tensor_list(&[0, -1]),
        "schema.index-out-of-range",
        field,
    );
    check(
        |it| _ = it.tensor_list(&[0, 999]),
        "schema.index-out-of-range",
        field,
    );
    check(|it| _ = it.tensor_list(&[0, 4]), "schema.wrong-kind", field);
    check(|it| _ = it.tensor_list(&[0, 5]), "schema.wrong-kind", field);
}

#[test]
fn optional_lists_name_tensors_or_nothing() {
    let optional = |items: &[i32]| Value::OptionalTensorList(items.to_vec());
    let mut fine = method();
    let none = fine.none();
    fine.value(optional(&[0, -1, none]));
    assert!(load(&program(fine).to_bytes().unwrap()).is_ok());
    let field = "values[5].OptionalTensorList.items[0]";
    check(
        |it| _ = it.value(optional(&[-2])),
        "schema.index-out-of-range",
        field,
    );
    check(
        |it| _ = it.value(optional(&[6])),
        "schema.index-out-of-range",
        field,
    );
    check(
        |it| _ = it.value(optional(&[4])),
        "schema.wrong-kind",
        field,
    );
}

#[test]
fn int_lists_name_numbers() {
    let field = "values[5].IntList.items[0]";
    for item in [-1, 6, i64::MAX, i64::MIN, 1 << 32] {
        check(
            |it| _ = it.value(Value::IntList(vec![item])),
            "schema.index-out-of-range",
            field,
        );
    }
    check(
        |it| _ = it.value(Value::IntList(vec![0])),
        "schema.wrong-kind",
        field,
    );
}

#[test]
fn b_16_lists_may_name_later_values() {
    let mut forward = method();
    forward.tensor_list(&[6]);
    forward.tensor(matrix());
    assert!(load(&program(forward).to_bytes().unwrap()).is_ok());
}

#[test]
fn c9_and_a12_data_without_constants_is_refused() {
    let tensor = || matrix().with_data(1);
    check(
        |it| _ = it.tensor(tensor()),
        "schema.index-out-of-range",
        "values[5].Tensor.data_buffer_idx",
    );
    let planned = tensor().planned(1, 0);
    check(
        |it| _ = it.tensor(planned),
        "schema.index-out-of-range",
        "values[5].Tensor.data_buffer_idx",
    );
}

#[test]
fn c11_at_most_16_dimensions() {
    let mut most = method();
    most.tensor(Tensor::new(ScalarType::Float, &[1; 16]));
    assert!(load(&program(most).to_bytes().unwrap()).is_ok());
    for rank in [17, 255, 256] {
        let tensor = Tensor::new(ScalarType::Float, &vec![1; rank]);
        let mut method = method();
        method.tensor(tensor);
        let file = program(method).to_bytes().unwrap();
        check_refused(
            &file,
            "schema.rank",
            "execution_plan[0].values[5].Tensor.sizes",
        );
        let text = load(&file).unwrap_err().to_string();
        assert!(
            text.ends_with(&format!("rank {rank}, expected at most 16")),
            "{text}"
        );
    }
}

#[test]
fn b_31_dimension_orders_are_permutations() {
    for order in [
        vec![0, 0],
        vec![1, 2],
        vec![0],
        vec![0, 1, 2],
        vec![],
        vec![0, 255],
        vec![32, 1],
    ] {
        let mut tensor = matrix();
        tensor.dim_order = order;
        check(
            |it| _ = it.tensor(tensor),
            "schema.dim-order",
            "values[5].Tensor.dim_order",
        );
    }
    let mut transposed = matrix();
    transposed.dim_order = vec![1, 0];
    let mut fine = method();
    fine.tensor(transposed);
    assert!(load(&program(fine).to_bytes().unwrap()).is_ok());
}

#[test]
fn codes_that_the_format_lacks_are_refused() {
    type Change = fn(&mut raw::pte::TensorT);
    let changes: [(Change, &str, &str); 6] = [
        (
            |it| it.scalar_type.0 = 30,
            "schema.unknown-code",
            "scalar_type",
        ),
        (
            |it| it.scalar_type.0 = -1,
            "schema.unknown-code",
            "scalar_type",
        ),
        (
            |it| it.shape_dynamism.0 = 3,
            "schema.unknown-code",
            "shape_dynamism",
        ),
        (
            |it| it.storage_offset = 1,
            "schema.unsupported",
            "storage_offset",
        ),
        (
            |it| {
                let extra = it.extra_tensor_info.get_or_insert_default();
                extra.location.0 = 2;
            },
            "schema.unknown-code",
            "extra_tensor_info.location",
        ),
        (
            |it| it.extra_tensor_info.get_or_insert_default().location.0 = 1,
            "schema.missing-field",
            "extra_tensor_info.fully_qualified_name",
        ),
    ];
    for (change, id, field) in changes {
        let mut program = tables();
        let values = program.execution_plan.as_mut().unwrap()[0]
            .values
            .as_mut()
            .unwrap();
        let raw::pte::KernelTypesT::Tensor(tensor) = &mut values[2].val else {
            panic!()
        };
        change(tensor);
        let path = format!("execution_plan[0].values[2].Tensor.{field}");
        check_refused(&raw::encode_program(&program), id, &path);
    }
}

#[test]
fn unbounded_shapes_are_told() {
    let mut unbound = method();
    unbound.tensor(matrix().dynamic(Dynamism::DynamicUnbound));
    let path = "execution_plan[0].values[5].Tensor.shape_dynamism";
    check_warned(
        &program(unbound).to_bytes().unwrap(),
        &[("schema.unsupported", path)],
    );
}

#[test]
fn c15_segments_are_named_by_index() {
    let mut constants = weight_program();
    constants
        .program_mut()
        .constant_segment
        .as_mut()
        .unwrap()
        .segment_index = 1;
    let file = constants.build().unwrap().to_bytes().unwrap();
    check_refused(
        &file,
        "schema.index-out-of-range",
        "constant_segment.segment_index",
    );

    let mut named = weight_program();
    named.named_data("blob", &[1, 2, 3]);
    named.program_mut().named_data.as_mut().unwrap()[0].segment_index = u32::MAX;
    check_refused(
        &named.to_bytes().unwrap(),
        "schema.index-out-of-range",
        "named_data[0].segment_index",
    );

    let mut shared = weight_program();
    shared.named_data("one", &[1, 2, 3]);
    let entry = shared.program_mut().named_data.as_ref().unwrap()[0].clone();
    let other = et_schema::owned::NamedData {
        key: "other".into(),
        ..entry
    };
    shared
        .program_mut()
        .named_data
        .as_mut()
        .unwrap()
        .push(other);
    assert!(load(&shared.to_bytes().unwrap()).is_ok());
}

#[test]
fn names_of_data_are_unique_and_there() {
    let mut twice = weight_program();
    twice
        .named_data("blob", &[1])
        .named_data("a", &[2])
        .named_data("blob", &[3]);
    check_refused(
        &twice.to_bytes().unwrap(),
        "schema.duplicate",
        "named_data[2].key",
    );
    let mut nameless = weight_program();
    nameless.named_data("", &[1]);
    check_refused(
        &nameless.to_bytes().unwrap(),
        "schema.missing-field",
        "named_data[0].key",
    );
}

#[test]
fn constants_are_of_one_form() {
    let mut both = weight_program();
    both.program_mut()
        .constant_buffer
        .push(et_schema::owned::Buffer::default());
    check_refused(
        &both.to_bytes().unwrap(),
        "schema.conflict",
        "constant_segment.offsets",
    );
}

#[test]
fn delegate_data_is_where_it_is_said_to_be() {
    for (location, index) in [
        (DataLocation::Inline, 0),
        (DataLocation::Segment, 1),
        (DataLocation::Segment, u32::MAX),
    ] {
        let processed = et_schema::owned::BackendDelegateDataReference { location, index };
        let change = |it: &mut MethodBuilder| _ = it.delegate("backend", processed, &[]);
        check(
            change,
            "schema.index-out-of-range",
            "delegates[0].processed.index",
        );
    }
    let mut inline = ProgramBuilder::new();
    let data = inline.inline_delegate_data(&[1, 2, 3]);
    let mut method = method();
    method.delegate("backend", data, &[("key", &[])]);
    inline.method(method);
    assert!(load(&inline.to_bytes().unwrap()).is_ok());
}

#[test]
fn b_04_tensors_lie_in_buffers_on_their_device() {
    let field = "values[4].Tensor.allocation_info";
    check_device(
        |it| _ = it.tensor(matrix().planned(2, 0)),
        "schema.device-mismatch",
        field,
    );
    let wrong_index = matrix().planned(2, 0).on_device(1, 1);
    check_device(
        |it| _ = it.tensor(wrong_index),
        "schema.device-mismatch",
        field,
    );
    let on_host = matrix().planned(1, 0).on_device(1, 0);
    check_device(|it| _ = it.tensor(on_host), "schema.device-mismatch", field);
}

#[test]
fn device_mismatches_name_both_devices() {
    let mut method = device_method();
    method.tensor(matrix().planned(2, 0));
    let text = load(&program(method).to_bytes().unwrap())
        .unwrap_err()
        .to_string();
    assert!(text.contains("cpu in a buffer on cuda:0"), "{text}");
}

#[test]
fn b_04_device_tags_without_a_device_table_are_told() {
    let mut older = device_method();
    older.plan_mut().non_const_buffer_device = None;
    let path = |value| format!("execution_plan[0].values[{value}].Tensor.allocation_info");
    let file = program(older).to_bytes().unwrap();
    check_warned(
        &file,
        &[
            ("schema.device-mismatch", &path(1)),
            ("schema.device-mismatch", &path(2)),
        ],
    );
}

#[test]
fn b_04_device_entries_name_one_buffer_each() {
    let entry = |buffer_idx, device_type, device_index| {
        move |it: &mut MethodBuilder| {
            let list = it.plan_mut().non_const_buffer_device.as_mut().unwrap();
            list.push(NonConstBufferDevice {
                buffer_idx,
                device_type,
                device_index,
            });
        }
    };
    let list = "non_const_buffer_device[1]";
    for buffer in [-1, 3, i32::MAX, 0] {
        let field = format!("{list}.buffer_idx");
        check_device(entry(buffer, 1, 0), "schema.index-out-of-range", &field);
    }
    check_device(
        entry(2, 1, 0),
        "schema.duplicate",
        &format!("{list}.buffer_idx"),
    );
    check_device(
        entry(1, -1, 0),
        "schema.unknown-code",
        &format!("{list}.device_type"),
    );
    check_device(
        entry(1, 1, -1),
        "schema.device-index",
        &format!("{list}.device_index"),
    );
}

#[test]
fn device_types_without_a_name_are_told_but_taken() {
    let mut other = method();
    let memory = other.device_buffer(64, 5, 3);
    other.tensor(matrix().planned(memory, 0).on_device(5, 3));
    let file = program(other).to_bytes().unwrap();
    check_warned(
        &file,
        &[
            (
                "schema.unknown-code",
                "execution_plan[0].non_const_buffer_device[0].device_type",
            ),
            (
                "schema.unknown-code",
                "execution_plan[0].values[5].Tensor.extra_tensor_info.device_type",
            ),
        ],
    );
    let negative = matrix().on_device(1, -1);
    let field = "values[5].Tensor.extra_tensor_info.device_index";
    check(|it| _ = it.tensor(negative), "schema.device-index", field);
}

#[test]
fn b_29_other_schema_versions_are_told() {
    let mut newer = program(method());
    newer.program_mut().version = 1;
    check_warned(
        &newer.to_bytes().unwrap(),
        &[("schema.schema-version", "version")],
    );
}

#[test]
fn methods_of_one_name_are_told() {
    let mut twice = program(method());
    twice.method(method());
    check_warned(
        &twice.to_bytes().unwrap(),
        &[("schema.duplicate", "execution_plan[1].name")],
    );
}

#[test]
fn chains_name_values_and_have_a_trace_for_each_instruction() {
    let mut chain = method();
    chain.plan_mut().chains.push(Chain {
        inputs: vec![99],
        ..Chain::default()
    });
    check_method(chain, "schema.index-out-of-range", "chains[1].inputs[0]");
    let mut traced = method();
    traced.plan_mut().chains[0].stacktrace = Some(Vec::new());
    let path = "execution_plan[0].chains[0].stacktrace";
    check_warned(
        &program(traced).to_bytes().unwrap(),
        &[("schema.size-mismatch", path)],
    );
}
