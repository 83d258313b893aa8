//! A program is read and verified, and its planned memory is allocated, with `alloc` and without `std`.
#![no_std]
#![no_main]

extern crate alloc;

mod system;

use alloc::string::ToString;
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_int, c_void};

use et_device::{Alignment, Device, DeviceAllocatorRegistry, DeviceError};
use et_memory::{
    Arena, Budget, BufferSpec, DeviceMemoryBuffer, MemoryPlan, PlannedMemory, PlannedSlot,
};
use et_schema::VerifiedProgram;

unsafe extern "C" {
    fn aligned_alloc(alignment: usize, nbytes: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

struct CHeap;

// SAFETY: the C library's heap keeps the promises, for sizes that are multiples of the alignment.
unsafe impl GlobalAlloc for CHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let layout = layout
            .align_to(16)
            .expect("a layout of Rust's")
            .pad_to_align();
        // SAFETY: the size is a multiple of the alignment, which is a power of two.
        unsafe { aligned_alloc(layout.align(), layout.size()) }.cast()
    }
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the block came from `alloc`.
        unsafe { free(block.cast()) }
    }
}

#[global_allocator]
static HEAP: CHeap = CHeap;

static FILE: &[u8] = include_bytes!("../model.pte");

#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    let program = VerifiedProgram::from_file_bytes(FILE).unwrap();
    assert!(program.root().plan("forward").is_some());
    assert!(VerifiedProgram::from_file_bytes(&FILE[..40]).is_err());

    let plan = MemoryPlan::new([BufferSpec::new(64, Device::CPU)]);
    let registry = DeviceAllocatorRegistry::new();
    let memory = PlannedMemory::allocate(&plan, &registry, &Budget::unlimited()).unwrap();
    let slot = |offset_bytes| PlannedSlot {
        memory_id: 1,
        offset_bytes,
        nbytes: 48,
        alignment: Alignment::ONE,
        device: Device::CPU,
    };
    assert!(memory.resolve(&slot(16)).is_ok());
    let error = memory.resolve(&slot(17)).unwrap_err();
    assert!(error.to_string().contains("at offset 17"));
    let arena = Arena::bounded(100).unwrap();
    assert!(
        arena.allocate(100, Alignment::ONE).is_ok() && arena.allocate(1, Alignment::ONE).is_err()
    );
    let nowhere = DeviceMemoryBuffer::create(8, Device::cuda(0).unwrap());
    assert!(matches!(nowhere, Err(DeviceError::NoAllocator { .. })));
    system::say(c"et-schema, et-device and et-memory work without std");
    0
}
