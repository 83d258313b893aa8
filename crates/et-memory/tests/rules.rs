//! The behaviour that programs rely on, rule by rule, on simulated devices.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;

use et_device::{
    Alignment, AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceError, DeviceType,
};
use et_memory::{
    Arena, Budget, BufferSpec, DeviceMemoryBuffer, HostBuffer, MemoryError, MemoryManager,
    MemoryPlan, Place, PlannedBuffer, PlannedMemory, PlannedSlot, failed_frees,
};
use et_sim::{Operation, SimAllocator, SimOptions, TraceEvent};
use proptest::prelude::*;

/// Two simulated CUDA devices of 1 MiB, and a registry that finds them. Everything they do is recorded.
struct Bench {
    sim: Arc<SimAllocator>,
    registry: DeviceAllocatorRegistry,
}

impl Bench {
    fn new() -> Self {
        let options = SimOptions::new(DeviceType::CUDA)
            .devices(2)
            .capacity(1 << 20);
        let sim = Arc::new(SimAllocator::new(options));
        sim.record();
        let registry = DeviceAllocatorRegistry::new();
        registry.register(Arc::clone(&sim).into()).unwrap();
        Self { sim, registry }
    }

    fn buffer(&self, nbytes: u64, index: u8) -> Result<DeviceMemoryBuffer, DeviceError> {
        let (device, alignment) = (cuda(index), Alignment::DEVICE);
        DeviceMemoryBuffer::create_in(&self.registry, nbytes, device, alignment)
    }

    fn planned(&self, buffers: &[(u64, Device)]) -> Result<PlannedMemory, MemoryError> {
        PlannedMemory::allocate(&plan(buffers), &self.registry, &Budget::unlimited())
    }

    /// How many blocks were allocated, given back, and are live.
    fn counts(&self) -> (u64, u64, u64) {
        let counters = self.sim.counters();
        (counters.allocations, counters.frees, counters.live_blocks)
    }
}

fn cuda(index: u8) -> Device {
    Device::cuda(index).unwrap()
}

fn plan(buffers: &[(u64, Device)]) -> MemoryPlan {
    MemoryPlan::new(
        buffers
            .iter()
            .map(|&(n, device)| BufferSpec::new(n, device)),
    )
}

fn slot(memory_id: u32, offset_bytes: u64, nbytes: u64, device: Device) -> PlannedSlot {
    PlannedSlot {
        memory_id,
        offset_bytes,
        nbytes,
        alignment: Alignment::ONE,
        device,
    }
}

// Buffers on devices.

