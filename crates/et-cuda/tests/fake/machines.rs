//! Other machines: no device, a stub, an old driver, no pools.

use crate::no_pools::WithoutPools;
use crate::support::{Block, ForeignStream, cuda, index, pattern, pinned};
use et_cuda::{CudaAllocator, DriverError, probe};
use et_device::{DeviceAllocator, DeviceError, StreamHandle};
use std::process::Output;

/// Runs `body` in a process with these variables and gives what that printed.
fn elsewhere(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<Output> {
    if fakecuda::is_rerun(test) {
        fakecuda::force();
        body();
        return None;
    }
    let output = fakecuda::rerun(test, variables);
    assert!(output.status.success(), "{variables:?}: {output:?}");
    Some(output)
}

/// The error that the first use of a device gives, as one line.
fn first_error() -> DeviceError {
    let error = Block::new(&CudaAllocator::new(), 0, 8).err().unwrap();
    assert!(!error.to_string().contains('\n'));
    error
}

#[test]
fn a_machine_without_devices_says_so() {
    const NAME: &str = "machines::a_machine_without_devices_says_so";
    elsewhere(NAME, &[("FAKECUDA_DEVICES", "0")], || {
        assert_eq!(probe(), Err(DriverError::NoDevice));
        let text = first_error().to_string();
        assert!(
            text.contains("sees no GPU (CUDA_ERROR_NO_DEVICE)"),
            "{text}"
        );
    });
}

#[test]
fn a_stub_library_is_called_one() {
    const NAME: &str = "machines::a_stub_library_is_called_one";
    elsewhere(NAME, &[("FAKECUDA_FAIL", "cuInit=34")], || {
        assert_eq!(probe(), Err(DriverError::StubLibrary));
        let text = first_error().to_string();
        assert!(
            text.contains("stub") && text.contains("CUDA_ERROR_STUB_LIBRARY"),
            "{text}"
        );
    });
}

#[test]
fn a_driver_that_does_not_start_gives_its_code() {
    const NAME: &str = "machines::a_driver_that_does_not_start_gives_its_code";
    elsewhere(NAME, &[("FAKECUDA_FAIL", "cuInit=999")], || {
        let name = "CUDA_ERROR_UNKNOWN";
        assert_eq!(
            probe(),
            Err(DriverError::Failed {
                operation: "cuInit",
                code: 999,
                name
            })
        );
        let expected = DeviceError::Driver {
            device: cuda(0),
            operation: "cuInit",
            code: 999,
            name,
        };
        assert_eq!(first_error(), expected);
    });
}

#[test]
fn a_status_that_nobody_knows_is_an_error_like_any_other() {
    const NAME: &str = "machines::a_status_that_nobody_knows_is_an_error_like_any_other";
    elsewhere(NAME, &[("FAKECUDA_FAIL", "cuInit=12345")], || {
        let name = "unknown status";
        assert_eq!(
            probe(),
            Err(DriverError::Failed {
                operation: "cuInit",
                code: 12345,
                name
            })
        );
    });
}

#[test]
fn a_failed_start_is_tried_again() {
    const NAME: &str = "machines::a_failed_start_is_tried_again";
    elsewhere(NAME, &[("FAKECUDA_FAIL", "cuInit@0=999")], || {
        assert!(probe().is_err());
        assert!(probe().is_ok());
    });
}

/// Everything that the allocator does, once.
pub(crate) fn life_cycle(allocator: &CudaAllocator, ordinal: usize) -> Result<(), DeviceError> {
    let bytes = pattern(100, 1);
    let a = Block::new(allocator, ordinal, 100)?;
    let b = Block::aligned(
        allocator,
        ordinal,
        100,
        et_device::Alignment::new(4096).unwrap(),
    )?;
    a.write(&bytes)?;
    b.copy_from(&a)?;
    assert_eq!(b.read()?, bytes);
    b.fill(3)?;
    assert_eq!(b.read()?, [3; 100]);
    let queued = on_a_stream(allocator, ordinal, &b);
    // Whatever went wrong there, the copy must be done before its source is freed.
    let wait = || {
        // SAFETY: this stream always lives.
        unsafe { allocator.synchronize_stream(index(ordinal), PER_THREAD) }
    };
    let waited = wait().or_else(|error| wait().and(Err(error)));
    queued.and(waited)?;
    by_transfers(allocator, ordinal, &b)?;
    allocator.memory_info(index(ordinal))?;
    allocator.statistics(index(ordinal))?;
    allocator.trim(index(ordinal), 0)?;
    allocator.synchronize(index(ordinal))?;
    a.free()?;
    b.free()
}

const PER_THREAD: StreamHandle = StreamHandle::from_raw(2);

fn on_a_stream(
    allocator: &CudaAllocator,
    ordinal: usize,
    src: &Block<'_>,
) -> Result<(), DeviceError> {
    let block = Block::on_stream(allocator, ordinal, 100, PER_THREAD)?;
    if let Err(error) = block.copy_from_on(src, PER_THREAD) {
        block.free_on(PER_THREAD)?;
        return Err(error);
    }
    block.free_on(PER_THREAD)
}

/// Copies that own their host memory, by way of two streams that wait for each other.
fn by_transfers(
    allocator: &CudaAllocator,
    ordinal: usize,
    block: &Block<'_>,
) -> Result<(), DeviceError> {
    let (at, legacy) = (index(ordinal), StreamHandle::from_raw(1));
    let bytes = pattern(100, 2);
    let up = block.upload(pinned(allocator, ordinal, &bytes)?, PER_THREAD)?;
    // SAFETY: these streams always live.
    unsafe { allocator.wait_for(at, legacy, up.event())? };
    let down = block.download(allocator.pinned(at, 100)?, legacy)?;
    up.is_done()?;
    drop(up);
    assert_eq!(down.wait()?[..], bytes);
    let mut back = pattern(100, 3);
    block.upload_staged(&back, legacy)?;
    block.download_staged(&mut back, legacy)?;
    assert_eq!(back, pattern(100, 3));
    // SAFETY: as above.
    let _selected = unsafe { allocator.select_stream(at, legacy)? };
    block.record_use(legacy)?;
    block.fill(1)?;
    let own = allocator.create_stream(at)?;
    own.wait_for(&own.record()?)?;
    own.synchronize()
}

const REQUIRED: &[&str] = &[
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxSynchronize",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemsetD8Async",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamGetCtx",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
];

const OPTIONAL: &[&str] = &[
    "cuDriverGetVersion",
    "cuDeviceGetName",
    "cuGetErrorName",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolSetAttribute",
    "cuMemPoolGetAttribute",
    "cuMemPoolTrimTo",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
];

#[test]
fn the_lists_hold_every_function_that_is_looked_up() {
    let table = include_str!("../../src/driver/table.rs");
    let mut looked_up: Vec<&str> = table
        .lines()
        .filter_map(|line| line.split_once(" = cu"))
        .filter_map(|(_, rest)| rest.split_once('('))
        .map(|(name, _)| name)
        .collect();
    let listed = REQUIRED.iter().chain(OPTIONAL);
    let mut listed: Vec<&str> = listed.filter_map(|name| name.strip_prefix("cu")).collect();
    looked_up.sort_unstable();
    listed.sort_unstable();
    assert_eq!(looked_up, listed);
}

#[test]
fn a_missing_symbol_is_named() {
    const NAME: &str = "machines::a_missing_symbol_is_named";
    for symbol in REQUIRED {
        elsewhere(NAME, &[("FAKECUDA_HIDE", symbol)], || {
            let symbol = std::env::var("FAKECUDA_HIDE").unwrap();
            let error = first_error();
            assert_eq!(error.id(), "device.unavailable");
            assert!(
                error
                    .to_string()
                    .contains(&format!("has no function {symbol};")),
                "{error}"
            );
            assert!(
                matches!(probe(), Err(DriverError::MissingSymbol { symbol: s, .. }) if s == symbol)
            );
        });
        if fakecuda::is_rerun(NAME) {
            return;
        }
    }
}

#[test]
fn a_symbol_for_comfort_may_be_missing() {
    const NAME: &str = "machines::a_symbol_for_comfort_may_be_missing";
    for symbol in OPTIONAL {
        elsewhere(NAME, &[("FAKECUDA_HIDE", symbol)], || {
            let device = fakecuda::device();
            life_cycle(&CudaAllocator::new(), device.ordinal()).unwrap();
            assert!(probe().is_ok());
        });
        if fakecuda::is_rerun(NAME) {
            return;
        }
    }
}

#[test]
fn a_device_without_pools_works_on_plain_blocks() {
    let devices = fakecuda::devices(fakecuda::device_count());
    let _guard = WithoutPools::new();
    {
        let ordinal = devices[0].ordinal();
        let allocator = CudaAllocator::new();
        life_cycle(&allocator, ordinal).unwrap();
        let statistics = allocator.statistics(index(ordinal)).unwrap();
        assert_eq!(
            (statistics.allocations, statistics.pool_reserved_peak_bytes),
            (3, 0)
        );
        devices[0].set_memory(1 << 20);
        let error = Block::new(&allocator, ordinal, 2 << 20).err().unwrap();
        assert_eq!(error.id(), "device.out-of-memory");
        let stream = ForeignStream::of(ordinal);
        let block = Block::on_stream(&allocator, ordinal, 64, stream.handle()).unwrap();
        block.write_on(&[1; 64], stream.handle()).unwrap();
        block.free_on(stream.handle()).unwrap();
        assert_eq!(devices[0].violations(), "");
    }
}
