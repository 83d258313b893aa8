//! Copies and fills, by the documented rules for pageable and pinned host memory.

use crate::host;
use crate::status::{INVALID_VALUE, Outcome};
use crate::streams::{HostSource, Op};
use crate::world::World;

/// How one copy was asked for.
#[derive(Clone, Copy)]
pub struct Call {
    pub origin: &'static str,
    pub stream: usize,
    /// Complete when the call returns.
    pub sync: bool,
}

impl World {
    /// The bytes must lie in one live block, else the call is refused and remembered.
    fn check(&mut self, call: Call, at: u64, nbytes: usize) -> Outcome {
        let device = self.device_of_stream(call.stream)?;
        match self.find(at, nbytes) {
            Ok(_) => Ok(()),
            Err(why) => {
                self.violate(device, format!("{}: {why}", call.origin));
                Err(INVALID_VALUE)
            }
        }
    }

    fn count_host_side(&mut self, call: Call, pinned: bool) -> Outcome {
        let device = self.device_of_stream(call.stream)?;
        let stats = &mut self.devices[device].stats;
        let counter = if pinned {
            &mut stats.pinned_copies
        } else {
            &mut stats.pageable_copies
        };
        *counter += 1;
        Ok(())
    }

    fn submit(&mut self, call: Call, op: Op, sync: bool) -> Outcome {
        let ticket = self.push(call.stream, call.origin, op)?;
        if sync {
            self.drain(call.stream, ticket)
        } else {
            Ok(())
        }
    }

    /// Pageable memory is staged before the call returns; pinned memory is read when the copy runs.
    pub fn host_to_device(&mut self, call: Call, dst: u64, src: usize, nbytes: usize) -> Outcome {
        if nbytes == 0 {
            return Ok(());
        }
        self.check(call, dst, nbytes)?;
        let pinned = self.is_pinned(src, nbytes);
        self.count_host_side(call, pinned)?;
        let source = if pinned || self.settings.defer_pageable {
            HostSource::At(src)
        } else {
            HostSource::Staged(host::read(src, nbytes))
        };
        self.submit(
            call,
            Op::HostToDevice {
                dst,
                src: source,
                nbytes,
            },
            call.sync,
        )
    }

    /// A copy to pageable memory is complete when the call returns.
    pub fn device_to_host(&mut self, call: Call, dst: usize, src: u64, nbytes: usize) -> Outcome {
        if nbytes == 0 {
            return Ok(());
        }
        self.check(call, src, nbytes)?;
        let pinned = self.is_pinned(dst, nbytes);
        self.count_host_side(call, pinned)?;
        let sync = call.sync || !(pinned || self.settings.defer_pageable);
        self.submit(call, Op::DeviceToHost { dst, src, nbytes }, sync)
    }

    pub fn device_to_device(&mut self, call: Call, dst: u64, src: u64, nbytes: usize) -> Outcome {
        if nbytes == 0 {
            return Ok(());
        }
        self.check(call, dst, nbytes)?;
        self.check(call, src, nbytes)?;
        self.submit(call, Op::DeviceToDevice { dst, src, nbytes }, call.sync)
    }

    /// A copy whose direction the addresses tell.
    pub fn copy_by_address(&mut self, call: Call, dst: u64, src: u64, nbytes: usize) -> Outcome {
        match (self.device_of(dst).is_some(), self.device_of(src).is_some()) {
            (true, true) => self.device_to_device(call, dst, src, nbytes),
            (true, false) => self.host_to_device(call, dst, src as usize, nbytes),
            (false, true) => self.device_to_host(call, dst as usize, src, nbytes),
            (false, false) => {
                self.drain(call.stream, u64::MAX)?;
                host::write(dst as usize, &host::read(src as usize, nbytes));
                Ok(())
            }
        }
    }

    /// Both contexts of a peer copy must own the memory they are named for.
    pub fn check_peer(&mut self, call: Call, context: usize, at: u64) -> Outcome {
        let named = self.context_device(context)?;
        if self.device_of(at) == Some(named) {
            return Ok(());
        }
        self.violate(
            named,
            format!(
                "{}: {at:#x} is not memory of the context given for it",
                call.origin
            ),
        );
        Err(INVALID_VALUE)
    }

    /// Fills `count` elements of `width` bytes.
    pub fn set(&mut self, call: Call, dst: u64, value: u32, width: usize, count: usize) -> Outcome {
        if count == 0 {
            return Ok(());
        }
        let nbytes = count.checked_mul(width).ok_or(INVALID_VALUE)?;
        self.check(call, dst, nbytes)?;
        self.submit(
            call,
            Op::Set {
                dst,
                value,
                width,
                count,
            },
            call.sync,
        )
    }
}
