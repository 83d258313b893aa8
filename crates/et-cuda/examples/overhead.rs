//! What the allocator costs above the driver's functions: the same work by bare calls and by way of the allocator, on a
//! driver that does nothing.
//!
//! Prints nanoseconds, of this machine and this moment. `cargo xtask overhead` runs it under valgrind instead and prints
//! instructions, which are the same every time.
//!
//! ```text
//! cargo run --release -p et-cuda --example overhead
//! ```
#![allow(clippy::print_stdout, reason = "an example prints what it found out")]

use et_cuda::{CudaAllocator, PinnedBuffer};
use et_device::{
    AllocationRequest, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan, DeviceToDevice,
    DeviceToHost, HostToDevice, StreamHandle,
};
use libloading::Library;
use std::error::Error;
use std::ffi::c_void;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::Instant;

/// How often each operation is done. `cargo xtask overhead` divides by it.
const ROUNDS: u32 = 1000;
const NBYTES: usize = 64;
const INDEX: DeviceIndex = DeviceIndex::ZERO;
/// Any number is a stream to a driver that does nothing.
const STREAM: u64 = 0x5000;

/// The driver's functions, as a program without any layer has them.
struct Bare {
    allocate: unsafe extern "C" fn(&mut u64, usize, usize, usize) -> u32,
    free: unsafe extern "C" fn(u64, usize) -> u32,
    synchronize: unsafe extern "C" fn(usize) -> u32,
    copy_in: unsafe extern "C" fn(u64, *const c_void, usize, usize) -> u32,
    copy_out: unsafe extern "C" fn(*mut c_void, u64, usize, usize) -> u32,
    copy: unsafe extern "C" fn(u64, u64, usize, usize) -> u32,
    record: unsafe extern "C" fn(usize, usize) -> u32,
    wait: unsafe extern "C" fn(usize) -> u32,
    set_current: unsafe extern "C" fn(usize) -> u32,
}

impl Bare {
    fn open() -> Result<Self, libloading::Error> {
        // SAFETY: the driver that does nothing has no initialisers.
        let library = Box::leak(Box::new(unsafe { Library::new(fakecuda::null_path())? }));
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the field's type is the documented signature.
                let symbol = unsafe { library.get(concat!($name, "\0").as_bytes())? };
                *symbol
            }};
        }
        Ok(Bare {
            allocate: function!("cuMemAllocFromPoolAsync"),
            free: function!("cuMemFreeAsync"),
            synchronize: function!("cuStreamSynchronize"),
            copy_in: function!("cuMemcpyHtoDAsync_v2"),
            copy_out: function!("cuMemcpyDtoHAsync_v2"),
            copy: function!("cuMemcpyDtoDAsync_v2"),
            record: function!("cuEventRecord"),
            wait: function!("cuEventSynchronize"),
            set_current: function!("cuCtxSetCurrent"),
        })
    }
}

/// What the operations work on.
struct Bench {
    bare: Bare,
    cuda: CudaAllocator,
    a: DeviceSpan,
    b: DeviceSpan,
    host: [u8; NBYTES],
    pinned: Option<PinnedBuffer>,
}

/// By bare calls, and by way of the allocator.
type Pair = (
    &'static str,
    fn(&mut Bench),
    fn(&mut Bench) -> Result<(), DeviceError>,
);

/// The functions' names are known to `cargo xtask overhead`.
const OPERATIONS: [Pair; 8] = [
    ("allocate and free", bare_allocate_free, ours_allocate_free),
    ("copy in", bare_copy_in, ours_copy_in),
    ("copy out", bare_copy_out, ours_copy_out),
    ("copy within", bare_copy_within, ours_copy_within),
    (
        "allocate and free on a stream",
        bare_queued_block,
        ours_queued_block,
    ),
    (
        "copy within on a stream",
        bare_queued_copy,
        ours_queued_copy,
    ),
    ("upload from pinned memory", bare_upload, ours_upload),
    ("upload by staging", bare_staged, ours_staged),
];

