//! Methods of one or more delegates, made device-aware. Names and numbers of copies are those of the reference's
//! exporter, or better where a test says so.

use et_schema::ScalarType;
use et_schema::builder::MethodBuilder;
use et_schema::owned::{BackendDelegateDataReference, Frame, FrameList};

use super::*;

mod programs;
mod rules;
mod skips;
mod stripped;
mod uploads;

/// A 16-byte tensor in buffer 1.
fn at(offset: u64) -> Tensor {
    Tensor::new(ScalarType::Float, &[2, 2]).planned(1, offset)
}

struct Sketch {
    method: MethodBuilder,
    next: u64,
}

impl Sketch {
    fn new() -> Self {
        let mut method = MethodBuilder::new("forward");
        method.buffer(1024);
        Self { method, next: 0 }
    }

    fn place(&mut self) -> Tensor {
        self.next += 16;
        at(self.next - 16)
    }

    fn input(&mut self) -> i32 {
        let tensor = self.place();
        self.method.input(tensor)
    }

    fn value(&mut self) -> i32 {
        let tensor = self.place();
        self.method.tensor(tensor)
    }

    fn outputs(&mut self, values: &[i32]) {
        values
            .iter()
            .for_each(|&value| self.method.mark_output(value));
    }

    /// A call of a delegate of its own on that device.
    fn call(&mut self, device: &str, args: &[i32]) {
        let specs = [("target_device", device.as_bytes())];
        let data = BackendDelegateDataReference::default();
        let delegate = self.method.delegate("Backend", data, &specs);
        self.method.delegate_call(delegate, args);
    }

    fn relu(&mut self, input: i32, output: i32) {
        self.method
            .kernel("aten::relu.out", &[input, output, output]);
    }

    fn finish(self) -> ExecutionPlan {
        self.method.finish()
    }
}

/// The instructions in short: `h0>2` copies value 0 to device value 2, `d` back, `D0(…)` calls delegate 0.
fn instructions(method: &ExecutionPlan) -> String {
    let short = |instruction: &Instruction| match instruction {
        Instruction::KernelCall(call) => {
            let operator = &method.operators[usize::try_from(call.op_index).unwrap()];
            match operator.name.as_str() {
                "et_copy::_h2d_copy" => format!("h{}>{}", call.args[0], call.args[1]),
                "et_copy::_d2h_copy" => format!("d{}>{}", call.args[0], call.args[1]),
                name => format!("{}{:?}", name.trim_start_matches("aten::"), call.args),
            }
        }
        Instruction::DelegateCall(call) => format!("D{}{:?}", call.delegate_index, call.args),
        Instruction::MoveCall(call) => format!("m{}>{}", call.move_from, call.move_to),
        Instruction::JumpFalseCall(call) => {
            format!(
                "j{}>{}",
                call.cond_value_index, call.destination_instruction
            )
        }
        other => format!("{other:?}"),
    };
    let all = method.instructions();
    all.map(short)
        .collect::<Vec<_>>()
        .join(" ")
        .replace(", ", ",")
}

fn run(method: &mut ExecutionPlan) -> MethodReport {
    propagate_method(method, &MethodOptions::default()).unwrap()
}

/// The copies (to the device, back), the elided operands and the sizes of buffers from 2 on.
#[track_caller]
fn check(
    method: ExecutionPlan,
    copies: (usize, usize),
    elided: usize,
    buffers: &[i64],
) -> ExecutionPlan {
    let mut changed = method.clone();
    let report = run(&mut changed);
    assert_eq!(
        (report.h2d.count, report.d2h.count, report.elided),
        (copies.0, copies.1, elided)
    );
    assert_eq!(report.h2d.nbytes, 16 * copies.0 as u64);
    assert_eq!(&changed.non_const_buffer_sizes[2..], buffers);
    // Host values are as they were.
    assert_eq!(changed.values[..method.values.len()], method.values);
    // A second time changes nothing.
    let again = changed.clone();
    assert!(run(&mut changed).was_propagated);
    assert_eq!(changed, again);
    changed
}

fn add(device: &str) -> ExecutionPlan {
    let mut sketch = Sketch::new();
    let [a, b, y] = [sketch.input(), sketch.input(), sketch.value()];
    sketch.call(device, &[a, b, y]);
    sketch.outputs(&[y]);
    sketch.finish()
}

