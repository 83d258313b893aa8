//! Any program that the builder can make survives write → verify → read → write, byte for byte.

use et_schema::builder::{FlatTensorBuilder, MethodBuilder, ProgramBuilder};
use et_schema::owned::{Chain, ContainerMetadata, Frame, FrameList, Program, Tensor, Value};
use et_schema::write::{FileSegments, WriteOptions, write_program};
use et_schema::{Dynamism, ScalarType, VerifiedFlatTensor, VerifiedProgram};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// One value to add; indices are reduced to what is there.
#[derive(Debug, Clone)]
enum Add {
    Value(Value),
    Planned {
        scalar_type: ScalarType,
        sizes: Vec<i32>,
        order: u64,
        device: bool,
        dynamic: bool,
    },
    Unplanned {
        scalar_type: ScalarType,
        sizes: Vec<i32>,
        name: Option<String>,
    },
    Constant {
        sizes: Vec<i32>,
    },
    Initial {
        sizes: Vec<i32>,
    },
    External {
        sizes: Vec<i32>,
        name: String,
    },
    IntList(Vec<i64>),
    TensorList(Vec<Index>),
    OptionalTensorList(Vec<Option<Index>>),
}

/// One instruction to add.
#[derive(Debug, Clone)]
enum Step {
    Kernel(String, Vec<Index>),
    Delegate(String, Vec<u8>, bool, Vec<Index>),
    Move(Index),
    Jump(Index),
    Free(Index),
}

#[derive(Debug, Clone)]
struct Method {
    name: String,
    values: Vec<Add>,
    steps: Vec<Step>,
    outputs: Vec<Index>,
    meta: Option<(Option<String>, Option<String>)>,
    trace: Option<Vec<String>>,
}

fn scalar_type() -> impl Strategy<Value = ScalarType> {
    (0..30i8).prop_map(|code| ScalarType::from_code(code).unwrap())
}

fn sizes() -> impl Strategy<Value = Vec<i32>> {
    vec(0..6i32, 0..5)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z.:_]{1,12}", ".{0,8}"]
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-zé.:_]{0,11}"
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Int),
        any::<bool>().prop_map(Value::Bool),
        // Not-a-number is unequal to itself, so it would fail the comparison and not the writer.
        any::<f64>()
            .prop_filter("a number", |it| !it.is_nan())
            .prop_map(Value::Double),
        text().prop_map(Value::String),
        vec(any::<bool>(), 0..5).prop_map(Value::BoolList),
        vec(-1e9..1e9f64, 0..5).prop_map(Value::DoubleList),
    ]
}

fn add() -> impl Strategy<Value = Add> {
    prop_oneof![
        3 => value().prop_map(Add::Value),
        4 => (scalar_type(), sizes(), any::<u64>(), any::<bool>(), any::<bool>()).prop_map(
            |(scalar_type, sizes, order, device, dynamic)| {
                Add::Planned { scalar_type, sizes, order, device, dynamic }
            }
        ),
        2 => (scalar_type(), sizes(), proptest::option::of(text()))
            .prop_map(|(scalar_type, sizes, name)| Add::Unplanned { scalar_type, sizes, name }),
        1 => sizes().prop_map(|sizes| Add::Constant { sizes }),
        1 => sizes().prop_map(|sizes| Add::Initial { sizes }),
        1 => (sizes(), name()).prop_map(|(sizes, name)| Add::External { sizes, name }),
        1 => vec(any::<i64>(), 0..4).prop_map(Add::IntList),
        1 => vec(any::<Index>(), 0..4).prop_map(Add::TensorList),
        1 => vec(proptest::option::of(any::<Index>()), 0..4).prop_map(Add::OptionalTensorList),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (name(), vec(any::<Index>(), 0..5)).prop_map(|(name, args)| Step::Kernel(name, args)),
        (
            name(),
            vec(any::<u8>(), 0..40),
            any::<bool>(),
            vec(any::<Index>(), 0..5)
        )
            .prop_map(|(name, data, inline, args)| Step::Delegate(name, data, inline, args)),
        any::<Index>().prop_map(Step::Move),
        any::<Index>().prop_map(Step::Jump),
        any::<Index>().prop_map(Step::Free),
    ]
}

