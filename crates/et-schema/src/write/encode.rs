//! The FlatBuffer of a program or of tensor data.

use alloc::vec::Vec;

use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, Push, PushAlignment, Vector, WIPOffset};

use super::{WriteError, size};
use crate::aligned_bytes::OutOfMemory;
use crate::container::FileKind;
use crate::generated::{ptd, pte, scalar};
use crate::number::file_len;
use crate::owned::{
    BackendDelegate, Chain, ContainerMetadata, DataLocation, ExecutionPlan, ExtraTensorInfo,
    FlatTensor, FrameList, Instruction, NamedTensor, Program, SubsegmentOffsets, Tensor, Value,
};

/// What offsets of 32 bits reach, from a table forwards and backwards.
const LIMIT: u64 = 0x7FFF_FFFF;

/// Bytes for the identifier, the root and their padding.
const ROOT_ROOM: u64 = 64;

/// Alignment of blobs inside of the FlatBuffer.
pub(super) const BLOB_ALIGNMENT: usize = 16;

/// Size and alignment of the widest numbers.
const WIDE: usize = 8;

type Fbb = FlatBufferBuilder<'static>;
type Offset<T> = WIPOffset<T>;
type Tables<T> = WIPOffset<Vector<'static, ForwardsUOffset<T>>>;

/// The program's FlatBuffer, without a header.
pub(super) fn program(program: &Program) -> Result<Vec<u8>, WriteError> {
    let bound = size::program(program);
    let mut fbb = builder(bound)?;
    let root = program_table(&mut fbb, program);
    Ok(finish(fbb, root, FileKind::Program, bound))
}

/// The tensor data's FlatBuffer, without a header.
pub(super) fn flat_tensor(file: &FlatTensor) -> Result<Vec<u8>, WriteError> {
    let bound = size::flat_tensor(file);
    let mut fbb = builder(bound)?;
    let segments = each(&mut fbb, &file.segments, |fbb, it| {
        let args = ptd::DataSegmentArgs {
            offset: it.offset,
            size: it.size,
        };
        align_wide(fbb);
        ptd::DataSegment::create(fbb, &args)
    });
    let named_data = each(&mut fbb, &file.named_data, named_tensor);
    let args = ptd::FlatTensorArgs {
        version: file.version,
        segments: Some(segments),
        named_data: Some(named_data),
    };
    let root = ptd::FlatTensor::create(&mut fbb, &args);
    Ok(finish(fbb, root, FileKind::FlatTensor, bound))
}

fn builder(nbytes: u64) -> Result<Fbb, WriteError> {
    let nbytes = nbytes.saturating_add(ROOT_ROOM);
    if nbytes > LIMIT {
        return Err(WriteError::TooLarge {
            nbytes,
            limit: LIMIT,
        });
    }
    let oom = OutOfMemory { nbytes };
    let capacity = usize::try_from(nbytes).map_err(|_| oom)?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(capacity).map_err(|_| oom)?;
    buffer.resize(capacity, 0);
    let mut fbb = FlatBufferBuilder::from_vec(buffer);
    // Whatever is in it, the whole is aligned as its blobs must be.
    fbb.push(Align::<BLOB_ALIGNMENT>);
    Ok(fbb)
}

fn finish<T>(mut fbb: Fbb, root: Offset<T>, kind: FileKind, bound: u64) -> Vec<u8> {
    let identifier = kind.identifier();
    let identifier = core::str::from_utf8(&identifier).expect("identifiers are ASCII");
    fbb.finish(root, Some(identifier));
    let (mut buffer, start) = fbb.collapse();
    buffer.drain(..start);
    debug_assert!(
        file_len(buffer.len()) <= bound.saturating_add(ROOT_ROOM),
        "bound too small"
    );
    buffer
}

/// Makes the numbers of 8 bytes that are written next lie at multiples of 8, as the format has them.
///
/// The builder aligns as the processor does that writes, and 32-bit x86 is content with 4.
fn align_wide(fbb: &mut Fbb) {
    if align_of::<u64>() < WIDE {
        fbb.push(Align::<WIDE>);
    }
}

