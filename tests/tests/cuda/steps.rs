//! Driver calls of whole steps.

use std::sync::{Arc, Mutex};

use crate::{Calls, Machine, calls, calls_since};
use et_kernel::{Event, EventHook, ScalarType, Tensor, TensorMeta};
use et_module::Handover;
use et_tests::Case;

/// Inputs and outputs of both methods: token, position, and the two caches.
const VALUES: usize = 4;

/// Collects the driver calls that delegates make.
#[derive(Debug, Default)]
struct InsideOfDelegates(Mutex<(Calls, Calls)>);

impl InsideOfDelegates {
    fn take(&self) -> Calls {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }
}

impl EventHook for InsideOfDelegates {
    fn event(&self, event: &Event<'_>) {
        let mut state = self.0.lock().unwrap();
        match event {
            Event::DelegateBegin { .. } => state.0 = fakecuda::all_calls(),
            Event::DelegateEnd => {
                let inside = calls_since(&state.0);
                for (name, count) in inside {
                    *state.1.entry(name).or_default() += count;
                }
            }
            _ => {}
        }
    }
}

/// The calls since `before` without those that delegates made.
fn outside(before: &Calls, inside: &Calls) -> Calls {
    let mut calls = calls_since(before);
    calls.retain(|name, count| {
        *count -= inside.get(name).copied().unwrap_or(0);
        *count > 0
    });
    calls
}

fn token_of(tensor: &Tensor) -> i64 {
    tensor.as_slice::<i64>().unwrap()[0]
}

/// A greedy decode whose state stays on the device, on the real allocator: the answers are right, and each step takes
/// one copy (of the token) and one wait for it, outside of the delegate. The first step also allocates.
#[test]
fn a_resident_decode_step_is_one_copy() {
    let machine = Machine::new();
    let hook = Arc::new(InsideOfDelegates::default());
    let environment = machine.environment.clone().with_hook(hook.clone());
    let case = Case::fixture("dev_lm_resident");
    let runs = case.runs();
    let program = case.module(&environment).unwrap().program().clone();
    let mut prefill = program.load_method("prefill", &environment).unwrap();
    let mut decode = program.load_method("decode", &environment).unwrap();
    for (index, input) in runs[0].inputs.iter().enumerate() {
        prefill.set_input(index, input).unwrap();
    }
    prefill.execute().unwrap();
    for value in 0..VALUES {
        let handed = prefill.hand_over(value, &mut decode, value).unwrap();
        assert_eq!(handed, Handover::Exchanged);
    }
    let meta = TensorMeta::contiguous(ScalarType::Long, &[1, 1]).unwrap();
    let mut token = Tensor::zeros(meta).unwrap();
    for (step, run) in runs.iter().enumerate().skip(1) {
        hook.take();
        let before = fakecuda::all_calls();
        decode.execute().unwrap();
        decode.output_into(0, &mut token).unwrap();
        for value in 0..VALUES {
            assert_eq!(decode.feed_back(value, value).unwrap(), Handover::Exchanged);
        }
        let inside = hook.take();
        let outside = outside(&before, &inside);
        println!("step {step}: outside of the delegate {outside:?}, inside {inside:?}");
        // Each value gets its second place in the first step.
        if step > 1 {
            assert_eq!(
                outside,
                calls(&[("cuMemcpyDtoHAsync_v2", 1), ("cuStreamSynchronize", 1)])
            );
        }
        assert_eq!(
            token_of(&token),
            token_of(run.outputs[0].as_tensor().unwrap())
        );
    }
}

/// Two inputs go up, an output comes down, and nothing is allocated for it.
#[test]
fn a_program_with_copies_makes_its_copies_and_no_other_call() {
    let machine = Machine::new();
    let case = Case::fixture("dev_single_add");
    let hook = Arc::new(InsideOfDelegates::default());
    let environment = machine.environment.clone().with_hook(hook.clone());
    let mut module = case.module(&environment).unwrap();
    for run in case.runs() {
        module.method(&run.method).unwrap();
        hook.take();
        let before = fakecuda::all_calls();
        let outputs = module.execute(&run.method, &run.inputs).unwrap();
        assert_eq!(run.difference(&outputs), None);
        assert_eq!(
            outside(&before, &hook.take()),
            calls(&[
                ("cuMemcpyDtoHAsync_v2", 1),
                ("cuMemcpyHtoDAsync_v2", 2),
                ("cuStreamSynchronize", 3)
            ])
        );
    }
}

/// Every recorded program that uses devices gives its answers on the CUDA allocator as well, in whatever order queued work
/// runs.
#[test]
fn recorded_device_programs_give_their_answers_under_every_schedule() {
    let machine = Machine::new();
    let cases = Case::fixtures();
    let mut count = 0;
    for (schedule, case) in (0..10).flat_map(|s| cases.iter().map(move |case| (s, case))) {
        if !case.uses_devices() {
            continue;
        }
        fakecuda::schedule(schedule);
        let mut module = case.module(&machine.environment).unwrap();
        for run in case.runs() {
            let outputs = module.execute(&run.method, &run.inputs).unwrap();
            let difference = run.difference(&outputs);
            assert_eq!(difference, None, "{}, schedule {schedule}", case.name);
            count += 1;
        }
    }
    fakecuda::schedule(0);
    assert!(count > 100, "{count}");
    for device in &machine.devices {
        assert_eq!(device.violations(), "");
    }
}