#[test]
fn r_dmb_01_no_allocator_for_the_device_is_an_error() {
    let bench = Bench::new();
    for device in [Device::CPU, Device::from_raw(5, 0).unwrap()] {
        let result = DeviceMemoryBuffer::create_in(&bench.registry, 64, device, Alignment::DEVICE);
        let error = result.unwrap_err();
        assert_eq!(error, DeviceError::NoAllocator { device });
        assert_eq!(error.code(), 0x20);
    }
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn r_dmb_02_the_allocators_error_comes_back_unchanged() {
    let bench = Bench::new();
    let error = bench.buffer((1 << 20) + 1, 1).unwrap_err();
    let expected = DeviceError::OutOfMemory {
        device: cuda(1),
        requested: (1 << 20) + 1,
        free: 1 << 20,
        total: 1 << 20,
    };
    assert_eq!(error, expected);
}

#[test]
fn r_dmb_03_create_allocates_once_what_was_asked_for() {
    let bench = Bench::new();
    let buffer = bench.buffer(1024, 1).unwrap();
    let [TraceEvent::Alloc { index, nbytes }] = bench.sim.take_trace()[..] else {
        panic!("not one allocation")
    };
    assert_eq!((index, nbytes), (cuda(1).index(), 1024));
    let span = buffer.span().unwrap();
    assert_eq!((span.len(), buffer.nbytes()), (1024, 1024));
    assert_eq!(bench.sim.owner_of(span), Some(cuda(1).index()));
}

#[test]
fn r_dmb_04_dropping_frees_the_same_block_once() {
    let bench = Bench::new();
    let buffer = bench.buffer(1024, 1).unwrap();
    let span = buffer.span().unwrap();
    bench.sim.take_trace();
    drop(buffer);
    let [TraceEvent::Free { index, nbytes }] = bench.sim.take_trace()[..] else {
        panic!("not one free")
    };
    assert_eq!((index, nbytes), (cuda(1).index(), 1024));
    assert_eq!(bench.sim.owner_of(span), None);
}

#[test]
fn r_dmb_05_a_buffer_of_nothing_holds_nothing() {
    let bench = Bench::new();
    let mut buffer = bench.buffer(0, 0).unwrap();
    assert_eq!((buffer.span(), buffer.nbytes()), (None, 0));
    assert_eq!(buffer.fill(1), Ok(()));
    assert_eq!(
        (buffer.write(0, &[]), buffer.read(0, &mut [])),
        (Ok(()), Ok(()))
    );
    drop(buffer);
    assert!(bench.sim.take_trace().is_empty());
}

#[test]
fn r_dmb_06_moving_a_buffer_frees_nothing() {
    let bench = Bench::new();
    let buffer = bench.buffer(64, 0).unwrap();
    let span = buffer.span();
    let moved = Box::new(buffer);
    let moved = std::thread::spawn(move || *moved).join().unwrap();
    assert_eq!((moved.span(), bench.counts()), (span, (1, 0, 1)));
    let mut place = Some(moved);
    assert_eq!(place.take().unwrap().span(), span);
    assert_eq!(bench.counts(), (1, 1, 0));
    drop(place);
    assert_eq!(bench.counts(), (1, 1, 0));
}

#[test]
fn r_dmb_07_move_assignment_frees_the_old_one() {
    let bench = Bench::new();
    let mut buffer = bench.buffer(64, 0).unwrap();
    let old = buffer.span().unwrap();
    buffer = bench.buffer(128, 1).unwrap();
    assert_eq!((buffer.nbytes(), bench.counts()), (128, (2, 1, 1)));
    assert_eq!(bench.sim.owner_of(old), None);
    drop(buffer);
    assert_eq!(bench.counts(), (2, 2, 0));
}

#[test]
fn r_dmb_08_a_span_is_address_and_size() {
    let bench = Bench::new();
    let buffer = bench.buffer(2048, 0).unwrap();
    let span = buffer.span().unwrap();
    assert_eq!(span.len(), 2048);
    assert_eq!(span.end() - span.base().get(), 2048);
    assert!(span.base().is_aligned(Alignment::DEVICE));
}

#[test]
fn r_dmb_09_the_allocator_is_never_asked_for_nothing() {
    let bench = Bench::new();
    bench.sim.fail_call(Operation::Any, 0);
    let zeroed = DeviceMemoryBuffer::zeroed_in(&bench.registry, 0, cuda(0), Alignment::DEVICE);
    assert_eq!(zeroed.unwrap().free(), Ok(()));
    let planned = bench.planned(&[(0, cuda(0)), (0, Device::CPU)]).unwrap();
    assert_eq!(planned.resolve(&slot(1, 0, 0, cuda(0))), Ok(None));
    drop(planned);
    assert_eq!((bench.sim.failures_left(), bench.counts()), (1, (0, 0, 0)));
}

#[test]
fn r_da_01_alignments_reach_the_allocator() {
    let bench = Bench::new();
    let strict = Alignment::new(1 << 16).unwrap();
    let buffers: Vec<_> = (0..3)
        .map(|_| DeviceMemoryBuffer::create_in(&bench.registry, 8, cuda(0), strict).unwrap())
        .collect();
    for buffer in &buffers {
        assert!(buffer.span().unwrap().base().is_aligned(strict));
        assert_eq!(buffer.alignment(), strict);
    }
}

#[test]
fn r_da_03_a_free_that_fails_is_told_or_counted() {
    let bench = Bench::new();
    let [told, counted] = [0, 1].map(|index| bench.buffer(64, index).unwrap());
    let before = failed_frees();
    bench.sim.fail_call(Operation::Deallocate, 0);
    let error = told.free().unwrap_err();
    assert!(
        matches!(
            error,
            DeviceError::Driver {
                operation: "deallocate",
                ..
            }
        ),
        "{error}"
    );
    bench.sim.fail_call(Operation::Deallocate, 0);
    drop(counted);
    // Nobody else in this process lets frees fail.
    assert_eq!(failed_frees() - before, 2);
    assert_eq!(bench.sim.leak_report().leaks().len(), 2);
}

#[test]
fn b_21_bytes_go_in_and_come_out_and_can_be_set() {
    let bench = Bench::new();
    let mut buffer = bench.buffer(10, 1).unwrap();
    buffer.fill(7).unwrap();
    buffer.write(3, &[1, 2, 3]).unwrap();
    let mut bytes = [0; 10];
    buffer.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7, 7, 7, 1, 2, 3, 7, 7, 7, 7]);
    for (offset, len) in [(8, 3), (11, 0), (u64::MAX, 1), (u64::MAX - 1, 2)] {
        assert!(buffer.write(offset, &vec![0; len]).is_err());
        assert!(buffer.read(offset, &mut vec![0; len]).is_err());
    }
    assert_eq!(buffer.write(10, &[]), Ok(()));
}

