//! Arguments that no operator expects: an error, never a panic.

use et_kernel::{Bool8, EValue, Kernel, KernelError, ScalarType, ScalarTypeSet};

use super::kinds::Kind;
use super::specimen;
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
            Err(KernelError::ArgumentCount { .. }) if kinds.len() < 14 => kinds.push(9),
            Err(KernelError::ArgumentKind {
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

/// The declared types are what users are told, so they must be true: the specimen works with each of them and no other.
#[test]
fn operators_take_the_element_types_that_they_declare() {
    let mut wrong = Vec::new();
    for kernel in crate::kernels() {
        // The others work on numbers, or on tensors whose elements they do not look at.
        for dtype in ScalarTypeSet::ALL
            .iter()
            .filter(|_| kernel.dtypes() != ScalarTypeSet::NONE)
        {
            let result = specimen::call(kernel, dtype).run_once();
            let declared = kernel.dtypes().contains(dtype);
            match result {
                Ok(_) if declared => {}
                Err(KernelError::Dtype { .. } | KernelError::Invalid(_)) if !declared => {}
                Ok(_) => wrong.push(format!("{} works with {dtype}", kernel.name())),
                Err(error) => wrong.push(format!("{} with {dtype}: {error}", kernel.name())),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Values of every kind.
const VALUES: [(&str, Kind); 12] = [
    ("F", Kind::Tensor),
    ("1", Kind::Number),
    ("0.5", Kind::Double),
    ("true", Kind::Bool),
    ("'none'", Kind::Text),
    ("[1]", Kind::Ints),
    ("[]", Kind::Ints),
    ("{F}", Kind::Tensors),
    ("{F,_}", Kind::OptionalTensors),
    ("<0.5>", Kind::Doubles),
    ("<>", Kind::Doubles),
    ("_", Kind::None),
];

/// Arguments that no operator reads, by operator and position: the output says what they say, or they are hints.
const UNREAD: &[(&str, &[usize])] = &[
    ("aten::clone.out", &[1]),
    ("aten::_to_copy.out", &[1, 2]),
    ("dim_order_ops::_clone_dim_order.out", &[1, 2]),
    ("dim_order_ops::_to_dim_order_copy.out", &[1, 2]),
    ("aten::copy.out", &[2]),
    // The output once more.
    ("aten::copy_", &[2, 3]),
    ("aten::index_put_", &[4]),
    ("aten::expand_copy.out", &[2]),
    ("aten::zeros_like.out", &[1]),
    ("aten::ones_like.out", &[1]),
    ("aten::empty.out", &[1]),
    ("dim_order_ops::_empty_dim_order.out", &[1]),
    ("aten::full_like.out", &[2]),
    ("aten::embedding.out", &[2, 3, 4]),
    ("aten::gather.out", &[3]),
    ("aten::cumsum.out", &[2]),
    ("aten::cumprod.out", &[2]),
    ("aten::sort.values_stable", &[1]),
    // Only a transposed convolution pads its output.
    ("aten::convolution.out", &[7]),
    ("aten::sum.IntList_out", &[3]),
    ("aten::sum.out", &[1]),
    ("aten::mean.out", &[3]),
    ("aten::mean.dtype_out", &[1]),
    ("aten::prod.int_out", &[3]),
    ("aten::prod.out", &[1]),
    ("quantized_decomposed::quantize_per_tensor.out", &[5]),
    ("quantized_decomposed::quantize_per_tensor.Tensor_out", &[5]),
    ("quantized_decomposed::quantize_per_channel.out", &[6]),
    ("quantized_decomposed::quantize_per_token.out", &[5]),
    (
        "quantized_decomposed::dequantize_per_tensor.out",
        &[3, 4, 5, 6],
    ),
    (
        "quantized_decomposed::dequantize_per_tensor.Tensor_out",
        &[3, 4, 5, 6],
    ),
    (
        "quantized_decomposed::dequantize_per_channel.out",
        &[4, 5, 6, 7],
    ),
    (
        "quantized_decomposed::dequantize_per_token.out",
        &[3, 4, 5, 6],
    ),
    ("quantized_decomposed::choose_qparams.Tensor_out", &[4]),
    (
        "quantized_decomposed::choose_qparams_per_token_asymmetric.out",
        &[1],
    ),
];

/// Whether the operator may be content with any value there: it does not read it, or it only writes it.
fn takes_anything(kernel: &Kernel, at: usize) -> bool {
    let words = specimen::words(kernel);
    let unread = UNREAD
        .iter()
        .any(|(name, places)| *name == kernel.name() && places.contains(&at));
    let writes_number = at + 1 == words.len() && !specimen::is_output(words[at]);
    unread || writes_number
}

/// Whether a value of kind `given` may stand for one of kind `own`.
fn may_stand_for(given: Kind, own: Kind) -> bool {
    use Kind::{Bool, Double, None, Number, OptionalTensors, Tensors, Text};
    let numbers = [Number, Double, Bool];
    match (own, given) {
        // Many arguments may be missing.
        (_, None) => true,
        // What a specimen leaves out may be anything that the operator takes.
        (None, _) => given != Kind::Tensor && given != Kind::Bools,
        (Tensors | OptionalTensors, Tensors | OptionalTensors) => true,
        (Text, _) => given == Text,
        _ => own == given || numbers.contains(&own) && numbers.contains(&given),
    }
}

#[test]
fn arguments_of_a_wrong_kind_are_named() {
    let mut wrong = Vec::new();
    for kernel in crate::kernels() {
        let words = specimen::words(kernel);
        for (at, own) in words.iter().enumerate() {
            if takes_anything(kernel, at) {
                continue;
            }
            for (value, kind) in VALUES {
                if may_stand_for(kind, specimen::kind(own)) {
                    continue;
                }
                match specimen::call_with(kernel, at, value).run_once() {
                    Err(KernelError::ArgumentKind { argument, .. }) if argument == at => {}
                    Ok(_) => wrong.push(format!("{} takes {value} at {at}", kernel.name())),
                    Err(error) => {
                        wrong.push(format!("{} with {value} at {at}: {error}", kernel.name()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Tensors of which an operator only wants to know the shape.
const SHAPES: [&str; 6] = [
    "aten::copy.out",
    "aten::full_like.out",
    "aten::zeros_like.out",
    "aten::ones_like.out",
    "aten::fill.Scalar_out",
    "aten::fill.Tensor_out",
];

#[test]
fn tensors_of_an_unknown_element_type_are_refused() {
    let mut wrong = Vec::new();
    for kernel in crate::kernels() {
        let dtype = ScalarType::ComplexDouble;
        if kernel.dtypes() == ScalarTypeSet::NONE || kernel.dtypes().contains(dtype) {
            continue;
        }
        for (at, own) in specimen::words(kernel).iter().enumerate() {
            let Some(own) = own.strip_prefix(['T', 'F', 'L', 'B']) else {
                continue;
            };
            let shape_only = at == 0 && SHAPES.contains(&kernel.name());
            match specimen::call_with(kernel, at, &format!("Z{own}")).run_once() {
                Err(KernelError::Dtype { .. } | KernelError::Invalid(_)) => {}
                Ok(_) if shape_only || takes_anything(kernel, at) => {}
                Ok(_) => wrong.push(format!("{} takes {dtype} at {at}", kernel.name())),
                Err(error) => wrong.push(format!("{} at {at}: {error}", kernel.name())),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Shapes that suit no operator at most places: many dimensions, odd sizes, no elements, none but huge sizes.
const SHAPES_TO_TRY: [&str; 7] = [
    "0",
    "7",
    "5x7",
    "2x3x1x1x1x1x1x1x1x1x1x1x1x1x1x1",
    "0x3",
    "0x1099511627776",
    "576460752303423487x0",
];

#[test]
fn tensors_of_other_shapes_are_computed_with_or_refused() {
    let mut wrong = Vec::new();
    for kernel in crate::kernels() {
        for (at, own) in specimen::words(kernel).iter().enumerate() {
            let Some(letter) = own.get(..1).filter(|own| "TFLBU".contains(*own)) else {
                continue;
            };
            for shape in SHAPES_TO_TRY {
                let result =
                    specimen::call_with(kernel, at, &format!("{letter}{shape}")).run_once();
                match result {
                    Ok(_) | Err(KernelError::Invalid(_) | KernelError::Shape(_)) => {}
                    Err(error) => {
                        wrong.push(format!("{} with {shape} at {at}: {error}", kernel.name()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
