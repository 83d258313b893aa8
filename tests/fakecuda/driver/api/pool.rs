//! Pools of stream-ordered memory.

use super::api;
use super::device::ordinal;
use crate::arguments::{In, Out};
use crate::blocks::Pool;
use crate::status::{INVALID_VALUE, NOT_SUPPORTED, Outcome};
use crate::streams::Op;
use crate::world::World;
use std::ffi::{c_int, c_void};

/// The head of `CUmemPoolProps`; the rest is reserved.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolProperties {
    allocation_type: u32,
    handle_types: u32,
    location_type: u32,
    location: c_int,
    win32_security: usize,
    max_bytes: usize,
}

const PINNED: u32 = 1;
const ON_DEVICE: u32 = 1;

/// Queues the birth of a block from `pool` on a stream of its device.
pub(super) fn allocate(
    world: &mut World,
    out: Out<u64>,
    nbytes: usize,
    pool: usize,
    stream: usize,
    origin: &'static str,
) -> Outcome {
    if !world.settings.pools {
        return Err(NOT_SUPPORTED);
    }
    let device = world.pools.get(&pool).ok_or(INVALID_VALUE)?.device;
    let at = world.carve(device, nbytes, Some(pool))?;
    world.push(stream, origin, Op::Born(at))?;
    out.put(at)
}

fn create(world: &mut World, out: Out<usize>, properties: PoolProperties) -> Outcome {
    if !world.settings.pools {
        return Err(NOT_SUPPORTED);
    }
    if properties.allocation_type != PINNED || properties.location_type != ON_DEVICE {
        return Err(INVALID_VALUE);
    }
    let device = ordinal(world, properties.location)?;
    let pool = world.new_handle();
    world
        .pools
        .insert(pool, Pool::new(device, properties.max_bytes as u64));
    out.put(pool)
}

fn destroy(world: &mut World, pool: usize) -> Outcome {
    let device = world.pools.get(&pool).ok_or(INVALID_VALUE)?.device;
    let d = &mut world.devices[device];
    if d.default_pool == pool {
        return Err(INVALID_VALUE);
    }
    if d.pool == pool {
        d.pool = d.default_pool;
    }
    world.pools.remove(&pool);
    Ok(())
}

api! {
    cuMemPoolCreate(out: Out<usize>, properties: In<PoolProperties>) |world| create(world, out, properties.get()?)
    cuMemPoolDestroy(pool: usize) |world| destroy(world, pool)
    cuMemPoolTrimTo(pool: usize, keep: usize) |world| world.trim_pool(pool, keep as u64)
    cuMemPoolGetAttribute(pool: usize, number: c_int, out: Out<c_void>) |world| {
        let p = world.pools.get(&pool).ok_or(INVALID_VALUE)?;
        match number {
            1..=3 => out.cast().put(p.reuse[number as usize]),
            4 => out.cast().put(p.threshold),
            5 => out.cast().put(p.reserved),
            6 => out.cast().put(p.reserved_high),
            7 => out.cast().put(p.used),
            8 => out.cast().put(p.used_high),
            _ => Err(INVALID_VALUE),
        }
    }
    cuMemPoolSetAttribute(pool: usize, number: c_int, value: In<c_void>) |world| {
        let p = world.pools.get_mut(&pool).ok_or(INVALID_VALUE)?;
        match number {
            1..=3 => p.reuse[number as usize] = value.cast().get()?,
            4 => p.threshold = value.cast().get()?,
            6 => p.reserved_high = p.reserved,
            8 => p.used_high = p.used,
            _ => return Err(INVALID_VALUE),
        }
        Ok(())
    }
}
