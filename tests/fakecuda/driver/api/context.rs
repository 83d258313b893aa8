//! The current context.

use super::api;
use crate::arguments::Out;
use crate::contexts;
use crate::status::{INVALID_CONTEXT, PEER_ACCESS_ALREADY_ENABLED};
use std::ffi::{c_int, c_uint};

api! {
    cuCtxGetCurrent(context: Out<usize>) |world| context.put(world.current().map_or(0, contexts::handle))
    cuCtxSetCurrent(context: usize) |world| {
        contexts::pop();
        if context == 0 { Ok(()) } else { world.push_context(context) }
    }
    cuCtxPushCurrent_v2(context: usize) |world| world.push_context(context)
    cuCtxPopCurrent_v2(context: Out<usize>) |_world| {
        let top = contexts::pop().ok_or(INVALID_CONTEXT)?;
        if context.is_null() { Ok(()) } else { context.put(top) }
    }
    cuCtxGetDevice(device: Out<c_int>) |world| device.put(world.require_current()? as c_int)
    cuCtxSetFlags(_flags: c_uint) |world| world.require_current().map(drop)
    cuCtxSynchronize() |world| {
        let device = world.require_current()?;
        world.synchronize_device(device)
    }
    cuCtxEnablePeerAccess(context: usize, _flags: c_uint) |world| {
        let (device, peer) = (world.require_current()?, world.context_device(context)?);
        let peers = &mut world.devices[device].peers;
        if peers.contains(&peer) { return Err(PEER_ACCESS_ALREADY_ENABLED); }
        peers.push(peer);
        Ok(())
    }
    cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) |world| {
        world.require_current()?;
        least.put(0)?;
        greatest.put(-5)
    }
}
