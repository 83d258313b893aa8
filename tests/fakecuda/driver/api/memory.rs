//! Device and pinned memory, and questions about addresses.

use super::api;
use crate::arguments::Out;
use crate::blocks::Pinned;
use crate::status::{
    HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_CONTEXT, INVALID_VALUE,
    NOT_FOUND, Outcome,
};
use crate::streams::Op;
use crate::world::World;
use crate::{contexts, host};
use std::ffi::{c_int, c_uint, c_void};

fn pin(world: &mut World, nbytes: usize, flags: u32) -> Outcome<usize> {
    let device = world.require_current()?;
    if nbytes == 0 {
        return Err(INVALID_VALUE);
    }
    let at = host::map_pages(nbytes)?;
    world.pinned.insert(
        at,
        Pinned {
            nbytes,
            registered: false,
            flags,
            device,
        },
    );
    Ok(at)
}

/// Host memory that copies still read or write must not go: reported, then waited for.
fn release_host(world: &mut World, by: &str, device: usize, at: usize, nbytes: usize) -> Outcome {
    let busy = world.pending_on(at as u64, nbytes);
    if busy > 0 {
        world.violate(
            device,
            format!("{by}: {at:#x} released under {busy} pending operation(s)"),
        );
        (0..world.devices.len()).try_for_each(|d| world.synchronize_device(d))?;
    }
    world.pinned.remove(&at);
    Ok(())
}

/// The real driver finds the owner by the address; FAKECUDA_STRICT_FREE=1 asks for a current context.
fn freeing_device(world: &World, at: u64) -> Outcome<usize> {
    match world.require_current() {
        Err(INVALID_CONTEXT) if !world.settings.strict_free => {
            world.device_of(at).ok_or(INVALID_CONTEXT)
        }
        outcome => outcome,
    }
}

fn free(world: &mut World, at: u64) -> Outcome {
    let device = freeing_device(world, at)?;
    if at == 0 {
        return Ok(());
    }
    if let Ok((owner, start, _)) = world.find(at, 1) {
        let nbytes = world.block(owner, start).map_or(0, |b| b.data.len());
        let busy = world.pending_on(start, nbytes);
        if busy > 0 {
            world.violate(
                device,
                format!("cuMemFree_v2: {at:#x} freed under {busy} pending operation(s)"),
            );
        }
    }
    world.synchronize_device(world.device_of(at).unwrap_or(device))?;
    world.bury(at, "cuMemFree_v2")
}

fn free_async(world: &mut World, at: u64, stream: usize) -> Outcome {
    let stream = world.stream(stream)?;
    if at == 0 {
        return Ok(());
    }
    let block = world
        .device_of(at)
        .and_then(|d| Some((d, world.devices[d].blocks.get_mut(&at)?)));
    let Some((device, block)) = block else {
        return world.bury(at, "cuMemFreeAsync");
    };
    if block.dying {
        world.violate(
            device,
            format!("cuMemFreeAsync: double free of {at:#x} (still queued)"),
        );
        return Err(INVALID_VALUE);
    }
    block.dying = true;
    world.push(stream, "cuMemFreeAsync", Op::Free(at)).map(drop)
}

/// What is known of the memory that holds an address.
struct Range {
    kind: u32,
    device: usize,
    start: u64,
    nbytes: usize,
    number: u64,
    pool: usize,
}

fn range_of(world: &World, at: u64) -> Outcome<Range> {
    if let Ok((device, start, _)) = world.find(at, 1) {
        let block = world.block(device, start).ok_or(INVALID_VALUE)?;
        let (nbytes, number, pool) = (block.data.len(), block.number, block.pool.unwrap_or(0));
        return Ok(Range {
            kind: 2,
            device,
            start,
            nbytes,
            number,
            pool,
        });
    }
    let (start, p) = world
        .pinned
        .range(..=at as usize)
        .next_back()
        .ok_or(INVALID_VALUE)?;
    if at as usize - start >= p.nbytes {
        return Err(INVALID_VALUE);
    }
    Ok(Range {
        kind: 1,
        device: p.device,
        start: *start as u64,
        nbytes: p.nbytes,
        number: 0,
        pool: 0,
    })
}

