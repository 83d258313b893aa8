//! Copies, counted: those of the runtime and its caller, and those inside of delegates.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use et_kernel::{Event, EventHook};
use et_sim::{Counters, SimAllocator};

/// How many copies there were, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// From the host.
    pub host_to_device: u64,
    /// To the host.
    pub device_to_host: u64,
    /// Bytes of those.
    pub device_to_host_bytes: u64,
    /// Within and between devices.
    pub device_to_device: u64,
}

impl Copies {
    fn between(before: &Counters, after: &Counters) -> Self {
        Self {
            host_to_device: after.host_to_device - before.host_to_device,
            device_to_host: after.device_to_host - before.device_to_host,
            device_to_host_bytes: after.device_to_host_bytes - before.device_to_host_bytes,
            device_to_device: after.device_to_device - before.device_to_device,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            host_to_device: self.host_to_device + other.host_to_device,
            device_to_host: self.device_to_host + other.device_to_host,
            device_to_host_bytes: self.device_to_host_bytes + other.device_to_host_bytes,
            device_to_device: self.device_to_device + other.device_to_device,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            host_to_device: self.host_to_device - other.host_to_device,
            device_to_host: self.device_to_host - other.device_to_host,
            device_to_host_bytes: self.device_to_host_bytes - other.device_to_host_bytes,
            device_to_device: self.device_to_device - other.device_to_device,
        }
    }
}

/// Tells the copies of delegates from all others.
#[derive(Debug)]
pub struct Tally {
    devices: Arc<SimAllocator>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    since: Counters,
    begun: Counters,
    staging: Copies,
}

impl Tally {
    /// A tally of what happens on `devices` from now on.
    pub fn new(devices: &Arc<SimAllocator>) -> Arc<Self> {
        let now = devices.counters();
        let staging = Copies::default();
        let state = Mutex::new(State {
            since: now,
            begun: now,
            staging,
        });
        Arc::new(Self {
            devices: Arc::clone(devices),
            state,
        })
    }

    /// The copies outside of delegates and those inside, since the last time.
    pub fn take(&self) -> (Copies, Copies) {
        let mut state = self.state();
        let now = self.devices.counters();
        let all = Copies::between(&state.since, &now);
        state.since = now;
        let staging = std::mem::take(&mut state.staging);
        (all.minus(staging), staging)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventHook for Tally {
    fn event(&self, event: &Event<'_>) {
        let mut state = self.state();
        match event {
            Event::DelegateBegin { .. } => state.begun = self.devices.counters(),
            Event::DelegateEnd => {
                let inside = Copies::between(&state.begun, &self.devices.counters());
                state.staging = state.staging.plus(inside);
            }
            _ => {}
        }
    }
}
