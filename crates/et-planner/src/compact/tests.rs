//! Methods planned anew.

use et_schema::builder::MethodBuilder;
use et_schema::owned::{Tensor, Value};
use et_schema::{ScalarType, VerifiedProgram};

use super::*;

mod in_place;
mod order;

/// A 16-byte tensor in buffer 1.
fn at(offset: u64) -> Tensor {
    Tensor::new(ScalarType::Float, &[4]).planned(1, offset)
}

fn method(nbytes: i64) -> MethodBuilder {
    let mut method = MethodBuilder::new("forward");
    method.buffer(nbytes);
    method
}

fn unary(method: &mut MethodBuilder, input: i32, output: i32) {
    method.kernel("aten::relu.out", &[input, output, output]);
}

fn with(algorithm: Algorithm) -> CompactOptions {
    CompactOptions {
        algorithm,
        ..CompactOptions::default()
    }
}

fn run_all(
    method: &mut ExecutionPlan,
    options: &CompactOptions,
) -> Result<CompactReport, CompactError> {
    compact_method(method, &SharedBuffers::none(), options)
}

fn run(
    method: &mut ExecutionPlan,
    options: &CompactOptions,
) -> Result<Vec<BufferReport>, CompactError> {
    Ok(run_all(method, options)?.buffers)
}

fn offsets(method: &ExecutionPlan) -> Vec<u64> {
    let tensors = method.values.iter().filter_map(Value::as_tensor);
    tensors
        .filter_map(|tensor| Some(tensor.allocation_info?.memory_offset))
        .collect()
}

/// Four values in a row, none sharing bytes, in a buffer with 64 bytes of slack.
fn chain() -> ExecutionPlan {
    let mut method = method(128);
    let x = method.input(at(0));
    let [a, b] = [16, 32].map(|offset| method.tensor(at(offset)));
    let y = method.output(at(48));
    unary(&mut method, x, a);
    unary(&mut method, a, b);
    unary(&mut method, b, y);
    method.finish()
}

#[test]
fn a_chain_shrinks_to_two_values_and_keeps_its_slack() {
    for algorithm in [Algorithm::Greedy, Algorithm::Optimal] {
        let mut method = chain();
        let report = run(&mut method, &with(algorithm)).unwrap().remove(0);
        assert_eq!((report.nbytes_before, report.nbytes_after), (128, 96));
        assert!(report.is_proved() && !report.kept);
        assert_eq!(method.non_const_buffer_sizes, [0, 96]);
        assert!(
            offsets(&method)
                .iter()
                .all(|offset| [0, 16].contains(offset))
        );
    }
}

#[test]
fn plans_that_would_not_be_smaller_are_kept() {
    let mut method = chain();
    let report = run(&mut method, &with(Algorithm::Naive)).unwrap().remove(0);
    assert!(report.kept && !report.is_proved());
    assert_eq!((method, report.lower_bound), (chain(), 96));
}

#[test]
fn frozen_buffers_stay_as_they_are() {
    let mut method = chain();
    let options = CompactOptions {
        frozen: [1].into(),
        ..CompactOptions::default()
    };
    assert!(run(&mut method, &options).unwrap()[0].kept);
    assert_eq!(method, chain());
}

#[test]
fn inputs_can_be_preserved() {
    let mut method = chain();
    let options = CompactOptions {
        preserve_inputs: true,
        ..CompactOptions::default()
    };
    assert_eq!(run(&mut method, &options).unwrap()[0].nbytes_after, 112);
    assert!(
        offsets(&method)[1..]
            .iter()
            .all(|offset| *offset != offsets(&method)[0])
    );
}

#[test]
fn an_alignment_can_be_asked_for() {
    let mut method = chain();
    let options = CompactOptions {
        alignment: Some(Alignment::new(32).unwrap()),
        ..CompactOptions::default()
    };
    // The second of two values needs only half of its granule.
    assert_eq!(run(&mut method, &options).unwrap()[0].nbytes_after, 48 + 64);
    assert!(
        offsets(&method)
            .iter()
            .all(|offset| [0, 32].contains(offset))
    );
}

