//! The `fakecuda_*` symbols by which tests look inside and steer.

use crate::arguments::{Out, Text};
use crate::blocks::Stats;
use crate::kernels::HostKernel;
use crate::settings::{Fault, Schedule};
use crate::world::{World, world};
use std::ffi::c_int;

/// Version of this control interface.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_abi() -> u32 {
    2
}

#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_device_count() -> usize {
    world().devices.len()
}

#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_stats(device: c_int, out: Out<Stats>) -> bool {
    stats(&world(), device as usize).is_some_and(|s| out.put(s).is_ok())
}

fn stats(world: &World, device: usize) -> Option<Stats> {
    let d = world.devices.get(device)?;
    Some(Stats {
        live_allocs: d.blocks.len() as u64,
        live_bytes: d.live_bytes(),
        pool_reserved: world
            .pools
            .values()
            .filter(|p| p.device == device)
            .map(|p| p.reserved)
            .sum(),
        pending_ops: world
            .streams
            .values()
            .filter(|s| s.device == device)
            .map(|s| s.queue.len() as u64)
            .sum(),
        ctx_refs: d.refs.into(),
        ..d.stats
    })
}

/// Calls of one symbol so far.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_calls(symbol: Text) -> u64 {
    let Ok(symbol) = symbol.get() else { return 0 };
    world().calls.get(symbol.as_str()).copied().unwrap_or(0)
}

/// Every symbol called so far with its count, as lines `name count`. Returns the length of all of it.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_all_calls(out: Out<u8>, room: usize) -> usize {
    let lines: Vec<String> = world()
        .calls
        .iter()
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    put_text(&lines.join("\n"), out, room)
}

/// Recorded misuses of a device, as lines. Returns the length of all of it.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_violations(device: c_int, out: Out<u8>, room: usize) -> usize {
    let world = world();
    let lines: Vec<&str> = world
        .violations
        .iter()
        .filter(|v| v.0 == device)
        .map(|v| v.1.as_str())
        .collect();
    put_text(&lines.join("\n"), out, room)
}

fn put_text(text: &str, out: Out<u8>, room: usize) -> usize {
    let _ = out.put_bytes(text.as_bytes(), room);
    text.len()
}

#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_set_mem(device: c_int, nbytes: u64) {
    if let Some(d) = world().devices.get_mut(device as usize) {
        d.limit = nbytes;
    }
}

/// 0 lazy, 1 eager, anything else seeds a random schedule.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_set_sched(number: u64) {
    world().set_schedule(Schedule::from_number(number));
}

/// Withdraws even the guarantees that copies of pageable memory have.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_defer_pageable(on: bool) {
    world().settings.defer_pageable = on;
}

#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_set_pools(on: bool) {
    world().settings.pools = on;
}

/// Plans a failure: after `skip` more calls, `times` calls of the symbol fail with `code`.
/// Device -1 is any, also none.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_inject(symbol: Text, device: c_int, skip: u64, times: u64, code: u32) {
    if let Ok(symbol) = symbol.get() {
        world().settings.faults.push(Fault {
            symbol,
            device,
            skip,
            times,
            code,
        });
    }
}

/// Forgets planned failures, violations and a sticky error of a device; -1 forgets what belongs to none.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_clear(device: c_int) {
    let mut world = world();
    world.settings.faults.retain(|f| f.device != device);
    world.violations.retain(|v| v.0 != device);
    world.forget_host_work(device as usize);
    if let Some(d) = world.devices.get_mut(device as usize) {
        d.sticky = 0;
        d.stats.violations = 0;
        d.stats.peak_bytes = 0;
    }
}

/// Puts a device into the state after an unforgivable error.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_poison(device: c_int, code: u32) {
    if let Some(d) = world().devices.get_mut(device as usize) {
        d.sticky = code;
    }
}

/// Reads device memory behind the driver's back, as it is now.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_peek(at: u64, out: Out<u8>, nbytes: usize) -> bool {
    let world = world();
    let Ok((device, start, offset)) = world.find(at, nbytes) else {
        return false;
    };
    let bytes = world
        .block(device, start)
        .map(|b| &b.data[offset..offset + nbytes]);
    bytes.is_some_and(|b| out.put_bytes(b, nbytes).is_ok())
}

/// Gives a kernel its host version.
///
/// # Safety
/// Every launch of a kernel of this name must pass the parameters that the function reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_kernel(name: Text, kernel: HostKernel) {
    if let Ok(name) = name.get() {
        world().kernels.insert(name, kernel);
    }
}
