//! How planning grows with the number of buffers: time, memory, and how far from the bound the plans are.
//!
//! `scaling` makes instances of 100 to 100,000 buffers like those of networks: most live for a few instructions, some skip
//! over many. Greedy's time is given beside n log n, the search's plan after its default number of steps and after a second.
//! `models` solves every instance of the folder that `ET_PLANNER_INSTANCES` names, as `id,lower,upper,size` tables: the time to a
//! proof, the gap of greedy, and the gap of the search after a second where there is no proof.
#![allow(clippy::print_stdout, reason = "benches report")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use et_planner::placement::{
    Buffer, Instance, Lifetime, Limits, Solution, greedy, max_live_load, minimise, validate,
};

/// Numbers that look random, the same ones every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Buffers of a chain of so many instructions: one in twenty is needed much later.
fn network(count: u64) -> Instance {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let buffers = (0..count).map(|at| {
        let length = match numbers.below(20) {
            0 => 10 + numbers.below(count.min(400)),
            _ => 2 + numbers.below(3),
        };
        let nbytes = (16 << numbers.below(14)) * (1 + numbers.below(4));
        Buffer::new(Lifetime::new(at, at + length), nbytes).aligned(16)
    });
    Instance::new(buffers.collect()).expect("the sizes are small")
}

/// The shortest of a few runs, and what it gave.
fn timed<T>(runs: u32, mut work: impl FnMut() -> T) -> (f64, T) {
    let mut run = || {
        let start = Instant::now();
        let result = work();
        (start.elapsed().as_secs_f64() * 1e3, result)
    };
    let mut best = run();
    for _ in 1..runs {
        let next = run();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

/// Runs `work`, and gives by how many MiB the process was larger than before at most; `None` where the system does not tell.
fn peak<T>(work: impl FnOnce() -> T) -> (Option<f64>, T) {
    // Makes the peak start over.
    let reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = memory("VmRSS:");
    let result = work();
    let after = memory("VmHWM:").filter(|_| reset);
    (
        before
            .zip(after)
            .map(|(before, after)| (after - before).max(0.0)),
        result,
    )
}

/// A line of the process's status, in MiB.
fn memory(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

fn percent(nbytes: u64, bound: u64) -> f64 {
    100.0 * (nbytes as f64 / bound as f64 - 1.0)
}

fn solved(instance: &Instance, limits: &Limits) -> Solution {
    let solution = minimise(instance, limits);
    validate(instance, &solution.plan).expect("plans are right");
    solution
}

fn scaling() {
    println!(
        "buffers  greedy ms  ns/(n log n)  MiB  greedy gap  search ms  MiB  search gap  gap after 1 s"
    );
    for count in [100, 300, 1000, 3000, 10_000, 30_000, 100_000_u32] {
        let instance = network(count.into());
        let bound = max_live_load(&instance);
        let (space, (time, plan)) =
            peak(|| timed(3, || greedy(&instance).expect("nothing is fixed")));
        let per = time * 1e6 / (f64::from(count) * f64::from(count).log2());
        let (search_space, (search_time, solution)) =
            peak(|| timed(1, || solved(&instance, &Limits::default())));
        let second = match solution.is_proved() {
            true => solution.plan.height(),
            false => solved(&instance, &Limits::time(Duration::from_secs(1)))
                .plan
                .height(),
        };
        println!(
            "{count:7}  {time:9.2}  {per:12.1}  {}  {:9.2}%  {search_time:9.1}  {}  {:9.2}%  {:12.2}%",
            mib(space),
            percent(plan.height(), bound),
            mib(search_space),
            percent(solution.plan.height(), bound),
            percent(second, bound),
        );
    }
}

fn mib(space: Option<f64>) -> String {
    space.map_or("  -".into(), |space| format!("{space:3.0}"))
}

fn models(folder: &PathBuf) -> std::io::Result<()> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
        .collect();
    files.sort();
    println!("instance  buffers  bound  greedy gap  search gap  ms  proved");
    for path in files {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(&path)?;
        let Ok(instance) = Instance::from_csv(&text) else {
            println!("{name}  not an instance");
            continue;
        };
        let bound = max_live_load(&instance);
        let greedy = greedy(&instance).map_or(f64::NAN, |plan| percent(plan.height(), bound));
        let second = Limits::time(Duration::from_secs(1));
        let (mut time, solution) = timed(1, || solved(&instance, &second));
        if solution.is_proved() {
            time = time.min(timed(4, || solved(&instance, &second)).0);
        }
        let gap = percent(solution.plan.height(), bound);
        let count = instance.buffers().len();
        let proved = if solution.is_proved() { "yes" } else { "no" };
        println!(
            "{name:34}  {count:5}  {bound:10}  {greedy:7.2}%  {gap:7.2}%  {time:8.2}  {proved}"
        );
    }
    Ok(())
}

fn main() {
    // `cargo test` builds benches and runs them to see that they start.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    scaling();
    if let Some(folder) = std::env::var_os("ET_PLANNER_INSTANCES")
        && let Err(error) = models(&folder.into())
    {
        println!("the instances cannot be read: {error}");
    }
}
