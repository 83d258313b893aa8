//! `et bench`: how long loading and running take, and what they need.

mod summary;

use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::inputs;
use crate::literal;
use crate::progress::Counter;
use crate::report::Report;
use crate::session::{self, Session};
use crate::source::{self, Source};
use crate::survey::per_device;
use et_module::{Error, Method, Module, Program};
use et_schema::ByteSource;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// What was found out.
#[derive(Debug)]
struct Bench {
    file: String,
    file_nbytes: u64,
    method: String,
    num_instructions: usize,
    /// What was timed, in the order in which it happens.
    times: Vec<(&'static str, Times)>,
    /// Planned memory by device.
    planned: BTreeMap<String, u64>,
    /// What the method takes besides, by device: for inputs, outputs and state without a plan.
    unplanned: BTreeMap<String, u64>,
    /// Heap blocks taken by one `execute`, and their bytes.
    heap: (u64, u64),
    /// The most memory the process ever had, where the system tells.
    peak_resident: Option<u64>,
    /// The trace of one call.
    trace: Json,
}

/// Times of one thing, sorted.
#[derive(Debug)]
struct Times(Vec<Duration>);

impl Times {
    /// The time that `percent` of all are not longer than.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(rank).copied().unwrap_or_default()
    }
}

/// Times a program; its inputs are made up where none are given.
pub(crate) fn run(args: &BenchArgs, quiet: bool) -> Result<Report, Failure> {
    source::expect_one_stdin(files_read(args))?;
    // Opened once: standard input cannot be read again.
    let source = Source::open(&args.program.file)?;
    let mut session = Session::open(&args.program, &source)?;
    let name = session.default_method(args.method.as_deref())?;
    let clock = Clock::new(args, quiet);
    let mut times = Vec::new();

    let failure = session.failures();
    let load_program = |_: &mut ()| Program::load(source.clone()).map(drop);
    let load_program = clock.time("loading the program", &mut (), |_| Ok(()), load_program);
    times.push(("load program", load_program.map_err(&failure)?));
    let unload = |module: &mut Module| module.unload_method(&name).map(drop);
    let load = |module: &mut Module| module.method(&name).map(drop);
    let load_method = clock.time("loading the method", session.module(), unload, load);
    times.push(("load method", load_method.map_err(&failure)?));

    let specs = session.specs(&name)?;
    let values = match args.input.is_empty() {
        true => session.made_up(&name, &specs)?,
        false => inputs::from_command_line(&args.input, &specs)?,
    };
    let (method, inputs) = session.prepare(&name, &values, &specs)?;
    session::run(method, &inputs).map_err(&failure)?;
    // A run may reuse the memory of its inputs, so they are set again before each.
    let execute = clock.time(
        "running",
        method,
        |method| session::set(method, &inputs),
        Method::execute,
    );
    times.push(("execute", execute.map_err(&failure)?));
    session::set(method, &inputs).map_err(&failure)?;
    let heap = heap_blocks(|| method.execute()).map_err(&failure)?;
    let call = clock.time(
        "calling",
        method,
        |_| Ok(()),
        |method| {
            session::run(method, &inputs)?;
            (0..method.num_outputs()).try_for_each(|index| method.output_to_host(index).map(drop))
        },
    );
    times.push(("call", call.map_err(&failure)?));
    drop(clock);

    let peak_resident = peak_resident();
    let meta = session.module().method_meta(&name).map_err(&failure)?;
    let map = session.module().environment().device_map.clone();
    let planned = meta.memory_plan(&map).map_err(&failure)?;
    let unplanned = meta.unplanned_memory(&map).map_err(&failure)?;
    let (mut watched, recorder) = Session::watched(&args.program, &source, Vec::new())?;
    watched.call(&name, &values, &specs, (1, false), || recorder.begin_run())?;
    let bench = Bench {
        file: session.name(),
        file_nbytes: ByteSource::len(session.source()),
        num_instructions: meta.num_instructions(),
        method: name,
        times,
        planned: per_device(&planned),
        unplanned: per_device(&unplanned),
        heap,
        peak_resident,
        trace: recorder.document(),
    };
    Ok(summary::report(&bench, session::device_type(&args.program)))
}

fn files_read(args: &BenchArgs) -> impl Iterator<Item = &Path> {
    args.program.files().chain(literal::files(&args.input))
}

/// How often things are done, and a line on the terminal meanwhile.
struct Clock {
    warmup: u32,
    iterations: u32,
    counter: Counter,
}

impl Clock {
    fn new(args: &BenchArgs, quiet: bool) -> Self {
        Self {
            warmup: args.warmup,
            iterations: args.iterations,
            counter: Counter::new(quiet),
        }
    }

    /// Times `action` on something, each time by itself; `prepare` comes before each and is not timed.
    fn time<T>(
        &self,
        what: &str,
        on: &mut T,
        prepare: impl Fn(&mut T) -> Result<(), Error>,
        action: impl Fn(&mut T) -> Result<(), Error>,
    ) -> Result<Times, Error> {
        self.counter
            .begin(what, u64::from(self.warmup) + u64::from(self.iterations));
        for _ in 0..self.warmup {
            prepare(on)?;
            action(on)?;
            self.counter.advance();
        }
        let mut times = Vec::new();
        for _ in 0..self.iterations {
            prepare(on)?;
            let start = Instant::now();
            action(on)?;
            times.push(start.elapsed());
            self.counter.advance();
        }
        times.sort_unstable();
        Ok(Times(times))
    }
}

/// Heap blocks that something takes, and their bytes.
fn heap_blocks(action: impl FnOnce() -> Result<(), Error>) -> Result<(u64, u64), Error> {
    let before = crate::HEAP.stats();
    action()?;
    let taken = crate::HEAP.stats() - before;
    let blocks = taken.allocations + taken.reallocations;
    Ok((blocks as u64, taken.bytes_allocated as u64))
}

/// The most memory that this process ever had at once, in bytes, as Linux tells it.
fn peak_resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_percentile(count: u64, percent: usize, expected_ms: u64) {
        let times = Times((1..=count).map(Duration::from_millis).collect());
        assert_eq!(
            times.percentile(percent).as_millis(),
            u128::from(expected_ms)
        );
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        check_percentile(1, 5, 1);
        check_percentile(1, 95, 1);
        check_percentile(3, 50, 2);
        check_percentile(4, 50, 2);
        check_percentile(100, 5, 5);
        check_percentile(100, 95, 95);
        check_percentile(10, 95, 10);
    }

    #[test]
    fn heap_blocks_of_an_action_are_counted() {
        // Other tests of the process may take blocks too, so there may be more.
        let taken = heap_blocks(|| {
            drop(std::hint::black_box(vec![0u8; 1000]));
            Ok(())
        });
        let (blocks, nbytes) = taken.unwrap();
        assert!(blocks >= 1 && nbytes >= 1000, "{blocks} {nbytes}");
    }
}
