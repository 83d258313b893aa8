//! What the allocator promises, on whichever driver the machine has.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

#[path = "../support/mod.rs"]
mod support;

mod transfers;

use et_cuda::{CudaAllocator, CudaOptions};
use et_device::{Alignment, DeviceAllocator, DeviceError, DeviceType, HostToDevice, StreamHandle};
use std::num::NonZeroU64;
use support::{Block, ForeignStream, cuda, index, pattern, request};

/// An allocator, once a driver is there.
fn allocator() -> CudaAllocator {
    fakecuda::auto();
    CudaAllocator::new()
}

#[test]
fn r_cuda_08_linking_registers_one_static_allocator() {
    let linked = et_device::get_device_allocator(DeviceType::CUDA).unwrap();
    assert_eq!(linked.device_type(), DeviceType::CUDA);
    assert_eq!(CudaAllocator::new().device_type(), DeviceType::CUDA);
}

#[test]
fn the_driver_says_what_there_is() {
    fakecuda::auto();
    let info = et_cuda::probe().unwrap();
    assert!(info.device_count >= 1 && info.version >= 11_000, "{info:?}");
    assert_eq!(CudaAllocator::new().device_count(), Ok(info.device_count));
}

#[test]
fn a_device_has_a_name() {
    let mut name = String::new();
    allocator().describe(index(0), &mut name).unwrap();
    assert!(!name.is_empty() && !name.contains('\0'), "{name:?}");
}

#[test]
fn r_cuda_06_bytes_make_the_round_trip() {
    let allocator = allocator();
    for nbytes in [1, 3, 255, 256, 4097, 1 << 20] {
        let block = Block::new(&allocator, 0, nbytes as u64).unwrap();
        assert_eq!(block.span().len(), nbytes as u64);
        block.write(&pattern(nbytes, 1)).unwrap();
        assert_eq!(block.read().unwrap(), pattern(nbytes, 1));
    }
}

#[test]
fn copies_touch_the_named_part_only() {
    let allocator = allocator();
    let block = Block::new(&allocator, 0, 300).unwrap();
    block.fill(9).unwrap();
    let part = block.span().subspan(100, 50).unwrap();
    let copy = HostToDevice::new(index(0), part, &[7; 50]).unwrap();
    // SAFETY: a part of a live block that nothing else uses.
    unsafe { allocator.copy_host_to_device(copy) }.unwrap();
    let bytes = block.read().unwrap();
    assert!(bytes[..100].iter().chain(&bytes[150..]).all(|b| *b == 9));
    assert_eq!(bytes[100..150], [7; 50]);
}

#[test]
fn r_cuda_01_any_power_of_two_aligns() {
    let allocator = allocator();
    for shift in 0..=21 {
        let alignment = Alignment::new(1 << shift).unwrap();
        let blocks: Vec<_> = (0..3)
            .map(|_| Block::aligned(&allocator, 0, 100, alignment).unwrap())
            .collect();
        for block in blocks {
            assert!(block.span().base().is_aligned(alignment), "{alignment:?}");
            block.write(&pattern(100, shift)).unwrap();
            assert_eq!(block.read().unwrap(), pattern(100, shift));
            block.free().unwrap();
        }
    }
}

#[test]
fn r_cuda_01_an_alignment_that_cannot_be_is_refused() {
    let allocator = allocator();
    let alignment = Alignment::new(1 << 63).unwrap();
    let huge = request(0, u64::MAX).aligned_to(alignment);
    let error = allocator.allocate(&huge).unwrap_err();
    assert_eq!(
        error,
        DeviceError::UnsupportedAlignment {
            device_type: DeviceType::CUDA,
            requested: alignment
        }
    );
}

#[test]
fn live_blocks_do_not_overlap() {
    let allocator = allocator();
    let blocks: Vec<_> = (1..50)
        .map(|n| Block::new(&allocator, 0, n * 37).unwrap())
        .collect();
    for (i, a) in blocks.iter().enumerate() {
        assert!(blocks[i + 1..].iter().all(|b| !a.span().overlaps(b.span())));
    }
}

#[test]
fn fill_sets_every_byte() {
    let allocator = allocator();
    let block = Block::new(&allocator, 0, 1001).unwrap();
    block.fill(0xA5).unwrap();
    assert_eq!(block.read().unwrap(), vec![0xA5; 1001]);
}

