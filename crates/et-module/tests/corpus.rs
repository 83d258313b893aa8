//! Real programs of the repository's fixtures, with recorded answers.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use et_device::{AllocatorHandle, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{Environment, Tensor};
use et_module::{Module, Program, Value};
use et_ops as _;
use et_sim::{SimAllocator, SimOptions};

fn fixture(case: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(case)
        .join(file)
}

/// The elements of a one-dimensional view of a little-endian f32 `.npy` file, and its shape.
fn npy(path: &Path) -> (Vec<f32>, Vec<usize>) {
    let bytes = std::fs::read(path).unwrap();
    let header_len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (header, data) = bytes[10..].split_at(header_len);
    let header = std::str::from_utf8(header).unwrap();
    assert!(header.contains("'<f4'"), "{header}");
    let shape = header
        .split_once("'shape': (")
        .unwrap()
        .1
        .split_once(')')
        .unwrap()
        .0;
    let shape = shape
        .split(',')
        .filter_map(|n| n.trim().parse().ok())
        .collect();
    (
        data.chunks_exact(4)
            .map(|c| f32::from_le_bytes(c.try_into().unwrap()))
            .collect(),
        shape,
    )
}

fn input(case: &str, index: usize) -> Value {
    let (elements, shape) = npy(&fixture(case, &format!("in_{index}.npy")));
    Tensor::from_slice(&elements, &shape).unwrap().into()
}

fn simulated() -> (Arc<SimAllocator>, Environment) {
    let sim = Arc::new(SimAllocator::new(
        SimOptions::new(DeviceType::CUDA).devices(2),
    ));
    let registry = DeviceAllocatorRegistry::new();
    registry
        .register(AllocatorHandle::from(Arc::clone(&sim)))
        .unwrap();
    (sim, Environment::linked().unwrap().with_devices(registry))
}

#[track_caller]
fn check(case: &str) {
    let (sim, environment) = simulated();
    let program = Program::open(fixture(case, "model.pte")).unwrap();
    let mut module = Module::new(program, environment);
    let inputs: Vec<Value> = (0..module.method_meta("forward").unwrap().num_inputs())
        .map(|i| input(case, i))
        .collect();
    for _ in 0..2 {
        let outputs = module
            .forward(&inputs)
            .unwrap_or_else(|error| panic!("{error}: {:?}", error.kind()));
        for (index, output) in outputs.iter().enumerate() {
            let tensor = output.as_tensor().unwrap();
            let (expected, shape) = npy(&fixture(case, &format!("out_{index}.npy")));
            assert_eq!(tensor.sizes(), shape);
            for (got, expected) in tensor.as_slice::<f32>().unwrap().iter().zip(expected) {
                assert!(
                    (got - expected).abs() <= 1e-4 * expected.abs().max(1.0),
                    "{got} {expected}"
                );
            }
        }
    }
    drop(module);
    assert_eq!(sim.counters().live_blocks, 0);
}

macro_rules! cases {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )+};
}

cases! {
    add, mul_add_chain, linear, mlp, dev_single_add, dev_single_all, dev_two_same, dev_two_cross, dev_cpu_between,
    dev_same_and_cross, dev_multi_output, dev_shared_output, dev_no_target, dev_zero_elements,
}
