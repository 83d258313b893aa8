//! Solves every instance of a folder: `cargo run --release -p et-planner --example solve -- FOLDER [options]`.
//!
//! Options: `--capacity N` (any plan within N instead of the smallest), `--nodes N`, `--seconds S`, `--repeat N`
//! (the time shown is the median), and words that a file's name must contain.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use et_planner::placement::{
    Fit, Instance, Limits, Solution, fit, greedy, max_live_load, minimise, validate,
};

struct Options {
    folder: PathBuf,
    words: Vec<String>,
    capacity: Option<u64>,
    limits: Limits,
    repeat: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read()?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(&options.folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    println!(
        "{:34} {:>6} {:>11} {:>11} {:>11} {:>8} {:>10} {:>9}",
        "instance", "n", "bound", "greedy", "optimal", "proved", "ms", "nodes"
    );
    for file in files.iter().filter(|file| options.wants(file)) {
        println!("{}", row(file, &options)?);
    }
    Ok(())
}

impl Options {
    fn read() -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            folder: PathBuf::new(),
            words: Vec::new(),
            capacity: None,
            limits: Limits::default(),
            repeat: 1,
        };
        let mut arguments = std::env::args().skip(1);
        options.folder = arguments.next().ok_or("which folder?")?.into();
        while let Some(argument) = arguments.next() {
            let mut number = || {
                arguments
                    .next()
                    .ok_or("a number is missing")?
                    .parse::<u64>()
                    .map_err(Box::<dyn Error>::from)
            };
            match argument.as_str() {
                "--capacity" => options.capacity = Some(number()?),
                "--nodes" => options.limits = Limits::nodes(number()?),
                "--seconds" => options.limits = Limits::time(Duration::from_secs(number()?)),
                "--repeat" => options.repeat = usize::try_from(number()?)?.max(1),
                _ => options.words.push(argument),
            }
        }
        Ok(options)
    }

    fn wants(&self, file: &Path) -> bool {
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = name.filter(|name| name.ends_with(".csv"));
        name.is_some_and(|name| {
            self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
        })
    }

    fn solve(&self, instance: &Instance) -> (Solution, &'static str) {
        match self
            .capacity
            .map(|capacity| fit(instance, capacity, &self.limits))
        {
            None => {
                let solution = minimise(instance, &self.limits);
                let proved = if solution.is_proved() { "yes" } else { "no" };
                (solution, proved)
            }
            Some(Fit::Fits(solution)) => (solution, "fits"),
            Some(Fit::Impossible(solution)) => (solution, "cannot"),
            Some(Fit::Unknown(solution)) => (solution, "unknown"),
            Some(_) => unreachable!("there are three cases"),
        }
    }
}

fn row(file: &Path, options: &Options) -> Result<String, Box<dyn Error>> {
    let instance = Instance::from_csv(&std::fs::read_to_string(file)?)?;
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..options.repeat {
        let started = Instant::now();
        last = Some(options.solve(&instance));
        times.push(started.elapsed());
    }
    times.sort();
    let (solution, proved) = last.ok_or("nothing was run")?;
    validate(&instance, &solution.plan)?;
    let greedy = greedy(&instance)?;
    validate(&instance, &greedy)?;
    let name = file
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    Ok(format!(
        "{name:34} {:>6} {:>11} {:>11} {:>11} {proved:>8} {:>10.2} {:>9}",
        instance.buffers().len(),
        max_live_load(&instance),
        greedy.height(),
        solution.plan.height(),
        times[times.len() / 2].as_secs_f64() * 1e3,
        solution.nodes,
    ))
}