fn pointer_attribute(world: &World, out: Out<c_void>, number: c_int, at: u64) -> Outcome {
    let range = range_of(world, at)?;
    match number {
        1 => out.cast().put(contexts::handle(range.device)),
        2 => out.cast().put(range.kind),
        3 => out.cast().put(at),
        4 if range.kind == 1 => out.cast().put(at),
        7 if range.kind == 2 => out.cast().put(range.number),
        8 => out.cast().put(0u8), // managed
        9 => out.cast().put(range.device as c_int),
        11 => out.cast().put(range.start),
        12 => out.cast().put(range.nbytes),
        13 => out.cast().put(1u8), // mapped
        17 if range.kind == 2 => out.cast().put(range.pool),
        _ => Err(INVALID_VALUE),
    }
}

api! {
    cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) |world| {
        let device = world.require_current()?;
        let (limit, taken) = (world.devices[device].limit, world.reserved(device));
        free.put(limit.saturating_sub(taken) as usize)?;
        total.put(limit as usize)
    }
    cuMemAlloc_v2(out: Out<u64>, nbytes: usize) |world| {
        let device = world.require_current()?;
        let at = world.carve(device, nbytes, None)?;
        out.put(at)
    }
    cuMemFree_v2(at: u64) |world| free(world, at)
    cuMemAllocAsync(out: Out<u64>, nbytes: usize, stream: usize) |world| {
        let stream = world.stream(stream)?;
        let pool = world.devices[world.device_of_stream(stream)?].pool;
        super::pool::allocate(world, out, nbytes, pool, stream, "cuMemAllocAsync")
    }
    cuMemAllocFromPoolAsync(out: Out<u64>, nbytes: usize, pool: usize, stream: usize) |world| {
        let stream = world.stream(stream)?;
        super::pool::allocate(world, out, nbytes, pool, stream, "cuMemAllocFromPoolAsync")
    }
    cuMemFreeAsync(at: u64, stream: usize) |world| free_async(world, at, stream)
    cuMemGetAddressRange_v2(start: Out<u64>, nbytes: Out<usize>, at: u64) |world| {
        world.require_current()?;
        let range = range_of(world, at).ok().filter(|r| r.kind == 2).ok_or(NOT_FOUND)?;
        if !start.is_null() { start.put(range.start)?; }
        if nbytes.is_null() { Ok(()) } else { nbytes.put(range.nbytes) }
    }
    cuPointerGetAttribute(out: Out<c_void>, number: c_int, at: u64) |world| pointer_attribute(world, out, number, at)

    cuMemHostAlloc(out: Out<usize>, nbytes: usize, flags: c_uint) |world| out.put(pin(world, nbytes, flags)?)
    cuMemAllocHost_v2(out: Out<usize>, nbytes: usize) |world| out.put(pin(world, nbytes, 0)?)
    cuMemFreeHost(at: usize) |world| {
        let device = world.require_current()?;
        let Some(nbytes) = world.pinned.get(&at).filter(|p| !p.registered).map(|p| p.nbytes) else {
            world.violate(device, format!("cuMemFreeHost: {at:#x} is no pinned allocation"));
            return Err(INVALID_VALUE);
        };
        release_host(world, "cuMemFreeHost", device, at, nbytes)?;
        host::unmap_pages(at, nbytes);
        Ok(())
    }
    cuMemHostRegister_v2(at: usize, nbytes: usize, flags: c_uint) |world| {
        let device = world.require_current()?;
        let end = at.checked_add(nbytes).filter(|_| at != 0 && nbytes != 0).ok_or(INVALID_VALUE)?;
        let before = world.pinned.range(..end).next_back();
        if before.is_some_and(|(start, p)| start + p.nbytes > at) {
            return Err(HOST_MEMORY_ALREADY_REGISTERED);
        }
        world.pinned.insert(at, Pinned { nbytes, registered: true, flags, device });
        Ok(())
    }
    cuMemHostUnregister(at: usize) |world| {
        let device = world.require_current()?;
        let registered = world.pinned.get(&at).filter(|p| p.registered);
        let nbytes = registered.map(|p| p.nbytes).ok_or(HOST_MEMORY_NOT_REGISTERED)?;
        release_host(world, "cuMemHostUnregister", device, at, nbytes)
    }
    cuMemHostGetFlags(flags: Out<c_uint>, at: usize) |world| {
        world.require_current()?;
        flags.put(world.pinned.get(&at).ok_or(INVALID_VALUE)?.flags)
    }
    cuMemHostGetDevicePointer_v2(out: Out<u64>, at: usize, _flags: c_uint) |world| {
        world.require_current()?;
        if world.is_pinned(at, 1) { out.put(at as u64) } else { Err(INVALID_VALUE) }
    }
}
