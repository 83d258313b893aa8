//! Callers' streams.

use crate::support::{Block, ForeignStream, index};
use et_cuda::CudaAllocator;
use et_device::{DeviceAllocator, DeviceError, StreamHandle};

/// All devices, so that no other test sees this one's schedule.
pub(crate) fn alone() -> Vec<fakecuda::Device> {
    let devices = fakecuda::devices(fakecuda::device_count());
    fakecuda::schedule(0);
    devices
}

#[test]
fn b_45_a_stream_of_another_device_is_refused() {
    let devices = fakecuda::devices(2);
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = CudaAllocator::new();
    let foreign = ForeignStream::of(there);
    let block = Block::new(&allocator, here, 8).unwrap();
    let errors = [
        Block::on_stream(&allocator, here, 8, foreign.handle())
            .err()
            .unwrap(),
        block.write_on(&[1; 8], foreign.handle()).unwrap_err(),
        block.read_on(&mut [0; 8], foreign.handle()).unwrap_err(),
        // SAFETY: a live stream, if of another device.
        unsafe { allocator.synchronize_stream(index(here), foreign.handle()) }.unwrap_err(),
    ];
    for error in errors {
        let DeviceError::Driver { code, name, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((code, name), (400, "CUDA_ERROR_INVALID_HANDLE"));
    }
    // The free is refused as well, but the block does not leak.
    block.free_on(foreign.handle()).unwrap_err();
    assert_eq!(devices[0].stats().live_allocs, 0);
}

#[test]
fn b_45_streams_of_any_device_are_welcome_there() {
    let devices = fakecuda::devices(3);
    let allocator = CudaAllocator::new();
    for device in &devices {
        let stream = ForeignStream::of(device.ordinal());
        let block = Block::on_stream(&allocator, device.ordinal(), 8, stream.handle()).unwrap();
        block.write_on(&[1; 8], stream.handle()).unwrap();
        stream.wait();
        assert_eq!(block.read().unwrap(), [1; 8]);
    }
}

#[test]
fn r_cuda_06_copies_on_a_stream_are_only_queued() {
    let devices = alone();
    let ordinal = devices[0].ordinal();
    let allocator = CudaAllocator::new();
    let stream = ForeignStream::of(ordinal);
    let (a, b) = (
        Block::new(&allocator, ordinal, 8).unwrap(),
        Block::new(&allocator, ordinal, 8).unwrap(),
    );
    a.write(&[1; 8]).unwrap();
    b.copy_from_on(&a, stream.handle()).unwrap();
    assert_eq!(devices[0].stats().pending_ops, 1);
    // SAFETY: the stream is live.
    unsafe { allocator.synchronize_stream(index(ordinal), stream.handle()) }.unwrap();
    assert_eq!(devices[0].stats().pending_ops, 0);
    assert_eq!(b.read().unwrap(), [1; 8]);
    drop((a, b));
    drop((stream, allocator));
}

#[test]
fn handles_that_are_no_number_of_this_machine_are_refused() {
    let device = fakecuda::device();
    let allocator = CudaAllocator::new();
    let nonsense = StreamHandle::from_raw(0xDEAD_BEEF);
    // SAFETY: not a live stream; the fake driver knows all of them and says so instead of crashing.
    let error = unsafe { allocator.synchronize_stream(index(device.ordinal()), nonsense) };
    assert_eq!(error.unwrap_err().id(), "device.driver");
}
