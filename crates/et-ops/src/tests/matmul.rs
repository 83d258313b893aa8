//! Matrix products.

use et_kernel::{
    EValue, Environment, Follower, Prepared, ScalarType, StepState, Tensor, ValueIndex, ValueTable,
};
use et_memory::PlannedMemory;
use half::f16;

use crate::testing::{Op, kernel};

const F: ScalarType = ScalarType::Float;

#[test]
fn mm_multiplies() {
    Op::new("aten::mm.out")
        .tensor(&[1f32, 2., 3., 4., 5., 6.], &[2, 3])
        .tensor(&[1f32, 0., 0., 1., 1., 1.], &[3, 2])
        .out(F, 2)
        .gives(&[4f32, 5., 10., 11.], &[2, 2]);
}

#[test]
fn mm_of_whole_numbers_and_of_halves() {
    Op::new("aten::mm.out")
        .tensor(&[1i64, 2], &[1, 2])
        .tensor(&[3i64, i64::MAX], &[2, 1])
        .out(ScalarType::Long, 2)
        .gives(&[1i64], &[1, 1]);
    Op::new("aten::mm.out")
        .tensor(&[1f32, 2.].map(f16::from_f32), &[1, 2])
        .tensor(&[3f32, 0.5].map(f16::from_f32), &[2, 1])
        .out(ScalarType::Half, 2)
        .gives(&[f16::from_f32(4.0)], &[1, 1]);
}

#[test]
fn addmm_scales_and_broadcasts_its_bias() {
    let op = |beta: f64, bias: f32| {
        Op::new("aten::addmm.out")
            .tensor(&[bias, 1.], &[2])
            .tensor(&[1f32, 2.], &[2, 1])
            .tensor(&[3f32, 4.], &[1, 2])
            .double(beta)
            .double(2.0)
            .out(F, 2)
    };
    op(10.0, 0.0).gives(&[6f32, 18., 12., 26.], &[2, 2]);
    // A factor of 0 hides whatever the bias is.
    op(0.0, f32::NAN).gives(&[6f32, 8., 12., 16.], &[2, 2]);
}

#[test]
fn a_sum_over_nothing_is_zero() {
    Op::new("aten::mm.out")
        .tensor::<f32>(&[], &[2, 0])
        .tensor::<f32>(&[], &[0, 2])
        .out(F, 2)
        .gives(&[0f32; 4], &[2, 2]);
    Op::new("aten::bmm.out")
        .tensor::<f32>(&[], &[2, 0, 3])
        .tensor(&[1f32; 18], &[2, 3, 3])
        .out(F, 3)
        .gives::<f32>(&[], &[2, 0, 3]);
}

#[test]
fn linear_takes_batches_and_transposes_its_weight() {
    Op::new("aten::linear.out")
        .tensor(&[1f32, 2., 3., 4.], &[2, 1, 2])
        .tensor(&[1f32, 1., 0., 1., 2., 0.], &[3, 2])
        .tensor(&[0f32, 0., 1.], &[3])
        .out(F, 3)
        .gives(&[3f32, 2., 3., 7., 4., 7.], &[2, 1, 3]);
}

#[test]
fn a_transposed_operand_is_read_by_its_strides() {
    Op::new("aten::mm.out")
        .ordered(&[1f32, 2., 3., 4., 5., 6.], &[2, 3], &[1, 0])
        .ordered(&[1f32, 0., 0., 1., 1., 1.], &[3, 2], &[1, 0])
        .out_ordered(F, &[1, 0])
        .gives(&[4f32, 5., 10., 11.], &[2, 2]);
}

#[test]
fn matrices_that_do_not_chain_are_refused() {
    Op::new("aten::mm.out")
        .tensor(&[1f32; 6], &[2, 3])
        .tensor(&[1f32; 6], &[2, 3])
        .out(F, 2)
        .fails("kernel.invalid-argument");
    Op::new("aten::bmm.out")
        .tensor(&[1f32; 4], &[1, 2, 2])
        .tensor(&[1f32; 8], &[2, 2, 2])
        .out(F, 3)
        .fails("kernel.invalid-argument");
}

/// A transposition and a product of its result, `out = beta * bias + alpha * (a weight^T)`.
struct Transposed {
    table: ValueTable,
    permute: Vec<ValueIndex>,
    product: Vec<ValueIndex>,
    environment: Environment,
}

