//! What `et run` tells: outputs, device memory, copies, comparisons.

use super::Run;
use crate::expect::Comparison;
use crate::render::{self, Section};
use crate::report::Report;
use crate::results::describe;
use crate::trace;
use crate::value::{Tensor, Value};
use et_device::DeviceType;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Elements of a tensor that are shown.
const MAX_ELEMENTS: usize = 8;

/// The calls with their outputs, and what happened on devices.
pub(super) fn report(runs: &[Run], trace: &Json, device_type: DeviceType) -> Report {
    let mut report = Report::default();
    let mut section = Section::new(
        "outputs",
        &[">run", "method", ">#", "type", "sizes", "value"],
    );
    for (index, run) in runs.iter().enumerate() {
        for (output, value) in run.outputs.iter().enumerate() {
            section.row(cells(index, &run.method, output, value));
        }
    }
    if runs.iter().any(|run| run.made_up) {
        let note = "the inputs were made up; give your own with --input or --calls\n\n";
        report.text.push_str(note);
    }
    section.write_to(&mut report.text);
    memory(trace, device_type).write_to(&mut report.text);
    copies(trace).write_to(&mut report.text);
    report.set("runs", runs.iter().map(run_json).collect::<Vec<_>>());
    report
}

fn run_json(run: &Run) -> Json {
    json!({
        "method": run.method,
        "inputs_made_up": run.made_up,
        "outputs": run.outputs.iter().map(describe).collect::<Vec<_>>(),
    })
}

fn cells(run: usize, method: &str, output: usize, value: &Value) -> [String; 6] {
    let (kind, sizes, shown) = match value {
        Value::Tensor(tensor) => {
            let sizes = format!("{:?}", tensor.sizes);
            (tensor.scalar_type.name().into(), sizes, elements(tensor))
        }
        Value::OnDevice(tensor) => {
            let sizes = format!("{:?}", tensor.sizes);
            (
                tensor.scalar_type.name().into(),
                sizes,
                format!("on {}", tensor.device),
            )
        }
        other => (other.kind().into(), "-".into(), scalar(other)),
    };
    [
        run.to_string(),
        render::name(method),
        output.to_string(),
        kind,
        sizes,
        shown,
    ]
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Int(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::String(value) => render::name(value),
        _ => "-".into(),
    }
}

/// The first elements, short enough for one line.
fn elements(tensor: &Tensor) -> String {
    let mut numbers = crate::compare::numbers(tensor);
    let shown: Vec<String> = numbers
        .by_ref()
        .take(MAX_ELEMENTS)
        .map(|n| n.short())
        .collect();
    let rest = if numbers.next().is_some() { " …" } else { "" };
    format!("{}{rest}", shown.join(" "))
}

/// Device memory that loading took.
fn memory(trace: &Json, device_type: DeviceType) -> Section {
    let mut section = Section::new(
        "device memory at load",
        &["method", "device", ">blocks", ">bytes", "by"],
    );
    let loads = trace["load"].as_object().into_iter().flatten();
    for (method, events) in loads {
        let mut sums: BTreeMap<(u64, &str), (u64, u64)> = BTreeMap::new();
        for event in list(events).iter().filter(|event| event["ev"] == "alloc") {
            let index = event["index"].as_u64().unwrap_or(0);
            let sum = sums.entry((index, text(event, "origin"))).or_default();
            sum.0 += 1;
            sum.1 += event["nbytes"].as_u64().unwrap_or(0);
        }
        for ((index, origin), (blocks, nbytes)) in sums {
            section.row([
                render::name(method),
                format!("{device_type}:{index}"),
                blocks.to_string(),
                nbytes.to_string(),
                origin.into(),
            ]);
        }
    }
    section
}

/// Copies of each run by direction and by who made them.
fn copies(trace: &Json) -> Section {
    let heads = [
        ">run",
        "by",
        ">host to device",
        ">device to host",
        ">device to device",
    ];
    let mut section = Section::new("copies", &heads);
    for (run, events) in list(&trace["runs"]).iter().enumerate() {
        let copies = trace::copies(events);
        for origin in ["runtime", "delegate", "caller"] {
            let cells = ["h2d", "d2h", "d2d"].map(|kind| {
                copies
                    .iter()
                    .find(|copies| copies.origin == origin && copies.kind == kind)
                    .map(|copies| format!("{} ({})", copies.count, render::bytes(copies.nbytes)))
            });
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let [up, down, across] = cells.map(|cell| cell.unwrap_or_else(|| "-".into()));
            section.row([run.to_string(), origin.into(), up, down, across]);
        }
    }
    section
}

fn list(value: &Json) -> &[Json] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(event: &'a Json, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_default()
}

/// One line per output that was compared, and the worst difference.
/// Outputs that nothing is recorded of are only counted.
pub(super) fn comparisons(comparisons: &[Comparison], unrecorded: usize) -> String {
    let heads = [">run", ">#", "result", ">difference", ">relative"];
    let mut section = Section::new("compared with what was recorded", &heads);
    let mut worst = crate::compare::Closeness::default();
    for comparison in comparisons {
        let [result, difference, relative] = match &comparison.result {
            Ok(closeness) => {
                worst = worst.or_worse(*closeness);
                [
                    "equal".into(),
                    number(closeness.difference),
                    number(closeness.relative),
                ]
            }
            Err(mismatch) => {
                let closeness = mismatch.closeness();
                worst = worst.or_worse(closeness.unwrap_or_default());
                let [difference, relative] = match closeness {
                    Some(closeness) => [number(closeness.difference), number(closeness.relative)],
                    None => ["-".into(), "-".into()],
                };
                [format!("DIFFERENT: {mismatch}"), difference, relative]
            }
        };
        section.row([
            comparison.run.to_string(),
            comparison.output.to_string(),
            result,
            difference,
            relative,
        ]);
    }
    let mut text = String::new();
    section.write_to(&mut text);
    let outputs = render::count(comparisons.len() as u64, "output");
    text.push_str(&format!(
        "{outputs} compared; worst difference {}, relative {}\n",
        number(worst.difference),
        number(worst.relative),
    ));
    if unrecorded > 0 {
        let outputs = render::count(unrecorded as u64, "output");
        text.push_str(&format!(
            "{outputs} not compared: .npy files alone record tensors only, meta.json or outputs.json all else\n"
        ));
    }
    text
}

/// A difference: exactly nothing, or its order of magnitude.
fn number(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else {
        format!("{value:.2e}")
    }
}
