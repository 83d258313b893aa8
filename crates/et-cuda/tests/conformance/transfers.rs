//! Copies that run by themselves, streams and events, on whichever driver the machine has.

use crate::allocator;
use crate::support::{Block, index, pattern, pinned};
use et_cuda::{CudaAllocator, CudaOptions};
use et_device::DeviceAllocator;
use std::num::NonZeroUsize;

/// Sizes around those of the driver's own staging buffers, and beyond the ring below.
const SIZES: [usize; 7] = [1, 255, 4096, 65_536, 65_537, 1 << 20, 3_000_001];

/// An allocator whose ring goes round in the larger copies.
fn with_a_small_ring() -> CudaAllocator {
    fakecuda::auto();
    let mut options = CudaOptions::new();
    options.staging_chunk_bytes = NonZeroUsize::new(300_000).unwrap();
    CudaAllocator::with_options(options)
}

#[test]
fn transfers_of_every_size_make_the_round_trip() {
    let allocator = allocator();
    let stream = allocator.create_stream(index(0)).unwrap();
    for nbytes in SIZES {
        let bytes = pattern(nbytes, 1);
        let block = Block::new(&allocator, 0, nbytes as u64).unwrap();
        let up = block.upload(pinned(&allocator, 0, &bytes).unwrap(), stream.handle());
        let mut buffer = up.unwrap().wait().unwrap();
        assert_eq!(buffer[..], bytes, "the source is as it was");
        buffer.fill(0);
        let down = block.download(buffer, stream.handle()).unwrap();
        assert_eq!(down.wait().unwrap()[..], bytes, "{nbytes}");
    }
}

#[test]
fn staged_copies_of_every_size_make_the_round_trip() {
    let allocator = with_a_small_ring();
    let stream = allocator.create_stream(index(0)).unwrap();
    for nbytes in SIZES {
        let block = Block::new(&allocator, 0, nbytes as u64).unwrap();
        let mut bytes = pattern(nbytes, 2);
        let done = block.upload_staged(&bytes, stream.handle()).unwrap();
        bytes.fill(0);
        block.download_staged(&mut bytes, stream.handle()).unwrap();
        assert_eq!(bytes, pattern(nbytes, 2), "{nbytes}");
        assert_eq!(done.is_done(), Ok(true));
    }
}

#[test]
fn write_combined_memory_can_be_copied_from() {
    let allocator = allocator();
    let stream = allocator.create_stream(index(0)).unwrap();
    let mut buffer = allocator.pinned_write_combined(index(0), 4096).unwrap();
    buffer.copy_from_slice(&pattern(4096, 3));
    let block = Block::new(&allocator, 0, 4096).unwrap();
    block
        .upload(buffer, stream.handle())
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(block.read().unwrap(), pattern(4096, 3));
}

#[test]
fn a_stream_waits_for_another_ones_event() {
    const NBYTES: usize = 8 << 20;
    let allocator = allocator();
    let [first, second] = [0, 1].map(|_| allocator.create_stream(index(0)).unwrap());
    let [a, b] = [0, 1].map(|_| Block::new(&allocator, 0, NBYTES as u64).unwrap());
    for round in 0..5 {
        let bytes = pattern(NBYTES, round);
        let up = a
            .upload(pinned(&allocator, 0, &bytes).unwrap(), first.handle())
            .unwrap();
        second.wait_for(up.event()).unwrap();
        b.copy_from_on(&a, second.handle()).unwrap();
        first.wait_for(&second.record().unwrap()).unwrap();
        let buffer = up.wait().unwrap();
        let down = b.download(buffer, first.handle()).unwrap();
        assert!(down.wait().unwrap()[..] == bytes, "round {round}");
        second.synchronize().unwrap();
    }
}

#[test]
fn blocks_go_back_while_work_uses_them() {
    const NBYTES: usize = 8 << 20;
    let allocator = allocator();
    let stream = allocator.create_stream(index(0)).unwrap();
    let bytes = pattern(NBYTES, 4);
    let target = Block::new(&allocator, 0, NBYTES as u64).unwrap();
    for _ in 0..5 {
        let source = Block::new(&allocator, 0, NBYTES as u64).unwrap();
        let up = source
            .upload(pinned(&allocator, 0, &bytes).unwrap(), stream.handle())
            .unwrap();
        target.copy_from_on(&source, stream.handle()).unwrap();
        source.record_use(stream.handle()).unwrap();
        source.free().unwrap();
        // Whoever gets that memory now may write it.
        let next = Block::new(&allocator, 0, NBYTES as u64).unwrap();
        next.fill(0).unwrap();
        let down = target
            .download(up.wait().unwrap(), stream.handle())
            .unwrap();
        assert!(down.wait().unwrap()[..] == bytes);
    }
}

#[test]
fn copies_come_behind_the_selected_stream() {
    const NBYTES: usize = 8 << 20;
    let allocator = allocator();
    let stream = allocator.create_stream(index(0)).unwrap();
    let [a, b] = [0, 1].map(|_| Block::new(&allocator, 0, NBYTES as u64).unwrap());
    for round in 0..5 {
        let bytes = pattern(NBYTES, round);
        let up = a
            .upload(pinned(&allocator, 0, &bytes).unwrap(), stream.handle())
            .unwrap();
        b.copy_from_on(&a, stream.handle()).unwrap();
        let selected = stream.select();
        assert!(b.read().unwrap() == bytes, "round {round}");
        drop((selected, up));
    }
}

#[test]
fn events_tell_when_work_is_done() {
    let allocator = allocator();
    let stream = allocator.create_stream(index(0)).unwrap();
    let block = Block::new(&allocator, 0, 1 << 20).unwrap();
    let up = block
        .upload(
            allocator.pinned(index(0), 1 << 20).unwrap(),
            stream.handle(),
        )
        .unwrap();
    let event = up.event().clone();
    while !up.is_done().unwrap() {
        std::thread::yield_now();
    }
    assert_eq!(event.is_done(), Ok(true));
    event.wait().unwrap();
    assert_eq!(event.device(), stream.device());
    allocator.synchronize(index(0)).unwrap();
}
