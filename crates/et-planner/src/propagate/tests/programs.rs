//! The programs whose device layout the reference's exporter was seen to write. Its instructions and ours are the same
//! but for numbers: here host values keep theirs, and device values are appended.

use super::*;
use crate::compact::{CompactOptions, SharedBuffers, compact_method};

fn unplanned() -> Tensor {
    Tensor::new(ScalarType::Float, &[2, 2])
}

fn place_of(method: &ExecutionPlan, value: usize) -> Option<(u32, u64)> {
    let tensor = method.values[value].as_tensor().unwrap();
    let place = tensor.allocation_info?;
    Some((place.memory_id, place.memory_offset))
}

/// Three values of 16 bytes, in the places of the old layout.
fn add_in_its_layout() -> ExecutionPlan {
    let mut method = MethodBuilder::new("forward");
    method.buffer(48);
    let [a, b] = [0, 16].map(|offset| method.input(at(offset)));
    let y = method.output(at(32));
    let data = BackendDelegateDataReference::default();
    let delegate = method.delegate("Backend", data, &[("target_device", b"cuda:0")]);
    method.delegate_call(delegate, &[a, b, y]);
    method.finish()
}

#[test]
fn program_01_one_add() {
    let method = check(add_in_its_layout(), (2, 1), 0, &[48]);
    assert_eq!(instructions(&method), "h0>4 h1>5 D0[4,5,3] d3>2");
    assert_eq!(method.non_const_buffer_sizes, [0, 48, 48]);
}

#[test]
fn program_02_two_adds_on_one_device() {
    let method = check(two_adds(["cuda:0", "cuda:0"]), (3, 1), 1, &[48]);
    assert_eq!(
        instructions(&method),
        "h0>7 h1>8 D0[7,8,5] h2>9 D1[5,9,6] d6>4"
    );
}

#[test]
fn program_03_two_adds_on_two_devices() {
    let method = check(two_adds(["cuda:0", "cuda:1"]), (4, 2), 0, &[48, 48]);
    assert_eq!(
        instructions(&method),
        "h0>7 h1>8 D0[7,8,5] d5>3 h3>9 h2>10 D1[9,10,6] d6>4"
    );
}

fn calls(devices: &[(&str, [usize; 3])], values: usize, outputs: &[i32]) -> ExecutionPlan {
    let mut sketch = Sketch::new();
    let mut all = vec![sketch.input(), sketch.input()];
    all.extend((2..values).map(|_| sketch.value()));
    for (device, args) in devices {
        sketch.call(device, &args.map(|value| all[value]));
    }
    sketch.outputs(outputs);
    sketch.finish()
}

#[test]
fn program_04_one_output_for_three_more_calls() {
    let devices = [
        ("cuda:0", [0, 1, 2]),
        ("cuda:0", [2, 0, 3]),
        ("cuda:0", [2, 1, 4]),
        ("cuda:0", [3, 4, 5]),
    ];
    let method = check(calls(&devices, 6, &[5]), (4, 1), 4, &[64]);
    let expected = "h0>10 h1>11 D0[10,11,6] h0>12 D1[6,12,7] h1>13 D2[6,13,8] D3[7,8,9] d9>5";
    assert_eq!(instructions(&method), expected);
}

#[test]
fn program_05_device_and_host_need_one_output() {
    let mut sketch = Sketch::new();
    let [a, b] = [sketch.input(), sketch.input()];
    let [t, r, u] = [sketch.value(), sketch.value(), sketch.value()];
    sketch.call("cuda:0", &[a, b, t]);
    sketch.relu(t, r);
    sketch.call("cuda:0", &[t, a, u]);
    sketch.outputs(&[u, r]);
    let method = check(sketch.finish(), (3, 2), 1, &[48]);
    let expected = "h0>7 h1>8 D0[7,8,5] d5>2 relu[2,3,3] h0>9 D1[5,9,6] d6>4";
    assert_eq!(instructions(&method), expected);
}

