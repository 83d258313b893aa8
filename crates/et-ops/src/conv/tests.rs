//! A convolution with the instructions behind it, done in one go or one by one, by one thread or several.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use et_kernel::{
    EValue, Environment, Follower, Kernel, SharedBytes, StepState, Tensor, TensorMeta, ValueIndex,
    ValueTable, Workers,
};
use et_memory::PlannedMemory;

use crate::testing::kernel;

const NORM: &str = "aten::_native_batch_norm_legit_no_training.out";

/// `out = hardtanh(batch_norm(convolution(input)))`.
struct Bench {
    table: ValueTable,
    convolution: Vec<ValueIndex>,
    norm: Vec<ValueIndex>,
    activation: Vec<ValueIndex>,
    out: ValueIndex,
    environment: Environment,
}

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 7 + seed * 13) % 23) as f32 * 0.25 - 2.5)
        .collect()
}

impl Bench {
    /// `[channels in, channels out, groups]`, the edge of the image, that of the kernel, and the stride.
    fn new([ins, outs, groups]: [usize; 3], edge: usize, kernel: usize, stride: usize) -> Self {
        let mut bench = Self {
            table: ValueTable::new(PlannedMemory::default()),
            convolution: Vec::new(),
            norm: Vec::new(),
            activation: Vec::new(),
            out: ValueIndex(0),
            environment: Environment::default(),
        };
        bench.table.allow(1 << 20);
        let batch = 2;
        let input = numbers(batch * ins * edge * edge, 1);
        let input = Tensor::from_slice(&input, &[batch, ins, edge, edge]).unwrap();
        let input = bench.push(EValue::Tensor(Box::new(input)));
        let weight = bench.constant(&[outs, ins / groups, kernel, kernel], 2);
        let bias = bench.constant(&[outs], 3);
        let padding = kernel / 2;
        let size = (edge + 2 * padding - kernel) / stride + 1;
        let sizes = [batch, outs, size, size];
        let [first, second, out] = [0; 3].map(|_| bench.zeros(&sizes));
        let [step, pad, dilation] = [stride, padding, 1].map(|n| {
            let n = bench.push(EValue::Int(n as i64));
            bench.push(EValue::IntList([n, n].into()))
        });
        let transposed = bench.push(EValue::Bool(false));
        let groups = bench.push(EValue::Int(groups as i64));
        bench.convolution = vec![
            input, weight, bias, step, pad, dilation, transposed, pad, groups, first, first,
        ];
        let scale = bench.constant(&[outs], 4);
        let shift = bench.constant(&[outs], 5);
        let mean = bench.constant(&[outs], 6);
        let variance: Vec<f32> = numbers(outs, 7).iter().map(|x| x.abs() + 0.5).collect();
        let variance = bench.constant_of(&[outs], &variance);
        let [momentum, eps] = [0.1, 1e-3].map(|x| bench.push(EValue::Double(x)));
        let nothing = bench.zeros(&[0]);
        bench.norm = vec![
            first, scale, shift, mean, variance, momentum, eps, second, nothing, nothing,
        ];
        let low = bench.push(EValue::Double(-0.5));
        let high = bench.push(EValue::Double(2.0));
        bench.activation = vec![second, low, high, out, out];
        bench.out = out;
        bench
    }

    /// A value that never changes, unless it is a tensor.
    fn push(&mut self, value: EValue) -> ValueIndex {
        let changes = matches!(value, EValue::Tensor(_));
        self.table.push(value);
        if !changes {
            self.table.mark_constant();
        }
        ValueIndex(u32::try_from(self.table.len() - 1).unwrap())
    }

    fn zeros(&mut self, sizes: &[usize]) -> ValueIndex {
        let meta = TensorMeta::contiguous(et_kernel::ScalarType::Float, sizes).unwrap();
        self.push(EValue::Tensor(Box::new(Tensor::zeros(meta).unwrap())))
    }

    fn constant(&mut self, sizes: &[usize], seed: usize) -> ValueIndex {
        let elements = numbers(sizes.iter().product(), seed);
        self.constant_of(sizes, &elements)
    }

    fn constant_of(&mut self, sizes: &[usize], elements: &[f32]) -> ValueIndex {
        let meta = TensorMeta::contiguous(et_kernel::ScalarType::Float, sizes).unwrap();
        let bytes = et_kernel::as_bytes(elements).to_vec();
        self.table
            .push_shared(meta, &SharedBytes::new(bytes))
            .unwrap();
        ValueIndex(u32::try_from(self.table.len() - 1).unwrap())
    }

    fn call(&mut self, name: &str, arguments: &[ValueIndex], state: Option<&mut StepState>) {
        let mut context = self
            .table
            .call(arguments, state, &self.environment)
            .unwrap();
        kernel(name).run()(&mut context).unwrap();
    }

