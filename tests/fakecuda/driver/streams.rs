//! Streams, events and the work queued on them.

use crate::blocks::Device;
use crate::host;
use crate::kernels::Launch;
use crate::settings::Schedule;
use crate::status::{ILLEGAL_ADDRESS, INVALID_HANDLE, Outcome};
use crate::world::{IN_CALLBACK, World};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::time::Instant;

/// Host bytes that a copy to the device reads.
pub enum HostSource {
    /// Read when the copy runs.
    At(usize),
    /// Read when it was submitted.
    Staged(Box<[u8]>),
}

pub enum Op {
    HostToDevice {
        dst: u64,
        src: HostSource,
        nbytes: usize,
    },
    DeviceToHost {
        dst: usize,
        src: u64,
        nbytes: usize,
    },
    DeviceToDevice {
        dst: u64,
        src: u64,
        nbytes: usize,
    },
    Set {
        dst: u64,
        value: u32,
        width: usize,
        count: usize,
    },
    /// Pool memory comes into being.
    Born(u64),
    Free(u64),
    Record(usize),
    Wait {
        stream: usize,
        ticket: u64,
    },
    Host {
        f: extern "C" fn(*mut c_void),
        argument: usize,
    },
    Kernel(Launch),
}

pub struct Queued {
    pub ticket: u64,
    /// The call that queued it, for reports.
    pub origin: &'static str,
    pub op: Op,
}

pub struct Stream {
    pub device: usize,
    /// Ordered against the NULL stream.
    pub blocking: bool,
    pub is_null: bool,
    /// Destroyed, with work still to run.
    pub dead: bool,
    pub queue: VecDeque<Queued>,
}

impl Stream {
    pub fn new(device: usize, blocking: bool) -> Self {
        Stream {
            device,
            blocking,
            is_null: false,
            dead: false,
            queue: VecDeque::new(),
        }
    }

    pub fn null(device: usize) -> Self {
        Stream {
            is_null: true,
            ..Stream::new(device, false)
        }
    }
}

pub struct Event {
    pub device: usize,
    pub timing: bool,
    pub at: Option<(usize, u64)>,
    pub when: Option<Instant>,
}

fn random_step(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ (x << 17)
}

impl World {
    /// The stream a handle of the API means on this thread: NULL and legacy (0, 1), per-thread (2), or one's own.
    pub fn stream(&mut self, handle: usize) -> Outcome<usize> {
        let device = self.require_current()?;
        match handle {
            0 | 1 => Ok(self.devices[device].null_stream),
            2 => Ok(self.thread_stream(device)),
            own => match self.streams.get(&own) {
                Some(s) if !s.dead && !s.is_null => match self.devices[s.device].sticky {
                    0 => Ok(own),
                    code => Err(code),
                },
                _ => Err(INVALID_HANDLE),
            },
        }
    }

    fn thread_stream(&mut self, device: usize) -> usize {
        let key = (crate::contexts::thread_number(), device);
        if let Some(stream) = self.thread_streams.get(&key) {
            return *stream;
        }
        let stream = self.new_handle();
        self.streams.insert(stream, Stream::new(device, true));
        self.thread_streams.insert(key, stream);
        stream
    }

    /// The device of a stream that [`World::stream`] gave.
    pub fn device_of_stream(&self, stream: usize) -> Outcome<usize> {
        self.streams
            .get(&stream)
            .map(|s| s.device)
            .ok_or(INVALID_HANDLE)
    }

    /// Queues work and, as the schedule has it, runs some.
    pub fn push(&mut self, stream: usize, origin: &'static str, op: Op) -> Outcome<u64> {
        self.ticket += 1;
        let ticket = self.ticket;
        let queue = &mut self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?.queue;
        queue.push_back(Queued { ticket, origin, op });
        match self.settings.schedule {
            Schedule::Lazy => {}
            Schedule::Eager => self.drain(stream, ticket)?,
            Schedule::Random(state) => self.run_something(random_step(state))?,
        }
        Ok(ticket)
    }

