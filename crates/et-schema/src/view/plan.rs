//! One method: its values, instructions, operators, delegates and planned buffers.

use super::{ChainView, ValueKind, ValueView, numbers, table_at, tables};
use crate::generated::pte;
use crate::list::List;
use crate::number::mem_index;

/// A method.
#[derive(Debug, Clone, Copy)]
pub struct PlanView<'a>(pte::ExecutionPlan<'a>);

impl<'a> PlanView<'a> {
    pub(crate) fn new(table: pte::ExecutionPlan<'a>) -> Self {
        Self(table)
    }

    pub(crate) fn table(&self) -> pte::ExecutionPlan<'a> {
        self.0
    }

    /// The method's name.
    pub fn name(&self) -> &'a str {
        self.0.name().unwrap_or_default()
    }

    /// How the flat inputs fold back into the model's containers (a JSON text), if the file says.
    pub fn input_encoding(&self) -> Option<&'a str> {
        self.0
            .container_meta_type()
            .and_then(|meta| meta.encoded_inp_str())
    }

    /// How the flat outputs fold back into the model's containers (a JSON text), if the file says.
    pub fn output_encoding(&self) -> Option<&'a str> {
        self.0
            .container_meta_type()
            .and_then(|meta| meta.encoded_out_str())
    }

    /// Indices of the values that the caller sets.
    pub fn inputs(&self) -> List<'a, u32> {
        numbers(self.0.inputs())
    }

    /// Indices of the values that the caller gets.
    pub fn outputs(&self) -> List<'a, u32> {
        numbers(self.0.outputs())
    }

    /// How many values there are.
    pub fn num_values(&self) -> usize {
        tables(self.0.values()).len()
    }

    /// The values, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = ValueView<'a>> + use<'a> {
        tables(self.0.values()).map(ValueView::new)
    }

    /// The value at `index`.
    pub fn value(&self, index: u32) -> Option<ValueView<'a>> {
        table_at(self.0.values(), mem_index(index)).map(ValueView::new)
    }

    /// The kind of the value at `index`; quicker than looking at the value.
    pub fn value_kind(&self, index: u32) -> Option<ValueKind> {
        table_at(self.0.values(), mem_index(index)).map(ValueKind::of)
    }

    /// The lists of instructions. Every known exporter writes one.
    pub fn chains(&self) -> impl ExactSizeIterator<Item = ChainView<'a>> + use<'a> {
        tables(self.0.chains()).map(ChainView::new)
    }

    /// The operators that kernel calls name by index.
    pub fn operators(&self) -> impl ExactSizeIterator<Item = OperatorView<'a>> + use<'a> {
        tables(self.0.operators()).map(OperatorView::new)
    }

    /// The operator at `index`.
    pub fn operator(&self, index: u32) -> Option<OperatorView<'a>> {
        table_at(self.0.operators(), mem_index(index)).map(OperatorView::new)
    }

    /// The delegates that delegate calls name by index.
    pub fn delegates(&self) -> impl ExactSizeIterator<Item = DelegateView<'a>> + use<'a> {
        tables(self.0.delegates()).map(DelegateView::new)
    }

    /// The delegate at `index`.
    pub fn delegate(&self, index: u32) -> Option<DelegateView<'a>> {
        table_at(self.0.delegates(), mem_index(index)).map(DelegateView::new)
    }

    /// Bytes of each planned buffer, by memory id. Entry 0 is reserved and holds 0.
    pub fn buffer_sizes(&self) -> List<'a, i64> {
        numbers(self.0.non_const_buffer_sizes())
    }

    /// True if the file says where planned buffers live, even if none is outside of the CPU. Older
    /// programs do not say, and are planned for the CPU whatever their tensors' devices are.
    pub fn has_buffer_devices(&self) -> bool {
        self.0.non_const_buffer_device().is_some()
    }

    /// The planned buffers that are not on the CPU, as the file lists them.
    pub fn buffer_devices(&self) -> impl ExactSizeIterator<Item = BufferDeviceView> + use<'a> {
        tables(self.0.non_const_buffer_device()).map(|entry| BufferDeviceView {
            buffer: entry.buffer_idx().cast_unsigned(),
            device_type: entry.device_type().0,
            device_index: entry.device_index(),
        })
    }
}

/// The device of one planned buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferDeviceView {
    /// The buffer, as an index into [`PlanView::buffer_sizes`].
    pub buffer: u32,
    /// The format's number of the device type: 0 CPU, 1 CUDA.
    pub device_type: i8,
    /// Which device of that type.
    pub device_index: i8,
}

/// An operator by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperatorView<'a> {
    /// Namespace and name, such as `aten::add`.
    pub name: &'a str,
    /// Overload, such as `out`; may be empty.
    pub overload: &'a str,
}

impl<'a> OperatorView<'a> {
    fn new(table: pte::Operator<'a>) -> Self {
        Self {
            name: table.name().unwrap_or_default(),
            overload: table.overload().unwrap_or_default(),
        }
    }
}

/// A part of the method that a backend runs.
#[derive(Debug, Clone, Copy)]
pub struct DelegateView<'a>(pte::BackendDelegate<'a>);

impl<'a> DelegateView<'a> {
    fn new(table: pte::BackendDelegate<'a>) -> Self {
        Self(table)
    }

    /// The backend's name.
    pub fn id(&self) -> &'a str {
        self.0.id().unwrap_or_default()
    }

    /// Where the backend's data is.
    pub fn processed(&self) -> Processed {
        let Some(reference) = self.0.processed() else {
            return Processed::Absent;
        };
        match reference.location() {
            pte::DataLocation::INLINE => Processed::Inline(reference.index()),
            pte::DataLocation::SEGMENT => Processed::Segment(reference.index()),
            _ => Processed::Absent,
        }
    }

    /// Options for the backend, in order.
    pub fn compile_specs(&self) -> impl ExactSizeIterator<Item = CompileSpecView<'a>> + use<'a> {
        tables(self.0.compile_specs()).map(|spec| CompileSpecView {
            key: spec.key().unwrap_or_default(),
            value: spec.value().map(|bytes| bytes.bytes()).unwrap_or_default(),
        })
    }

    /// The value of the first option with this key.
    pub fn compile_spec(&self, key: &str) -> Option<&'a [u8]> {
        self.compile_specs()
            .find(|spec| spec.key == key)
            .map(|spec| spec.value)
    }
}

/// Where a delegate's data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Processed {
    /// In the FlatBuffer; see [`ProgramView::inline_delegate_data`](super::ProgramView::inline_delegate_data).
    Inline(u32),
    /// In the segment of this index.
    Segment(u32),
    /// The file does not say. Never in a verified program.
    Absent,
}

/// An option for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileSpecView<'a> {
    /// Its name.
    pub key: &'a str,
    /// Bytes that only the backend understands.
    pub value: &'a [u8],
}
