//! Copies that serve more than one call, where delegates leave what they are given as it is.

use super::*;

#[track_caller]
fn reused(method: ExecutionPlan, expected: &str) -> MethodReport {
    let options = MethodOptions {
        reuse_uploads: true,
        ..MethodOptions::default()
    };
    let mut changed = method.clone();
    let report = propagate_method(&mut changed, &options).unwrap();
    assert_eq!(instructions(&changed), expected);
    let audit = Analysis::new(&changed, &Hints::default())
        .unwrap()
        .audit()
        .unwrap()
        .findings;
    assert_eq!(audit, []);
    report
}

/// Two calls that take `a`, with `between` done in between.
fn twice(devices: [&str; 2], between: impl FnOnce(&mut Sketch, i32)) -> ExecutionPlan {
    let mut sketch = Sketch::new();
    let [a, s, y] = [sketch.input(), sketch.value(), sketch.value()];
    sketch.call(devices[0], &[a, s]);
    between(&mut sketch, a);
    sketch.call(devices[1], &[s, a, y]);
    sketch.outputs(&[y]);
    sketch.finish()
}

/// The reference copies a value anew for every delegate (limit 11).
#[test]
fn limit_11_one_copy_serves_all_calls_on_a_device() {
    let method = twice(["cuda:0", "cuda:0"], |_, _| {});
    let report = reused(method, "h0>5 D0[5,3] D1[3,5,4] d4>2");
    assert_eq!((report.reused, report.h2d.count), (1, 1));
}

#[test]
fn a_opt_03_another_device_needs_another_copy() {
    let method = twice(["cuda:0", "cuda:1"], |_, _| {});
    let report = reused(method, "h0>5 D0[5,3] d3>1 h1>6 h0>7 D1[6,7,4] d4>2");
    assert_eq!(report.reused, 0);
}

#[test]
fn a_opt_03_what_was_written_in_between_is_copied_anew() {
    for operator in ["aten::relu_", "my::update_cache"] {
        let method = twice(["cuda:0", "cuda:0"], |sketch, a| {
            sketch.method.kernel(operator, &[a, a]);
        });
        let mut changed = method;
        let options = MethodOptions {
            reuse_uploads: true,
            ..MethodOptions::default()
        };
        let report = propagate_method(&mut changed, &options).unwrap();
        assert_eq!((report.reused, report.h2d.count), (0, 2), "{operator}");
    }
}

/// A write through another name, which only what the name points to tells.
#[test]
fn hazard_06_writes_through_a_pointer_are_seen() {
    for reuse_uploads in [false, true] {
        let mut sketch = Sketch::new();
        let [a, v, y] = [sketch.input(), sketch.value(), sketch.value()];
        let name = sketch
            .method
            .tensor(Tensor::new(ScalarType::Float, &[2, 2]));
        let size = sketch.method.int_list(&[2, 2]);
        sketch.call("cuda:0", &[a, v]);
        sketch
            .method
            .kernel("executorch_prim::et_view.default", &[v, size, name]);
        sketch.method.kernel("aten::relu_", &[name, name]);
        sketch.call("cuda:0", &[v, a, y]);
        sketch.outputs(&[y]);
        let mut method = sketch.finish();
        let options = MethodOptions {
            reuse_uploads,
            ..MethodOptions::default()
        };
        let report = propagate_method(&mut method, &options).unwrap();
        assert_eq!(report.elided, 0, "{}", instructions(&method));
        assert_eq!(report.h2d.count, if reuse_uploads { 2 } else { 3 });
    }
}

#[test]
fn a_opt_03_a_copy_in_one_branch_does_not_serve_the_other() {
    let mut sketch = Sketch::new();
    let flag = Tensor::new(ScalarType::Bool, &[]).planned(1, 512);
    let p = sketch.method.input(flag);
    let [a, s, y] = [sketch.input(), sketch.value(), sketch.value()];
    sketch.method.jump_false(p, 2);
    sketch.call("cuda:0", &[a, s]);
    sketch.call("cuda:0", &[a, y]);
    sketch.outputs(&[s, y]);
    let report = reused(sketch.finish(), "j0>4 h1>6 D0[6,4] d4>2 h1>7 D1[7,5] d5>3");
    assert_eq!(report.reused, 0);
}

