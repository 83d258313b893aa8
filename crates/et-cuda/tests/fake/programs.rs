//! Random programs over several streams and devices, against a model of what every block holds.

use crate::faults::elsewhere;
use crate::no_pools::WithoutPools;
use crate::schedules::run_out;
use crate::staging::with_chunks_of;
use crate::streams::alone;
use crate::support::{Block, ForeignStream, index, pinned};
use et_cuda::{CudaAllocator, CudaEvent, PinnedBuffer, Transfer};
use et_device::{DeviceAllocator, DeviceError, StreamHandle};
use std::panic::catch_unwind;

const PROGRAMS: u64 = 200;
const STEPS: usize = 80;
/// Sizes around the chunks of the ring, which hold 100 bytes.
const SIZES: [usize; 6] = [1, 64, 99, 100, 101, 350];

/// Numbers that look random and are the same for a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % end
    }

    fn bytes(&mut self, nbytes: usize) -> Vec<u8> {
        (0..nbytes).map(|_| self.below(256) as u8).collect()
    }
}

struct Held<'a> {
    block: Block<'a>,
    /// The device, as a place in [`Program::ordinals`].
    device: usize,
    /// What the block holds once all work that was queued is done.
    model: Vec<u8>,
    /// The work that must be over before anybody else touches the block, and its stream.
    last: Option<(usize, CudaEvent)>,
}

struct Program<'a> {
    allocator: &'a CudaAllocator,
    ordinals: [usize; 2],
    /// Two of the first device, one of the second.
    streams: [ForeignStream; 3],
    held: Vec<Held<'a>>,
    /// Copies to the host that are under way, with what they must bring.
    downloads: Vec<(Transfer, Vec<u8>)>,
    uploads: Vec<Transfer>,
    numbers: Numbers,
}

impl<'a> Program<'a> {
    fn new(allocator: &'a CudaAllocator, ordinals: [usize; 2], seed: u64) -> Self {
        let [here, there] = ordinals;
        Program {
            allocator,
            ordinals,
            streams: [here, here, there].map(ForeignStream::of),
            held: Vec::new(),
            downloads: Vec::new(),
            uploads: Vec::new(),
            numbers: Numbers(seed),
        }
    }

