//! The simulated devices keep the contract, count, and fail when told.

use super::*;
use et_device::{Alignment, DevicePtr};
use std::num::NonZeroU64;

fn sim() -> SimAllocator {
    SimAllocator::new(
        SimOptions::new(DeviceType::CUDA)
            .devices(2)
            .capacity(1 << 20),
    )
}

fn request(index: u8, nbytes: u64) -> AllocationRequest {
    AllocationRequest::new(
        DeviceIndex::new(index).unwrap(),
        NonZeroU64::new(nbytes).unwrap(),
    )
}

#[track_caller]
fn read(sim: &SimAllocator, index: u8, span: DeviceSpan) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; span.len() as usize];
    let copy = DeviceToHost::new(DeviceIndex::new(index).unwrap(), &mut bytes, span).unwrap();
    // SAFETY: a simulated device checks every access.
    unsafe { sim.copy_device_to_host(copy)? };
    Ok(bytes)
}

#[test]
fn fresh_memory_is_poisoned_and_aligned_as_asked() {
    let sim = sim();
    let alignment = Alignment::new(1 << 16).unwrap();
    let block = sim
        .allocate(&request(1, 100).aligned_to(alignment))
        .unwrap();
    assert!(block.base().is_aligned(alignment));
    assert_eq!(read(&sim, 1, block), Ok(vec![0xA5; 100]));
    assert!(read(&sim, 0, block).is_err());
}

#[test]
fn overruns_stale_blocks_and_double_frees_are_errors() {
    let sim = sim();
    let block = sim.allocate(&request(0, 16)).unwrap();
    let over = DeviceSpan::new(block.base(), 17).unwrap();
    assert!(matches!(
        read(&sim, 0, over),
        Err(DeviceError::OutOfBounds { nbytes: 17, .. })
    ));
    let inside = DevicePtr::new(block.base().get() + 8).unwrap();
    let interior = DeviceSpan::new(inside, 8).unwrap();
    // SAFETY: a simulated device checks every block.
    unsafe {
        assert!(matches!(
            sim.deallocate(interior, DeviceIndex::ZERO),
            Err(DeviceError::UnknownBlock { .. })
        ));
    };
    // SAFETY: as above.
    assert_eq!(unsafe { sim.deallocate(block, DeviceIndex::ZERO) }, Ok(()));
    // SAFETY: as above.
    assert!(unsafe { sim.deallocate(block, DeviceIndex::ZERO) }.is_err());
    assert!(read(&sim, 0, block).is_err());
}

#[test]
fn capacity_and_device_count_are_limits() {
    let sim = sim();
    let error = sim.allocate(&request(0, (1 << 20) + 1)).unwrap_err();
    assert!(matches!(
        error,
        DeviceError::OutOfMemory {
            free: 1_048_576,
            total: 1_048_576,
            ..
        }
    ));
    assert!(matches!(
        sim.allocate(&request(2, 1)),
        Err(DeviceError::NoSuchDevice { count: 2, .. })
    ));
    sim.allocate(&request(0, 1 << 20)).unwrap();
    assert!(sim.allocate(&request(0, 1)).is_err());
    assert!(sim.allocate(&request(1, 1)).is_ok());
    assert_eq!(sim.leaks().len(), 2);
}

#[test]
fn an_armed_failure_happens_once() {
    let sim = sim();
    sim.fail_call(Operation::Allocate, 1);
    let ok: Vec<bool> = (0..3)
        .map(|_| sim.allocate(&request(0, 8)).is_ok())
        .collect();
    assert_eq!(ok, [true, false, true]);
}

#[test]
fn a_part_of_a_block_cannot_be_freed() {
    let sim = sim();
    let block = sim.allocate(&request(0, 16)).unwrap();
    let part = block.subspan(0, 8).unwrap();
    // SAFETY: a simulated device checks every block.
    assert!(unsafe { sim.deallocate(part, DeviceIndex::ZERO) }.is_err());
    // SAFETY: as above.
    let elsewhere = unsafe { sim.deallocate(block, DeviceIndex::new(1).unwrap()) };
    assert!(matches!(elsewhere, Err(DeviceError::UnknownBlock { .. })));
    assert_eq!(sim.leaks().len(), 1);
}

#[test]
fn the_leak_report_names_blocks_in_the_order_they_were_made() {
    let sim = sim();
    assert_eq!(sim.leak_report().to_string(), "no block is in use");
    let second = sim.allocate(&request(1, 300)).unwrap();
    let freed = sim.allocate(&request(0, 1)).unwrap();
    // SAFETY: a simulated device checks every block.
    unsafe { sim.deallocate(freed, DeviceIndex::ZERO) }.unwrap();
    let first = sim.allocate(&request(0, 20)).unwrap();
    let (second, first) = (second.base().get(), first.base().get());
    let report = sim.leak_report();
    assert_eq!(
        report.to_string(),
        format!(
            "2 blocks of 320 bytes are in use:\n  cuda:1 {second:#x}: 300 bytes from allocation 1\n  \
             cuda:0 {first:#x}: 20 bytes from allocation 3"
        )
    );
    assert_eq!((report.leaks().len(), report.nbytes()), (2, 320));
}

