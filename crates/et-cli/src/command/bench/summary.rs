//! What `et bench` tells.

use super::{Bench, Times};
use crate::render::{self, Section};
use crate::report::Report;
use crate::trace;
use et_device::DeviceType;
use serde_json::{Map, Value as Json, json};
use std::time::Duration;

/// The result in both forms.
pub(super) fn report(bench: &Bench, device_type: DeviceType) -> Report {
    let copies = trace::copies(&bench.trace["runs"][0]);
    let mut report = Report::text(text(bench, device_type, &copies));
    report.set("file", bench.file.as_str());
    report.set("file_bytes", bench.file_nbytes);
    report.set("method", bench.method.as_str());
    report.set("instructions", bench.num_instructions);
    let times = bench.times.iter();
    let times: Map<String, Json> = times
        .map(|(what, times)| (what.replace(' ', "_"), times_json(times)))
        .collect();
    report.set("times", times);
    report.set("planned_bytes", json!(bench.planned));
    report.set("unplanned_bytes", json!(bench.unplanned));
    let (blocks, nbytes) = bench.heap;
    report.set(
        "heap_per_execute",
        json!({"blocks": blocks, "bytes": nbytes}),
    );
    report.set("peak_resident_bytes", bench.peak_resident);
    report.set(
        "copies_per_call",
        copies.iter().map(copy_json).collect::<Vec<_>>(),
    );
    report
}

fn text(bench: &Bench, device_type: DeviceType, copies: &[trace::Copies]) -> String {
    let mut text = format!(
        "{}: method {}, {}, file {}\n\n",
        bench.file,
        render::name(&bench.method),
        render::count(bench.num_instructions as u64, "instruction"),
        render::bytes(bench.file_nbytes),
    );
    let mut section = Section::new("times", &["", ">median", ">5 %", ">95 %", ">times"]);
    for (what, times) in &bench.times {
        let [low, median, high] = [5, 50, 95].map(|percent| duration(times.percentile(percent)));
        section.row([(*what).into(), median, low, high, times.0.len().to_string()]);
    }
    section.write_to(&mut text);

    let mut section = Section::new("memory", &["what", ">bytes"]);
    for (kind, memory) in [("planned", &bench.planned), ("unplanned", &bench.unplanned)] {
        for (device, nbytes) in memory {
            section.row([format!("{kind} on {device}"), render::bytes(*nbytes)]);
        }
    }
    let (blocks, nbytes) = bench.heap;
    let taken = match blocks {
        0 => "none".into(),
        _ => format!(
            "{} in {}",
            render::bytes(nbytes),
            render::count(blocks, "block")
        ),
    };
    section.row(["heap taken by one execute".into(), taken]);
    if let Some(peak) = bench.peak_resident {
        section.row([
            "most ever resident in this process".into(),
            render::bytes(peak),
        ]);
    }
    section.write_to(&mut text);

    let heads = ["by", "direction", ">copies", ">bytes"];
    let mut section = Section::new("copies of one call", &heads);
    for copies in copies {
        section.row([
            copies.origin.into(),
            copies.direction(device_type),
            copies.count.to_string(),
            render::bytes(copies.nbytes),
        ]);
    }
    section.write_to(&mut text);
    text
}

fn times_json(times: &Times) -> Json {
    let nanoseconds = |percent| times.percentile(percent).as_nanos() as u64;
    json!({
        "median_ns": nanoseconds(50),
        "p5_ns": nanoseconds(5),
        "p95_ns": nanoseconds(95),
        "count": times.0.len(),
    })
}

fn copy_json(copies: &trace::Copies) -> Json {
    json!({
        "kind": copies.kind,
        "origin": copies.origin,
        "count": copies.count,
        "bytes": copies.nbytes,
    })
}

/// Three digits and a unit.
fn duration(time: Duration) -> String {
    let nanoseconds = time.as_nanos() as f64;
    let (value, unit) = match nanoseconds {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = match value {
        v if unit == "ns" || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_duration(nanoseconds: u64, expected: &str) {
        assert_eq!(duration(Duration::from_nanos(nanoseconds)), expected);
    }

    #[test]
    fn durations_have_three_digits() {
        check_duration(0, "0 ns");
        check_duration(999, "999 ns");
        check_duration(1_234, "1.23 µs");
        check_duration(12_345, "12.3 µs");
        check_duration(123_456_789, "123 ms");
        check_duration(2_000_000_000, "2.00 s");
    }
}
