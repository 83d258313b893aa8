//! One program, many threads; and loading it again and again.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

use et_module::{DataFiles, LoadOptions, Method, Program};
use et_tests::{Case, Simulation};

/// The system's allocator, which knows how many bytes are in use.
struct Weighing;

static IN_USE: AtomicI64 = AtomicI64::new(0);

fn weigh(nbytes: usize, sign: i64) {
    let nbytes = i64::try_from(nbytes).unwrap_or(i64::MAX);
    IN_USE.fetch_add(sign * nbytes, Ordering::Relaxed);
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        weigh(layout.size(), 1);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        weigh(layout.size(), 1);
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, nbytes: usize) -> *mut u8 {
        weigh(layout.size(), -1);
        weigh(nbytes, 1);
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, nbytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        weigh(layout.size(), -1);
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static WEIGHING: Weighing = Weighing;

/// The two tests weigh the same heap, so one runs at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The larger number in an optimised build, or if `ET_TESTS_FULL` is set.
fn repetitions(all: usize, some: usize) -> usize {
    let full = cfg!(not(debug_assertions)) || std::env::var_os("ET_TESTS_FULL").is_some();
    if full { all } else { some }
}

fn is_send<T: Send>() {}

#[test]
fn eight_threads_run_methods_of_their_own_from_one_program() {
    let _alone = alone();
    is_send::<Method>();
    let runs = repetitions(10_000, 500);
    for name in ["mul_add_chain", "dev_single_add", "dyn_batch_mlp"] {
        let case = Case::fixture(name);
        let simulation = Simulation::new();
        let program = Program::open(case.path()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut method = program
                        .load_method("forward", &simulation.environment)
                        .unwrap();
                    let recorded = case.runs();
                    for turn in 0..runs {
                        let run = &recorded[turn % recorded.len()];
                        for (index, input) in run.inputs.iter().enumerate() {
                            method.set_input(index, input).unwrap();
                        }
                        method.execute().unwrap();
                        let outputs: Vec<_> = (0..method.num_outputs())
                            .map(|output| method.output_to_host(output).unwrap())
                            .collect();
                        assert_eq!(run.difference(&outputs), None, "run {turn}");
                    }
                });
            }
        });
        simulation.expect_empty();
        println!("{name}: 8 threads, {runs} runs each");
    }
}

#[test]
fn loading_running_and_dropping_again_and_again_keeps_no_memory() {
    let _alone = alone();
    let rounds = repetitions(1000, 20);
    let mut cases: Vec<Case> = Case::all().into_iter().filter(Case::uses_devices).collect();
    cases.retain(|case| cfg!(not(debug_assertions)) || case.name != "dev_mv2_lite");
    let mut resident = None;
    for case in &cases {
        let simulation = Simulation::new();
        let program = Program::open(case.path()).unwrap();
        let mut data = DataFiles::new();
        for path in case.data_paths() {
            data.add(et_module::DataFile::open(path).unwrap()).unwrap();
        }
        let runs = case.runs();
        // Big models weigh the same each time too, and take long.
        let rounds = if case.name == "dev_mv2_lite" {
            rounds.min(50)
        } else {
            rounds
        };
        let round = || {
            for run in runs.iter().take(1) {
                let options = LoadOptions::default();
                let loaded =
                    program.load_method_with(&run.method, &simulation.environment, &data, options);
                let mut method = loaded.unwrap();
                for (index, input) in run.inputs.iter().enumerate() {
                    method.set_input(index, input).unwrap();
                }
                method.execute().unwrap();
            }
        };
        // What is made once (a segment that is kept, tables of kernels) is there after the first rounds.
        round();
        round();
        resident = resident.or_else(resident_nbytes);
        let (host, device) = (
            IN_USE.load(Ordering::Relaxed),
            simulation.counters().live_bytes,
        );
        for _ in 0..rounds {
            round();
        }
        assert_eq!(device, 0);
        assert_eq!(simulation.counters().live_bytes, 0, "{}", case.name);
        assert_eq!(IN_USE.load(Ordering::Relaxed), host, "{}", case.name);
    }
    println!("{} cases, {rounds} rounds each", cases.len());
    if let (Some(before), Some(after)) = (resident, resident_nbytes()) {
        println!("resident memory: {before} bytes before, {after} after");
        // The other cases have programs of their own, which the heap keeps room for.
        assert!(
            after <= before + before / 100 + (8 << 20),
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