#[test]
fn b_23_a_buffer_knows_its_device() {
    let bench = Bench::new();
    let buffer = bench.buffer(8, 1).unwrap();
    assert_eq!(buffer.device(), cuda(1));
    assert_eq!(buffer.allocator().device_type(), DeviceType::CUDA);
}

#[test]
fn b_25_zeroed_means_every_byte() {
    let bench = Bench::new();
    let buffer =
        DeviceMemoryBuffer::zeroed_in(&bench.registry, 5000, cuda(0), Alignment::DEVICE).unwrap();
    let mut bytes = vec![1; 5000];
    buffer.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0));
    // Where that fails, nothing is left.
    drop(buffer);
    bench.sim.fail_call(Operation::Fill, 0);
    let failed = DeviceMemoryBuffer::zeroed_in(&bench.registry, 8, cuda(0), Alignment::DEVICE);
    assert!(failed.is_err());
    assert_eq!(bench.counts().2, 0);
}

#[test]
fn b_44_a_device_that_is_not_there_is_an_error() {
    let bench = Bench::new();
    let error = bench.buffer(8, 7).unwrap_err();
    assert!(
        matches!(error, DeviceError::NoSuchDevice { count: 2, .. }),
        "{error}"
    );
}

#[test]
fn b_59_devices_are_asked_for_256_bytes_unless_told_otherwise() {
    let bench = Bench::new();
    let memory = bench
        .planned(&[(1, cuda(0)), (1, cuda(0)), (1, Device::CPU)])
        .unwrap();
    let places = memory.buffers().iter().map(|b| b.place().unwrap());
    for place in places {
        let expected = if place.device().is_cpu() { 64 } else { 256 };
        assert!(place.is_aligned(Alignment::new(expected).unwrap()));
    }
}

/// The allocator, the registry's hold on it and a buffer may go in any order.
#[test]
fn a_buffer_outlives_whoever_made_it() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let Bench { sim, registry } = Bench::new();
        let weak = Arc::downgrade(&sim);
        let buffer = DeviceMemoryBuffer::create_in(&registry, 64, cuda(0), Alignment::DEVICE);
        let mut parts: [Option<Box<dyn std::any::Any>>; 3] = [
            Some(Box::new(sim)),
            Some(Box::new(registry)),
            Some(Box::new(buffer.unwrap())),
        ];
        for position in order {
            let alive = parts[2].is_some();
            assert_eq!(
                weak.upgrade().map(|sim| sim.counters().live_blocks),
                Some(u64::from(alive))
            );
            parts[position] = None;
        }
        assert!(weak.upgrade().is_none());
    }
}

// Planned memory.

#[test]
fn r_ha_01_offsets_are_checked_in_order_with_the_codes_of_old() {
    let bench = Bench::new();
    let memory = bench.planned(&[(4, Device::CPU), (8, cuda(0))]).unwrap();
    let code = |id, offset, nbytes, device| {
        memory
            .resolve(&slot(id, offset, nbytes, device))
            .map_err(|e| e.code())
    };
    assert!(code(1, 0, 2, Device::CPU).is_ok());
    assert!(code(2, 4, 4, cuda(0)).is_ok());
    // An end that is no number, also of a buffer that is not there.
    assert_eq!(code(1, u64::MAX, 1, Device::CPU), Err(0x12));
    assert_eq!(code(9, u64::MAX, 1, Device::CPU), Err(0x12));
    // No such buffer.
    assert_eq!(code(3, 0, 2, Device::CPU), Err(0x12));
    // Past the end.
    assert_eq!(code(1, 4, 5, Device::CPU), Err(0x21));
    assert_eq!(code(1, 8, 0, Device::CPU), Err(0x21));
    // Each place is the buffer's base and the offset.
    let base = |i: usize| memory.buffers()[i].place().unwrap();
    assert_eq!(code(2, 4, 4, cuda(0)), Ok(base(1).subplace(4, 4)));
}

