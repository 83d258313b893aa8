//! The suite of the contract, on simulated devices.

use std::sync::Arc;

use et_device::{AllocatorHandle, DeviceIndex, DeviceType, StreamHandle, conformance};
use et_sim::{RecordingAllocator, SimAllocator, SimOptions, TraceLog};

fn allocator() -> SimAllocator {
    // Small enough that memory which is not used again runs out.
    let options = SimOptions::new(DeviceType::CUDA)
        .devices(3)
        .capacity(16 << 20);
    SimAllocator::new(options)
}

/// A simulated device has one queue, and every handle means it.
fn stream(_: &SimAllocator, _: DeviceIndex) -> StreamHandle {
    StreamHandle::from_raw(0)
}

conformance::tests!(allocator, stream);

/// The suite once more, with every call watched.
mod watched {
    use std::sync::Arc;

    use et_device::{AllocatorHandle, DeviceIndex, StreamHandle, conformance};
    use et_sim::{RecordingAllocator, TraceLog};

    fn allocator() -> RecordingAllocator {
        let sim = AllocatorHandle::from(Arc::new(super::allocator()));
        RecordingAllocator::new(sim, Arc::new(TraceLog::default()))
    }

    fn stream(_: &RecordingAllocator, _: DeviceIndex) -> StreamHandle {
        StreamHandle::from_raw(0)
    }

    conformance::tests!(allocator, stream);
}

/// And once more through a wrapper that has written down no more than it must.
mod wrapped {
    use std::sync::Arc;

    use et_device::{
        AllocationRequest, AllocatorHandle, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan,
        DeviceToHost, DeviceType, HostToDevice, StreamHandle, conformance,
    };
    use et_sim::SimAllocator;

    pub(super) struct Wrapper(pub(super) Arc<SimAllocator>);

    // SAFETY: every method is the wrapped allocator's.
    unsafe impl DeviceAllocator for Wrapper {
        fn device_type(&self) -> DeviceType {
            self.0.device_type()
        }
        fn wrapped(&self) -> Option<&dyn DeviceAllocator> {
            Some(&*self.0)
        }
        fn device_count(&self) -> Result<u32, DeviceError> {
            self.0.device_count()
        }
        fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
            self.0.allocate(request)
        }
        unsafe fn deallocate(
            &self,
            block: DeviceSpan,
            index: DeviceIndex,
        ) -> Result<(), DeviceError> {
            // SAFETY: the contract is the caller's.
            unsafe { self.0.deallocate(block, index) }
        }
        unsafe fn copy_host_to_device(&self, copy: HostToDevice<'_>) -> Result<(), DeviceError> {
            // SAFETY: the contract is the caller's.
            unsafe { self.0.copy_host_to_device(copy) }
        }
        unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError> {
            // SAFETY: the contract is the caller's.
            unsafe { self.0.copy_device_to_host(copy) }
        }
    }

    fn allocator() -> Wrapper {
        Wrapper(Arc::new(super::allocator()))
    }

    fn stream(_: &Wrapper, _: DeviceIndex) -> StreamHandle {
        StreamHandle::from_raw(0)
    }

    conformance::tests!(allocator, stream);

    #[test]
    fn the_device_sees_what_it_would_see_without_the_wrapper() {
        let bare = Arc::new(super::allocator());
        let wrapper = allocator();
        let handles = [
            AllocatorHandle::from(Arc::clone(&wrapper.0)),
            AllocatorHandle::from(Arc::new(Wrapper(Arc::clone(&wrapper.0)))),
        ];
        assert!(handles[0].is_same(&handles[1]));
        assert!(!handles[0].is_same(&AllocatorHandle::from(Arc::clone(&bare))));
        for (name, check) in conformance::STREAM_CHECKS {
            check(&*bare, &|_| StreamHandle::from_raw(0));
            check(&wrapper, &|_| StreamHandle::from_raw(0));
            assert_eq!(bare.counters(), wrapper.0.counters(), "{name}");
        }
        conformance::fills_touch_the_named_part_only(&*bare);
        conformance::fills_touch_the_named_part_only(&wrapper);
        assert!(bare.counters().fills > 0);
        assert_eq!(bare.counters(), wrapper.0.counters());
    }
}

/// What is logged is what the simulated device saw, call by call.
#[test]
fn the_log_of_a_watched_allocator_is_the_trace_of_the_device() {
    for (name, check) in conformance::CHECKS {
        let sim = Arc::new(allocator());
        sim.record();
        let log = Arc::new(TraceLog::default());
        let handle = AllocatorHandle::from(Arc::clone(&sim));
        check(&RecordingAllocator::new(handle, Arc::clone(&log)));
        let (logged, seen) = (log.take(), sim.take_trace());
        assert_eq!(logged.len(), seen.len(), "{name}");
        // Checks with several threads may be logged in another order.
        for event in &seen {
            let times = |list: &[_]| list.iter().filter(|other| *other == event).count();
            assert_eq!(times(&logged), times(&seen), "{name}: {event:?}");
        }
    }
}

#[test]
fn no_check_leaves_a_block_behind() {
    for (name, check) in conformance::CHECKS {
        let sim = allocator();
        check(&sim);
        let report = sim.leak_report();
        assert!(report.is_empty(), "{name}: {report}");
    }
    for (name, check) in conformance::STREAM_CHECKS {
        let sim = allocator();
        check(&sim, &|index| stream(&sim, index));
        let report = sim.leak_report();
        assert!(report.is_empty(), "{name}: {report}");
    }
}
