//! An upper bound of the FlatBuffer's size, known before any of it is written: the encoder can then
//! reserve it at once, and never meets the 2 GiB limit of 32-bit offsets in the middle.

use crate::number::file_len;
use crate::owned::{
    BackendDelegate, Chain, ExecutionPlan, FlatTensor, FrameList, Instruction, Program,
    SubsegmentOffsets, Tensor, Value,
};

/// Saturating sums of bytes.
#[derive(Clone, Copy)]
struct Size(u64);

impl Size {
    /// A table: per field 8 bytes and their padding, an entry in the list of fields, offsets.
    fn table(fields: u64) -> Self {
        Self(fields.saturating_mul(12).saturating_add(32))
    }

    /// A list of numbers or offsets.
    fn list(len: usize, item: u64) -> Self {
        Self(file_len(len).saturating_mul(item).saturating_add(40))
    }

    fn text(text: &str) -> Self {
        Self::list(text.len(), 1)
    }

    fn and(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    fn each<T>(self, items: &[T], size: impl Fn(&T) -> Self) -> Self {
        items
            .iter()
            .map(size)
            .fold(self.and(Self::list(items.len(), 4)), Self::and)
    }
}

pub(super) fn program(program: &Program) -> u64 {
    let subsegments =
        |list: &SubsegmentOffsets| Size::table(2).and(Size::list(list.offsets.len(), 8));
    Size::table(8)
        .each(&program.execution_plan, plan)
        .each(&program.constant_buffer, |it| {
            Size::table(1).and(Size::list(it.storage.len(), 1))
        })
        .each(&program.backend_delegate_data, |it| {
            Size::table(1).and(Size::list(it.data.len(), 1))
        })
        .each(&program.segments, |_| Size::table(2))
        .each(program.constant_segment.as_slice(), subsegments)
        .each(
            program.mutable_data_segments.as_deref().unwrap_or_default(),
            subsegments,
        )
        .each(program.named_data.as_deref().unwrap_or_default(), |it| {
            Size::table(2).and(Size::text(&it.key))
        })
        .0
}

pub(super) fn flat_tensor(file: &FlatTensor) -> u64 {
    Size::table(3)
        .each(&file.segments, |_| Size::table(2))
        .each(&file.named_data, |entry| {
            let layout = entry.tensor_layout.as_ref().map_or(Size(0), |layout| {
                let sizes = Size::list(layout.sizes.len(), 4);
                Size::table(3)
                    .and(sizes)
                    .and(Size::list(layout.dim_order.len(), 1))
            });
            Size::table(3).and(Size::text(&entry.key)).and(layout)
        })
        .0
}

fn plan(plan: &ExecutionPlan) -> Size {
    let meta = plan.container_meta_type.as_ref().map_or(Size(0), |meta| {
        let text = |text: &Option<_>| text.as_deref().map_or(Size(0), Size::text);
        Size::table(2)
            .and(text(&meta.encoded_inp_str))
            .and(text(&meta.encoded_out_str))
    });
    Size::table(10)
        .and(Size::text(&plan.name))
        .and(meta)
        .each(&plan.values, value)
        .and(Size::list(plan.inputs.len(), 4))
        .and(Size::list(plan.outputs.len(), 4))
        .each(&plan.chains, chain)
        .each(&plan.operators, |it| {
            Size::table(2)
                .and(Size::text(&it.name))
                .and(Size::text(&it.overload))
        })
        .each(&plan.delegates, delegate)
        .and(Size::list(plan.non_const_buffer_sizes.len(), 8))
        .each(
            plan.non_const_buffer_device.as_deref().unwrap_or_default(),
            |_| Size::table(3),
        )
}

fn delegate(delegate: &BackendDelegate) -> Size {
    Size::table(3)
        .and(Size::text(&delegate.id))
        .and(Size::table(2))
        .each(&delegate.compile_specs, |spec| {
            Size::table(2)
                .and(Size::text(&spec.key))
                .and(Size::list(spec.value.len(), 1))
        })
}

fn chain(chain: &Chain) -> Size {
    let frames = |list: &FrameList| {
        Size::table(1).each(&list.items, |frame| {
            Size::table(4)
                .and(Size::text(&frame.filename))
                .and(Size::text(&frame.name))
                .and(Size::text(&frame.context))
        })
    };
    Size::table(4)
        .and(Size::list(chain.inputs.len(), 4))
        .and(Size::list(chain.outputs.len(), 4))
        .each(&chain.instructions, |instruction| {
            let args = match instruction {
                Instruction::KernelCall(call) => call.args.len(),
                Instruction::DelegateCall(call) => call.args.len(),
                _ => 0,
            };
            Size::table(2).and(Size::table(2)).and(Size::list(args, 4))
        })
        .each(chain.stacktrace.as_deref().unwrap_or_default(), frames)
}

fn value(value: &Value) -> Size {
    let contents = match value {
        Value::Null | Value::Int(_) | Value::Bool(_) | Value::Double(_) => Size(0),
        Value::Tensor(it) => tensor(it),
        Value::String(text) => Size::text(text),
        Value::IntList(items) => Size::list(items.len(), 8),
        Value::DoubleList(items) => Size::list(items.len(), 8),
        Value::BoolList(items) => Size::list(items.len(), 1),
        Value::TensorList(items) | Value::OptionalTensorList(items) => Size::list(items.len(), 4),
    };
    Size::table(2).and(Size::table(1)).and(contents)
}

fn tensor(tensor: &Tensor) -> Size {
    let extra = tensor.extra_tensor_info.as_ref().map_or(Size(0), |extra| {
        let name = extra
            .fully_qualified_name
            .as_deref()
            .map_or(Size(0), Size::text);
        Size::table(5).and(name)
    });
    Size::table(10)
        .and(Size::table(3))
        .and(Size::list(tensor.sizes.len(), 4))
        .and(Size::list(tensor.dim_order.len(), 1))
        .and(extra)
}
