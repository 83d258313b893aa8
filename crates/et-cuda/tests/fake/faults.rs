//! Every driver call of the life cycle fails once, in several ways.

use crate::machines::life_cycle;
use crate::schedules::run_out;
use crate::staging::with_chunks_of;
use crate::support::{Block, pattern};
use et_device::DeviceError;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Invalid value, out of memory, an unknown error, and a code that no list has.
const CODES: [u32; 4] = [1, 2, 999, 12345];

/// Calls that give something back. When one of these fails, what it was to give back is lost.
const RELEASES: [&str; 5] = [
    "cuMemFreeHost",
    "cuDevicePrimaryCtxRelease_v2",
    "cuStreamDestroy_v2",
    "cuEventDestroy_v2",
    "cuMemPoolDestroy",
];

fn symbols_of_the_life_cycle(ordinal: usize) -> Vec<String> {
    // The start of the driver happens once; the machines' tests let it fail.
    et_cuda::probe().unwrap();
    let before = fakecuda::all_calls();
    life_cycle(&with_chunks_of(64), ordinal).unwrap();
    let after = fakecuda::all_calls();
    after
        .into_iter()
        .filter(|(name, n)| before.get(name) != Some(n))
        .map(|(name, _)| name)
        .collect()
}

/// What a device still holds: blocks, streams, events, retains.
fn held(device: &fakecuda::Device) -> [u64; 4] {
    let s = device.stats();
    [s.live_allocs, s.live_streams, s.live_events, s.ctx_refs]
}

/// Lets the call number `skip` of `symbol` fail with `code`; whether the life cycle came that far.
fn fail_once(device: &fakecuda::Device, symbol: &str, skip: u64, code: u32) -> bool {
    let before = held(device);
    let calls = fakecuda::calls(symbol);
    fakecuda::fail_everywhere(symbol, skip, 1, code);
    let allocator = with_chunks_of(64);
    let run = || life_cycle(&allocator, device.ordinal());
    let outcome = catch_unwind(AssertUnwindSafe(run));
    let what = format!("{symbol} call {skip} with {code}");
    let outcome = outcome.unwrap_or_else(|_| panic!("{what}: panicked"));
    let came_to_it = || fakecuda::calls(symbol) - calls > skip;
    let mut fired = came_to_it();
    if fired {
        fakecuda::clear_everywhere();
        assert_eq!(run(), Ok(()), "{what}: does not work any more");
        drop(allocator);
    } else {
        // What the end of the allocator calls.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(allocator)));
        assert!(dropped.is_ok(), "{what}: panicked");
        fired = came_to_it();
        fakecuda::clear_everywhere();
    }
    check_error(outcome, symbol, code, &what);
    assert_eq!(device.violations(), "", "{what}");
    if !RELEASES.contains(&symbol) {
        assert_eq!(held(device), before, "{what}: something is left");
    }
    fired
}

/// A failed call is either made good or reported under its own name.
#[track_caller]
fn check_error(outcome: Result<(), DeviceError>, symbol: &str, failed_with: u32, what: &str) {
    match outcome {
        Ok(()) => {}
        Err(DeviceError::Driver {
            operation, code, ..
        }) => {
            assert_eq!((operation, code), (symbol, failed_with), "{what}");
        }
        Err(DeviceError::OutOfMemory { .. }) => assert_eq!(failed_with, 2, "{what}"),
        Err(other) => panic!("{what}: {other}"),
    }
}

