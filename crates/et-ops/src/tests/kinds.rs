//! Which kinds of arguments each operator takes, as its complaints say.

use et_kernel::{Kernel, KernelError};

/// Kinds of arguments, as far as operators tell them apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Tensor,
    Number,
    Double,
    Bool,
    Text,
    Ints,
    Tensors,
    OptionalTensors,
    Doubles,
    Bools,
    None,
}

/// All of them.
pub(super) const KINDS: [Kind; 11] = [
    Kind::Tensor,
    Kind::Number,
    Kind::Double,
    Kind::Bool,
    Kind::Text,
    Kind::Ints,
    Kind::Tensors,
    Kind::OptionalTensors,
    Kind::Doubles,
    Kind::Bools,
    Kind::None,
];

/// More arguments than any operator has.
pub(super) const MOST: usize = 16;

/// Kinds that the operator has nothing to say against, found by giving it what it asks for: `call` runs it with arguments
/// of the kinds given, which differ with the number given.
pub(super) fn accepted(
    kernel: &Kernel,
    call: impl Fn(&Kernel, &[Kind], u64) -> Result<(), KernelError>,
) -> Vec<Kind> {
    let mut kinds = vec![Kind::Tensor];
    for seed in 1..80 {
        match call(kernel, &kinds, seed) {
            Err(KernelError::ArgumentCount { .. }) if kinds.len() < MOST => {
                kinds.push(Kind::Tensor);
            }
            Err(KernelError::ArgumentKind {
                argument, expected, ..
            }) if argument < kinds.len() => kinds[argument] = asked_for(expected),
            _ => {}
        }
    }
    kinds
}

/// The kind that an error names.
fn asked_for(expected: &str) -> Kind {
    match expected {
        "a number" | "a whole number" => Kind::Number,
        "a floating point number" => Kind::Double,
        "a truth value" => Kind::Bool,
        "a text" => Kind::Text,
        "a list of whole numbers" => Kind::Ints,
        "a list of tensors" | "a list" => Kind::Tensors,
        "a list of optional tensors" => Kind::OptionalTensors,
        "a list of floating point numbers" => Kind::Doubles,
        "a list of truth values" => Kind::Bools,
        _ => Kind::Tensor,
    }
}
