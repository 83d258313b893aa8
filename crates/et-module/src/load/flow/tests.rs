//! What may be taken for a result and nothing else, on programs made for it. No operator is run.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::Tensor;
use et_schema::{ScalarType, VerifiedProgram};

use super::Flow;

fn tensor() -> Tensor {
    Tensor::new(ScalarType::Float, &[4])
}

/// A method of two or three instructions on pieces of 16 bytes.
struct Bench {
    forward: MethodBuilder,
    memory: u32,
}

impl Bench {
    fn new() -> Self {
        let mut forward = MethodBuilder::new("forward");
        let memory = forward.buffer(160);
        Self { forward, memory }
    }

    fn at(&self, offset: u64) -> Tensor {
        tensor().planned(self.memory, offset)
    }

    fn unary(&mut self, input: i32, out: i32) {
        self.forward.kernel("aten::relu.out", &[input, out, out]);
    }

    fn flow(self) -> Flow {
        let mut program = ProgramBuilder::new();
        program.method(self.forward);
        let file = program.to_bytes().unwrap();
        let program = VerifiedProgram::from_file_bytes(&file).unwrap();
        let plan = program.root().plan("forward").unwrap();
        // `acme::any` may write all that it is given.
        let writes_last = |op: u32| {
            plan.operators()
                .nth(op as usize)
                .is_some_and(|it| it.name != "acme::any")
        };
        let chains: Vec<Vec<_>> = plan
            .chains()
            .map(|it| it.instructions().collect())
            .collect();
        Flow::new(&plan, &chains, writes_last)
    }
}

/// `a = relu(input)` at 16, `output = relu(a)`, and then whatever `more` adds.
#[track_caller]
fn check(more: impl FnOnce(&mut Bench, i32), result: bool, follower: bool) {
    let mut bench = Bench::new();
    let input = bench.at(0);
    let input = bench.forward.input(input);
    let a = bench.at(16);
    let a = bench.forward.tensor(a);
    let output = bench.at(32);
    let output = bench.forward.output(output);
    bench.unary(input, a);
    bench.unary(a, output);
    more(&mut bench, a);
    let flow = bench.flow();
    assert_eq!(flow.result(0), result.then_some(a as u32));
    assert_eq!(flow.follower(0), follower.then_some(1));
    // Outputs are the caller's.
    assert_eq!(flow.result(1), None);
}

#[test]
fn a_value_that_one_instruction_reads_is_a_result() {
    check(|_, _| {}, true, true);
}

#[test]
fn a_value_that_two_instructions_read_has_no_follower() {
    let twice = |bench: &mut Bench, a| {
        let b = bench.at(48);
        let b = bench.forward.tensor(b);
        bench.unary(a, b);
    };
    check(twice, true, false);
}

#[test]
fn a_value_that_is_written_twice_is_no_result() {
    check(|bench, a| bench.unary(a, a), false, false);
}

#[test]
fn bytes_that_are_read_under_another_name_are_no_result() {
    for offset in [16, 8, 20] {
        let other = |bench: &mut Bench, _| {
            let (view, b) = (bench.at(offset), bench.at(48));
            let (view, b) = (bench.forward.tensor(view), bench.forward.tensor(b));
            bench.unary(view, b);
        };
        check(other, false, false);
    }
}

#[test]
fn bytes_that_are_an_output_under_another_name_are_no_result() {
    let shown = |bench: &mut Bench, _| {
        let view = bench.at(16);
        bench.forward.output(view);
    };
    check(shown, false, false);
}

#[test]
fn bytes_that_are_written_again_before_they_are_read_are_still_a_result() {
    let reused = |bench: &mut Bench, _| {
        let (over, view, b) = (bench.at(16), bench.at(16), bench.at(48));
        let over = bench.forward.tensor(over);
        let (view, b) = (bench.forward.tensor(view), bench.forward.tensor(b));
        // The first value is the input.
        bench.unary(0, over);
        bench.unary(view, b);
    };
    check(reused, true, true);
}

#[test]
fn bytes_that_the_next_run_reads_are_no_result() {
    let mut bench = Bench::new();
    let (state, input, a) = (bench.at(16), bench.at(0), bench.at(16));
    let state = bench.forward.tensor(state);
    let input = bench.forward.input(input);
    let a = bench.forward.tensor(a);
    let (b, c) = (bench.at(32), bench.at(48));
    let b = bench.forward.tensor(b);
    let c = bench.forward.tensor(c);
    bench.unary(state, b);
    bench.unary(input, a);
    bench.unary(a, c);
    let flow = bench.flow();
    assert_eq!(flow.result(0), Some(b as u32));
    assert_eq!(flow.result(1), None);
}

#[test]
fn nothing_is_known_of_programs_with_jumps() {
    let jump = |bench: &mut Bench, _| {
        let condition = bench.forward.bool(true);
        bench.forward.jump_false(condition, 0);
    };
    check(jump, false, false);
}

#[test]
fn what_an_operator_may_write_besides_its_last_argument_is_no_result() {
    let written = |bench: &mut Bench, a| {
        let (b, c) = (bench.at(48), bench.at(64));
        let (b, c) = (bench.forward.tensor(b), bench.forward.tensor(c));
        bench.forward.kernel("acme::any", &[a, b, c]);
    };
    check(written, false, false);
}

/// Instructions that name one long list, or read what nobody writes: a few bytes of the file each, and the work is not that of each times
/// all others.
#[test]
fn small_files_that_say_much_are_given_up_early() {
    let many = 20_000;
    let mut bench = Bench::new();
    let (a, b) = (bench.at(0), bench.at(16));
    let (a, b) = (bench.forward.input(a), bench.forward.tensor(b));
    let list = bench.forward.tensor_list(&vec![a; many]);
    for _ in 0..many {
        bench.forward.kernel("aten::cat.out", &[list, b, b]);
    }
    assert_eq!(bench.flow().result(0), None);

    let mut bench = Bench::new();
    let (nobodys, out) = (bench.at(0), tensor());
    let (nobodys, out) = (bench.forward.tensor(nobodys), bench.forward.tensor(out));
    for _ in 0..many {
        bench.unary(nobodys, out);
    }
    assert_eq!(bench.flow().result(0), None);
}
