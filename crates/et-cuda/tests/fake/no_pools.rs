//! Devices without pools: blocks come from the driver, and frees are put off while work uses them.

use crate::streams::alone;
use crate::support::{Block, ForeignStream, index};
use et_cuda::CudaAllocator;
use et_device::DeviceAllocator;

/// Runs `body` on devices without pools.
fn without_pools(body: impl FnOnce(&[fakecuda::Device])) {
    let devices = alone();
    fakecuda::set_pools(false);
    body(&devices);
    fakecuda::set_pools(true);
}

#[test]
fn without_pools_a_free_on_a_stream_waits_for_nothing() {
    without_pools(|devices| {
        let ordinal = devices[0].ordinal();
        let allocator = CudaAllocator::new();
        let stream = ForeignStream::of(ordinal);
        let deferred = || allocator.statistics(index(ordinal)).unwrap().deferred_bytes;
        let (a, b) = (
            Block::new(&allocator, ordinal, 64).unwrap(),
            Block::new(&allocator, ordinal, 64).unwrap(),
        );
        a.fill(1).unwrap();
        b.copy_from_on(&a, stream.handle()).unwrap();
        a.free_on(stream.handle()).unwrap();
        assert!(devices[0].stats().pending_ops > 0);
        assert_eq!((deferred(), devices[0].stats().live_allocs), (64, 2));
        stream.wait();
        // The next allocation finds that the work is over.
        let c = Block::new(&allocator, ordinal, 8).unwrap();
        assert_eq!((deferred(), devices[0].stats().live_allocs), (0, 2));
        assert_eq!(b.read().unwrap(), [1; 64]);
        b.free().unwrap();
        c.free().unwrap();
        assert_eq!(
            (
                devices[0].stats().live_allocs,
                devices[0].violations().as_str()
            ),
            (0, "")
        );
    });
}

#[test]
fn without_pools_a_use_defers_the_free() {
    without_pools(|devices| {
        let ordinal = devices[0].ordinal();
        let allocator = CudaAllocator::new();
        let stream = ForeignStream::of(ordinal);
        for schedule in 0..50 {
            fakecuda::schedule(schedule);
            let (a, b) = (
                Block::new(&allocator, ordinal, 64).unwrap(),
                Block::new(&allocator, ordinal, 64).unwrap(),
            );
            b.copy_from_on(&a, stream.handle()).unwrap();
            a.record_use(stream.handle()).unwrap();
            b.record_use(stream.handle()).unwrap();
            a.free().unwrap();
            b.free().unwrap();
            assert_eq!(devices[0].violations(), "", "schedule {schedule}");
        }
        fakecuda::schedule(0);
        allocator.synchronize(index(ordinal)).unwrap();
        assert_eq!(devices[0].stats().live_allocs, 0);
    });
}

#[test]
fn without_pools_memory_that_waits_is_there_when_it_is_needed() {
    without_pools(|devices| {
        let ordinal = devices[0].ordinal();
        devices[0].set_memory(1 << 20);
        let allocator = CudaAllocator::new();
        let stream = ForeignStream::of(ordinal);
        let (a, b) = (
            Block::new(&allocator, ordinal, 1 << 19).unwrap(),
            Block::new(&allocator, ordinal, 1 << 19).unwrap(),
        );
        b.copy_from_on(&a, stream.handle()).unwrap();
        a.free_on(stream.handle()).unwrap();
        b.free_on(stream.handle()).unwrap();
        Block::new(&allocator, ordinal, 1 << 20).unwrap();
        assert_eq!(devices[0].violations(), "");
    });
}

#[test]
fn without_pools_what_waits_is_freed_with_the_allocator() {
    without_pools(|devices| {
        let ordinal = devices[0].ordinal();
        let allocator = CudaAllocator::new();
        let stream = ForeignStream::of(ordinal);
        let (a, b) = (
            Block::new(&allocator, ordinal, 64).unwrap(),
            Block::new(&allocator, ordinal, 64).unwrap(),
        );
        b.copy_from_on(&a, stream.handle()).unwrap();
        a.free_on(stream.handle()).unwrap();
        b.free_on(stream.handle()).unwrap();
        drop(allocator);
        let stats = devices[0].stats();
        assert_eq!((stats.live_allocs, stats.live_events), (0, 0));
        assert_eq!(devices[0].violations(), "");
    });
}