#[test]
fn program_06_the_same_and_another_device() {
    let devices = [
        ("cuda:0", [0, 1, 2]),
        ("cuda:0", [2, 0, 3]),
        ("cuda:1", [2, 1, 4]),
    ];
    let method = check(calls(&devices, 5, &[3, 4]), (5, 3), 1, &[48, 48]);
    let expected = "h0>8 h1>9 D0[8,9,5] d5>2 h0>10 D1[5,10,6] d6>3 h2>11 h1>12 D2[11,12,7] d7>4";
    assert_eq!(instructions(&method), expected);
}

fn add_without_places() -> ExecutionPlan {
    let mut method = add_in_its_layout();
    for value in 0..3 {
        method.values[value] = Value::Tensor(unplanned());
    }
    method.non_const_buffer_sizes = vec![0, 0];
    method
}

#[test]
fn program_07_both_skips_and_callers_memory() {
    let mut method = add_without_places();
    propagate_method(&mut method, &skipping(true, true)).unwrap();
    assert_eq!(instructions(&method), "D0[0,1,3]");
    assert_eq!(
        (method.outputs.as_slice(), &*method.non_const_buffer_sizes),
        ([3].as_slice(), [0, 0].as_slice())
    );
    assert_eq!(method.non_const_buffer_device, None);
    for value in [0, 1, 3] {
        assert_eq!(
            method.values[value].as_tensor().unwrap().device(),
            DeviceTag::new(1, 0)
        );
        assert_eq!(place_of(&method, value), None);
    }
}

/// The reference plans device inputs, which its runtime then refuses.
#[test]
fn program_08_both_skips_and_planned_ends() {
    let mut method = add_in_its_layout();
    propagate_method(&mut method, &skipping(true, true)).unwrap();
    assert_eq!(method.non_const_buffer_sizes, [0, 48, 16]);
    let places = [0, 1, 3].map(|value| place_of(&method, value));
    assert_eq!(places, [None, None, Some((2, 0))]);
}

/// The reference leaves the device result without memory and plans the host result (limit 03).
#[test]
fn program_09_no_skips_and_callers_memory() {
    let method = check(add_without_places(), (2, 1), 0, &[48]);
    assert_eq!(method.non_const_buffer_sizes, [0, 0, 48]);
    assert_eq!(place_of(&method, 2), None);
    assert!((3..6).all(|value| place_of(&method, value).is_some_and(|(buffer, _)| buffer == 2)));
}

#[test]
fn program_10_views_on_both_sides_of_a_call() {
    let mut sketch = Sketch::new();
    let flat = |offset| Tensor {
        sizes: vec![4],
        dim_order: vec![0],
        ..at(offset)
    };
    let [a, b, s] = [sketch.input(), sketch.input(), sketch.value()];
    let s_view = sketch.method.tensor(flat(32));
    let t = sketch.value();
    let t_view = sketch.method.tensor(flat(48));
    let y = sketch.value();
    sketch.relu(a, s);
    sketch.call("cuda:0", &[s_view, b, t]);
    sketch.relu(t_view, y);
    sketch.outputs(&[y]);
    let method = check(sketch.finish(), (2, 1), 0, &[48]);
    assert_eq!(
        instructions(&method),
        "relu[0,2,2] h3>8 h1>9 D0[8,9,7] d7>4 relu[5,6,6]"
    );
}

#[test]
fn program_11_state_that_the_host_writes_back() {
    let mut sketch = Sketch::new();
    let state = sketch.value();
    let [x, y] = [sketch.input(), sketch.value()];
    let none = sketch.method.none();
    sketch.call("cuda:0", &[x, state, y]);
    sketch
        .method
        .kernel("aten::copy_", &[state, y, none, state]);
    sketch.outputs(&[y]);
    let method = check(sketch.finish(), (2, 1), 0, &[48]);
    assert_eq!(
        instructions(&method),
        "h1>5 h0>6 D0[5,6,4] d4>2 copy_[0,2,3,0]"
    );
    let analysis = Analysis::new(&method, &Hints::default()).unwrap();
    assert!(analysis.is_persistent(ValueIndex::new(0)));
}

