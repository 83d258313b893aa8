//! Initialisation, devices, error texts.

use super::api;
use crate::arguments::Out;
use crate::contexts;
use crate::status::{INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, Outcome, texts};
use crate::world::{World, enter};
use std::ffi::{c_char, c_int, c_uint};

/// CUDA 13.0.
const DRIVER_VERSION: c_int = 13000;

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> u32 {
    enter("cuInit", false, |world| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if world.devices.is_empty() {
            return Err(NO_DEVICE);
        }
        world.initialised = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(version: Out<c_int>) -> u32 {
    enter("cuDriverGetVersion", false, |_| version.put(DRIVER_VERSION))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(code: u32, out: Out<*const c_char>) -> u32 {
    error_text(out, texts(code).map(|t| t.0.as_ptr()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(code: u32, out: Out<*const c_char>) -> u32 {
    error_text(out, texts(code).map(|t| t.1.as_ptr()))
}

fn error_text(out: Out<*const c_char>, text: Option<*const c_char>) -> u32 {
    let put = out.put(text.unwrap_or(std::ptr::null()));
    if put.is_ok() && text.is_some() {
        0
    } else {
        INVALID_VALUE
    }
}

/// The ordinal as an index, if there is such a device.
pub(super) fn ordinal(world: &World, device: c_int) -> Outcome<usize> {
    usize::try_from(device)
        .ok()
        .filter(|d| *d < world.devices.len())
        .ok_or(INVALID_DEVICE)
}

fn attribute(world: &World, number: c_int) -> Outcome<c_int> {
    Ok(match number {
        0 => return Err(INVALID_VALUE),
        1 => 1024,                          // threads per block
        10 => 32,                           // warp size
        16 => 132,                          // multiprocessors
        19 | 41 | 83 | 99 => 1,             // map host, unified addressing, managed, host register
        40 => 3,                            // copy engines
        75 => 9,                            // compute capability
        115 => world.settings.pools.into(), // stream-ordered pools
        _ => 0,
    })
}

api! {
    cuDeviceGetCount(count: Out<c_int>) |world| count.put(world.devices.len() as c_int)
    cuDeviceGet(out: Out<c_int>, device: c_int) |world| { ordinal(world, device)?; out.put(device) }
    cuDeviceGetName(out: Out<c_char>, room: c_int, device: c_int) |world| {
        ordinal(world, device)?;
        out.put_bytes(format!("fakecuda device {device}\0").as_bytes(), room.max(0) as usize)
    }
    cuDeviceGetUuid(out: Out<[u8; 16]>, device: c_int) |world| out.put([0xFA + ordinal(world, device)? as u8; 16])
    cuDeviceGetUuid_v2(out: Out<[u8; 16]>, device: c_int) |world| out.put([0xFA + ordinal(world, device)? as u8; 16])
    cuDeviceTotalMem_v2(nbytes: Out<usize>, device: c_int) |world| {
        let d = ordinal(world, device)?;
        nbytes.put(world.devices[d].limit as usize)
    }
    cuDeviceGetAttribute(value: Out<c_int>, number: c_int, device: c_int) |world| {
        ordinal(world, device)?;
        value.put(attribute(world, number)?)
    }
    cuDeviceCanAccessPeer(value: Out<c_int>, device: c_int, peer: c_int) |world| {
        value.put((ordinal(world, device)? != ordinal(world, peer)?).into())
    }
    cuDevicePrimaryCtxRetain(context: Out<usize>, device: c_int) |world| {
        let d = ordinal(world, device)?;
        context.put(contexts::handle(d))?;
        world.devices[d].refs += 1;
        Ok(())
    }
    cuDevicePrimaryCtxRelease_v2(device: c_int) |world| {
        let d = ordinal(world, device)?;
        let refs = &mut world.devices[d].refs;
        *refs = refs.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        if *refs == 0 { world.destroy_context(d); }
        Ok(())
    }
    cuDevicePrimaryCtxReset_v2(device: c_int) |world| {
        let d = ordinal(world, device)?;
        world.destroy_context(d);
        Ok(())
    }
    cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) |world| {
        let d = ordinal(world, device)?;
        flags.put(0)?;
        active.put((world.devices[d].refs > 0).into())
    }
    cuDeviceGetDefaultMemPool(pool: Out<usize>, device: c_int) |world| {
        let d = ordinal(world, device)?;
        pool.put(world.devices[d].default_pool)
    }
    cuDeviceGetMemPool(pool: Out<usize>, device: c_int) |world| {
        let d = ordinal(world, device)?;
        pool.put(world.devices[d].pool)
    }
    cuDeviceSetMemPool(device: c_int, pool: usize) |world| {
        let d = ordinal(world, device)?;
        if !world.pools.contains_key(&pool) { return Err(INVALID_VALUE); }
        world.devices[d].pool = pool;
        Ok(())
    }
}