/// Nothing, at a multiple of `N` bytes.
struct Align<const N: usize>;

impl<const N: usize> Push for Align<N> {
    type Output = Self;

    unsafe fn push(&self, _: &mut [u8], _: usize) {}

    fn size() -> usize {
        0
    }

    fn alignment() -> PushAlignment {
        PushAlignment::new(N)
    }
}

/// Bytes whose first one is aligned for blobs.
fn blob(fbb: &mut Fbb, bytes: &[u8]) -> Offset<Vector<'static, u8>> {
    // The buffer grows downwards: pad so that the position after `bytes` is aligned.
    let written = fbb.unfinished_data().len().wrapping_add(bytes.len());
    let over = written.checked_rem(BLOB_ALIGNMENT).unwrap_or(0);
    if over > 0 {
        for _ in over..BLOB_ALIGNMENT {
            fbb.push(0u8);
        }
    }
    fbb.create_vector(bytes)
}

/// The tables of a list, in order.
fn each<T, I>(
    fbb: &mut Fbb,
    items: &[I],
    mut table: impl FnMut(&mut Fbb, &I) -> Offset<T>,
) -> Tables<T> {
    let offsets: Vec<_> = items.iter().map(|item| table(fbb, item)).collect();
    fbb.create_vector(&offsets)
}

fn program_table(fbb: &mut Fbb, program: &Program) -> Offset<pte::Program<'static>> {
    let constant_buffer = each(fbb, &program.constant_buffer, |fbb, it| {
        let storage = Some(blob(fbb, &it.storage));
        pte::Buffer::create(fbb, &pte::BufferArgs { storage })
    });
    let backend_delegate_data = each(fbb, &program.backend_delegate_data, |fbb, it| {
        let data = Some(blob(fbb, &it.data));
        let args = pte::BackendDelegateInlineDataArgs { data };
        pte::BackendDelegateInlineData::create(fbb, &args)
    });
    let execution_plan = each(fbb, &program.execution_plan, plan);
    let segments = each(fbb, &program.segments, |fbb, it| {
        let args = pte::DataSegmentArgs {
            offset: it.offset,
            size: it.size,
        };
        align_wide(fbb);
        pte::DataSegment::create(fbb, &args)
    });
    let constant_segment = program
        .constant_segment
        .as_ref()
        .map(|it| subsegment(fbb, it));
    let mutable_data_segments = program
        .mutable_data_segments
        .as_ref()
        .map(|list| each(fbb, list, subsegment));
    let named_data = program.named_data.as_ref().map(|list| {
        each(fbb, list, |fbb, it| {
            let key = Some(fbb.create_string(&it.key));
            let args = pte::NamedDataArgs {
                key,
                segment_index: it.segment_index,
            };
            pte::NamedData::create(fbb, &args)
        })
    });
    let args = pte::ProgramArgs {
        version: program.version,
        execution_plan: Some(execution_plan),
        constant_buffer: Some(constant_buffer),
        backend_delegate_data: Some(backend_delegate_data),
        segments: Some(segments),
        constant_segment,
        mutable_data_segments,
        named_data,
    };
    pte::Program::create(fbb, &args)
}

fn subsegment(fbb: &mut Fbb, list: &SubsegmentOffsets) -> Offset<pte::SubsegmentOffsets<'static>> {
    align_wide(fbb);
    let offsets = Some(fbb.create_vector(&list.offsets));
    let args = pte::SubsegmentOffsetsArgs {
        segment_index: list.segment_index,
        offsets,
    };
    pte::SubsegmentOffsets::create(fbb, &args)
}