#[test]
fn a_prop_15_copies_surround_the_call_in_the_order_of_arguments() {
    let method = check(add("cuda:0"), (2, 1), 0, &[48]);
    assert_eq!(instructions(&method), "h0>4 h1>5 D0[4,5,3] d3>2");
    let devices = method.non_const_buffer_device.unwrap();
    assert_eq!(
        (devices.len(), devices[0].buffer_idx, devices[0].device_type),
        (1, 2, 1)
    );
    let operator = &method.operators[0];
    assert_eq!(
        (operator.name.as_str(), operator.overload.as_str()),
        ("et_copy::_h2d_copy", "out")
    );
    assert_eq!(
        method.values[3].as_tensor().unwrap().device(),
        DeviceTag::new(1, 0)
    );
}

fn two_adds(devices: [&str; 2]) -> ExecutionPlan {
    let mut sketch = Sketch::new();
    let [a, b, c] = [sketch.input(), sketch.input(), sketch.input()];
    let [s, y] = [sketch.value(), sketch.value()];
    sketch.call(devices[0], &[a, b, s]);
    sketch.call(devices[1], &[s, c, y]);
    sketch.outputs(&[y]);
    sketch.finish()
}

#[test]
fn a_opt_05_round_trips_on_one_device_are_elided() {
    let method = check(two_adds(["cuda:0", "CUDA"]), (3, 1), 1, &[48]);
    assert_eq!(
        instructions(&method),
        "h0>7 h1>8 D0[7,8,5] h2>9 D1[5,9,6] d6>4"
    );
}

#[test]
fn a_opt_05_copies_between_devices_go_through_the_host() {
    let method = check(two_adds(["cuda:0", "cuda:1"]), (4, 2), 0, &[48, 48]);
    let devices = method.non_const_buffer_device.unwrap();
    assert_eq!(
        devices
            .iter()
            .map(|entry| entry.device_index)
            .collect::<Vec<_>>(),
        [0, 1]
    );
}

#[test]
fn a_opt_05_one_output_for_several_delegates_stays_on_the_device() {
    let mut sketch = Sketch::new();
    let [a, b] = [sketch.input(), sketch.input()];
    let [v, w, x, y] = [
        sketch.value(),
        sketch.value(),
        sketch.value(),
        sketch.value(),
    ];
    for args in [[a, b, v], [v, a, w], [v, b, x], [w, x, y]] {
        sketch.call("cuda:0", &args);
    }
    sketch.outputs(&[y]);
    check(sketch.finish(), (4, 1), 4, &[64]);
}

#[test]
fn a_opt_05_host_and_device_users_of_one_output() {
    let mut sketch = Sketch::new();
    let [a, b] = [sketch.input(), sketch.input()];
    let [t, r, u] = [sketch.value(), sketch.value(), sketch.value()];
    sketch.call("cuda:0", &[a, b, t]);
    sketch.relu(t, r);
    sketch.call("cuda:0", &[t, a, u]);
    sketch.outputs(&[u, r]);
    let method = check(sketch.finish(), (3, 2), 1, &[48]);
    assert_eq!(
        instructions(&method),
        "h0>7 h1>8 D0[7,8,5] d5>2 relu[2,3,3] h0>9 D1[5,9,6] d6>4"
    );
}

#[test]
fn a_opt_05_same_and_other_device_users_of_one_output() {
    let mut sketch = Sketch::new();
    let [a, b] = [sketch.input(), sketch.input()];
    let [t, x, y] = [sketch.value(), sketch.value(), sketch.value()];
    sketch.call("cuda:0", &[a, b, t]);
    sketch.call("cuda:0", &[t, a, x]);
    sketch.call("cuda:1", &[t, b, y]);
    sketch.outputs(&[x, y]);
    check(sketch.finish(), (5, 3), 1, &[48, 48]);
}

/// The reference copies there and back (limit 12).
#[test]
fn limit_12_round_trips_through_a_view_are_elided() {
    let mut sketch = Sketch::new();
    let a = sketch.input();
    let base = sketch.value();
    let flat = Tensor {
        sizes: vec![4],
        dim_order: vec![0],
        ..at(16)
    };
    let view = sketch.method.tensor(flat);
    let y = sketch.value();
    sketch.call("cuda:0", &[a, base]);
    sketch.call("cuda:0", &[view, y]);
    sketch.outputs(&[y]);
    let method = check(sketch.finish(), (1, 1), 1, &[32]);
    let [twin, alias] = [4, 7].map(|value: usize| method.values[value].as_tensor().unwrap());
    assert_eq!(
        (alias.allocation_info, alias.sizes.as_slice()),
        (twin.allocation_info, [4].as_slice())
    );
    assert_eq!(instructions(&method), "h0>6 D0[6,4] D1[7,5] d5>3");
}

