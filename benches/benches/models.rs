//! Whole programs, run one after the other: a table, beside the C++ runtime's figures where a file has them.
//!
//! ```text
//! cargo bench -p et-benches --bench models -- PROGRAM.pte... [--threads 1,2] [--peer TIMES.json] [--seconds 1] [--steps]
//! ```
//!
//! `TIMES.json` is what the C++ runtime's `peer_bench.py` writes for the same programs. `--steps` shows what each operator took.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use et_kernel::{Environment, Event, EventHook, ScalarType, Tensor, TensorMeta, Workers};
use et_module::{Method, Program, Value};
use et_ops as _;

/// What the command line says.
struct Options {
    programs: Vec<PathBuf>,
    threads: Vec<usize>,
    peer: Option<PathBuf>,
    seconds: f64,
    steps: bool,
}

impl Options {
    fn read() -> Self {
        let mut options = Self {
            programs: Vec::new(),
            threads: vec![1],
            peer: None,
            seconds: 1.0,
            steps: false,
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
                _ => options.programs.push(word.into()),
            }
        }
        options
    }
}

/// Adds up the time of each operator's instructions.
#[derive(Default)]
struct Clock(Mutex<Reading>);

#[derive(Default)]
struct Reading {
    begun: Option<(String, Instant)>,
    /// Per instruction: its operator, and the shortest time it took.
    steps: BTreeMap<usize, (String, Duration)>,
}

impl EventHook for Clock {
    fn event(&self, event: &Event<'_>) {
        let mut reading = self.0.lock().expect("no thread panics with the lock");
        match event {
            Event::StepBegin { name, .. } => {
                reading.begun = Some(((*name).to_owned(), Instant::now()));
            }
            Event::StepEnd { instruction, .. } => {
                if let Some((name, begin)) = reading.begun.take() {
                    let took = begin.elapsed();
                    let step = reading.steps.entry(*instruction).or_insert((name, took));
                    step.1 = step.1.min(took);
                }
            }
            _ => {}
        }
    }
}

/// A loaded method and its inputs, which a run may overwrite.
struct Model {
    method: Method,
    inputs: Vec<(usize, Value)>,
}

impl Model {
    fn load(path: &Path, environment: &Environment) -> Self {
        let program = Program::open(path).expect("the program is valid");
        let method = program
            .load_method("forward", environment)
            .expect("the method loads");
        let inputs = (0..method.num_inputs()).filter_map(|index| {
            let tensor = method.meta().input(index).expect("in range").tensor?;
            Some((index, made_up(tensor.meta).into()))
        });
        Self {
            inputs: inputs.collect(),
            method,
        }
    }

    /// How long one run takes, without the copying of inputs.
    fn run(&mut self) -> Duration {
        for (index, input) in &self.inputs {
            self.method.set_input(*index, input).expect("it fits");
        }
        let begin = Instant::now();
        self.method.execute().expect("the program runs");
        begin.elapsed()
    }

    /// Shortest and median time of a run.
    fn time(&mut self, seconds: f64) -> (Duration, Duration) {
        for _ in 0..3 {
            self.run();
        }
        let (end, mut times) = (
            Instant::now() + Duration::from_secs_f64(seconds),
            Vec::new(),
        );
        while times.len() < 5 || Instant::now() < end {
            times.push(self.run());
        }
        times.sort();
        (times[0], times[times.len() / 2])
    }
}

/// Small fractions, or whole zeros.
fn made_up(meta: TensorMeta) -> Tensor {
    let dtype = meta.dtype();
    let mut tensor = Tensor::zeros(meta).expect("memory for the input");
    if dtype == ScalarType::Float {
        let mut seed = 1u32;
        for x in tensor.as_mut_slice::<f32>().expect("of this type") {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *x = (seed >> 8) as f32 / (1 << 23) as f32 - 1.0;
        }
    }
    tensor
}

fn show_steps(path: &Path, environment: &Environment, seconds: f64) {
    let clock = Arc::new(Clock::default());
    let watched = environment
        .clone()
        .with_hook(Arc::clone(&clock) as Arc<dyn EventHook>);
    Model::load(path, &watched).time(seconds);
    let reading = clock.0.lock().expect("no thread panics with the lock");
    let mut operators: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    for (instruction, (name, took)) in &reading.steps {
        println!("  {instruction:5}  {:10.1} us  {name}", us(*took));
        let sum = operators.entry(name).or_default();
        *sum = (sum.0 + 1, sum.1 + *took);
    }
    for (name, (count, took)) in operators {
        println!("  {count:4} x {name:50} {:10.1} us", us(took));
    }
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn name(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name);
    folder.unwrap_or_default().to_string_lossy().into_owned()
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
    println!(
        "{:24} {:>7} {:>12} {:>12} {:>12} {:>8}",
        "program", "threads", "least us", "median us", "C++ us", "C++/ours"
    );
    for &threads in &options.threads {
        let count = NonZeroUsize::new(threads).expect("at least one thread");
        let workers = Workers::new(count).expect("threads start");
        let environment = linked.clone().with_workers(Arc::new(workers));
        for path in &options.programs {
            let (least, median) = Model::load(path, &environment).time(options.seconds);
            let name = name(path);
            print!(
                "{name:24} {threads:7} {:12.2} {:12.2}",
                us(least),
                us(median)
            );
            match peer.get(&(name, threads)) {
                Some(theirs) => println!(" {theirs:12.2} {:8.2}", theirs / us(median)),
                None => println!(),
            }
            if options.steps {
                show_steps(path, &environment, options.seconds);
            }
        }
    }
}
