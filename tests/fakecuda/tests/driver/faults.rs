//! Planned failures, missing symbols and other machines.

use crate::calls::{self, Context, got, non_blocking_stream, ok};

#[test]
fn a_planned_failure_hits_the_call_that_was_meant() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    device.fail("cuMemAlloc_v2", 1, 2, 12345);
    let first = got(|p| calls::alloc(p, 1));
    assert_eq!(calls::alloc(&mut 0, 1), 12345);
    assert_eq!(calls::alloc(&mut 0, 1), 12345);
    let second = got(|p| calls::alloc(p, 1));
    [first, second].into_iter().for_each(|p| ok(calls::free(p)));
}

#[test]
fn calls_are_counted_failed_ones_too() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    let before = fakecuda::calls("cuModuleUnload");
    calls::module_unload(0);
    assert_eq!(fakecuda::calls("cuModuleUnload") - before, 1);
    assert!(fakecuda::all_calls().contains_key("cuModuleUnload"));
}

#[test]
fn a_poisoned_device_answers_everything_with_that_code() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    device.poison(719);
    assert_eq!(calls::alloc(&mut 0, 1), 719);
    device.clear();
    let at = got(|p| calls::alloc(p, 1));
    ok(calls::free(at));
}

/// Runs `body` in a process with these variables and expects it to pass there.
#[track_caller]
fn elsewhere(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if fakecuda::is_rerun(test) {
        return body();
    }
    let output = fakecuda::rerun(test, variables);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn hidden_symbols_are_missing_and_the_others_are_not() {
    let hide = [("FAKECUDA_HIDE", "cuMemPoolCreate,cuMemAlloc_v2")];
    elsewhere(
        "faults::hidden_symbols_are_missing_and_the_others_are_not",
        &hide,
        || {
            assert!(!calls::has("cuMemPoolCreate"));
            assert!(!calls::has("cuMemAlloc_v2"));
            assert!(calls::has("cuMemPoolDestroy"));
            ok(calls::init(0));
        },
    );
}

#[test]
fn a_machine_without_devices() {
    elsewhere(
        "faults::a_machine_without_devices",
        &[("FAKECUDA_DEVICES", "0")],
        || {
            assert_eq!(calls::init(0), 100);
        },
    );
}

#[test]
fn a_stub_library() {
    elsewhere(
        "faults::a_stub_library",
        &[("FAKECUDA_FAIL", "cuInit=34")],
        || {
            assert_eq!(calls::init(0), 34);
        },
    );
}

#[test]
fn a_device_without_pools() {
    elsewhere(
        "faults::a_device_without_pools",
        &[("FAKECUDA_POOLS", "0")],
        || {
            const MEMORY_POOLS_SUPPORTED: i32 = 115;
            let device = fakecuda::device();
            let _context = Context::of(&device);
            assert_eq!(got(|v| calls::attribute(v, MEMORY_POOLS_SUPPORTED, 0)), 0);
            assert_eq!(calls::alloc_async(&mut 0, 1, 0), 801);
        },
    );
}

/// A call that fails with 0 succeeds without doing what it is for: so a test leaves a wait out.
#[test]
fn a_planned_success_leaves_the_call_out() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    let stream = non_blocking_stream();
    let at = got(|p| calls::alloc(p, 4));
    ok(calls::set_async(at, 7, 4, stream));
    device.fail("cuStreamSynchronize", 0, 1, 0);
    ok(calls::stream_synchronize(stream));
    assert_eq!(fakecuda::peek(at, 4), Some(vec![0xCD; 4]));
    ok(calls::stream_synchronize(stream));
    assert_eq!(fakecuda::peek(at, 4), Some(vec![7; 4]));
    ok(calls::free(at));
    ok(calls::stream_destroy(stream));
}

/// Copies with host memory that a fault kept from running never run: their owner may have given that memory up.
#[test]
fn after_a_fault_queued_copies_of_host_memory_are_forgotten() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    let stream = non_blocking_stream();
    let at = got(|p| calls::alloc(p, 4));
    let pinned = got(|p| calls::pin(p, 4, 0));
    ok(calls::set_async(at, 7, 4, stream));
    ok(calls::h2d_async(at, pinned as *const u8, 4, stream));
    device.poison(700);
    device.clear();
    assert_eq!(
        device.stats().pending_ops,
        1,
        "the fill is left, and the copy is not"
    );
    ok(calls::stream_synchronize(stream));
    assert_eq!(fakecuda::peek(at, 4), Some(vec![7; 4]));
    ok(calls::unpin(pinned));
    ok(calls::free(at));
    ok(calls::stream_destroy(stream));
}

/// A process may end with frees still queued, and not with blocks that nobody freed.
#[test]
fn the_check_at_the_end_forgives_queued_frees_only() {
    const NAME: &str = "faults::the_check_at_the_end_forgives_queued_frees_only";
    if fakecuda::is_rerun(NAME) {
        let mut device = fakecuda::device();
        device.allow_leftovers();
        let _context = Context::of(&device);
        let stream = non_blocking_stream();
        let at = got(|p| calls::alloc_async(p, 4, stream));
        if std::env::var_os("FREE").is_some() {
            ok(calls::free_async(at, stream));
        }
        // Nothing may run it or drop the context before the process ends.
        std::process::exit(0);
    }
    let check = ("FAKECUDA_LEAKCHECK", "1");
    let status = |variables: &[(&str, &str)]| fakecuda::rerun(NAME, variables).status.code();
    assert_eq!(status(&[check]), Some(97));
    assert_eq!(status(&[check, ("FREE", "1")]), Some(0));
}

#[test]
fn a_copy_of_the_driver_may_lack_symbols() {
    let to = std::env::temp_dir().join(format!("fakecuda-without-{}.so", std::process::id()));
    fakecuda::write_without(&["cuMemAlloc_v2"], &to);
    // SAFETY: a copy of the fake driver, which has no initialisers.
    let library = unsafe { libloading::Library::new(&to) }.unwrap();
    let has = |name: &str| {
        // SAFETY: the symbol is only looked up.
        unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
    };
    assert!(!has("cuMemAlloc_v2") && has("cuMemFree_v2"));
    std::fs::remove_file(&to).unwrap();
}

/// The driver for measuring has whatever the allocator needs, and does nothing.
#[test]
fn the_null_driver_succeeds() {
    // SAFETY: it has no initialisers.
    let library = unsafe { libloading::Library::new(fakecuda::null_path()) }.unwrap();
    type Count = unsafe extern "C" fn(&mut i32) -> u32;
    // SAFETY: the documented signature.
    let count = unsafe { library.get::<Count>(b"cuDeviceGetCount\0") }.unwrap();
    let mut devices = 0;
    // SAFETY: a place for the result.
    assert_eq!((unsafe { count(&mut devices) }, devices), (0, 1));
}
