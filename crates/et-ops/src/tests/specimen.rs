//! One call of each operator that works, in a short notation, for tests that go over all of them.
//!
//! Words of a call: `T2x3` is a tensor of ones of the type that is tried (`T` alone: 2x3, `T0`: no dimensions), `F`, `L`, `B` and
//! `U` one of type `Float`, `Long` (of zeros), `Bool` and `Byte` (`Z`: `ComplexDouble`); `o3` an output of 3 dimensions of the type that is tried (`o`
//! alone: 2), `oF`, `oL` and so on one of another. `=0` names argument 0 once more. Numbers, `true`, `'text'` and `_` for
//! nothing are themselves; `[1,2]`, `<0.5,2>` and `{T,T}` are lists of whole numbers, of fractions and of tensors.

mod calls;

use et_kernel::{EValue, Kernel, ScalarType, Tensor, TensorMeta};

use super::kinds::Kind;
use crate::testing::Op;
use calls::CALLS;

/// The words of the operator's call.
pub(super) fn words(kernel: &Kernel) -> Vec<&'static str> {
    let found = CALLS
        .iter()
        .find(|(names, _)| names.split_whitespace().any(|name| name == kernel.name()));
    let (_, call) = found.unwrap_or_else(|| panic!("no call of {}", kernel.name()));
    call.split_whitespace().collect()
}

/// The operator's call with tensors of type `dtype` where it is tried.
pub(super) fn call(kernel: &'static Kernel, dtype: ScalarType) -> Op {
    let words = words(kernel);
    words
        .iter()
        .fold(Op::of(kernel), |op, word| push(op, word, dtype))
}

/// The call with another word at `at`, and a type that the operator computes with.
pub(super) fn call_with(kernel: &'static Kernel, at: usize, word: &str) -> Op {
    let dtypes = kernel.dtypes();
    let usual = dtypes.iter().find(|&dtype| dtype == ScalarType::Float);
    let dtype = usual.or(dtypes.iter().next()).unwrap_or(ScalarType::Float);
    let words = words(kernel).into_iter().enumerate();
    words.fold(Op::of(kernel), |op, (i, own)| {
        push(op, if i == at { word } else { own }, dtype)
    })
}

/// Whether the word makes an output that is a tensor or several.
pub(super) fn is_output(word: &str) -> bool {
    word.starts_with(['o', '=']) || word.starts_with("{o")
}

/// What kind of argument a word makes.
pub(super) fn kind(word: &str) -> Kind {
    match word.as_bytes()[0] {
        b'_' => Kind::None,
        b'\'' => Kind::Text,
        b't' | b'f' => Kind::Bool,
        b'[' => Kind::Ints,
        b'<' => Kind::Doubles,
        b'{' => Kind::Tensors,
        b'A'..=b'Z' | b'o' | b'=' => Kind::Tensor,
        _ => Kind::Number,
    }
}

/// The call with one more argument.
fn push(op: Op, word: &str, tried: ScalarType) -> Op {
    match word.as_bytes()[0] {
        b'_' => op.none(),
        b'=' => op.again(word[1..].parse().unwrap()),
        b'\'' => op.text(word.trim_matches('\'')),
        b't' | b'f' => op.boolean(word == "true"),
        b'[' => op.ints(&items(word).map(|x| x.parse().unwrap()).collect::<Vec<_>>()),
        b'<' => op.value(EValue::DoubleList(
            items(word).map(|x| x.parse().unwrap()).collect(),
        )),
        b'{' if word.starts_with("{o") => {
            let (dtype, rank) = output(items(word).next().unwrap(), tried);
            op.outs(dtype, rank, items(word).count())
        }
        b'{' => op.some_tensors(items(word).map(|x| (x != "_").then(|| tensor(x, tried)))),
        b'o' => {
            let (dtype, rank) = output(word, tried);
            op.out(dtype, rank)
        }
        b'A'..=b'Z' => op.value(EValue::Tensor(Box::new(tensor(word, tried)))),
        _ if word.contains(['.', 'e']) => op.double(word.parse().unwrap()),
        _ => op.int(word.parse().unwrap()),
    }
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list[1..list.len() - 1]
        .split(',')
        .filter(|item| !item.is_empty())
}

fn dtype_of(letter: &str, tried: ScalarType) -> ScalarType {
    match letter {
        "F" => ScalarType::Float,
        "L" => ScalarType::Long,
        "B" => ScalarType::Bool,
        "U" => ScalarType::Byte,
        "Z" => ScalarType::ComplexDouble,
        _ => tried,
    }
}

fn output(word: &str, tried: ScalarType) -> (ScalarType, usize) {
    let rank = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letter = &word[1..word.len() - rank.len()];
    (dtype_of(letter, tried), rank.parse().unwrap_or(2))
}

fn tensor(word: &str, tried: ScalarType) -> Tensor {
    let sizes: Vec<usize> = match &word[1..] {
        "" => vec![2, 3],
        "0" => vec![],
        sizes => sizes.split('x').map(|size| size.parse().unwrap()).collect(),
    };
    let dtype = dtype_of(&word[..1], tried);
    let meta = TensorMeta::contiguous(dtype, &sizes).unwrap();
    let mut tensor = Tensor::zeros(meta).unwrap();
    if !word.starts_with('L') {
        let one = one(dtype);
        let bytes = tensor.bytes_mut().unwrap().0;
        bytes
            .chunks_exact_mut(one.len())
            .for_each(|to| to.copy_from_slice(&one));
    }
    tensor
}

/// The bytes of the number 1; something that is not 0 for types that this crate does not compute with.
fn one(dtype: ScalarType) -> Vec<u8> {
    match dtype {
        ScalarType::Float => 1f32.to_ne_bytes().into(),
        ScalarType::Double => 1f64.to_ne_bytes().into(),
        ScalarType::Half => half::f16::ONE.to_ne_bytes().into(),
        ScalarType::BFloat16 => half::bf16::ONE.to_ne_bytes().into(),
        other => {
            let mut bytes = vec![0; other.nbytes()];
            bytes[0] = 1;
            bytes
        }
    }
}
