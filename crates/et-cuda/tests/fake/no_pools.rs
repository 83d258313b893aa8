//! Devices without pools: blocks come from the driver, and frees are put off while work uses them.

use crate::faults::elsewhere;
use crate::streams::alone;
use crate::support::{Block, ForeignStream, index};
use et_cuda::{CudaAllocator, CudaEvent};
use et_device::DeviceAllocator;

/// Devices have no pools as long as this lives, also while a test fails. To be dropped before the devices are lent to
/// another test.
pub(crate) struct WithoutPools(());

impl WithoutPools {
    pub(crate) fn new() -> Self {
        fakecuda::set_pools(false);
        WithoutPools(())
    }
}

impl Drop for WithoutPools {
    fn drop(&mut self) {
        fakecuda::set_pools(true);
    }
}

/// Runs `body` on devices without pools.
fn without_pools(body: impl FnOnce(&[fakecuda::Device])) {
    let devices = alone();
    let _guard = WithoutPools::new();
    body(&devices);
}

/// Whether a new allocator has pools.
fn has_pools(ordinal: usize) -> bool {
    let allocator = CudaAllocator::new();
    let _block = Block::new(&allocator, ordinal, 64).unwrap();
    let statistics = allocator.statistics(index(ordinal)).unwrap();
    statistics.pool_reserved_bytes > 0
}

#[test]
fn a_body_that_fails_does_not_leave_the_others_without_pools() {
    elsewhere(
        "no_pools::a_body_that_fails_does_not_leave_the_others_without_pools",
        || {
            let fails = || {
                without_pools(|devices| {
                    assert!(has_pools(devices[0].ordinal()), "as was to be expected");
                });
            };
            assert!(std::panic::catch_unwind(fails).is_err());
            assert!(has_pools(fakecuda::device().ordinal()));
        },
    );
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

/// Two blocks of the first device, each target of a copy that the second one still has to do; given back already.
/// Gives the event behind the first copy.
fn deferred_under_foreign_copies(
    devices: &[fakecuda::Device],
    home: &CudaAllocator,
    away: &CudaAllocator,
) -> CudaEvent {
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    let source = Block::new(away, there, 64).unwrap();
    source.fill(1).unwrap();
    let streams = [there; 2].map(ForeignStream::of);
    let copied = streams.each_ref().map(|stream| {
        let target = Block::new(home, here, 64).unwrap();
        // Every question about an event has the fake driver do one of these.
        (0..20).for_each(|_| target.copy_from_on(&source, stream.handle()).unwrap());
        // SAFETY: a live stream of this device.
        let copied = unsafe { away.record(index(there), stream.handle()) }.unwrap();
        let kept = home.keep_until(target.span(), index(here), &copied);
        kept.unwrap();
        source.record_use(stream.handle()).unwrap();
        target.free().unwrap();
        copied
    });
    let [first, _] = copied;
    first
}

/// Each block is waited for by itself, whatever the wait for another one gave.
#[test]
fn without_pools_the_end_waits_for_the_uses_of_every_block() {
    without_pools(|devices| {
        let (home, away) = (CudaAllocator::new(), CudaAllocator::new());
        let first = deferred_under_foreign_copies(devices, &home, &away);
        fakecuda::fail_everywhere("cuEventSynchronize", 0, 1, fakecuda::UNKNOWN);
        drop(home);
        fakecuda::clear_everywhere();
        assert_eq!(devices[0].violations(), "");
        assert_eq!(devices[0].stats().live_allocs, 0);
        assert!(first.is_done().unwrap());
    });
}

/// What another device may still write to is given back to nobody, not even with the context.
#[test]
fn without_pools_a_block_whose_uses_do_not_end_stays() {
    const NAME: &str = "no_pools::without_pools_a_block_whose_uses_do_not_end_stays";
    elsewhere(NAME, || {
        let _guard = WithoutPools::new();
        let mut devices = fakecuda::devices(2);
        devices
            .iter_mut()
            .for_each(fakecuda::Device::allow_leftovers);
        let before = devices[0].stats().ctx_refs;
        let (home, away) = (CudaAllocator::new(), CudaAllocator::new());
        let first = deferred_under_foreign_copies(&devices, &home, &away);
        // Of the first block's use nothing can be known: neither its event tells, nor its device.
        fakecuda::fail_everywhere("cuEventSynchronize", 0, 1, fakecuda::UNKNOWN);
        devices[1].fail("cuCtxSynchronize", 0, 1, fakecuda::UNKNOWN);
        drop(home);
        fakecuda::clear_everywhere();
        assert_eq!(devices[0].violations(), "");
        assert_eq!(
            devices[0].stats().live_allocs,
            1,
            "the second block is free"
        );
        assert_eq!(devices[0].stats().ctx_refs, before + 1);
        assert!(first.is_done().is_err(), "the device is not used again");
    });
}

/// What a device's own work uses after a fault goes with the context: nothing of it runs any more.
#[test]
fn a_faulty_device_lets_its_context_go() {
    elsewhere("no_pools::a_faulty_device_lets_its_context_go", || {
        for pools in [true, false] {
            let _guard = (!pools).then(WithoutPools::new);
            let mut device = fakecuda::device();
            device.allow_leftovers();
            let ordinal = device.ordinal();
            let before = device.stats().ctx_refs;
            let allocator = CudaAllocator::new();
            let stream = allocator.create_stream(index(ordinal)).unwrap();
            let block = Block::new(&allocator, ordinal, 64).unwrap();
            block.record_use(stream.handle()).unwrap();
            device.poison(700);
            let _ = block.free();
            drop((stream, allocator));
            assert_eq!(device.stats().ctx_refs, before, "pools: {pools}");
        }
    });
}
