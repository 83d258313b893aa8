//! Methods: instructions, operators, delegates, planned buffers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::Value;
use crate::device_tag::DeviceTag;

/// A method.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExecutionPlan {
    /// The method's name.
    pub name: String,
    /// How flat inputs and outputs fold back into the model's containers.
    pub container_meta_type: Option<ContainerMetadata>,
    /// The values that everything else names by index.
    pub values: Vec<Value>,
    /// Values that the caller sets.
    pub inputs: Vec<i32>,
    /// Values that the caller gets.
    pub outputs: Vec<i32>,
    /// Lists of instructions; one in every known file.
    pub chains: Vec<Chain>,
    /// Operators that kernel calls name by index.
    pub operators: Vec<Operator>,
    /// Delegates that delegate calls name by index.
    pub delegates: Vec<BackendDelegate>,
    /// Bytes of each planned buffer; entry 0 is reserved and 0.
    pub non_const_buffer_sizes: Vec<i64>,
    /// The planned buffers that are not on the CPU; absent in programs that know no devices.
    pub non_const_buffer_device: Option<Vec<NonConstBufferDevice>>,
}

impl ExecutionPlan {
    /// The instructions of all chains, one chain after the other.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> + Clone {
        self.chains.iter().flat_map(|chain| &chain.instructions)
    }

    /// The operator that a kernel call names; `None` if there is none.
    pub fn operator(&self, call: &KernelCall) -> Option<&Operator> {
        self.operators.get(usize::try_from(call.op_index).ok()?)
    }

    /// Whether the method says on which devices its planned buffers are. One that does not is from an exporter that
    /// knew no device memory: whatever its values are tagged with, all of it is planned on the CPU.
    pub fn knows_devices(&self) -> bool {
        self.non_const_buffer_device.is_some()
    }

    /// On which devices the planned buffers are.
    pub fn buffer_devices(&self) -> BufferDevices {
        let mut devices = BTreeMap::new();
        for entry in self.non_const_buffer_device.iter().flatten() {
            if let Ok(memory_id) = u32::try_from(entry.buffer_idx) {
                let device = DeviceTag::new(entry.device_type, entry.device_index);
                devices.entry(memory_id).or_insert(device.normal());
            }
        }
        BufferDevices(devices)
    }

    /// Adds a planned buffer of this many bytes and returns its memory id, which is at least 1. Without a table of
    /// devices one is made if the buffer is not on the CPU.
    ///
    /// `None` if the method has as many buffers as the format holds; it is then as it was.
    pub fn add_buffer(&mut self, nbytes: i64, device: DeviceTag) -> Option<u32> {
        let sizes = &mut self.non_const_buffer_sizes;
        let id = sizes.len().max(1);
        let buffer_idx = i32::try_from(id).ok()?;
        // The reserved entry, where there was none.
        sizes.resize(id, 0);
        sizes.push(nbytes);
        if !device.is_cpu() {
            let entry = NonConstBufferDevice {
                buffer_idx,
                device_type: device.device_type,
                device_index: device.device_index,
            };
            self.non_const_buffer_device
                .get_or_insert_default()
                .push(entry);
        }
        Some(buffer_idx.cast_unsigned())
    }
}

/// On which devices the planned buffers of a method are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BufferDevices(BTreeMap<u32, DeviceTag>);

impl BufferDevices {
    /// The device of a buffer: the CPU unless an entry says otherwise. Of two entries for one buffer the first counts.
    pub fn of(&self, memory_id: u32) -> DeviceTag {
        self.0.get(&memory_id).copied().unwrap_or_default()
    }

    /// The buffers that are not on the CPU, in order.
    pub fn elsewhere(&self) -> impl Iterator<Item = (u32, DeviceTag)> {
        let entries = self
            .0
            .iter()
            .map(|(&memory_id, &device)| (memory_id, device));
        entries.filter(|(_, device)| !device.is_cpu())
    }
}

/// How flat inputs and outputs fold back into containers (JSON texts).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ContainerMetadata {
    /// Of the inputs.
    pub encoded_inp_str: Option<String>,
    /// Of the outputs.
    pub encoded_out_str: Option<String>,
}

/// The device of one planned buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NonConstBufferDevice {
    /// Index into [`ExecutionPlan::non_const_buffer_sizes`].
    pub buffer_idx: i32,
    /// The format's number of the device type: 0 CPU, 1 CUDA.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::device_type"))]
    pub device_type: i8,
    /// Which device of that type.
    pub device_index: i8,
}

/// An operator by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Operator {
    /// Namespace and name, such as `aten::add`.
    pub name: String,
    /// Overload, such as `out`; may be empty.
    pub overload: String,
}

/// A part of the method that a backend runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BackendDelegate {
    /// The backend's name.
    pub id: String,
    /// Where its data is.
    pub processed: BackendDelegateDataReference,
    /// Options for it, in order.
    pub compile_specs: Vec<CompileSpec>,
}

/// Where a delegate's data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BackendDelegateDataReference {
    /// Which list.
    pub location: DataLocation,
    /// Index into that list.
    pub index: u32,
}

/// The two lists that delegate data can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "UPPERCASE"))]
pub enum DataLocation {
    /// [`Program::backend_delegate_data`](super::Program::backend_delegate_data).
    #[default]
    Inline,
    /// [`Program::segments`](super::Program::segments).
    Segment,
}

/// An option for a backend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CompileSpec {
    /// Its name.
    pub key: String,
    /// Bytes that only the backend understands.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::blob"))]
    pub value: Vec<u8>,
}

/// A list of instructions that run one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Chain {
    /// Values that the chain reads; exporters leave this empty.
    pub inputs: Vec<i32>,
    /// Values that the chain writes; exporters leave this empty.
    pub outputs: Vec<i32>,
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// Which source lines each instruction came from.
    pub stacktrace: Option<Vec<FrameList>>,
}

/// The source lines of one instruction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FrameList {
    /// Outermost first.
    pub items: Vec<Frame>,
}

/// A line of the model's source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Frame {
    /// File name.
    pub filename: String,
    /// Line number.
    pub lineno: i32,
    /// Function name.
    pub name: String,
    /// The text of the line.
    pub context: String,
}

/// One step of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Instruction {
    /// Calls an operator.
    KernelCall(KernelCall),
    /// Calls a delegate.
    DelegateCall(DelegateCall),
    /// Makes one value the same as another.
    MoveCall(MoveCall),
    /// Goes on elsewhere if a value is false.
    JumpFalseCall(JumpFalseCall),
    /// Gives up the memory of a tensor.
    FreeCall(FreeCall),
}

/// A call of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KernelCall {
    /// Index into [`ExecutionPlan::operators`].
    pub op_index: i32,
    /// Values that it reads and writes.
    pub args: Vec<i32>,
}

/// A call of a delegate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DelegateCall {
    /// Index into [`ExecutionPlan::delegates`].
    pub delegate_index: i32,
    /// Values that it reads and writes.
    pub args: Vec<i32>,
}

/// Makes one value the same as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MoveCall {
    /// The value to take.
    pub move_from: i32,
    /// The value to set.
    pub move_to: i32,
}

/// Goes on elsewhere if a value is false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct JumpFalseCall {
    /// The value to look at.
    pub cond_value_index: i32,
    /// Index of an instruction of the same chain, or their number for its end.
    pub destination_instruction: i32,
}

/// Gives up the memory of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FreeCall {
    /// The tensor.
    pub value_index: i32,
}
