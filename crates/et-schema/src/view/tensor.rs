//! Tensors, as the file has them.

use super::numbers;
use crate::generated::pte;
use crate::list::List;
use crate::scalar_type::ScalarType;

/// How a tensor's shape may change. Unknown numbers of an unverified file read as `Static`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Dynamism {
    /// Not at all.
    #[default]
    Static,
    /// Up to the sizes in the file.
    DynamicBound,
    /// Without limit.
    DynamicUnbound,
}

impl Dynamism {
    /// The value with this code, if the format has one.
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Static),
            1 => Some(Self::DynamicBound),
            2 => Some(Self::DynamicUnbound),
            _ => None,
        }
    }

    /// The number that stands for it in files.
    pub fn code(self) -> i8 {
        match self {
            Self::Static => 0,
            Self::DynamicBound => 1,
            Self::DynamicUnbound => 2,
        }
    }

    /// The name in the schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "STATIC",
            Self::DynamicBound => "DYNAMIC_BOUND",
            Self::DynamicUnbound => "DYNAMIC_UNBOUND",
        }
    }
}

/// Whose file holds a tensor's data. Unknown numbers of an unverified file read as `Segment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TensorLocation {
    /// The program's own.
    #[default]
    Segment,
    /// A tensor data file, under the tensor's fully qualified name.
    External,
}

impl TensorLocation {
    /// The value with this code, if the format has one.
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Segment),
            1 => Some(Self::External),
            _ => None,
        }
    }

    /// The number that stands for it in files.
    pub fn code(self) -> i8 {
        match self {
            Self::Segment => 0,
            Self::External => 1,
        }
    }

    /// The name in the schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Segment => "SEGMENT",
            Self::External => "EXTERNAL",
        }
    }
}

/// Where a value lives in planned memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Allocation {
    /// Index into [`PlanView::buffer_sizes`](super::PlanView::buffer_sizes); 0 is reserved.
    pub memory_id: u32,
    /// Bytes from the start of that buffer.
    pub offset: u64,
}

impl Allocation {
    pub(crate) fn new(table: pte::AllocationDetails<'_>) -> Self {
        let offset = join(table.memory_offset_high(), table.memory_offset_low());
        Self {
            memory_id: table.memory_id(),
            offset,
        }
    }
}

/// The schema's name of a device type, if it has one.
pub fn device_type_name(device_type: i8) -> Option<&'static str> {
    pte::DeviceType(device_type).variant_name()
}

/// A tensor, as the file has it.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a>(pte::Tensor<'a>);

impl<'a> TensorView<'a> {
    pub(crate) fn new(table: pte::Tensor<'a>) -> Self {
        Self(table)
    }

