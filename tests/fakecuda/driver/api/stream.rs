//! Streams.

use super::api;
use crate::arguments::Out;
use crate::contexts;
use crate::status::{INVALID_HANDLE, INVALID_VALUE, NOT_READY, Outcome};
use crate::streams::Op;
use crate::world::World;
use std::ffi::{c_int, c_uint, c_void};

/// The first handle that is neither NULL, legacy nor per-thread.
const FIRST_OWN: usize = 3;

/// Queued work still runs; the handle is gone.
fn destroy(world: &mut World, handle: usize) -> Outcome {
    world.require_current()?;
    if handle < FIRST_OWN {
        return Err(INVALID_HANDLE);
    }
    let handle = world.stream(handle)?;
    let stream = world.streams.get_mut(&handle).ok_or(INVALID_HANDLE)?;
    stream.dead = true;
    world.devices[stream.device].stats.live_streams -= 1;
    if stream.queue.is_empty() {
        world.streams.remove(&handle);
    }
    Ok(())
}

api! {
    cuStreamCreate(out: Out<usize>, flags: c_uint) |world| out.put(world.new_stream(flags)?)
    cuStreamCreateWithPriority(out: Out<usize>, flags: c_uint, _priority: c_int) |world| {
        out.put(world.new_stream(flags)?)
    }
    cuStreamDestroy_v2(stream: usize) |world| destroy(world, stream)
    cuStreamSynchronize(stream: usize) |world| {
        let stream = world.stream(stream)?;
        world.synchronize_stream(stream)
    }
    cuStreamQuery(stream: usize) |world| {
        let stream = world.stream(stream)?;
        if world.is_done((stream, u64::MAX)) { return Ok(()); }
        world.poke(stream)?;
        Err(NOT_READY)
    }
    cuStreamGetCtx(stream: usize, context: Out<usize>) |world| {
        let stream = world.stream(stream)?;
        context.put(contexts::handle(world.device_of_stream(stream)?))
    }
    cuStreamGetFlags(stream: usize, flags: Out<c_uint>) |world| {
        let stream = world.stream(stream)?;
        flags.put(world.streams.get(&stream).map_or(0, |s| u32::from(!s.blocking && !s.is_null)))
    }
    cuStreamIsCapturing(stream: usize, state: Out<c_uint>) |world| { world.stream(stream)?; state.put(0) }
    cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) |world| {
        let stream = world.stream(stream)?;
        match world.events.get(&event).ok_or(INVALID_HANDLE)?.at {
            None => Ok(()),
            Some((awaited, ticket)) => {
                world.push(stream, "cuStreamWaitEvent", Op::Wait { stream: awaited, ticket }).map(drop)
            }
        }
    }
    cuLaunchHostFunc(stream: usize, f: Option<extern "C" fn(*mut c_void)>, argument: usize) |world| {
        let stream = world.stream(stream)?;
        world.push(stream, "cuLaunchHostFunc", Op::Host { f: f.ok_or(INVALID_VALUE)?, argument }).map(drop)
    }
}