/// Two branches, `delegate` in the first.
fn branch(sketch: &mut Sketch, condition: i32, x: i32, delegate: bool, left: [i32; 2], to: i32) {
    let start = i32::try_from(sketch.method.plan_mut().chains[0].instructions.len()).unwrap();
    let never = sketch.method.bool(false);
    sketch.method.jump_false(condition, start + 4);
    if delegate {
        sketch.call("cuda:0", &[x, left[0]]);
    } else {
        sketch.relu(x, left[0]);
    }
    sketch.method.move_value(left[0], to);
    sketch.method.jump_false(never, start + 6);
    sketch.relu(x, left[1]);
    sketch.method.move_value(left[1], to);
}

/// The reference inserts nothing here, and says nothing (limit 08).
#[test]
fn program_12_a_condition_with_a_delegate_in_a_branch() {
    let mut sketch = Sketch::new();
    let flag = Tensor::new(ScalarType::Bool, &[]).planned(1, 512);
    let p = sketch.method.input(flag);
    let [x, r] = [sketch.input(), sketch.value()];
    let left = [sketch.value(), sketch.value()];
    branch(&mut sketch, p, x, true, left, r);
    sketch.outputs(&[r]);
    let method = check(sketch.finish(), (1, 1), 0, &[32]);
    assert_eq!(
        instructions(&method),
        "j0>6 h1>7 D0[7,6] d6>3 m3>2 j5>8 relu[1,4,4] m4>2"
    );
}

/// All four results of the branches at one place, as the reference plans them.
fn two_conditions() -> ExecutionPlan {
    let mut sketch = Sketch::new();
    let flag = |offset| Tensor::new(ScalarType::Bool, &[]).planned(1, offset);
    let [p, q] = [512, 528].map(|offset| sketch.method.input(flag(offset)));
    let [x, a, b] = [sketch.input(), sketch.value(), sketch.value()];
    let left: Vec<i32> = (0..4).map(|_| sketch.method.tensor(at(256))).collect();
    let y = sketch.value();
    branch(&mut sketch, p, x, false, [left[0], left[1]], a);
    branch(&mut sketch, q, x, false, [left[2], left[3]], b);
    sketch.method.kernel("aten::sub.out", &[a, b, y, y]);
    sketch.outputs(&[y, a]);
    sketch.finish()
}

#[test]
fn program_13_two_conditions_are_repaired() {
    let mut method = two_conditions();
    let audit = |method: &ExecutionPlan| {
        Analysis::new(method, &Hints::default())
            .unwrap()
            .audit()
            .unwrap()
            .findings
    };
    assert_eq!(audit(&method).len(), 4);
    let options = CompactOptions {
        repair: true,
        ..CompactOptions::default()
    };
    compact_method(&mut method, &SharedBuffers::none(), &options).unwrap();
    assert_eq!(audit(&method), []);
    let place = |value| place_of(&method, value).unwrap().1;
    // Alternatives of one condition may share, results of two may not.
    assert!(
        [5, 6]
            .iter()
            .all(|&one| [7, 8].iter().all(|&other| place(one) != place(other)))
    );
}

/// Two delegates, an operator between, parameters and state among the arguments.
#[test]
fn program_15_parameters_and_state_among_the_arguments() {
    let mut sketch = Sketch::new();
    let state = sketch.value();
    let weight = sketch.method.tensor(unplanned().with_data(1));
    let [x, h, e] = [sketch.input(), sketch.value(), sketch.value()];
    let [u, new, y] = [sketch.value(), sketch.value(), sketch.value()];
    let none = sketch.method.none();
    sketch.call("cuda:0", &[x, h]);
    sketch.relu(h, e);
    sketch.call("cuda:0", &[e, x, state, weight, u, new, y]);
    sketch
        .method
        .kernel("aten::copy_", &[state, new, none, state]);
    sketch.outputs(&[u, y]);
    let method = sketch.finish();
    let analysis = Analysis::new(&method, &Hints::default()).unwrap();
    let numbers =
        |values: &[ValueIndex]| values.iter().map(|value| value.get()).collect::<Vec<_>>();
    let step = &analysis.steps()[2];
    assert_eq!(numbers(&step.reads), [4, 2, 0, 1]);
    assert_eq!(numbers(&step.writes), [5, 6, 7]);
    check(method, (5, 4), 0, &[112]);
}