fn plan(fbb: &mut Fbb, plan: &ExecutionPlan) -> Offset<pte::ExecutionPlan<'static>> {
    let name = fbb.create_string(&plan.name);
    let container_meta_type = plan
        .container_meta_type
        .as_ref()
        .map(|it| container(fbb, it));
    let values = each(fbb, &plan.values, value);
    let inputs = fbb.create_vector(&plan.inputs);
    let outputs = fbb.create_vector(&plan.outputs);
    let chains = each(fbb, &plan.chains, chain);
    let operators = each(fbb, &plan.operators, |fbb, it| {
        let name = Some(fbb.create_string(&it.name));
        let overload = Some(fbb.create_string(&it.overload));
        pte::Operator::create(fbb, &pte::OperatorArgs { name, overload })
    });
    let delegates = each(fbb, &plan.delegates, delegate);
    align_wide(fbb);
    let non_const_buffer_sizes = fbb.create_vector(&plan.non_const_buffer_sizes);
    let non_const_buffer_device = plan.non_const_buffer_device.as_ref().map(|list| {
        each(fbb, list, |fbb, it| {
            let args = pte::NonConstBufferDeviceArgs {
                buffer_idx: it.buffer_idx,
                device_type: pte::DeviceType(it.device_type),
                device_index: it.device_index,
            };
            pte::NonConstBufferDevice::create(fbb, &args)
        })
    });
    let args = pte::ExecutionPlanArgs {
        name: Some(name),
        container_meta_type,
        values: Some(values),
        inputs: Some(inputs),
        outputs: Some(outputs),
        chains: Some(chains),
        operators: Some(operators),
        delegates: Some(delegates),
        non_const_buffer_sizes: Some(non_const_buffer_sizes),
        non_const_buffer_device,
    };
    pte::ExecutionPlan::create(fbb, &args)
}

fn container(fbb: &mut Fbb, it: &ContainerMetadata) -> Offset<pte::ContainerMetadata<'static>> {
    let encoded_inp_str = it
        .encoded_inp_str
        .as_ref()
        .map(|text| fbb.create_string(text));
    let encoded_out_str = it
        .encoded_out_str
        .as_ref()
        .map(|text| fbb.create_string(text));
    let args = pte::ContainerMetadataArgs {
        encoded_inp_str,
        encoded_out_str,
    };
    pte::ContainerMetadata::create(fbb, &args)
}

fn delegate(fbb: &mut Fbb, it: &BackendDelegate) -> Offset<pte::BackendDelegate<'static>> {
    let id = Some(fbb.create_string(&it.id));
    let location = match it.processed.location {
        DataLocation::Inline => pte::DataLocation::INLINE,
        DataLocation::Segment => pte::DataLocation::SEGMENT,
    };
    let args = pte::BackendDelegateDataReferenceArgs {
        location,
        index: it.processed.index,
    };
    let processed = Some(pte::BackendDelegateDataReference::create(fbb, &args));
    let compile_specs = each(fbb, &it.compile_specs, |fbb, spec| {
        let key = Some(fbb.create_string(&spec.key));
        let value = Some(fbb.create_vector(&spec.value));
        pte::CompileSpec::create(fbb, &pte::CompileSpecArgs { key, value })
    });
    let args = pte::BackendDelegateArgs {
        id,
        processed,
        compile_specs: Some(compile_specs),
    };
    pte::BackendDelegate::create(fbb, &args)
}

fn chain(fbb: &mut Fbb, chain: &Chain) -> Offset<pte::Chain<'static>> {
    let inputs = Some(fbb.create_vector(&chain.inputs));
    let outputs = Some(fbb.create_vector(&chain.outputs));
    let instructions = Some(each(fbb, &chain.instructions, instruction));
    let stacktrace = chain
        .stacktrace
        .as_ref()
        .map(|list| each(fbb, list, frames));
    pte::Chain::create(
        fbb,
        &pte::ChainArgs {
            inputs,
            outputs,
            instructions,
            stacktrace,
        },
    )
}