fn main() -> Result<(), Box<dyn Error>> {
    let bare = Bare::open()?;
    let cuda = CudaAllocator::new();
    let (a, b) = (cuda.allocate(&request())?, cuda.allocate(&request())?);
    let pinned = Some(cuda.pinned(INDEX, NBYTES)?);
    let mut bench = Bench {
        bare,
        cuda,
        a,
        b,
        host: [1; NBYTES],
        pinned,
    };
    // With `current` the thread has the device's context already, as in programs that use CUDA by other ways too.
    if std::env::args().any(|argument| argument == "current") {
        // SAFETY: the one context that this driver knows.
        let _ = unsafe { (bench.bare.set_current)(0x10) };
    }
    println!("{:32} | {:>10} {:>10}", "operation", "bare ns", "ours ns");
    for (name, bare, ours) in OPERATIONS {
        // Once for what is made at the first use.
        ours(&mut bench)?;
        let start = Instant::now();
        bare(&mut bench);
        let without = start.elapsed();
        let start = Instant::now();
        ours(&mut bench)?;
        let with = start.elapsed();
        let [without, with] = [without, with].map(|time| time.as_nanos() / u128::from(ROUNDS));
        println!("{name:32} | {without:>10} {with:>10}");
    }
    // SAFETY: both blocks are ours, and nothing uses them.
    unsafe { bench.cuda.deallocate(a, INDEX)? };
    // SAFETY: as above.
    unsafe { bench.cuda.deallocate(b, INDEX)? };
    Ok(())
}

fn request() -> AllocationRequest {
    let nbytes = NonZeroU64::new(NBYTES as u64).unwrap_or(NonZeroU64::MIN);
    AllocationRequest::new(INDEX, nbytes)
}

/// Calls functions of a driver that touches no memory.
macro_rules! call {
    ($function:expr) => {{
        // SAFETY: this driver touches nothing but the places for results, which are valid.
        let status = unsafe { $function };
        black_box(status);
    }};
}

#[inline(never)]
fn bare_allocate_free(bench: &mut Bench) {
    for _ in 0..ROUNDS {
        let mut address = 0;
        call!((bench.bare.allocate)(&mut address, NBYTES, 1, 1));
        call!((bench.bare.synchronize)(1));
        call!((bench.bare.free)(address, 1));
    }
}

#[inline(never)]
fn ours_allocate_free(bench: &mut Bench) -> Result<(), DeviceError> {
    for _ in 0..ROUNDS {
        let block = bench.cuda.allocate(&request())?;
        // SAFETY: the block is ours, and nothing uses it.
        unsafe { bench.cuda.deallocate(block, INDEX)? };
    }
    Ok(())
}

#[inline(never)]
fn bare_copy_in(bench: &mut Bench) {
    for _ in 0..ROUNDS {
        let (to, from) = (bench.a.base().get(), bench.host.as_ptr().cast());
        call!((bench.bare.copy_in)(to, from, NBYTES, 1));
        call!((bench.bare.synchronize)(1));
    }
}

#[inline(never)]
fn ours_copy_in(bench: &mut Bench) -> Result<(), DeviceError> {
    for _ in 0..ROUNDS {
        let copy = HostToDevice::new(INDEX, bench.a, &bench.host)?;
        // SAFETY: the block is live and only used here.
        unsafe { bench.cuda.copy_host_to_device(copy)? };
    }
    Ok(())
}

#[inline(never)]
fn bare_copy_out(bench: &mut Bench) {
    for _ in 0..ROUNDS {
        let (to, from) = (bench.host.as_mut_ptr().cast(), bench.a.base().get());
        call!((bench.bare.copy_out)(to, from, NBYTES, 1));
        call!((bench.bare.synchronize)(1));
    }
}

#[inline(never)]
fn ours_copy_out(bench: &mut Bench) -> Result<(), DeviceError> {
    for _ in 0..ROUNDS {
        let copy = DeviceToHost::new(INDEX, &mut bench.host, bench.a)?;
        // SAFETY: the block is live and only used here.
        unsafe { bench.cuda.copy_device_to_host(copy)? };
    }
    Ok(())
}

