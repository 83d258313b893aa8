//! Programs made of random statements. Every value has memory of its own, and nothing is on a device yet.

use std::collections::BTreeSet;

use et_schema::ScalarType;
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::{BackendDelegateDataReference, Instruction, Tensor};

/// How many inputs of numbers there are, behind two truth values.
pub(crate) const INPUTS: usize = 3;
/// Bytes from one value to the next.
const STEP: u64 = 32;

/// One thing to do, with numbers that pick what to do it with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement {
    pub(crate) kind: u8,
    pub(crate) picks: [u16; 3],
}

impl Statement {
    pub(crate) fn new(kind: u8, picks: [u16; 3]) -> Self {
        Self { kind, picks }
    }
}

/// The program of these statements.
pub(crate) fn build(statements: &[Statement]) -> ProgramBuilder {
    let mut program = ProgramBuilder::new();
    let blobs = [joined(), parted()].map(|blob| program.delegate_data(&blob));
    let mut maker = Maker::new(blobs);
    for statement in statements {
        maker.add(statement);
    }
    program.method(maker.finish());
    program
}

fn numbers() -> Tensor {
    Tensor::new(ScalarType::Float, &[2, 3])
}

/// A delegate that gives `max(a + b, 0)`.
fn joined() -> Vec<u8> {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(128);
    let [a, b, sum] = [0, 32, 64].map(|offset| forward.tensor(numbers().planned(memory, offset)));
    let out = forward.tensor(numbers().planned(memory, 96));
    let one = forward.int(1);
    forward.mark_input(a);
    forward.mark_input(b);
    forward.kernel("aten::add.out", &[a, b, one, sum, sum]);
    forward.kernel("aten::relu.out", &[sum, out, out]);
    forward.mark_output(out);
    whole(forward)
}

/// A delegate that gives `-a` and `sigmoid(a)`.
fn parted() -> Vec<u8> {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(96);
    let [a, out, other] =
        [0, 32, 64].map(|offset| forward.tensor(numbers().planned(memory, offset)));
    forward.mark_input(a);
    forward.kernel("aten::neg.out", &[a, out, out]);
    forward.kernel("aten::sigmoid.out", &[a, other, other]);
    forward.mark_output(out);
    forward.mark_output(other);
    whole(forward)
}

fn whole(forward: MethodBuilder) -> Vec<u8> {
    let mut program = ProgramBuilder::new();
    program.method(forward);
    program.to_bytes().unwrap()
}

struct Maker {
    method: MethodBuilder,
    next: u64,
    blobs: [BackendDelegateDataReference; 2],
    states: [i32; 2],
    flags: [i32; 2],
    never: i32,
    one: i32,
    dims: i32,
    /// Everything that can be read.
    values: Vec<i32>,
    /// What has its bytes where its place is: everything but results of branches, which only point to theirs.
    solid: Vec<i32>,
    /// What an operator or a delegate wrote, in memory of its own.
    made: Vec<i32>,
    /// (written, read as): exporters leave nothing in a program that nobody reads, and so do we.
    results: Vec<(i32, i32)>,
}

impl Maker {
    fn new(blobs: [BackendDelegateDataReference; 2]) -> Self {
        let mut method = MethodBuilder::new("forward");
        method.buffer(0);
        let mut maker = Self {
            method,
            next: 0,
            blobs,
            states: [0; 2],
            flags: [0; 2],
            never: 0,
            one: 0,
            dims: 0,
            values: Vec::new(),
            solid: Vec::new(),
            made: Vec::new(),
            results: Vec::new(),
        };
        maker.states = [maker.value(), maker.value()];
        maker.flags = [maker.flag(), maker.flag()];
        for _ in 0..INPUTS {
            let input = maker.value();
            maker.method.mark_input(input);
            maker.read(input);
        }
        maker.never = maker.method.bool(false);
        maker.one = maker.method.int(1);
        maker.dims = maker.method.int_list(&[0, 1]);
        maker
    }

    fn place(&mut self, tensor: Tensor) -> i32 {
        let offset = self.next;
        self.next += STEP;
        self.method.tensor(tensor.planned(1, offset))
    }

    fn value(&mut self) -> i32 {
        self.place(numbers())
    }

    fn flag(&mut self) -> i32 {
        let flag = self.place(Tensor::new(ScalarType::Bool, &[]));
        self.method.mark_input(flag);
        flag
    }

    /// A second value at the place of another, of three rows of two; or back again.
    fn view(&mut self, of: i32, sizes: &[i32]) -> i32 {
        let index = usize::try_from(of).unwrap();
        let place = self.method.plan_mut().values[index]
            .as_tensor()
            .unwrap()
            .allocation_info
            .unwrap();
        let view = Tensor::new(ScalarType::Float, sizes).planned(1, place.memory_offset);
        self.method.tensor(view)
    }

    fn pick(&self, pick: u16) -> i32 {
        self.values[usize::from(pick) % self.values.len()]
    }

    fn read(&mut self, value: i32) {
        self.values.push(value);
        self.solid.push(value);
    }

    fn keep(&mut self, value: i32) {
        self.read(value);
        self.results.push((value, value));
        self.made.push(value);
    }

    fn unary(&mut self, operator: &str, x: i32) -> i32 {
        let out = self.value();
        self.method.kernel(operator, &[x, out, out]);
        out
    }

    fn flip(&mut self, x: i32, sizes: &[i32]) -> i32 {
        let out = self.place(Tensor::new(ScalarType::Float, sizes));
        self.method
            .kernel("aten::flip.out", &[x, self.dims, out, out]);
        out
    }

    fn add_values(&mut self, a: i32, b: i32) -> i32 {
        let out = self.value();
        self.method
            .kernel("aten::add.out", &[a, b, self.one, out, out]);
        out
    }

