//! From verified files to owned values.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{
    AllocationDetails, BackendDelegate, BackendDelegateDataReference, BackendDelegateInlineData,
    Buffer, Chain, CompileSpec, ContainerMetadata, DataLocation, DataSegment, DelegateCall,
    ExecutionPlan, ExtraTensorInfo, FlatTensor, Frame, FrameList, FreeCall, Instruction,
    JumpFalseCall, KernelCall, MoveCall, NamedData, NamedTensor, NonConstBufferDevice, Operator,
    Program, SubsegmentOffsets, Tensor, TensorLayout, Value,
};
use crate::flat_tensor::{FlatTensorEntry, TensorLayoutView, VerifiedFlatTensor};
use crate::generated::pte;
use crate::list::{Item, List};
use crate::problem::Rule;
use crate::program::VerifiedProgram;
use crate::scalar_type::ScalarType;
use crate::validate::{self, FirstOf};
use crate::view::{
    ChainView, DelegateView, InstructionView, PlanView, Processed, SegmentView, SubsegmentView,
    TensorView, ValueView, tables,
};

/// The file has a field that this version does not know, so that writing it again would lose it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {found}, which is newer than this version and would be lost")]
pub struct UnreadableField {
    /// The table that has the field.
    pub path: String,
    /// What is known about the field.
    pub found: String,
}

impl Program {
    /// The program as owned values.
    ///
    /// # Errors
    /// [`UnreadableField`] if a table has fields that this version does not know.
    pub fn from_verified(program: &VerifiedProgram) -> Result<Self, UnreadableField> {
        let mut newer = FirstOf(Rule::NewerField);
        match validate::program(&program.root(), &mut newer) {
            Ok(()) => Ok(Self::without_newer_fields(program)),
            Err(problem) => Err(UnreadableField {
                path: problem.path,
                found: problem.found,
            }),
        }
    }

    /// The program as owned values, without the fields that this version does not know.
    pub fn without_newer_fields(program: &VerifiedProgram) -> Self {
        let root = program.root();
        let table = root.table();
        Self {
            version: root.version(),
            execution_plan: root.plans().map(plan).collect(),
            constant_buffer: root
                .inline_constants()
                .map(|bytes| Buffer {
                    storage: bytes.to_vec(),
                })
                .collect(),
            backend_delegate_data: tables(table.backend_delegate_data())
                .map(|data| BackendDelegateInlineData {
                    data: data
                        .data()
                        .map(|bytes| bytes.bytes().to_vec())
                        .unwrap_or_default(),
                })
                .collect(),
            segments: root.segments().map(segment).collect(),
            constant_segment: root.constant_segment().map(subsegment),
            mutable_data_segments: table
                .mutable_data_segments()
                .is_some()
                .then(|| root.mutable_data().map(subsegment).collect()),
            named_data: root.has_named_data().then(|| {
                root.named_data()
                    .map(|entry| NamedData {
                        key: entry.key.to_string(),
                        segment_index: entry.segment_index,
                    })
                    .collect()
            }),
        }
    }
}

impl FlatTensor {
    /// The file as owned values.
    ///
    /// # Errors
    /// [`UnreadableField`] if a table has fields that this version does not know.
    pub fn from_verified(file: &VerifiedFlatTensor) -> Result<Self, UnreadableField> {
        let mut newer = FirstOf(Rule::NewerField);
        if let Err(problem) = validate::flat_tensor(&file.root(), &mut newer) {
            return Err(UnreadableField {
                path: problem.path,
                found: problem.found,
            });
        }
        let root = file.root();
        Ok(Self {
            version: root.version(),
            segments: root.segments().map(segment).collect(),
            named_data: root.entries().map(named_tensor).collect(),
        })
    }
}

fn named_tensor(entry: FlatTensorEntry<'_>) -> NamedTensor {
    NamedTensor {
        key: entry.key.to_string(),
        segment_index: entry.segment_index,
        tensor_layout: entry.layout.map(tensor_layout),
    }
}

fn tensor_layout(layout: TensorLayoutView<'_>) -> TensorLayout {
    TensorLayout {
        scalar_type: known(layout.scalar_type()),
        sizes: numbers(layout.sizes()),
        dim_order: layout.dim_order().to_vec(),
    }
}

fn segment(view: SegmentView) -> DataSegment {
    DataSegment {
        offset: view.offset,
        size: view.size,
    }
}

fn subsegment(view: SubsegmentView<'_>) -> SubsegmentOffsets {
    SubsegmentOffsets {
        segment_index: view.segment_index(),
        offsets: numbers(view.offsets()),
    }
}

fn plan(view: PlanView<'_>) -> ExecutionPlan {
    ExecutionPlan {
        name: view.name().to_string(),
        container_meta_type: view
            .table()
            .container_meta_type()
            .map(|meta| ContainerMetadata {
                encoded_inp_str: meta.encoded_inp_str().map(str::to_string),
                encoded_out_str: meta.encoded_out_str().map(str::to_string),
            }),
        values: view.values().map(value).collect(),
        inputs: signed(view.inputs()),
        outputs: signed(view.outputs()),
        chains: view.chains().map(chain).collect(),
        operators: view
            .operators()
            .map(|operator| Operator {
                name: operator.name.to_string(),
                overload: operator.overload.to_string(),
            })
            .collect(),
        delegates: view.delegates().map(delegate).collect(),
        non_const_buffer_sizes: numbers(view.buffer_sizes()),
        non_const_buffer_device: view.has_buffer_devices().then(|| {
            view.buffer_devices()
                .map(|entry| NonConstBufferDevice {
                    buffer_idx: entry.buffer.cast_signed(),
                    device_type: entry.device_type,
                    device_index: entry.device_index,
                })
                .collect()
        }),
    }
}