fn frames(fbb: &mut Fbb, list: &FrameList) -> Offset<pte::FrameList<'static>> {
    let items = each(fbb, &list.items, |fbb, frame| {
        let filename = Some(fbb.create_string(&frame.filename));
        let name = Some(fbb.create_string(&frame.name));
        let context = Some(fbb.create_string(&frame.context));
        let args = pte::FrameArgs {
            filename,
            lineno: frame.lineno,
            name,
            context,
        };
        pte::Frame::create(fbb, &args)
    });
    pte::FrameList::create(fbb, &pte::FrameListArgs { items: Some(items) })
}

fn instruction(fbb: &mut Fbb, it: &Instruction) -> Offset<pte::Instruction<'static>> {
    let (tag, args) = match it {
        Instruction::KernelCall(call) => {
            let args = Some(fbb.create_vector(&call.args));
            let args = pte::KernelCallArgs {
                op_index: call.op_index,
                args,
            };
            let table = pte::KernelCall::create(fbb, &args);
            (
                pte::InstructionArguments::KernelCall,
                table.as_union_value(),
            )
        }
        Instruction::DelegateCall(call) => {
            let args = Some(fbb.create_vector(&call.args));
            let args = pte::DelegateCallArgs {
                delegate_index: call.delegate_index,
                args,
            };
            let table = pte::DelegateCall::create(fbb, &args);
            (
                pte::InstructionArguments::DelegateCall,
                table.as_union_value(),
            )
        }
        Instruction::MoveCall(call) => {
            let args = pte::MoveCallArgs {
                move_from: call.move_from,
                move_to: call.move_to,
            };
            let table = pte::MoveCall::create(fbb, &args);
            (pte::InstructionArguments::MoveCall, table.as_union_value())
        }
        Instruction::JumpFalseCall(call) => {
            let args = pte::JumpFalseCallArgs {
                cond_value_index: call.cond_value_index,
                destination_instruction: call.destination_instruction,
            };
            let table = pte::JumpFalseCall::create(fbb, &args);
            (
                pte::InstructionArguments::JumpFalseCall,
                table.as_union_value(),
            )
        }
        Instruction::FreeCall(call) => {
            let args = pte::FreeCallArgs {
                value_index: call.value_index,
            };
            let table = pte::FreeCall::create(fbb, &args);
            (pte::InstructionArguments::FreeCall, table.as_union_value())
        }
    };
    let args = pte::InstructionArgs {
        instr_args_type: tag,
        instr_args: Some(args),
    };
    pte::Instruction::create(fbb, &args)
}

fn value(fbb: &mut Fbb, value: &Value) -> Offset<pte::EValue<'static>> {
    use pte::KernelTypes as Kind;
    let (val_type, val) = match value {
        Value::Null => (
            Kind::Null,
            pte::Null::create(fbb, &pte::NullArgs {}).as_union_value(),
        ),
        Value::Int(int) => {
            align_wide(fbb);
            let table = pte::Int::create(fbb, &pte::IntArgs { int_val: *int });
            (Kind::Int, table.as_union_value())
        }
        Value::Bool(bool) => {
            let table = pte::Bool::create(fbb, &pte::BoolArgs { bool_val: *bool });
            (Kind::Bool, table.as_union_value())
        }
        Value::Double(double) => (Kind::Double, self::double(fbb, *double).as_union_value()),
        Value::Tensor(it) => (Kind::Tensor, tensor(fbb, it).as_union_value()),
        Value::String(text) => {
            let string_val = Some(fbb.create_string(text));
            let table = pte::String::create(fbb, &pte::StringArgs { string_val });
            (Kind::String, table.as_union_value())
        }
        Value::IntList(items) => {
            align_wide(fbb);
            let items = Some(fbb.create_vector(items));
            let table = pte::IntList::create(fbb, &pte::IntListArgs { items });
            (Kind::IntList, table.as_union_value())
        }
        Value::DoubleList(items) => {
            align_wide(fbb);
            let items = Some(fbb.create_vector(items));
            let table = pte::DoubleList::create(fbb, &pte::DoubleListArgs { items });
            (Kind::DoubleList, table.as_union_value())
        }
        Value::BoolList(items) => {
            let items = Some(fbb.create_vector(items));
            let table = pte::BoolList::create(fbb, &pte::BoolListArgs { items });
            (Kind::BoolList, table.as_union_value())
        }
        Value::TensorList(items) => {
            let items = Some(fbb.create_vector(items));
            let table = pte::TensorList::create(fbb, &pte::TensorListArgs { items });
            (Kind::TensorList, table.as_union_value())
        }
        Value::OptionalTensorList(items) => {
            let items = Some(fbb.create_vector(items));
            let args = pte::OptionalTensorListArgs { items };
            let table = pte::OptionalTensorList::create(fbb, &args);
            (Kind::OptionalTensorList, table.as_union_value())
        }
    };
    pte::EValue::create(
        fbb,
        &pte::EValueArgs {
            val_type,
            val: Some(val),
        },
    )
}