#[test]
fn each_device_has_counters_and_time_of_its_own() {
    let costs = CostModel::default().with_allocation_latency(Duration::from_millis(3));
    let options = SimOptions::new(DeviceType::CUDA).devices(2).costs(costs);
    let sim = SimAllocator::new(options);
    let [zero, one] = [0, 1].map(|i| DeviceIndex::new(i).unwrap());
    let from = sim.allocate(&request(1, 50)).unwrap();
    let to = sim.allocate(&request(0, 50)).unwrap();
    let copy = DeviceToDevice::new((zero, to), (one, from)).unwrap();
    // SAFETY: a simulated device checks every access.
    unsafe { sim.copy_device_to_device(copy) }.unwrap();
    // SAFETY: as above.
    unsafe { sim.fill(to, 1, zero) }.unwrap();
    let (a, b) = (
        sim.device_counters(zero).unwrap(),
        sim.device_counters(one).unwrap(),
    );
    assert_eq!(
        (a.device_to_device, a.fills, a.fill_bytes, a.live_bytes),
        (0, 1, 50, 50)
    );
    assert_eq!(
        (b.device_to_device_bytes, b.fills, b.live_bytes),
        (50, 0, 50)
    );
    let all = sim.counters();
    assert_eq!(
        (all.allocations, all.device_to_device, all.fills),
        (2, 1, 1)
    );
    let allocation = Duration::from_millis(3);
    let [at_zero, at_one] = [zero, one].map(|i| sim.simulated_time(i).unwrap());
    assert!(at_zero > allocation && at_one > allocation);
    assert_eq!(
        at_one - allocation,
        costs.of(&TraceEvent::DeviceToDevice {
            src: one,
            dst: zero,
            nbytes: 50
        })
    );
    let missing = DeviceIndex::new(2).unwrap();
    assert_eq!(
        (sim.device_counters(missing), sim.simulated_time(missing)),
        (None, None)
    );
}

#[test]
fn no_time_is_kept_unless_asked_for() {
    let sim = sim();
    sim.allocate(&request(0, 50)).unwrap();
    assert_eq!(sim.simulated_time(DeviceIndex::ZERO), Some(Duration::ZERO));
}

#[test]
fn every_kind_of_call_can_fail_and_leaves_the_device_as_it_was() {
    let sim = sim();
    let zero = DeviceIndex::ZERO;
    let [a, b] = [(); 2].map(|()| sim.allocate(&request(0, 8)).unwrap());
    // SAFETY: a simulated device checks every access.
    unsafe { sim.fill(a, 3, zero) }.unwrap();
    let before = sim.counters();
    let call = |kind| match kind {
        Operation::Allocate => sim.allocate(&request(0, 8)).map(drop),
        Operation::MemoryInfo => sim.memory_info(zero).map(drop),
        Operation::Synchronize => sim.synchronize(zero),
        // SAFETY: as above.
        Operation::Deallocate => unsafe { sim.deallocate(a, zero) },
        // SAFETY: as above.
        Operation::Fill => unsafe { sim.fill(a, 9, zero) },
        Operation::DeviceToHost => read(&sim, 0, a).map(drop),
        Operation::HostToDevice => {
            // SAFETY: as above.
            unsafe { sim.copy_host_to_device(HostToDevice::new(zero, a, &[9; 8]).unwrap()) }
        }
        Operation::DeviceToDevice => {
            let copy = DeviceToDevice::new((zero, a), (zero, b)).unwrap();
            // SAFETY: as above.
            unsafe { sim.copy_device_to_device(copy) }
        }
        other => panic!("{other:?} is no kind"),
    };
    for kind in Operation::KINDS {
        sim.fail_call(kind, 0);
        assert_eq!(sim.failures_left(), 1);
        let error = call(kind).unwrap_err();
        match error {
            DeviceError::OutOfMemory { requested: 8, .. } => {
                assert_eq!(kind, Operation::Allocate)
            }
            DeviceError::Driver { operation, .. } => assert_eq!(operation, kind.name()),
            _ => panic!("{error}"),
        }
        assert_eq!((sim.failures_left(), sim.counters()), (0, before));
    }
    assert_eq!(read(&sim, 0, a), Ok(vec![3; 8]));
}

#[test]
fn failures_can_be_taken_back() {
    let sim = sim();
    sim.fail_call(Operation::Any, 0);
    sim.clear_failures();
    assert!(sim.memory_info(DeviceIndex::ZERO).is_ok());
}
