//! Blocks that other streams use, events, and frees that wait for both.

use crate::faults::elsewhere;
use crate::streams::alone;
use crate::support::{Block, ForeignStream, index, pattern};
use et_cuda::CudaAllocator;
use et_device::{DeviceAllocator, DevicePtr, DeviceSpan, StreamHandle};

/// Copies a block on a stranger's stream and gives it back at once; what the fake driver says about that.
fn give_back_under_a_copy(device: &fakecuda::Device, tell: bool) -> String {
    let ordinal = device.ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let (a, b) = (
        Block::new(&allocator, ordinal, 64).unwrap(),
        Block::new(&allocator, ordinal, 64).unwrap(),
    );
    a.write(&pattern(64, 5)).unwrap();
    b.copy_from_on(&a, stream.handle()).unwrap();
    if tell {
        a.record_use(stream.handle()).unwrap();
    }
    a.free().unwrap();
    // Another block may get the memory now, and the free runs in any case.
    let _ = allocator.synchronize(index(ordinal));
    let _ = b.free();
    let violations = device.violations();
    device.clear();
    violations
}

#[test]
fn a_block_is_freed_behind_the_uses_that_were_told() {
    let devices = alone();
    for schedule in 0..50 {
        fakecuda::schedule(schedule);
        let violations = give_back_under_a_copy(&devices[0], true);
        assert_eq!(violations, "", "schedule {schedule}");
    }
    fakecuda::schedule(0);
}

#[test]
fn a_use_that_was_not_told_is_seen_by_the_fake_driver() {
    let mut devices = alone();
    devices[0].allow_leftovers();
    let caught = (2..52).filter(|schedule| {
        fakecuda::schedule(*schedule);
        !give_back_under_a_copy(&devices[0], false).is_empty()
    });
    assert!(caught.count() > 10);
    fakecuda::schedule(0);
}

#[test]
fn a_use_outlives_its_stream() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let block = Block::new(&allocator, ordinal, 64).unwrap();
    let other = Block::new(&allocator, ordinal, 64).unwrap();
    {
        let stream = ForeignStream::of(ordinal);
        other.copy_from_on(&block, stream.handle()).unwrap();
        block.record_use(stream.handle()).unwrap();
        other.record_use(stream.handle()).unwrap();
    }
    block.free().unwrap();
    other.free().unwrap();
    allocator.synchronize(index(ordinal)).unwrap();
    assert_eq!(
        (
            devices[0].stats().live_allocs,
            devices[0].violations().as_str()
        ),
        (0, "")
    );
}

/// Giving a block back under a slow use costs the next allocation nothing.
#[test]
fn an_allocation_does_not_wait_for_a_free_that_waits() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let (a, b) = (
        Block::new(&allocator, ordinal, 64).unwrap(),
        Block::new(&allocator, ordinal, 64).unwrap(),
    );
    b.copy_from_on(&a, stream.handle()).unwrap();
    a.record_use(stream.handle()).unwrap();
    a.free().unwrap();
    // The copy and its event; a wait for it and the free.
    let pending = devices[0].stats().pending_ops;
    assert_eq!(pending, 4);
    let c = Block::new(&allocator, ordinal, 64).unwrap();
    c.fill(1).unwrap();
    c.free().unwrap();
    let d = Block::new(&allocator, ordinal, 64).unwrap();
    assert_eq!(devices[0].stats().pending_ops, pending);
    stream.wait();
    drop((b, d));
}

#[test]
fn a_copy_to_another_device_keeps_both_blocks() {
    let devices = alone();
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(here);
    for schedule in 0..50 {
        fakecuda::schedule(schedule);
        let (a, b, c) = (
            Block::new(&allocator, here, 64).unwrap(),
            Block::new(&allocator, there, 64).unwrap(),
            Block::new(&allocator, there, 64).unwrap(),
        );
        a.write(&pattern(64, 3)).unwrap();
        b.copy_from_on(&a, stream.handle()).unwrap();
        c.copy_from_on(&a, stream.handle()).unwrap();
        // SAFETY: a live stream of this device.
        let copied = unsafe { allocator.record(index(here), stream.handle()) }.unwrap();
        for (block, ordinal) in [(&a, here), (&b, there)] {
            let kept = allocator.keep_until(block.span(), index(ordinal), &copied);
            kept.unwrap();
        }
        a.free().unwrap();
        b.free().unwrap();
        copied.wait().unwrap();
        assert_eq!(c.read().unwrap(), pattern(64, 3), "schedule {schedule}");
        for device in &devices {
            assert_eq!(device.violations(), "", "schedule {schedule}");
        }
    }
    fakecuda::schedule(0);
}

