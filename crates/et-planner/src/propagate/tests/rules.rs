//! Rules of the reference's pass and planner that hold here too, and rules of our own.

use et_schema::Dynamism;

use super::*;

fn refused(method: &ExecutionPlan) -> PropagateError {
    propagate_method(&mut method.clone(), &MethodOptions::default()).unwrap_err()
}

fn tensor(method: &ExecutionPlan, value: usize) -> &Tensor {
    method.values[value].as_tensor().unwrap()
}

/// (buffer, device type, index) of every device buffer.
fn device_list(method: &ExecutionPlan) -> Vec<(i32, i8, i8)> {
    let entries = method.non_const_buffer_device.iter().flatten();
    entries
        .map(|entry| (entry.buffer_idx, entry.device_type, entry.device_index))
        .collect()
}

#[test]
fn a_prop_03_an_unknown_type_is_told_with_the_known_ones() {
    let PropagateError::Target { source, text, .. } = refused(&add("tpu")) else {
        panic!("not refused for its target");
    };
    assert_eq!(text, "tpu");
    assert!(source.to_string().contains("`cpu`, `cuda`"), "{source}");
}

#[test]
fn a_prop_05_calls_name_delegates_that_are_there() {
    let mut sketch = Sketch::new();
    let [a, y] = [sketch.input(), sketch.value()];
    sketch.call("cuda:0", &[a, y]);
    sketch.method.delegate_call(7, &[a, y]);
    assert!(matches!(
        refused(&sketch.finish()),
        PropagateError::Analysis(_)
    ));
}

#[test]
fn a_prop_10_every_call_has_its_own_copies() {
    let mut sketch = Sketch::new();
    let [a, s, y] = [sketch.input(), sketch.value(), sketch.value()];
    sketch.call("cuda:0", &[a, s]);
    sketch.call("cuda:0", &[s, a, y]);
    sketch.outputs(&[y]);
    let method = check(sketch.finish(), (2, 1), 1, &[48]);
    assert_eq!(instructions(&method), "h0>5 D0[5,3] h0>6 D1[3,6,4] d4>2");
}

#[test]
fn a_ins_10_a_value_given_twice_to_one_call_is_copied_once() {
    let mut sketch = Sketch::new();
    let [a, y] = [sketch.input(), sketch.value()];
    sketch.call("cuda:0", &[a, a, y]);
    sketch.outputs(&[y]);
    let method = check(sketch.finish(), (1, 1), 0, &[32]);
    assert_eq!(instructions(&method), "h0>3 D0[3,3,2] d2>1");
}

/// The reference gives both the same record of extra facts (limit 23).
#[test]
fn limit_23_device_values_share_nothing_with_their_source() {
    let mut sketch = Sketch::new();
    let state = sketch.method.tensor(at(64).named("state"));
    let [a, y] = [sketch.input(), sketch.value()];
    sketch.next = 128;
    sketch.call("cuda:1", &[a, state, y]);
    sketch.outputs(&[y]);
    let method = check(sketch.finish(), (2, 1), 0, &[48]);
    let name = |value: usize| {
        let extra = tensor(&method, value).extra_tensor_info.as_ref();
        extra.and_then(|extra| extra.fully_qualified_name.as_deref())
    };
    assert_eq!(
        (name(0), tensor(&method, 0).device()),
        (Some("state"), DeviceTag::CPU)
    );
    let twins = method.values.len() - 3..method.values.len();
    assert!(twins.into_iter().all(|twin| name(twin).is_none()));
}

#[test]
fn a_prop_11_device_values_are_of_the_same_kind_without_a_plan() {
    let mut sketch = Sketch::new();
    let a = sketch.input();
    let long = Tensor::new(ScalarType::Long, &[2, 0, 3]).planned(1, 512);
    let b = sketch.method.input(long);
    let y = sketch.value();
    sketch.call("cuda:0", &[a, b, y]);
    sketch.outputs(&[y]);
    let mut method = sketch.finish();
    run(&mut method);
    let (from, to) = (tensor(&method, 1), tensor(&method, 5));
    assert_eq!(
        (to.scalar_type, &to.sizes, &to.dim_order, to.device()),
        (
            from.scalar_type,
            &from.sizes,
            &from.dim_order,
            DeviceTag::new(1, 0)
        )
    );
}

