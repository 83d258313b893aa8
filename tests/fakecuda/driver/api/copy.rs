//! Copies and fills. Those without a stream argument go to the current device's NULL stream.

use super::api;
use crate::copies::Call;
use crate::status::Outcome;
use crate::world::World;

/// On the NULL stream, complete at return.
fn sync(world: &mut World, origin: &'static str) -> Outcome<Call> {
    Ok(Call {
        origin,
        stream: world.null_stream()?,
        sync: true,
    })
}

/// On a stream, queued only.
fn queued(world: &mut World, origin: &'static str, stream: usize) -> Outcome<Call> {
    Ok(Call {
        origin,
        stream: world.stream(stream)?,
        sync: false,
    })
}

api! {
    cuMemcpyHtoD_v2(dst: u64, src: usize, nbytes: usize) |world| {
        let call = sync(world, "cuMemcpyHtoD_v2")?;
        world.host_to_device(call, dst, src, nbytes)
    }
    cuMemcpyDtoH_v2(dst: usize, src: u64, nbytes: usize) |world| {
        let call = sync(world, "cuMemcpyDtoH_v2")?;
        world.device_to_host(call, dst, src, nbytes)
    }
    /// Device to device returns before it is done, with or without a stream.
    cuMemcpyDtoD_v2(dst: u64, src: u64, nbytes: usize) |world| {
        let call = queued(world, "cuMemcpyDtoD_v2", 0)?;
        world.device_to_device(call, dst, src, nbytes)
    }
    cuMemcpyHtoDAsync_v2(dst: u64, src: usize, nbytes: usize, stream: usize) |world| {
        let call = queued(world, "cuMemcpyHtoDAsync_v2", stream)?;
        world.host_to_device(call, dst, src, nbytes)
    }
    cuMemcpyDtoHAsync_v2(dst: usize, src: u64, nbytes: usize, stream: usize) |world| {
        let call = queued(world, "cuMemcpyDtoHAsync_v2", stream)?;
        world.device_to_host(call, dst, src, nbytes)
    }
    cuMemcpyDtoDAsync_v2(dst: u64, src: u64, nbytes: usize, stream: usize) |world| {
        let call = queued(world, "cuMemcpyDtoDAsync_v2", stream)?;
        world.device_to_device(call, dst, src, nbytes)
    }
    cuMemcpyPeerAsync(dst: u64, to: usize, src: u64, from: usize, nbytes: usize, stream: usize) |world| {
        let call = queued(world, "cuMemcpyPeerAsync", stream)?;
        world.check_peer(call, to, dst)?;
        world.check_peer(call, from, src)?;
        world.device_to_device(call, dst, src, nbytes)
    }
    cuMemcpyPeer(dst: u64, to: usize, src: u64, from: usize, nbytes: usize) |world| {
        let call = sync(world, "cuMemcpyPeer")?;
        world.check_peer(call, to, dst)?;
        world.check_peer(call, from, src)?;
        world.device_to_device(call, dst, src, nbytes)
    }
    cuMemcpyAsync(dst: u64, src: u64, nbytes: usize, stream: usize) |world| {
        let call = queued(world, "cuMemcpyAsync", stream)?;
        world.copy_by_address(call, dst, src, nbytes)
    }
    cuMemcpy(dst: u64, src: u64, nbytes: usize) |world| {
        let call = sync(world, "cuMemcpy")?;
        world.copy_by_address(call, dst, src, nbytes)
    }
    cuMemsetD8_v2(dst: u64, value: u8, nbytes: usize) |world| {
        let call = queued(world, "cuMemsetD8_v2", 0)?;
        world.set(call, dst, value.into(), 1, nbytes)
    }
    cuMemsetD8Async(dst: u64, value: u8, nbytes: usize, stream: usize) |world| {
        let call = queued(world, "cuMemsetD8Async", stream)?;
        world.set(call, dst, value.into(), 1, nbytes)
    }
    cuMemsetD32Async(dst: u64, value: u32, count: usize, stream: usize) |world| {
        let call = queued(world, "cuMemsetD32Async", stream)?;
        world.set(call, dst, value, 4, count)
    }
}
