//! A plan of five buffers on three devices, and one on the host, and what a method does with them.

use std::sync::Arc;

use et_device::{
    Alignment, Device, DeviceAllocator, DeviceAllocatorRegistry, DeviceError, DeviceToDevice,
    DeviceToHost, DeviceType, HostToDevice,
};
use et_memory::{
    Budget, BufferSpec, MemoryError, MemoryPlan, Place, PlannedMemory, PlannedSlot, failed_frees,
};
use et_sim::{Operation, SimAllocator, SimOptions};

use crate::sweep;

/// The buffers, by memory id from 1.
const BUFFERS: [(u64, Option<u8>); 6] = [
    (100, Some(0)),
    (4096, Some(1)),
    (64, None),
    (1, Some(2)),
    (64, Some(0)),
    (300, Some(1)),
];

fn device(index: Option<u8>) -> Device {
    index.map_or(Device::CPU, |index| Device::cuda(index).unwrap())
}

struct Method {
    sim: Arc<SimAllocator>,
    registry: DeviceAllocatorRegistry,
    plan: MemoryPlan,
}

impl Method {
    fn new() -> Self {
        let options = SimOptions::new(DeviceType::CUDA).devices(3);
        let sim = Arc::new(SimAllocator::new(options));
        let registry = DeviceAllocatorRegistry::new();
        registry.register(Arc::clone(&sim).into()).unwrap();
        let buffers = BUFFERS.map(|(nbytes, index)| BufferSpec::new(nbytes, device(index)));
        Self {
            sim,
            registry,
            plan: MemoryPlan::new(buffers),
        }
    }

    /// Loads: allocates and zeroes all buffers, and uploads initial state to two. Then runs: an input goes to device 0,
    /// from there over device 1 to device 0 again, and back.
    fn load_and_run(&self) -> Result<[u8; 64], MemoryError> {
        let memory = PlannedMemory::allocate(&self.plan, &self.registry, &Budget::unlimited())?;
        self.upload(&memory, 2, &[9; 4096])?;
        self.upload(&memory, 4, &[1])?;
        let input: [u8; 64] = std::array::from_fn(|i| i as u8);
        self.upload(&memory, 5, &input)?;
        self.copy(&memory, 5, 6)?;
        self.copy(&memory, 6, 1)?;
        let (from, span) = self.find(&memory, 1)?;
        let mut output = [0; 64];
        let fetch = DeviceToHost::new(from.index(), &mut output, span).unwrap();
        // SAFETY: a part of a planned buffer, which lives until the end of this function.
        unsafe { self.sim.copy_device_to_host(fetch)? };
        Ok(output)
    }

    fn find(
        &self,
        memory: &PlannedMemory,
        memory_id: u32,
    ) -> Result<(Device, et_device::DeviceSpan), MemoryError> {
        let (size, index) = BUFFERS[memory_id as usize - 1];
        let slot = PlannedSlot {
            memory_id,
            offset_bytes: 0,
            nbytes: size.min(64),
            alignment: Alignment::ONE,
            device: device(index),
        };
        match memory.resolve(&slot)? {
            Some(Place::Device(device, span)) => Ok((device, span)),
            other => panic!("buffer {memory_id} is at {other:?}"),
        }
    }

    fn upload(&self, memory: &PlannedMemory, id: u32, bytes: &[u8]) -> Result<(), MemoryError> {
        let (to, span) = self.find(memory, id)?;
        let store = HostToDevice::new(to.index(), span, &bytes[..span.len() as usize]).unwrap();
        // SAFETY: a part of a planned buffer that nothing else uses.
        unsafe { self.sim.copy_host_to_device(store)? };
        Ok(())
    }

    fn copy(&self, memory: &PlannedMemory, from: u32, to: u32) -> Result<(), MemoryError> {
        let ((from, src), (to, dst)) = (self.find(memory, from)?, self.find(memory, to)?);
        let copy = DeviceToDevice::new((to.index(), dst), (from.index(), src)).unwrap();
        // SAFETY: parts of two planned buffers that nothing else uses.
        unsafe { self.sim.copy_device_to_device(copy)? };
        Ok(())
    }

    /// Fails each call of the kind in turn, and gives the errors.
    fn errors(&self, operation: Operation) -> Vec<MemoryError> {
        let mut errors = Vec::new();
        let attempt = || self.load_and_run();
        sweep(&self.sim, operation, attempt, |call, outcome| {
            let report = self.sim.leak_report();
            assert!(report.is_empty(), "{operation:?} {call}: {report}");
            errors.push(outcome.expect_err("a call failed"));
            let later = self.load_and_run().expect("the devices are well again");
            assert_eq!(later, std::array::from_fn(|i| i as u8));
        });
        errors
    }
}

#[test]
fn every_allocation_may_fail() {
    let method = Method::new();
    let errors = method.errors(Operation::Allocate);
    let found: Vec<(u32, u64, Device)> = errors
        .into_iter()
        .map(|error| match error {
            MemoryError::Buffer {
                memory_id,
                nbytes,
                device,
                source: DeviceError::OutOfMemory { requested, .. },
            } => {
                assert_eq!(requested, nbytes);
                (memory_id, nbytes, device)
            }
            other => panic!("{other}"),
        })
        .collect();
    // One allocation for each buffer on a device, in order, and the error names it.
    let expected = (1..)
        .zip(BUFFERS)
        .filter(|(_, (_, index))| index.is_some())
        .map(|(memory_id, (nbytes, index))| (memory_id, nbytes, device(index)));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn every_copy_may_fail() {
    let method = Method::new();
    let operations: Vec<&str> = method
        .errors(Operation::Copy)
        .into_iter()
        .map(|error| match error {
            MemoryError::Device(DeviceError::Driver { operation, .. })
            | MemoryError::Buffer {
                source: DeviceError::Driver { operation, .. },
                ..
            } => operation,
            other => panic!("{other}"),
        })
        .collect();
    let (fill, h2d) = ("fill", "copy_host_to_device");
    let (d2d, d2h) = ("copy_device_to_device", "copy_device_to_host");
    let expected = [fill, fill, fill, fill, fill, h2d, h2d, h2d, d2d, d2d, d2h];
    assert_eq!(operations, expected);
}

#[test]
fn every_kind_of_call_may_fail_alone() {
    let method = Method::new();
    let count = |operation| method.errors(operation).len();
    assert_eq!(count(Operation::Fill), 5);
    assert_eq!(count(Operation::HostToDevice), 3);
    assert_eq!(count(Operation::DeviceToDevice), 2);
    assert_eq!(count(Operation::DeviceToHost), 1);
    // Nothing in this work asks or waits.
    assert_eq!(count(Operation::MemoryInfo), 0);
    assert_eq!(count(Operation::Synchronize), 0);
}

#[test]
fn a_free_that_fails_is_counted_and_loses_one_block_only() {
    let method = Method::new();
    let before = failed_frees();
    let mut lost = 0;
    let attempt = || method.load_and_run();
    let frees = sweep(&method.sim, Operation::Deallocate, attempt, |_, outcome| {
        outcome.expect("the work itself went well");
        lost += 1;
        assert_eq!(method.sim.leak_report().leaks().len(), lost);
    });
    assert_eq!((frees, lost), (5, 5));
    assert_eq!(failed_frees() - before, 5);
}
