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