fn method() -> impl Strategy<Value = Method> {
    let meta = proptest::option::of((proptest::option::of(text()), proptest::option::of(text())));
    (
        text(),
        vec(add(), 0..12),
        vec(step(), 0..8),
        vec(any::<Index>(), 0..3),
        meta,
        proptest::option::of(vec(text(), 0..3)),
    )
        .prop_map(|(name, values, steps, outputs, meta, trace)| Method {
            name,
            values,
            steps,
            outputs,
            meta,
            trace,
        })
}

/// The dimensions in an order that the number chooses.
fn permuted(rank: usize, mut order: u64) -> Vec<u8> {
    let mut dims: Vec<u8> = (0..u8::try_from(rank).unwrap()).collect();
    for end in (2..=rank).rev() {
        let choices = u64::try_from(end).unwrap();
        dims.swap(end - 1, usize::try_from(order % choices).unwrap());
        order /= choices;
    }
    dims
}

fn nbytes(tensor: &Tensor) -> usize {
    usize::try_from(tensor.nbytes().unwrap()).unwrap()
}

/// Adds a value and returns its index.
fn add_value(add: Add, method: &mut MethodBuilder, program: &mut ProgramBuilder) -> i32 {
    let tensors: Vec<i32> = (0..)
        .zip(&method.plan_mut().values)
        .filter(|(_, value)| value.as_tensor().is_some())
        .map(|(index, _)| index)
        .collect();
    let pick = |index: &Index| (!tensors.is_empty()).then(|| *index.get(&tensors));
    match add {
        Add::Value(value) => method.value(value),
        Add::Planned {
            scalar_type,
            sizes,
            order,
            device,
            dynamic,
        } => {
            let mut tensor = Tensor::new(scalar_type, &sizes);
            tensor.dim_order = permuted(sizes.len(), order);
            if dynamic {
                tensor.shape_dynamism = Dynamism::DynamicBound;
            }
            let offset = 64 * (order % 3);
            let room = i64::try_from(offset).unwrap() + i64::try_from(nbytes(&tensor)).unwrap();
            let (memory, tensor) = if device {
                (method.device_buffer(room, 1, 1), tensor.on_device(1, 1))
            } else {
                (method.buffer(room), tensor)
            };
            let tensor = tensor.planned(memory, offset);
            if dynamic {
                method.input(tensor)
            } else {
                method.tensor(tensor)
            }
        }
        Add::Unplanned {
            scalar_type,
            sizes,
            name,
        } => {
            let tensor = Tensor::new(scalar_type, &sizes);
            method.tensor(name.map_or_else(|| tensor.clone(), |name| tensor.clone().named(&name)))
        }
        Add::Constant { sizes } => {
            let tensor = Tensor::new(ScalarType::Double, &sizes);
            let data = program.constant(&vec![3; nbytes(&tensor)]);
            method.tensor(tensor.with_data(data))
        }
        Add::Initial { sizes } => {
            let tensor = Tensor::new(ScalarType::Int, &sizes);
            let nbytes = nbytes(&tensor);
            let data = program.initial_data(&vec![5; nbytes]);
            let memory = method.buffer(i64::try_from(nbytes).unwrap());
            method.tensor(tensor.planned(memory, 0).with_data(data))
        }
        Add::External { sizes, name } => {
            method.tensor(Tensor::new(ScalarType::Half, &sizes).external(&name))
        }
        Add::IntList(ints) => method.int_list(&ints),
        Add::TensorList(items) => {
            let items: Vec<_> = items.iter().filter_map(pick).collect();
            method.tensor_list(&items)
        }
        Add::OptionalTensorList(items) => {
            let item = |item: &Option<Index>| item.as_ref().and_then(pick).unwrap_or(-1);
            method.value(Value::OptionalTensorList(items.iter().map(item).collect()))
        }
    }
}

fn add_step(step: Step, method: &mut MethodBuilder, program: &mut ProgramBuilder) {
    let num_values = method.plan_mut().values.len();
    let value = |index: &Index| i32::try_from(index.index(num_values)).unwrap();
    let args = |args: &[Index]| -> Vec<i32> {
        if num_values == 0 {
            Vec::new()
        } else {
            args.iter().map(value).collect()
        }
    };
    match step {
        Step::Kernel(name, items) => _ = method.kernel(&name, &args(&items)),
        Step::Delegate(name, data, inline, items) => {
            let processed = if inline {
                program.inline_delegate_data(&data)
            } else {
                program.delegate_data(&data)
            };
            let delegate = method.delegate(&name, processed, &[(&name, &data)]);
            method.delegate_call(delegate, &args(&items));
        }
        Step::Move(index) if num_values > 0 => _ = method.move_value(value(&index), value(&index)),
        Step::Jump(index) => {
            let count = method.plan_mut().chains[0].instructions.len() + 1;
            let cond = method.bool(true);
            method.jump_false(cond, i32::try_from(index.index(count + 1)).unwrap());
        }
        Step::Free(index) if num_values > 0 => {
            let tensor = value(&index);
            let values = &method.plan_mut().values;
            if values[usize::try_from(tensor).unwrap()]
                .as_tensor()
                .is_some()
            {
                method.free(tensor);
            }
        }
        Step::Move(_) | Step::Free(_) => {}
    }
}

