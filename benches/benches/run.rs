//! Loading and running real programs: what each stage costs.
//!
//! `load_program` reads and verifies, `load_method` plans memory and resolves instructions, `execute` runs. `chain` has 6
//! kernel calls on 12 elements each, so its time per run is the overhead of instructions; `mlp` and `device` add work.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use et_device::{AllocatorHandle, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{Environment, Tensor};
use et_module::{Method, Program};
use et_ops as _;
use et_sim::{SimAllocator, SimOptions};

fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/fixtures")
        .join(case)
        .join("model.pte")
}

fn environment() -> Environment {
    let sim = SimAllocator::new(SimOptions::new(DeviceType::CUDA).devices(2));
    let registry = DeviceAllocatorRegistry::new();
    registry
        .register(AllocatorHandle::from(Arc::new(sim)))
        .expect("the registry is empty");
    Environment::linked()
        .expect("no operator is linked twice")
        .with_devices(registry)
}

/// A loaded method with every input set to ones.
fn ready(program: &Program, environment: &Environment) -> Method {
    let mut method = program
        .load_method("forward", environment)
        .expect("the fixture loads");
    for index in 0..method.num_inputs() {
        let info = method.meta().input(index).expect("the input exists");
        let sizes = info
            .tensor
            .expect("fixtures take tensors")
            .meta
            .sizes()
            .to_vec();
        let ones = vec![1.0f32; sizes.iter().product()];
        let tensor = Tensor::from_slice(&ones, &sizes).expect("the shape is the program's");
        method
            .set_input(index, &tensor.into())
            .expect("the input fits");
    }
    method
}

fn stages(criterion: &mut Criterion) {
    let environment = environment();
    for (name, case) in [
        ("chain", "mul_add_chain"),
        ("mlp", "mlp"),
        ("device", "dev_single_add"),
    ] {
        let bytes: Arc<[u8]> = std::fs::read(fixture(case))
            .expect("the fixture is in the repository")
            .into();
        let program = Program::from_bytes(Arc::clone(&bytes)).expect("the fixture is valid");
        let mut group = criterion.benchmark_group(name);
        group.bench_function("load_program", |b| {
            b.iter(|| {
                Program::from_bytes(Arc::clone(black_box(&bytes))).expect("the fixture is valid")
            });
        });
        group.bench_function("load_method", |b| {
            b.iter(|| {
                program
                    .load_method("forward", &environment)
                    .expect("the fixture loads")
            });
        });
        let mut method = ready(&program, &environment);
        group.bench_function("execute", |b| {
            b.iter(|| method.execute().expect("the fixture runs"))
        });
        group.finish();
    }
}

criterion_group!(benches, stages);
criterion_main!(benches);
