//! Streams that the allocator makes for its callers.

use crate::streams::alone;
use crate::support::{Block, index, pattern, pinned};
use et_cuda::{CudaAllocator, CudaStream, caller_stream};
use et_device::DeviceAllocator;

#[test]
fn a_stream_is_destroyed_with_its_last_clone() {
    let devices = alone();
    let at = index(devices[0].ordinal());
    let allocator = CudaAllocator::new();
    allocator.synchronize(at).unwrap();
    let before = devices[0].stats().live_streams;
    let stream = allocator.create_stream(at).unwrap();
    let other = stream.clone();
    assert_eq!(
        (stream.handle(), stream.device().index()),
        (other.handle(), at)
    );
    drop(stream);
    assert_eq!(devices[0].stats().live_streams, before + 1);
    drop(other);
    assert_eq!(devices[0].stats().live_streams, before);
}

#[test]
fn a_stream_outlives_its_allocator_and_its_work_outlives_the_stream() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = allocator.create_stream(index(ordinal)).unwrap();
    let block = Block::new(&allocator, ordinal, 64).unwrap();
    let buffer = pinned(&allocator, ordinal, &pattern(64, 1)).unwrap();
    let up = block.upload(buffer, stream.handle()).unwrap();
    drop(stream);
    up.wait().unwrap();
    assert_eq!(block.read().unwrap(), pattern(64, 1));
    block.free().unwrap();
    let stream = allocator.create_stream(index(ordinal)).unwrap();
    drop(allocator);
    stream.synchronize().unwrap();
    let event = stream.record().unwrap();
    event.wait().unwrap();
    assert_eq!(event.is_done(), Ok(true));
}

/// Copies on one stream behind those on another, of the same device and of different ones.
fn in_order(allocator: &CudaAllocator, streams: [&CudaStream; 2], ordinals: [usize; 2]) -> bool {
    let [a, b] = ordinals.map(|ordinal| Block::new(allocator, ordinal, 64).unwrap());
    let (first, second) = (streams[0], streams[1]);
    let buffer = pinned(allocator, ordinals[0], &pattern(64, 2)).unwrap();
    let up = a.upload(buffer, first.handle()).unwrap();
    b.copy_from_on(&a, first.handle()).unwrap();
    a.record_use(first.handle()).unwrap();
    second.wait_for(&first.record().unwrap()).unwrap();
    let target = allocator.pinned(index(ordinals[1]), 64).unwrap();
    let down = b.download(target, second.handle()).unwrap();
    let arrived = down.wait().unwrap()[..] == pattern(64, 2);
    drop(up);
    arrived
}

#[test]
fn streams_wait_for_each_others_events() {
    let devices = alone();
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = CudaAllocator::new();
    let [a, b, far] = [here, here, there].map(|o| allocator.create_stream(index(o)).unwrap());
    for schedule in 0..50 {
        fakecuda::schedule(schedule);
        assert!(
            in_order(&allocator, [&a, &b], [here, here]),
            "schedule {schedule}"
        );
        assert!(
            in_order(&allocator, [&a, &far], [here, there]),
            "schedule {schedule}"
        );
        for device in &devices {
            assert_eq!(device.violations(), "", "schedule {schedule}");
        }
    }
    fakecuda::schedule(0);
}

#[test]
fn a_guard_keeps_its_stream() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = allocator.create_stream(index(ordinal)).unwrap();
    let handle = stream.handle();
    let guard = stream.select();
    drop(stream);
    assert_eq!(caller_stream(index(ordinal)), Some(handle));
    let block = Block::new(&allocator, ordinal, 8).unwrap();
    block.write(&[3; 8]).unwrap();
    assert_eq!(block.read().unwrap(), [3; 8]);
    drop(guard);
    assert_eq!(caller_stream(index(ordinal)), None);
    assert_eq!(block.read().unwrap(), [3; 8]);
}

#[test]
fn a_stream_that_cannot_be_made_is_an_error() {
    let device = fakecuda::device();
    let at = index(device.ordinal());
    let allocator = CudaAllocator::new();
    allocator.synchronize(at).unwrap();
    device.fail("cuStreamCreate", 0, 1, fakecuda::UNKNOWN);
    assert_eq!(
        allocator.create_stream(at).unwrap_err().id(),
        "device.driver"
    );
    allocator.create_stream(at).unwrap().synchronize().unwrap();
}
