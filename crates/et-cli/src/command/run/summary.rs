//! What `et run` tells: outputs, device memory, copies, comparisons.

use super::Run;
use crate::compare::Closeness;
use crate::expect::Comparison;
use crate::render::{self, Section};
use crate::report::Report;
use crate::results::describe;
use crate::trace;
use crate::value::{Tensor, Value};
use et_device::DeviceType;
use et_kernel::Origin;
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
    memory_of_loads(trace, device_type).write_to(&mut report.text);
    memory_of_runs(trace, device_type).write_to(&mut report.text);
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
fn memory_of_loads(trace: &Json, device_type: DeviceType) -> Section {
    let mut section = Section::new(
        "device memory at load",
        &["method", "device", ">blocks", ">bytes", "by"],
    );
    let loads = trace["load"].as_object().into_iter().flatten();
    for (method, events) in loads {
        for [device, blocks, nbytes, by] in allocations(events, device_type) {
            section.row([render::name(method), device, blocks, nbytes, by]);
        }
    }
    section
}

/// Device memory that runs took: for inputs and outputs without a plan, in the first run of each method.
fn memory_of_runs(trace: &Json, device_type: DeviceType) -> Section {
    let mut section = Section::new(
        "device memory taken by runs",
        &[">run", "device", ">blocks", ">bytes", "by"],
    );
    for (run, events) in list(&trace["runs"]).iter().enumerate() {
        for [device, blocks, nbytes, by] in allocations(events, device_type) {
            section.row([run.to_string(), device, blocks, nbytes, by]);
        }
    }
    section
}

/// Device, blocks, bytes, and by whom, of what was allocated.
fn allocations(events: &Json, device_type: DeviceType) -> Vec<[String; 4]> {
    let mut sums: BTreeMap<(u64, &str), (u64, u64)> = BTreeMap::new();
    for event in list(events).iter().filter(|event| event["ev"] == "alloc") {
        let index = event["index"].as_u64().unwrap_or(0);
        let sum = sums.entry((index, text(event, "origin"))).or_default();
        sum.0 += 1;
        sum.1 += event["nbytes"].as_u64().unwrap_or(0);
    }
    let sums = sums.into_iter();
    sums.map(|((index, origin), (blocks, nbytes))| {
        [
            format!("{device_type}:{index}"),
            blocks.to_string(),
            nbytes.to_string(),
            origin.into(),
        ]
    })
    .collect()
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
        for origin in Origin::ALL.map(Origin::name) {
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
    let mut worst = Closeness::default();
    for comparison in comparisons {
        let [result, difference, relative] = match &comparison.result {
            Ok(closeness) => {
                worst = worst.or_worse(*closeness);
                [
                    verdict(*closeness).into(),
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

/// What two values are that may count as the same.
fn verdict(closeness: Closeness) -> &'static str {
    if closeness.difference == 0.0 {
        "equal"
    } else {
        "within tolerance"
    }
}

/// A difference: exactly nothing, or its order of magnitude.
fn number(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else {
        format!("{value:.2e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_not_differ_is_equal() {
        let result = |difference| {
            let (run, output, relative) = (0, 0, difference);
            let result = Ok(Closeness {
                difference,
                relative,
            });
            comparisons(
                &[Comparison {
                    run,
                    output,
                    result,
                }],
                0,
            )
        };
        assert!(result(0.0).contains("  equal  "), "{}", result(0.0));
        let near = result(2.4e-7);
        assert!(near.contains("within tolerance"), "{near}");
        assert!(!near.contains("equal"), "{near}");
    }
}