    fn run(mut self) -> Result<(), DeviceError> {
        for _ in 0..STEPS {
            self.step()?;
        }
        while let Some((download, expected)) = self.downloads.pop() {
            assert_eq!(download.wait()?[..], expected);
        }
        while !self.held.is_empty() {
            self.give_back()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), DeviceError> {
        match self.numbers.below(12) {
            0 | 1 => self.allocate(),
            2 => self.give_back(),
            3 => self.write_now(),
            4 => self.read_now(),
            5 | 6 => self.upload(),
            7 => self.upload_staged(),
            8 => self.download(),
            9 => self.download_staged(),
            10 => self.copy(),
            _ => self.finish_one(),
        }
    }

    fn handle(&self, stream: usize) -> StreamHandle {
        self.streams[stream].handle()
    }

    fn device_of(stream: usize) -> usize {
        usize::from(stream == 2)
    }

    fn index_of(&self, stream: usize) -> et_device::DeviceIndex {
        index(self.ordinals[Self::device_of(stream)])
    }

    fn stream_on(&mut self, device: usize) -> usize {
        match device {
            0 => self.numbers.below(2),
            _ => 2,
        }
    }

    fn pick(&mut self) -> Option<usize> {
        (!self.held.is_empty()).then(|| self.numbers.below(self.held.len()))
    }

    fn allocate(&mut self) -> Result<(), DeviceError> {
        let nbytes = SIZES[self.numbers.below(SIZES.len())];
        let device = self.numbers.below(2);
        let ordinal = self.ordinals[device];
        let (block, last) = if self.numbers.below(2) == 0 {
            (Block::new(self.allocator, ordinal, nbytes as u64)?, None)
        } else {
            let stream = self.stream_on(device);
            let on = self.handle(stream);
            let block = Block::on_stream(self.allocator, ordinal, nbytes as u64, on)?;
            (block, Some((stream, self.record(stream)?)))
        };
        self.held.push(Held {
            block,
            device,
            model: Vec::new(),
            last,
        });
        // A block without contents is nothing to compare.
        self.fill_last(nbytes)
    }

    fn fill_last(&mut self, nbytes: usize) -> Result<(), DeviceError> {
        let (at, bytes) = (self.held.len() - 1, self.numbers.bytes(nbytes));
        let (stream, on) = self.enter(at)?;
        self.held[at].block.upload_staged(&bytes, on)?;
        self.leave(at, stream, bytes)
    }

    fn record(&self, stream: usize) -> Result<CudaEvent, DeviceError> {
        // SAFETY: a live stream of this device.
        unsafe {
            self.allocator
                .record(self.index_of(stream), self.handle(stream))
        }
    }

    /// A stream that comes behind all work on a block.
    fn enter(&mut self, at: usize) -> Result<(usize, StreamHandle), DeviceError> {
        let stream = self.stream_on(self.held[at].device);
        let on = self.handle(stream);
        if let Some((_, event)) = self.held[at]
            .last
            .as_ref()
            .filter(|(last, _)| *last != stream)
        {
            // SAFETY: a live stream of this device.
            unsafe { self.allocator.wait_for(self.index_of(stream), on, event)? };
        }
        Ok((stream, on))
    }

    fn leave(&mut self, at: usize, stream: usize, model: Vec<u8>) -> Result<(), DeviceError> {
        self.held[at].last = Some((stream, self.record(stream)?));
        self.held[at].model = model;
        Ok(())
    }

    /// Waits until nothing is under way on a block.
    fn settle(&mut self, at: usize) -> Result<(), DeviceError> {
        match self.held[at].last.take() {
            Some((_, event)) => event.wait(),
            None => Ok(()),
        }
    }

    fn give_back(&mut self) -> Result<(), DeviceError> {
        let Some(at) = self.pick() else { return Ok(()) };
        let (stream, on) = self.enter(at)?;
        let held = self.held.swap_remove(at);
        if self.numbers.below(2) == 0 {
            return held.block.free_on(on);
        }
        // Given back plainly while work is under way, which is told.
        match held.last {
            Some((last, event)) if last != stream => {
                let device = index(self.ordinals[held.device]);
                self.allocator
                    .keep_until(held.block.span(), device, &event)?;
            }
            _ => held.block.record_use(on)?,
        }
        held.block.free()
    }

    fn write_now(&mut self) -> Result<(), DeviceError> {
        let Some(at) = self.pick() else { return Ok(()) };
        self.settle(at)?;
        let bytes = self.numbers.bytes(self.held[at].model.len());
        self.held[at].block.write(&bytes)?;
        self.held[at].model = bytes;
        Ok(())
    }

    fn read_now(&mut self) -> Result<(), DeviceError> {
        let Some(at) = self.pick() else { return Ok(()) };
        // The thread's copies come behind the stream's work if the stream is selected.
        let (stream, on) = self.enter(at)?;
        // SAFETY: the stream lives longer than the guard.
        let _guard = unsafe { self.allocator.select_stream(self.index_of(stream), on)? };
        assert_eq!(self.held[at].block.read()?, self.held[at].model);
        Ok(())
    }

    fn buffer(&self, at: usize, bytes: &[u8]) -> Result<PinnedBuffer, DeviceError> {
        pinned(self.allocator, self.ordinals[self.held[at].device], bytes)
    }

    fn upload(&mut self) -> Result<(), DeviceError> {
        let Some(at) = self.pick() else { return Ok(()) };
        let bytes = self.numbers.bytes(self.held[at].model.len());
        let buffer = self.buffer(at, &bytes)?;
        let (stream, on) = self.enter(at)?;
        let up = self.held[at].block.upload(buffer, on)?;
        self.uploads.push(up);
        self.leave(at, stream, bytes)
    }

    fn upload_staged(&mut self) -> Result<(), DeviceError> {
        let Some(at) = self.pick() else { return Ok(()) };
        let mut bytes = self.numbers.bytes(self.held[at].model.len());
        let model = bytes.clone();
        let (stream, on) = self.enter(at)?;
        self.held[at].block.upload_staged(&bytes, on)?;
        bytes.fill(0);
        self.leave(at, stream, model)
    }

    fn download(&mut self) -> Result<(), DeviceError> {
        let Some(at) = self.pick() else { return Ok(()) };
        let model = self.held[at].model.clone();
        let buffer = self.buffer(at, &vec![0xEE; model.len()])?;
        let (stream, on) = self.enter(at)?;
        let down = self.held[at].block.download(buffer, on)?;
        self.downloads.push((down, model.clone()));
        self.leave(at, stream, model)
    }

    fn download_staged(&mut self) -> Result<(), DeviceError> {
        let Some(at) = self.pick() else { return Ok(()) };
        let mut bytes = vec![0xEE; self.held[at].model.len()];
        let (_, on) = self.enter(at)?;
        self.held[at].block.download_staged(&mut bytes, on)?;
        assert_eq!(bytes, self.held[at].model);
        Ok(())
    }

    /// Copies between two blocks of one size, perhaps of different devices.
    fn copy(&mut self) -> Result<(), DeviceError> {
        let (Some(from), Some(to)) = (self.pick(), self.pick()) else {
            return Ok(());
        };
        if from == to || self.held[from].model.len() != self.held[to].model.len() {
            return Ok(());
        }
        // The copy is on a stream of its source's device, behind the work on both blocks.
        let (stream, on) = self.enter(from)?;
        if let Some((_, event)) = &self.held[to].last {
            // SAFETY: a live stream of this device.
            unsafe { self.allocator.wait_for(self.index_of(stream), on, event)? };
        }
        self.held[to]
            .block
            .copy_from_on(&self.held[from].block, on)?;
        let model = self.held[from].model.clone();
        self.leave(from, stream, model.clone())?;
        self.leave(to, stream, model)
    }

    fn finish_one(&mut self) -> Result<(), DeviceError> {
        if let Some((download, expected)) = self.downloads.pop() {
            assert_eq!(download.wait()?[..], expected);
        }
        self.uploads.pop().map_or(Ok(()), |up| up.wait().map(drop))
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // After an error work may be under way that no block was told of, and the blocks go now.
        for ordinal in self.ordinals {
            let wait = || self.allocator.synchronize(index(ordinal));
            let _ = wait().or_else(|_| wait());
        }
    }
}

#[test]
fn random_programs_read_what_they_wrote_under_random_schedules() {
    for pools in [true, false] {
        let devices = alone();
        let guard = (!pools).then(WithoutPools::new);
        for seed in 0..PROGRAMS {
            fakecuda::schedule(seed);
            let allocator = with_chunks_of(100);
            let ordinals = [devices[0].ordinal(), devices[1].ordinal()];
            let outcome = Program::new(&allocator, ordinals, seed).run();
            assert_eq!(outcome, Ok(()), "seed {seed}, pools {pools}");
            for device in &devices {
                allocator.synchronize(index(device.ordinal())).unwrap();
                assert_eq!(device.violations(), "", "seed {seed}, pools {pools}");
                assert_eq!(device.stats().live_allocs, 0, "seed {seed}, pools {pools}");
            }
        }
        fakecuda::schedule(0);
        drop(guard);
        devices.iter().for_each(run_out);
    }
}

#[test]
fn random_programs_share_an_allocator() {
    let devices = alone();
    for schedule in 0..20 {
        fakecuda::schedule(schedule);
        let allocator = with_chunks_of(100);
        let ordinals = [devices[0].ordinal(), devices[1].ordinal()];
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let allocator = &allocator;
                scope.spawn(move || {
                    let seed = schedule * 4 + thread;
                    let outcome = Program::new(allocator, ordinals, seed).run();
                    assert_eq!(outcome, Ok(()), "schedule {schedule}, thread {thread}");
                });
            }
        });
        fakecuda::schedule(0);
        drop(allocator);
        for device in &devices {
            let left = (device.stats().live_allocs, device.stats().live_events);
            assert_eq!(
                (device.violations().as_str(), left),
                ("", (0, 0)),
                "{schedule}"
            );
        }
    }
}

