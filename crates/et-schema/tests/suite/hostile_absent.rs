//! Fields that are not there (group D of the known faults).

use et_schema::builder::ProgramBuilder;
use et_schema::raw::{self, pte};

use crate::base::{check_refused, load, tables, weight_program};

/// A table with some fields set; only this crate may name all of them.
fn with<T: Default>(change: impl FnOnce(&mut T)) -> T {
    let mut table = T::default();
    change(&mut table);
    table
}

/// BASE with something taken away from its method, which must then be refused for lack of it.
#[track_caller]
fn check_plan(change: impl FnOnce(&mut pte::ExecutionPlanT), field: &str) {
    let mut program = tables();
    change(&mut program.execution_plan.as_mut().unwrap()[0]);
    let path = format!("execution_plan[0].{field}");
    check_refused(
        &raw::encode_program(&program),
        "schema.missing-field",
        &path,
    );
}

#[track_caller]
fn check_value(value: pte::KernelTypesT, field: &str) {
    let change = |plan: &mut pte::ExecutionPlanT| {
        plan.values
            .as_mut()
            .unwrap()
            .push(with(|it: &mut pte::EValueT| it.val = value));
    };
    check_plan(change, &format!("values[5].{field}"));
}

#[track_caller]
fn check_tensor(change: impl FnOnce(&mut pte::TensorT), field: &str) {
    let change = |plan: &mut pte::ExecutionPlanT| {
        let values = plan.values.as_mut().unwrap();
        let pte::KernelTypesT::Tensor(tensor) = &mut values[2].val else {
            panic!()
        };
        change(tensor);
    };
    check_plan(change, &format!("values[2].Tensor.{field}"));
}

#[test]
fn d1_a_program_of_nothing_but_a_version_has_no_methods() {
    let program = pte::ProgramT::default();
    let mut file = raw::encode_program(&program);
    assert_eq!(load(&file).unwrap_err().id(), "schema.file-too-short");
    file.resize(64, 0);
    check_refused(&file, "schema.missing-field", "execution_plan");
}

#[test]
fn d1_a_method_needs_its_lists() {
    check_plan(|plan| plan.name = None, "name");
    check_plan(
        |plan| plan.non_const_buffer_sizes = None,
        "non_const_buffer_sizes",
    );
    check_plan(|plan| plan.inputs = None, "inputs");
    check_plan(|plan| plan.outputs = None, "outputs");
    check_plan(|plan| plan.chains = None, "chains");
    check_plan(|plan| plan.chains = Some(Vec::new()), "chains");
    let without_instructions = |plan: &mut pte::ExecutionPlanT| {
        plan.chains.as_mut().unwrap()[0].instructions = None;
    };
    check_plan(without_instructions, "chains[0].instructions");
}

#[test]
fn d1_a_method_needs_its_values() {
    check_plan(|plan| plan.values = None, "values");
}

#[test]
fn d1_operators_and_delegates_are_needed_only_where_they_are_called() {
    let mut program = tables();
    let plan = &mut program.execution_plan.as_mut().unwrap()[0];
    plan.delegates = None;
    assert!(load(&raw::encode_program(&program)).is_ok());
    program.execution_plan.as_mut().unwrap()[0].operators = None;
    let path = "execution_plan[0].chains[0].instructions[0].KernelCall.op_index";
    check_refused(
        &raw::encode_program(&program),
        "schema.index-out-of-range",
        path,
    );
}

#[test]
fn values_need_their_contents() {
    check_value(
        pte::KernelTypesT::String(Default::default()),
        "String.string_val",
    );
    check_value(
        pte::KernelTypesT::IntList(Default::default()),
        "IntList.items",
    );
    check_value(
        pte::KernelTypesT::DoubleList(Default::default()),
        "DoubleList.items",
    );
    check_value(
        pte::KernelTypesT::BoolList(Default::default()),
        "BoolList.items",
    );
    check_value(
        pte::KernelTypesT::TensorList(Default::default()),
        "TensorList.items",
    );
    let optional = pte::KernelTypesT::OptionalTensorList(Default::default());
    check_value(optional, "OptionalTensorList.items");
}

#[test]
fn tensors_need_sizes_and_their_order() {
    check_tensor(|tensor| tensor.sizes = None, "sizes");
    check_tensor(|tensor| tensor.dim_order = None, "dim_order");
}

#[test]
fn values_and_instructions_need_a_kind() {
    let mut program = tables();
    let plan = &mut program.execution_plan.as_mut().unwrap()[0];
    plan.values.as_mut().unwrap().push(Default::default());
    let path = "execution_plan[0].values[5].unknown";
    check_refused(&raw::encode_program(&program), "schema.unknown-code", path);

    let mut program = tables();
    let chains = program.execution_plan.as_mut().unwrap()[0]
        .chains
        .as_mut()
        .unwrap();
    chains[0]
        .instructions
        .as_mut()
        .unwrap()
        .push(Default::default());
    let path = "execution_plan[0].chains[0].instructions[1]";
    check_refused(&raw::encode_program(&program), "schema.unknown-code", path);
}