fn delegate(view: DelegateView<'_>) -> BackendDelegate {
    let (location, index) = match view.processed() {
        Processed::Inline(index) => (DataLocation::Inline, index),
        Processed::Segment(index) => (DataLocation::Segment, index),
        Processed::Absent => unreachable!("a verified delegate has data"),
    };
    BackendDelegate {
        id: view.id().to_string(),
        processed: BackendDelegateDataReference { location, index },
        compile_specs: view
            .compile_specs()
            .map(|spec| CompileSpec {
                key: spec.key.to_string(),
                value: spec.value.to_vec(),
            })
            .collect(),
    }
}

fn chain(view: ChainView<'_>) -> Chain {
    Chain {
        inputs: signed(view.inputs()),
        outputs: signed(view.outputs()),
        instructions: view.instructions().map(instruction).collect(),
        stacktrace: view
            .table()
            .stacktrace()
            .map(|lists| tables(Some(lists)).map(frames).collect()),
    }
}

fn frames(list: pte::FrameList<'_>) -> FrameList {
    let text = |text: Option<&str>| text.unwrap_or_default().to_string();
    let frame = |frame: pte::Frame<'_>| Frame {
        filename: text(frame.filename()),
        lineno: frame.lineno(),
        name: text(frame.name()),
        context: text(frame.context()),
    };
    FrameList {
        items: tables(list.items()).map(frame).collect(),
    }
}

fn instruction(view: InstructionView<'_>) -> Instruction {
    match view {
        InstructionView::Kernel { op, args } => Instruction::KernelCall(KernelCall {
            op_index: op.cast_signed(),
            args: signed(args),
        }),
        InstructionView::Delegate { index, args } => Instruction::DelegateCall(DelegateCall {
            delegate_index: index.cast_signed(),
            args: signed(args),
        }),
        InstructionView::Move { from, to } => Instruction::MoveCall(MoveCall {
            move_from: from.cast_signed(),
            move_to: to.cast_signed(),
        }),
        InstructionView::JumpFalse { cond, target } => Instruction::JumpFalseCall(JumpFalseCall {
            cond_value_index: cond.cast_signed(),
            destination_instruction: target.cast_signed(),
        }),
        InstructionView::Free { value } => Instruction::FreeCall(FreeCall {
            value_index: value.cast_signed(),
        }),
        InstructionView::Unknown(_) => unreachable!("a verified instruction is known"),
    }
}

fn value(view: ValueView<'_>) -> Value {
    match view {
        ValueView::None => Value::Null,
        ValueView::Int(int) => Value::Int(int),
        ValueView::Bool(bool) => Value::Bool(bool),
        ValueView::Double(double) => Value::Double(double),
        ValueView::Tensor(view) => Value::Tensor(tensor(view)),
        ValueView::Str(text) => Value::String(text.to_string()),
        ValueView::IntList(items) => Value::IntList(numbers(items)),
        ValueView::DoubleList(items) => Value::DoubleList(numbers(items)),
        ValueView::BoolList(items) => Value::BoolList(numbers(items)),
        ValueView::TensorList(items) => Value::TensorList(numbers(items)),
        ValueView::OptionalTensorList(items) => Value::OptionalTensorList(numbers(items)),
        ValueView::Unknown(_) => unreachable!("a verified value is known"),
    }
}

fn tensor(view: TensorView<'_>) -> Tensor {
    Tensor {
        scalar_type: known(view.scalar_type()),
        storage_offset: view.storage_offset(),
        sizes: numbers(view.sizes()),
        dim_order: view.dim_order().to_vec(),
        requires_grad: view.requires_grad(),
        data_buffer_idx: view.data_buffer_idx(),
        allocation_info: view.allocation().map(|allocation| AllocationDetails {
            memory_id: allocation.memory_id,
            memory_offset: allocation.offset,
        }),
        layout: view.layout_code(),
        shape_dynamism: view.dynamism(),
        extra_tensor_info: view.has_extra_info().then(|| ExtraTensorInfo {
            mutable_data_segments_idx: view.mutable_data_list(),
            fully_qualified_name: view.fully_qualified_name().map(str::to_string),
            location: view.location(),
            device_type: view.device_type(),
            device_index: view.device_index(),
        }),
    }
}

fn known(scalar_type: Option<ScalarType>) -> ScalarType {
    scalar_type.expect("a verified tensor's element type is known")
}

fn numbers<T: Item>(list: List<'_, T>) -> Vec<T> {
    list.iter().collect()
}

fn signed(list: List<'_, u32>) -> Vec<i32> {
    list.iter().map(u32::cast_signed).collect()
}
