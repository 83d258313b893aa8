//! How many driver calls an operation takes.

use crate::support::{Block, ForeignStream, index, without_context};
use et_cuda::CudaAllocator;
use et_device::DeviceError;
use std::collections::BTreeMap;

/// The calls that `work` makes, without those that ask for, push and pop the current context.
fn calls_of(work: impl FnOnce()) -> Vec<(String, u64)> {
    let before = fakecuda::all_calls();
    work();
    let after: BTreeMap<String, u64> = fakecuda::all_calls();
    after
        .into_iter()
        .map(|(name, count)| {
            (
                name.clone(),
                count - before.get(&name).copied().unwrap_or(0),
            )
        })
        .filter(|(name, count)| *count > 0 && !name.starts_with("cuCtx"))
        .collect()
}

fn expected(calls: &[(&str, u64)]) -> Vec<(String, u64)> {
    calls
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

#[test]
fn operations_make_the_calls_they_need_and_no_other() {
    // All devices: the counts are the process's.
    let devices = fakecuda::devices(fakecuda::device_count());
    let ordinal = devices[0].ordinal();
    without_context();
    let allocator = CudaAllocator::new();
    let warm = Block::new(&allocator, ordinal, 64).unwrap();

    let block = std::cell::Cell::new(None);
    let allocation = calls_of(|| block.set(Block::new(&allocator, ordinal, 64).ok()));
    // The wait is what makes the block usable on every stream at once.
    assert_eq!(
        allocation,
        expected(&[("cuMemAllocFromPoolAsync", 1), ("cuStreamSynchronize", 1)])
    );
    let block = block.into_inner().unwrap();

    let write = calls_of(|| block.write(&[1; 64]).unwrap());
    assert_eq!(
        write,
        expected(&[("cuMemcpyHtoDAsync_v2", 1), ("cuStreamSynchronize", 1)])
    );
    let read = calls_of(|| assert_eq!(block.read().unwrap(), [1; 64]));
    assert_eq!(
        read,
        expected(&[("cuMemcpyDtoHAsync_v2", 1), ("cuStreamSynchronize", 1)])
    );
    let copy = calls_of(|| warm.copy_from(&block).unwrap());
    assert_eq!(
        copy,
        expected(&[("cuMemcpyDtoDAsync_v2", 1), ("cuStreamSynchronize", 1)])
    );
    let fill = calls_of(|| block.fill(2).unwrap());
    assert_eq!(
        fill,
        expected(&[("cuMemsetD8Async", 1), ("cuStreamSynchronize", 1)])
    );
    let free = calls_of(|| block.free().unwrap());
    assert_eq!(free, expected(&[("cuMemFreeAsync", 1)]));
    drop(warm);
    drop(allocator);
}

/// What stream order costs beyond the two calls of an allocation and its free: an event behind the allocation, and a wait
/// for it by the stream that frees, for that may be another one. Asking a stream for its context is left out, as all
/// questions are.
#[test]
fn stream_ordered_operations_make_the_calls_they_need_and_no_other() {
    let devices = fakecuda::devices(fakecuda::device_count());
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let on = stream.handle();
    let work_of = |work: &mut dyn FnMut()| {
        let mut calls = calls_of(work);
        calls.retain(|(name, _)| name != "cuStreamGetCtx" && name != "cuEventQuery");
        calls
    };
    // Makes the ring, and the events that are used again below.
    let other = Block::on_stream(&allocator, ordinal, 64, on).unwrap();
    other.download_staged(&mut [0; 64], on).unwrap();
    // SAFETY: a live stream of this device.
    let record = || unsafe { allocator.record(index(ordinal), on) }.unwrap();
    let events: Vec<_> = (0..16).map(|_| record()).collect();
    stream.wait();
    drop(events);

    let mut block = None;
    let allocation = work_of(&mut || block = Block::on_stream(&allocator, ordinal, 64, on).ok());
    let allocate = [("cuEventRecord", 1), ("cuMemAllocFromPoolAsync", 1)];
    assert_eq!(allocation, expected(&allocate));
    let block = block.unwrap();

    let copy = work_of(&mut || block.copy_from_on(&other, on).unwrap());
    assert_eq!(copy, expected(&[("cuMemcpyDtoDAsync_v2", 1)]));
    let staged = work_of(&mut || drop(other.upload_staged(&[1; 64], on).unwrap()));
    assert_eq!(
        staged,
        expected(&[("cuEventRecord", 1), ("cuMemcpyHtoDAsync_v2", 1)])
    );
    let mut buffer = Some(allocator.pinned(index(ordinal), 64).unwrap());
    let upload = work_of(&mut || {
        let up = other.upload(buffer.take().unwrap(), on).unwrap();
        buffer = up.wait().ok();
    });
    let owned = [
        ("cuEventRecord", 1),
        ("cuEventSynchronize", 1),
        ("cuMemcpyHtoDAsync_v2", 1),
    ];
    assert_eq!(upload, expected(&owned));
    let used = work_of(&mut || block.record_use(on).unwrap());
    assert_eq!(used, expected(&[("cuEventRecord", 1)]));

    // Behind its use; the allocation was over when that was told. A block without uses waits for its allocation.
    let fresh = Block::on_stream(&allocator, ordinal, 64, on).unwrap();
    for block in [block, fresh] {
        let mut block = Some(block);
        let free = work_of(&mut || block.take().unwrap().free_on(on).unwrap());
        assert_eq!(
            free,
            expected(&[("cuMemFreeAsync", 1), ("cuStreamWaitEvent", 1)])
        );
    }
    drop(other);
}

#[test]
fn nothing_is_opened_before_a_device_is_used() {
    const NAME: &str = "calls::nothing_is_opened_before_a_device_is_used";
    if !fakecuda::is_rerun(NAME) {
        let output = fakecuda::rerun(NAME, &[]);
        assert!(output.status.success(), "{output:?}");
        return;
    }
    fakecuda::force();
    let allocator = CudaAllocator::new();
    assert!(et_device::get_device_allocator(et_device::DeviceType::CUDA).is_some());
    drop(allocator);
    assert_eq!(fakecuda::all_calls(), BTreeMap::new());
}

/// Where the C++ allocator asks the driver for nothing, ours is not even called.
#[test]
fn r_cuda_03_a_buffer_of_nothing_makes_no_driver_call() {
    let devices = fakecuda::devices(fakecuda::device_count());
    let device = crate::support::cuda(devices[0].ordinal());
    let calls = calls_of(|| {
        let buffer = et_memory::DeviceMemoryBuffer::create(0, device).unwrap();
        assert_eq!(buffer.span(), None);
        buffer.free().unwrap();
    });
    assert_eq!(calls, expected(&[]));
}

/// The driver's function and code come through, in each direction, and the next copy works.
#[test]
fn r_cuda_05_a_failed_copy_tells_the_drivers_function_and_code() {
    let devices = fakecuda::devices(fakecuda::device_count());
    let device = &devices[0];
    let allocator = CudaAllocator::new();
    let (a, b) = (
        Block::new(&allocator, device.ordinal(), 8).unwrap(),
        Block::new(&allocator, device.ordinal(), 8).unwrap(),
    );
    let symbols = [
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoDAsync_v2",
        "cuMemsetD8Async",
        "cuStreamSynchronize",
    ];
    for symbol in symbols {
        device.fail(symbol, 0, 1, fakecuda::UNKNOWN);
        let copies = a.write(&[1; 8]).and_then(|()| b.copy_from(&a));
        let failed = copies.and_then(|()| b.fill(2)).and_then(|()| b.read());
        let DeviceError::Driver {
            operation, code, ..
        } = failed.unwrap_err()
        else {
            panic!("{symbol}: not the driver's error")
        };
        assert_eq!((operation, code), (symbol, fakecuda::UNKNOWN));
        b.fill(3).unwrap();
        assert_eq!(b.read().unwrap(), [3; 8]);
    }
}