#[test]
fn b_21_device_to_device_copies_stay_on_the_device() {
    let allocator = allocator();
    let (a, b) = (
        Block::new(&allocator, 0, 77).unwrap(),
        Block::new(&allocator, 0, 77).unwrap(),
    );
    a.write(&pattern(77, 3)).unwrap();
    b.copy_from(&a).unwrap();
    assert_eq!(b.read().unwrap(), pattern(77, 3));
    let statistics = allocator.statistics(index(0)).unwrap();
    assert_eq!(
        (
            statistics.device_to_device.count,
            statistics.device_to_device.bytes
        ),
        (1, 77)
    );
    assert_eq!(
        (
            statistics.host_to_device.count,
            statistics.device_to_host.count
        ),
        (1, 1)
    );
}

#[test]
fn copies_reach_every_other_device() {
    let allocator = allocator();
    let count = allocator.device_count().unwrap() as usize;
    if count < 2 {
        println!("skipped: one device only");
        return;
    }
    for (from, to) in (0..count).flat_map(|f| (0..count).map(move |t| (f, t))) {
        let (a, b) = (
            Block::new(&allocator, from, 77).unwrap(),
            Block::new(&allocator, to, 77).unwrap(),
        );
        a.write(&pattern(77, 4)).unwrap();
        b.copy_from(&a).unwrap();
        assert_eq!(b.read().unwrap(), pattern(77, 4), "{from} to {to}");
    }
}

#[test]
fn b_44_an_index_that_is_not_there_is_an_error() {
    let allocator = allocator();
    let count = allocator.device_count().unwrap();
    let absent = count as usize;
    let expected = DeviceError::NoSuchDevice {
        device_type: DeviceType::CUDA,
        index: index(absent),
        count,
    };
    assert_eq!(allocator.allocate(&request(absent, 8)), Err(expected));
    assert_eq!(allocator.memory_info(index(absent)), Err(expected));
    assert_eq!(allocator.synchronize(index(absent)), Err(expected));
}

#[test]
fn r_cuda_07_copies_of_nothing_are_no_ops() {
    let allocator = allocator();
    let block = Block::new(&allocator, 0, 8).unwrap();
    let nothing = block.span().subspan(8, 0).unwrap();
    let copy = HostToDevice::new(index(0), nothing, &[]).unwrap();
    // SAFETY: no byte is touched.
    unsafe { allocator.copy_host_to_device(copy) }.unwrap();
    // SAFETY: no byte is touched.
    unsafe { allocator.fill(nothing, 1, index(0)) }.unwrap();
    let statistics = allocator.statistics(index(0)).unwrap();
    assert_eq!(
        (statistics.host_to_device.count, statistics.fills.count),
        (0, 0)
    );
}

#[test]
fn r_cuda_01_more_than_there_is_tells_the_figures() {
    let allocator = allocator();
    let error = allocator.allocate(&request(0, 1 << 60)).unwrap_err();
    let DeviceError::OutOfMemory {
        device,
        requested,
        free,
        total,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((device, requested), (cuda(0), 1 << 60));
    assert!(free <= total && total > 0);
    Block::new(&allocator, 0, 8).unwrap().free().unwrap();
}

#[test]
fn a_limit_holds() {
    fakecuda::auto();
    let mut options = CudaOptions::new();
    options.pool_limit_bytes = NonZeroU64::new(64 << 20);
    let allocator = CudaAllocator::with_options(options);
    let _fits = Block::new(&allocator, 0, 1 << 20).unwrap();
    let error = allocator.allocate(&request(0, 256 << 20)).unwrap_err();
    assert_eq!(error.id(), "device.out-of-memory");
}

#[test]
fn a_block_may_be_freed_on_another_thread() {
    let allocator = allocator();
    let block = Block::new(&allocator, 0, 64).unwrap();
    block.fill(1).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| block.free().unwrap()).join().unwrap();
    });
    assert_eq!(allocator.statistics(index(0)).unwrap().live_blocks, 0);
}

#[test]
fn a_block_that_is_not_live_is_not_freed_twice() {
    let allocator = allocator();
    let block = Block::new(&allocator, 0, 64).unwrap();
    let span = block.span();
    block.free().unwrap();
    // SAFETY: not sound for the contract, but the allocator's books stop it before the driver sees it.
    let error = unsafe { allocator.deallocate(span, index(0)) }.unwrap_err();
    assert_eq!(
        error,
        DeviceError::UnknownBlock {
            device: cuda(0),
            address: span.base()
        }
    );
}

#[test]
fn statistics_count_what_is_out_and_what_was() {
    let allocator = allocator();
    let (a, b) = (
        Block::new(&allocator, 0, 1000).unwrap(),
        Block::new(&allocator, 0, 500).unwrap(),
    );
    a.free().unwrap();
    let s = allocator.statistics(index(0)).unwrap();
    assert_eq!((s.live_blocks, s.live_bytes, s.peak_bytes), (1, 500, 1500));
    assert_eq!((s.allocations, s.frees), (2, 1));
    drop(b);
}

