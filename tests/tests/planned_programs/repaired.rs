//! Programs as the reference's exporter plans them wrongly: they give wrong numbers, and the right ones once repaired.

use super::*;
use et_schema::ScalarType;
use et_schema::builder::MethodBuilder;
use et_schema::owned::Tensor as FileTensor;

fn numbers(offset: u64) -> FileTensor {
    FileTensor::new(ScalarType::Float, &[2]).planned(1, offset)
}

/// `a = p ? x + 1 : x + 2; b = q ? x * 10 : x * 20; (a - b, a)`, the results of all branches at `places`.
fn two_conditions(places: [u64; 4]) -> ProgramBuilder {
    let mut program = ProgramBuilder::new();
    let number = |value: f32| value.to_le_bytes();
    let constants = [1.0, 2.0, 10.0, 20.0].map(|value| program.constant(&number(value)));
    let mut method = MethodBuilder::new("forward");
    method.buffer(256);
    let constants = constants.map(|data| {
        let tensor = FileTensor::new(ScalarType::Float, &[]).with_data(data);
        method.tensor(tensor)
    });
    let flag = |offset| FileTensor::new(ScalarType::Bool, &[]).planned(1, offset);
    let [p, q] = [0, 16].map(|offset| method.input(flag(offset)));
    let x = method.input(numbers(32));
    let [a, b] = [48, 64].map(|offset| method.tensor(numbers(offset)));
    let left = places.map(|offset| method.tensor(numbers(offset)));
    let difference = method.tensor(numbers(80));
    let (never, one) = (method.bool(false), method.int(1));
    for (condition, result, first) in [(p, a, 0), (q, b, 2)] {
        let start = i32::try_from(method.plan_mut().chains[0].instructions.len()).unwrap();
        let compute = |method: &mut MethodBuilder, branch: usize| {
            let (constant, out) = (constants[branch], left[branch]);
            match first {
                0 => method.kernel("aten::add.out", &[x, constant, one, out, out]),
                _ => method.kernel("aten::mul.out", &[x, constant, out, out]),
            };
            method.move_value(out, result);
        };
        method.jump_false(condition, start + 4);
        compute(&mut method, first);
        method.jump_false(never, start + 6);
        compute(&mut method, first + 1);
    }
    method.kernel("aten::sub.out", &[a, b, one, difference, difference]);
    method.mark_output(difference);
    method.mark_output(a);
    program.method(method);
    program
}

/// `c = x + x; c.copy_(x) ; z = -x; c + z`, the result in place under a second name whose use is forgotten: `z` lies on
/// both.
fn forgotten_use(place: u64) -> ProgramBuilder {
    let mut method = MethodBuilder::new("forward");
    method.buffer(256);
    let flag = |offset| FileTensor::new(ScalarType::Bool, &[]).planned(1, offset);
    let _flags = [0, 16].map(|offset| method.input(flag(offset)));
    let x = method.input(numbers(32));
    let [c, second_name] = [48, 48].map(|offset| method.tensor(numbers(offset)));
    let [z, y] = [place, 80].map(|offset| method.tensor(numbers(offset)));
    let (never, one) = (method.bool(false), method.int(1));
    method.kernel("aten::add.out", &[x, x, one, c, c]);
    method.kernel("aten::copy_", &[c, x, never, second_name]);
    method.kernel("aten::neg.out", &[x, z, z]);
    method.kernel("aten::sub.out", &[second_name, z, one, y, y]);
    method.mark_output(y);
    let mut program = ProgramBuilder::new();
    program.method(method);
    program
}

fn outputs(program: &ProgramBuilder, flags: [bool; 2]) -> Vec<Vec<f32>> {
    let simulation = Simulation::new();
    let program = Program::from_bytes(program.to_bytes().unwrap()).unwrap();
    let mut method = program
        .load_method("forward", &simulation.environment)
        .unwrap();
    for (index, flag) in flags.into_iter().enumerate() {
        let flag = Tensor::from_slice(&[Bool8::from(flag)], &[]).unwrap();
        method.set_input(index, &flag.into()).unwrap();
    }
    let x = Tensor::from_slice(&[3.0f32, -1.5], &[2]).unwrap();
    method.set_input(2, &x.into()).unwrap();
    method.execute().unwrap();
    let output = |index| {
        let value = method.output_to_host(index).unwrap();
        value
            .as_tensor()
            .unwrap()
            .as_slice::<f32>()
            .unwrap()
            .to_vec()
    };
    (0..method.num_outputs()).map(output).collect()
}

/// Wrong before, right after, and found by the audit only before.
#[track_caller]
fn check(mut program: ProgramBuilder, flags: [bool; 2], expected: &[[f32; 2]]) {
    let audit = |program: &mut ProgramBuilder| {
        let method = &program.program_mut().execution_plan[0];
        Analysis::new(method, &Hints::default())
            .unwrap()
            .audit()
            .unwrap()
            .findings
            .len()
    };
    assert_ne!(outputs(&program, flags), expected);
    assert!(audit(&mut program) > 0);
    let mut options = CompactOptions::default();
    options.repair = true;
    let method = &mut program.program_mut().execution_plan[0];
    compact_method(method, &SharedBuffers::none(), &options).unwrap();
    assert_eq!(audit(&mut program), 0);
    assert_eq!(outputs(&program, flags), expected);
}

#[test]
fn limit_01_results_of_two_conditions_are_right_after_a_repair() {
    for (flags, expected) in [
        ([true, true], [[4.0 - 30.0, -0.5 + 15.0], [4.0, -0.5]]),
        ([true, false], [[4.0 - 60.0, -0.5 + 30.0], [4.0, -0.5]]),
        ([false, true], [[5.0 - 30.0, 0.5 + 15.0], [5.0, 0.5]]),
        ([false, false], [[5.0 - 60.0, 0.5 + 30.0], [5.0, 0.5]]),
    ] {
        check(two_conditions([96; 4]), flags, &expected);
        assert_eq!(
            outputs(&two_conditions([96, 112, 128, 144]), flags),
            expected
        );
    }
}

#[test]
fn limit_02_a_result_in_place_is_right_after_a_repair() {
    check(forgotten_use(48), [false; 2], &[[6.0, -3.0]]);
    assert_eq!(outputs(&forgotten_use(96), [false; 2]), [[6.0, -3.0]]);
}
