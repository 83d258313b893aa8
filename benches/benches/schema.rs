//! Verifying and validating programs: what it costs per byte and per value, beside FlatBuffers verification alone.
//!
//! `flatbuffers` is the verifier of the flatbuffers crate and says nothing about what is in the file; `parse` is our copy and
//! walk, which proves the same; `load` is `parse` and the validation of everything that is in the file. A table follows that
//! shows the same for programs of a thousand to two million values: the cost per value does not grow.

use std::fmt::Arguments;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group};
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::Tensor;
use et_schema::{ParsedProgram, ScalarType, VerifiedProgram, raw::pte};
use flatbuffers::{ForwardsUOffset, Verifiable, Verifier, VerifierOptions};

/// The size of a synthetic program, in values.
const SIZES: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 2_000_000];
/// Values that are added together: three tensors, four numbers, one list of these.
const GROUP: usize = 8;

fn say(line: Arguments<'_>) {
    // A reader that went away does not matter to a bench.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// FlatBuffers verification alone, without any of its limits.
fn flatbuffers_verify(bytes: &[u8]) {
    let options = VerifierOptions {
        max_depth: 64,
        max_tables: usize::MAX,
        max_apparent_size: usize::MAX,
        ignore_missing_null_terminator: false,
    };
    let mut verifier = Verifier::new(&options, bytes);
    <ForwardsUOffset<pte::Program<'_>>>::run_verifier(&mut verifier, 0)
        .expect("the program is valid");
}

fn parse(file: &[u8]) -> ParsedProgram {
    ParsedProgram::from_file_bytes(file).expect("the program is valid")
}

fn load(file: &[u8]) -> VerifiedProgram {
    VerifiedProgram::from_file_bytes(file).expect("the program is valid")
}

/// A program with about this many values, and instructions that use them.
fn synthetic(num_values: usize) -> Vec<u8> {
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(1 << 20);
    let matrix = |at| Tensor::new(ScalarType::Float, &[2, 3]).planned(memory, at);
    forward.input(matrix(0));
    for _ in 0..num_values.div_ceil(GROUP) {
        let [a, b, sum] = [0, 64, 128].map(|at| forward.tensor(matrix(at)));
        let list = forward.int_list(&[1, 2, 3, 4]);
        forward.kernel("aten::add.out", &[a, b, list, sum, sum]);
    }
    let mut program = ProgramBuilder::new();
    program.method(forward);
    program.to_bytes().expect("the program fits")
}

/// A recorded program; those that are not in the repository may be missing.
fn recorded(case: &str) -> Option<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = ["../tests/fixtures", "../../shared/corpus"];
    let file = |place| -> PathBuf { root.join(place).join(case).join("model.pte") };
    let found = places
        .iter()
        .find_map(|place| std::fs::read(file(*place)).ok());
    if found.is_none() {
        say(format_args!("{case}: left out, the program is not here"));
    }
    found
}

fn real(criterion: &mut Criterion) {
    for case in ["add", "tiny_lm_decode", "mv2_lite"] {
        let Some(file) = recorded(case) else { continue };
        let program = load(&file);
        let mut group = criterion.benchmark_group(case);
        group.throughput(Throughput::Bytes(program.flatbuffer().len() as u64));
        group.bench_function("flatbuffers", |b| {
            b.iter(|| flatbuffers_verify(black_box(program.flatbuffer())));
        });
        group.bench_function("parse", |b| b.iter(|| parse(black_box(&file))));
        group.bench_function("load", |b| b.iter(|| load(black_box(&file))));
        group.finish();
    }
}

/// Time that this thread has spent computing, where the system tells: long runs are never alone on a machine. Else the time
/// on the clock.
fn now(clock: Instant) -> Duration {
    let computing = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = computing.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| clock.elapsed(), Duration::from_nanos)
}

/// The mean time of a run, in the fastest of three rounds. A round is long against the steps in which the system counts.
fn shortest(mut work: impl FnMut()) -> Duration {
    const ROUND: Duration = Duration::from_millis(300);
    let mut round = || {
        let clock = Instant::now();
        let start = now(clock);
        let mut count = 0;
        while clock.elapsed() < ROUND {
            work();
            count += 1;
        }
        now(clock).saturating_sub(start) / count
    };
    round().min(round()).min(round())
}

/// One line per size: the cost per value of each of the three, and megabytes per second of the last.
fn growth(sizes: &[usize]) {
    say(format_args!(
        "{:>9}  {:>8}  {:>13}  {:>13}  {:>13}  {:>11}",
        "values", "MB", "flatbuffers", "parse", "load", "load"
    ));
    for &size in sizes {
        let file = synthetic(size);
        let program = load(&file);
        let plan = program.root().plan("forward").expect("it was added");
        let values = plan.num_values();
        let nbytes = program.flatbuffer().len();
        let times = [
            shortest(|| flatbuffers_verify(black_box(program.flatbuffer()))),
            shortest(|| drop(parse(black_box(&file)))),
            shortest(|| drop(load(black_box(&file)))),
        ];
        let [flatbuffers, parse, load] = times.map(|time| time.as_secs_f64() * 1e9 / values as f64);
        let speed = nbytes as f64 / 1e6 / times[2].as_secs_f64();
        say(format_args!(
            "{values:>9}  {:>8.2}  {flatbuffers:>7.1} ns/val  {parse:>6.1} ns/val  {load:>6.1} ns/val  {speed:>6.0} MB/s",
            nbytes as f64 / 1e6,
        ));
    }
}

criterion_group!(benches, real);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    // As a test, one small size shows that it works.
    let as_test = std::env::args().any(|argument| argument == "--test");
    growth(if as_test { &SIZES[..1] } else { &SIZES });
}
