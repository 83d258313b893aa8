//! Arguments that no operator expects: an error, never a panic.

use et_kernel::{Bool8, EValue, Kernel, ScalarType};

use crate::testing::Op;

/// Values that are wrong for most arguments, by number.
const KINDS: usize = 16;

fn push(op: Op, kind: usize) -> Op {
    match kind % KINDS {
        0 => op.none(),
        1 => op.int(0),
        2 => op.int(i64::MAX),
        3 => op.int(i64::MIN),
        4 => op.double(f64::NAN),
        5 => op.boolean(true),
        6 => op.text("floor"),
        7 => op.ints(&[0, -1, i64::MAX]),
        8 => op.ints(&[i64::MIN, i64::MIN]),
        9 => op.tensor(&[1f32, -2., 3., f32::NAN, 5., 6.], &[2, 3]),
        10 => op.tensor(&[5i64, -7, i64::MIN], &[3]),
        11 => op.tensor::<f32>(&[], &[0, 3]),
        12 => op.tensor(&[true, false].map(Bool8::from), &[1, 2]),
        13 => op.out(ScalarType::Float, 2),
        14 => op.tensors(&[(&[1f32, 2.][..], &[2][..]), (&[1f32], &[1])]),
        _ => op.value(EValue::DoubleList([0.0, f64::INFINITY, -1e300].into())),
    }
}

/// A number that follows from another without a pattern.
fn scramble(seed: u64) -> u64 {
    let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 16
}

fn call(kernel: &'static Kernel, kinds: &[usize]) {
    let op = kinds
        .iter()
        .fold(Op::of(kernel), |op, &kind| push(op, kind));
    // Whether it works is all the same; that it returns is what is tested.
    drop(op.run_once());
}

#[test]
fn no_operator_takes_no_arguments_or_far_too_many() {
    for kernel in crate::kernels() {
        Op::of(kernel).fails("kernel.argument-count");
        for kind in 0..KINDS {
            let op = (0..24).fold(Op::of(kernel), |op, _| push(op, kind));
            assert!(
                op.run_once().is_err(),
                "{} with 24 arguments",
                kernel.name()
            );
        }
    }
}

#[test]
fn arbitrary_arguments_never_panic() {
    for (i, kernel) in crate::kernels().enumerate() {
        for round in 0..400u64 {
            let mut seed = scramble(i as u64 * 1000 + round);
            let count = 1 + seed as usize % 12;
            let kinds: Vec<usize> = (0..count)
                .map(|_| {
                    seed = scramble(seed);
                    seed as usize
                })
                .collect();
            call(kernel, &kinds);
        }
    }
}

/// Arguments of the kinds that an operator takes, of which some are changed: these get further.
#[test]
fn nearly_right_arguments_never_panic() {
    for (i, kernel) in crate::kernels().enumerate() {
        let Some(kinds) = accepted(kernel) else {
            continue;
        };
        for round in 0..600u64 {
            let mut kinds = kinds.clone();
            let mut seed = scramble(i as u64 * 77_777 + round);
            for _ in 0..1 + seed % 3 {
                seed = scramble(seed);
                let at = seed as usize % kinds.len();
                seed = scramble(seed);
                kinds[at] = seed as usize % KINDS;
            }
            call(kernel, &kinds);
        }
    }
}

/// Kinds of arguments with which the operator complains about something else than kinds, found argument by argument.
fn accepted(kernel: &'static Kernel) -> Option<Vec<usize>> {
    let mut kinds = vec![9; 3];
    for _ in 0..60 {
        let op = kinds
            .iter()
            .fold(Op::of(kernel), |op, &kind| push(op, kind));
        match op.run_once() {
            Err(et_kernel::KernelError::ArgumentCount { .. }) if kinds.len() < 14 => kinds.push(9),
            Err(et_kernel::KernelError::ArgumentKind {
                argument, expected, ..
            }) => {
                kinds[argument] = kind_of(expected);
            }
            _ => return Some(kinds),
        }
    }
    None
}

fn kind_of(expected: &str) -> usize {
    match expected {
        "a number" | "a whole number" => 1,
        "a floating point number" => 4,
        "a truth value" => 5,
        "a text" => 6,
        "a list of whole numbers" => 7,
        "a list of tensors" | "a list of optional tensors" | "a list" => 14,
        "a list of floating point numbers" => 15,
        _ => 9,
    }
}
