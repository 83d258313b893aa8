//! What happens to a program that takes a simulated address for a pointer. It needs a process of its own to die in.
#![cfg(all(unix, target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::num::NonZeroU64;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use et_device::{AllocationRequest, DeviceAllocator, DeviceIndex, DeviceType};
use et_sim::{SimAllocator, SimOptions};

/// Which of the addresses a child process touches, and how: `read 0`, `write 127`.
const TOUCH: &str = "ET_SIM_TOUCH";
const TEST: &str = "b_27_an_address_of_a_device_is_none_of_the_host";
const SIGSEGV: i32 = 11;
const SIGBUS: [i32; 2] = [7, 10];

#[test]
fn b_27_an_address_of_a_device_is_none_of_the_host() {
    if let Ok(what) = std::env::var(TOUCH) {
        touch(&what);
        return;
    }
    for what in ["read 0", "write 0", "read 127", "write 127"] {
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program)
            .args(["--exact", TEST])
            .env(TOUCH, what)
            .output()
            .unwrap();
        let signal = child.status.signal();
        let faulted = signal.is_some_and(|n| n == SIGSEGV || SIGBUS.contains(&n));
        assert!(faulted, "{what}: {child:?}");
    }
}

fn touch(what: &str) {
    let (how, index) = what.split_once(' ').unwrap();
    let index = DeviceIndex::new(index.parse().unwrap()).unwrap();
    let sim = SimAllocator::new(SimOptions::new(DeviceType::CUDA).devices(128));
    let nbytes = NonZeroU64::new(64).unwrap();
    let block = sim
        .allocate(&AllocationRequest::new(index, nbytes))
        .unwrap();
    let address = usize::try_from(block.base().get()).unwrap();
    let pointer = std::ptr::with_exposed_provenance_mut::<u8>(address);
    match how {
        // SAFETY: none. That this ends the process before it reads anything is what is tested.
        "read" => drop(unsafe { pointer.read_volatile() }),
        // SAFETY: as above.
        _ => unsafe { pointer.write_volatile(1) },
    }
}
