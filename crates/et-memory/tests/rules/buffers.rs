//! Buffers on devices: allocated, moved, filled, freed.

use super::*;

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
