//! Programs are opened, loaded, run and dropped again and again, others in between, in a process of its own whose memory is weighed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

use et_module::{ErrorKind, Module};
use et_tests::{Case, Run, Simulation};

/// The largest program that takes part, in bytes.
const LARGEST: u64 = 256 << 10;
/// What the heap may round, in bytes.
const ROUNDING: u64 = 64 << 10;

/// What one cycle needs of a case, read once.
struct Part {
    case: Case,
    runs: Vec<Run>,
}

/// A case's module on devices of its own, which shares nothing with others.
struct Loaded {
    module: Module,
    simulation: Simulation,
}

impl Part {
    fn load(&self) -> Loaded {
        let simulation = Simulation::new();
        let module = self.case.module(&simulation.environment).unwrap();
        Loaded { module, simulation }
    }

    /// Whether this build has every backend that it needs.
    fn can_be_loaded(&self) -> bool {
        let Some(run) = self.runs.first() else {
            return false;
        };
        match self.load().module.execute(&run.method, &run.inputs) {
            Ok(_) => true,
            Err(error) => {
                let kind = error.nested().unwrap_or(&error).kind();
                let lacks = matches!(kind, ErrorKind::MissingBackend { .. });
                assert!(lacks, "{}: {error}", self.case.name);
                false
            }
        }
    }

    /// Runs what is recorded first, and compares.
    fn run(&self, loaded: &mut Loaded) {
        let run = &self.runs[0];
        let outputs = loaded.module.execute(&run.method, &run.inputs).unwrap();
        assert_eq!(run.difference(&outputs), None, "{}", self.case.name);
    }

    /// Runs the same again; programs with state may give something else.
    fn run_again(&self, loaded: &mut Loaded) {
        let run = &self.runs[0];
        loaded.module.execute(&run.method, &run.inputs).unwrap();
    }
}

impl Loaded {
    fn live_on_devices(&self) -> u64 {
        self.simulation.counters().live_bytes
    }
}

/// One cycle after another, with the most bytes on the devices of a module, and what was left there. Each module lives until the next one has run, and is run again beside it.
fn cycles(parts: &[Part], count: usize) -> (u64, u64) {
    let (mut most_on_devices, mut left_on_devices) = (0, 0);
    let mut before: Option<(&Part, Loaded)> = None;
    for part in parts.iter().cycle().take(count) {
        let mut loaded = part.load();
        part.run(&mut loaded);
        most_on_devices = most_on_devices.max(loaded.live_on_devices());
        if let Some((part, mut loaded)) = before.replace((part, loaded)) {
            part.run_again(&mut loaded);
            left_on_devices += dropped(loaded);
        }
    }
    left_on_devices += before.map_or(0, |(_, loaded)| dropped(loaded));
    (most_on_devices, left_on_devices)
}

/// What is still there on the devices when a module is gone.
fn dropped(loaded: Loaded) -> u64 {
    let Loaded { module, simulation } = loaded;
    drop(module);
    simulation.counters().live_bytes
}

#[test]
fn ten_thousand_cycles_of_mixed_programs_leave_memory_as_it_was() {
    let full = cfg!(not(debug_assertions)) || std::env::var_os("ET_TESTS_FULL").is_some();
    let count = if full { 10_000 } else { 200 };
    let mut cases = Case::all();
    cases.retain(|case| std::fs::metadata(case.path()).unwrap().len() <= LARGEST);
    let part = |case: Case| Part {
        runs: case.runs(),
        case,
    };
    let mut parts: Vec<Part> = cases.into_iter().map(part).collect();
    parts.retain(Part::can_be_loaded);
    // What is made once is there after each program was there, and what the heap keeps after some more.
    cycles(&parts, (count / 10).max(2 * parts.len()));
    let before = resident_nbytes();
    let (most, left) = cycles(&parts, count);
    let after = resident_nbytes();
    println!(
        "{count} cycles of {} programs; bytes on simulated devices: 0 before, {most} at most, {left} after; \
         resident bytes: {before:?} before, {after:?} after",
        parts.len()
    );
    assert_eq!(left, 0);
    assert!(most > 0, "no program was on a device");
    if let (Some(before), Some(after)) = (before, after) {
        assert!(
            after <= before + before / 100 + ROUNDING,
            "{before} {after}"
        );
    }
}

/// Memory of this process that is resident, in bytes, where the system tells.
fn resident_nbytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
