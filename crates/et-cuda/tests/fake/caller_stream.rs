//! The stream that a thread selects for its copies.

use crate::streams::alone;
use crate::support::{Block, ForeignStream, index, pattern};
use et_cuda::{CallerStream, CudaAllocator, caller_stream};
use et_device::{DeviceError, StreamHandle};

fn select(allocator: &CudaAllocator, ordinal: usize, stream: StreamHandle) -> CallerStream {
    // SAFETY: the tests pass streams that live longer than the guard.
    unsafe { allocator.select_stream(index(ordinal), stream) }.unwrap()
}

#[test]
fn r_str_01_a_guard_selects_and_restores_and_nests() {
    let device = fakecuda::device();
    let ordinal = device.ordinal();
    let allocator = CudaAllocator::new();
    let (a, b) = (ForeignStream::of(ordinal), ForeignStream::of(ordinal));
    let selected = || caller_stream(index(ordinal));
    assert_eq!(selected(), None);
    let outer = select(&allocator, ordinal, a.handle());
    assert_eq!(selected(), Some(a.handle()));
    let inner = select(&allocator, ordinal, b.handle());
    assert_eq!(selected(), Some(b.handle()));
    drop(inner);
    assert_eq!(selected(), Some(a.handle()));
    drop(outer);
    assert_eq!(selected(), None);
}

#[test]
fn r_str_01_the_null_stream_can_be_selected() {
    let device = fakecuda::device();
    let ordinal = device.ordinal();
    let allocator = CudaAllocator::new();
    let null = StreamHandle::from_raw(0);
    let _guard = select(&allocator, ordinal, null);
    assert_eq!(caller_stream(index(ordinal)), Some(null));
    let block = Block::new(&allocator, ordinal, 16).unwrap();
    block.write(&[2; 16]).unwrap();
    assert_eq!(block.read().unwrap(), [2; 16]);
}

#[test]
fn r_str_01_other_threads_are_not_concerned() {
    let device = fakecuda::device();
    let ordinal = device.ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let _guard = select(&allocator, ordinal, stream.handle());
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            let before = caller_stream(index(ordinal));
            let _own = select(&allocator, ordinal, StreamHandle::from_raw(0));
            before
        });
        assert_eq!(there.join().unwrap(), None);
    });
    assert_eq!(caller_stream(index(ordinal)), Some(stream.handle()));
}

#[test]
fn r_str_03_guards_may_end_in_any_order() {
    let device = fakecuda::device();
    let ordinal = device.ordinal();
    let allocator = CudaAllocator::new();
    let (a, b) = (ForeignStream::of(ordinal), ForeignStream::of(ordinal));
    let first = select(&allocator, ordinal, a.handle());
    let second = select(&allocator, ordinal, b.handle());
    drop(first);
    assert_eq!(caller_stream(index(ordinal)), Some(b.handle()));
    drop(second);
    assert_eq!(caller_stream(index(ordinal)), None);
}

#[test]
fn b_45_a_stream_may_be_selected_for_any_device_and_for_its_own_only() {
    let devices = fakecuda::devices(3);
    let allocator = CudaAllocator::new();
    let ordinals: Vec<usize> = devices.iter().map(fakecuda::Device::ordinal).collect();
    let streams: Vec<_> = ordinals.iter().map(|o| ForeignStream::of(*o)).collect();
    let guards: Vec<_> = ordinals
        .iter()
        .zip(&streams)
        .map(|(ordinal, stream)| select(&allocator, *ordinal, stream.handle()))
        .collect();
    for (ordinal, stream) in ordinals.iter().zip(&streams) {
        assert_eq!(caller_stream(index(*ordinal)), Some(stream.handle()));
        let block = Block::new(&allocator, *ordinal, 8).unwrap();
        block.write(&[1; 8]).unwrap();
        assert_eq!(block.read().unwrap(), [1; 8]);
    }
    drop(guards);
    // SAFETY: a live stream, if of another device.
    let wrong = unsafe { allocator.select_stream(index(ordinals[0]), streams[1].handle()) };
    let DeviceError::Driver { code, .. } = wrong.unwrap_err() else {
        panic!("not the driver's error")
    };
    assert_eq!((code, caller_stream(index(ordinals[0]))), (400, None));
}

/// Reads a block while a copy into it is queued on a stranger's stream.
fn read_behind_a_copy(ordinal: usize, selected: bool) -> bool {
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let (a, b) = (
        Block::new(&allocator, ordinal, 64).unwrap(),
        Block::new(&allocator, ordinal, 64).unwrap(),
    );
    a.write(&pattern(64, 4)).unwrap();
    b.fill(0).unwrap();
    b.copy_from_on(&a, stream.handle()).unwrap();
    let guard = selected.then(|| select(&allocator, ordinal, stream.handle()));
    let read = b.read().unwrap();
    drop(guard);
    stream.wait();
    read == pattern(64, 4)
}

#[test]
fn r_cuda_06_copies_are_behind_the_work_on_the_selected_stream() {
    let devices = alone();
    for schedule in 0..50 {
        fakecuda::schedule(schedule);
        assert!(
            read_behind_a_copy(devices[0].ordinal(), true),
            "schedule {schedule}"
        );
        assert_eq!(devices[0].violations(), "");
    }
    fakecuda::schedule(0);
    assert!(
        !read_behind_a_copy(devices[0].ordinal(), false),
        "the control"
    );
}

#[test]
fn b_45_copies_on_a_selected_stream_are_complete_when_they_return() {
    let devices = alone();
    fakecuda::defer_pageable(true);
    {
        let ordinal = devices[0].ordinal();
        let allocator = CudaAllocator::new();
        let stream = ForeignStream::of(ordinal);
        let (a, b) = (
            Block::new(&allocator, ordinal, 64).unwrap(),
            Block::new(&allocator, ordinal, 64).unwrap(),
        );
        let _guard = select(&allocator, ordinal, stream.handle());
        let mut bytes = pattern(64, 9);
        a.write(&bytes).unwrap();
        bytes.fill(0);
        assert_eq!(devices[0].stats().pending_ops, 0);
        b.copy_from(&a).unwrap();
        a.fill(1).unwrap();
        assert_eq!(devices[0].stats().pending_ops, 0);
        assert_eq!(b.read().unwrap(), pattern(64, 9));
    }
    fakecuda::defer_pageable(false);
}

/// Work that is queued on the target's stream, and on the source's, comes before a copy between the two.
#[test]
fn copies_between_devices_are_behind_both_selected_streams() {
    let devices = alone();
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = CudaAllocator::new();
    for schedule in 0..50 {
        fakecuda::schedule(schedule);
        let [from, to] = [here, there].map(|o| allocator.create_stream(index(o)).unwrap());
        let blocks = [here, here, there, there].map(|o| Block::new(&allocator, o, 64).unwrap());
        let [new, source, old, target] = &blocks;
        new.write(&pattern(64, 1)).unwrap();
        old.write(&pattern(64, 2)).unwrap();
        source.copy_from_on(new, from.handle()).unwrap();
        target.copy_from_on(old, to.handle()).unwrap();
        let guards = (from.select(), to.select());
        target.copy_from(source).unwrap();
        drop(guards);
        to.synchronize().unwrap();
        assert_eq!(
            target.read().unwrap(),
            pattern(64, 1),
            "schedule {schedule}"
        );
    }
    fakecuda::schedule(0);
}