fn build(methods: Vec<Method>, named: &[Vec<u8>], alignment: u32) -> ProgramBuilder {
    let mut program = ProgramBuilder::new();
    program
        .constant_alignment(alignment)
        .segment_alignment(alignment.max(16));
    for (index, blob) in named.iter().enumerate() {
        program.named_data(&format!("blob {index}"), blob);
    }
    for method in methods {
        let mut builder = MethodBuilder::new(&method.name);
        for value in method.values {
            add_value(value, &mut builder, &mut program);
        }
        for step in method.steps {
            add_step(step, &mut builder, &mut program);
        }
        let num_values = builder.plan_mut().values.len();
        if num_values > 0 {
            for output in method.outputs {
                builder.mark_output(i32::try_from(output.index(num_values)).unwrap());
            }
        }
        let plan = builder.plan_mut();
        plan.container_meta_type =
            method
                .meta
                .map(|(encoded_inp_str, encoded_out_str)| ContainerMetadata {
                    encoded_inp_str,
                    encoded_out_str,
                });
        if let Some(lines) = method.trace {
            let frame = |line: String| Frame {
                context: line,
                lineno: 7,
                ..Frame::default()
            };
            let list = FrameList {
                items: lines.into_iter().map(frame).collect(),
            };
            let chain: &mut Chain = &mut plan.chains[0];
            chain.stacktrace = Some(vec![list; chain.instructions.len()]);
        }
        program.method(builder);
    }
    program
}

/// Writes what the file says, with its own segments.
fn rewrite(file: &[u8]) -> (Program, Vec<u8>) {
    let verified = VerifiedProgram::from_file_bytes(file).unwrap();
    let program = Program::from_verified(&verified).unwrap();
    let segments = FileSegments::new(&file, verified.layout(), &program.segments).unwrap();
    let options = WriteOptions::like(verified.layout(), &program.segments);
    let mut written = Vec::new();
    write_program(&program, &segments, &options, &mut written).unwrap();
    (program, written)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn programs_survive_writing_and_reading(
        methods in vec(method(), 1..4),
        named in vec(vec(any::<u8>(), 0..50), 0..3),
        alignment in 4..13u32,
    ) {
        let built = build(methods, &named, 1 << alignment).build().unwrap();
        let file = built.to_bytes().unwrap();
        let (program, written) = rewrite(&file);
        prop_assert_eq!(&program, &built.program);
        let (again, twice) = rewrite(&written);
        prop_assert_eq!(program, again);
        prop_assert!(written == twice, "other bytes the second time");
        // The alignment of the base is read off the file; where it reads the same, so is the file.
        if written.len() == file.len() {
            prop_assert!(written == file, "other bytes");
        }
    }

    #[test]
    fn tensor_data_survives_writing_and_reading(
        entries in vec((vec(any::<u8>(), 0..60), any::<bool>()), 0..5),
        alignment in 0..13u32,
    ) {
        let mut file = FlatTensorBuilder::new();
        file.alignment(1 << alignment);
        for (index, (bytes, tensor)) in entries.iter().enumerate() {
            let key = format!("entry {index}");
            if *tensor {
                let len = i32::try_from(bytes.len()).unwrap();
                file.tensor(&key, ScalarType::Byte, &[len], bytes);
            } else {
                file.blob(&key, bytes);
            }
        }
        let bytes = file.to_bytes().unwrap();
        let verified = VerifiedFlatTensor::from_file_bytes(&bytes).unwrap();
        let problems = verified.as_parsed().problems();
        prop_assert_eq!(problems.list(), &[]);
        for (entry, (data, tensor)) in verified.root().entries().zip(&entries) {
            let range = verified.root().segment_range(entry.segment_index).unwrap().unwrap();
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
            prop_assert_eq!(&bytes[start..end], data.as_slice());
            prop_assert_eq!(entry.layout.is_some(), *tensor);
        }
    }
}
