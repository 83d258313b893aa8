//! The ring of pinned chunks.

use crate::streams::alone;
use crate::support::{Block, ForeignStream, index, pattern};
use et_cuda::{CudaAllocator, CudaOptions};
use std::num::NonZeroUsize;

/// An allocator whose ring is small enough to go round often.
pub(crate) fn with_chunks_of(nbytes: usize) -> CudaAllocator {
    let mut options = CudaOptions::new();
    options.staging_chunk_bytes = NonZeroUsize::new(nbytes).unwrap();
    CudaAllocator::with_options(options)
}

#[test]
fn staged_bytes_of_every_size_make_the_round_trip() {
    let device = fakecuda::device();
    let before = device.stats();
    let allocator = with_chunks_of(100);
    let stream = ForeignStream::of(device.ordinal());
    for nbytes in [1, 3, 99, 100, 101, 199, 200, 201, 1000, 1001] {
        let block = Block::new(&allocator, device.ordinal(), nbytes as u64).unwrap();
        let mut bytes = pattern(nbytes, 3);
        block.upload_staged(&bytes, stream.handle()).unwrap();
        // The caller's bytes are the caller's again.
        bytes.fill(0);
        block.download_staged(&mut bytes, stream.handle()).unwrap();
        assert_eq!(bytes, pattern(nbytes, 3), "{nbytes}");
    }
    let s = allocator.statistics(index(device.ordinal())).unwrap();
    assert_eq!(
        (
            s.staged.count,
            s.host_to_device.count,
            s.device_to_host.count
        ),
        (20, 10, 10)
    );
    assert_eq!(s.pinned_bytes, 200, "two chunks, however much was copied");
    assert_eq!(device.stats().pageable_copies, before.pageable_copies);
}

#[test]
fn staging_nothing_is_no_copy() {
    let device = fakecuda::device();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(device.ordinal());
    let block = Block::new(&allocator, device.ordinal(), 8).unwrap();
    let (at, nothing) = (index(device.ordinal()), block.span().subspan(8, 0).unwrap());
    // SAFETY: no byte is touched.
    unsafe { allocator.upload_staged(at, nothing, &[], stream.handle()) }.unwrap();
    // SAFETY: no byte is touched.
    unsafe { allocator.download_staged(at, &mut [], nothing, stream.handle()) }.unwrap();
    let statistics = allocator.statistics(at).unwrap();
    assert_eq!(statistics.pinned_bytes, 0, "no ring was made");
    let counts = [statistics.staged, statistics.host_to_device].map(|t| t.count);
    assert_eq!(counts, [0, 0]);
    let error = block.upload_staged(&[1; 9], stream.handle()).unwrap_err();
    assert_eq!(error.id(), "device.length");
}

/// Many small copies, as a decode loop makes, fit a chunk side by side.
#[test]
fn small_copies_do_not_wait_for_each_other() {
    let devices = alone();
    let allocator = with_chunks_of(1000);
    let ordinal = devices[0].ordinal();
    let stream = ForeignStream::of(ordinal);
    let blocks: Vec<_> = (0..20)
        .map(|_| Block::new(&allocator, ordinal, 100).unwrap())
        .collect();
    let waits = || fakecuda::calls("cuEventSynchronize") + fakecuda::calls("cuStreamSynchronize");
    let before = waits();
    for (seed, block) in blocks.iter().enumerate() {
        block
            .upload_staged(&pattern(100, seed as u8), stream.handle())
            .unwrap();
    }
    assert_eq!(waits(), before, "twenty copies fit the two chunks");
    stream.wait();
    for (seed, block) in blocks.iter().enumerate() {
        assert_eq!(block.read().unwrap(), pattern(100, seed as u8));
    }
    drop(blocks);
}

/// The uploads of other streams may wait for whatever they like, also for the host that waits here.
#[test]
fn a_download_waits_for_no_other_stream() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    for chunk in [1000, 60] {
        let allocator = with_chunks_of(chunk);
        let (slow, fast) = (ForeignStream::of(ordinal), ForeignStream::of(ordinal));
        let (a, b) = (
            Block::new(&allocator, ordinal, 50).unwrap(),
            Block::new(&allocator, ordinal, 50).unwrap(),
        );
        b.write(&pattern(50, 2)).unwrap();
        a.upload_staged(&pattern(50, 1), slow.handle()).unwrap();
        let pending = devices[0].stats().pending_ops;
        assert_eq!(pending, 2, "a copy and its event");
        let mut back = vec![0; 50];
        b.download_staged(&mut back, fast.handle()).unwrap();
        assert_eq!(back, pattern(50, 2));
        assert_eq!(devices[0].stats().pending_ops, pending, "chunks of {chunk}");
        slow.wait();
        assert_eq!(a.read().unwrap(), pattern(50, 1));
    }
}

#[test]
fn threads_share_a_ring() {
    let device = fakecuda::device();
    let allocator = with_chunks_of(64);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (allocator, ordinal) = (&allocator, device.ordinal());
            scope.spawn(move || {
                let stream = ForeignStream::of(ordinal);
                let block = Block::new(allocator, ordinal, 500).unwrap();
                for round in 0..20 {
                    let (bytes, mut back) = (pattern(500, seed * 20 + round), vec![0; 500]);
                    block.upload_staged(&bytes, stream.handle()).unwrap();
                    block.download_staged(&mut back, stream.handle()).unwrap();
                    assert_eq!(back, bytes);
                }
            });
        }
    });
}

/// Every call that staging makes fails once: no copy is left under way, and the next one works.
#[test]
fn a_failed_copy_leaves_the_ring_fit_for_use() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let calls = [
        "cuMemHostAlloc",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuEventCreate",
        "cuEventRecord",
        "cuEventSynchronize",
        "cuEventQuery",
    ];
    let mut failures = 0;
    for (symbol, skip) in calls
        .iter()
        .flat_map(|s| (0..12).map(move |skip| (*s, skip)))
    {
        let allocator = with_chunks_of(50);
        let stream = ForeignStream::of(ordinal);
        let block = Block::new(&allocator, ordinal, 300).unwrap();
        let (bytes, mut back) = (pattern(300, 1), vec![0; 300]);
        devices[0].fail(symbol, skip, 1, fakecuda::UNKNOWN);
        let outcome = block
            .upload_staged(&bytes, stream.handle())
            .and_then(|_| block.download_staged(&mut back, stream.handle()));
        devices[0].clear();
        if outcome.is_err() {
            failures += 1;
            let waited = devices[0].stats().pending_ops == 0;
            assert!(waited, "{symbol} {skip}: a copy is under way");
        }
        block.upload_staged(&bytes, stream.handle()).unwrap();
        block.download_staged(&mut back, stream.handle()).unwrap();
        assert_eq!(back, bytes, "{symbol} {skip}");
        assert_eq!(devices[0].violations(), "");
    }
    assert!(failures > 30, "{failures}");
}
