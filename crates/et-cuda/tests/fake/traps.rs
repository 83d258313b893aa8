//! Ten ways in which memory goes wrong with the bindings' safe layer; this allocator has none of them.

use crate::support::{
    Block, ForeignStream, current_context, index, pattern, request, without_context,
};
use et_cuda::CudaAllocator;
use et_device::{Alignment, DeviceAllocator, DeviceError, DeviceSpan, DeviceToHost, HostToDevice};

#[test]
fn trap_01_a_block_freed_on_a_thread_without_context_does_not_leak() {
    let device = fakecuda::device();
    let allocator = CudaAllocator::new();
    let block = Block::new(&allocator, device.ordinal(), 8).unwrap();
    std::thread::scope(|scope| {
        let freed = scope.spawn(|| {
            let outcome = block.free();
            (outcome, current_context())
        });
        assert_eq!(freed.join().unwrap(), (Ok(()), 0));
    });
    allocator.synchronize(index(device.ordinal())).unwrap();
    assert_eq!(device.stats().live_allocs, 0);
}

#[test]
fn trap_02_a_block_freed_under_another_device_is_freed_on_its_own() {
    let devices = fakecuda::devices(2);
    let [a, b] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = CudaAllocator::new();
    let block = Block::new(&allocator, a, 8).unwrap();
    let other = ForeignStream::of(b);
    other.context.bind_to_thread().unwrap();
    let before = current_context();
    block.free().unwrap();
    assert_eq!(
        current_context(),
        before,
        "the thread's context is as it was"
    );
    assert_eq!(
        devices[1].stats().pending_ops,
        0,
        "nothing sits in the other device's streams"
    );
    allocator.synchronize(index(a)).unwrap();
    assert_eq!(devices[0].stats().live_allocs, 0);
    without_context();
}

#[test]
fn trap_03_a_copy_between_devices_is_complete_and_in_order() {
    let devices = fakecuda::devices(2);
    let [a, b] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = CudaAllocator::new();
    let (x, y) = (
        Block::new(&allocator, a, 99).unwrap(),
        Block::new(&allocator, b, 99).unwrap(),
    );
    x.write(&pattern(99, 1)).unwrap();
    y.copy_from(&x).unwrap();
    assert_eq!(
        devices.iter().map(|d| d.stats().pending_ops).sum::<u64>(),
        0
    );
    assert_eq!(
        fakecuda::peek(y.span().base().get(), 99),
        Some(pattern(99, 1))
    );
}

#[test]
fn trap_04_a_failed_free_is_reported_by_the_free_and_by_nothing_else() {
    let mut device = fakecuda::device();
    device.allow_leftovers();
    let allocator = CudaAllocator::new();
    let block = Block::new(&allocator, device.ordinal(), 8).unwrap();
    device.fail("cuMemFreeAsync", 0, 1, fakecuda::UNKNOWN);
    device.fail("cuMemFree_v2", 0, 1, fakecuda::UNKNOWN);
    let error = block.free().unwrap_err();
    let DeviceError::Driver {
        operation,
        code,
        name,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (operation, code, name),
        ("cuMemFreeAsync", 999, "CUDA_ERROR_UNKNOWN")
    );
    allocator.memory_info(index(device.ordinal())).unwrap();
}

#[test]
fn trap_05_the_lengths_of_a_copy_are_compared_again() {
    let device = fakecuda::device();
    let allocator = CudaAllocator::new();
    let block = Block::new(&allocator, device.ordinal(), 8).unwrap();
    let (mut short, mut long) = ([0; 8], [0; 16]);
    let mut out = DeviceToHost::new(index(device.ordinal()), &mut short, block.span()).unwrap();
    out.dst = &mut long;
    // SAFETY: the block is live; the lengths differ, which is what is tested.
    let error = unsafe { allocator.copy_device_to_host(out) }.unwrap_err();
    assert_eq!(error.id(), "device.length");
    let mut into = HostToDevice::new(index(device.ordinal()), block.span(), &short).unwrap();
    into.src = &long;
    // SAFETY: as above.
    let error = unsafe { allocator.copy_host_to_device(into) }.unwrap_err();
    assert_eq!(error.id(), "device.length");
}

