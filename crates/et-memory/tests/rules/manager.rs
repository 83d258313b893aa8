//! What belongs to one method.

use super::*;

// The memory of a method.

#[test]
fn r_mm_02_a_manager_gives_what_it_was_given() {
    let bench = Bench::new();
    let planned = bench.planned(&[(16, cuda(0)), (4, Device::CPU)]).unwrap();
    let spans: Vec<Option<Place>> = planned.buffers().iter().map(PlannedBuffer::place).collect();
    let manager = MemoryManager::new(planned);
    let kept = manager.planned.buffers().iter().map(PlannedBuffer::place);
    assert!(kept.eq(spans));
    assert_eq!(manager.temp.capacity(), 0);
    let bounded = MemoryManager {
        temp: Arena::bounded(100).unwrap(),
        ..MemoryManager::default()
    };
    assert_eq!(bounded.temp.capacity(), 100);
}

#[test]
fn r_mm_03_devices_come_from_the_planned_memory() {
    let bench = Bench::new();
    let manager = MemoryManager::new(bench.planned(&[(1, Device::CPU), (1, cuda(1))]).unwrap());
    let devices: Vec<Device> = manager
        .planned
        .buffers()
        .iter()
        .map(PlannedBuffer::device)
        .collect();
    assert_eq!(devices, [Device::CPU, cuda(1)]);
    assert!(MemoryManager::default().planned.buffers().is_empty());
}

#[test]
fn b_05_device_memory_means_a_buffer_that_is_not_on_the_host() {
    let bench = Bench::new();
    let has = |buffers: &[(u64, Device)]| {
        MemoryManager::new(bench.planned(buffers).unwrap()).has_device_memory()
    };
    assert!(!has(&[]));
    assert!(!has(&[(1, Device::CPU), (1, Device::CPU)]));
    assert!(has(&[(1, Device::CPU), (1, cuda(0))]));
}

#[test]
fn b_42_a_methods_memory_goes_with_it() {
    let bench = Bench::new();
    for round in 1..=50 {
        let manager =
            MemoryManager::new(bench.planned(&[(1 << 18, cuda(0)), (64, cuda(1))]).unwrap());
        manager.temp.allocate(100, Alignment::HOST).unwrap();
        drop(manager);
        assert_eq!(bench.counts(), (2 * round, 2 * round, 0));
    }
}

/// The C++ runtime has one manager for each method; here the type system has it so.
#[test]
fn r_mm_05_memory_may_move_to_the_thread_that_runs_the_method() {
    fn check<T: Send>() {}
    check::<MemoryManager>();
    check::<PlannedMemory>();
    check::<DeviceMemoryBuffer>();
    check::<AllocatorHandle>();
}
