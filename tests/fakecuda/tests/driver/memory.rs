//! Blocks, addresses and pools.

use crate::calls::{self, Context, got, non_blocking_stream, ok};
use std::os::unix::process::ExitStatusExt;

const SIGSEGV: i32 = 11;

#[test]
fn bytes_make_the_round_trip() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    let at = got(|p| calls::alloc(p, 4));
    ok(calls::h2d(at, [1u8, 2, 3, 4].as_ptr(), 4));
    let mut back = [0u8; 4];
    ok(calls::d2h(back.as_mut_ptr(), at, 4));
    assert_eq!(back, [1, 2, 3, 4]);
    assert_eq!(fakecuda::peek(at + 1, 3), Some(vec![2, 3, 4]));
    assert_eq!(
        (device.stats().live_allocs, device.stats().live_bytes),
        (1, 4)
    );
    ok(calls::free(at));
    assert_eq!(fakecuda::peek(at, 1), None);
}

#[test]
fn host_dereference_faults() {
    const NAME: &str = "memory::host_dereference_faults";
    if fakecuda::is_rerun(NAME) {
        let device = fakecuda::device();
        let _context = Context::of(&device);
        let at = got(|p| calls::alloc(p, 64));
        // SAFETY: not sound, which is the point: the process is expected to die here.
        let byte = unsafe { std::ptr::read_volatile(at as *const u8) };
        println!("read {byte}");
        return;
    }
    assert_eq!(fakecuda::rerun(NAME, &[]).status.signal(), Some(SIGSEGV));
}

#[test]
fn blocks_are_aligned_to_256_and_no_more() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    let blocks: Vec<u64> = (0..4).map(|_| got(|p| calls::alloc(p, 1))).collect();
    let least = blocks.iter().map(|p| p.trailing_zeros()).min();
    assert_eq!(least, Some(8));
    blocks.into_iter().for_each(|p| ok(calls::free(p)));
}

#[track_caller]
fn expect_violation(device: &fakecuda::Device, status: u32, what: &str) {
    assert_eq!(status, 1);
    assert!(
        device.violations().contains(what),
        "{}",
        device.violations()
    );
    device.clear();
}

#[test]
fn each_misuse_of_an_address_has_its_name() {
    let device = fakecuda::device();
    let _context = Context::of(&device);
    let at = got(|p| calls::alloc(p, 100));
    let bytes = [0u8; 101];
    expect_violation(&device, calls::free(at + 8), "8 bytes into the block");
    expect_violation(
        &device,
        calls::h2d(at, bytes.as_ptr(), 101),
        "run past the block's 100 bytes",
    );
    ok(calls::free(at));
    expect_violation(&device, calls::free(at), "double free");
    expect_violation(
        &device,
        calls::h2d(at, bytes.as_ptr(), 1),
        "freed after allocation",
    );
    expect_violation(
        &device,
        calls::h2d(64, bytes.as_ptr(), 1),
        "no device address",
    );
}

#[test]
fn leaks_fail_the_test() {
    // In a process of its own: no other test shall get the device with the leak on it.
    const NAME: &str = "memory::leaks_fail_the_test";
    if !fakecuda::is_rerun(NAME) {
        let output = fakecuda::rerun(NAME, &[]);
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let device = fakecuda::device();
    let context = Context::of(&device);
    let at = got(|p| calls::alloc(p, 100));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(device)));
    assert!(
        outcome
            .unwrap_err()
            .downcast_ref::<String>()
            .unwrap()
            .contains("100 bytes leaked")
    );
    ok(calls::free(at));
    drop(context);
}

#[test]
fn leak_check_at_exit_gives_97() {
    const NAME: &str = "memory::leak_check_at_exit_gives_97";
    if fakecuda::is_rerun(NAME) {
        let mut device = fakecuda::device();
        device.allow_leftovers();
        std::mem::forget(Context::of(&device));
        got(|p| calls::alloc(p, 64));
        return;
    }
    let output = fakecuda::rerun(NAME, &[("FAKECUDA_LEAKCHECK", "1")]);
    assert_eq!(output.status.code(), Some(97));
    assert!(String::from_utf8_lossy(&output.stderr).contains("64 bytes"));
}

