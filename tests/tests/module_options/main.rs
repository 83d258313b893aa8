//! How methods are loaded and kept: budgets, device maps, shared arenas, state, stepping, limits.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

mod memory;
mod refusals;
mod runs;

use std::sync::{Arc, OnceLock};

use et_device::{Device, DeviceMap};
use et_kernel::{Event, EventHook, SizeLimits, Tensor};
use et_memory::{Budget, BufferSpec, MemoryPlan, PlannedMemory};
use et_module::{
    CancelHandle, ErrorKind, LoadOptions, Method, Module, ModuleOptions, Program, Value,
};
use et_tests::{Case, Run, Simulation, with_causes};

fn cuda(index: u8) -> Device {
    Device::cuda(index).unwrap()
}

fn options(change: impl FnOnce(&mut ModuleOptions)) -> ModuleOptions {
    let mut options = ModuleOptions::default();
    change(&mut options);
    options
}

fn device_map(pairs: &[(Device, Device)]) -> DeviceMap {
    let mut map = DeviceMap::new();
    for &(from, to) in pairs {
        map.insert(from, to);
    }
    map
}

#[track_caller]
fn check(module: &mut Module, run: &Run) {
    let outputs = module.execute(&run.method, &run.inputs).unwrap();
    assert_eq!(run.difference(&outputs), None);
}

fn set_inputs(method: &mut Method, run: &Run) {
    for (index, input) in run.inputs.iter().enumerate() {
        method.set_input(index, input).unwrap();
    }
}