    fn run_something(&mut self, random: u64) -> Outcome {
        self.settings.schedule = Schedule::Random(random);
        let mut heads: Vec<(usize, u64)> = self
            .streams
            .iter()
            .filter_map(|(h, s)| Some((*h, s.queue.front()?.ticket)))
            .collect();
        heads.sort_unstable();
        if random & 1 == 1 || heads.is_empty() {
            return Ok(());
        }
        let (stream, ticket) = heads[(random >> 8) as usize % heads.len()];
        self.drain(stream, ticket)
    }

    /// Runs what a stream holds up to `ticket`, and first whatever that depends on.
    pub fn drain(&mut self, stream: usize, ticket: u64) -> Outcome {
        while let Some(s) = self.streams.get(&stream) {
            let (device, is_null, blocking) = (s.device, s.is_null, s.blocking);
            let Some(front) = s.queue.front().map(|q| q.ticket).filter(|t| *t <= ticket) else {
                break;
            };
            if is_null {
                self.drain_blocking(device, front - 1)?;
            } else if blocking {
                self.drain(self.devices[device].null_stream, front - 1)?;
            }
            self.run_front(stream, device)?;
        }
        self.after_drain(stream)
    }

    /// The streams of a device that the NULL stream is ordered against.
    fn drain_blocking(&mut self, device: usize, ticket: u64) -> Outcome {
        let others: Vec<usize> = self
            .streams
            .iter()
            .filter(|(_, s)| s.device == device && s.blocking)
            .map(|(h, _)| *h)
            .collect();
        others.into_iter().try_for_each(|s| self.drain(s, ticket))
    }

    fn run_front(&mut self, stream: usize, device: usize) -> Outcome {
        let front = self.streams.get(&stream).and_then(|s| s.queue.front());
        if let Some(Queued {
            op: Op::Wait {
                stream: awaited,
                ticket,
            },
            ..
        }) = front
        {
            let (awaited, ticket) = (*awaited, *ticket);
            self.drain(awaited, ticket)?;
        }
        let Some(queued) = self
            .streams
            .get_mut(&stream)
            .and_then(|s| s.queue.pop_front())
        else {
            return Ok(());
        };
        if self.devices[device].sticky != 0 {
            return Ok(());
        }
        self.execute(queued.op).map_err(|why| {
            self.devices[device].sticky = ILLEGAL_ADDRESS;
            self.violate(device, format!("{}: {why}", queued.origin));
            ILLEGAL_ADDRESS
        })
    }

    fn after_drain(&mut self, stream: usize) -> Outcome {
        let Some(s) = self.streams.get(&stream) else {
            return Ok(());
        };
        if s.dead && s.queue.is_empty() {
            self.streams.remove(&stream);
            return Ok(());
        }
        match self.devices[s.device].sticky {
            0 => Ok(()),
            code => Err(code),
        }
    }

    fn execute(&mut self, op: Op) -> Result<(), String> {
        match op {
            Op::HostToDevice { dst, src, nbytes } => {
                let bytes = match src {
                    HostSource::At(at) => host::read(at, nbytes),
                    HostSource::Staged(bytes) => bytes,
                };
                self.bytes(dst, nbytes)?.copy_from_slice(&bytes);
            }
            Op::DeviceToHost { dst, src, nbytes } => host::write(dst, self.bytes(src, nbytes)?),
            Op::DeviceToDevice { dst, src, nbytes } => {
                let bytes = self.bytes(src, nbytes)?.to_vec();
                self.bytes(dst, nbytes)?.copy_from_slice(&bytes);
            }
            Op::Set {
                dst,
                value,
                width,
                count,
            } => {
                let pattern = &value.to_le_bytes()[..width];
                self.bytes(dst, count * width)?
                    .chunks_mut(width)
                    .for_each(|c| c.copy_from_slice(pattern));
            }
            Op::Born(at) => {
                if let Some(block) = self
                    .device_of(at)
                    .and_then(|d| self.devices[d].blocks.get_mut(&at))
                {
                    block.born = true;
                }
            }
            Op::Free(at) => {
                self.bytes(at, 1)?;
                self.bury(at, "cuMemFreeAsync")
                    .map_err(|code| format!("free failed with {code}"))?;
            }
            Op::Record(event) => {
                if let Some(event) = self.events.get_mut(&event) {
                    event.when = Some(Instant::now());
                }
            }
            Op::Wait { .. } => {}
            Op::Host { f, argument } => {
                IN_CALLBACK.set(true);
                f(argument as *mut c_void);
                IN_CALLBACK.set(false);
            }
            Op::Kernel(launch) => self.run_kernel(&launch)?,
        }
        Ok(())
    }

