//! One method as text: its ends, memory, calls and copies.

use crate::render::{self, Section};
use crate::survey::{self, Survey};
use et_schema::{PlanView, Processed, ProgramView, TensorLocation, TensorView, ValueView};
use std::collections::BTreeMap;

/// Constants that are listed.
const TOP_CONSTANTS: usize = 10;

/// Appends everything about a method; `unplanned` is the memory that it takes on each device besides its planned buffers.
pub(super) fn write(
    text: &mut String,
    program: &ProgramView<'_>,
    plan: &PlanView<'_>,
    unplanned: Option<&BTreeMap<String, u64>>,
) {
    let survey = Survey::of(plan);
    text.push_str(&headline(plan, &survey));
    text.push_str(&format!("planned memory: {}\n", memories(&survey.memory)));
    if let Some(unplanned) = unplanned.filter(|unplanned| !unplanned.is_empty()) {
        text.push_str(&format!("unplanned memory: {}\n", memories(unplanned)));
    }
    text.push('\n');
    ends("inputs", plan, plan.inputs().iter()).write_to(text);
    ends("outputs", plan, plan.outputs().iter()).write_to(text);
    buffers(plan).write_to(text);
    state(plan).write_to(text);
    constants(text, plan);
    operators(plan, &survey).write_to(text);
    delegates(program, plan, &survey).write_to(text);
    copies(text, &survey);
}

fn headline(plan: &PlanView<'_>, survey: &Survey) -> String {
    let instructions: u64 = survey.instructions.values().sum();
    let kinds: Vec<String> = survey
        .instructions
        .iter()
        .map(|(kind, count)| render::count(*count, noun(kind)))
        .collect();
    let kinds = if kinds.is_empty() {
        String::new()
    } else {
        format!(" ({})", kinds.join(", "))
    };
    format!(
        "method {}: {}, {}{kinds}\n",
        render::name(plan.name()),
        render::count(plan.num_values() as u64, "value"),
        render::count(instructions, "instruction"),
    )
}

/// Bytes by device, in one line.
fn memories(memory: &BTreeMap<String, u64>) -> String {
    let memory: Vec<String> = memory
        .iter()
        .map(|(device, nbytes)| format!("{} on {device}", render::bytes(*nbytes)))
        .collect();
    if memory.is_empty() {
        "none".into()
    } else {
        memory.join(", ")
    }
}

