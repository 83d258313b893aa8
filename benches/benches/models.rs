//! Whole programs, run one after the other: a table, beside the C++ runtime's figures where a file has them.
//!
//! ```text
//! cargo bench -p et-benches --bench models -- PROGRAM.pte... [--threads 1,2] [--peer TIMES.json] [--seconds 1] [--steps]
//! cargo bench -p et-benches --bench models -- PROGRAM.pte --memory
//! ```
//!
//! `TIMES.json` is what the C++ runtime's `peer_bench.py` writes for the same programs. `--steps` shows what each operator took,
//! `--memory` what a process has in memory at most.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use et_benches::{Model, name, steps, us};
use et_kernel::{Environment, Workers};
use et_ops as _;

/// What the command line says.
struct Options {
    programs: Vec<PathBuf>,
    threads: Vec<usize>,
    peer: Option<PathBuf>,
    seconds: f64,
    steps: bool,
    memory: bool,
}

impl Options {
    fn read() -> Self {
        let mut options = Self {
            programs: Vec::new(),
            threads: vec![1],
            peer: None,
            seconds: 1.0,
            steps: false,
            memory: false,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().expect("the option has a value");
            match word.as_str() {
                // Cargo's own word for benches.
                "--bench" => {}
                "--seconds" => options.seconds = value().parse().expect("a number of seconds"),
                "--threads" => {
                    let counts = value();
                    let count = |text: &str| text.parse().expect("a number of threads");
                    options.threads = counts.split(',').map(count).collect();
                }
                "--peer" => options.peer = Some(value().into()),
                "--steps" => options.steps = true,
                "--memory" => options.memory = true,
                _ => options.programs.push(word.into()),
            }
        }
        options
    }
}

fn show_steps(path: &Path, environment: &Environment, seconds: f64) {
    let steps = steps(path, environment, seconds);
    let mut operators: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    for (instruction, (name, took)) in &steps {
        println!("  {instruction:5}  {:10.1} us  {name}", us(*took));
        let sum = operators.entry(name).or_default();
        *sum = (sum.0 + 1, sum.1 + *took);
    }
    for (name, (count, took)) in operators {
        println!("  {count:4} x {name:50} {:10.1} us", us(took));
    }
}

/// What a run of a program needs, and the most that this process had in memory beyond what it had before (Linux).
fn show_memory(path: &Path, environment: &Environment) {
    let before = resident("VmRSS:");
    let mut model = Model::load(path, environment);
    model.time(0.5);
    let peak = resident("VmHWM:").saturating_sub(before);
    let method = model.method();
    let file = std::fs::metadata(path).map_or(0, |file| file.len());
    let buffers = method.planned_memory().buffers().iter();
    let planned: u64 = buffers.map(|buffer| buffer.nbytes()).sum();
    let (kept, scratch) = (method.kept_nbytes(), method.scratch_nbytes());
    let sum = file + planned + kept + scratch;
    println!(
        "{:24} file {file} + planned {planned} + kept {kept} + scratch {scratch} = {sum} bytes; peak {peak}, {:.2} times as many",
        name(path),
        peak as f64 / sum as f64
    );
}

/// A line of what the system says of this process's memory, in bytes.
fn resident(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|found| found.strip_prefix(line));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Median times of the C++ runtime, by program and number of threads.
fn peer_times(file: &Path) -> BTreeMap<(String, usize), f64> {
    let text = std::fs::read_to_string(file).expect("the file of the C++ runtime's times");
    let report: serde_json::Value = serde_json::from_str(&text).expect("the file is JSON");
    let rows = report
        .as_object()
        .into_iter()
        .flat_map(|report| report.values());
    let rows = rows.filter_map(serde_json::Value::as_array).flatten();
    let time = |row: &serde_json::Value| {
        let name = name(Path::new(row["model"].as_str()?));
        let threads = usize::try_from(row["threads"].as_u64()?).ok()?;
        Some(((name, threads), row["execute"]["median_us"].as_f64()?))
    };
    rows.filter_map(time).collect()
}

fn main() {
    let options = Options::read();
    let linked = Environment::linked().expect("no operator is linked twice");
    let peer = options.peer.as_deref().map(peer_times).unwrap_or_default();
    if options.memory {
        let paths = options.programs.iter();
        return paths.for_each(|path| show_memory(path, &linked));
    }
    println!(
        "{:24} {:>7} {:>12} {:>12} {:>12} {:>12} {:>8}",
        "program", "threads", "processor us", "least us", "median us", "C++ us", "C++/ours"
    );
    for &threads in &options.threads {
        let count = NonZeroUsize::new(threads).expect("at least one thread");
        let workers = Workers::new(count).expect("threads start");
        let environment = linked.clone().with_workers(Arc::new(workers));
        for path in &options.programs {
            let times = Model::load(path, &environment).time(options.seconds);
            let [processor, least, median] = [times.processor, times.least, times.median].map(us);
            let name = name(path);
            print!("{name:24} {threads:7} {processor:12.2} {least:12.2} {median:12.2}");
            match peer.get(&(name, threads)) {
                Some(theirs) => println!(" {theirs:12.2} {:8.2}", theirs / median),
                None => println!(),
            }
            if options.steps {
                show_steps(path, &environment, options.seconds);
            }
        }
    }
}