#[test]
fn uses_of_nobodys_block_are_an_error() {
    let device = fakecuda::device();
    let (allocator, stranger) = (CudaAllocator::new(), CudaAllocator::new());
    let block = Block::new(&allocator, device.ordinal(), 64).unwrap();
    let on = StreamHandle::from_raw(0);
    // SAFETY: the NULL stream always lives.
    let told = |part| unsafe { allocator.record_use(part, index(device.ordinal()), on) };
    told(block.span()).unwrap();
    told(block.span().subspan(63, 1).unwrap()).unwrap();
    told(block.span().subspan(0, 64).unwrap()).unwrap();
    let base = block.span().base();
    let beyond = |offset, nbytes| {
        let start = DevicePtr::new(base.get() + offset).unwrap();
        DeviceSpan::new(start, nbytes).unwrap()
    };
    let reach = u64::MAX - base.get();
    let outside = [
        (64, 0),
        (64, 1),
        (63, 2),
        (0, 65),
        (1, 64),
        (0, reach),
        (63, 0x1_0000_0000),
    ];
    for (offset, nbytes) in outside {
        let error = told(beyond(offset, nbytes)).unwrap_err();
        assert_eq!(error.id(), "device.unknown-block", "{nbytes} at {offset}");
    }
    // SAFETY: as above.
    let error = unsafe { stranger.record_use(block.span(), index(device.ordinal()), on) };
    assert_eq!(error.unwrap_err().id(), "device.unknown-block");
}

#[test]
fn uses_that_are_over_are_forgotten() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let block = Block::new(&allocator, ordinal, 64).unwrap();
    for _ in 0..1000 {
        block.record_use(stream.handle()).unwrap();
        stream.wait();
    }
    assert!(
        devices[0].stats().live_events < 10,
        "{:?}",
        devices[0].stats()
    );
    drop(block);
}

#[test]
fn events_are_used_again() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let round = || {
        let block = Block::on_stream(&allocator, ordinal, 64, stream.handle()).unwrap();
        block.free_on(stream.handle()).unwrap();
    };
    round();
    let before = fakecuda::calls("cuEventCreate");
    (0..100).for_each(|_| round());
    assert_eq!(fakecuda::calls("cuEventCreate"), before);
    stream.wait();
}

#[test]
fn an_event_orders_streams_of_different_devices() {
    let devices = alone();
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = CudaAllocator::new();
    let (first, second) = (ForeignStream::of(here), ForeignStream::of(there));
    let (a, b) = (
        Block::new(&allocator, here, 32).unwrap(),
        Block::new(&allocator, here, 32).unwrap(),
    );
    a.write(&pattern(32, 6)).unwrap();
    b.copy_from_on(&a, first.handle()).unwrap();
    // SAFETY: both streams are live streams of the devices named.
    let event = unsafe { allocator.record(index(here), first.handle()) }.unwrap();
    // SAFETY: as above.
    unsafe { allocator.wait_for(index(there), second.handle(), &event) }.unwrap();
    assert!(!event.is_done().unwrap());
    second.wait();
    assert!(event.is_done().unwrap());
    assert_eq!(
        fakecuda::peek(b.span().base().get(), 32),
        Some(pattern(32, 6))
    );
    // SAFETY: a live stream, if of another device.
    let wrong = unsafe { allocator.wait_for(index(here), second.handle(), &event) };
    assert_eq!(wrong.unwrap_err().id(), "device.driver");
    drop((a, b));
}