/// What people call a kind of instruction.
fn noun(kind: &'static str) -> &'static str {
    match kind {
        "KernelCall" => "kernel call",
        "DelegateCall" => "delegate call",
        "MoveCall" => "move",
        "JumpFalseCall" => "jump",
        "FreeCall" => "free",
        other => other,
    }
}

/// The inputs or outputs.
fn ends(title: &str, plan: &PlanView<'_>, values: impl Iterator<Item = u32>) -> Section {
    let heads = [">#", ">value", "type", "sizes", "shape", "device", "memory"];
    let mut section = Section::new(title, &heads);
    for (index, value) in values.enumerate() {
        let [kind, sizes, shape, device, memory] = match plan.value(value) {
            Some(ValueView::Tensor(tensor)) => tensor_cells(&tensor),
            Some(other) => scalar_cells(&other),
            None => ["no such value".into(), dash(), dash(), dash(), dash()],
        };
        section.row([
            index.to_string(),
            value.to_string(),
            kind,
            sizes,
            shape,
            device,
            memory,
        ]);
    }
    section
}

fn tensor_cells(tensor: &TensorView<'_>) -> [String; 5] {
    [
        scalar_type(tensor),
        sizes(tensor),
        shape(tensor),
        survey::tensor_device(tensor),
        memory(tensor),
    ]
}

fn scalar_cells(value: &ValueView<'_>) -> [String; 5] {
    let shown = match value {
        // Not a size: what the value is.
        ValueView::Int(value) => format!("= {value}"),
        ValueView::Double(value) => format!("= {value}"),
        ValueView::Bool(value) => format!("= {value}"),
        ValueView::Str(value) => render::name(value),
        _ => dash(),
    };
    [value.kind().name().into(), shown, dash(), dash(), dash()]
}

fn dash() -> String {
    "-".into()
}

fn scalar_type(tensor: &TensorView<'_>) -> String {
    match tensor.scalar_type() {
        Some(scalar_type) => scalar_type.name().into(),
        None => format!("type {}", tensor.scalar_type_code()),
    }
}

fn sizes(tensor: &TensorView<'_>) -> String {
    let sizes: Vec<String> = tensor
        .sizes()
        .iter()
        .take(MAX_DIMS)
        .map(|size| size.to_string())
        .collect();
    let cut = if tensor.rank() > MAX_DIMS {
        ", …"
    } else {
        ""
    };
    let bound = if survey::is_dynamic(tensor) {
        "≤"
    } else {
        ""
    };
    format!("{bound}[{}{cut}]", sizes.join(", "))
}

/// Dimensions that are shown; valid tensors have no more.
const MAX_DIMS: usize = 16;

/// Dynamism, and the order of the dimensions where it is not the usual one.
fn shape(tensor: &TensorView<'_>) -> String {
    let dynamism = match tensor.dynamism() {
        et_schema::Dynamism::Static => "static",
        et_schema::Dynamism::DynamicBound => "dynamic",
        _ => "unbounded",
    };
    let order = tensor.dim_order();
    let usual = order
        .iter()
        .enumerate()
        .all(|(index, dim)| index == usize::from(*dim));
    if usual {
        return dynamism.into();
    }
    let order: Vec<String> = order
        .iter()
        .take(MAX_DIMS)
        .map(|dim| dim.to_string())
        .collect();
    format!("{dynamism}, order {}", order.join(""))
}

/// Where the data of a tensor lies.
fn memory(tensor: &TensorView<'_>) -> String {
    if let Some(slot) = tensor.allocation() {
        return format!("buffer {} at {}", slot.memory_id, slot.offset);
    }
    if tensor.location() == TensorLocation::External {
        return "external data".into();
    }
    match tensor.data_buffer_idx() {
        0 => "given by the caller".into(),
        index => format!("constant {index}"),
    }
}

fn buffers(plan: &PlanView<'_>) -> Section {
    let mut section = Section::new("planned buffers", &[">buffer", "device", ">bytes"]);
    let devices = survey::buffer_devices(plan);
    let buffers = plan.buffer_sizes().iter().zip(devices).enumerate().skip(1);
    // An empty one is no memory: exporters write it where nothing is planned.
    for (index, (nbytes, device)) in buffers.filter(|(_, (nbytes, _))| *nbytes != 0) {
        section.row([index.to_string(), device, nbytes.to_string()]);
    }
    section
}

/// Tensors that keep their data from call to call, as far as the file names them.
fn state(plan: &PlanView<'_>) -> Section {
    let heads = [
        "name",
        "type",
        "sizes",
        ">bytes",
        "device",
        "memory",
        "starts as",
    ];
    let mut section = Section::new("state", &heads);
    for tensor in tensors(plan) {
        let initial = tensor.allocation().is_some() && tensor.data_buffer_idx() != 0;
        let named = tensor.fully_qualified_name().is_some() && !tensor.is_constant();
        if initial || named {
            section.row([
                tensor
                    .fully_qualified_name()
                    .map_or_else(dash, render::name),
                scalar_type(&tensor),
                sizes(&tensor),
                nbytes(&tensor),
                survey::tensor_device(&tensor),
                memory(&tensor),
                if initial {
                    "data in the file".into()
                } else {
                    "zeros".into()
                },
            ]);
        }
    }
    section
}

fn constants(text: &mut String, plan: &PlanView<'_>) {
    // Several tensors may share one constant.
    let mut seen = BTreeMap::new();
    for tensor in tensors(plan).filter(TensorView::is_constant) {
        let key = match tensor.location() {
            TensorLocation::External => (tensor.fully_qualified_name().unwrap_or_default(), 0),
            _ => ("", tensor.data_buffer_idx()),
        };
        seen.entry(key).or_insert(tensor);
    }
    let mut largest: Vec<TensorView<'_>> = seen.into_values().collect();
    largest.sort_by_key(|tensor| std::cmp::Reverse(tensor.nbytes()));
    let total: u64 = largest
        .iter()
        .filter_map(TensorView::nbytes)
        .fold(0, u64::saturating_add);
    let heads = [">bytes", "type", "sizes", "where", "name"];
    let count = render::count(largest.len() as u64, "constant");
    let title = match largest.len() {
        0..=TOP_CONSTANTS => format!("{count}, {}", render::bytes(total)),
        _ => format!(
            "{count}, {}; the {TOP_CONSTANTS} largest",
            render::bytes(total)
        ),
    };
    let mut section = Section::new(&title, &heads);
    for tensor in largest.iter().take(TOP_CONSTANTS) {
        section.row([
            nbytes(tensor),
            scalar_type(tensor),
            sizes(tensor),
            memory(tensor),
            tensor
                .fully_qualified_name()
                .map_or_else(dash, render::name),
        ]);
    }
    section.write_to(text);
}

fn nbytes(tensor: &TensorView<'_>) -> String {
    tensor
        .nbytes()
        .map_or_else(|| "overflow".into(), |nbytes| nbytes.to_string())
}

fn tensors<'a>(plan: &PlanView<'a>) -> impl Iterator<Item = TensorView<'a>> + use<'a> {
    plan.values().filter_map(|value| value.as_tensor())
}