/// Some call fails once, somewhere: the program ends with that error or goes on, and nothing is left or used too early.
#[test]
fn random_programs_survive_a_failed_call() {
    const SYMBOLS: [&str; 14] = [
        "cuCtxGetCurrent",
        "cuCtxPushCurrent_v2",
        "cuMemAllocFromPoolAsync",
        "cuMemFreeAsync",
        "cuMemHostAlloc",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoDAsync_v2",
        "cuStreamSynchronize",
        "cuStreamWaitEvent",
        "cuStreamGetCtx",
        "cuEventRecord",
        "cuEventSynchronize",
        "cuEventQuery",
    ];
    let devices = alone();
    let mut failed = 0;
    for seed in 0..PROGRAMS {
        let mut numbers = Numbers(seed + 1000);
        let symbol = SYMBOLS[numbers.below(SYMBOLS.len())];
        let code = [1, 2, 999, 12345][numbers.below(4)];
        fakecuda::schedule(seed);
        let allocator = with_chunks_of(100);
        let ordinals = [devices[0].ordinal(), devices[1].ordinal()];
        let program = Program::new(&allocator, ordinals, seed);
        fakecuda::fail_everywhere(symbol, numbers.below(60) as u64, 1, code);
        let outcome = program.run();
        fakecuda::clear_everywhere();
        failed += u32::from(outcome.is_err());
        fakecuda::schedule(0);
        drop(allocator);
        for device in &devices {
            let left = (device.stats().live_allocs, device.stats().live_events);
            let what = format!("seed {seed}, {symbol} with {code}: {outcome:?}");
            assert_eq!((device.violations().as_str(), left), ("", (0, 0)), "{what}");
        }
    }
    assert!(failed > 50, "{failed}");
}

/// The control: without the waits of streams for each other, many programs read something else, or worse.
#[test]
fn random_programs_without_waits_are_caught() {
    elsewhere("programs::random_programs_without_waits_are_caught", || {
        let mut devices = alone();
        devices
            .iter_mut()
            .for_each(fakecuda::Device::allow_leftovers);
        // Every other one of these failures is expected, so none of them prints a panic.
        std::panic::set_hook(Box::new(|_| {}));
        let caught = (0..PROGRAMS).filter(|seed| {
            fakecuda::schedule(*seed);
            fakecuda::fail_everywhere("cuStreamWaitEvent", 0, u64::MAX, 0);
            let ordinals = [devices[0].ordinal(), devices[1].ordinal()];
            let outcome = catch_unwind(|| {
                let allocator = with_chunks_of(100);
                Program::new(&allocator, ordinals, *seed).run()
            });
            let violations: String = devices.iter().map(fakecuda::Device::violations).collect();
            fakecuda::schedule(0);
            fakecuda::clear_everywhere();
            devices.iter().for_each(run_out);
            !matches!(outcome, Ok(Ok(()))) || !violations.is_empty()
        });
        let caught = caught.count();
        println!("without cuStreamWaitEvent: {caught} of {PROGRAMS} programs caught");
        assert!(caught > 150, "{caught}");
    });
}
