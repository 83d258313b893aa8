//! Pinned memory, and the copies that own it while they run.

use crate::faults::elsewhere;
use crate::streams::alone;
use crate::support::{Block, ForeignStream, index, pattern, pinned};
use cudarc::driver::sys;
use et_cuda::{CudaAllocator, PinnedBuffer};
use et_device::DeviceError;

/// The flags with which the driver pinned a buffer's memory.
fn flags_of(buffer: &PinnedBuffer) -> u32 {
    let stream = ForeignStream::of(usize::from(buffer.device().index().get()));
    stream.context.bind_to_thread().unwrap();
    let mut flags = u32::MAX;
    // SAFETY: the address is pinned memory, and `flags` a place for the answer.
    let status = unsafe { sys::cuMemHostGetFlags(&mut flags, buffer.as_ptr().cast_mut().cast()) };
    assert_eq!(status, sys::CUresult::CUDA_SUCCESS);
    crate::support::without_context();
    flags
}

#[test]
fn pinned_memory_is_zeroed_counted_and_given_back() {
    let devices = alone();
    let at = index(devices[0].ordinal());
    let allocator = CudaAllocator::new();
    let freed = fakecuda::calls("cuMemFreeHost");
    let mut buffer = allocator.pinned(at, 1000).unwrap();
    assert_eq!((&buffer[..], buffer.device().index()), (&[0; 1000][..], at));
    buffer[999] = 7;
    assert_eq!(allocator.statistics(at).unwrap().pinned_bytes, 1000);
    drop(buffer);
    assert_eq!(allocator.statistics(at).unwrap().pinned_bytes, 0);
    assert_eq!(fakecuda::calls("cuMemFreeHost"), freed + 1);
}

#[test]
fn pinned_memory_is_cached_unless_asked_otherwise() {
    let device = fakecuda::device();
    let at = index(device.ordinal());
    let allocator = CudaAllocator::new();
    assert_eq!(flags_of(&allocator.pinned(at, 8).unwrap()), 0);
    assert_eq!(
        flags_of(&allocator.pinned_write_combined(at, 8).unwrap()),
        4
    );
}

#[test]
fn pinned_memory_of_any_size_is_a_buffer_or_an_error() {
    let device = fakecuda::device();
    let at = index(device.ordinal());
    let allocator = CudaAllocator::new();
    assert!(allocator.pinned(at, 0).unwrap().is_empty());
    for nbytes in [usize::MAX, isize::MAX as usize, 1 << 62] {
        let error = allocator.pinned(at, nbytes).unwrap_err();
        let DeviceError::Driver {
            operation, code, ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!((operation, code), ("cuMemHostAlloc", 2), "{nbytes}");
    }
    assert_eq!(allocator.statistics(at).unwrap().pinned_bytes, 0);
}

#[test]
fn pinned_memory_outlives_its_allocator() {
    let device = fakecuda::device();
    let allocator = CudaAllocator::new();
    let mut buffer = allocator.pinned(index(device.ordinal()), 64).unwrap();
    drop(allocator);
    buffer.fill(5);
    std::thread::spawn(move || assert_eq!(buffer[63], 5))
        .join()
        .unwrap();
}

#[test]
fn transfers_are_queued_and_give_the_buffer_back() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let block = Block::new(&allocator, ordinal, 100).unwrap();
    let bytes = pattern(100, 1);
    let before = devices[0].stats();
    let up = block
        .upload(
            pinned(&allocator, ordinal, &bytes).unwrap(),
            stream.handle(),
        )
        .unwrap();
    // The copy, and the event behind it.
    assert_eq!(devices[0].stats().pending_ops, 2);
    let mut buffer = up.wait().unwrap();
    assert_eq!(
        (devices[0].stats().pending_ops, &buffer[..]),
        (0, &bytes[..])
    );
    buffer.fill(0);
    let down = block.download(buffer, stream.handle()).unwrap();
    assert_eq!(down.wait().unwrap()[..], bytes);
    let s = allocator.statistics(index(ordinal)).unwrap();
    let counts = [s.host_to_device, s.device_to_host, s.staged].map(|t| (t.count, t.bytes));
    assert_eq!(counts, [(1, 100), (1, 100), (0, 0)]);
    let after = devices[0].stats();
    assert_eq!(after.pinned_copies - before.pinned_copies, 2);
    assert_eq!(after.pageable_copies, before.pageable_copies);
    drop(block);
}

