//! Every order in which queued work may run: the fake driver draws one per seed.

use crate::faults::elsewhere;
use crate::no_pools::WithoutPools;
use crate::staging::with_chunks_of;
use crate::streams::alone;
use crate::support::{Block, ForeignStream, index, pattern, pinned};
use et_cuda::CudaAllocator;
use et_device::{DeviceAllocator, DeviceError};

/// Schedules: as late as allowed, at once, and 198 drawn ones.
const SCHEDULES: u64 = 200;
const NBYTES: usize = 1000;

/// Moves bytes over two devices and three streams that wait for each other by events: staged and pinned uploads,
/// stream-ordered blocks, early frees, plain copies, downloads of each kind. Whether all of them arrive.
fn pipeline(devices: &[fakecuda::Device]) -> Result<bool, DeviceError> {
    let [here, there] = [devices[0].ordinal(), devices[1].ordinal()];
    let allocator = with_chunks_of(100);
    let streams = [here, here, there].map(ForeignStream::of);
    let [load, work, far] = [0, 1, 2].map(|at| streams[at].handle());
    let (first, second) = (pattern(NBYTES, 7), pattern(NBYTES, 90));

    // Up on the one stream, from pageable and from pinned memory, which change at once or are held.
    let a = Block::on_stream(&allocator, here, NBYTES as u64, load)?;
    let mut source = first.clone();
    a.upload_staged(&source, load)?;
    source.fill(0);
    let b = Block::on_stream(&allocator, here, NBYTES as u64, load)?;
    let up = b.upload(pinned(&allocator, here, &second)?, load)?;

    // Work on the other stream, behind it.
    // SAFETY: a live stream of this device.
    unsafe { allocator.wait_for(index(here), work, up.event())? };
    let c = Block::on_stream(&allocator, here, NBYTES as u64, work)?;
    c.copy_from_on(&a, work)?;
    // The source is given back on the stream where it was made, while the copy is under way elsewhere.
    a.record_use(work)?;
    a.free_on(load)?;
    let d = Block::new(&allocator, here, NBYTES as u64)?;
    d.copy_from_on(&b, work)?;
    b.record_use(work)?;
    b.free()?;

    // Down, pinned and staged, and over to the other device behind an event.
    let down = c.download(allocator.pinned(index(here), NBYTES)?, work)?;
    let mut staged = vec![0; NBYTES];
    d.download_staged(&mut staged, work)?;
    let e = Block::new(&allocator, there, NBYTES as u64)?;
    // SAFETY: a live stream of this device.
    let ready = unsafe { allocator.record(index(here), work)? };
    // SAFETY: a live stream of that device.
    unsafe { allocator.wait_for(index(there), far, &ready)? };
    ready.wait()?;
    e.copy_from(&c)?;
    c.free_on(work)?;
    let mut plain = vec![0; NBYTES];
    e.read_on(&mut plain, far)?;
    e.free_on(far)?;
    // SAFETY: a live stream of that device.
    unsafe { allocator.synchronize_stream(index(there), far)? };
    d.free()?;
    drop(up);
    Ok(down.wait()?[..] == first && staged == second && plain == first)
}

/// What is wrong with the pipeline under a schedule.
fn problem(devices: &[fakecuda::Device], schedule: u64) -> Option<String> {
    fakecuda::schedule(schedule);
    let outcome = pipeline(devices);
    let violations: String = devices.iter().map(|device| device.violations()).collect();
    fakecuda::schedule(0);
    match outcome {
        Ok(true) if violations.is_empty() => None,
        outcome => Some(format!("schedule {schedule}: {outcome:?} {violations}")),
    }
}

#[test]
fn no_schedule_loses_a_byte() {
    let devices = alone();
    let problems: Vec<String> = (0..SCHEDULES)
        .filter_map(|s| problem(&devices, s))
        .collect();
    assert!(problems.is_empty(), "{}: {}", problems.len(), problems[0]);
}

#[test]
fn no_schedule_loses_a_byte_even_if_pageable_copies_run_late() {
    let devices = alone();
    fakecuda::defer_pageable(true);
    let problems: Vec<String> = (0..SCHEDULES)
        .filter_map(|s| problem(&devices, s))
        .collect();
    fakecuda::defer_pageable(false);
    assert!(problems.is_empty(), "{}: {}", problems.len(), problems[0]);
}

#[test]
fn no_schedule_loses_a_byte_without_pools() {
    let devices = alone();
    let _guard = WithoutPools::new();
    let problems: Vec<String> = (0..SCHEDULES)
        .filter_map(|s| problem(&devices, s))
        .collect();
    assert!(problems.is_empty(), "{}: {}", problems.len(), problems[0]);
}

/// Runs whatever is left on a device, so that nothing runs into the next schedule, and forgets what came of it.
pub(crate) fn run_out(device: &fakecuda::Device) {
    let ran = || {
        device.clear();
        CudaAllocator::new().synchronize(index(device.ordinal()))
    };
    assert!((0..100).any(|_| ran().is_ok()), "{}", device.violations());
    device.clear();
}

/// Under how many schedules the fake driver finds out that calls of `symbol` were left out: it lets them succeed
/// without doing what they are for.
fn caught_without(symbol: &str) -> usize {
    let mut devices = alone();
    let caught = (0..SCHEDULES).filter(|schedule| {
        fakecuda::fail_everywhere(symbol, 0, u64::MAX, 0);
        let found = problem(&devices, *schedule).is_some();
        fakecuda::clear_everywhere();
        devices.iter().for_each(run_out);
        found
    });
    let caught = caught.count();
    devices
        .iter_mut()
        .for_each(fakecuda::Device::allow_leftovers);
    println!("without {symbol}: caught under {caught} of {SCHEDULES} schedules");
    caught
}

#[test]
fn a_missing_wait_of_the_host_is_caught() {
    elsewhere("schedules::a_missing_wait_of_the_host_is_caught", || {
        assert!(caught_without("cuEventSynchronize") > 150);
    });
}

#[test]
fn a_missing_wait_of_a_stream_is_caught() {
    elsewhere("schedules::a_missing_wait_of_a_stream_is_caught", || {
        assert!(caught_without("cuStreamWaitEvent") > 100);
    });
}