    fn copy(&mut self, to: i32, from: i32) {
        self.method
            .kernel("aten::copy_", &[to, from, self.never, to]);
    }

    fn call(&mut self, blob: usize, device: u16, args: &[i32]) {
        let device: &[u8] = match device % 3 {
            0 => b"cpu",
            1 => b"cuda:0",
            _ => b"cuda:1",
        };
        let data = self.blobs[blob];
        let specs = [("target_device", device)];
        let delegate = self.method.delegate("NestedProgramBackend", data, &specs);
        self.method.delegate_call(delegate, args);
    }

    fn here(&mut self) -> i32 {
        i32::try_from(self.method.plan_mut().chains[0].instructions.len()).unwrap()
    }

    fn add(&mut self, statement: &Statement) {
        let [first, second, third] = statement.picks;
        let (a, b) = (self.pick(first), self.pick(second));
        match statement.kind {
            0 => {
                let out = self.unary("aten::sigmoid.out", a);
                self.keep(out);
            }
            1 => {
                let out = self.unary("aten::neg.out", a);
                self.keep(out);
            }
            2 => {
                let out = self.add_values(a, b);
                self.keep(out);
            }
            3 => {
                let out = self.unary("aten::relu.out", a);
                self.keep(out);
            }
            4 => {
                let out = self.flip(a, &[2, 3]);
                self.keep(out);
            }
            5 => self.through_views(self.solid[usize::from(first) % self.solid.len()]),
            6 => self.through_a_pointer(a),
            7 => {
                let out = self.value();
                self.call(0, third, &[a, b, out]);
                self.keep(out);
            }
            8 => {
                let outs = [self.value(), self.value()];
                self.call(1, third, &[a, outs[0], outs[1]]);
                outs.into_iter().for_each(|out| self.keep(out));
            }
            9 => {
                let state = self.states[usize::from(second) % 2];
                self.copy(state, a);
            }
            10 => {
                let state = self.states[usize::from(second) % 2];
                let out = self.add_values(state, a);
                self.keep(out);
            }
            11 if !self.made.is_empty() => {
                let to = self.made[usize::from(second) % self.made.len()];
                self.copy(to, a);
            }
            12 => self.branch(a, b, third),
            13 => self.repeat(a, b, third),
            _ => {}
        }
    }

    /// An operator on a view, and a view of its result.
    fn through_views(&mut self, a: i32) {
        let tall = self.view(a, &[3, 2]);
        let out = self.flip(tall, &[3, 2]);
        let back = self.view(out, &[2, 3]);
        self.results.push((out, back));
        self.read(back);
    }

    /// The same with a view that an instruction makes.
    fn through_a_pointer(&mut self, a: i32) {
        let tall = self.place(Tensor::new(ScalarType::Float, &[3, 2]));
        let sizes: Vec<i64> = [3, 2].map(|size| i64::from(self.method.int(size))).into();
        let sizes = self.method.value(et_schema::owned::Value::IntList(sizes));
        self.method
            .kernel("executorch_prim::et_view.default", &[a, sizes, tall]);
        let out = self.flip(tall, &[3, 2]);
        let back = self.view(out, &[2, 3]);
        self.results.push((out, back));
        self.read(back);
    }

    fn branch(&mut self, a: i32, b: i32, pick: u16) {
        let result = self.value();
        let flag = self.flags[usize::from(pick) % 2];
        let start = self.here();
        self.method.jump_false(flag, start + 4);
        let one = self.unary("aten::sigmoid.out", a);
        self.method.move_value(one, result);
        self.method.jump_false(self.never, start + 6);
        let other = self.value();
        self.call(0, pick, &[b, a, other]);
        self.method.move_value(other, result);
        self.values.push(result);
    }

    /// Three rounds of a sum that goes through a delegate.
    fn repeat(&mut self, a: i32, b: i32, pick: u16) {
        let sum = self.unary("aten::relu.out", a);
        let [count, most, done] = [
            self.method.int(0),
            self.method.int(3),
            self.method.bool(false),
        ];
        let head = self.here();
        let more = self.value();
        self.call(0, pick, &[b, sum, more]);
        let turned = self.flip(more, &[2, 3]);
        self.copy(sum, turned);
        self.method
            .kernel("executorch_prim::add.Scalar", &[count, self.one, count]);
        self.method
            .kernel("executorch_prim::eq.Scalar", &[count, most, done]);
        self.method.jump_false(done, head);
        self.method
            .kernel("executorch_prim::sub.Scalar", &[count, most, count]);
        self.keep(sum);
    }

    /// What some instruction reads: names before it gives a result.
    fn named(&mut self) -> BTreeSet<i32> {
        let mut named = BTreeSet::new();
        for instruction in &self.method.plan_mut().chains[0].instructions {
            match instruction {
                Instruction::KernelCall(call) => {
                    let out = call.args.last();
                    named.extend(call.args.iter().filter(|&arg| Some(arg) != out));
                }
                // The last argument is always a result; of two results the first is kept anyway.
                Instruction::DelegateCall(call) => named.extend(&call.args[..call.args.len() - 1]),
                Instruction::MoveCall(call) => named.extend([call.move_from]),
                _ => {}
            }
        }
        named
    }

    fn finish(mut self) -> MethodBuilder {
        let named = self.named();
        for (value, read_as) in std::mem::take(&mut self.results) {
            if !named.contains(&read_as) {
                self.method.mark_output(value);
            }
        }
        if self.method.plan_mut().outputs.is_empty() {
            self.method.mark_output(self.values[0]);
        }
        self.method.plan_mut().non_const_buffer_sizes[1] = i64::try_from(self.next).unwrap();
        self.method
    }
}