#[test]
fn views_move_with_what_they_show() {
    let mut method = method(112);
    let x = method.input(at(0));
    let base = method.tensor(at(96));
    let view = method.tensor(Tensor {
        sizes: vec![2, 2],
        dim_order: vec![0, 1],
        ..at(96)
    });
    let y = method.output(at(32));
    unary(&mut method, x, base);
    unary(&mut method, view, y);
    let mut method = method.finish();
    assert_eq!(
        run(&mut method, &CompactOptions::default()).unwrap()[0].nbytes_after,
        48
    );
    let offsets = offsets(&method);
    assert_eq!(offsets[1], offsets[2]);
    assert_ne!(offsets[2], offsets[3]);
}

/// State at 64, and two values that could do with 32 bytes.
fn stateful() -> ExecutionPlan {
    let mut method = method(128);
    let state = method.tensor(at(64));
    let x = method.input(at(0));
    let a = method.tensor(at(96));
    let y = method.output(at(32));
    let none = method.none();
    method.kernel("aten::mul.out", &[x, state, a, a]);
    method.kernel("aten::copy_", &[state, a, none, state]);
    unary(&mut method, a, y);
    method.finish()
}

#[test]
fn hazard_07_state_stays_where_it_is() {
    let mut method = stateful();
    let report = run(&mut method, &CompactOptions::default())
        .unwrap()
        .remove(0);
    assert_eq!((report.nbytes_after, offsets(&method)[0]), (96, 64));
    let refused = run(&mut stateful(), &with(Algorithm::Greedy)).unwrap_err();
    assert!(matches!(refused, CompactError::Pinned { memory_id: 1, .. }));
}

/// Two values in one place, both needed by the last instruction.
fn corrupt() -> ExecutionPlan {
    let mut method = method(64);
    let x = method.input(at(0));
    let [a, b] = [16, 16].map(|offset| method.tensor(at(offset)));
    let y = method.output(at(32));
    unary(&mut method, x, a);
    unary(&mut method, x, b);
    method.kernel("aten::mul.out", &[a, b, y, y]);
    method.finish()
}

#[test]
fn hazard_04_corrupt_plans_are_refused_or_repaired() {
    let mut method = corrupt();
    let refused = run(&mut method, &CompactOptions::default()).unwrap_err();
    assert!(matches!(&refused, CompactError::Corrupt(findings) if findings.len() == 1));
    assert_eq!(method, corrupt());
    let options = CompactOptions {
        repair: true,
        ..CompactOptions::default()
    };
    let report = run(&mut method, &options).unwrap().remove(0);
    assert!(!report.kept && report.is_proved());
    let hints = Hints::default();
    assert_eq!(
        Analysis::new(&method, &hints)
            .unwrap()
            .audit()
            .unwrap()
            .findings,
        []
    );
}

#[test]
fn hazard_08_state_of_several_methods_is_found() {
    let with_state = |name: &str, state: Tensor| {
        let mut method = MethodBuilder::new(name);
        method.buffer(64);
        method.buffer(64);
        method.device_buffer(64, 1, 0);
        method.tensor(at(0));
        method.tensor(state);
        method.tensor(at(0).planned(3, 0).on_device(1, 0));
        method.finish()
    };
    let shared = |one: Tensor, other: Tensor| {
        let methods = vec![with_state("one", one), with_state("other", other)];
        let shared = SharedBuffers::of(&Program {
            execution_plan: methods,
            ..Program::default()
        });
        shared.iter().collect::<Vec<_>>()
    };
    let state = |memory_id, offset| at(0).planned(memory_id, offset);
    assert_eq!(shared(state(2, 0), state(2, 0)), [2]);
    assert_eq!(shared(state(2, 0), state(2, 16)), []);
    assert_eq!(
        shared(state(1, 16).named("cache"), state(2, 32).named("cache")),
        [1, 2]
    );
}