#[test]
fn calls_need_their_arguments() {
    for call in [
        pte::InstructionArgumentsT::KernelCall(Default::default()),
        pte::InstructionArgumentsT::DelegateCall(Default::default()),
    ] {
        let name = if matches!(call, pte::InstructionArgumentsT::KernelCall(_)) {
            "KernelCall"
        } else {
            "DelegateCall"
        };
        let change = |plan: &mut pte::ExecutionPlanT| {
            plan.delegates = Some(vec![delegate()]);
            let instructions = plan.chains.as_mut().unwrap()[0]
                .instructions
                .as_mut()
                .unwrap();
            instructions.push(with(|it: &mut pte::InstructionT| it.instr_args = call));
        };
        let mut program = tables();
        program.backend_delegate_data = Some(vec![Default::default()]);
        change(&mut program.execution_plan.as_mut().unwrap()[0]);
        let path = format!("execution_plan[0].chains[0].instructions[1].{name}.args");
        check_refused(
            &raw::encode_program(&program),
            "schema.missing-field",
            &path,
        );
    }
}

fn delegate() -> pte::BackendDelegateT {
    with(|it: &mut pte::BackendDelegateT| {
        it.id = Some("backend".into());
        it.processed = Some(Box::default());
    })
}

/// BASE with a delegate whose data is inline.
fn with_delegate(delegate: pte::BackendDelegateT) -> Vec<u8> {
    let mut program = tables();
    program.backend_delegate_data = Some(vec![Default::default()]);
    program.execution_plan.as_mut().unwrap()[0].delegates = Some(vec![delegate]);
    raw::encode_program(&program)
}

#[test]
fn d5_a_delegate_may_have_no_options_but_has_all_of_each() {
    let loaded = load(&with_delegate(delegate())).unwrap();
    let view = loaded.root().plan("forward").unwrap().delegate(0).unwrap();
    assert_eq!((view.id(), view.compile_specs().len()), ("backend", 0));

    let spec = |key: Option<&str>, value: Option<&[u8]>| {
        with(|it: &mut pte::CompileSpecT| {
            it.key = key.map(Into::into);
            it.value = value.map(Into::into);
        })
    };
    for (spec, field) in [
        (spec(None, Some(&[1])), "key"),
        (spec(Some("k"), None), "value"),
    ] {
        let mut delegate = delegate();
        delegate.compile_specs = Some(vec![spec]);
        let path = format!("execution_plan[0].delegates[0].compile_specs[0].{field}");
        check_refused(&with_delegate(delegate), "schema.missing-field", &path);
    }
    let mut nameless = delegate();
    nameless.id = None;
    check_refused(
        &with_delegate(nameless),
        "schema.missing-field",
        "execution_plan[0].delegates[0].id",
    );
    let mut dataless = delegate();
    dataless.processed = None;
    let path = "execution_plan[0].delegates[0].processed";
    check_refused(&with_delegate(dataless), "schema.missing-field", path);
}

#[test]
fn operators_need_a_name_and_may_have_no_overload() {
    let operators = |name: Option<&str>| {
        let name = name.map(Into::into);
        move |plan: &mut pte::ExecutionPlanT| {
            plan.operators = Some(vec![with(|it: &mut pte::OperatorT| it.name = name)]);
        }
    };
    check_plan(operators(None), "operators[0].name");
    let mut program = tables();
    operators(Some("aten::add"))(&mut program.execution_plan.as_mut().unwrap()[0]);
    let loaded = load(&raw::encode_program(&program)).unwrap();
    let operator = loaded.root().plan("forward").unwrap().operator(0).unwrap();
    assert_eq!((operator.name, operator.overload), ("aten::add", ""));
}

#[test]
fn d3_a_constant_segment_needs_a_segment_table() {
    let mut built = weight_program();
    let file = built.to_bytes().unwrap();
    let mut program =
        raw::decode_program(&et_schema::ParsedProgram::from_file_bytes(&file).unwrap());
    program.segments = None;
    let file = raw::encode_program(&program);
    check_refused(
        &file,
        "schema.index-out-of-range",
        "constant_segment.segment_index",
    );
    built.program_mut().constant_segment = None;
    let path = "execution_plan[0].values[5].Tensor.data_buffer_idx";
    check_refused(
        &built.to_bytes().unwrap(),
        "schema.index-out-of-range",
        path,
    );
}

#[test]
fn b_48_constants_without_bytes_are_constants() {
    let mut program = ProgramBuilder::new();
    let data = program.constant(&[]);
    let mut method = crate::base::method();
    method.tensor(
        et_schema::owned::Tensor::new(et_schema::ScalarType::Float, &[0, 3]).with_data(data),
    );
    program.method(method);
    let loaded = load(&program.to_bytes().unwrap()).unwrap();
    let constant = loaded.root().constant(data);
    assert_eq!(constant.map(|constant| constant.available()), Some(0));
}

#[test]
fn initial_data_lists_need_offsets() {
    let mut program = tables();
    program.mutable_data_segments = Some(vec![Default::default()]);
    let file = raw::encode_program(&program);
    check_refused(
        &file,
        "schema.missing-field",
        "mutable_data_segments[0].offsets",
    );
}