#[test]
fn r_ha_02_ids_count_from_1_and_an_empty_part_may_sit_at_the_end() {
    let bench = Bench::new();
    let memory = bench.planned(&[(4, Device::CPU)]).unwrap();
    let at = |id, offset, nbytes| memory.resolve(&slot(id, offset, nbytes, Device::CPU));
    assert_eq!(
        at(0, 0, 1),
        Err(MemoryError::UnknownBuffer {
            memory_id: 0,
            count: 1
        })
    );
    let end = at(1, 4, 0).unwrap().unwrap();
    assert_eq!(end.nbytes(), 0);
    assert!(at(1, 5, 0).is_err());
}

#[test]
fn r_ha_03_every_buffer_knows_its_device() {
    let bench = Bench::new();
    let devices = [Device::CPU, Device::CPU, cuda(0), cuda(1)];
    let memory = bench.planned(&devices.map(|device| (16, device))).unwrap();
    let found: Vec<Device> = memory.buffers().iter().map(PlannedBuffer::device).collect();
    assert_eq!(found, devices);
}

#[test]
fn r_ha_05_buffers_live_as_long_as_the_planned_memory() {
    let bench = Bench::new();
    let memory = bench.planned(&[(16, cuda(0)), (16, cuda(1))]).unwrap();
    let moved = Box::new(memory);
    assert_eq!(bench.counts(), (2, 0, 2));
    drop(moved);
    assert_eq!(bench.counts(), (2, 2, 0));
}

#[test]
fn r_ha_07_looking_a_place_up_touches_nothing() {
    let bench = Bench::new();
    let memory = bench.planned(&[(16, cuda(0))]).unwrap();
    bench.sim.take_trace();
    memory.resolve(&slot(1, 8, 8, cuda(0))).unwrap();
    memory.resolve(&slot(1, 9, 8, cuda(0))).unwrap_err();
    assert!(bench.sim.take_trace().is_empty());
}

/// These sums were once unchecked in the C++ runtime (CVE-2025-30405), and offsets once had 32 bits.
#[test]
fn an_offset_and_a_size_that_wrap_stay_outside() {
    let bench = Bench::new();
    let memory = bench.planned(&[(4096, Device::CPU), (4096, cuda(0)), (64, Device::CPU)]);
    let memory = memory.unwrap();
    let offset_bytes = 0xFFFF_FFFF_FFFF_FFF0;
    for (memory_id, device) in [(1, Device::CPU), (2, cuda(0))] {
        let error = MemoryError::OutOfRange {
            memory_id,
            offset_bytes,
            nbytes: 64,
            available: 4096,
        };
        assert_eq!(
            memory.resolve(&slot(memory_id, offset_bytes, 64, device)),
            Err(error)
        );
    }
    // The low half of this offset is 0.
    assert!(memory.resolve(&slot(3, 1 << 32, 64, Device::CPU)).is_err());
    assert!(memory.resolve(&slot(3, 0, 64, Device::CPU)).is_ok());
}

/// What was never allocated is never freed.
#[test]
fn only_live_blocks_are_freed() {
    let bench = Bench::new();
    drop(bench.buffer(0, 0).unwrap());
    assert!(bench.buffer(1 << 30, 0).is_err());
    let mut taken = Some(bench.buffer(8, 0).unwrap());
    drop(std::mem::take(&mut taken));
    drop(taken);
    drop(PlannedMemory::default());
    drop(MemoryManager::default());
    assert_eq!(bench.counts(), (1, 1, 0));
}

#[test]
fn b_04_a_value_on_another_device_than_its_buffer_is_refused() {
    let bench = Bench::new();
    let memory = bench.planned(&[(16, cuda(0)), (16, Device::CPU)]).unwrap();
    for (id, device) in [(1, Device::CPU), (1, cuda(1)), (2, cuda(0))] {
        let error = memory.resolve(&slot(id, 0, 8, device)).unwrap_err();
        assert!(matches!(error, MemoryError::WrongDevice { expected, .. } if expected == device));
    }
    // Host memory is one memory.
    let far = Device::from_raw(0, 3).unwrap();
    assert!(memory.resolve(&slot(2, 0, 8, far)).is_ok());
}

