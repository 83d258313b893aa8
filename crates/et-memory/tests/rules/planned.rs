//! Planned memory: places looked up, wrong plans, memory that is not there, buffers of the caller.

use super::*;

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