    pub fn synchronize_stream(&mut self, stream: usize) -> Outcome {
        let device = self.device_of_stream(stream)?;
        let is_null = self.streams.get(&stream).is_some_and(|s| s.is_null);
        let outcome = self.drain(stream, u64::MAX);
        if is_null {
            self.drain_blocking(device, u64::MAX)?;
        }
        self.trim_at_synchronize(device);
        outcome
    }

    pub fn synchronize_device(&mut self, device: usize) -> Outcome {
        let mut all: Vec<usize> = self
            .streams
            .iter()
            .filter(|(_, s)| s.device == device)
            .map(|(h, _)| *h)
            .collect();
        all.sort_unstable();
        for stream in all {
            self.drain(stream, u64::MAX)?;
        }
        self.trim_at_synchronize(device);
        Ok(())
    }

    /// Whether a stream has run everything up to a ticket.
    pub fn is_done(&self, (stream, ticket): (usize, u64)) -> bool {
        let front = self.streams.get(&stream).and_then(|s| s.queue.front());
        front.is_none_or(|q| q.ticket > ticket)
    }

    /// Runs one operation of a stream, so that polling makes progress.
    pub fn poke(&mut self, stream: usize) -> Outcome {
        let front = self
            .streams
            .get(&stream)
            .and_then(|s| s.queue.front())
            .map(|q| q.ticket);
        front.map_or(Ok(()), |ticket| self.drain(stream, ticket))
    }

    /// Operations still to run that touch the bytes `at..at + nbytes` of device or host memory.
    pub fn pending_on(&self, at: u64, nbytes: usize) -> usize {
        let hit = |start: u64, n: usize| start < at + nbytes as u64 && at < start + n as u64;
        let touches = |op: &Op| match op {
            Op::HostToDevice { dst, src, nbytes } => {
                hit(*dst, *nbytes) || matches!(src, HostSource::At(s) if hit(*s as u64, *nbytes))
            }
            Op::DeviceToHost { dst, src, nbytes } => {
                hit(*dst as u64, *nbytes) || hit(*src, *nbytes)
            }
            Op::DeviceToDevice { dst, src, nbytes } => hit(*dst, *nbytes) || hit(*src, *nbytes),
            Op::Set {
                dst, width, count, ..
            } => hit(*dst, width * count),
            _ => false,
        };
        self.streams
            .values()
            .flat_map(|s| &s.queue)
            .filter(|q| touches(&q.op))
            .count()
    }

    /// After a fault, drops what is still queued and would touch host memory: a GPU would never run it, so its owner may
    /// have given that memory up.
    pub fn forget_host_work(&mut self, device: usize) {
        if self.devices.get(device).is_none_or(|d| d.sticky == 0) {
            return;
        }
        let of_host = |op: &Op| {
            matches!(
                op,
                Op::DeviceToHost { .. }
                    | Op::HostToDevice {
                        src: HostSource::At(_),
                        ..
                    }
            )
        };
        for stream in self.streams.values_mut().filter(|s| s.device == device) {
            stream.queue.retain(|queued| !of_host(&queued.op));
        }
    }

    /// The NULL stream of the current device.
    pub fn null_stream(&mut self) -> Outcome<usize> {
        self.stream(0)
    }

    /// Counts a stream made by the caller.
    pub fn new_stream(&mut self, flags: u32) -> Outcome<usize> {
        const NON_BLOCKING: u32 = 1;
        let device = self.require_current()?;
        let handle = self.new_handle();
        self.streams
            .insert(handle, Stream::new(device, flags & NON_BLOCKING == 0));
        let d: &mut Device = &mut self.devices[device];
        d.stats.live_streams += 1;
        Ok(handle)
    }
}
