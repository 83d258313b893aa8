//! One registry, many threads.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use et_device::{
    Alignment, AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceType, RegisterError,
};
use et_memory::DeviceMemoryBuffer;
use et_sim::{SimAllocator, SimOptions};

const THREADS: u8 = 16;
const ROUNDS: u64 = 10_000;

fn simulated(device_type: i8) -> Arc<SimAllocator> {
    let device_type = DeviceType::from_raw(device_type).unwrap();
    Arc::new(SimAllocator::new(SimOptions::new(device_type).devices(4)))
}

/// Runs `work` on all threads, which start together.
fn together(work: impl Fn(u8) + Sync) {
    let start = Barrier::new(usize::from(THREADS));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(number);
            });
        }
    });
}

#[test]
fn lookups_allocations_and_frees_of_16_threads_all_succeed() {
    let registry = DeviceAllocatorRegistry::new();
    let sims = [simulated(1), simulated(2)];
    for sim in &sims {
        registry.register(Arc::clone(sim).into()).unwrap();
    }
    together(|number| {
        let device = Device::from_raw(1 + (number % 2).cast_signed(), (number / 4).cast_signed());
        let device = device.unwrap();
        for round in 0..ROUNDS {
            let found = registry.require(device).unwrap();
            assert_eq!(found.device_type(), device.device_type());
            let nbytes = 1 + round % 512;
            let buffer =
                DeviceMemoryBuffer::create_in(&registry, nbytes, device, Alignment::DEVICE);
            let mut buffer = buffer.unwrap();
            if round % 64 == 0 {
                let mut bytes = vec![0; nbytes as usize];
                buffer.fill(number).unwrap();
                buffer.read(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|&byte| byte == number));
            }
            buffer.free().unwrap();
        }
    });
    for sim in &sims {
        let counters = sim.counters();
        let expected = u64::from(THREADS) / 2 * ROUNDS;
        assert_eq!((counters.allocations, counters.frees), (expected, expected));
        assert!(sim.leak_report().is_empty());
    }
}

#[test]
fn of_16_threads_that_register_one_wins_and_all_find_it() {
    for _ in 0..200 {
        let registry = DeviceAllocatorRegistry::new();
        let (wins, device_type) = (AtomicU64::new(0), DeviceType::CUDA);
        together(|_| {
            let mine = simulated(1);
            let outcome = registry.register(AllocatorHandle::from(Arc::clone(&mine)));
            match outcome {
                Ok(()) => {
                    wins.fetch_add(1, Ordering::Relaxed);
                    let found = registry.get(device_type).unwrap();
                    assert_eq!(found.device_count(), Ok(4));
                }
                Err(error) => {
                    assert_eq!(error, RegisterError::AlreadyRegistered { device_type });
                    // The winner may still be at it; what is found is whole.
                    if let Some(found) = registry.get(device_type) {
                        assert_eq!(found.device_type(), device_type);
                    }
                }
            }
        });
        assert_eq!(wins.into_inner(), 1);
        assert_eq!(registry.device_types().collect::<Vec<_>>(), [device_type]);
    }
}

/// The process-wide registry works before and after threads were started, and while one registers.
#[test]
fn a_registration_reaches_threads_that_run_already() {
    let device = Device::from_raw(11, 0).unwrap();
    let global = DeviceAllocatorRegistry::global();
    assert!(global.get(device.device_type()).is_none());
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(move || {
                while global.get(device.device_type()).is_none() {
                    thread::yield_now();
                }
                DeviceMemoryBuffer::create(64, device).map(|buffer| buffer.device())
            })
        })
        .collect();
    et_device::register_device_allocator(simulated(11).into()).unwrap();
    for thread in waiting {
        assert_eq!(thread.join().unwrap(), Ok(device));
    }
}
