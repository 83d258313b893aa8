//! The suite of the contract, on whichever driver the machine has: once with each kind of stream.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use et_cuda::CudaAllocator;
use et_device::{DeviceIndex, StreamHandle, conformance};
use std::collections::BTreeMap;
use std::sync::Mutex;
use support::ForeignStream;

/// An allocator, once a driver is there.
fn allocator() -> CudaAllocator {
    fakecuda::auto();
    CudaAllocator::new()
}

fn null_stream(_: &CudaAllocator, _: DeviceIndex) -> StreamHandle {
    StreamHandle::from_raw(0)
}

fn stream_of_the_thread(_: &CudaAllocator, _: DeviceIndex) -> StreamHandle {
    StreamHandle::from_raw(2)
}

/// One stream for each device, which lives until the process ends.
fn stream_of_a_stranger(_: &CudaAllocator, index: DeviceIndex) -> StreamHandle {
    static MADE: Mutex<BTreeMap<DeviceIndex, ForeignStream>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    let stream = made
        .entry(index)
        .or_insert_with(|| ForeignStream::of(usize::from(index.get())));
    stream.handle()
}

conformance::tests!(allocator, null_stream);

mod with_the_stream_of_the_thread {
    use super::{allocator, stream_of_the_thread};
    et_device::conformance::tests!(streams only: allocator, stream_of_the_thread);
}

mod with_the_stream_of_a_stranger {
    use super::{allocator, stream_of_a_stranger};
    et_device::conformance::tests!(streams only: allocator, stream_of_a_stranger);
}
