//! A machine without a driver: this process never loads the fake one.
#![allow(clippy::print_stdout, reason = "a skip is printed")]

use et_cuda::{CudaAllocator, DriverError, probe};
use et_device::{Device, DeviceAllocator, DeviceError, DeviceIndex, DeviceType};
use et_memory::DeviceMemoryBuffer;

/// Whether the machine has a driver of its own, so that there is nothing to see here.
fn has_driver() -> bool {
    let found = probe() != Err(DriverError::NotFound);
    if found {
        println!("skipped: this machine has a CUDA driver");
    }
    found
}

#[track_caller]
fn check_message(text: &str) {
    for part in [
        "no CUDA driver was found",
        "libcuda.so",
        "libcuda.so.1",
        "simulated device",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains('\n') && !text.contains("--"), "{text}");
}

#[test]
fn the_error_says_what_was_looked_for_and_what_to_do() {
    if has_driver() {
        return;
    }
    check_message(&probe().unwrap_err().to_string());
    let error = DeviceMemoryBuffer::create(16, Device::cuda(0).unwrap()).unwrap_err();
    assert_eq!((error.id(), error.code()), ("device.unavailable", 0x20));
    check_message(&error.to_string());
}

#[test]
fn every_question_gives_that_error_and_none_panics() {
    if has_driver() {
        return;
    }
    let allocator = CudaAllocator::new();
    let errors = [
        allocator.device_count().unwrap_err(),
        allocator.memory_info(DeviceIndex::MAX).unwrap_err(),
        allocator.synchronize(DeviceIndex::ZERO).unwrap_err(),
        allocator.statistics(DeviceIndex::ZERO).unwrap_err(),
        allocator.trim(DeviceIndex::ZERO, 0).unwrap_err(),
    ];
    for error in errors {
        let DeviceError::Unavailable {
            device_type,
            reason,
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(device_type, DeviceType::CUDA);
        check_message(reason);
    }
}

#[test]
fn an_empty_buffer_needs_no_driver() {
    let buffer = DeviceMemoryBuffer::create(0, Device::cuda(5).unwrap()).unwrap();
    assert_eq!(buffer.span(), None);
}