#[test]
fn a_prop_12_the_source_stays_on_the_host() {
    let method = check(add("cuda:3"), (2, 1), 0, &[48]);
    let devices: Vec<DeviceTag> = (0..6)
        .map(|value| tensor(&method, value).device())
        .collect();
    assert_eq!(devices[..3], [DeviceTag::CPU; 3]);
    assert_eq!(devices[3..], [DeviceTag::new(1, 3); 3]);
}

#[test]
fn a_prop_14_another_index_is_another_device() {
    let method = check(two_adds(["cuda:1", "cuda:2"]), (4, 2), 0, &[48, 48]);
    assert_eq!(device_list(&method), [(2, 1, 1), (3, 1, 2)]);
}

/// The reference tags parameters and state as well, which no run survives (limits 05 and 24 of its pass).
#[test]
fn a_prop_24_only_inputs_are_taken_on_the_device() {
    let mut sketch = Sketch::new();
    let weight = Tensor::new(ScalarType::Float, &[2, 2]).with_data(1);
    let weight = sketch.method.tensor(weight);
    let state = sketch.value();
    let [x, y] = [sketch.input(), sketch.value()];
    sketch.call("cuda:0", &[x, weight, state, y]);
    sketch.outputs(&[y]);
    let mut method = sketch.finish();
    let report = propagate_method(&mut method, &skipping(true, false)).unwrap();
    assert_eq!((report.h2d.count, report.kept_inputs.len()), (2, 0));
    assert_eq!(tensor(&method, 0).device(), DeviceTag::new(0, 0));
    assert_eq!(tensor(&method, 2).device(), DeviceTag::new(1, 0));
}

#[test]
fn a_prop_22_what_is_no_input_is_still_copied() {
    let mut sketch = Sketch::new();
    let [a, b] = [sketch.input(), sketch.input()];
    let [s, y] = [sketch.value(), sketch.value()];
    sketch.relu(a, s);
    sketch.call("cuda:0", &[s, b, y]);
    sketch.outputs(&[y]);
    let mut method = sketch.finish();
    propagate_method(&mut method, &skipping(true, false)).unwrap();
    assert_eq!(instructions(&method), "relu[0,2,2] h2>5 D0[5,1,4] d4>3");
    assert_eq!(tensor(&method, 0).device(), DeviceTag::new(0, 0));
    assert_eq!(tensor(&method, 1).device(), DeviceTag::new(1, 0));
}

#[test]
fn a_prop_30_what_nobody_needs_is_not_copied_back() {
    for skip_d2h in [false, true] {
        let mut sketch = Sketch::new();
        let [a, y, unused] = [sketch.input(), sketch.value(), sketch.value()];
        sketch.call("cuda:0", &[a, y, unused]);
        sketch.outputs(&[y]);
        let mut method = sketch.finish();
        let report = propagate_method(&mut method, &skipping(false, skip_d2h)).unwrap();
        assert_eq!(report.d2h.count, usize::from(!skip_d2h));
        assert_eq!(device_list(&method), [(2, 1, 0)]);
    }
}

#[test]
fn a_prop_40_copies_can_be_skipped_only_where_there_are_some() {
    for (skip_h2d, skip_d2h) in [(true, false), (false, true)] {
        let options = MethodOptions {
            device_memory: false,
            ..skipping(skip_h2d, skip_d2h)
        };
        let refused = propagate_method(&mut add("cuda"), &options).unwrap_err();
        assert!(matches!(
            refused,
            PropagateError::SkipWithoutDeviceMemory { .. }
        ));
    }
}

/// The old form tags host values, and of several delegates the last one wins.
#[test]
fn limit_25_tags_from_before_do_not_matter() {
    let mut tagged = two_adds(["cuda:0", "cuda:1"]);
    for value in [0, 1, 3, 4] {
        tagged.values[value]
            .as_tensor_mut()
            .unwrap()
            .set_device(DeviceTag::new(1, 1));
    }
    let mut plain = two_adds(["cuda:0", "cuda:1"]);
    assert_eq!(run(&mut tagged), run(&mut plain));
    assert_eq!(instructions(&tagged), instructions(&plain));
    for value in 0..plain.values.len() {
        assert_eq!(
            tensor(&tagged, value).device(),
            tensor(&plain, value).device()
        );
    }
}

#[test]
fn a_cfg_01_device_memory_is_on_by_default() {
    let options = MethodOptions::default();
    assert!(options.device_memory);
    assert!(!options.skip_h2d && !options.skip_d2h && !options.reuse_uploads);
    assert_eq!(options.alignment.get(), 16);
}

