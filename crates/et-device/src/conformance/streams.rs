//! Checks of the stream-ordered methods.

use std::vec;

use super::block::{Block, devices, pattern, request};
use crate::{
    DeviceAllocator, DeviceIndex, DeviceToDevice, DeviceToHost, HostToDevice, StreamHandle,
};

type Streams<'a> = &'a dyn Fn(DeviceIndex) -> StreamHandle;

fn wait(allocator: &dyn DeviceAllocator, index: DeviceIndex, stream: StreamHandle) {
    // SAFETY: whoever runs the checks gives live streams of the device.
    unsafe { allocator.synchronize_stream(index, stream) }.expect("waiting for the stream");
}

/// A block of the stream's; other uses must wait for it.
fn allocate_on<'a>(
    allocator: &'a dyn DeviceAllocator,
    index: DeviceIndex,
    nbytes: u64,
    stream: StreamHandle,
) -> Block<'a> {
    // SAFETY: as above.
    let span = unsafe { allocator.allocate_on(&request(index, nbytes), stream) };
    let span = span.expect("a block in stream order");
    assert_eq!(span.len(), nbytes);
    Block::own(allocator, index, span)
}

fn free_on(block: Block<'_>, stream: StreamHandle) {
    let (allocator, index) = (block.allocator, block.index);
    let span = block.into_span();
    // SAFETY: the block is live, and only work on this stream uses it.
    unsafe { allocator.deallocate_on(span, index, stream) }.expect("a free in stream order");
}

/// Allocate, copy in, copy across, copy out and free, all queued, with one wait at the end.
pub fn b_21_work_on_a_stream_is_done_in_order(
    allocator: &dyn DeviceAllocator,
    streams: Streams<'_>,
) {
    for index in devices(allocator) {
        let stream = streams(index);
        for nbytes in [1, 4097, 200_000] {
            let source = pattern(nbytes, 77);
            let mut target = vec![0; nbytes];
            let first = allocate_on(allocator, index, nbytes as u64, stream);
            let second = allocate_on(allocator, index, nbytes as u64, stream);
            let store = HostToDevice::new(index, first.span(), &source).expect("equal lengths");
            let across = DeviceToDevice::new((index, second.span()), (index, first.span()));
            let fetch = DeviceToHost::new(index, &mut target, second.span());
            // SAFETY: a live block of this stream; `source` outlives the wait below.
            unsafe { allocator.copy_host_to_device_on(store, stream) }.expect("a copy in");
            let across = across.expect("equal lengths");
            // SAFETY: two live blocks of this stream.
            unsafe { allocator.copy_device_to_device_on(across, stream) }.expect("a copy across");
            let fetch = fetch.expect("equal lengths");
            // SAFETY: a live block of this stream; `target` is not touched before the wait below.
            unsafe { allocator.copy_device_to_host_on(fetch, stream) }.expect("a copy out");
            free_on(first, stream);
            free_on(second, stream);
            wait(allocator, index, stream);
            assert_eq!(target, source);
        }
    }
}

/// After waiting for the stream, its blocks can be used in the ordinary way.
pub fn stream_ordered_copies_are_done_after_waiting(
    allocator: &dyn DeviceAllocator,
    streams: Streams<'_>,
) {
    for index in devices(allocator) {
        let stream = streams(index);
        let source = pattern(9000, 4);
        let block = allocate_on(allocator, index, 9000, stream);
        let store = HostToDevice::new(index, block.span(), &source).expect("equal lengths");
        // SAFETY: a live block of this stream; `source` outlives the wait.
        unsafe { allocator.copy_host_to_device_on(store, stream) }.expect("a copy in");
        wait(allocator, index, stream);
        assert_eq!(block.read(), source);
    }
}

/// Work that was queued before a free still finds the block.
pub fn stream_ordered_frees_let_earlier_work_finish(
    allocator: &dyn DeviceAllocator,
    streams: Streams<'_>,
) {
    for index in devices(allocator) {
        let stream = streams(index);
        let mut targets = [vec![0; 5000], vec![0; 5000]];
        for (seed, target) in (1..).zip(&mut targets) {
            let mut block = Block::new(allocator, index, 5000);
            block.write(0, &pattern(5000, seed));
            let fetch = DeviceToHost::new(index, target, block.span()).expect("equal lengths");
            // SAFETY: a live block; `target` is not touched before the wait.
            unsafe { allocator.copy_device_to_host_on(fetch, stream) }.expect("a copy out");
            free_on(block, stream);
        }
        wait(allocator, index, stream);
        assert_eq!(targets, [pattern(5000, 1), pattern(5000, 2)]);
    }
}