#[test]
fn a_transfer_may_use_a_part_of_its_buffer() {
    let device = fakecuda::device();
    let at = index(device.ordinal());
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(device.ordinal());
    let block = Block::new(&allocator, device.ordinal(), 10).unwrap();
    let buffer = pinned(&allocator, device.ordinal(), &pattern(30, 2)).unwrap();
    // SAFETY: a live block that only this copy uses.
    let up = unsafe { allocator.upload(at, block.span(), buffer, 20, stream.handle()) }.unwrap();
    let mut buffer = up.wait().unwrap();
    buffer.fill(0);
    // SAFETY: as above.
    let down = unsafe { allocator.download(at, buffer, 5, block.span(), stream.handle()) };
    let buffer = down.unwrap().wait().unwrap();
    assert_eq!(buffer[5..15], pattern(30, 2)[20..]);
    assert!(buffer[..5].iter().chain(&buffer[15..]).all(|b| *b == 0));
}

#[test]
fn a_part_that_a_buffer_does_not_have_is_refused_with_the_buffer() {
    let device = fakecuda::device();
    let at = index(device.ordinal());
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(device.ordinal());
    let block = Block::new(&allocator, device.ordinal(), 10).unwrap();
    let mut buffer = allocator.pinned(at, 30).unwrap();
    for offset in [21, 30, 31, usize::MAX] {
        // SAFETY: a live block; the copy is refused.
        let up = unsafe { allocator.upload(at, block.span(), buffer, offset, stream.handle()) };
        let refused = up.unwrap_err();
        assert_eq!(refused.error.id(), "device.length", "{offset}");
        buffer = refused.buffer.unwrap();
        // SAFETY: as above.
        let down = unsafe { allocator.download(at, buffer, offset, block.span(), stream.handle()) };
        let refused = down.unwrap_err();
        assert_eq!(refused.error.id(), "device.length", "{offset}");
        buffer = refused.buffer.unwrap();
    }
    assert_eq!(device.stats().pending_ops, 0);
}

#[test]
fn dropping_a_transfer_waits_for_it() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let block = Block::new(&allocator, ordinal, 64).unwrap();
    let up = block
        .upload(
            pinned(&allocator, ordinal, &[3; 64]).unwrap(),
            stream.handle(),
        )
        .unwrap();
    assert!(devices[0].stats().pending_ops > 0);
    drop(up);
    assert_eq!(devices[0].stats().pending_ops, 0);
    assert_eq!(
        fakecuda::peek(block.span().base().get(), 64),
        Some(vec![3; 64])
    );
    assert_eq!(devices[0].violations(), "");
    drop(block);
}

/// Whoever forgets the guard loses the memory, and no copy loses its bytes.
#[test]
fn forgetting_a_transfer_leaks_the_buffer_and_harms_nothing() {
    // What is leaked stays on the device, so this has a process of its own.
    elsewhere(
        "pinned::forgetting_a_transfer_leaks_the_buffer_and_harms_nothing",
        || {
            let mut device = fakecuda::device();
            device.allow_leftovers();
            let ordinal = device.ordinal();
            let allocator = CudaAllocator::new();
            let stream = ForeignStream::of(ordinal);
            let block = Block::new(&allocator, ordinal, 64).unwrap();
            let buffer = pinned(&allocator, ordinal, &[4; 64]).unwrap();
            let up = block.upload(buffer, stream.handle()).unwrap();
            let event = up.event().clone();
            std::mem::forget(up);
            let other = pinned(&allocator, ordinal, &[9; 64]).unwrap();
            event.wait().unwrap();
            assert_eq!(
                (block.read().unwrap(), &other[..]),
                (vec![4; 64], &[9; 64][..])
            );
            assert_eq!(
                allocator.statistics(index(ordinal)).unwrap().pinned_bytes,
                128
            );
            drop((block, other, event));
            assert_eq!(device.violations(), "");
        },
    );
}

