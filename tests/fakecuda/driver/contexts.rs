//! Primary contexts, and which one is current on which thread.

use crate::status::{INVALID_CONTEXT, Outcome};
use crate::world::World;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// Handles pushed on this thread, each with its context's generation.
    static STACK: RefCell<Vec<(usize, u64)>> = const { RefCell::new(Vec::new()) };
    static THREAD: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

const FIRST_HANDLE: usize = 0xC0DA_0000;
const HANDLE_STEP: usize = 0x100;

/// The handle of a device's primary context.
pub fn handle(device: usize) -> usize {
    FIRST_HANDLE + device * HANDLE_STEP
}

/// A number that names the calling thread.
pub fn thread_number() -> u64 {
    THREAD.with(|t| *t)
}

/// Takes the top off this thread's stack of contexts.
pub fn pop() -> Option<usize> {
    STACK.with_borrow_mut(Vec::pop).map(|(handle, _)| handle)
}

impl World {
    /// The device whose primary context `handle` names; it must be retained.
    pub fn context_device(&self, handle: usize) -> Outcome<usize> {
        let device = handle.wrapping_sub(FIRST_HANDLE) / HANDLE_STEP;
        match self.devices.get(device) {
            Some(d) if d.refs > 0 && self::handle(device) == handle => Ok(device),
            _ => Err(INVALID_CONTEXT),
        }
    }

    /// The device whose context is current on this thread. One that was destroyed since is not.
    pub fn current(&self) -> Option<usize> {
        let (handle, generation) = STACK.with_borrow(|s| s.last().copied())?;
        let device = self.context_device(handle).ok()?;
        (self.devices[device].generation == generation).then_some(device)
    }

    /// The current device, or the error that any call which needs a context gives.
    pub fn require_current(&self) -> Outcome<usize> {
        let device = self.current().ok_or(INVALID_CONTEXT)?;
        match self.devices[device].sticky {
            0 => Ok(device),
            code => Err(code),
        }
    }

    pub fn push_context(&mut self, handle: usize) -> Outcome {
        let device = self.context_device(handle)?;
        let generation = self.devices[device].generation;
        STACK.with_borrow_mut(|s| s.push((handle, generation)));
        Ok(())
    }

    /// Destroys a device's context with all that is in it. Frees that were queued are no leak.
    pub fn destroy_context(&mut self, device: usize) {
        let _ = self.synchronize_device(device);
        let live: Vec<u64> = self.devices[device].blocks.keys().copied().collect();
        if !live.is_empty() {
            self.violate(
                device,
                format!("context destroyed with {} live allocation(s)", live.len()),
            );
            self.devices[device].stats.lost_at_reset += live.len() as u64;
        }
        for at in live {
            let _ = self.bury(at, "reset");
        }
        let null = self.devices[device].null_stream;
        self.streams.retain(|h, s| s.device != device || *h == null);
        if let Some(stream) = self.streams.get_mut(&null) {
            stream.queue.clear();
        }
        self.thread_streams.retain(|(_, d), _| *d != device);
        self.events.retain(|_, e| e.device != device);
        self.trim_at_synchronize(device);
        let d = &mut self.devices[device];
        d.sticky = 0;
        d.generation += 1;
        d.stats.live_streams = 0;
        d.stats.live_events = 0;
    }
}
