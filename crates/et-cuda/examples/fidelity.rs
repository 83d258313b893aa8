//! What a CUDA driver does in the corners that the fake driver imitates.
//!
//! Prints one line per question, `question | answer`. `cargo xtask device` runs it on the machine's driver and on the fake
//! one, and sets the answers side by side. Ends with status 3 if there is no driver or no device.
//!
//! ```text
//! cargo run -p et-cuda --example fidelity
//! ```
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints what it found out"
)]

mod driver;

use driver::{Driver, ORDINAL, call};
use std::error::Error;
use std::ffi::{CStr, c_void};
use std::process::ExitCode;

/// The exit status for a machine that has nothing to ask.
const NO_DEVICE: u8 = 3;

const RELEASE_THRESHOLD: i32 = 4;
const RESERVED: i32 = 5;

fn main() -> ExitCode {
    if let Err(error) = et_cuda::probe() {
        eprintln!("error: {error}");
        return ExitCode::from(NO_DEVICE);
    }
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer() -> Result<(), Box<dyn Error>> {
    let driver = Driver::open()?;
    let context = driver.enter()?;
    let stream = driver.stream()?;
    let asked = Asked { driver, stream };
    asked.identity();
    asked.nothing();
    asked.blocks()?;
    asked.without_context()?;
    asked.mixed_frees()?;
    asked.pools()?;
    asked.streams_and_events(context)?;
    asked.pinned_memory();
    Ok(())
}

fn say(question: &str, answer: impl std::fmt::Display) {
    println!("{question:52} | {answer}");
}

struct Asked {
    driver: &'static Driver,
    stream: usize,
}

impl Asked {
    fn status(&self, question: &str, status: u32) {
        say(question, self.driver.name(status));
    }

    fn identity(&self) {
        let driver = self.driver;
        let (mut version, mut count, mut name) = (0, 0, [0u8; 128]);
        let _ = call!(driver.version(&mut version));
        let _ = call!(driver.device_count(&mut count));
        let _ = call!(driver.device_name(name.as_mut_ptr().cast(), 127, ORDINAL));
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        say("driver's CUDA version", version);
        say("devices", count);
        say("name of the first", name.to_string_lossy());
    }

    fn nothing(&self) {
        let driver = self.driver;
        let mut address = 7;
        self.status(
            "cuMemAlloc of 0 bytes",
            call!(driver.allocate(&mut address, 0)),
        );
        let status = call!(driver.allocate_async(&mut address, 0, self.stream));
        self.status("cuMemAllocAsync of 0 bytes", status);
        say(
            "the place for the address after both",
            format!("{address:#x}"),
        );
        self.status("cuMemFree of 0", call!(driver.free(0)));
        self.status(
            "cuMemFreeAsync of 0",
            call!(driver.free_async(0, self.stream)),
        );
        self.status(
            "copy of 0 bytes to 0",
            call!(driver.copy_in(0, std::ptr::null(), 0, self.stream)),
        );
    }

    fn plain(&self, nbytes: usize) -> Result<u64, String> {
        let (driver, mut address) = (self.driver, 0);
        driver.expect("cuMemAlloc", call!(driver.allocate(&mut address, nbytes)))?;
        Ok(address)
    }

    fn pooled(&self, nbytes: usize) -> Result<u64, String> {
        let (driver, mut address) = (self.driver, 0);
        let status = call!(driver.allocate_async(&mut address, nbytes, self.stream));
        driver.expect("cuMemAllocAsync", status)?;
        Ok(address)
    }

    fn wait(&self) -> Result<(), String> {
        let driver = self.driver;
        driver.expect(
            "cuStreamSynchronize",
            call!(driver.synchronize(self.stream)),
        )
    }

    fn blocks(&self) -> Result<(), String> {
        let driver = self.driver;
        let plain: Result<Vec<u64>, String> = (0..4).map(|_| self.plain(1)).collect();
        let pooled: Result<Vec<u64>, String> = (0..4).map(|_| self.pooled(1)).collect();
        let (plain, pooled) = (plain?, pooled?);
        self.wait()?;
        let alignment = |all: &[u64]| all.iter().map(|a| a.trailing_zeros()).min().unwrap_or(0);
        let least_256 = |all: &[u64]| {
            if alignment(all) >= 8 {
                "256 or more"
            } else {
                "less than 256"
            }
        };
        say("alignment of cuMemAlloc", least_256(&plain));
        say("alignment of pool blocks", least_256(&pooled));
        let host = [0u8; 64];
        let from: *const c_void = host.as_ptr().cast();
        self.status(
            "copy of 64 bytes into a block of 1",
            call!(driver.copy_in_now(plain[0], from, 64)),
        );
        self.status(
            "cuMemFree of an address inside of a block",
            call!(driver.free(plain[0] + 64)),
        );
        self.status("cuMemFree", call!(driver.free(plain[0])));
        self.status("cuMemFree again", call!(driver.free(plain[0])));
        for address in &plain[1..] {
            let _ = call!(driver.free(*address));
        }
        for address in pooled {
            let _ = call!(driver.free_async(address, self.stream));
        }
        self.wait()
    }

    fn without_context(&self) -> Result<(), String> {
        let (plain, other, pooled) = (self.plain(64)?, self.plain(64)?, self.pooled(64)?);
        self.wait()?;
        let (driver, stream) = (self.driver, self.stream);
        let mut event = 0;
        driver.expect("cuEventCreate", call!(driver.create_event(&mut event, 2)))?;
        // A new thread has no context.
        let answers = std::thread::scope(|scope| {
            let asked = scope.spawn(move || {
                let mut kind = 0;
                [
                    call!(driver.free(plain)),
                    call!(driver.free_async(pooled, stream)),
                    call!(driver.pointer_attribute(&mut kind, 2, other)),
                    call!(driver.synchronize(stream)),
                    call!(driver.query_event(event)),
                    call!(driver.wait_for_event(event)),
                ]
            });
            asked.join()
        });
        let answers = answers.map_err(|_| "the thread without a context panicked")?;
        let questions = [
            "without a context: cuMemFree",
            "without a context: cuMemFreeAsync on a stream",
            "without a context: cuPointerGetAttribute",
            "without a context: cuStreamSynchronize",
            "without a context: cuEventQuery",
            "without a context: cuEventSynchronize",
        ];
        for (question, status) in questions.iter().zip(answers) {
            self.status(question, status);
        }
        // What was refused is given back now; what was not is an error of no consequence.
        if answers[0] != 0 {
            let _ = call!(driver.free(plain));
        }
        if answers[1] != 0 {
            let _ = call!(driver.free_async(pooled, stream));
        }
        let _ = call!(driver.free(other));
        let _ = call!(driver.destroy_event(event));
        self.wait()
    }

    fn mixed_frees(&self) -> Result<(), String> {
        let driver = self.driver;
        let plain = self.plain(64)?;
        let status = call!(driver.free_async(plain, self.stream));
        self.status("cuMemFreeAsync of a cuMemAlloc block", status);
        let pooled = self.pooled(64)?;
        self.status("cuMemFree of a pool block", call!(driver.free(pooled)));
        self.wait()
    }

    fn pools(&self) -> Result<(), String> {
        let driver = self.driver;
        let (mut device, mut pool) = (0, 0);
        driver.expect("cuDeviceGet", call!(driver.device(&mut device, ORDINAL)))?;
        let status = call!(driver.default_pool(&mut pool, device));
        driver.expect("cuDeviceGetDefaultMemPool", status)?;
        let attribute = |number| {
            let mut value = 0;
            let status = call!(driver.pool_get_attribute(pool, number, &mut value));
            driver
                .expect("cuMemPoolGetAttribute", status)
                .map(|()| value)
        };
        say(
            "release threshold of the default pool",
            attribute(RELEASE_THRESHOLD)?,
        );
        let address = self.pooled(1)?;
        say(
            "bytes that a pool reserves for 1 byte",
            attribute(RESERVED)?,
        );
        let _ = call!(driver.free_async(address, self.stream));
        self.wait()?;
        say(
            "  after the free and a synchronisation",
            attribute(RESERVED)?,
        );
        Ok(())
    }

    fn streams_and_events(&self, context: usize) -> Result<(), String> {
        let driver = self.driver;
        for (stream, name) in [(0, "NULL"), (2, "per-thread"), (self.stream, "own")] {
            let mut found = 0;
            let status = call!(driver.stream_context(stream, &mut found));
            let answer = if status == 0 && found == context {
                "the current one".into()
            } else {
                driver.name(status)
            };
            say(&format!("context of the {name} stream"), answer);
        }
        self.status(
            "cuStreamQuery of an idle stream",
            call!(driver.query_stream(self.stream)),
        );
        let mut event = 0;
        driver.expect("cuEventCreate", call!(driver.create_event(&mut event, 2)))?;
        self.status(
            "cuEventQuery before any record",
            call!(driver.query_event(event)),
        );
        self.status(
            "cuEventSynchronize before any record",
            call!(driver.wait_for_event(event)),
        );
        self.status("cuEventRecord", call!(driver.record(event, self.stream)));
        self.wait()?;
        self.status(
            "cuEventQuery after the stream was waited for",
            call!(driver.query_event(event)),
        );
        self.status("cuEventDestroy", call!(driver.destroy_event(event)));
        Ok(())
    }

    fn pinned_memory(&self) {
        let driver = self.driver;
        let mut place = std::ptr::null_mut();
        self.status(
            "cuMemHostAlloc of 0 bytes",
            call!(driver.host_allocate(&mut place, 0, 0)),
        );
        let status = call!(driver.host_allocate(&mut place, 4096, 0));
        self.status("cuMemHostAlloc", status);
        if status != 0 {
            return;
        }
        let mut kind = 0;
        let status = call!(driver.pointer_attribute(&mut kind, 2, place as u64));
        say(
            "cuPointerGetAttribute of pinned memory",
            format!("{}, kind {kind}", driver.name(status)),
        );
        self.status("cuMemFreeHost", call!(driver.host_free(place)));
        let mut own = [0u8; 64];
        let status = call!(driver.host_free(own.as_mut_ptr().cast()));
        self.status("cuMemFreeHost of ordinary memory", status);
    }
}
