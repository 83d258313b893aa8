//! What was there before, and what is there now.

use super::super::solve::{algorithm_name, stop_name};
use super::change::Changed;
use crate::args::PlanArgs;
use crate::render::{self, Section};
use crate::report::Report;
use et_device::Device;
use et_planner::compact::{BufferReport, NewOrder};
use et_planner::placement::Stop;
use et_planner::propagate::{Copies, MethodReport};
use et_schema::DeviceTag;
use et_schema::owned::{ExecutionPlan, Instruction, Program, Tensor, Value};
use serde_json::{Value as Json, json};
use std::path::Path;

/// One planned buffer.
struct Buffer {
    memory_id: usize,
    device: String,
    /// 0 where it is new.
    nbytes_before: u64,
    nbytes_after: u64,
    search: Option<Search>,
}

/// What is known about a buffer whose values got new places.
struct Search {
    lower_bound: u64,
    nodes: u64,
    stopped: Option<Stop>,
    kept: bool,
}

/// The report of all methods.
pub(super) fn report(
    args: &PlanArgs,
    before: &Program,
    after: &Program,
    changed: &[Changed],
) -> Report {
    let mut report = Report::default();
    let mut methods = Vec::new();
    let plans = before.execution_plan.iter().zip(&after.execution_plan);
    for ((before, after), changed) in plans.zip(changed) {
        let buffers = buffers(before, after, changed);
        write_method(&mut report.text, before, after, changed, &buffers);
        methods.push(method_json(args, before, after, changed, &buffers));
    }
    report.set("methods", methods);
    report
}

/// Adds what was written where.
pub(super) fn add_file(report: &mut Report, args: &PlanArgs, before: u64, after: u64) {
    let output = args.output.as_deref().map(Path::display);
    let what = match &output {
        Some(output) if !args.dry_run => format!("written to {output}"),
        _ => "not written".into(),
    };
    let (old, new) = (render::bytes(before), render::bytes(after));
    report
        .text
        .push_str(&format!("{what}: {new}, before {old}\n"));
    report.set("file", args.file.display().to_string());
    report.set("output", output.map(|output| output.to_string()));
    report.set("dry_run", args.dry_run);
    report.set("file_nbytes_before", before);
    report.set("file_nbytes_after", after);
}

fn buffers(before: &ExecutionPlan, after: &ExecutionPlan, changed: &Changed) -> Vec<Buffer> {
    let sizes = after.non_const_buffer_sizes.iter().enumerate().skip(1);
    let buffer = |(memory_id, &nbytes): (usize, &i64)| {
        let old = before.non_const_buffer_sizes.get(memory_id);
        Buffer {
            memory_id,
            device: device_of_buffer(after, memory_id),
            nbytes_before: old.map_or(0, |&nbytes| unsigned(nbytes)),
            nbytes_after: unsigned(nbytes),
            search: search(changed, memory_id, unsigned(nbytes)),
        }
    };
    sizes.map(buffer).collect()
}

/// Sizes of a verified program are not negative.
fn unsigned(nbytes: i64) -> u64 {
    u64::try_from(nbytes).unwrap_or(0)
}

fn search(changed: &Changed, memory_id: usize, nbytes: u64) -> Option<Search> {
    let is_it = |number: u32| number as usize == memory_id;
    let mut new = changed.devices.buffers.iter();
    let new = new.find(|buffer| is_it(buffer.memory_id));
    let of = |report: &BufferReport| Search {
        lower_bound: report.lower_bound,
        nodes: report.nodes,
        stopped: report.stopped,
        kept: report.kept && new.is_none(),
    };
    let again = changed.compacted.iter().chain(&changed.repaired);
    let mut found: Option<Search> = again
        .filter(|report| is_it(report.memory_id))
        .map(of)
        .next();
    if let Some(new) = new {
        let bound = new.lower_bound.min(nbytes);
        let search = found.get_or_insert(Search {
            lower_bound: bound,
            nodes: 0,
            stopped: None,
            kept: false,
        });
        // Both hold.
        search.lower_bound = search.lower_bound.max(bound);
    }
    found
}

fn device_of_buffer(method: &ExecutionPlan, memory_id: usize) -> String {
    let memory_id = u32::try_from(memory_id);
    let device = memory_id.map(|memory_id| method.buffer_devices().of(memory_id));
    device_name(device.unwrap_or_default())
}

