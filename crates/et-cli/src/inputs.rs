//! The inputs of a call: from a document, from the command line, or made up.

use crate::calls::{self, Item};
use crate::failure::Failure;
use crate::layout;
use crate::literal::Input;
use crate::random::Random;
use crate::render;
use crate::value::{Remote, Value};
use et_kernel::{TensorMeta, ValueKind};
use et_module::{Error, MethodMeta, ValueInfo};
use et_schema::ScalarType;

/// What a method takes as one input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spec {
    /// A tensor; the sizes are upper bounds where the shape is dynamic.
    Tensor(Box<TensorMeta>),
    /// A value of another kind.
    Other(ValueKind),
}

/// The inputs of a method, in order.
pub(crate) fn specs(meta: &MethodMeta) -> Result<Vec<Spec>, Error> {
    (0..meta.num_inputs())
        .map(|index| Ok(spec(&meta.input(index)?)))
        .collect()
}

fn spec(info: &ValueInfo) -> Spec {
    match &info.tensor {
        Some(tensor) => Spec::Tensor(Box::new(tensor.meta.clone())),
        None => Spec::Other(info.kind),
    }
}

impl Spec {
    /// The element type, if it is a tensor.
    fn scalar_type(&self) -> Option<ScalarType> {
        match self {
            Self::Tensor(meta) => Some(layout::scalar_type(meta.dtype())),
            Self::Other(_) => None,
        }
    }

    fn dim_order(&self) -> Option<&[u8]> {
        match self {
            Self::Tensor(meta) => Some(meta.dim_order()),
            Self::Other(_) => None,
        }
    }
}

/// The inputs that a document lists; lists are spliced into the flat order that methods have.
pub(crate) fn from_items(items: &[Item], specs: &[Spec]) -> Result<Vec<Value>, Failure> {
    let mut values = Vec::new();
    for item in items {
        // A type that the document does not say is the one that the program wants there.
        let wanted = specs.get(values.len()).and_then(Spec::scalar_type);
        flatten(item.load(wanted)?, &mut values);
    }
    Ok(values)
}

fn flatten(value: Value, into: &mut Vec<Value>) {
    match value {
        Value::List(items) => items.into_iter().for_each(|item| flatten(item, into)),
        other => into.push(other),
    }
}

/// The inputs given on the command line.
pub(crate) fn from_command_line(inputs: &[Input], specs: &[Spec]) -> Result<Vec<Value>, Failure> {
    let wanted = specs
        .iter()
        .map(Spec::scalar_type)
        .chain(std::iter::repeat(None));
    inputs
        .iter()
        .zip(wanted)
        .map(|(input, wanted)| match input {
            Input::Literal(value) => Ok(value.clone()),
            Input::File(file) => calls::read_tensor(file, wanted).map(Value::Tensor),
        })
        .collect()
}

/// Made-up inputs, the same every time; refused where they would need more than `limit` bytes.
///
/// Programs are specialised for the scalars they were exported with, so those are not made up: `traced` gives
/// them by position.
pub(crate) fn made_up(
    specs: &[Spec],
    traced: impl Fn(usize) -> Value,
    limit: u64,
) -> Result<Vec<Value>, Failure> {
    let mut random = Random::new();
    let mut left = limit;
    specs
        .iter()
        .enumerate()
        .map(|(index, spec)| match spec {
            Spec::Tensor(meta) => {
                let nbytes = meta.nbytes() as u64;
                left = left
                    .checked_sub(nbytes)
                    .ok_or_else(|| too_large(index, nbytes, limit))?;
                Ok(random.tensor(layout::scalar_type(meta.dtype()), meta.sizes().to_vec())?)
            }
            Spec::Other(_) => Ok(traced(index)),
        })
        .collect()
}

fn too_large(index: usize, nbytes: u64, limit: u64) -> Failure {
    let nbytes = render::bytes_exact(nbytes);
    let limit = render::bytes(limit);
    Failure::file(
        "input.too-large",
        format!(
            "input {index} declares {nbytes}, which is more than made-up inputs may have \
             ({limit} together): give it with --input, or raise --max-input-bytes"
        ),
    )
}