#[test]
fn hazard_06_writes_in_between_are_copied_anew() {
    for operator in ["aten::relu_", "my::update_cache"] {
        let mut sketch = Sketch::new();
        let [a, v, y] = [sketch.input(), sketch.value(), sketch.value()];
        sketch.call("cuda:0", &[a, v]);
        sketch.method.kernel(operator, &[v, v]);
        sketch.call("cuda:0", &[v, y]);
        sketch.outputs(&[y]);
        // Two equal arguments make the second name look like an out-variant, which is no less of a write.
        check(sketch.finish(), (2, 2), 0, &[32]);
    }
}

#[test]
fn hazard_09_jumps_and_source_lines_move_along() {
    let mut sketch = Sketch::new();
    let [p, a] = [
        sketch
            .method
            .input(Tensor::new(ScalarType::Bool, &[]).planned(1, 512)),
        sketch.input(),
    ];
    let [t, f, r, y] = [
        sketch.value(),
        sketch.value(),
        sketch.value(),
        sketch.value(),
    ];
    let never = sketch.method.bool(false);
    sketch.method.jump_false(p, 4);
    sketch.call("cuda:0", &[a, t]);
    sketch.method.move_value(t, r);
    sketch.method.jump_false(never, 6);
    sketch.call("cuda:0", &[a, f]);
    sketch.method.move_value(f, r);
    sketch.relu(r, y);
    sketch.outputs(&[y]);
    let frame = |line: i32| FrameList {
        items: vec![Frame {
            lineno: line,
            ..Frame::default()
        }],
    };
    sketch.method.plan_mut().chains[0].stacktrace = Some((0..7).map(frame).collect());
    let method = check(sketch.finish(), (2, 2), 0, &[32]);
    let expected = "j0>6 h1>9 D0[9,7] d7>2 m2>4 j6>10 h1>10 D1[10,8] d8>3 m3>4 relu[4,5,5]";
    assert_eq!(instructions(&method), expected);
    let lines = method.chains[0]
        .stacktrace
        .as_ref()
        .unwrap()
        .iter()
        .map(|frames| frames.items[0].lineno);
    assert_eq!(lines.collect::<Vec<_>>(), [0, 1, 1, 1, 2, 3, 4, 4, 4, 5, 6]);
}

#[test]
fn limit_05_constants_and_state_are_copied_from_the_host() {
    let mut sketch = Sketch::new();
    let weight = sketch
        .method
        .tensor(Tensor::new(ScalarType::Float, &[2, 2]).with_data(1));
    let state = sketch.value();
    let [x, y] = [sketch.input(), sketch.value()];
    let none = sketch.method.none();
    sketch.call("cuda:0", &[x, weight, state, y]);
    sketch
        .method
        .kernel("aten::copy_", &[state, y, none, state]);
    sketch.outputs(&[y]);
    let method = check(sketch.finish(), (3, 1), 0, &[64]);
    let copied = method.values[7].as_tensor().unwrap();
    assert_eq!(
        (copied.data_buffer_idx, copied.device()),
        (0, DeviceTag::new(1, 0))
    );
}

#[test]
fn a_ins_15_lists_are_made_anew_behind_their_items() {
    let mut sketch = Sketch::new();
    let [a, b] = [sketch.input(), sketch.input()];
    let list = sketch.method.tensor_list(&[a, b]);
    let y = sketch.value();
    sketch.call("cuda:0", &[list, y]);
    sketch.outputs(&[y]);
    let method = check(sketch.finish(), (2, 1), 0, &[48]);
    assert_eq!(instructions(&method), "h0>5 h1>6 D0[7,4] d4>3");
    assert_eq!(method.values[7], Value::TensorList(vec![5, 6]));
}

#[test]
fn a_ins_16_empty_tensors_are_not_copied() {
    let mut sketch = Sketch::new();
    let empty = Tensor::new(ScalarType::Float, &[0, 3]).planned(1, 0);
    let a = sketch.method.input(empty.clone());
    let y = sketch.method.output(empty);
    sketch.call("cuda:0", &[a, y]);
    let method = check(sketch.finish(), (0, 0), 0, &[]);
    assert_eq!(instructions(&method), "D0[3,2]");
    assert_eq!(method.non_const_buffer_device, None);
}

fn skipping(skip_h2d: bool, skip_d2h: bool) -> MethodOptions {
    MethodOptions {
        skip_h2d,
        skip_d2h,
        ..MethodOptions::default()
    }
}