fn device_name(tag: DeviceTag) -> String {
    match Device::from_raw(tag.device_type, tag.device_index) {
        Ok(device) if device.is_cpu() => "cpu".into(),
        Ok(device) => device.to_string(),
        // Only a plan that was not touched can hold one.
        Err(_) => tag.to_string(),
    }
}

/// The copies of one run, to a device and to the host.
fn copies(method: &ExecutionPlan) -> [Copies; 2] {
    let mut copies = [Copies::default(); 2];
    for instruction in method.chains.iter().flat_map(|chain| &chain.instructions) {
        let Some((direction, tensor)) = copied(method, instruction) else {
            continue;
        };
        let copies = &mut copies[direction];
        copies.count += 1;
        let nbytes = tensor.and_then(Tensor::nbytes).unwrap_or(0);
        copies.nbytes = copies.nbytes.saturating_add(nbytes);
    }
    copies
}

/// The direction of a copy and what is copied.
fn copied<'a>(
    method: &'a ExecutionPlan,
    instruction: &Instruction,
) -> Option<(usize, Option<&'a Tensor>)> {
    let Instruction::KernelCall(call) = instruction else {
        return None;
    };
    let operator = method.operators.get(usize::try_from(call.op_index).ok()?)?;
    let direction = match operator.name.as_str() {
        "et_copy::_h2d_copy" => 0,
        "et_copy::_d2h_copy" => 1,
        _ => return None,
    };
    let source = call.args.first().and_then(|&value| tensor(method, value));
    Some((direction, source))
}

fn tensor(method: &ExecutionPlan, value: i32) -> Option<&Tensor> {
    let value = method.values.get(usize::try_from(value).ok()?)?;
    value.as_tensor()
}

fn write_method(
    text: &mut String,
    before: &ExecutionPlan,
    after: &ExecutionPlan,
    changed: &Changed,
    buffers: &[Buffer],
) {
    text.push_str(&format!("method {}\n", render::name(&after.name)));
    for note in notes(changed) {
        text.push_str(&format!("  {note}\n"));
    }
    let heads = ["#", "device", ">before", ">after", ">bound", "result"];
    let mut section = Section::new("buffers", &heads);
    for buffer in buffers {
        let bound = buffer.search.as_ref().map(|search| search.lower_bound);
        section.row([
            buffer.memory_id.to_string(),
            buffer.device.clone(),
            buffer.nbytes_before.to_string(),
            buffer.nbytes_after.to_string(),
            bound.map_or("-".into(), |bound| bound.to_string()),
            buffer.result().into(),
        ]);
    }
    section.write_to(text);
    let (old, new) = (copies(before), copies(after));
    let mut section = Section::new("copies", &["direction", ">before", ">after"]);
    for (direction, (old, new)) in ["host to device", "device to host"]
        .iter()
        .zip(old.iter().zip(&new))
        .filter(|(_, (old, new))| old.count + new.count > 0)
    {
        section.row([(*direction).into(), copies_text(*old), copies_text(*new)]);
    }
    section.write_to(text);
}

fn copies_text(copies: Copies) -> String {
    match copies.count {
        0 => "-".into(),
        count => format!("{count} ({})", render::bytes(copies.nbytes)),
    }
}

/// What a user should know beside the numbers.
fn notes(changed: &Changed) -> Vec<String> {
    let report: &MethodReport = &changed.devices;
    let mut notes = new_order(changed);
    let shared = changed.shared().count() as u64;
    if shared > 0 {
        let results = render::count(shared, "result");
        notes.push(format!(
            "{results} over an input that nobody needs any more"
        ));
    }
    let ends = [
        (&changed.io.planned, "has planned memory now"),
        (
            &changed.io.freed,
            "has no planned memory now: the caller gives it",
        ),
        (
            &changed.io.declined,
            "stays as it is: other values show its bytes, it is state, or only callers can fill it",
        ),
    ];
    for (values, what) in ends {
        notes.extend(values.iter().map(|value| format!("value {value} {what}")));
    }
    if report.reused > 0 {
        let operands = render::count(report.reused as u64, "operand");
        notes.push(format!(
            "{operands} copied for an earlier call already: not copied again"
        ));
    }
    if report.hoisted > 0 {
        let copies = render::count(report.hoisted as u64, "upload");
        notes.push(format!("{copies} moved before a loop"));
    }
    if report.was_propagated {
        notes.push("has device memory already: copies and devices are left as they are".into());
    }
    if report.elided > 0 {
        let operands = render::count(report.elided as u64, "operand");
        notes.push(format!("{operands} on the device already: not copied"));
    }
    for (values, what) in [
        (
            &report.kept_inputs,
            "still copied: the host or another device needs it too",
        ),
        (
            &report.both_ways,
            "copied both ways: the file does not say whether the delegate reads or writes it",
        ),
    ] {
        notes.extend(
            values
                .iter()
                .map(|value| format!("value {value} is {what}")),
        );
    }
    notes
}