/// What cannot be given back stays on the device, so these tests have a process of their own.
pub(crate) fn elsewhere(test: &str, body: impl FnOnce()) {
    if fakecuda::is_rerun(test) {
        return body();
    }
    let output = fakecuda::rerun(test, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{text}");
}

#[test]
fn every_call_may_fail_and_nothing_is_left() {
    elsewhere("faults::every_call_may_fail_and_nothing_is_left", sweep);
}

#[test]
fn every_call_may_fail_and_nothing_is_left_without_pools() {
    elsewhere(
        "faults::every_call_may_fail_and_nothing_is_left_without_pools",
        || {
            fakecuda::set_pools(false);
            sweep();
        },
    );
}

fn sweep() {
    let mut devices = fakecuda::devices(fakecuda::device_count());
    devices[0].allow_leftovers();
    let device = &devices[0];
    let symbols = symbols_of_the_life_cycle(device.ordinal());
    assert!(symbols.len() > 20, "{symbols:?}");
    let mut fired = 0;
    for symbol in &symbols {
        for code in CODES {
            let count = (0..)
                .take_while(|skip| fail_once(device, symbol, *skip, code))
                .count();
            assert!(count > 0, "{symbol} was never called");
            fired += count;
        }
    }
    life_cycle(&with_chunks_of(64), device.ordinal()).unwrap();
    println!("{fired} failures of {} functions", symbols.len());
}

/// The same with a code that the context does not survive: the device then says so for good.
#[test]
fn a_fault_in_any_call_poisons_or_is_made_good() {
    elsewhere(
        "faults::a_fault_in_any_call_poisons_or_is_made_good",
        fatal_sweep,
    );
}

fn fatal_sweep() {
    let mut devices = fakecuda::devices(fakecuda::device_count());
    devices[0].allow_leftovers();
    let ordinal = devices[0].ordinal();
    for symbol in symbols_of_the_life_cycle(ordinal) {
        fakecuda::fail_everywhere(&symbol, 0, 1, 700);
        let allocator = with_chunks_of(64);
        let outcome = life_cycle(&allocator, ordinal);
        let later = life_cycle(&allocator, ordinal);
        match outcome {
            Ok(()) => assert_eq!(later, Ok(()), "{symbol}"),
            // The second is what a failed wait in a `Drop` leaves behind.
            Err(
                DeviceError::Driver { code: 700, .. } | DeviceError::Poisoned { code: 700, .. },
            ) => {
                assert!(
                    matches!(later, Ok(()) | Err(DeviceError::Poisoned { code: 700, .. })),
                    "{symbol}: {later:?}"
                );
            }
            Err(other) => panic!("{symbol}: {other}"),
        }
        fakecuda::clear_everywhere();
        // A device with a real fault would run nothing any more; this one only said so.
        run_out(&devices[0]);
    }
}

#[test]
fn a_failed_copy_between_devices_is_told_and_the_next_one_works() {
    let devices = fakecuda::devices(fakecuda::device_count());
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = with_chunks_of(64);
    let (a, b) = (
        Block::new(&allocator, here, 64).unwrap(),
        Block::new(&allocator, there, 64).unwrap(),
    );
    a.write(&pattern(64, 1)).unwrap();
    for code in CODES {
        fakecuda::fail_everywhere("cuMemcpyPeerAsync", 0, 1, code);
        let outcome = b.copy_from(&a);
        fakecuda::clear_everywhere();
        check_error(outcome, "cuMemcpyPeerAsync", code, "between devices");
        assert!(outcome.is_err());
        b.copy_from(&a).unwrap();
        assert_eq!(b.read().unwrap(), pattern(64, 1));
    }
}

/// Which of the two is at fault shows when each is used again.
#[test]
fn a_faulty_device_does_not_poison_the_one_that_is_copied_from() {
    let devices = fakecuda::devices(2);
    let [good, bad] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = with_chunks_of(64);
    let (a, b) = (
        Block::new(&allocator, good, 64).unwrap(),
        Block::new(&allocator, bad, 64).unwrap(),
    );
    a.fill(1).unwrap();
    devices[0].fail("cuMemcpyPeerAsync", 0, 1, 700);
    let DeviceError::Driver { code, .. } = b.copy_from(&a).unwrap_err() else {
        panic!("not the driver's error")
    };
    assert_eq!(code, 700);
    assert_eq!(a.read().unwrap(), [1; 64]);
    b.copy_from(&a).unwrap();
    assert_eq!(b.read().unwrap(), [1; 64]);
}
