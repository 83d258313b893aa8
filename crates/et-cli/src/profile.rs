//! How long each instruction took, in the form that trace viewers of browsers read.

use crate::survey::HOST;
use et_kernel::{Event, EventHook};
use serde_json::{Value as Json, json};
use std::sync::Mutex;
use std::time::Instant;

/// Watches a program and keeps a slice of time per instruction.
#[derive(Debug)]
pub(crate) struct Profiler {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many delegates we are inside of: their own programs are not ours to tell.
    delegates: usize,
    run_begin: f64,
    step: Option<(f64, String)>,
    slices: Vec<Json>,
}

impl Profiler {
    /// A profiler whose time starts now.
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// The document so far.
    pub(crate) fn document(&self) -> Json {
        let state = self
            .state
            .lock()
            .expect("invariant: recording does not panic");
        json!({
            "format": "et-profile",
            "version": 1,
            "displayTimeUnit": "ms",
            "traceEvents": state.slices,
        })
    }

    /// Microseconds since the start.
    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64() * 1e6
    }
}

impl EventHook for Profiler {
    fn event(&self, event: &Event<'_>) {
        let now = self.now();
        let mut state = self
            .state
            .lock()
            .expect("invariant: recording does not panic");
        match *event {
            Event::DelegateBegin { .. } | Event::DelegateInitBegin { .. } => state.delegates += 1,
            Event::DelegateEnd | Event::DelegateInitEnd => {
                state.delegates = state.delegates.saturating_sub(1);
            }
            _ if state.delegates > 0 => {}
            Event::LoadEnd { method } => {
                let begin = state.run_begin;
                state.add(&format!("load {method}"), "load", begin, now, json!({}));
            }
            Event::LoadBegin { .. } | Event::ExecuteBegin { .. } => state.run_begin = now,
            Event::ExecuteEnd { method, .. } => {
                let begin = state.run_begin;
                state.add(method, "method", begin, now, json!({}));
            }
            Event::StepBegin { name, .. } => state.step = Some((now, name.to_owned())),
            Event::StepEnd { instruction, args } => {
                if let Some((begin, name)) = state.step.take() {
                    let arguments = json!({
                        "instruction": instruction,
                        "nbytes": args.iter().map(|arg| arg.nbytes).sum::<u64>(),
                        "device": args.last().map_or(HOST.into(), |arg| arg.device.to_string()),
                    });
                    state.add(&name, "instruction", begin, now, arguments);
                }
            }
            _ => {}
        }
    }
}

impl State {
    /// A slice of time; slices that lie in each other are shown so.
    fn add(&mut self, name: &str, category: &str, begin: f64, end: f64, arguments: Json) {
        self.slices.push(json!({
            "name": name,
            "cat": category,
            "ph": "X",
            "ts": begin,
            "dur": end - begin,
            "pid": 1,
            "tid": 1,
            "args": arguments,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use et_device::Device;
    use et_kernel::ArgumentPlace;

    #[test]
    fn each_instruction_is_a_slice_and_those_of_nested_programs_are_not() {
        let profiler = Profiler::new();
        let args = [(8, Device::CPU), (64, Device::cuda(0).unwrap())];
        let args = args.map(|(nbytes, device)| ArgumentPlace::new(device, None, nbytes));
        let step = |instruction, name| {
            profiler.event(&Event::StepBegin { instruction, name });
            profiler.event(&Event::DelegateBegin {
                backend: "b",
                target: None,
                args: &[],
            });
            profiler.event(&Event::StepBegin {
                instruction: 7,
                name: "nested",
            });
            profiler.event(&Event::StepEnd {
                instruction: 7,
                args: &[],
            });
            profiler.event(&Event::DelegateEnd);
            profiler.event(&Event::StepEnd {
                instruction,
                args: &args,
            });
        };
        profiler.event(&Event::ExecuteBegin { method: "forward" });
        step(0, "et_copy::_h2d_copy.out");
        step(2, "b");
        profiler.event(&Event::ExecuteEnd {
            method: "forward",
            outputs: &[],
        });
        let document = profiler.document();
        let slices = document["traceEvents"].as_array().unwrap();
        let names: Vec<_> = slices
            .iter()
            .map(|slice| slice["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["et_copy::_h2d_copy.out", "b", "forward"]);
        assert_eq!(
            slices[1]["args"],
            json!({"instruction": 2, "nbytes": 72, "device": "cuda:0"})
        );
        assert!(
            slices
                .iter()
                .all(|slice| slice["dur"].as_f64().unwrap() >= 0.0)
        );
    }
}
