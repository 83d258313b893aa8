//! Values overwritten while they are needed.

use super::*;

#[test]
fn an_overwritten_value_is_reported_where_it_is_overwritten() {
    let mut method = method();
    let x = method.input(at(0));
    let [a, b] = [16, 24].map(|offset| method.tensor(at(offset)));
    let y = method.output(at(48));
    unary(&mut method, x, a);
    unary(&mut method, x, b);
    binary(&mut method, [a, b], y);
    clobbers(&plan(method), &[(a, b, 1)]);
}

#[test]
fn a_result_over_an_input_that_dies_there_is_in_place() {
    let mut method = method();
    let x = method.input(at(0));
    let y = method.output(at(0));
    unary(&mut method, x, y);
    clobbers(&plan(method), &[]);
}

#[test]
fn a_result_over_an_input_that_is_needed_later_is_not() {
    let mut method = method();
    let x = method.input(at(0));
    let a = method.tensor(at(0));
    let y = method.output(at(16));
    unary(&mut method, x, a);
    binary(&mut method, [x, a], y);
    clobbers(&plan(method), &[(x, a, 0)]);
}

/// The reference's exporter forgets uses of a result that it put in place (limit 02): another value takes the place
/// of the original while the result is still to be read.
#[test]
fn limit_02_forgotten_uses_of_an_in_place_result_are_found() {
    let mut method = method();
    let [a, b] = [0, 16].map(|offset| method.input(at(offset)));
    let c = method.tensor(at(32));
    let z = method.tensor(at(32));
    let y = method.output(at(48));
    binary(&mut method, [a, b], c);
    method.kernel("aten::relu_", &[c, c]);
    unary(&mut method, a, z);
    binary(&mut method, [c, z], y);
    clobbers(&plan(method), &[(c, z, 2)]);
}

/// The reference plans all branches from one offset on (limit 01), although what they leave is needed later.
#[test]
fn limit_01_results_of_two_branches_that_clobber_are_found() {
    let (plan, [a, b, c, d]) = two_conditions([96, 112, 96, 112]);
    clobbers(&plan, &[(a, c, 7), (b, d, 10)]);
}

#[test]
fn plans_of_real_programs_keep_every_value() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
    let mut seen = 0;
    for folder in std::fs::read_dir(fixtures).unwrap() {
        let Ok(bytes) = std::fs::read(folder.unwrap().path().join("model.pte")) else {
            continue;
        };
        let program = VerifiedProgram::from_file_bytes(&bytes).unwrap();
        for method in &Program::from_verified(&program).unwrap().execution_plan {
            let findings = analyse(method).audit().unwrap().findings;
            let clobber = findings
                .iter()
                .find(|finding| matches!(finding, Finding::Clobber { .. }));
            assert_eq!(clobber, None, "{}", method.name);
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen} methods");
}

/// `base` is overwritten in place by `other`, which the reference forgets when it places what comes in between: all
/// three at offset 0 (limit 22).
#[test]
fn golden_gi1_the_plan_of_the_reference_is_found_wrong() {
    for (place, expected) in [(0, true), (160, false)] {
        let mut method = method();
        let tensor = |offset| Tensor::new(ScalarType::Float, &[40]).planned(1, offset);
        let x = method.input(tensor(320));
        let base = method.tensor(tensor(0));
        let between = method.tensor(tensor(place));
        let second_name = method.tensor(tensor(0));
        let [y, z] = [480, 640].map(|offset| method.output(tensor(offset)));
        unary(&mut method, x, base);
        method.kernel("aten::add_", &[base, x, second_name]);
        unary(&mut method, x, between);
        unary(&mut method, between, z);
        unary(&mut method, second_name, y);
        let plan = plan(method);
        let clobbers = analyse(&plan)
            .audit()
            .unwrap()
            .findings
            .into_iter()
            .filter(|finding| matches!(finding, Finding::Clobber { .. }));
        assert_eq!(clobbers.count() > 0, expected);
    }
}

/// A result that nobody reads leaves its place to a delegate's output of the same shape, which is no view of it, or
/// may not be.
#[test]
fn an_output_at_the_place_of_what_was_made_in_vain_is_written() {
    for changed_later in [false, true] {
        let mut method = method();
        let x = method.input(at(0));
        let [vain, out, y] = [16, 16, 32].map(|offset| method.tensor(at(offset)));
        method.mark_output(y);
        method.mark_output(out);
        let none = method.none();
        let delegate = delegate(&mut method);
        unary(&mut method, x, vain);
        method.delegate_call(delegate, &[x, out, y]);
        if changed_later {
            method.kernel("aten::copy_", &[out, x, none, out]);
        }
        let plan = plan(method);
        let analysis = analyse(&plan);
        let changes: Vec<usize> = analysis.steps()[1].changes().map(ValueIndex::get).collect();
        assert!(changes.contains(&index(out).get()));
        assert_eq!(analysis.steps()[1].either.is_empty(), changed_later);
        clobbers(&plan, &[]);
    }
}

/// A file of a few megabytes names so many that a bit for each pair would be gigabytes.
#[test]
fn methods_out_of_all_proportion_are_refused() {
    let mut forward = MethodBuilder::new("forward");
    for number in 0..50_000 {
        forward.int(number);
    }
    for _ in 0..50_000 {
        forward.kernel("executorch_prim::add.Scalar", &[0, 1, 2]);
    }
    let plan = forward.finish();
    let refused = Analysis::new(&plan, &Hints::default()).map(drop);
    assert!(matches!(refused, Err(AnalysisError::TooLarge { .. })));
}