/// The reference asks only whether there are settings, not what they say (limit 06).
#[test]
fn limit_06_settings_of_one_method_are_those_of_no_other() {
    let mut program = Program {
        execution_plan: vec![add("cuda"), add("cuda")],
        ..Program::default()
    };
    program.execution_plan[1].name = "other".into();
    let options = ProgramOptions {
        default: skipping(true, false),
        methods: [("forward".into(), MethodOptions::default())].into(),
    };
    let reports = propagate(&mut program, &options).unwrap();
    let copies = reports.iter().map(|report| report.h2d.count);
    assert_eq!(copies.collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn a_dev_02_every_device_has_a_buffer_of_its_own() {
    let method = check(two_adds(["cuda:0", "cuda:5"]), (4, 2), 0, &[48, 48]);
    assert_eq!(device_list(&method), [(2, 1, 0), (3, 1, 5)]);
}

#[test]
fn a_dev_04_buffers_are_in_order_of_type_and_index() {
    let method = check(two_adds(["cuda:1", "cuda:0"]), (4, 2), 0, &[48, 48]);
    assert_eq!(device_list(&method), [(2, 1, 0), (3, 1, 1)]);
}

/// Values of other host buffers, which the reference cannot combine with devices (limit 13).
#[test]
fn limit_13_device_buffers_follow_any_number_of_host_buffers() {
    let mut sketch = Sketch::new();
    let second = sketch.method.buffer(64);
    let third = sketch.method.buffer(32);
    let a = sketch.method.input(at(0).planned(second, 16));
    let s = sketch.method.tensor(at(0).planned(third, 0));
    let y = sketch.value();
    sketch.relu(a, s);
    sketch.call("cuda:0", &[s, y]);
    sketch.outputs(&[y]);
    let mut method = sketch.finish();
    let before = method.clone();
    run(&mut method);
    assert_eq!(method.non_const_buffer_sizes, [0, 1024, 64, 32, 32]);
    assert_eq!(device_list(&method), [(4, 1, 0)]);
    assert_eq!(method.values[..before.values.len()], before.values);
}

/// State in buffer 2 that several methods share stays where it is (limit 14).
#[test]
fn limit_14_shared_state_and_devices_go_together() {
    let method = |name: &str| {
        let mut sketch = Sketch::new();
        let shared = sketch.method.buffer(16);
        let state = sketch
            .method
            .tensor(at(0).planned(shared, 0).named("cache"));
        let [x, y] = [sketch.input(), sketch.value()];
        let none = sketch.method.none();
        sketch.call("cuda:0", &[x, state, y]);
        sketch
            .method
            .kernel("aten::copy_", &[state, y, none, state]);
        sketch.outputs(&[y]);
        let mut method = sketch.finish();
        method.name = name.into();
        method
    };
    let mut program = Program {
        execution_plan: vec![method("one"), method("two")],
        ..Program::default()
    };
    let before = crate::compact::SharedBuffers::of(&program);
    let reports = propagate(&mut program, &ProgramOptions::default()).unwrap();
    assert_eq!(reports[0].buffers[0].memory_id, 3);
    assert_eq!(crate::compact::SharedBuffers::of(&program), before);
    for method in &program.execution_plan {
        let place = tensor(method, 0).allocation_info.unwrap();
        assert_eq!((place.memory_id, place.memory_offset), (2, 0));
    }
}

/// The reference copies state to the device and back in every run; here only what crosses is copied (limit 15).
#[test]
fn limit_15_state_is_copied_only_where_it_crosses() {
    let mut sketch = Sketch::new();
    let state = sketch.value();
    let [x, new, y] = [sketch.input(), sketch.value(), sketch.value()];
    let none = sketch.method.none();
    sketch.call("cuda:0", &[x, state, new]);
    sketch.call("cuda:0", &[new, x, y]);
    sketch
        .method
        .kernel("aten::copy_", &[state, new, none, state]);
    sketch.outputs(&[y]);
    // `new` is on the device for the second call, and copied back once for the state.
    let method = check(sketch.finish(), (3, 2), 1, &[48]);
    let back = "h1>8 h0>7 D0[8,7,5] d5>2 h1>9 D1[5,9,6] d6>3 copy_[0,2,4,0]";
    assert_eq!(
        instructions(&method).split(' ').count(),
        back.split(' ').count()
    );
}

#[test]
fn a_dev_08_without_device_buffers_there_is_no_list() {
    for device in ["cpu", "cuda:0"] {
        let mut method = add(device);
        run(&mut method);
        assert_eq!(method.non_const_buffer_device.is_some(), device == "cuda:0");
    }
}

#[test]
fn a_ins_02_tags_on_host_values_are_cleared_and_names_kept() {
    let mut sketch = Sketch::new();
    let state = sketch.method.tensor(at(512).named("state").on_device(1, 0));
    let [a, y] = [sketch.input(), sketch.value()];
    sketch.call("cuda:0", &[a, state, y]);
    sketch.outputs(&[y]);
    let mut method = sketch.finish();
    run(&mut method);
    let state = tensor(&method, 0);
    assert_eq!(state.device(), DeviceTag::new(0, 0));
    let name = state.extra_tensor_info.as_ref().unwrap();
    assert_eq!(name.fully_qualified_name.as_deref(), Some("state"));
}

#[test]
fn a_ins_03_copies_are_never_inserted_twice() {
    for devices in [["cuda:0", "cuda:0"], ["cuda:0", "cuda:1"]] {
        let mut method = two_adds(devices);
        run(&mut method);
        let once = method.clone();
        for options in [MethodOptions::default(), skipping(true, true)] {
            let report = propagate_method(&mut method, &options).unwrap();
            assert!(report.was_propagated && report.origins.is_empty());
            assert_eq!(method, once);
        }
    }
}

#[test]
fn a_ins_11_host_results_keep_all_their_roles() {
    let mut sketch = Sketch::new();
    let a = sketch.input();
    let dynamic = sketch.place().dynamic(Dynamism::DynamicBound);
    let v = sketch.method.tensor(dynamic);
    let list = sketch.method.tensor_list(&[v, a]);
    let dim = sketch.method.int(0);
    let joined = Tensor::new(ScalarType::Float, &[4, 2]).planned(1, 512);
    let joined = sketch.method.tensor(joined);
    sketch.call("cuda:0", &[a, v]);
    sketch
        .method
        .kernel("aten::cat.out", &[list, dim, joined, joined]);
    sketch.outputs(&[v, joined]);
    let method = check(sketch.finish(), (1, 1), 0, &[32]);
    assert_eq!(method.outputs, [v, joined]);
    assert_eq!(instructions(&method), "h0>6 D0[6,5] d5>1 cat[2,3,4,4]");
}

#[test]
fn a_ins_17_device_values_are_as_dynamic_as_what_they_stand_for() {
    let mut sketch = Sketch::new();
    let dynamic = |sketch: &mut Sketch| sketch.place().dynamic(Dynamism::DynamicBound);
    let a = dynamic(&mut sketch);
    let a = sketch.method.input(a);
    let y = dynamic(&mut sketch);
    let y = sketch.method.tensor(y);
    sketch.call("cuda:0", &[a, y]);
    sketch.outputs(&[y]);
    let method = check(sketch.finish(), (1, 1), 0, &[32]);
    for twin in [2, 3] {
        let twin = tensor(&method, twin);
        assert_eq!(twin.shape_dynamism, Dynamism::DynamicBound);
        assert_eq!(twin.sizes, [2, 2]);
    }
}

/// Sizes of dynamic tensors are what they may grow to, whatever an exporter traced (limit 27).
#[test]
fn limit_27_dynamic_values_keep_their_whole_capacity() {
    let mut sketch = Sketch::new();
    let sizes = [64, 2];
    let tensor_of = || Tensor::new(ScalarType::Float, &sizes).dynamic(Dynamism::DynamicBound);
    let a = sketch.method.input(tensor_of().planned(1, 0));
    let y = sketch.method.tensor(tensor_of().planned(1, 512));
    sketch.call("cuda:0", &[a, y]);
    sketch.outputs(&[y]);
    let mut method = sketch.finish();
    run(&mut method);
    assert_eq!(method.non_const_buffer_sizes[2], 1024);
}

/// Empty static tensors would fail at a device boundary of the reference (limit 21).
#[test]
fn limit_21_empty_tensors_cross_without_a_copy() {
    let mut sketch = Sketch::new();
    let empty = Tensor::new(ScalarType::Float, &[0, 3]).planned(1, 0);
    let a = sketch.method.input(empty);
    let [b, y] = [sketch.input(), sketch.value()];
    sketch.call("cuda:0", &[a, b, y]);
    sketch.outputs(&[y]);
    let mut method = sketch.finish();
    run(&mut method);
    assert_eq!(instructions(&method), "h1>5 D0[4,5,3] d3>2");
    let twin = tensor(&method, 4);
    assert_eq!(
        (twin.device(), twin.allocation_info),
        (DeviceTag::new(1, 0), None)
    );
}

#[test]
fn a_ins_18_operators_and_values_are_appended_once() {
    let mut sketch = Sketch::new();
    let [a, s, t, y] = [
        sketch.input(),
        sketch.value(),
        sketch.value(),
        sketch.value(),
    ];
    sketch.relu(a, s);
    sketch.call("cuda:0", &[s, t]);
    sketch.call("cuda:1", &[t, y]);
    sketch.outputs(&[y]);
    let mut method = sketch.finish();
    let before = method.clone();
    run(&mut method);
    let names: Vec<&str> = method
        .operators
        .iter()
        .map(|operator| operator.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["aten::relu", "et_copy::_h2d_copy", "et_copy::_d2h_copy"]
    );
    assert_eq!(method.values[..4], before.values);
}

/// The reference never looks into branches and loops (limit 08).
#[test]
fn limit_08_delegates_in_branches_and_loops_have_their_copies() {
    let mut sketch = Sketch::new();
    let flag = Tensor::new(ScalarType::Bool, &[]);
    let p = sketch.method.input(flag.clone().planned(1, 512));
    let [a, y] = [sketch.input(), sketch.value()];
    let done = sketch.method.tensor(flag.planned(1, 528));
    sketch.method.jump_false(p, 2);
    sketch.call("cuda:0", &[a, y]);
    sketch.call("cuda:0", &[y, y]);
    sketch.method.kernel("my::check.out", &[y, done, done]);
    sketch.method.jump_false(done, 2);
    sketch.outputs(&[y]);
    let mut method = sketch.finish();
    let report = run(&mut method);
    assert_eq!((report.h2d.count, report.d2h.count), (2, 2));
    // The jump back comes to the copy, not behind it.
    let expected = "j0>4 h1>6 D0[6,4] d4>2 h2>5 D1[5,5] d5>2 my::check[2,3,3] j3>4";
    assert_eq!(instructions(&method), expected);
}

#[test]
fn a_ins_32_every_instruction_says_where_it_comes_from() {
    let mut method = two_adds(["cuda:0", "cuda:1"]);
    let report = run(&mut method);
    assert_eq!(report.origins, [0, 0, 0, 0, 1, 1, 1, 1]);
}

/// Frames for delegates and copies, which the reference cannot write at all (limit 28).
#[test]
fn limit_28_source_lines_of_delegates_are_those_of_their_copies() {
    let mut method = add("cuda:0");
    let frame = Frame {
        lineno: 7,
        ..Frame::default()
    };
    let frames = FrameList { items: vec![frame] };
    method.chains[0].stacktrace = Some(vec![frames]);
    run(&mut method);
    let lines = method.chains[0].stacktrace.as_ref().unwrap();
    assert_eq!(lines.len(), method.chains[0].instructions.len());
    assert!(lines.iter().all(|frames| frames.items[0].lineno == 7));
}

#[test]
fn a_ins_50_numbers_of_host_buffers_never_change() {
    let method = check(two_adds(["cuda:1", "cuda:0"]), (4, 2), 0, &[48, 48]);
    assert_eq!(method.non_const_buffer_sizes[..2], [0, 1024]);
}

#[test]
fn a_ins_52_device_values_are_aligned_as_asked() {
    let mut method = add("cuda:0");
    let options = MethodOptions {
        alignment: Alignment::new(256).unwrap(),
        ..MethodOptions::default()
    };
    propagate_method(&mut method, &options).unwrap();
    let offsets: Vec<u64> = (3..6)
        .map(|value| {
            tensor(&method, value)
                .allocation_info
                .unwrap()
                .memory_offset
        })
        .collect();
    assert!(offsets.iter().all(|offset| offset.is_multiple_of(256)));
    assert_eq!(method.non_const_buffer_sizes, [0, 1024, 768]);
}

#[test]
fn a_ins_55_what_is_written_stands_every_check() {
    let methods = [
        add("cuda:0"),
        two_adds(["cuda:0", "cuda:0"]),
        two_adds(["cuda:0", "cuda:1"]),
    ];
    for method in methods {
        for (skip_h2d, skip_d2h) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut method = method.clone();
            propagate_method(&mut method, &skipping(skip_h2d, skip_d2h)).unwrap();
            let audit = Analysis::new(&method, &Hints::default())
                .unwrap()
                .audit()
                .unwrap()
                .findings;
            assert_eq!(audit, [], "{}", instructions(&method));
        }
    }
}