#[test]
fn blocks_that_are_out_are_listed() {
    let allocator = allocator();
    let strict = Alignment::new(4096).unwrap();
    let (a, b, c) = (
        Block::new(&allocator, 0, 1000).unwrap(),
        Block::aligned(&allocator, 0, 500, strict).unwrap(),
        Block::new(&allocator, 0, 8).unwrap(),
    );
    b.free().unwrap();
    let mut expected = [a.span(), c.span()];
    expected.sort_by_key(|span| span.base());
    assert_eq!(allocator.live_blocks(index(0)).unwrap(), expected);
    drop((a, c));
    assert_eq!(allocator.live_blocks(index(0)), Ok(vec![]));
}

#[test]
fn freed_memory_counts_as_free_and_trim_gives_it_back() {
    let allocator = allocator();
    const NBYTES: u64 = 64 << 20;
    Block::new(&allocator, 0, NBYTES).unwrap().free().unwrap();
    allocator.synchronize(index(0)).unwrap();
    if allocator
        .statistics(index(0))
        .unwrap()
        .pool_reserved_peak_bytes
        == 0
    {
        println!("skipped: no pools on this device");
        return;
    }
    assert!(allocator.statistics(index(0)).unwrap().pool_reserved_bytes >= NBYTES);
    allocator.trim(index(0), 0).unwrap();
    assert_eq!(
        allocator.statistics(index(0)).unwrap().pool_reserved_bytes,
        0
    );
}

#[test]
fn work_follows_the_callers_stream() {
    let allocator = allocator();
    let stream = ForeignStream::of(0);
    let (bytes, mut back) = (pattern(4096, 5), vec![0; 4096]);
    let a = Block::on_stream(&allocator, 0, 4096, stream.handle()).unwrap();
    let b = Block::on_stream(&allocator, 0, 4096, stream.handle()).unwrap();
    a.write_on(&bytes, stream.handle()).unwrap();
    b.copy_from_on(&a, stream.handle()).unwrap();
    b.read_on(&mut back, stream.handle()).unwrap();
    a.free_on(stream.handle()).unwrap();
    b.free_on(stream.handle()).unwrap();
    stream.wait();
    assert_eq!(back, bytes);
}

#[test]
fn the_null_and_per_thread_streams_are_streams() {
    let allocator = allocator();
    for raw in [0, 1, 2] {
        let stream = StreamHandle::from_raw(raw);
        let block = Block::on_stream(&allocator, 0, 64, stream).unwrap();
        block.write_on(&pattern(64, 6), stream).unwrap();
        // SAFETY: these streams always live.
        unsafe { allocator.synchronize_stream(index(0), stream) }.unwrap();
        assert_eq!(block.read().unwrap(), pattern(64, 6));
        block.free_on(stream).unwrap();
    }
}

#[test]
fn a_stream_ordered_block_may_be_freed_plainly() {
    let allocator = allocator();
    let stream = ForeignStream::of(0);
    let block = Block::on_stream(&allocator, 0, 64, stream.handle()).unwrap();
    block.free().unwrap();
    let plain = Block::new(&allocator, 0, 64).unwrap();
    plain.free_on(stream.handle()).unwrap();
    stream.wait();
}

#[test]
fn threads_share_an_allocator() {
    let allocator = allocator();
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let allocator = &allocator;
            scope.spawn(move || {
                for round in 0..50 {
                    let bytes = pattern(1 + round * 13, seed);
                    let block = Block::new(allocator, 0, bytes.len() as u64).unwrap();
                    block.write(&bytes).unwrap();
                    assert_eq!(block.read().unwrap(), bytes);
                }
            });
        }
    });
    let s = allocator.statistics(index(0)).unwrap();
    assert_eq!((s.live_blocks, s.allocations, s.frees), (0, 400, 400));
}

/// Buffers made through the registry are known to the one allocator behind it.
#[test]
#[cfg(feature = "auto-register")]
fn the_registrys_blocks_can_be_copied_by_transfers() {
    fakecuda::auto();
    let allocator = CudaAllocator::global();
    let (at, stream) = (index(0), StreamHandle::from_raw(2));
    let buffer = et_memory::DeviceMemoryBuffer::create(100, cuda(0)).unwrap();
    let span = buffer.span().unwrap();
    let mut pinned = allocator.pinned(at, 100).unwrap();
    pinned.fill(9);
    // SAFETY: the buffer is live, and only this test uses it; the thread's stream always lives.
    let up = unsafe { allocator.upload(at, span, pinned, 0, stream) }.unwrap();
    // SAFETY: as above.
    unsafe { allocator.record_use(span, at, stream) }.unwrap();
    up.event().wait().unwrap();
    let mut bytes = [0; 100];
    buffer.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [9; 100]);
    buffer.free().unwrap();
}
