//! Contexts, kernels and texts.

use crate::calls::{self, Context, got, ok};
use std::ffi::{CStr, c_void};

#[test]
fn a_thread_without_context_cannot_allocate() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    let status = std::thread::spawn(|| calls::alloc(&mut 0, 1))
        .join()
        .unwrap();
    assert_eq!(status, 201);
}

#[test]
fn push_and_pop_restore_the_context_below() {
    let devices = fakecuda::devices(2);
    let a = Context::of(&devices[0]);
    let b = Context::of(&devices[1]);
    assert_eq!(got(calls::get_current), b.handle);
    drop(b);
    assert_eq!(got(calls::get_current), a.handle);
}

#[test]
fn unknown_codes_have_no_name() {
    let mut name = std::ptr::null();
    ok(calls::error_name(2, &mut name));
    // SAFETY: the driver's texts live as long as it does.
    let text = unsafe { CStr::from_ptr(name) };
    assert_eq!(text, c"CUDA_ERROR_OUT_OF_MEMORY");
    assert_eq!(calls::error_name(12345, &mut name), 1);
}

/// Doubles `arguments[1]` floats at the device address `arguments[0]`.
unsafe extern "C" fn twice(
    arguments: *const *const u8,
    _dims: *const u32,
    bytes_at: unsafe extern "C" fn(*mut c_void, u64, usize) -> *mut u8,
    context: *mut c_void,
) {
    // SAFETY: the test's only launch passes two arguments, a u64 and a u32.
    let arguments = unsafe { std::slice::from_raw_parts(arguments, 2) };
    // SAFETY: as above.
    let at = unsafe { arguments[0].cast::<u64>().read_unaligned() };
    // SAFETY: as above.
    let count = unsafe { arguments[1].cast::<u32>().read_unaligned() } as usize;
    // SAFETY: this is the translator's contract: its own context, called during the kernel.
    let bytes = unsafe { bytes_at(context, at, count * 4) }.cast::<f32>();
    if bytes.is_null() {
        return;
    }
    // SAFETY: the translator gave `count` floats, and nothing else looks at device memory meanwhile.
    let values = unsafe { std::slice::from_raw_parts_mut(bytes, count) };
    values.iter_mut().for_each(|v| *v *= 2.0);
}

const PTX: &CStr = c".version 8.0\n.target sm_80\n.visible .entry twice(\n .param .u64 p0,\n .param .u32 p1\n) { ret; }\n";

#[test]
fn a_kernel_from_ptx_runs_its_host_version() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    // SAFETY: the only kernel of this name, launched below with the parameters it reads.
    unsafe { fakecuda::kernel("twice", twice) };
    let module = got(|m| calls::module_load(m, PTX.as_ptr()));
    let function = got(|f| calls::function(f, module, c"twice".as_ptr()));
    let at = got(|p| calls::alloc(p, 8));
    let values: Vec<u8> = [1.5f32, -2.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    ok(calls::h2d(at, values.as_ptr(), 8));
    let count = 2u32;
    let arguments = [(&raw const at).cast::<c_void>(), (&raw const count).cast()];
    ok(calls::launch(
        function,
        1,
        1,
        1,
        2,
        1,
        1,
        0,
        0,
        arguments.as_ptr(),
        std::ptr::null(),
    ));
    let mut back = [0u8; 8];
    ok(calls::d2h(back.as_mut_ptr(), at, 8));
    let doubled: Vec<u8> = [3.0f32, -4.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    assert_eq!(back.as_slice(), doubled);
    ok(calls::free(at));
    ok(calls::module_unload(module));
}