fn new_order(changed: &Changed) -> Vec<String> {
    let note = |order: &NewOrder| {
        let moved = render::count(order.moved() as u64, "instruction");
        let [before, after] = [order.bound_before, order.bound_after].map(render::bytes);
        format!("{moved} moved: no plan needs less than {after}, before {before}")
    };
    changed.order.iter().map(note).collect()
}

impl Buffer {
    fn result(&self) -> &'static str {
        match &self.search {
            None => "as before",
            Some(_) if self.nbytes_after == 0 => "empty",
            Some(search) if self.nbytes_after <= search.lower_bound => match search.kept {
                true => "as before, proved smallest",
                false => "proved smallest",
            },
            Some(search) if search.kept => "as before",
            Some(_) => "not proved smallest",
        }
    }

    fn to_json(&self, args: &PlanArgs) -> Json {
        let mut entry = json!({
            "memory_id": self.memory_id,
            "device": self.device,
            "nbytes_before": self.nbytes_before,
            "nbytes_after": self.nbytes_after,
            "planned": self.search.as_ref().is_some_and(|search| !search.kept),
        });
        if let Some(search) = &self.search {
            entry["algorithm"] = algorithm_name(args.search.algorithm()).into();
            entry["lower_bound"] = search.lower_bound.into();
            entry["proved"] = (self.nbytes_after <= search.lower_bound).into();
            entry["gap"] = self.nbytes_after.saturating_sub(search.lower_bound).into();
            entry["nodes"] = search.nodes.into();
            entry["stopped"] = search
                .stopped
                .map_or(Json::Null, |stop| stop_name(stop).into());
        }
        entry
    }
}

fn method_json(
    args: &PlanArgs,
    before: &ExecutionPlan,
    after: &ExecutionPlan,
    changed: &Changed,
    buffers: &[Buffer],
) -> Json {
    let copies_json = |method| {
        let [h2d, d2h] = copies(method);
        json!({
            "h2d": {"count": h2d.count, "nbytes": h2d.nbytes},
            "d2h": {"count": d2h.count, "nbytes": d2h.nbytes},
        })
    };
    let devices = &changed.devices;
    let numbers = |values: &[et_planner::analysis::ValueIndex]| -> Vec<usize> {
        values.iter().map(|value| value.get()).collect()
    };
    json!({
        "name": after.name,
        "already_device_planned": devices.was_propagated,
        "repaired": !changed.repaired.is_empty(),
        "seconds": changed.time.as_secs_f64(),
        "buffers": buffers.iter().map(|buffer| buffer.to_json(args)).collect::<Vec<_>>(),
        "inputs": ends(after, &after.inputs),
        "outputs": ends(after, &after.outputs),
        "copies_before": copies_json(before),
        "copies_after": copies_json(after),
        "elided": devices.elided,
        "reused_uploads": devices.reused,
        "hoisted_copies": devices.hoisted,
        "reordered": changed.order.as_ref().map(|order| json!({
            "moved": order.moved(),
            "lower_bound_before": order.bound_before,
            "lower_bound_after": order.bound_after,
        })),
        "in_place": changed
            .shared()
            .map(|(input, result)| json!({"input": input.get(), "result": result.get()}))
            .collect::<Vec<_>>(),
        "ends": {
            "planned": numbers(&changed.io.planned),
            "freed": numbers(&changed.io.freed),
            "kept": numbers(&changed.io.declined),
        },
        "instruction_origins": changed.origins(),
        "kept_inputs": numbers(&devices.kept_inputs),
        "both_ways": numbers(&devices.both_ways),
    })
}

/// Where inputs or outputs are, and who gives their memory.
fn ends(method: &ExecutionPlan, values: &[i32]) -> Vec<Json> {
    let end = |&value: &i32| match method
        .values
        .get(usize::try_from(value).ok()?)
        .map(Value::as_tensor)?
    {
        None => Some(json!({"value": value, "kind": "other"})),
        Some(tensor) => Some(json!({
            "value": value,
            "kind": "tensor",
            "device": device_name(tensor.device()),
            "planned": tensor.allocation_info.is_some(),
        })),
    };
    values.iter().filter_map(end).collect()
}
