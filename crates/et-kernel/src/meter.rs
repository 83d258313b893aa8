//! Copies by who made them.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use et_device::CopyCounts;

use crate::{Event, EventHook, Origin, OriginTracker};

/// Tells the copies of the runtime, of delegates and of the caller from each other.
///
/// It is an [`EventHook`]: at each event it reads how many copies there were so far, and what came since the event before is
/// of the [`Origin`] between the two. Where the totals are from is left to whoever makes it; what is copied on a thread of its
/// own meanwhile, or by several methods that run at once, cannot be told apart.
///
/// ```
/// use std::sync::Arc;
/// use et_device::{AllocatorHandle, DeviceAllocatorRegistry, DeviceType};
/// use et_kernel::{CopyMeter, Environment};
/// use et_sim::{SimAllocator, SimOptions};
///
/// let device = Arc::new(SimAllocator::new(SimOptions::new(DeviceType::CUDA)));
/// let registry = DeviceAllocatorRegistry::new();
/// registry.register(AllocatorHandle::from(Arc::clone(&device)))?;
/// let meter = Arc::new(CopyMeter::new(move || device.counters().copies()));
/// let environment = Environment::linked()?.with_devices(registry).with_hook(meter.clone());
/// // ... load a method in `environment`, run it; then:
/// let copies = meter.take();
/// println!("{:?}, and in delegates {:?}", copies.outside_delegates(), copies.delegate);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CopyMeter {
    totals: Box<dyn Fn() -> CopyCounts + Send + Sync>,
    state: Mutex<State>,
}

/// Copies by who made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopiesByOrigin {
    /// By methods that load or run.
    pub runtime: CopyCounts,
    /// By delegates, such as those that compute elsewhere than their arguments are.
    pub delegate: CopyCounts,
    /// By whoever uses the methods: inputs set and outputs fetched.
    pub caller: CopyCounts,
}

impl CopiesByOrigin {
    /// Those of the runtime and of its caller together.
    #[must_use]
    pub const fn outside_delegates(&self) -> CopyCounts {
        self.runtime.plus(&self.caller)
    }

    const fn of_mut(&mut self, origin: Origin) -> &mut CopyCounts {
        match origin {
            Origin::Runtime => &mut self.runtime,
            Origin::Delegate => &mut self.delegate,
            Origin::Caller => &mut self.caller,
        }
    }
}

#[derive(Debug)]
struct State {
    tracker: OriginTracker,
    /// The totals at the last event.
    seen: CopyCounts,
    copies: CopiesByOrigin,
}

impl State {
    /// What came since the last time is of whoever was at work.
    const fn settle(&mut self, totals: CopyCounts) {
        let more = totals.since(&self.seen);
        self.seen = totals;
        let copies = self.copies.of_mut(self.tracker.origin());
        *copies = copies.plus(&more);
    }
}

impl CopyMeter {
    /// Counts from now on. `totals` gives the copies so far of all devices that are watched; it is called at every event.
    pub fn new(totals: impl Fn() -> CopyCounts + Send + Sync + 'static) -> Self {
        let state = State {
            tracker: OriginTracker::default(),
            seen: totals(),
            copies: CopiesByOrigin::default(),
        };
        Self {
            totals: Box::new(totals),
            state: Mutex::new(state),
        }
    }

    /// The copies since the last time.
    pub fn take(&self) -> CopiesByOrigin {
        let mut state = self.state();
        state.settle((self.totals)());
        std::mem::take(&mut state.copies)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Plain numbers are whole after any panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventHook for CopyMeter {
    fn event(&self, event: &Event<'_>) {
        let mut state = self.state();
        state.settle((self.totals)());
        state.tracker.follow(event);
    }
}

impl fmt::Debug for CopyMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyMeter")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A meter of copies that are only said to be made.
    struct Bench {
        made: Arc<Mutex<CopyCounts>>,
        meter: CopyMeter,
    }

    impl Bench {
        fn new() -> Self {
            let made = Arc::new(Mutex::new(uploads(5)));
            let totals = Arc::clone(&made);
            let meter = CopyMeter::new(move || *totals.lock().unwrap());
            Self { made, meter }
        }

        fn upload(&self, count: u64) {
            let mut made = self.made.lock().unwrap();
            *made = made.plus(&uploads(count));
        }
    }

    fn uploads(count: u64) -> CopyCounts {
        CopyCounts {
            host_to_device: count,
            host_to_device_bytes: 8 * count,
            ..CopyCounts::default()
        }
    }

    #[test]
    fn copies_are_of_whoever_was_at_work_when_they_were_made() {
        let bench = Bench::new();
        let begin = Event::DelegateBegin {
            backend: "b",
            target: None,
            args: &[],
        };
        let end = Event::ExecuteEnd {
            method: "forward",
            outputs: &[],
        };
        bench.upload(1);
        bench
            .meter
            .event(&Event::ExecuteBegin { method: "forward" });
        bench.upload(20);
        bench.meter.event(&begin);
        bench.upload(300);
        bench.meter.event(&Event::DelegateEnd);
        bench.upload(4000);
        bench.meter.event(&end);
        bench.upload(50_000);
        let copies = bench.meter.take();
        assert_eq!(copies.caller, uploads(50_001));
        assert_eq!(copies.runtime, uploads(4020));
        assert_eq!(copies.delegate, uploads(300));
        assert_eq!(copies.outside_delegates(), uploads(54_021));
        assert_eq!(bench.meter.take(), CopiesByOrigin::default());
    }
}
