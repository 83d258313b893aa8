//! Inputs and outputs as files and documents hold them.

use crate::npy::{Array, Dtype};
use et_device::Device;
use et_schema::ScalarType;

/// An input or output of a method.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// No value.
    None,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    String(String),
    /// An array of numbers.
    Tensor(Tensor),
    /// An array of numbers that was left on its device.
    OnDevice(Remote),
    /// Several values that are one argument.
    List(Vec<Value>),
}

/// A tensor whose elements nobody fetched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Remote {
    /// The type of the elements.
    pub(crate) scalar_type: ScalarType,
    /// The size of each dimension.
    pub(crate) sizes: Vec<usize>,
    /// Where it is.
    pub(crate) device: Device,
}

impl Value {
    /// The name of its kind in documents.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
            Self::Bool(_) => "bool",
            Self::String(_) => "string",
            Self::Tensor(_) | Self::OnDevice(_) => "tensor",
            Self::List(_) => "list",
        }
    }
}

/// An array of numbers: little-endian elements in logical (C) order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    /// The type of the elements.
    pub(crate) scalar_type: ScalarType,
    /// The size of each dimension; none for a single element.
    pub(crate) sizes: Vec<usize>,
    /// The elements.
    pub(crate) bytes: Vec<u8>,
}

/// A file whose elements are not of the wanted type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} elements cannot be read from a {} array{}", wanted.name(), found.name(), hint(*wanted))]
pub(crate) struct WrongDtype {
    wanted: ScalarType,
    found: Dtype,
}

fn hint(wanted: ScalarType) -> String {
    match storage(wanted) {
        Some(dtype) => format!(": use {}", dtype.name()),
        None => ": .npy has no such type".into(),
    }
}

impl Tensor {
    /// The array as elements of `wanted`, or of the type that NumPy's type stands for.
    ///
    /// Types that NumPy lacks are stored as raw bits: bfloat16 in uint16.
    pub(crate) fn from_npy(array: Array, wanted: Option<ScalarType>) -> Result<Self, WrongDtype> {
        let Array {
            dtype,
            sizes,
            bytes,
        } = array;
        let scalar_type = wanted.unwrap_or_else(|| natural(dtype));
        if storage(scalar_type) != Some(dtype) {
            return Err(WrongDtype {
                wanted: scalar_type,
                found: dtype,
            });
        }
        Ok(Self {
            scalar_type,
            sizes,
            bytes,
        })
    }

    /// The type of the elements in a `.npy` file; none if such a file cannot hold them.
    pub(crate) fn npy_dtype(&self) -> Option<Dtype> {
        storage(self.scalar_type)
    }
}

/// The scalar type that a NumPy type stands for.
fn natural(dtype: Dtype) -> ScalarType {
    match dtype {
        Dtype::Bool => ScalarType::Bool,
        Dtype::Int8 => ScalarType::Char,
        Dtype::Int16 => ScalarType::Short,
        Dtype::Int32 => ScalarType::Int,
        Dtype::Int64 => ScalarType::Long,
        Dtype::UInt8 => ScalarType::Byte,
        Dtype::UInt16 => ScalarType::UInt16,
        Dtype::UInt32 => ScalarType::UInt32,
        Dtype::UInt64 => ScalarType::UInt64,
        Dtype::Float16 => ScalarType::Half,
        Dtype::Float32 => ScalarType::Float,
        Dtype::Float64 => ScalarType::Double,
        Dtype::Complex64 => ScalarType::ComplexFloat,
        Dtype::Complex128 => ScalarType::ComplexDouble,
    }
}

/// The NumPy type whose elements hold a scalar type's bits.
pub(crate) fn storage(scalar_type: ScalarType) -> Option<Dtype> {
    Some(match scalar_type {
        ScalarType::Bool => Dtype::Bool,
        ScalarType::Char | ScalarType::QInt8 => Dtype::Int8,
        ScalarType::Short => Dtype::Int16,
        ScalarType::Int | ScalarType::QInt32 => Dtype::Int32,
        ScalarType::Long => Dtype::Int64,
        ScalarType::UInt16 | ScalarType::BFloat16 | ScalarType::Bits16 => Dtype::UInt16,
        ScalarType::UInt32 => Dtype::UInt32,
        ScalarType::UInt64 => Dtype::UInt64,
        ScalarType::Half => Dtype::Float16,
        ScalarType::Float => Dtype::Float32,
        ScalarType::Double => Dtype::Float64,
        ScalarType::ComplexFloat => Dtype::Complex64,
        ScalarType::ComplexDouble => Dtype::Complex128,
        other if other.element_size() == 1 => Dtype::UInt8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dtype: Dtype) -> Array {
        Array {
            dtype,
            sizes: vec![1],
            bytes: vec![0; dtype.nbytes()],
        }
    }

    #[test]
    fn bfloat16_is_read_from_raw_bits() {
        let tensor = Tensor::from_npy(array(Dtype::UInt16), Some(ScalarType::BFloat16)).unwrap();
        assert_eq!(tensor.scalar_type, ScalarType::BFloat16);
        let plain = Tensor::from_npy(array(Dtype::UInt16), None).unwrap();
        assert_eq!(plain.scalar_type, ScalarType::UInt16);
    }

    #[test]
    fn another_type_is_refused_with_the_one_to_use() {
        let wrong = Tensor::from_npy(array(Dtype::Float64), Some(ScalarType::Float)).unwrap_err();
        let text = wrong.to_string();
        assert_eq!(
            text,
            "FLOAT elements cannot be read from a float64 array: use float32"
        );
    }

    #[test]
    fn stored_types_have_the_size_of_the_elements() {
        for scalar_type in ScalarType::all() {
            if let Some(dtype) = storage(scalar_type) {
                assert_eq!(
                    dtype.nbytes() as u64,
                    scalar_type.element_size(),
                    "{scalar_type:?}"
                );
            }
        }
    }
}
