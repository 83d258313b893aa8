//! Events.

use super::api;
use crate::arguments::Out;
use crate::status::{INVALID_HANDLE, NOT_READY, Outcome};
use crate::streams::{Event, Op};
use crate::world::World;
use std::ffi::c_uint;

const DISABLE_TIMING: u32 = 2;

fn record(world: &mut World, event: usize, stream: usize) -> Outcome {
    let stream = world.stream(stream)?;
    let device = world.device_of_stream(stream)?;
    if world.events.get(&event).is_none_or(|e| e.device != device) {
        return Err(INVALID_HANDLE);
    }
    let ticket = world.push(stream, "cuEventRecord", Op::Record(event))?;
    world
        .events
        .entry(event)
        .and_modify(|e| e.at = Some((stream, ticket)));
    Ok(())
}

fn elapsed(world: &World, milliseconds: Out<f32>, start: usize, end: usize) -> Outcome {
    let get = |event| {
        world
            .events
            .get(&event)
            .filter(|e| e.timing)
            .ok_or(INVALID_HANDLE)
    };
    match (get(start)?.when, get(end)?.when) {
        (Some(start), Some(end)) => milliseconds.put((end - start).as_secs_f32() * 1e3),
        _ => Err(NOT_READY),
    }
}

api! {
    cuEventCreate(out: Out<usize>, flags: c_uint) |world| {
        let device = world.require_current()?;
        let event = world.new_handle();
        out.put(event)?;
        world.events.insert(event, Event { device, timing: flags & DISABLE_TIMING == 0, at: None, when: None });
        world.devices[device].stats.live_events += 1;
        Ok(())
    }
    cuEventRecord(event: usize, stream: usize) |world| record(world, event, stream)
    cuEventQuery(event: usize) |world| {
        let Some(at) = world.events.get(&event).ok_or(INVALID_HANDLE)?.at else { return Ok(()) };
        if world.is_done(at) { return Ok(()); }
        world.poke(at.0)?;
        Err(NOT_READY)
    }
    cuEventSynchronize(event: usize) |world| {
        let e = world.events.get(&event).ok_or(INVALID_HANDLE)?;
        let (at, device) = (e.at, e.device);
        if let Some((stream, ticket)) = at { world.drain(stream, ticket)?; }
        world.trim_at_synchronize(device);
        Ok(())
    }
    cuEventElapsedTime(out: Out<f32>, start: usize, end: usize) |world| elapsed(world, out, start, end)
    cuEventElapsedTime_v2(out: Out<f32>, start: usize, end: usize) |world| elapsed(world, out, start, end)
    cuEventDestroy_v2(event: usize) |world| {
        let e = world.events.remove(&event).ok_or(INVALID_HANDLE)?;
        world.devices[e.device].stats.live_events -= 1;
        Ok(())
    }
}
