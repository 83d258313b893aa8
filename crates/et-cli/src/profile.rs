//! How long each instruction took, in the form that trace viewers of browsers read.

use crate::survey::{self, HOST};
use et_kernel::{Event, EventHook};
use et_schema::{InstructionView, PlanView, ProgramView};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

/// Watches a program and keeps a slice of time per instruction.
#[derive(Debug)]
pub(crate) struct Profiler {
    start: Instant,
    instructions: BTreeMap<String, Vec<Facts>>,
    state: Mutex<State>,
}

/// What a method's plan says of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    /// Bytes of its tensors together; the most there can be where shapes are dynamic.
    nbytes: u64,
    /// The device of the last one, which is what it writes.
    device: String,
}

#[derive(Debug, Default)]
struct State {
    /// How many delegates we are inside of: their own programs are not ours to tell.
    delegates: usize,
    method: String,
    run_begin: f64,
    step: Option<(f64, String)>,
    slices: Vec<Json>,
}

impl Profiler {
    /// A profiler for the methods of a program.
    pub(crate) fn new(program: &ProgramView<'_>) -> Self {
        let instructions = program
            .plans()
            .map(|plan| (plan.name().to_owned(), facts(&plan)))
            .collect();
        Self {
            start: Instant::now(),
            instructions,
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
            Event::LoadBegin { .. } => state.run_begin = now,
            Event::LoadEnd { method } => {
                let begin = state.run_begin;
                state.add(&format!("load {method}"), "load", begin, now, json!({}));
            }
            Event::ExecuteBegin { method } => {
                method.clone_into(&mut state.method);
                state.run_begin = now;
            }
            Event::ExecuteEnd { method, .. } => {
                let begin = state.run_begin;
                state.add(method, "method", begin, now, json!({}));
            }
            Event::StepBegin { name, .. } => state.step = Some((now, name.to_owned())),
            Event::StepEnd { instruction } => {
                if let Some((begin, name)) = state.step.take() {
                    let list = self.instructions.get(&state.method);
                    let facts = list.and_then(|list| list.get(instruction));
                    let arguments = json!({
                        "instruction": instruction,
                        "nbytes": facts.map(|facts| facts.nbytes),
                        "device": facts.map(|facts| facts.device.as_str()),
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

/// The facts of each instruction of the first chain, which is the only one that programs have.
fn facts(plan: &PlanView<'_>) -> Vec<Facts> {
    let chain = plan.chains().next();
    let instructions = chain.iter().flat_map(|chain| chain.instructions());
    instructions
        .map(|instruction| facts_of(plan, &instruction))
        .collect()
}

fn facts_of(plan: &PlanView<'_>, instruction: &InstructionView<'_>) -> Facts {
    let mut facts = Facts {
        nbytes: 0,
        device: HOST.into(),
    };
    let (InstructionView::Kernel { args, .. } | InstructionView::Delegate { args, .. }) =
        instruction
    else {
        return facts;
    };
    // Programs name their result twice: as the last argument, and as the value that is returned.
    let mut seen = Vec::new();
    for index in args.iter() {
        if let Some(tensor) = plan.value(index).and_then(|value| value.as_tensor())
            && !seen.contains(&index)
        {
            seen.push(index);
            facts.nbytes = facts.nbytes.saturating_add(tensor.nbytes().unwrap_or(0));
            facts.device = survey::tensor_device(&tensor);
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use et_schema::ParsedProgram;

    fn profiler() -> Profiler {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
        let file = std::fs::read(format!("{dir}/dev_single_add/model.pte")).unwrap();
        Profiler::new(&ParsedProgram::from_file_bytes(&file).unwrap().root())
    }

    #[test]
    fn instructions_have_the_bytes_and_the_device_of_their_tensors() {
        let facts = &profiler().instructions["forward"];
        let expected: Vec<(u64, &str)> = vec![
            (48, "cuda:0"),
            (48, "cuda:0"),
            (72, "cuda:0"),
            (48, "cpu"),
            (48, "cpu"),
        ];
        let found: Vec<_> = facts
            .iter()
            .map(|f| (f.nbytes, f.device.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn each_instruction_is_a_slice_and_those_of_nested_programs_are_not() {
        let profiler = profiler();
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
            profiler.event(&Event::StepEnd { instruction: 7 });
            profiler.event(&Event::DelegateEnd);
            profiler.event(&Event::StepEnd { instruction });
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
        assert_eq!(slices[1]["args"]["nbytes"], 72);
        assert!(
            slices
                .iter()
                .all(|slice| slice["dur"].as_f64().unwrap() >= 0.0)
        );
    }
}