/// A loop around a call that takes `a` and `s`, whose result becomes the next `s`.
fn round_and_round(change: Option<&str>) -> ExecutionPlan {
    let mut sketch = Sketch::new();
    let flag = Tensor::new(ScalarType::Bool, &[]).planned(1, 512);
    let [a, first] = [sketch.input(), sketch.input()];
    let [s, t] = [sketch.value(), sketch.value()];
    let done = sketch.method.tensor(flag);
    sketch.relu(first, s);
    sketch.call("cuda:0", &[a, s, t]);
    sketch.relu(t, s);
    if let Some(operator) = change {
        sketch.method.kernel(operator, &[a, a]);
    }
    sketch.method.kernel("my::check.out", &[s, done, done]);
    sketch.method.jump_false(done, 1);
    sketch.outputs(&[s]);
    sketch.finish()
}

#[test]
fn a_ins_19_a_copy_of_what_a_loop_leaves_alone_runs_once() {
    let report = reused(
        round_and_round(None),
        "relu[1,2,2] h0>6 h2>7 D0[6,7,5] d5>3 relu[3,2,2] my::check[2,4,4] j4>2",
    );
    assert_eq!((report.hoisted, report.h2d.count), (1, 2));
    assert_eq!(report.origins, [0, 1, 1, 1, 1, 2, 3, 4]);
}

#[test]
fn a_ins_19_a_copy_of_what_a_loop_changes_stays_in_it() {
    let report = reused(
        round_and_round(Some("aten::relu_")),
        "relu[1,2,2] h0>6 h2>7 D0[6,7,5] d5>3 relu[3,2,2] relu_[0,0] my::check[2,4,4] j4>1",
    );
    assert_eq!(report.hoisted, 0);
}

#[test]
fn a_ins_19_a_jump_to_the_loop_comes_by_what_runs_before_it() {
    let mut sketch = Sketch::new();
    let flag = || Tensor::new(ScalarType::Bool, &[]);
    let p = sketch.method.input(flag().planned(1, 512));
    let [a, s, t] = [sketch.input(), sketch.value(), sketch.value()];
    let done = sketch.method.tensor(flag().planned(1, 528));
    sketch.method.jump_false(p, 2);
    sketch.relu(a, s);
    sketch.call("cuda:0", &[a, t]);
    sketch.method.kernel("my::check.out", &[t, done, done]);
    sketch.method.jump_false(done, 2);
    sketch.outputs(&[t]);
    reused(
        sketch.finish(),
        "j0>2 relu[1,2,2] h1>6 D0[6,5] d5>3 my::check[3,4,4] j4>3",
    );
}

#[test]
fn a_ins_19_loops_that_are_entered_in_the_middle_are_left_alone() {
    let mut sketch = Sketch::new();
    let flag = || Tensor::new(ScalarType::Bool, &[]);
    let p = sketch.method.input(flag().planned(1, 512));
    let [a, s, t] = [sketch.input(), sketch.value(), sketch.value()];
    let done = sketch.method.tensor(flag().planned(1, 528));
    sketch.method.jump_false(p, 2);
    sketch.relu(a, s);
    sketch.call("cuda:0", &[a, t]);
    sketch.method.kernel("my::check.out", &[t, done, done]);
    sketch.method.jump_false(done, 1);
    sketch.outputs(&[t]);
    let report = reused(
        sketch.finish(),
        "j0>2 relu[1,2,2] h1>6 D0[6,5] d5>3 my::check[3,4,4] j4>1",
    );
    assert_eq!(report.hoisted, 0);
}
