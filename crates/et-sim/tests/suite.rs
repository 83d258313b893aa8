//! The suite of the contract, on simulated devices.

use et_device::{DeviceIndex, DeviceType, StreamHandle, conformance};
use et_sim::{SimAllocator, SimOptions};

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