/// A value that the runtime gave, in the form of documents.
pub(crate) fn from_runtime(value: &et_module::Value) -> Result<Value, Failure> {
    Ok(match value {
        et_module::Value::None => Value::None,
        et_module::Value::Int(value) => Value::Int(*value),
        et_module::Value::Double(value) => Value::Double(*value),
        et_module::Value::Bool(value) => Value::Bool(*value),
        et_module::Value::Str(text) => Value::String(text.clone()),
        et_module::Value::Tensor(tensor) => {
            let array = layout::to_array(tensor);
            Value::Tensor(array.map_err(|error| error.failure("output", "an output"))?)
        }
        other => {
            let message = format!("an output is a {}, which is not known here", other.kind());
            return Err(Failure::file("output", message));
        }
    })
}

/// An output that is on a device and stays there.
pub(crate) fn on_device(tensor: &et_kernel::Tensor) -> Value {
    Value::OnDevice(Remote {
        scalar_type: layout::scalar_type(tensor.dtype()),
        sizes: tensor.sizes().to_vec(),
        device: tensor.device(),
    })
}

/// The value as the runtime takes it, laid out as the method wants it.
pub(crate) fn to_runtime(
    index: usize,
    value: &Value,
    spec: Option<&Spec>,
) -> Result<et_module::Value, Failure> {
    Ok(match value {
        Value::None => et_module::Value::None,
        Value::Int(value) => et_module::Value::Int(*value),
        Value::Double(value) => et_module::Value::Double(*value),
        Value::Bool(value) => et_module::Value::Bool(*value),
        Value::String(value) => et_module::Value::Str(value.clone()),
        Value::List(_) | Value::OnDevice(_) => {
            let message = format!("input {index}: a list is no input; its items are");
            return Err(Failure::file("input.kind", message));
        }
        Value::Tensor(array) => {
            let natural: Vec<u8> = (0..=u8::MAX).take(array.sizes.len()).collect();
            // Another rank is for the runtime to refuse, with the place where it is declared.
            let wanted = spec.and_then(Spec::dim_order);
            let order = wanted
                .filter(|order| order.len() == natural.len())
                .unwrap_or(&natural);
            let tensor = layout::to_tensor(array, order)
                .map_err(|error| error.failure("input.tensor", &format!("input {index}")))?;
            et_module::Value::Tensor(tensor)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Tensor;

    fn tensor(dtype: et_kernel::ScalarType, sizes: &[usize]) -> Spec {
        Spec::Tensor(Box::new(TensorMeta::contiguous(dtype, sizes).unwrap()))
    }

    #[test]
    fn made_up_inputs_have_the_declared_shapes() {
        let specs = [
            tensor(et_kernel::ScalarType::Float, &[2, 3]),
            Spec::Other(ValueKind::Int),
        ];
        let values = made_up(&specs, |_| Value::Int(7), 24).unwrap();
        let Value::Tensor(first) = &values[0] else {
            panic!("{values:?}")
        };
        assert_eq!(first.sizes, [2, 3]);
        assert_eq!(values[1], Value::Int(7));
    }

    #[test]
    fn made_up_inputs_have_a_limit() {
        let one = tensor(et_kernel::ScalarType::Float, &[2, 3]);
        assert!(made_up(&[one.clone(), one.clone()], |_| Value::None, 48).is_ok());
        let failure = made_up(&[one.clone(), one], |_| Value::None, 47).unwrap_err();
        assert!(
            failure.message.contains("--max-input-bytes"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn lists_are_spliced_into_the_flat_order() {
        let mut values = Vec::new();
        let inner = Value::List(vec![Value::Int(2), Value::Int(3)]);
        flatten(
            Value::List(vec![Value::Int(1), inner, Value::None]),
            &mut values,
        );
        assert_eq!(
            values,
            [Value::Int(1), Value::Int(2), Value::Int(3), Value::None]
        );
    }

    #[test]
    fn a_tensor_is_laid_out_as_the_method_wants_it() {
        let array = Tensor {
            scalar_type: ScalarType::Byte,
            sizes: vec![2, 2],
            bytes: vec![1, 2, 3, 4],
        };
        let meta = TensorMeta::new(et_kernel::ScalarType::Byte, &[2, 2], &[1, 0]).unwrap();
        let spec = Spec::Tensor(Box::new(meta));
        let value = to_runtime(0, &Value::Tensor(array), Some(&spec)).unwrap();
        assert_eq!(value.as_tensor().unwrap().bytes().unwrap(), [1, 3, 2, 4]);
    }
}
