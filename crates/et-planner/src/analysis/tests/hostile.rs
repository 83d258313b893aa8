//! Methods that ask for work or memory out of all proportion to their length.

use super::*;

/// A delegate that gives `count` values, all at one place.
fn many_at_one_place(count: usize) -> ExecutionPlan {
    let mut method = method();
    let x = method.input(at(0));
    let mut args = vec![x];
    args.extend((0..count).map(|_| method.tensor(at(16))));
    let delegate = delegate(&mut method);
    method.delegate_call(delegate, &args);
    for &output in &args[1..] {
        method.mark_output(output);
    }
    plan(method)
}

#[test]
fn the_first_thousand_clobbers_are_listed() {
    for (count, listed, has_more) in [(4, 6, false), (45, 990, false), (46, 1000, true)] {
        let plan = many_at_one_place(count);
        let audit = analyse(&plan).audit().unwrap();
        assert_eq!(
            (audit.findings.len(), audit.has_more_clobbers),
            (listed, has_more)
        );
        assert_eq!(audit.clobbers().count(), listed);
    }
    let plan = many_at_one_place(30_000);
    let audit = analyse(&plan).audit().unwrap();
    assert_eq!(
        (audit.findings.len(), audit.has_more_clobbers),
        (1000, true)
    );
}

/// What pointers show is kept for each instruction that changes it.
#[test]
fn thousands_of_moves_to_thousands_of_targets_are_refused() {
    let moves = |count: i32| {
        let mut method = method();
        let x = method.input(at(0));
        let y = method.output(at(16));
        for _ in 0..count {
            let target = method.tensor(anywhere());
            method.move_value(x, target);
        }
        unary(&mut method, x, y);
        plan(method)
    };
    assert!(Analysis::new(&moves(500), &Hints::default()).is_ok());
    let refused = Analysis::new(&moves(5000), &Hints::default()).map(drop);
    assert!(
        matches!(refused, Err(AnalysisError::TooMuchWork { .. })),
        "{refused:?}"
    );
}

/// Each of many views may show each of many values.
#[test]
fn thousands_of_views_of_thousands_of_values_are_refused() {
    let views = |count: u64| {
        let mut method = method();
        let x = method.input(at(512));
        let y = method.output(at(528));
        let delegate = delegate(&mut method);
        let parts: Vec<i32> = (0..count)
            .map(|at| method.tensor(Tensor::new(ScalarType::Byte, &[1]).planned(1, at % 16)))
            .collect();
        let mut args = vec![x];
        args.extend(&parts);
        method.delegate_call(delegate, &args);
        let mut args: Vec<i32> = (0..count).map(|_| method.tensor(at(0))).collect();
        args.extend([y, y]);
        method.kernel("aten::cat.out", &args);
        plan(method)
    };
    let few = views(20);
    let analysis = Analysis::new(&few, &Hints::default()).unwrap();
    assert_eq!(analysis.bases(index(24)).len(), 20);
    let refused = Analysis::new(&views(5000), &Hints::default()).map(drop);
    assert!(
        matches!(refused, Err(AnalysisError::TooMuchWork { .. })),
        "{refused:?}"
    );
}

/// One list may stand for any number of arguments.
#[test]
fn long_lists_that_many_instructions_name_are_refused() {
    let mut method = method();
    let x = method.input(at(0));
    let list = method.tensor_list(&vec![x; 100_000]);
    let y = method.output(at(16));
    for _ in 0..10_000 {
        method.kernel("aten::cat.out", &[list, y, y]);
    }
    let plan = plan(method);
    let refused = Analysis::new(&plan, &Hints::default()).map(drop);
    assert!(
        matches!(refused, Err(AnalysisError::TooMuchWork { .. })),
        "{refused:?}"
    );
}

#[test]
fn tables_of_many_loops_are_found_once() {
    let mut method = method();
    let x = method.input(at(0));
    let never = method.bool(false);
    let index_of_row = method.int(0);
    let table = method.output(at(16));
    let count = 3000;
    for _ in 0..count {
        method.kernel(
            "executorch_prim::et_copy_index.tensor",
            &[table, x, index_of_row],
        );
    }
    for at in 0..count {
        method.jump_false(never, at);
    }
    let plan = plan(method);
    let analysis = analyse(&plan);
    assert!(!analysis.is_persistent(index(table)));
    assert_eq!(analysis.lifetimes()[index(table).get()].lower, 0);
}

/// Whether an argument was named before is looked up, for each argument of each call.
#[test]
fn delegates_with_many_arguments_and_calls_are_split() {
    let mut method = method();
    let x = method.input(at(0));
    let delegate = delegate(&mut method);
    for _ in 0..1000 {
        let mut args = vec![x; 100];
        args.extend((0..20).map(|_| method.tensor(anywhere())));
        method.delegate_call(delegate, &args);
    }
    let plan = plan(method);
    let analysis = analyse(&plan);
    assert!(
        analysis
            .steps()
            .iter()
            .all(|step| !step.reads.is_empty() && !step.writes.is_empty())
    );
}

#[test]
fn second_names_of_many_values_at_one_place_are_united() {
    let mut method = method();
    let x = method.input(at(0));
    let delegate = delegate(&mut method);
    let y = method.output(at(16));
    let mut args = vec![x; 2];
    args.extend((0..20_000).map(|_| method.tensor(at(32))));
    args.push(y);
    method.delegate_call(delegate, &args);
    let plan = plan(method);
    assert!(Analysis::new(&plan, &Hints::default()).is_ok());
}

#[test]
fn groups_of_long_chains_have_one_number() {
    let mut method = method();
    let mut tensors: Vec<i32> = (0..2000).map(|_| method.tensor(at(32))).collect();
    tensors.reverse();
    let x = method.input(at(0));
    for pair in tensors.windows(2) {
        method.kernel("aten::add_", &[pair[0], x, pair[1]]);
    }
    let plan = plan(method);
    let analysis = analyse(&plan);
    let mut groups = tensors.iter().map(|&value| analysis.group(index(value)));
    assert!(groups.all(|group| group == index(0)));
}
