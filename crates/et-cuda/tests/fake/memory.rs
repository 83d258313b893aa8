//! Running out of memory, poisoned devices, contexts, and what is left at the end.

use crate::faults::elsewhere;
use crate::streams::alone;
use crate::support::{
    Block, ForeignStream, cuda, current_context, index, request, without_context,
};
use et_cuda::{CudaAllocator, CudaOptions};
use et_device::{Alignment, DeviceAllocator, DeviceError, StreamHandle};
use std::sync::atomic::{AtomicUsize, Ordering};

const ALLOCATE: &str = "cuMemAllocFromPoolAsync";
const POISON: u32 = 700;
/// The calls by which a context becomes current.
const ENTERING: [&str; 2] = ["cuCtxGetCurrent", "cuCtxPushCurrent_v2"];

/// How an allocation ends when the driver is out of memory `times` times in a row.
fn outcome_after(times: u64, options: CudaOptions) -> Result<(), DeviceError> {
    let device = fakecuda::device();
    let allocator = CudaAllocator::with_options(options);
    Block::new(&allocator, device.ordinal(), 8)?.free()?;
    device.fail(ALLOCATE, 0, times, fakecuda::OUT_OF_MEMORY);
    let outcome = Block::new(&allocator, device.ordinal(), 8).and_then(Block::free);
    let statistics = allocator.statistics(index(device.ordinal())).unwrap();
    assert_eq!(statistics.out_of_memory_retries, u64::from(times > 0));
    outcome
}

#[test]
fn out_of_memory_is_answered_by_trimming_then_by_waiting_then_reported() {
    let options = CudaOptions::new();
    for times in 0..=2 {
        assert_eq!(outcome_after(times, options), Ok(()), "{times}");
    }
    assert_eq!(
        outcome_after(3, options).unwrap_err().id(),
        "device.out-of-memory"
    );
}

#[test]
fn the_owner_is_asked_last_and_once() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let mut options = CudaOptions::new();
    options.on_out_of_memory = Some(|figures| {
        assert_eq!(figures.requested_bytes, 8);
        ASKED.fetch_add(1, Ordering::Relaxed);
        true
    });
    assert_eq!(outcome_after(2, options), Ok(()));
    assert_eq!(ASKED.load(Ordering::Relaxed), 0);
    assert_eq!(outcome_after(3, options), Ok(()));
    assert_eq!(
        outcome_after(4, options).unwrap_err().id(),
        "device.out-of-memory"
    );
    assert_eq!(ASKED.load(Ordering::Relaxed), 2);
}

#[test]
fn a_full_device_has_room_again_after_a_free() {
    let device = fakecuda::device();
    device.set_memory(1 << 20);
    let allocator = CudaAllocator::new();
    let block = Block::new(&allocator, device.ordinal(), 3 << 18).unwrap();
    let error = allocator
        .allocate(&request(device.ordinal(), 1 << 19))
        .unwrap_err();
    let expected = DeviceError::OutOfMemory {
        device: cuda(device.ordinal()),
        requested: 1 << 19,
        free: 1 << 18,
        total: 1 << 20,
    };
    assert_eq!(error, expected);
    block.free().unwrap();
    Block::new(&allocator, device.ordinal(), 1 << 20).unwrap();
}

#[test]
fn what_other_owners_need_is_given_back_by_trimming() {
    let device = fakecuda::device();
    device.set_memory(1 << 20);
    let (one, two) = (CudaAllocator::new(), CudaAllocator::new());
    Block::new(&one, device.ordinal(), 1 << 20)
        .unwrap()
        .free()
        .unwrap();
    // The first allocator's pool keeps everything, and the second one's cannot reach it.
    assert!(two.allocate(&request(device.ordinal(), 1 << 20)).is_err());
    one.trim(index(device.ordinal()), 0).unwrap();
    Block::new(&two, device.ordinal(), 1 << 20).unwrap();
}

/// Also what waits for its uses is given back: trimming waits with it.
#[test]
fn trimming_reaches_blocks_that_were_freed_behind_uses() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let (a, b) = (
        Block::new(&allocator, ordinal, 1 << 20).unwrap(),
        Block::new(&allocator, ordinal, 1 << 20).unwrap(),
    );
    b.copy_from_on(&a, stream.handle()).unwrap();
    for block in [a, b] {
        block.record_use(stream.handle()).unwrap();
        block.free().unwrap();
    }
    allocator.trim(index(ordinal), 0).unwrap();
    let statistics = allocator.statistics(index(ordinal)).unwrap();
    assert_eq!(statistics.pool_reserved_bytes, 0);
    assert_eq!(devices[0].violations(), "");
}

/// A driver that may hand out the status of somebody's earlier work does so once.
#[test]
fn a_status_of_earlier_work_does_not_keep_a_block_from_going_back() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    for call in ENTERING {
        let allocator = CudaAllocator::new();
        let block = Block::new(&allocator, ordinal, 8).unwrap();
        fakecuda::fail_everywhere(call, 0, 1, fakecuda::UNKNOWN);
        let freed = block.free();
        fakecuda::clear_everywhere();
        assert_eq!(freed, Ok(()), "{call}");
    }
}

