//! What the safe ways to memory cost, each beside the bare thing it stands for, and the ratio of the two.
//!
//! `registry`: a lookup against an atomic load. `planned`: the checked place of a value against an indexed, bounds-checked
//! access. `buffer`: an owned device buffer's allocation and free against the bare calls of its allocator, once with an
//! allocator that does next to nothing and once with a simulated device. The aim is a ratio of 3 at most.
#![allow(clippy::print_stdout, reason = "benches report")]

use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use criterion::Criterion;
use et_device::{
    Alignment, AllocationRequest, AllocatorHandle, Device, DeviceAllocator,
    DeviceAllocatorRegistry, DeviceError, DeviceIndex, DevicePtr, DeviceSpan, DeviceToHost,
    DeviceType, HostToDevice,
};
use et_memory::{Budget, BufferSpec, DeviceMemoryBuffer, MemoryPlan, PlannedMemory, PlannedSlot};
use et_sim::{SimAllocator, SimOptions};

/// Hands out addresses by counting; holds no memory.
struct Counting(AtomicU64);

// SAFETY: no block is ever used for anything, and no address is given out twice.
unsafe impl DeviceAllocator for Counting {
    fn device_type(&self) -> DeviceType {
        DeviceType::CUDA
    }
    fn device_count(&self) -> Result<u32, DeviceError> {
        Ok(1)
    }
    fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
        let address = self.0.fetch_add(1 << 12, Ordering::Relaxed);
        let base = DevicePtr::new(address).ok_or_else(|| self.unsupported("address 0"))?;
        Ok(DeviceSpan::new(base, request.nbytes.get())?)
    }
    unsafe fn deallocate(&self, block: DeviceSpan, _: DeviceIndex) -> Result<(), DeviceError> {
        black_box(block);
        Ok(())
    }
    unsafe fn copy_host_to_device(&self, _: HostToDevice<'_>) -> Result<(), DeviceError> {
        Err(self.unsupported("copies"))
    }
    unsafe fn copy_device_to_host(&self, _: DeviceToHost<'_>) -> Result<(), DeviceError> {
        Err(self.unsupported("copies"))
    }
}

static COUNTING: Counting = Counting(AtomicU64::new(1 << 32));

/// Times `work`, and gives the nanoseconds of the sample that was disturbed least; `None` if it was not asked for on the
/// command line.
fn time(criterion: &mut Criterion, group: &str, name: &str, mut work: impl FnMut()) -> Option<f64> {
    let mut samples = Vec::new();
    criterion
        .benchmark_group(group)
        .bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                let start = Instant::now();
                for _ in 0..count {
                    work();
                }
                let elapsed = start.elapsed();
                samples.push(elapsed.as_secs_f64() * 1e9 / count as f64);
                elapsed
            });
        });
    samples.into_iter().min_by(f64::total_cmp)
}

/// One line of the result.
struct Ratio(&'static str, Option<f64>, Option<f64>);

fn registry(criterion: &mut Criterion) -> Ratio {
    let registry = DeviceAllocatorRegistry::new();
    let registered = registry.register(AllocatorHandle::from_static(&COUNTING));
    registered.expect("the registry is empty");
    let flag = AtomicU8::new(2);
    let bare = time(criterion, "registry", "atomic load", || {
        black_box(black_box(&flag).load(Ordering::Acquire));
    });
    let ours = time(criterion, "registry", "lookup", || {
        black_box(black_box(&registry).get(black_box(DeviceType::CUDA)));
    });
    Ratio("registry lookup / atomic load", ours, bare)
}

fn planned(criterion: &mut Criterion) -> Ratio {
    let plan = MemoryPlan::new([4096, 8192, 100].map(|n| BufferSpec::new(n, Device::CPU)));
    let registry = DeviceAllocatorRegistry::new();
    let memory = PlannedMemory::allocate(&plan, &registry, &Budget::unlimited());
    let memory = memory.expect("a few bytes of host memory");
    let vectors = [4096, 8192, 100].map(|n| vec![0u8; n]).to_vec();
    let (id, offset, nbytes) = (1_usize, 128_usize, 64_usize);
    let bare = time(criterion, "planned", "indexed access", || {
        let (id, offset, nbytes) = black_box((id, offset, nbytes));
        let vectors: &Vec<Vec<u8>> = black_box(&vectors);
        let range = offset..offset.wrapping_add(nbytes);
        black_box(vectors.get(id).and_then(|bytes| bytes.get(range)));
    });
    let slot = PlannedSlot {
        memory_id: 2,
        offset_bytes: 128,
        nbytes: 64,
        alignment: Alignment::HOST,
        device: Device::CPU,
    };
    let ours = time(criterion, "planned", "resolve", || {
        let _ = black_box(black_box(&memory).resolve(black_box(&slot)));
    });
    Ratio("planned lookup / indexed access", ours, bare)
}

/// Allocates and frees 4 KiB through `handle`, by the bare calls and as an owned buffer.
fn buffer(
    criterion: &mut Criterion,
    label: &'static str,
    group: &str,
    handle: AllocatorHandle,
) -> Ratio {
    let registry = DeviceAllocatorRegistry::new();
    registry
        .register(handle.clone())
        .expect("the registry is empty");
    let device = Device::from(DeviceType::CUDA);
    let nbytes = NonZeroU64::MIN.saturating_add(4095);
    let bare = time(criterion, group, "bare calls", || {
        let allocator: &dyn DeviceAllocator = &*handle;
        let request = black_box(AllocationRequest::new(device.index(), nbytes));
        let block = allocator.allocate(&request).expect("memory enough");
        // SAFETY: the block is live, and nothing uses it.
        unsafe { allocator.deallocate(block, device.index()) }.expect("a live block");
    });
    let ours = time(criterion, group, "owned buffer", || {
        let nbytes = black_box(nbytes.get());
        let buffer =
            DeviceMemoryBuffer::create_in(black_box(&registry), nbytes, device, Alignment::DEVICE);
        buffer.expect("memory enough").free().expect("a live block");
    });
    Ratio(label, ours, bare)
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let static_handle = AllocatorHandle::from_static(&COUNTING);
    let shared = AllocatorHandle::from(Arc::new(Counting(AtomicU64::new(1 << 32))));
    let sim = SimAllocator::new(SimOptions::new(DeviceType::CUDA));
    let simulated = AllocatorHandle::from(Arc::new(sim));
    let ratios = [
        registry(&mut criterion),
        planned(&mut criterion),
        buffer(
            &mut criterion,
            "buffer / bare calls, counting",
            "buffer-static",
            static_handle,
        ),
        buffer(
            &mut criterion,
            "buffer / bare calls, counting, shared",
            "buffer-shared",
            shared,
        ),
        buffer(
            &mut criterion,
            "buffer / bare calls, simulated",
            "buffer-simulated",
            simulated,
        ),
    ];
    criterion.final_summary();
    for Ratio(label, ours, bare) in ratios {
        if let (Some(ours), Some(bare)) = (ours, bare) {
            let ratio = ours / bare;
            println!("{label:<40} {ours:>8.2} ns / {bare:>7.2} ns = {ratio:.2}");
        }
    }
}