#[test]
fn a_ds_03_what_may_be_a_view_or_an_output_is_copied_both_ways() {
    let mut sketch = Sketch::new();
    let [a, w, b] = [sketch.input(), sketch.value(), sketch.value()];
    let either = sketch.method.tensor(at(16));
    let y = sketch.value();
    sketch.relu(a, w);
    sketch.relu(w, b);
    sketch.call("cuda:0", &[b, either, y]);
    sketch.outputs(&[either, y]);
    let method = sketch.finish();
    let mut changed = method.clone();
    let report = run(&mut changed);
    assert_eq!(report.both_ways, [ValueIndex::new(3)]);
    let expected = "relu[0,1,1] relu[1,2,2] h2>8 h7>6 D0[8,6,5] d5>4 d6>3";
    assert_eq!(instructions(&changed), expected);
    let hints = Hints {
        delegate_inputs: [(0, 1)].into(),
    };
    let mut hinted = method;
    let options = MethodOptions {
        hints,
        ..MethodOptions::default()
    };
    let report = propagate_method(&mut hinted, &options).unwrap();
    assert_eq!((report.both_ways.len(), report.h2d.count), (0, 1));
}

#[test]
fn limit_07_delegates_without_a_device_change_nothing() {
    for device in ["cpu", " CPU:0 "] {
        let mut method = add(device);
        assert_eq!(
            run(&mut method),
            MethodReport {
                name: "forward".into(),
                ..MethodReport::default()
            }
        );
        assert_eq!(method, add(device));
    }
}

#[test]
fn limit_20_target_devices_are_strict() {
    for text in [
        "tpu:0", "cuda:x", "cuda:", "cuda:0:1", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1_0",
        "cuda:200", "cpu:1", "",
    ] {
        let refused = propagate_method(&mut add(text), &MethodOptions::default()).unwrap_err();
        assert!(
            matches!(refused, PropagateError::Target { delegate: 0, .. }),
            "{text}: {refused}"
        );
    }
    for text in ["cuda", " Cuda:2\n", "CUDA:127"] {
        assert_eq!(run(&mut add(text)).h2d.count, 2, "{text}");
    }
}

#[test]
fn a_ins_04_two_target_devices_must_agree() {
    let with = |second: &[u8]| {
        let mut method = add("cuda:1");
        let spec = et_schema::owned::CompileSpec {
            key: "target_device".into(),
            value: second.to_vec(),
        };
        method.delegates[0].compile_specs.push(spec);
        propagate_method(&mut method, &MethodOptions::default())
    };
    assert!(with(b"CUDA:1").is_ok());
    assert!(matches!(
        with(b"cuda:0"),
        Err(PropagateError::Targets { delegate: 0, .. })
    ));
}

/// The `target_device`s of the first delegate.
fn specs(method: &ExecutionPlan) -> Vec<&str> {
    let specs = method.delegates[0].compile_specs.iter();
    let targets = specs.filter(|spec| spec.key == "target_device");
    targets
        .map(|spec| std::str::from_utf8(&spec.value).unwrap())
        .collect()
}

#[test]
fn compile_specs_say_the_device_that_was_given() {
    let given = |device: &str, device_memory| MethodOptions {
        targets: [(0, device.parse().unwrap())].into(),
        device_memory,
        ..MethodOptions::default()
    };
    for device_memory in [true, false] {
        let mut method = add("cuda:0");
        propagate_method(&mut method, &given("cuda:1", device_memory)).unwrap();
        assert_eq!(specs(&method), ["cuda:1"]);
        let mut method = add("cuda:0");
        let report = propagate_method(&mut method, &given("cpu", device_memory)).unwrap();
        assert_eq!((specs(&method), report.buffers.len()), (vec!["cpu"], 0));
        let mut method = add("cuda:0");
        method.delegates[0].compile_specs.clear();
        propagate_method(&mut method, &given("cpu", device_memory)).unwrap();
        assert!(specs(&method).is_empty());
        propagate_method(&mut method, &given("cuda:1", device_memory)).unwrap();
        assert_eq!(specs(&method), ["cuda:1"]);
    }
    // Two that disagree become one.
    let mut method = add("cuda:0");
    let mut second = method.delegates[0].compile_specs[0].clone();
    second.value = b"cuda:2".to_vec();
    method.delegates[0].compile_specs.push(second);
    propagate_method(&mut method, &given("cuda:1", true)).unwrap();
    assert_eq!(specs(&method), ["cuda:1"]);
}

#[test]
fn a_device_that_comes_too_late_changes_nothing() {
    let mut method = add("cuda:0");
    propagate_method(&mut method, &MethodOptions::default()).unwrap();
    let before = method.clone();
    for device in ["cuda:1", "cpu"] {
        let options = MethodOptions {
            targets: [(0, device.parse().unwrap())].into(),
            ..MethodOptions::default()
        };
        let report = propagate_method(&mut method, &options).unwrap();
        assert!(report.was_propagated, "{device}");
        assert_eq!(method, before);
    }
}

