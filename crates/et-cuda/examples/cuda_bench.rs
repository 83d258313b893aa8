//! Bandwidth of copies and latency of allocations, by bare calls of the driver and by way of the allocator.
//!
//! Prints lines `what | figure`. Copies are measured from pageable memory (as any slice is), from pinned memory, and through
//! the staging ring; the bare call on pinned memory is what the hardware gives. Ends with status 3 if there is no driver or
//! no device.
//!
//! ```text
//! cargo run --release -p et-cuda --example cuda_bench
//! ```
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints what it found out"
)]

mod driver;

use driver::{Driver, call};
use et_cuda::{CudaAllocator, PinnedBuffer};
use et_device::{
    AllocationRequest, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan, DeviceToHost,
    HostToDevice, StreamHandle,
};
use std::error::Error;
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The exit status for a machine that has nothing to measure.
const NO_DEVICE: u8 = 3;
const INDEX: DeviceIndex = DeviceIndex::ZERO;
const SIZES: [usize; 4] = [4 << 10, 256 << 10, 4 << 20, 64 << 20];
/// How long one figure is measured, at most; at least three times in any case.
const PATIENCE: Duration = Duration::from_millis(150);

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    if let Err(error) = et_cuda::probe() {
        eprintln!("error: {error}");
        return ExitCode::from(NO_DEVICE);
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Outcome {
    let driver = Driver::open()?;
    driver.enter()?;
    let bench = Bench {
        driver,
        stream: driver.stream()?,
        cuda: CudaAllocator::new(),
    };
    let mut name = String::new();
    bench.cuda.describe(INDEX, &mut name)?;
    println!("{:44} | {name}", "device");
    for nbytes in SIZES {
        bench.copies(nbytes)?;
    }
    for nbytes in SIZES {
        bench.allocations(nbytes)?;
    }
    let status = call!(driver.destroy_stream(bench.stream));
    Ok(driver.expect("cuStreamDestroy", status)?)
}

struct Bench {
    driver: &'static Driver,
    stream: usize,
    cuda: CudaAllocator,
}

/// The shortest time that one round takes.
fn shortest(mut round: impl FnMut() -> Outcome) -> Result<Duration, Box<dyn Error>> {
    round()?;
    let (begin, mut least, mut rounds) = (Instant::now(), Duration::MAX, 0);
    while rounds < 3 || begin.elapsed() < PATIENCE {
        let start = Instant::now();
        round()?;
        least = least.min(start.elapsed());
        rounds += 1;
    }
    Ok(least)
}

fn size(nbytes: usize) -> String {
    match nbytes >> 20 {
        0 => format!("{} KiB", nbytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

fn bandwidth(what: &str, nbytes: usize, time: Duration) {
    let rate = nbytes as f64 / time.as_secs_f64() / 1e9;
    let microseconds = time.as_secs_f64() * 1e6;
    println!(
        "{:44} | {rate:.2} GB/s, {microseconds:.1} us",
        format!("{what}, {}", size(nbytes))
    );
}

fn latency(what: &str, nbytes: usize, time: Duration) {
    let microseconds = time.as_secs_f64() * 1e6;
    println!(
        "{:44} | {microseconds:.2} us",
        format!("{what}, {}", size(nbytes))
    );
}

impl Bench {
    fn handle(&self) -> StreamHandle {
        StreamHandle::from_raw(self.stream as u64)
    }

    fn request(nbytes: usize) -> AllocationRequest {
        let nbytes = NonZeroU64::new(nbytes as u64).unwrap_or(NonZeroU64::MIN);
        AllocationRequest::new(INDEX, nbytes)
    }

    fn copies(&self, nbytes: usize) -> Outcome {
        let block = self.cuda.allocate(&Self::request(nbytes))?;
        let outcome = self
            .copies_in(block, nbytes)
            .and_then(|()| self.copies_out(block, nbytes));
        // SAFETY: the block is ours, and every copy was waited for.
        unsafe { self.cuda.deallocate(block, INDEX)? };
        outcome
    }

    fn copies_in(&self, block: DeviceSpan, nbytes: usize) -> Outcome {
        let (driver, to) = (self.driver, block.base().get());
        let pageable = vec![1u8; nbytes];
        let pinned = self.cuda.pinned(INDEX, nbytes)?;
        let time = shortest(|| {
            let status = call!(driver.copy_in(to, pinned.as_ptr().cast(), nbytes, self.stream));
            driver.expect("cuMemcpyHtoDAsync", status)?;
            Ok(driver.expect(
                "cuStreamSynchronize",
                call!(driver.synchronize(self.stream)),
            )?)
        })?;
        bandwidth("to the device, bare call on pinned", nbytes, time);
        let mut pinned = Some(pinned);
        let time = shortest(|| {
            // SAFETY: the block is live and only used here.
            let queue =
                |buffer| unsafe { self.cuda.upload(INDEX, block, buffer, 0, self.handle()) };
            through(&mut pinned, |buffer| queue(buffer)?.wait())
        })?;
        bandwidth("to the device, pinned", nbytes, time);
        let time = shortest(|| {
            // SAFETY: the block is live and only used here.
            let done = unsafe {
                self.cuda
                    .upload_staged(INDEX, block, &pageable, self.handle())?
            };
            Ok(done.wait()?)
        })?;
        bandwidth("to the device, staged", nbytes, time);
        let time = shortest(|| {
            let copy = HostToDevice::new(INDEX, block, &pageable)?;
            // SAFETY: the block is live and only used here.
            unsafe { self.cuda.copy_host_to_device(copy)? };
            Ok(())
        })?;
        bandwidth("to the device, pageable", nbytes, time);
        Ok(())
    }

    fn copies_out(&self, block: DeviceSpan, nbytes: usize) -> Outcome {
        let (driver, from) = (self.driver, block.base().get());
        let mut pageable = vec![1u8; nbytes];
        let mut pinned = self.cuda.pinned(INDEX, nbytes)?;
        let time = shortest(|| {
            let place = pinned.as_mut_ptr().cast();
            let status = call!(driver.copy_out(place, from, nbytes, self.stream));
            driver.expect("cuMemcpyDtoHAsync", status)?;
            Ok(driver.expect(
                "cuStreamSynchronize",
                call!(driver.synchronize(self.stream)),
            )?)
        })?;
        bandwidth("to the host, bare call on pinned", nbytes, time);
        let mut pinned = Some(pinned);
        let time = shortest(|| {
            // SAFETY: the block is live and only used here.
            let queue =
                |buffer| unsafe { self.cuda.download(INDEX, buffer, 0, block, self.handle()) };
            through(&mut pinned, |buffer| queue(buffer)?.wait())
        })?;
        bandwidth("to the host, pinned", nbytes, time);
        let time = shortest(|| {
            // SAFETY: the block is live and only used here.
            unsafe {
                self.cuda
                    .download_staged(INDEX, &mut pageable, block, self.handle())?
            };
            Ok(())
        })?;
        bandwidth("to the host, staged", nbytes, time);
        let time = shortest(|| {
            let copy = DeviceToHost::new(INDEX, &mut pageable, block)?;
            // SAFETY: the block is live and only used here.
            unsafe { self.cuda.copy_device_to_host(copy)? };
            Ok(())
        })?;
        bandwidth("to the host, pageable", nbytes, time);
        Ok(())
    }

    fn allocations(&self, nbytes: usize) -> Outcome {
        let driver = self.driver;
        let time = shortest(|| {
            let mut address = 0;
            driver.expect("cuMemAlloc", call!(driver.allocate(&mut address, nbytes)))?;
            Ok(driver.expect("cuMemFree", call!(driver.free(address)))?)
        })?;
        latency("allocate and free, bare, no pool", nbytes, time);
        let time = shortest(|| {
            let block = self.cuda.allocate(&Self::request(nbytes))?;
            // SAFETY: the block is ours, and nothing uses it.
            unsafe { self.cuda.deallocate(block, INDEX)? };
            Ok(())
        })?;
        latency("allocate and free", nbytes, time);
        let time = shortest(|| {
            // SAFETY: our own stream.
            let block = unsafe {
                self.cuda
                    .allocate_on(&Self::request(nbytes), self.handle())?
            };
            // SAFETY: the block is ours, and nothing uses it.
            unsafe { self.cuda.deallocate_on(block, INDEX, self.handle())? };
            Ok(())
        })?;
        latency("allocate and free on a stream", nbytes, time);
        Ok(driver.expect(
            "cuStreamSynchronize",
            call!(driver.synchronize(self.stream)),
        )?)
    }
}

/// Lends the buffer to a transfer and takes it back.
fn through(
    buffer: &mut Option<PinnedBuffer>,
    work: impl FnOnce(PinnedBuffer) -> Result<PinnedBuffer, DeviceError>,
) -> Outcome {
    let lent = buffer.take().ok_or("an earlier transfer failed")?;
    *buffer = Some(work(lent)?);
    Ok(())
}