/// A chain beside state that another method has too, in a buffer for such.
fn with_state(name: &str) -> ExecutionPlan {
    let mut method = MethodBuilder::new(name);
    method.buffer(128);
    method.buffer(128);
    let x = method.input(at(0));
    let state = method.tensor(at(0).planned(2, 0).named("cache"));
    let between = method.tensor(at(0).planned(2, 80));
    let y = method.output(at(64));
    method.kernel("aten::mul.out", &[x, state, between, between]);
    unary(&mut method, between, y);
    method.finish()
}

#[test]
fn programs_keep_what_their_methods_share() {
    let methods = ["one", "other"].map(with_state);
    let mut program = Program {
        execution_plan: methods.to_vec(),
        ..Program::default()
    };
    let reports = compact_program(&mut program, &CompactOptions::default()).unwrap();
    for (report, method) in reports.iter().zip(&program.execution_plan) {
        assert!(report.buffers[1].kept && !report.buffers[0].kept);
        assert_eq!(method.non_const_buffer_sizes[2], 128);
        assert_eq!(offsets(method)[1..3], [0, 80]);
    }
    // Alone in a program the same method needs less.
    program.execution_plan.truncate(1);
    program.execution_plan[0] = with_state("one");
    let report = compact_program(&mut program, &CompactOptions::default()).unwrap();
    assert!(!report[0].buffers[1].kept);
}

#[test]
fn a_program_stays_as_it_is_where_one_method_cannot_be_planned() {
    let mut bad = chain();
    bad.chains.clear();
    bad.name = "bad".into();
    let mut program = Program {
        execution_plan: vec![chain(), bad],
        ..Program::default()
    };
    let before = program.clone();
    let error = compact_program(&mut program, &CompactOptions::default()).unwrap_err();
    assert_eq!(error.method, "bad");
    assert_eq!(program, before);
}

/// Two values that are needed together, at one place.
fn clobbered() -> ExecutionPlan {
    let mut method = method(64);
    let x = method.input(at(0));
    let [a, b] = [16, 16].map(|offset| method.tensor(at(offset)));
    let y = method.output(at(32));
    unary(&mut method, x, a);
    unary(&mut method, x, b);
    method.kernel("aten::mul.out", &[a, b, y, y]);
    method.finish()
}

#[test]
fn what_must_stay_cannot_be_repaired() {
    let options = CompactOptions {
        repair: true,
        ..CompactOptions::default()
    };
    assert!(run(&mut clobbered(), &options).is_ok());
    let frozen = CompactOptions {
        frozen: [1].into(),
        ..options
    };
    let error = run(&mut clobbered(), &frozen).unwrap_err();
    assert!(
        matches!(error, CompactError::CannotRepair { memory_id: 1, .. }),
        "{error}"
    );
    assert!(!error.is_fault());
}

/// Each result covers a part of what the next instruction shows, so that it is unknown which one that is meant to be.
#[test]
fn views_that_only_corrupt_places_make_are_beyond_repair() {
    let mut method = method(4096);
    let x = method.input(at(0));
    let mut tensors = |from: u64| -> Vec<i32> {
        let places = (0..200).map(|step| from + 8 * step);
        places.map(|offset| method.tensor(at(offset))).collect()
    };
    let (results, views) = (tensors(16), tensors(20));
    for (result, view) in results.into_iter().zip(views) {
        method.kernel("aten::mul.out", &[x, view, result, result]);
    }
    let mut method = method.finish();
    let before = method.clone();
    let options = CompactOptions {
        repair: true,
        ..CompactOptions::default()
    };
    let error = run(&mut method, &options).unwrap_err();
    assert!(matches!(error, CompactError::BeyondRepair(_)), "{error}");
    assert!(!error.is_fault());
    assert_eq!(method, before);
}

/// State of other methods, which this one never names, lies on itself.
#[test]
fn places_that_collide_in_a_buffer_that_stays_are_no_reason_to_refuse_others() {
    let mut method = method(128);
    method.buffer(64);
    for offset in [0, 8] {
        method.tensor(at(0).planned(2, offset));
    }
    let x = method.input(at(0));
    let [a, b] = [16, 32].map(|offset| method.tensor(at(offset)));
    let y = method.output(at(48));
    for pair in [x, a, b, y].windows(2) {
        unary(&mut method, pair[0], pair[1]);
    }
    let method = method.finish();
    let refused = run(&mut method.clone(), &CompactOptions::default());
    assert!(matches!(
        refused,
        Err(CompactError::Instance { memory_id: 2, .. })
    ));
    for reorder in [false, true] {
        let options = CompactOptions {
            frozen: [2].into(),
            reorder,
            ..CompactOptions::default()
        };
        let reports = run(&mut method.clone(), &options).unwrap();
        assert!(reports[0].nbytes_after < 128 && reports[1].kept);
    }
}

