//! What the benches of whole programs share; see `benches/`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use et_kernel::{Environment, Event, EventHook, ScalarType, Tensor, TensorMeta};
use et_module::{Method, Program, Value};

/// Per instruction: its operator, and the shortest time it took.
pub type Steps = BTreeMap<usize, (String, Duration)>;

/// The shortest time of each instruction of a program.
///
/// # Panics
/// If the program cannot be loaded or run.
pub fn steps(path: &Path, environment: &Environment, seconds: f64) -> Steps {
    let clock = Arc::new(Clock::default());
    let hook = Arc::clone(&clock) as Arc<dyn EventHook>;
    Model::load(path, &environment.clone().with_hook(hook)).time(seconds);
    let mut reading = clock.0.lock().expect("no thread panics with the lock");
    std::mem::take(&mut reading.steps)
}

/// In microseconds.
pub fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// What a program is called: its folder.
pub fn name(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name);
    folder.unwrap_or_default().to_string_lossy().into_owned()
}

/// Keeps the shortest time of each instruction.
#[derive(Debug, Default)]
struct Clock(Mutex<Reading>);

#[derive(Debug, Default)]
struct Reading {
    begun: Option<(String, Instant)>,
    /// Per instruction: its operator, and the shortest time it took.
    steps: Steps,
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
#[derive(Debug)]
pub struct Model {
    method: Method,
    inputs: Vec<(usize, Value)>,
}

impl Model {
    /// The method `forward` of a program, with made-up inputs.
    ///
    /// # Panics
    /// If the program cannot be loaded.
    pub fn load(path: &Path, environment: &Environment) -> Self {
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

    /// The loaded method.
    pub fn method(&self) -> &Method {
        &self.method
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

    /// What runs take.
    ///
    /// # Panics
    /// If a run fails.
    pub fn time(&mut self, seconds: f64) -> Times {
        for _ in 0..3 {
            self.run();
        }
        let (end, mut times) = (
            Instant::now() + Duration::from_secs_f64(seconds),
            Vec::new(),
        );
        let begun = processor_time();
        while times.len() < 5 || Instant::now() < end {
            times.push(self.run());
        }
        let runs = u32::try_from(times.len()).unwrap_or(u32::MAX);
        let processor = processor_time().saturating_sub(begun) / runs;
        times.sort();
        Times {
            least: times[0],
            median: times[times.len() / 2],
            processor,
        }
    }
}

/// What the runs of a program take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The shortest.
    pub least: Duration,
    /// The one in the middle.
    pub median: Duration,
    /// The mean time that the calling thread had a processor, inputs included: what counts on a busy machine (Linux, else 0).
    pub processor: Duration,
}

/// How long this thread has had a processor.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
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
