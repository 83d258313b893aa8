//! Tests of what a kernel and a method do with values: access, views, copies, shapes.

mod access;
mod copies;
mod memory;
mod registries;
mod tables;
mod views;

use std::sync::Arc;

use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceType};
use et_memory::{Budget, BufferSpec, MemoryPlan, PlannedMemory, PlannedSlot};
use et_sim::{SimAllocator, SimOptions};

use crate::{
    Dynamism, EValue, Environment, KernelContext, ScalarType, Tensor, TensorMeta, ValueIndex,
    ValueTable,
};

/// A device type that is neither the host nor CUDA.
const OTHER: DeviceType = match DeviceType::from_raw(7) {
    Ok(device_type) => device_type,
    Err(_) => panic!("7 is a device type"),
};

fn cuda(index: u8) -> Device {
    Device::cuda(index).unwrap()
}

fn floats(sizes: &[usize]) -> TensorMeta {
    TensorMeta::contiguous(ScalarType::Float, sizes).unwrap()
}

fn bounded(sizes: &[usize]) -> TensorMeta {
    floats(sizes).with_dynamism(Dynamism::Bound)
}

/// Two simulated CUDA devices and one of another type, and what meets them.
struct Bench {
    sim: Arc<SimAllocator>,
    other: Arc<SimAllocator>,
    environment: Environment,
}

impl Bench {
    fn new() -> Self {
        let sim = Arc::new(SimAllocator::new(
            SimOptions::new(DeviceType::CUDA).devices(2),
        ));
        let other = Arc::new(SimAllocator::new(SimOptions::new(OTHER)));
        let registry = DeviceAllocatorRegistry::new();
        for allocator in [&sim, &other] {
            registry
                .register(AllocatorHandle::from(Arc::clone(allocator)))
                .unwrap();
        }
        let environment = Environment::default().with_devices(registry);
        Self {
            sim,
            other,
            environment,
        }
    }

    fn registry(&self) -> &DeviceAllocatorRegistry {
        &self.environment.devices
    }

    /// Copies made on the CUDA devices so far: from the host, to the host, between devices.
    fn copies(&self) -> (u64, u64, u64) {
        let counters = self.sim.counters();
        (
            counters.host_to_device,
            counters.device_to_host,
            counters.device_to_device,
        )
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.sim.leaks(), []);
            assert_eq!(self.other.leaks(), []);
        }
    }
}

/// A table with one host buffer of `nbytes` bytes.
fn host_table(nbytes: u64) -> ValueTable {
    let plan = MemoryPlan::new([BufferSpec::new(nbytes, Device::CPU)]);
    let planned =
        PlannedMemory::allocate(&plan, &DeviceAllocatorRegistry::new(), &Budget::unlimited());
    ValueTable::new(planned.unwrap())
}

fn slot(meta: &TensorMeta, offset_bytes: u64) -> PlannedSlot {
    PlannedSlot {
        memory_id: 1,
        offset_bytes,
        nbytes: meta.bound_nbytes() as u64,
        alignment: meta.alignment(),
        device: meta.device(),
    }
}

/// Adds a tensor at `offset_bytes` of the table's buffer.
fn place(table: &mut ValueTable, meta: TensorMeta, offset_bytes: u64) -> ValueIndex {
    let slot = slot(&meta, offset_bytes);
    table.push_planned(meta, &slot).unwrap();
    last(table)
}

fn own(table: &mut ValueTable, tensor: Tensor) -> ValueIndex {
    table.push_owned(tensor);
    last(table)
}

fn push(table: &mut ValueTable, value: EValue) -> ValueIndex {
    table.push(value);
    last(table)
}

fn last(table: &ValueTable) -> ValueIndex {
    ValueIndex(u32::try_from(table.len()).unwrap() - 1)
}

fn fill(table: &mut ValueTable, index: ValueIndex, elements: &[f32]) {
    table
        .bytes_mut(index)
        .unwrap()
        .copy_from_slice(crate::as_bytes(elements));
}

fn elements(table: &ValueTable, index: ValueIndex) -> Vec<f32> {
    table.tensor(index).unwrap().as_slice().unwrap().to_vec()
}

/// Calls `kernel` on arguments.
fn call<R>(
    table: &mut ValueTable,
    arguments: &[ValueIndex],
    environment: &Environment,
    kernel: impl FnOnce(&mut KernelContext<'_>) -> R,
) -> R {
    kernel(&mut table.call(arguments, None, environment).unwrap())
}