    pub(crate) fn table(&self) -> pte::Tensor<'a> {
        self.0
    }

    /// The element type; `None` if this version does not know it (never in a verified program).
    pub fn scalar_type(&self) -> Option<ScalarType> {
        ScalarType::from_code(self.scalar_type_code())
    }

    /// The format's number of the element type.
    pub fn scalar_type_code(&self) -> i8 {
        self.0.scalar_type().0
    }

    /// Elements before the first one; 0 in a verified program.
    pub fn storage_offset(&self) -> i32 {
        self.0.storage_offset()
    }

    /// Length of each dimension, in logical order: upper bounds if the shape is dynamic. Never
    /// negative in a verified program.
    pub fn sizes(&self) -> List<'a, i32> {
        numbers(self.0.sizes())
    }

    /// Number of dimensions; at most 16 in a verified program.
    pub fn rank(&self) -> usize {
        self.sizes().len()
    }

    /// The dimensions from the slowest in memory to the fastest.
    pub fn dim_order(&self) -> &'a [u8] {
        self.0
            .dim_order()
            .map(|order| order.bytes())
            .unwrap_or_default()
    }

    /// How the shape may change.
    pub fn dynamism(&self) -> Dynamism {
        Dynamism::from_code(self.0.shape_dynamism().0).unwrap_or_default()
    }

    /// True if the exporter wanted gradients; says nothing to a runtime.
    pub fn requires_grad(&self) -> bool {
        self.0.requires_grad()
    }

    /// A number that exporters leave 0.
    pub fn layout_code(&self) -> i8 {
        self.0.layout()
    }

    /// Which constant or initial data; 0 means none. Means nothing if the data is external.
    pub fn data_buffer_idx(&self) -> u32 {
        self.0.data_buffer_idx()
    }

    /// Where it lies in planned memory, if it does.
    pub fn allocation(&self) -> Option<Allocation> {
        self.0.allocation_info().map(Allocation::new)
    }

    /// Whose file holds the data.
    pub fn location(&self) -> TensorLocation {
        let code = self.0.extra_tensor_info().map(|extra| extra.location().0);
        code.and_then(TensorLocation::from_code).unwrap_or_default()
    }

    /// The name of a parameter or buffer of the model, such as `layers.0.weight`.
    pub fn fully_qualified_name(&self) -> Option<&'a str> {
        self.0
            .extra_tensor_info()
            .and_then(|extra| extra.fully_qualified_name())
    }

    /// Which list of [`ProgramView::mutable_data`](super::ProgramView::mutable_data) has the initial
    /// data of a planned tensor.
    pub fn mutable_data_list(&self) -> u64 {
        self.0
            .extra_tensor_info()
            .map(|extra| extra.mutable_data_segments_idx())
            .unwrap_or(0)
    }

    /// The format's number of the device type: 0 CPU, 1 CUDA.
    pub fn device_type(&self) -> i8 {
        self.0
            .extra_tensor_info()
            .map(|extra| extra.device_type().0)
            .unwrap_or(0)
    }

    /// Which device of that type.
    pub fn device_index(&self) -> i8 {
        self.0
            .extra_tensor_info()
            .map(|extra| extra.device_index())
            .unwrap_or(0)
    }

    /// True if the file has the table of rare properties for this tensor.
    pub fn has_extra_info(&self) -> bool {
        self.0.extra_tensor_info().is_some()
    }

    /// True if its data is in a file and never changes.
    pub fn is_constant(&self) -> bool {
        let external = self.location() == TensorLocation::External;
        self.allocation().is_none() && (self.data_buffer_idx() != 0 || external)
    }

    /// Number of elements (upper bound if dynamic); `None` if a size is negative or the product does
    /// not fit 63 bits.
    pub fn numel(&self) -> Option<u64> {
        checked_numel(self.sizes())
    }

    /// Bytes of all elements (upper bound if dynamic); `None` as for [`numel`](Self::numel), or if
    /// the element type is unknown.
    pub fn nbytes(&self) -> Option<u64> {
        checked_nbytes(self.sizes(), self.scalar_type()?)
    }
}

fn join(high: u32, low: u32) -> u64 {
    let [l0, l1, l2, l3] = low.to_le_bytes();
    let [h0, h1, h2, h3] = high.to_le_bytes();
    u64::from_le_bytes([l0, l1, l2, l3, h0, h1, h2, h3])
}

/// The product of sizes; `None` if one is negative, or if the product does not fit 63 bits when each
/// 0 is counted as 1 (so that strides, which skip zeros, fit as well).
pub fn checked_numel(sizes: impl IntoIterator<Item = i32>) -> Option<u64> {
    let mut extent = 1u64;
    let mut empty = false;
    for size in sizes {
        let size = u64::try_from(size).ok()?;
        empty |= size == 0;
        extent = extent
            .checked_mul(size.max(1))
            .filter(|extent| i64::try_from(*extent).is_ok())?;
    }
    Some(if empty { 0 } else { extent })
}

/// The bytes of a tensor; `None` if a size is negative or the product does not fit 63 bits.
pub fn checked_nbytes(
    sizes: impl IntoIterator<Item = i32>,
    scalar_type: ScalarType,
) -> Option<u64> {
    let nbytes = checked_numel(sizes)?.checked_mul(scalar_type.element_size())?;
    i64::try_from(nbytes).is_ok().then_some(nbytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sizes: &[i32], nbytes: Option<u64>) {
        assert_eq!(
            checked_nbytes(sizes.iter().copied(), ScalarType::Float),
            nbytes
        );
    }

    #[test]
    fn no_dimensions_are_one_element() {
        check(&[], Some(4));
    }

    #[test]
    fn products_beyond_32_bits_are_exact() {
        check(&[65536, 65536], Some(4 << 32));
    }

    #[test]
    fn products_that_wrap_have_no_size() {
        check(&[65536, 65536, 65536, 65536], None);
        check(&[i32::MAX, i32::MAX, 4], None);
        check(&[i32::MAX; 16], None);
        check(&[i32::MAX, i32::MAX], None);
    }

    #[test]
    fn zeros_make_no_bytes_but_hide_nothing() {
        check(&[3, 0, i32::MAX], Some(0));
        check(&[i32::MAX, i32::MAX, i32::MAX, 0], None);
        check(&[0, -1], None);
    }

    #[test]
    fn halves_of_an_offset_are_joined() {
        assert_eq!(join(1, 0), 1 << 32);
        assert_eq!(join(u32::MAX, 0xFFFF_FFF0), 0xFFFF_FFFF_FFFF_FFF0);
    }
}
