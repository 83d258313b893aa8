//! Someone who runs programs with operators of their own and a device registry of their own.

use et_device::DeviceAllocatorRegistry;
use et_kernel::Environment;
use et_module::{Error, ErrorKind, Program};

fn main() {
    let environment =
        Environment::linked().expect("no name twice").with_devices(DeviceAllocatorRegistry::new());
    let error: Error = Program::from_bytes(vec![0; 64]).expect_err("it is no program");
    assert!(matches!(error.kind(), ErrorKind::Read(_)));
    // The copies between host and devices come with the runtime; operators are linked beside it.
    assert!(environment.kernels.get("et_copy::_h2d_copy.out").is_some());
    assert!(environment.kernels.get("aten::add.out").is_none());
}