fn operators(plan: &PlanView<'_>, survey: &Survey) -> Section {
    let mut section = Section::new("operators", &[">calls", "operator"]);
    for (operator, calls) in plan.operators().zip(&survey.operator_calls) {
        let name = survey::operator_name(operator.name, operator.overload);
        section.row([calls.to_string(), render::name(&name)]);
    }
    section
}

fn delegates(program: &ProgramView<'_>, plan: &PlanView<'_>, survey: &Survey) -> Section {
    let heads = [
        ">#", "backend", "target", ">calls", ">bytes", "data", "options",
    ];
    let mut section = Section::new("delegates", &heads);
    for (index, delegate) in plan.delegates().enumerate() {
        let (nbytes, place) = match delegate.processed() {
            Processed::Segment(segment) => (
                program.segment(segment).map(|segment| segment.size),
                format!("segment {segment}"),
            ),
            Processed::Inline(index) => {
                let data = program.inline_delegate_data(index);
                (
                    data.map(|data| data.len() as u64),
                    "in the FlatBuffer".into(),
                )
            }
            _ => (None, "not said".into()),
        };
        let target = delegate.compile_spec("target_device");
        let options: Vec<String> = delegate
            .compile_specs()
            .take(8)
            .filter(|spec| spec.key != "target_device")
            .map(|spec| format!("{}={}", render::name(spec.key), option(spec.value)))
            .collect();
        let calls = survey.delegate_calls.get(index).copied().unwrap_or(0);
        section.row([
            index.to_string(),
            render::name(delegate.id()),
            target.map_or_else(dash, option),
            calls.to_string(),
            nbytes.map_or_else(|| "?".into(), |nbytes| nbytes.to_string()),
            place,
            if options.is_empty() {
                dash()
            } else {
                options.join(" ")
            },
        ]);
    }
    section
}

/// The value of an option: a short text, or its length.
fn option(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if text.len() <= 40 => render::name(text),
        _ => format!("<{} bytes>", value.len()),
    }
}

fn copies(text: &mut String, survey: &Survey) {
    let mut section = Section::new("copies of one run", &["at", "from", "to", ">bytes"]);
    let mut totals: BTreeMap<(bool, &str, &str), (u64, u64)> = BTreeMap::new();
    for copy in &survey.copies {
        let bound = if copy.upper_bound { "≤" } else { "" };
        let nbytes = copy
            .nbytes
            .map_or_else(|| "overflow".into(), |n| format!("{bound}{n}"));
        section.row([
            copy.cause.describe(),
            copy.from.clone(),
            copy.to.clone(),
            nbytes,
        ]);
        let by_program = matches!(copy.cause, survey::Cause::Instruction { .. });
        let total = totals
            .entry((by_program, &copy.from, &copy.to))
            .or_default();
        total.0 += 1;
        total.1 = total.1.saturating_add(copy.nbytes.unwrap_or(0));
    }
    section.write_to(text);
    if totals.is_empty() {
        return;
    }
    // The totals belong to the table above.
    text.pop();
    for ((by_program, from, to), (count, nbytes)) in totals {
        let who = if by_program {
            ""
        } else {
            " of inputs and outputs"
        };
        let copies = if count == 1 { "copy" } else { "copies" };
        let nbytes = render::bytes(nbytes);
        text.push_str(&format!(
            "  {count} {copies}{who} from {from} to {to}, {nbytes}\n"
        ));
    }
    if survey.has_jumps() {
        text.push_str("  (each instruction counted once; this method has jumps)\n");
    }
    text.push('\n');
}
