//! Methods in a few lines, and what must be found out about them.

mod clobbers;
mod hostile;
mod roles;

use et_schema::builder::MethodBuilder;
use et_schema::owned::{BackendDelegateDataReference, ExecutionPlan, Program, Tensor, Value};
use et_schema::{ScalarType, VerifiedProgram};

use super::*;

/// A 16-byte tensor in buffer 1.
fn at(offset: u64) -> Tensor {
    anywhere().planned(1, offset)
}

fn anywhere() -> Tensor {
    Tensor::new(ScalarType::Float, &[4])
}

fn method() -> MethodBuilder {
    let mut method = MethodBuilder::new("forward");
    method.buffer(1024);
    method
}

fn unary(method: &mut MethodBuilder, input: i32, output: i32) {
    method.kernel("aten::relu.out", &[input, output, output]);
}

fn binary(method: &mut MethodBuilder, inputs: [i32; 2], output: i32) {
    method.kernel("aten::mul.out", &[inputs[0], inputs[1], output, output]);
}

fn plan(method: MethodBuilder) -> ExecutionPlan {
    method.finish()
}

fn delegate(method: &mut MethodBuilder) -> i32 {
    method.delegate("Backend", BackendDelegateDataReference::default(), &[])
}

fn index(value: i32) -> ValueIndex {
    ValueIndex::new(usize::try_from(value).unwrap())
}

fn analyse(plan: &ExecutionPlan) -> Analysis<'_> {
    Analysis::new(plan, &Hints::default()).unwrap()
}

#[track_caller]
fn clobbers(plan: &ExecutionPlan, expected: &[(i32, i32, usize)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|&(first, second, instruction)| Finding::Clobber {
            first: index(first),
            second: index(second),
            instruction,
        })
        .collect();
    assert_eq!(analyse(plan).audit().unwrap().findings, expected);
}

/// Two branches that each leave a value by a move; `places` of the four values that are left.
fn two_conditions(places: [u64; 4]) -> (ExecutionPlan, [i32; 4]) {
    let mut method = method();
    let x = method.input(at(0));
    let [p, q] =
        [16, 32].map(|offset| method.input(Tensor::new(ScalarType::Bool, &[]).planned(1, offset)));
    let [a, b] = [48, 64].map(|offset| method.tensor(at(offset)));
    let left = places.map(|offset| method.tensor(at(offset)));
    let never = method.bool(false);
    let y = method.output(at(80));
    method.mark_output(a);
    for (condition, result, branch) in [(p, a, 0), (q, b, 2)] {
        let start = if branch == 0 { 0 } else { 6 };
        method.jump_false(condition, start + 4);
        unary(&mut method, x, left[branch]);
        method.move_value(left[branch], result);
        method.jump_false(never, start + 6);
        unary(&mut method, x, left[branch + 1]);
        method.move_value(left[branch + 1], result);
    }
    binary(&mut method, [a, b], y);
    (plan(method), left)
}
