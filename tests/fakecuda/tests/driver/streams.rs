//! Streams, events, and what has happened when.

use crate::calls::{self, Context, got, non_blocking_stream, ok};
use std::ffi::c_void;

/// All devices, so that no other test runs while this one depends on the lazy schedule.
fn alone() -> Vec<fakecuda::Device> {
    let devices = fakecuda::devices(fakecuda::device_count());
    fakecuda::schedule(0);
    devices
}

#[test]
fn queued_work_has_not_happened() {
    let devices = alone();
    let _context = Context::of(&devices[0]);
    let stream = non_blocking_stream();
    let at = got(|p| calls::alloc(p, 4));
    ok(calls::set_async(at, 7, 4, stream));
    let mut seen = [0u8; 4];
    // A copy on the NULL stream does not wait for a non-blocking stream.
    ok(calls::d2h(seen.as_mut_ptr(), at, 4));
    assert_eq!(seen, [0xCD; 4]);
    ok(calls::stream_synchronize(stream));
    ok(calls::d2h(seen.as_mut_ptr(), at, 4));
    assert_eq!(seen, [7; 4]);
    ok(calls::free(at));
    ok(calls::stream_destroy(stream));
}

#[test]
fn pinned_memory_is_read_when_the_copy_runs() {
    let devices = alone();
    let _context = Context::of(&devices[0]);
    let stream = non_blocking_stream();
    let at = got(|p| calls::alloc(p, 1));
    let pinned = got(|p| calls::pin(p, 1, 0));
    let host = pinned as *mut u8;
    // SAFETY: `pinned` is one mapped byte that nothing else refers to.
    let write = |value: u8| unsafe { host.write(value) };
    write(1);
    ok(calls::h2d_async(at, host, 1, stream));
    write(2);
    ok(calls::stream_synchronize(stream));
    assert_eq!(fakecuda::peek(at, 1), Some(vec![2]));
    assert_eq!(devices[0].stats().pinned_copies, 1);
    ok(calls::unpin(pinned));
    ok(calls::free(at));
    ok(calls::stream_destroy(stream));
}

#[test]
fn pool_memory_needs_its_streams_order() {
    let devices = alone();
    let _context = Context::of(&devices[0]);
    let (a, b) = (non_blocking_stream(), non_blocking_stream());
    let at = got(|p| calls::alloc_async(p, 64, a));
    ok(calls::set_async(at, 1, 64, b));
    assert_eq!(calls::stream_synchronize(b), 700);
    assert!(
        devices[0]
            .violations()
            .contains("used before its stream has allocated it")
    );
    assert_eq!(
        calls::alloc(&mut 0, 1),
        700,
        "the error sticks to the context"
    );
    devices[0].clear();
    ok(calls::free_async(at, a));
    ok(calls::stream_synchronize(a));
    [a, b]
        .into_iter()
        .for_each(|s| ok(calls::stream_destroy(s)));
}

#[test]
fn an_event_orders_two_streams() {
    let devices = alone();
    let _context = Context::of(&devices[0]);
    let (a, b) = (non_blocking_stream(), non_blocking_stream());
    let event = got(|e| calls::event_create(e, 2));
    let at = got(|p| calls::alloc_async(p, 64, a));
    ok(calls::event_record(event, a));
    ok(calls::stream_wait(b, event, 0));
    ok(calls::set_async(at, 1, 64, b));
    ok(calls::stream_synchronize(b));
    ok(calls::free_async(at, b));
    assert_eq!(calls::stream_query(b), 600, "polling makes progress");
    ok(calls::stream_query(b));
    ok(calls::event_destroy(event));
    [a, b]
        .into_iter()
        .for_each(|s| ok(calls::stream_destroy(s)));
}

#[test]
fn a_free_under_a_pending_fill_is_reported() {
    let devices = alone();
    let _context = Context::of(&devices[0]);
    let stream = non_blocking_stream();
    let at = got(|p| calls::alloc(p, 64));
    ok(calls::set_async(at, 1, 64, stream));
    ok(calls::free(at));
    assert!(devices[0].violations().contains("pending operation"));
    devices[0].clear();
    ok(calls::stream_destroy(stream));
}

#[test]
fn host_functions_may_not_call_the_driver() {
    extern "C" fn call_back(result: *mut c_void) {
        // SAFETY: the test passes a `u32` that lives until the stream was synchronised.
        unsafe { result.cast::<u32>().write(calls::init(0)) };
    }
    let devices = alone();
    let _context = Context::of(&devices[0]);
    let stream = non_blocking_stream();
    let mut result = 0u32;
    ok(calls::host_function(
        stream,
        call_back,
        (&raw mut result).cast(),
    ));
    ok(calls::stream_synchronize(stream));
    assert_eq!(result, 800);
    ok(calls::stream_destroy(stream));
}

/// Two fills on two streams, the second made to wait by an event or not; whether the second one wins.
fn last_write_wins(ordered: bool) -> bool {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    let (a, b) = (non_blocking_stream(), non_blocking_stream());
    let at = got(|p| calls::alloc(p, 4));
    let event = got(|e| calls::event_create(e, 2));
    ok(calls::set_async(at, 1, 4, a));
    ok(calls::event_record(event, a));
    if ordered {
        ok(calls::stream_wait(b, event, 0));
    }
    ok(calls::set_async(at, 2, 4, b));
    [b, a]
        .into_iter()
        .for_each(|s| ok(calls::stream_synchronize(s)));
    let seen = fakecuda::peek(at, 4);
    ok(calls::free(at));
    ok(calls::event_destroy(event));
    [a, b]
        .into_iter()
        .for_each(|s| ok(calls::stream_destroy(s)));
    seen == Some(vec![2; 4])
}

#[test]
fn a_missing_wait_shows_under_some_schedules() {
    const NAME: &str = "streams::a_missing_wait_shows_under_some_schedules";
    if !fakecuda::is_rerun(NAME) {
        let output = fakecuda::rerun(NAME, &[]);
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let mut caught = 0;
    for number in 0..100 {
        fakecuda::schedule(number);
        assert!(last_write_wins(true), "schedule {number}");
        caught += u32::from(!last_write_wins(false));
    }
    assert!(caught > 10, "caught under {caught} of 100 schedules");
}
