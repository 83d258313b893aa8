//! How many driver calls an operation takes.

use crate::support::{Block, without_context};
use et_cuda::CudaAllocator;
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