    fn one_by_one(&mut self) -> Vec<f32> {
        self.call("aten::convolution.out", &self.convolution.clone(), None);
        self.call(NORM, &self.norm.clone(), None);
        self.call("aten::hardtanh.out", &self.activation.clone(), None);
        self.output()
    }

    fn in_one_go(&mut self) -> Vec<f32> {
        let followers = [
            Follower::new(*kernel(NORM), &self.norm),
            Follower::new(*kernel("aten::hardtanh.out"), &self.activation),
        ];
        let context = self
            .table
            .prepare(&self.convolution, &self.environment)
            .unwrap();
        let prepare = kernel("aten::convolution.out").prepare().unwrap();
        let mut prepared = prepare(&context.with_followers(&followers)).unwrap();
        assert_eq!(prepared.absorbed, 2);
        self.call(
            "aten::convolution.out",
            &self.convolution.clone(),
            prepared.state.as_mut(),
        );
        self.output()
    }

    fn output(&self) -> Vec<f32> {
        let tensor = self.table.tensor(self.out).unwrap();
        tensor.as_slice::<f32>().unwrap().to_vec()
    }
}

/// Channels and groups, edge, kernel, stride.
const CASES: [([usize; 3], usize, usize, usize); 9] = [
    ([24, 24, 24], 7, 3, 1),
    ([64, 64, 64], 40, 3, 1),
    ([24, 24, 24], 14, 5, 2),
    ([8, 16, 8], 33, 3, 2),
    ([5, 5, 5], 20, 3, 3),
    ([32, 48, 1], 24, 1, 1),
    ([3, 32, 1], 40, 3, 2),
    ([16, 20, 1], 24, 3, 1),
    ([8, 12, 4], 9, 3, 1),
];

#[test]
fn what_follows_a_convolution_gives_the_same_in_one_go() {
    for (channels, edge, kernel, stride) in CASES {
        let expected = Bench::new(channels, edge, kernel, stride).one_by_one();
        let found = Bench::new(channels, edge, kernel, stride).in_one_go();
        assert!(expected.iter().any(|x| x.abs() < 0.5) && expected.contains(&2.0));
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() < 1e-3,
                "{found} instead of {expected}"
            );
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    for (channels, edge, kernel, stride) in CASES {
        let mut alone = Bench::new(channels, edge, kernel, stride);
        let (apart, together) = (alone.one_by_one(), alone.in_one_go());
        for threads in [2, 3, 9] {
            let workers = Workers::new(NonZeroUsize::new(threads).unwrap()).unwrap();
            let mut shared = Bench::new(channels, edge, kernel, stride);
            shared.environment = Environment::default().with_workers(Arc::new(workers));
            assert_eq!(shared.one_by_one(), apart);
            assert_eq!(shared.in_one_go(), together);
        }
    }
}

/// An operator of another crate's, under the name of one of ours, is run and not done on the way.
#[test]
fn what_somebody_else_does_under_our_name_is_left_to_them() {
    let bench = Bench::new([4, 4, 1], 5, 3, 1);
    let theirs = Kernel::new(NORM, kernel(NORM).dtypes(), |_| Ok(()));
    let followers = [Follower::new(theirs, &bench.norm)];
    let context = bench
        .table
        .prepare(&bench.convolution, &bench.environment)
        .unwrap();
    let prepare = kernel("aten::convolution.out").prepare().unwrap();
    let prepared = prepare(&context.with_followers(&followers)).unwrap();
    assert_eq!(prepared.absorbed, 0);
}

#[test]
fn what_is_not_constant_or_does_not_fit_is_not_done_in_one_go() {
    let check = |change: fn(&mut Bench)| {
        let mut bench = Bench::new([4, 4, 1], 5, 3, 1);
        change(&mut bench);
        let followers = [Follower::new(*kernel(NORM), &bench.norm)];
        let context = bench
            .table
            .prepare(&bench.convolution, &bench.environment)
            .unwrap();
        let prepare = kernel("aten::convolution.out").prepare().unwrap();
        assert_eq!(
            prepare(&context.with_followers(&followers))
                .unwrap()
                .absorbed,
            0
        );
    };
    // Bias, statistics and their number; the input and output; what may be kept.
    check(|bench| bench.convolution[2] = bench.zeros(&[4]));
    check(|bench| bench.norm[3] = bench.zeros(&[4]));
    check(|bench| bench.norm[4] = bench.constant(&[5], 1));
    check(|bench| bench.norm[0] = bench.norm[7]);
    check(|bench| bench.norm[7] = bench.convolution[0]);
    check(|bench| bench.norm[7] = bench.zeros(&[2, 4, 5, 4]));
    check(|bench| bench.table.allow(20));
    check(|bench| bench.norm.truncate(4));
    check(|bench| bench.convolution.truncate(5));
}
