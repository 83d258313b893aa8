//! Planned failures, missing symbols and other machines.

use crate::calls::{self, Context, got, ok};

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
