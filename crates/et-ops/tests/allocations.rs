//! Operators take no heap memory once they have run a few times.

#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use et_kernel::{EValue, Environment, Tensor, ValueIndex, ValueTable};
use et_memory::PlannedMemory;

/// The system's allocator, counting on threads that ask for it.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every request goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc`, so from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a call that was made a few times before.
fn allocations(name: &str, values: Vec<EValue>) -> usize {
    let kernels = et_ops::registry();
    let kernel = kernels.get(name).unwrap();
    let environment = Environment::default();
    let mut table = ValueTable::new(PlannedMemory::default());
    let arguments: Vec<_> = (0..values.len() as u32).map(ValueIndex).collect();
    values.into_iter().for_each(|value| table.push(value));
    let mut before = 0;
    for _ in 0..4 {
        let mut call = table.call(&arguments, None, &environment).unwrap();
        before = COUNT.with(Cell::get);
        kernel.run()(&mut call).unwrap();
    }
    COUNT.with(Cell::get) - before
}

fn tensor(sizes: &[usize]) -> EValue {
    let elements = vec![0.5f32; sizes.iter().product()];
    EValue::Tensor(Box::new(Tensor::from_slice(&elements, sizes).unwrap()))
}

fn halves(sizes: &[usize]) -> EValue {
    let elements = vec![half::f16::ONE; sizes.iter().product()];
    EValue::Tensor(Box::new(Tensor::from_slice(&elements, sizes).unwrap()))
}

#[test]
fn elementwise_operators_allocate_nothing() {
    let one = || EValue::Int(1);
    let add = vec![
        tensor(&[3, 1, 40]),
        tensor(&[5, 1]),
        one(),
        tensor(&[3, 5, 40]),
    ];
    assert_eq!(allocations("aten::add.out", add), 0);
    let mixed = vec![halves(&[600]), tensor(&[600]), one(), tensor(&[600])];
    assert_eq!(allocations("aten::add.out", mixed), 0);
    assert_eq!(
        allocations("aten::sigmoid.out", vec![halves(&[99]), halves(&[99])]),
        0
    );
}

#[test]
fn softmax_and_norms_allocate_nothing() {
    let softmax = |dim| {
        vec![
            tensor(&[3, 4]),
            EValue::Int(dim),
            EValue::Bool(false),
            tensor(&[3, 4]),
        ]
    };
    assert_eq!(allocations("aten::_softmax.out", softmax(1)), 0);
    assert_eq!(allocations("aten::_softmax.out", softmax(0)), 0);
    let mut norm = vec![tensor(&[2, 3, 4])];
    norm.extend((0..4).map(|_| tensor(&[3])));
    norm.extend([EValue::Double(0.1), EValue::Double(1e-5)]);
    norm.extend([tensor(&[2, 3, 4]), tensor(&[0]), tensor(&[0])]);
    assert_eq!(
        allocations("aten::_native_batch_norm_legit_no_training.out", norm),
        0
    );
}

#[test]
fn products_allocate_nothing() {
    let mm = |n: usize| vec![tensor(&[n, n]), tensor(&[n, n]), tensor(&[n, n])];
    for n in [1, 8, 64, 200] {
        assert_eq!(allocations("aten::mm.out", mm(n)), 0);
    }
    for rows in [1, 5, 40] {
        let (input, weight, out) = (&[rows, 100], &[70, 100], &[rows, 70]);
        let linear = vec![tensor(input), tensor(weight), tensor(&[70]), tensor(out)];
        assert_eq!(allocations("aten::linear.out", linear), 0);
        let linear = vec![halves(input), halves(weight), halves(&[70]), halves(out)];
        assert_eq!(allocations("aten::linear.out", linear), 0);
    }
}