#[test]
fn devices_can_be_given_instead() {
    let cuda: Device = "cuda:1".parse().unwrap();
    let options = MethodOptions {
        targets: [(0, cuda)].into(),
        ..MethodOptions::default()
    };
    let mut method = add("cpu");
    let report = propagate_method(&mut method, &options).unwrap();
    assert_eq!(report.buffers[0].device, cuda);
    let options = MethodOptions {
        targets: [(1, cuda)].into(),
        ..MethodOptions::default()
    };
    let refused = propagate_method(&mut add("cpu"), &options).unwrap_err();
    assert!(matches!(
        refused,
        PropagateError::NoSuchDelegate { delegate: 1, .. }
    ));
}

#[test]
fn a_prop_41_without_device_memory_values_are_tagged_in_place() {
    let options = MethodOptions {
        device_memory: false,
        ..MethodOptions::default()
    };
    let mut method = two_adds(["cuda:0", "cuda:1"]);
    propagate_method(&mut method, &options).unwrap();
    let tags = method
        .values
        .iter()
        .map(|value| value.as_tensor().unwrap().device());
    assert_eq!(
        tags.collect::<Vec<_>>(),
        [0, 0, 1, 1, 1].map(|index| DeviceTag::new(1, index))
    );
    assert_eq!(instructions(&method), "D0[0,1,3] D1[3,2,4]");
    // Tags from before do not matter.
    let report = run(&mut method);
    assert_eq!((report.h2d.count, report.d2h.count), (4, 2));
    let options = MethodOptions {
        skip_h2d: true,
        ..options
    };
    let refused = propagate_method(&mut add("cuda"), &options);
    assert!(matches!(
        refused,
        Err(PropagateError::SkipWithoutDeviceMemory { .. })
    ));
}

#[test]
fn a_ins_40_options_name_methods_that_are_there() {
    let mut program = Program {
        execution_plan: vec![add("cuda"), add("cuda")],
        ..Program::default()
    };
    program.execution_plan[1].name = "other".into();
    let mut options = ProgramOptions::default();
    options.methods.insert("other".into(), skipping(true, true));
    let reports = propagate(&mut program, &options).unwrap();
    assert_eq!(
        reports
            .iter()
            .map(|report| report.h2d.count)
            .collect::<Vec<_>>(),
        [2, 0]
    );
    options
        .methods
        .insert("third".into(), MethodOptions::default());
    let refused = propagate(&mut program, &options).unwrap_err();
    assert_eq!(refused.to_string(), "the program has no method `third`");
}

#[test]
fn a_ins_20_corrupt_methods_are_refused() {
    let mut sketch = Sketch::new();
    let [a, y, z] = [sketch.input(), sketch.value(), sketch.value()];
    sketch.call("cuda:0", &[a, y]);
    sketch.relu(a, z);
    sketch.outputs(&[y, z]);
    let mut method = sketch.finish();
    method.values[2].as_tensor_mut().unwrap().allocation_info =
        method.values[1].as_tensor().unwrap().allocation_info;
    let before = method.clone();
    let refused = propagate_method(&mut method, &MethodOptions::default());
    assert!(matches!(refused, Err(PropagateError::Corrupt(_))));
    assert_eq!(method, before);
}

/// In a method without inputs nothing tells whether a delegate reads an argument that nothing has written before; a
/// hint does, also when what was made is checked.
#[test]
fn hints_hold_for_the_check_of_what_was_made() {
    let mut method = MethodBuilder::new("forward");
    method.buffer(256);
    let data = method.tensor(Tensor::new(ScalarType::Float, &[2, 2]).with_data(1));
    let delegate = method.delegate("Backend", BackendDelegateDataReference::default(), &[]);
    for call in 0..3 {
        let [a, y] = [0, 16].map(|offset| method.output(at(32 * call + offset)));
        method.delegate_call(delegate, &[data, a, y]);
    }
    let mut options = MethodOptions::default();
    options.targets.insert(0, Device::cuda(0).unwrap());
    options.hints.delegate_inputs.insert(0, 1);
    let report = propagate_method(&mut method.finish(), &options).unwrap();
    assert_eq!(report.both_ways, []);
    assert_eq!((report.h2d.count, report.d2h.count), (3, 6));
    // What two calls give is never needed at once.
    assert_eq!(report.buffers[0].nbytes, 48);
}