#[test]
fn memory_runs_out_and_the_books_say_so() {
    let device = fakecuda::device();
    device.set_memory(1 << 20);
    let _context = Context::of(&device);
    assert_eq!(calls::alloc(&mut 0, (1 << 20) + 1), fakecuda::OUT_OF_MEMORY);
    assert_eq!(calls::alloc(&mut 0, usize::MAX), fakecuda::OUT_OF_MEMORY);
    let at = got(|p| calls::alloc(p, 1 << 19));
    let (mut free, mut total) = (0, 0);
    ok(calls::mem_info(&mut free, &mut total));
    assert_eq!((free, total), (1 << 19, 1 << 20));
    ok(calls::free(at));
}

#[test]
fn release_threshold_decides_whether_the_pool_keeps_memory() {
    const RELEASE_THRESHOLD: i32 = 4;
    let device = fakecuda::device();
    let _context = Context::of(&device);
    let stream = non_blocking_stream();
    let growth_of_ten_rounds = || {
        let before = device.stats().pool_grows;
        for _ in 0..10 {
            let at = got(|p| calls::alloc_async(p, 1 << 20, stream));
            ok(calls::free_async(at, stream));
            ok(calls::stream_synchronize(stream));
        }
        device.stats().pool_grows - before
    };
    assert_eq!(growth_of_ten_rounds(), 10);
    let pool = got(|p| calls::default_pool(p, device.ordinal() as i32));
    ok(calls::pool_set(pool, RELEASE_THRESHOLD, &u64::MAX));
    assert_eq!(growth_of_ten_rounds(), 1);
    ok(calls::pool_set(pool, RELEASE_THRESHOLD, &0));
    ok(calls::stream_destroy(stream));
}

#[test]
fn context_destroyed_with_live_memory_loses_it() {
    let mut device = fakecuda::device();
    device.allow_leftovers();
    let context = Context::of(&device);
    got(|p| calls::alloc(p, 8));
    let lost = device.stats().lost_at_reset;
    drop(context);
    assert_eq!(device.stats().lost_at_reset - lost, 1);
}

#[test]
fn peer_copies_name_the_contexts_that_own_the_memory() {
    let devices = fakecuda::devices(2);
    let (a, b) = (Context::of(&devices[0]), Context::of(&devices[1]));
    ok(calls::push(a.handle));
    let x = got(|p| calls::alloc(p, 3));
    ok(calls::h2d(x, [1u8, 2, 3].as_ptr(), 3));
    calls::pop(&mut 0);
    let (y, stream) = (got(|p| calls::alloc(p, 3)), non_blocking_stream());
    assert_eq!(calls::peer_async(y, a.handle, x, b.handle, 3, stream), 1);
    assert!(
        devices[0]
            .violations()
            .contains("not memory of the context")
    );
    devices[0].clear();
    ok(calls::peer_async(y, b.handle, x, a.handle, 3, stream));
    ok(calls::stream_synchronize(stream));
    assert_eq!(fakecuda::peek(y, 3), Some(vec![1, 2, 3]));
    [x, y].into_iter().for_each(|p| ok(calls::free(p)));
    ok(calls::stream_destroy(stream));
    // The contexts leave the stack in the order in which they came onto it.
    drop(b);
    drop(a);
}

/// However devices were given back before, they are handed out by their numbers.
#[test]
fn devices_come_in_the_order_of_their_ordinals() {
    let count = fakecuda::device_count();
    for _ in 0..2 {
        let devices = fakecuda::devices(count);
        let ordinals: Vec<usize> = devices.iter().map(fakecuda::Device::ordinal).collect();
        assert_eq!(ordinals, (0..count).collect::<Vec<_>>());
    }
}
