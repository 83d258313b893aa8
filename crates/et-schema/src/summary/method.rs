//! Methods: inputs, outputs, planned buffers, operators, delegates.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::room::Room;
use super::value::{DeviceName, ValueSummary};
use crate::number::file_len;
use crate::view::{
    CompileSpecView, DelegateView, InstructionView, OperatorView, PlanView, Processed, ProgramView,
    ValueView,
};

/// How many there are of each kind, by the schema's name.
pub type KindCounts = BTreeMap<&'static str, u64>;

/// A method.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MethodSummary {
    /// Its name.
    pub name: String,
    /// Number of inputs.
    pub num_inputs: usize,
    /// Number of outputs.
    pub num_outputs: usize,
    /// The values that the caller sets; fewer than there are where some were left out.
    pub inputs: Vec<ValueSummary>,
    /// The values that the caller gets; fewer than there are where some were left out.
    pub outputs: Vec<ValueSummary>,
    /// Number of values.
    pub num_values: usize,
    /// Values of each kind.
    pub value_kinds: KindCounts,
    /// Bytes of each planned buffer; entry 0 is reserved.
    pub non_const_buffer_sizes: Vec<i64>,
    /// The planned buffers that are not on the CPU; absent in programs that know no devices.
    pub non_const_buffer_device: Option<Vec<BufferDeviceSummary>>,
    /// Number of chains.
    pub num_chains: usize,
    /// Instructions of each kind.
    pub instruction_counts: KindCounts,
    /// Whether the file records source lines.
    pub has_stacktrace: bool,
    /// Operators, as `name.overload`.
    pub operators: Vec<String>,
    /// Calls of each operator, in the order of `operators`.
    pub operator_calls: Vec<u64>,
    /// Delegates.
    pub delegates: Vec<DelegateSummary>,
    /// Tensors that are parameters or buffers of the model.
    pub named_tensors: Vec<ValueSummary>,
    /// How many inputs, outputs and named tensors were left out: what a summary describes is bounded by
    /// the length of the file, and a hostile one can name a large value any number of times.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub num_values_left_out: u64,
}

impl MethodSummary {
    pub(super) fn new(program: ProgramView<'_>, plan: PlanView<'_>, room: &mut Room) -> Self {
        let mut value_kinds = KindCounts::new();
        for view in plan.values() {
            count(&mut value_kinds, view.kind().name());
        }
        let inputs = room.describe(plan, plan.inputs().iter());
        let outputs = room.describe(plan, plan.outputs().iter());
        let named_tensors = room.describe(plan, named_tensors(plan));
        let (instruction_counts, operator_calls) = instructions(plan);
        Self {
            name: plan.name().to_string(),
            num_inputs: plan.inputs().len(),
            num_outputs: plan.outputs().len(),
            inputs,
            outputs,
            num_values: plan.num_values(),
            value_kinds,
            non_const_buffer_sizes: plan.buffer_sizes().iter().collect(),
            non_const_buffer_device: plan.has_buffer_devices().then(|| devices(plan)),
            num_chains: plan.chains().len(),
            instruction_counts,
            has_stacktrace: plan.chains().any(|chain| chain.has_stacktrace()),
            operators: plan.operators().map(operator).collect(),
            operator_calls,
            delegates: plan
                .delegates()
                .map(|view| DelegateSummary::new(program, view))
                .collect(),
            named_tensors,
            num_values_left_out: room.left_out(),
        }
    }
}

#[cfg(feature = "serde")]
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The tensors that have a name, in order.
fn named_tensors(plan: PlanView<'_>) -> impl Iterator<Item = u32> {
    let named = |view: ValueView<'_>| {
        view.as_tensor()
            .is_some_and(|tensor| tensor.fully_qualified_name().is_some())
    };
    (0u32..)
        .zip(plan.values())
        .filter_map(move |(index, view)| named(view).then_some(index))
}

fn count(counts: &mut KindCounts, kind: &'static str) {
    let count = counts.entry(kind).or_default();
    *count = count.saturating_add(1);
}

fn instructions(plan: PlanView<'_>) -> (KindCounts, Vec<u64>) {
    let mut counts = KindCounts::new();
    let mut calls = alloc::vec![0u64; plan.operators().len()];
    for instruction in plan.chains().flat_map(|chain| chain.instructions()) {
        let kind = match instruction {
            InstructionView::Kernel { op, .. } => {
                if let Some(calls) = calls.get_mut(crate::number::mem_index(op)) {
                    *calls = calls.saturating_add(1);
                }
                "KernelCall"
            }
            InstructionView::Delegate { .. } => "DelegateCall",
            InstructionView::Move { .. } => "MoveCall",
            InstructionView::JumpFalse { .. } => "JumpFalseCall",
            InstructionView::Free { .. } => "FreeCall",
            InstructionView::Unknown(_) => "unknown",
        };
        count(&mut counts, kind);
    }
    (counts, calls)
}

fn devices(plan: PlanView<'_>) -> Vec<BufferDeviceSummary> {
    plan.buffer_devices()
        .map(|entry| BufferDeviceSummary {
            buffer_idx: entry.buffer.cast_signed(),
            device_type: DeviceName(entry.device_type),
            device_index: entry.device_index,
        })
        .collect()
}

fn operator(view: OperatorView<'_>) -> String {
    if view.overload.is_empty() {
        return view.name.to_string();
    }
    alloc::format!("{}.{}", view.name, view.overload)
}

/// The device of one planned buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BufferDeviceSummary {
    /// Index into the buffer sizes.
    pub buffer_idx: i32,
    /// The type of its device.
    pub device_type: DeviceName,
    /// Which one of that type.
    pub device_index: i8,
}

/// A part of the method that a backend runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DelegateSummary {
    /// The backend's name.
    pub id: String,
    /// Options for it.
    pub compile_specs: Vec<CompileSpecSummary>,
    /// Where its data is.
    pub processed: ProcessedSummary,
}

impl DelegateSummary {
    fn new(program: ProgramView<'_>, view: DelegateView<'_>) -> Self {
        let (location, index, nbytes) = match view.processed() {
            Processed::Inline(index) => {
                let data = program.inline_delegate_data(index);
                ("INLINE", index, data.map(|bytes| file_len(bytes.len())))
            }
            Processed::Segment(index) => (
                "SEGMENT",
                index,
                program.segment(index).map(|segment| segment.size),
            ),
            Processed::Absent => ("absent", 0, None),
        };
        Self {
            id: view.id().to_string(),
            compile_specs: view.compile_specs().map(CompileSpecSummary::new).collect(),
            processed: ProcessedSummary {
                location,
                index,
                nbytes,
            },
        }
    }
}

/// Where a delegate's data is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ProcessedSummary {
    /// `INLINE`, `SEGMENT` or `absent`.
    pub location: &'static str,
    /// Index into that list.
    pub index: u32,
    /// Bytes of data; absent without such an entry.
    pub nbytes: Option<u64>,
}

/// An option for a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CompileSpecSummary {
    /// Its name.
    pub key: String,
    /// Bytes of its value.
    pub nbytes: usize,
    /// Its value, two hexadecimal digits per byte.
    pub hex: String,
    /// Its value as text, where it is one.
    pub utf8: Option<String>,
}

impl CompileSpecSummary {
    fn new(view: CompileSpecView<'_>) -> Self {
        let mut hex = String::new();
        for byte in view.value {
            write!(hex, "{byte:02x}").expect("writing to a string does not fail");
        }
        Self {
            key: view.key.to_string(),
            nbytes: view.value.len(),
            hex,
            utf8: core::str::from_utf8(view.value).ok().map(str::to_string),
        }
    }
}