#[test]
fn errors_without_a_finding_print() {
    let text = CompactError::Corrupt(Vec::new()).to_string();
    assert_eq!(text, "0 pairs of live values share bytes in this plan");
}

#[test]
fn real_programs_never_grow_and_a_second_time_changes_nothing() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
    let mut seen = 0;
    for folder in std::fs::read_dir(fixtures).unwrap() {
        let Ok(bytes) = std::fs::read(folder.unwrap().path().join("model.pte")) else {
            continue;
        };
        let program = VerifiedProgram::from_file_bytes(&bytes).unwrap();
        for mut method in Program::from_verified(&program).unwrap().execution_plan {
            let reports = run(&mut method, &CompactOptions::default()).unwrap();
            assert!(
                reports
                    .iter()
                    .all(|report| report.nbytes_after <= report.nbytes_before)
            );
            let first = method.clone();
            let reports = run(&mut method, &CompactOptions::default()).unwrap();
            assert!(reports.iter().all(|report| report.kept), "{reports:?}");
            assert_eq!(method, first);
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen} methods");
}

/// A loop whose inputs and outputs are the caller's: only the body has memory, 16 bytes at `row`.
fn loop_with_callers_memory(row: u64) -> ExecutionPlan {
    let mut method = method(256);
    let free = || Tensor::new(ScalarType::Float, &[4]);
    let x = method.input(free());
    let [slice, row] = [at(row), at(row + 64)].map(|tensor| method.tensor(tensor));
    let table = method.output(Tensor::new(ScalarType::Float, &[3, 4]));
    let [count, step] = [0, 1].map(|int| method.int(int));
    let done = method.bool(false);
    unary(&mut method, x, slice);
    unary(&mut method, slice, row);
    method.kernel(
        "executorch_prim::et_copy_index.tensor",
        &[table, row, count],
    );
    method.kernel("executorch_prim::add.Scalar", &[count, step, count]);
    method.kernel("executorch_prim::eq.Scalar", &[count, step, done]);
    method.jump_false(done, 0);
    method.finish()
}

/// The reference loses the memory of a body whose method has no other (limit 04).
#[test]
fn limit_04_the_memory_of_loop_bodies_is_counted() {
    for algorithm in [Algorithm::Naive, Algorithm::Greedy, Algorithm::Optimal] {
        let mut method = loop_with_callers_memory(32);
        let report = run(&mut method, &with(algorithm)).unwrap().remove(0);
        assert!(report.nbytes_after >= 32, "{report:?}");
        let hints = Hints::default();
        assert_eq!(
            Analysis::new(&method, &hints)
                .unwrap()
                .audit()
                .unwrap()
                .findings,
            []
        );
    }
}

/// The reference plans a body above everything else and fits first only (limit 24).
#[test]
fn limit_24_bodies_of_loops_shrink_like_everything_else() {
    let mut method = loop_with_callers_memory(32);
    let report = run(&mut method, &CompactOptions::default())
        .unwrap()
        .remove(0);
    assert_eq!(report.nbytes_before - report.nbytes_after, 112 - 48);
    assert!(report.is_proved());
}

/// What the reference plans is never looked at again (limit 19); here a plan that is wrong is never handed out.
#[test]
fn limit_19_no_plan_goes_unchecked() {
    let mut method = corrupt();
    assert!(run(&mut method, &CompactOptions::default()).is_err());
    let mut repaired = corrupt();
    let options = CompactOptions {
        repair: true,
        ..CompactOptions::default()
    };
    run(&mut repaired, &options).unwrap();
    assert!(run(&mut repaired, &CompactOptions::default()).is_ok());
}