#[test]
fn b_04_offsets_are_as_aligned_as_the_values_need() {
    let bench = Bench::new();
    let memory = bench.planned(&[(16, cuda(0)), (16, Device::CPU)]).unwrap();
    for (id, device) in [(1, cuda(0)), (2, Device::CPU)] {
        let four = Alignment::new(4).unwrap();
        let at = |offset_bytes| {
            memory.resolve(&PlannedSlot {
                alignment: four,
                ..slot(id, offset_bytes, 4, device)
            })
        };
        assert!(at(8).is_ok());
        let error = at(6).unwrap_err();
        assert!(
            matches!(
                error,
                MemoryError::Misaligned {
                    offset_bytes: 6,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn b_07_memory_that_cannot_be_had_is_an_error_and_leaves_nothing() {
    let bench = Bench::new();
    let unserved = Device::from_raw(4, 0).unwrap();
    let cases = [
        (1 << 21, cuda(1), 0x21),
        (1 << 62, cuda(0), 0x21),
        (1 << 62, Device::CPU, 0x21),
        (u64::MAX, Device::CPU, 0x21),
        (8, unserved, 0x20),
        (8, cuda(9), 0x12),
    ];
    for (nbytes, device, code) in cases {
        let error = bench
            .planned(&[
                (64, cuda(0)),
                (64, Device::CPU),
                (64, cuda(1)),
                (nbytes, device),
            ])
            .unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        if let MemoryError::Buffer { memory_id, .. } = error {
            assert_eq!(memory_id, 4);
        }
        assert_eq!(bench.counts().2, 0);
    }
    assert!(bench.planned(&[(64, cuda(0)), (64, Device::CPU)]).is_ok());
}

#[test]
fn b_25_planned_memory_is_zero_everywhere() {
    let bench = Bench::new();
    let mut memory = bench
        .planned(&[(300, cuda(0)), (300, Device::CPU)])
        .unwrap();
    for _ in 0..2 {
        for buffer in memory.buffers() {
            let mut bytes = [1; 300];
            match buffer {
                PlannedBuffer::Device(buffer) => buffer.read(0, &mut bytes).unwrap(),
                // SAFETY: nothing else uses the buffer.
                PlannedBuffer::Host(buffer) => bytes.copy_from_slice(unsafe { buffer.bytes() }),
            }
            assert_eq!(bytes, [0; 300]);
        }
        memory.zero().unwrap();
    }
}

#[test]
fn b_58_the_callers_buffers_are_checked_against_the_plan() {
    let bench = Bench::new();
    let wanted = plan(&[(64, Device::CPU), (64, cuda(0))]);
    let host = |nbytes| PlannedBuffer::Host(HostBuffer::zeroed(nbytes, Alignment::ONE).unwrap());
    let device = |nbytes, index| PlannedBuffer::Device(bench.buffer(nbytes, index).unwrap());
    let given = |buffers| PlannedMemory::from_buffers(&wanted, buffers).map(drop);

    assert_eq!(given(vec![host(64), device(64, 0)]), Ok(()));
    assert_eq!(given(vec![host(65), device(640, 0), host(1)]), Ok(()));
    let missing = MemoryError::WrongBufferCount {
        planned: 2,
        found: 1,
    };
    assert_eq!(given(vec![host(64)]), Err(missing));
    let wrong = |memory_id, device, found, found_device| {
        Err(MemoryError::WrongBuffer {
            memory_id,
            needed: 64,
            device,
            found,
            found_device,
        })
    };
    assert_eq!(
        given(vec![host(63), device(64, 0)]),
        wrong(1, Device::CPU, 63, Device::CPU)
    );
    assert_eq!(
        given(vec![host(64), device(64, 1)]),
        wrong(2, cuda(0), 64, cuda(1))
    );
    assert_eq!(
        given(vec![host(64), host(64)]),
        wrong(2, cuda(0), 64, Device::CPU)
    );
    assert_eq!(
        given(vec![device(64, 0), host(64)]),
        wrong(1, Device::CPU, 64, cuda(0))
    );
    // What was given is freed also where it is refused.
    assert_eq!(bench.counts().2, 0);
}

#[test]
fn b_58_the_callers_buffers_must_be_aligned_as_planned() {
    let bench = Bench::new();
    let strict = Alignment::new(1 << 16).unwrap();
    let wanted = MemoryPlan::new([BufferSpec::new(8, cuda(0)).aligned_to(strict)]);
    // Several, so that not all of them are aligned by luck.
    let buffers: Vec<_> = (0..3).map(|_| bench.buffer(8, 0).unwrap()).collect();
    let mut refused = 0;
    for buffer in buffers {
        let aligned = buffer.span().unwrap().base().is_aligned(strict);
        let given = PlannedMemory::from_buffers(&wanted, vec![PlannedBuffer::Device(buffer)]);
        let error = MemoryError::MisalignedBuffer {
            memory_id: 1,
            alignment: strict,
        };
        assert_eq!(given.map(drop), if aligned { Ok(()) } else { Err(error) });
        refused += usize::from(!aligned);
    }
    assert!(refused >= 2);
}

#[test]
fn b_39_one_set_of_arenas_serves_methods_in_turn() {
    let bench = Bench::new();
    let methods = [
        plan(&[(100, Device::CPU), (48, cuda(0))]),
        plan(&[(10, Device::CPU), (96, cuda(0)), (5, cuda(1))]),
    ];
    let shared = methods
        .iter()
        .fold(MemoryPlan::default(), MemoryPlan::merge);
    let memory = PlannedMemory::allocate(&shared, &bench.registry, &Budget::unlimited()).unwrap();
    for method in &methods {
        assert_eq!(memory.check(method), Ok(()));
    }
    assert_eq!(
        (bench.counts().0, bench.sim.counters().live_bytes),
        (2, 101)
    );
    // A method that wants its second buffer elsewhere cannot use them.
    let other = plan(&[(100, Device::CPU), (48, cuda(1))]);
    assert!(memory.check(&other).is_err());
}

#[test]
fn a_budget_is_checked_before_anything_is_allocated() {
    let bench = Bench::new();
    let plan = plan(&[(600, cuda(0)), (8, cuda(1)), (600, cuda(0))]);
    assert_eq!(plan.needed_per_device(), [(cuda(0), 1200), (cuda(1), 8)]);
    let budget = Budget::unlimited().limit(cuda(0), 1199);
    let error = PlannedMemory::allocate(&plan, &bench.registry, &budget).unwrap_err();
    let expected = MemoryError::OverBudget {
        device: cuda(0),
        needed: 1200,
        budget: 1199,
    };
    assert_eq!((error, bench.counts()), (expected, (0, 0, 0)));
    let enough = Budget::unlimited().limit(cuda(0), 1200);
    assert!(PlannedMemory::allocate(&plan, &bench.registry, &enough).is_ok());
}

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

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..70u64, any::<u64>(), (u64::MAX - 70)..=u64::MAX]
}

proptest! {
    #[test]
    fn lookups_succeed_exactly_where_u128_says(id in 0..5u32, offset in number(), nbytes in number(), shift in 0..8u32, index in 0..3u8) {
        let bench = Bench::new();
        let buffers = [(64, Device::CPU), (48, cuda(0)), (0, cuda(1))];
        let memory = bench.planned(&buffers).unwrap();
        let device = if index == 2 { Device::CPU } else { cuda(index) };
        let alignment = Alignment::new(1 << shift).unwrap();
        let found = memory.resolve(&PlannedSlot { alignment, ..slot(id, offset, nbytes, device) });
        let buffer = (id as usize).checked_sub(1).and_then(|i| buffers.get(i));
        let fits = buffer.is_some_and(|&(size, on)| {
            // Bases are multiples of 64 on the host and of 256 on devices; an empty device buffer is nowhere.
            let base = if on == Device::CPU { memory.buffers()[0].place() } else { None };
            let aligned = match base {
                Some(Place::Host(span)) => alignment.divides(span.base().addr().get() as u64 + offset.min(64)),
                _ => size == 0 || alignment.divides(offset),
            };
            u128::from(offset) + u128::from(nbytes) <= u128::from(size) && on == device && aligned
        });
        prop_assert_eq!(found.is_ok(), fits, "{:?}", found);
        if let Ok(Some(place)) = found {
            prop_assert_eq!((place.nbytes(), place.device(), place.is_aligned(alignment)), (nbytes, device, true));
        }
    }

    #[test]
    fn parts_of_a_buffer_can_be_copied_exactly_where_u128_says(offset in number(), len in 0..80usize) {
        let bench = Bench::new();
        let mut buffer = bench.buffer(64, 0).unwrap();
        let fits = u128::from(offset) + len as u128 <= 64;
        prop_assert_eq!(buffer.write(offset, &vec![1; len]).is_ok(), fits);
        prop_assert_eq!(buffer.read(offset, &mut vec![1; len]).is_ok(), fits);
    }
}