#[inline(never)]
fn bare_copy_within(bench: &mut Bench) {
    for _ in 0..ROUNDS {
        let (to, from) = (bench.b.base().get(), bench.a.base().get());
        call!((bench.bare.copy)(to, from, NBYTES, 1));
        call!((bench.bare.synchronize)(1));
    }
}

#[inline(never)]
fn ours_copy_within(bench: &mut Bench) -> Result<(), DeviceError> {
    for _ in 0..ROUNDS {
        let copy = DeviceToDevice::new((INDEX, bench.b), (INDEX, bench.a))?;
        // SAFETY: the blocks are live and only used here.
        unsafe { bench.cuda.copy_device_to_device(copy)? };
    }
    Ok(())
}

#[inline(never)]
fn bare_queued_block(bench: &mut Bench) {
    for _ in 0..ROUNDS {
        let mut address = 0;
        call!((bench.bare.allocate)(&mut address, NBYTES, 1, 1));
        call!((bench.bare.free)(address, 1));
    }
}

#[inline(never)]
fn ours_queued_block(bench: &mut Bench) -> Result<(), DeviceError> {
    let stream = StreamHandle::from_raw(STREAM);
    for _ in 0..ROUNDS {
        // SAFETY: a stream to this driver.
        let block = unsafe { bench.cuda.allocate_on(&request(), stream)? };
        // SAFETY: the block is ours, and nothing uses it.
        unsafe { bench.cuda.deallocate_on(block, INDEX, stream)? };
    }
    Ok(())
}

#[inline(never)]
fn bare_queued_copy(bench: &mut Bench) {
    for _ in 0..ROUNDS {
        let (to, from) = (bench.b.base().get(), bench.a.base().get());
        call!((bench.bare.copy)(to, from, NBYTES, 1));
    }
}

#[inline(never)]
fn ours_queued_copy(bench: &mut Bench) -> Result<(), DeviceError> {
    let stream = StreamHandle::from_raw(STREAM);
    for _ in 0..ROUNDS {
        let copy = DeviceToDevice::new((INDEX, bench.b), (INDEX, bench.a))?;
        // SAFETY: the blocks are live and only used here.
        unsafe { bench.cuda.copy_device_to_device_on(copy, stream)? };
    }
    Ok(())
}

#[inline(never)]
fn bare_upload(bench: &mut Bench) {
    for _ in 0..ROUNDS {
        let (to, from) = (bench.a.base().get(), bench.host.as_ptr().cast());
        call!((bench.bare.copy_in)(to, from, NBYTES, 1));
        call!((bench.bare.record)(1, 1));
        call!((bench.bare.wait)(1));
    }
}

#[inline(never)]
fn ours_upload(bench: &mut Bench) -> Result<(), DeviceError> {
    let stream = StreamHandle::from_raw(STREAM);
    for _ in 0..ROUNDS {
        if let Some(pinned) = bench.pinned.take() {
            // SAFETY: the block is live and only used here.
            let up = unsafe { bench.cuda.upload(INDEX, bench.a, pinned, 0, stream)? };
            bench.pinned = Some(up.wait()?);
        }
    }
    Ok(())
}

#[inline(never)]
fn bare_staged(bench: &mut Bench) {
    let mut stage = [0; NBYTES];
    for _ in 0..ROUNDS {
        black_box(&mut stage).copy_from_slice(&bench.host);
        let (to, from) = (bench.a.base().get(), stage.as_ptr().cast());
        call!((bench.bare.copy_in)(to, from, NBYTES, 1));
        call!((bench.bare.record)(1, 1));
    }
}

#[inline(never)]
fn ours_staged(bench: &mut Bench) -> Result<(), DeviceError> {
    let stream = StreamHandle::from_raw(STREAM);
    for _ in 0..ROUNDS {
        // SAFETY: the block is live and only used here.
        let done = unsafe {
            bench
                .cuda
                .upload_staged(INDEX, bench.a, &bench.host, stream)?
        };
        black_box(done);
    }
    Ok(())
}