/// What could not be given back is still in the books, and its memory stays.
#[test]
fn a_block_stays_known_when_its_device_cannot_be_reached() {
    const NAME: &str = "memory::a_block_stays_known_when_its_device_cannot_be_reached";
    elsewhere(NAME, || {
        let mut devices = alone();
        devices[0].allow_leftovers();
        let ordinal = devices[0].ordinal();
        for (call, queued) in ENTERING.iter().flat_map(|c| [(*c, false), (*c, true)]) {
            let allocator = CudaAllocator::new();
            let block = Block::new(&allocator, ordinal, 8).unwrap();
            let span = block.span();
            let before = (devices[0].stats().live_allocs, devices[0].stats().ctx_refs);
            fakecuda::fail_everywhere(call, 0, 2, fakecuda::UNKNOWN);
            let freed = match queued {
                true => block.free_on(StreamHandle::from_raw(0)),
                false => block.free(),
            };
            fakecuda::clear_everywhere();
            assert!(freed.is_err(), "{call}");
            assert_eq!(allocator.live_blocks(index(ordinal)).unwrap(), [span]);
            let statistics = allocator.statistics(index(ordinal)).unwrap();
            assert_eq!((statistics.live_blocks, statistics.frees), (1, 0), "{call}");
            drop(allocator);
            let after = (devices[0].stats().live_allocs, devices[0].stats().ctx_refs);
            assert_eq!(after, before, "{call}");
        }
    });
}

#[test]
fn the_pool_maps_memory_once_for_many_rounds() {
    let device = fakecuda::device();
    let allocator = CudaAllocator::new();
    let before = device.stats().pool_grows;
    for _ in 0..10 {
        Block::new(&allocator, device.ordinal(), 1 << 20)
            .unwrap()
            .free()
            .unwrap();
        allocator.synchronize(index(device.ordinal())).unwrap();
    }
    assert_eq!(device.stats().pool_grows - before, 1);
}

#[test]
fn after_a_fault_the_device_says_so_and_nothing_panics() {
    let mut device = fakecuda::device();
    device.allow_leftovers();
    let allocator = CudaAllocator::new();
    let block = Block::new(&allocator, device.ordinal(), 8).unwrap();
    device.poison(POISON);
    let first = block.fill(0).unwrap_err();
    let DeviceError::Driver { code, name, .. } = first else {
        panic!("{first}")
    };
    assert_eq!((code, name), (POISON, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    let expected = DeviceError::Poisoned {
        device: cuda(device.ordinal()),
        code,
        name,
    };
    assert_eq!(block.read().unwrap_err(), expected);
    assert_eq!(
        allocator.synchronize(index(device.ordinal())),
        Err(expected)
    );
    assert_eq!(
        allocator.allocate(&request(device.ordinal(), 8)),
        Err(expected)
    );
    assert_eq!(block.free().unwrap_err().id(), "device.driver");
}

#[test]
fn a_poisoned_device_leaves_the_others_alone() {
    let mut devices = fakecuda::devices(2);
    devices[0].allow_leftovers();
    let allocator = CudaAllocator::new();
    let [bad, good] = [devices[0].ordinal(), devices[1].ordinal()];
    Block::new(&allocator, bad, 8).unwrap().free().unwrap();
    devices[0].poison(POISON);
    allocator.synchronize(index(bad)).unwrap_err();
    let block = Block::new(&allocator, good, 8).unwrap();
    block.fill(1).unwrap();
    assert_eq!(block.read().unwrap(), [1; 8]);
}

#[test]
fn r_cuda_02_the_threads_context_is_left_as_it_was() {
    let devices = fakecuda::devices(2);
    let allocator = CudaAllocator::new();
    let work = |ordinal: usize| {
        let block = Block::new(&allocator, ordinal, 8).unwrap();
        block.fill(1).unwrap();
        block.read().unwrap();
        block.free().unwrap();
        allocator.allocate(&request(ordinal, 1 << 62)).unwrap_err();
    };
    without_context();
    work(devices[0].ordinal());
    assert_eq!(current_context(), 0);
    let other = ForeignStream::of(devices[1].ordinal());
    other.context.bind_to_thread().unwrap();
    let before = current_context();
    for device in &devices {
        work(device.ordinal());
        assert_eq!(current_context(), before);
    }
    without_context();
}

#[test]
fn a_context_that_cannot_be_popped_is_set_back() {
    let device = fakecuda::device();
    let allocator = CudaAllocator::new();
    without_context();
    let block = Block::new(&allocator, device.ordinal(), 8).unwrap();
    device.fail("cuCtxPopCurrent_v2", 0, 1, fakecuda::UNKNOWN);
    block.fill(1).unwrap();
    assert_eq!(current_context(), 0);
}

#[test]
fn strictly_aligned_blocks_are_freed_by_their_real_address() {
    let device = fakecuda::device();
    let allocator = CudaAllocator::new();
    for shift in [9, 12, 16, 20] {
        let alignment = Alignment::new(1 << shift).unwrap();
        let blocks: Vec<_> = (0..4)
            .map(|_| Block::aligned(&allocator, device.ordinal(), 100, alignment).unwrap())
            .collect();
        assert!(blocks.iter().all(|b| b.span().base().is_aligned(alignment)));
        blocks.into_iter().for_each(|b| b.free().unwrap());
    }
    allocator.synchronize(index(device.ordinal())).unwrap();
    assert_eq!(
        (device.stats().live_allocs, device.violations().as_str()),
        (0, "")
    );
}

#[test]
fn dropping_the_allocator_gives_everything_back() {
    let device = fakecuda::device();
    let before = device.stats();
    let allocator = CudaAllocator::new();
    Block::new(&allocator, device.ordinal(), 8)
        .unwrap()
        .free()
        .unwrap();
    let while_used = device.stats();
    assert_eq!(
        (while_used.ctx_refs, while_used.live_streams),
        (before.ctx_refs + 1, 3)
    );
    drop(allocator);
    let after = device.stats();
    assert_eq!(
        (after.ctx_refs, after.live_streams, after.live_events),
        (before.ctx_refs, 0, 0)
    );
    assert_eq!(
        (after.live_allocs, after.lost_at_reset),
        (0, before.lost_at_reset)
    );
}
