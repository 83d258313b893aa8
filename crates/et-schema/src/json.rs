//! How numbers and blobs of the file look in JSON.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::owned::{AllocationDetails, Value};
use crate::scalar_type::ScalarType;
use crate::view::{Dynamism, TensorLocation};

pub(crate) fn scalar_type<S: Serializer>(value: &ScalarType, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.name())
}

pub(crate) fn dynamism<S: Serializer>(value: &Dynamism, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.name())
}

pub(crate) fn tensor_location<S: Serializer>(
    value: &TensorLocation,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.name())
}

/// The name of a device type; the number where it has none.
pub(crate) fn device_type<S: Serializer>(value: &i8, to: S) -> Result<S::Ok, S::Error> {
    match crate::view::device_type_name(*value) {
        Some(name) => to.serialize_str(name),
        None => to.serialize_i8(*value),
    }
}

/// The length of a blob instead of its bytes.
pub(crate) fn blob<S: Serializer>(value: &[u8], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(1))?;
    map.serialize_entry("nbytes", &value.len())?;
    map.end()
}

/// A number as JSON has it; infinities and not-a-number, which JSON lacks, as texts.
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            finite if finite.is_finite() => to.serialize_f64(finite),
            nan if nan.is_nan() => to.serialize_str("nan"),
            positive if positive > 0.0 => to.serialize_str("inf"),
            _ => to.serialize_str("-inf"),
        }
    }
}

struct Numbers<'a>(&'a [f64]);

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.0.len()))?;
        for number in self.0 {
            list.serialize_element(&Number(*number))?;
        }
        list.end()
    }
}

/// One field, as the table of a union member has it.
struct Field<T>(Option<(&'static str, T)>);

impl<T: Serialize> Serialize for Field<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(usize::from(self.0.is_some())))?;
        if let Some((name, value)) = &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(1))?;
        match self {
            Self::Null => map.serialize_entry("Null", &Field::<()>(None))?,
            Self::Int(int) => map.serialize_entry("Int", &Field(Some(("int_val", int))))?,
            Self::Bool(bool) => map.serialize_entry("Bool", &Field(Some(("bool_val", bool))))?,
            Self::Double(double) => {
                map.serialize_entry("Double", &Field(Some(("double_val", Number(*double)))))?;
            }
            Self::Tensor(tensor) => map.serialize_entry("Tensor", tensor)?,
            Self::String(text) => {
                map.serialize_entry("String", &Field(Some(("string_val", text))))?;
            }
            Self::IntList(items) => {
                map.serialize_entry("IntList", &Field(Some(("items", items))))?;
            }
            Self::DoubleList(items) => {
                map.serialize_entry("DoubleList", &Field(Some(("items", Numbers(items)))))?;
            }
            Self::BoolList(items) => {
                map.serialize_entry("BoolList", &Field(Some(("items", items))))?;
            }
            Self::TensorList(items) => {
                map.serialize_entry("TensorList", &Field(Some(("items", items))))?;
            }
            Self::OptionalTensorList(items) => {
                map.serialize_entry("OptionalTensorList", &Field(Some(("items", items))))?;
            }
        }
        map.end()
    }
}

impl Serialize for AllocationDetails {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let [low, high] = self.halves();
        let mut map = to.serialize_map(Some(3))?;
        map.serialize_entry("memory_id", &self.memory_id)?;
        map.serialize_entry("memory_offset_low", &low)?;
        map.serialize_entry("memory_offset_high", &high)?;
        map.end()
    }
}

pub(crate) fn number<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    Number(*value).serialize(to)
}