/// What a device's fault does to events is that device's own trouble.
#[test]
fn a_fault_of_a_device_does_not_poison_those_that_wait_for_it() {
    elsewhere(
        "uses::a_fault_of_a_device_does_not_poison_those_that_wait_for_it",
        || {
            let mut devices = fakecuda::devices(2);
            devices
                .iter_mut()
                .for_each(fakecuda::Device::allow_leftovers);
            let [bad, good] = [devices[0].ordinal(), devices[1].ordinal()];
            for pools in [true, false] {
                fakecuda::set_pools(pools);
                let allocator = CudaAllocator::new();
                let block = Block::new(&allocator, good, 64).unwrap();
                let event = allocator
                    .create_stream(index(bad))
                    .unwrap()
                    .record()
                    .unwrap();
                allocator
                    .keep_until(block.span(), index(good), &event)
                    .unwrap();
                fakecuda::fail_everywhere("cuEventQuery", 0, u64::MAX, 700);
                fakecuda::fail_everywhere("cuEventSynchronize", 0, u64::MAX, 700);
                fakecuda::fail_everywhere("cuStreamWaitEvent", 0, u64::MAX, 700);
                // Whether its work is over cannot be known, so the block is not given back.
                let live = devices[1].stats().live_allocs;
                let freed = block.free();
                fakecuda::clear_everywhere();
                assert_eq!(freed.is_err(), pools, "without pools it is put off");
                assert_eq!(devices[1].stats().live_allocs, live);
                let other = Block::new(&allocator, good, 64).unwrap();
                other.fill(1).unwrap();
                assert_eq!(other.read().unwrap(), [1; 64]);
            }
        },
    );
}

/// A free on a wrong stream waits for the block's uses by other devices, too.
#[test]
fn a_free_that_must_happen_at_once_waits_for_uses_of_other_devices() {
    let devices = alone();
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(here);
    let (a, b) = (
        Block::new(&allocator, here, 64).unwrap(),
        Block::new(&allocator, there, 64).unwrap(),
    );
    a.fill(1).unwrap();
    b.copy_from_on(&a, stream.handle()).unwrap();
    // SAFETY: a live stream of this device.
    let copied = unsafe { allocator.record(index(here), stream.handle()) }.unwrap();
    allocator
        .keep_until(b.span(), index(there), &copied)
        .unwrap();
    b.free_on(stream.handle()).unwrap_err();
    for device in &devices {
        assert_eq!(
            (device.violations().as_str(), device.stats().pending_ops),
            ("", 0)
        );
    }
    a.free().unwrap();
}

/// Such a block is given back once its use is over, at the end at the latest.
#[test]
fn a_block_that_cannot_be_freed_under_a_foreign_use_is_kept_until_that_is_over() {
    let devices = alone();
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    for wrong_stream in [false, true] {
        let (home, away) = (CudaAllocator::new(), CudaAllocator::new());
        let stream = ForeignStream::of(there);
        let source = Block::new(&away, there, 64).unwrap();
        let target = Block::new(&home, here, 64).unwrap();
        (0..20).for_each(|_| target.copy_from_on(&source, stream.handle()).unwrap());
        // SAFETY: a live stream of this device.
        let copied = unsafe { away.record(index(there), stream.handle()) }.unwrap();
        let kept = home.keep_until(target.span(), index(here), &copied);
        kept.unwrap();
        fakecuda::fail_everywhere("cuStreamWaitEvent", 0, 1, fakecuda::UNKNOWN);
        fakecuda::fail_everywhere("cuEventSynchronize", 0, 1, fakecuda::UNKNOWN);
        let freed = match wrong_stream {
            true => target.free_on(stream.handle()),
            false => target.free(),
        };
        fakecuda::clear_everywhere();
        assert!(freed.is_err());
        let statistics = home.statistics(index(here)).unwrap();
        assert_eq!(statistics.deferred_bytes, 64, "{wrong_stream}");
        assert!(devices[1].stats().pending_ops > 0);
        if wrong_stream {
            stream.wait();
            home.synchronize(index(here)).unwrap();
            let statistics = home.statistics(index(here)).unwrap();
            assert_eq!(statistics.deferred_bytes, 0, "found to be over");
        }
        drop(home);
        assert!(copied.is_done().unwrap());
        let left = (devices[0].stats().live_allocs, devices[0].violations());
        assert_eq!(left, (0, String::new()), "{wrong_stream}");
        stream.wait();
    }
}