impl Transposed {
    fn new(m: usize, n: usize, k: usize) -> Self {
        let mut this = Self {
            table: ValueTable::new(PlannedMemory::default()),
            permute: Vec::new(),
            product: Vec::new(),
            environment: Environment::default(),
        };
        let [a, weight, between, bias, out] =
            [[m, k], [n, k], [k, n], [1, n], [m, n]].map(|sizes| {
                let numbers = (0..sizes[0] * sizes[1]).map(|i| (i * 7 % 23) as f32 - 11.0);
                let numbers: Vec<f32> = numbers.collect();
                this.push(EValue::Tensor(Box::new(
                    Tensor::from_slice(&numbers, &sizes).unwrap(),
                )))
            });
        let [one, zero, beta, alpha] = [1, 0, 3, 2].map(|x| this.constant(x));
        let order = this.push(EValue::IntList([one, zero].into()));
        this.table.mark_constant();
        this.permute = vec![weight, order, between, between];
        this.product = vec![bias, a, between, beta, alpha, out, out];
        this
    }

    fn push(&mut self, value: EValue) -> ValueIndex {
        self.table.push(value);
        ValueIndex(u32::try_from(self.table.len() - 1).unwrap())
    }

    fn constant(&mut self, value: i64) -> ValueIndex {
        let index = self.push(EValue::Int(value));
        self.table.mark_constant();
        index
    }

    fn prepare(&self, name: &str) -> Prepared {
        let followers = [Follower::new(*kernel(name), &self.product)];
        let context = self.table.prepare(&self.permute, &self.environment);
        let context = context.unwrap().with_followers(&followers);
        kernel("aten::permute_copy.out").prepare().unwrap()(&context).unwrap()
    }

    fn call(&mut self, name: &str, arguments: &[ValueIndex], state: Option<&mut StepState>) {
        let context = self.table.call(arguments, state, &self.environment);
        kernel(name).run()(&mut context.unwrap()).unwrap();
    }

    fn output(&self) -> Vec<f32> {
        let out = self.table.tensor(*self.product.last().unwrap()).unwrap();
        out.as_slice::<f32>().unwrap().to_vec()
    }
}

#[test]
fn a_product_reads_large_weights_as_they_lie() {
    for m in [1, 5, 40] {
        for name in ["aten::addmm.out", "aten::mm.out"] {
            let [mut apart, mut together] = [(); 2].map(|()| {
                let mut this = Transposed::new(m, 130, 170);
                if name == "aten::mm.out" {
                    this.product = [1, 2, 5, 6].map(|at| this.product[at]).to_vec();
                }
                this
            });
            let product = apart.product.clone();
            apart.call("aten::permute_copy.out", &apart.permute.clone(), None);
            apart.call(name, &product, None);
            let mut prepared = together.prepare(name);
            assert_eq!(prepared.absorbed, 1);
            let permute = together.permute.clone();
            together.call("aten::permute_copy.out", &permute, prepared.state.as_mut());
            assert_eq!(together.output(), apart.output());
        }
    }
}

#[test]
fn other_uses_of_a_transposition_are_not_its_own() {
    let check = |change: fn(&mut Transposed)| {
        let mut this = Transposed::new(130, 130, 130);
        change(&mut this);
        assert_eq!(this.prepare("aten::addmm.out").absorbed, 0);
    };
    assert_eq!(
        Transposed::new(2, 130, 130)
            .prepare("aten::addmm.out")
            .absorbed,
        1
    );
    assert_eq!(
        Transposed::new(2, 5, 7).prepare("aten::addmm.out").absorbed,
        0
    );
    assert_eq!(
        Transposed::new(2, 130, 130)
            .prepare("aten::sub.out")
            .absorbed,
        0
    );
    // Another operand, the bias, another order, factors that may change.
    check(|this| this.product[1] = this.product[2]);
    check(|this| this.product[2] = this.product[1]);
    check(|this| this.product[0] = this.product[2]);
    check(|this| {
        let [zero, one] = [0, 1].map(|x| this.constant(x));
        this.permute[1] = this.push(EValue::IntList([zero, one].into()));
    });
    check(|this| this.product[3] = this.push(EValue::Int(3)));
    check(|this| this.product.truncate(4));
    check(|this| this.permute.truncate(2));
}