#[test]
fn polling_a_transfer_ends() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let block = Block::new(&allocator, ordinal, 64).unwrap();
    let up = block
        .upload(
            allocator.pinned(index(ordinal), 64).unwrap(),
            stream.handle(),
        )
        .unwrap();
    let polls = std::iter::repeat_with(|| up.is_done().unwrap()).take_while(|done| !done);
    assert!((1..10).contains(&polls.take(10).count()));
    drop(up);
    drop(block);
}

/// The copy is queued already when its event fails: it must be over before the buffer is anybody's again.
#[test]
fn a_transfer_without_its_event_is_waited_for_and_refused() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let block = Block::new(&allocator, ordinal, 64).unwrap();
    for symbol in ["cuEventRecord", "cuEventCreate"] {
        let buffer = pinned(&allocator, ordinal, &[1; 64]).unwrap();
        devices[0].fail(symbol, 0, 1, fakecuda::UNKNOWN);
        match block.upload(buffer, stream.handle()) {
            Err(refused) => {
                assert_eq!(refused.error.id(), "device.driver");
                assert_eq!(refused.buffer.unwrap()[..], [1; 64]);
            }
            // An event of before was used again.
            Ok(up) => assert_eq!(up.wait().unwrap()[..], [1; 64], "{symbol}"),
        }
        devices[0].clear();
        assert_eq!(devices[0].stats().pending_ops, 0, "{symbol}");
    }
    drop(block);
}

#[test]
fn after_a_fault_a_transfers_memory_is_never_given_back() {
    elsewhere(
        "pinned::after_a_fault_a_transfers_memory_is_never_given_back",
        || {
            let mut device = fakecuda::device();
            device.allow_leftovers();
            let ordinal = device.ordinal();
            let allocator = CudaAllocator::new();
            let stream = ForeignStream::of(ordinal);
            let block = Block::new(&allocator, ordinal, 64).unwrap();
            let buffer = || allocator.pinned(index(ordinal), 64).unwrap();
            let (up, spare) = (block.upload(buffer(), stream.handle()).unwrap(), buffer());
            let freed = fakecuda::calls("cuMemFreeHost");
            device.poison(700);
            assert_eq!(up.wait().unwrap_err().id(), "device.driver");
            assert_eq!(fakecuda::calls("cuMemFreeHost"), freed);
            let refused = block.upload(spare, stream.handle()).unwrap_err();
            assert_eq!(
                (refused.error.id(), refused.buffer.is_none()),
                ("device.poisoned", true)
            );
            assert_eq!(fakecuda::calls("cuMemFreeHost"), freed);
        },
    );
}

#[test]
fn a_block_given_back_under_a_transfer_is_freed_behind_it() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    for seed in 0..50 {
        fakecuda::schedule(seed);
        let block = Block::new(&allocator, ordinal, 64).unwrap();
        let bytes = pattern(64, 8);
        let up = block
            .upload(
                pinned(&allocator, ordinal, &bytes).unwrap(),
                stream.handle(),
            )
            .unwrap();
        let down = block.download(up.wait().unwrap(), stream.handle()).unwrap();
        block.free().unwrap();
        assert_eq!(down.wait().unwrap()[..], bytes, "schedule {seed}");
        assert_eq!(devices[0].violations(), "", "schedule {seed}");
    }
    fakecuda::schedule(0);
}