#[test]
fn trap_06_an_event_that_cannot_be_made_leaks_no_block() {
    for symbol in ["cuEventCreate", "cuEventRecord"] {
        let device = fakecuda::device();
        let allocator = CudaAllocator::new();
        let stream = ForeignStream::of(device.ordinal());
        device.fail(symbol, 0, 1, fakecuda::UNKNOWN);
        let outcome = Block::on_stream(&allocator, device.ordinal(), 8, stream.handle());
        assert_eq!(
            outcome.err().map(|e| e.id()),
            Some("device.driver"),
            "{symbol}"
        );
        stream.wait();
        assert_eq!(device.stats().live_allocs, 0, "{symbol}");
    }
}

#[test]
fn trap_07_huge_sizes_do_not_wrap_to_small_blocks() {
    let device = fakecuda::device();
    let allocator = CudaAllocator::new();
    for nbytes in [u64::MAX, u64::MAX - 255, 1 << 63, 1 << 61] {
        let error = allocator
            .allocate(&request(device.ordinal(), nbytes))
            .unwrap_err();
        assert_eq!(error.id(), "device.out-of-memory", "{nbytes}");
    }
    let strict =
        request(device.ordinal(), u64::MAX - 100).aligned_to(Alignment::new(4096).unwrap());
    let error = allocator.allocate(&strict).unwrap_err();
    assert_eq!(error.id(), "device.unsupported-alignment");
    assert_eq!(device.stats().live_allocs, 0);
}

#[test]
fn trap_08_host_bytes_may_change_as_soon_as_a_plain_copy_returns() {
    let devices = fakecuda::devices(fakecuda::device_count());
    fakecuda::defer_pageable(true);
    let allocator = CudaAllocator::new();
    let block = Block::new(&allocator, devices[0].ordinal(), 64).unwrap();
    let mut bytes = pattern(64, 1);
    block.write(&bytes).unwrap();
    bytes.fill(0);
    assert_eq!(
        fakecuda::peek(block.span().base().get(), 64),
        Some(pattern(64, 1))
    );
    assert_eq!(
        block.read().unwrap(),
        pattern(64, 1),
        "complete when the call returns"
    );
    fakecuda::defer_pageable(false);
    drop(block);
    drop(allocator);
}

#[test]
fn trap_09_two_allocators_of_one_device_see_each_others_work() {
    let device = fakecuda::device();
    let (one, two) = (CudaAllocator::new(), CudaAllocator::new());
    let block = Block::new(&one, device.ordinal(), 32).unwrap();
    let copy = HostToDevice::new(index(device.ordinal()), block.span(), &[7; 32]).unwrap();
    // SAFETY: a live block of this device that nothing else uses, if of the other allocator.
    unsafe { two.copy_host_to_device(copy) }.unwrap();
    assert_eq!(block.read().unwrap(), [7; 32]);
}

#[test]
fn trap_10_memory_outlives_everybody_elses_context_handles() {
    let device = fakecuda::device();
    let lost = device.stats().lost_at_reset;
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(device.ordinal());
    let block = Block::new(&allocator, device.ordinal(), 8).unwrap();
    block.fill(4).unwrap();
    drop(stream);
    assert_eq!(block.read().unwrap(), [4; 8]);
    assert_eq!(device.stats().lost_at_reset, lost);
}

/// And a block outlives even its allocator: `deallocate` alone ends its life.
#[test]
fn trap_10_memory_outlives_its_allocator() {
    // In a process of its own: no other test shall get the device with the block on it.
    const NAME: &str = "traps::trap_10_memory_outlives_its_allocator";
    if !fakecuda::is_rerun(NAME) {
        let output = fakecuda::rerun(NAME, &[]);
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let mut device = fakecuda::device();
    device.allow_leftovers();
    let allocator = CudaAllocator::new();
    let lost = device.stats().lost_at_reset;
    let span: DeviceSpan = allocator.allocate(&request(device.ordinal(), 8)).unwrap();
    drop(allocator);
    assert!(fakecuda::peek(span.base().get(), 8).is_some());
    assert_eq!(
        (device.stats().lost_at_reset, device.violations().as_str()),
        (lost, "")
    );
}