/// A double, bit by bit: the generated code leaves out whatever equals 0.0, and −0.0 does.
fn double(fbb: &mut Fbb, double: f64) -> Offset<pte::Double<'static>> {
    align_wide(fbb);
    let start = fbb.start_table();
    if double.to_bits() != 0 {
        fbb.push_slot_always(pte::Double::VT_DOUBLE_VAL, double);
    }
    WIPOffset::new(fbb.end_table(start).value())
}

fn tensor(fbb: &mut Fbb, tensor: &Tensor) -> Offset<pte::Tensor<'static>> {
    let sizes = Some(fbb.create_vector(&tensor.sizes));
    let dim_order = Some(fbb.create_vector(&tensor.dim_order));
    let allocation_info = tensor.allocation_info.map(|info| {
        let [memory_offset_low, memory_offset_high] = info.halves();
        let args = pte::AllocationDetailsArgs {
            memory_id: info.memory_id,
            memory_offset_low,
            memory_offset_high,
        };
        pte::AllocationDetails::create(fbb, &args)
    });
    let extra_tensor_info = tensor
        .extra_tensor_info
        .as_ref()
        .map(|extra| extra_info(fbb, extra));
    let args = pte::TensorArgs {
        scalar_type: scalar::ScalarType(tensor.scalar_type.code()),
        storage_offset: tensor.storage_offset,
        sizes,
        dim_order,
        requires_grad: tensor.requires_grad,
        data_buffer_idx: tensor.data_buffer_idx,
        allocation_info,
        layout: tensor.layout,
        shape_dynamism: pte::TensorShapeDynamism(tensor.shape_dynamism.code()),
        extra_tensor_info,
    };
    pte::Tensor::create(fbb, &args)
}

fn extra_info(fbb: &mut Fbb, extra: &ExtraTensorInfo) -> Offset<pte::ExtraTensorInfo<'static>> {
    let fully_qualified_name = extra
        .fully_qualified_name
        .as_ref()
        .map(|name| fbb.create_string(name));
    let args = pte::ExtraTensorInfoArgs {
        mutable_data_segments_idx: extra.mutable_data_segments_idx,
        fully_qualified_name,
        location: pte::TensorDataLocation(extra.location.code()),
        device_type: pte::DeviceType(extra.device_type),
        device_index: extra.device_index,
    };
    align_wide(fbb);
    pte::ExtraTensorInfo::create(fbb, &args)
}

fn named_tensor(fbb: &mut Fbb, entry: &NamedTensor) -> Offset<ptd::NamedData<'static>> {
    let key = Some(fbb.create_string(&entry.key));
    let tensor_layout = entry.tensor_layout.as_ref().map(|layout| {
        let sizes = Some(fbb.create_vector(&layout.sizes));
        let dim_order = Some(fbb.create_vector(&layout.dim_order));
        let scalar_type = scalar::ScalarType(layout.scalar_type.code());
        let args = ptd::TensorLayoutArgs {
            scalar_type,
            sizes,
            dim_order,
        };
        ptd::TensorLayout::create(fbb, &args)
    });
    let args = ptd::NamedDataArgs {
        key,
        segment_index: entry.segment_index,
        tensor_layout,
    };
    ptd::NamedData::create(fbb, &args)
}
