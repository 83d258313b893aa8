//! Everything the driver knows, behind one lock, and the way into it.

use crate::blocks::{Device, Pinned, Pool};
use crate::host;
use crate::kernels::{Function, HostKernel};
use crate::settings::{Fault, Schedule, Settings};
use crate::status::{NOT_INITIALIZED, NOT_PERMITTED, Outcome};
use crate::streams::{Event, Stream};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, OnceLock};

pub struct World {
    pub settings: Settings,
    pub initialised: bool,
    pub devices: Vec<Device>,
    pub streams: HashMap<usize, Stream>,
    pub events: HashMap<usize, Event>,
    pub pools: HashMap<usize, Pool>,
    pub pinned: BTreeMap<usize, Pinned>,
    pub modules: HashMap<usize, String>,
    pub functions: HashMap<usize, Function>,
    pub kernels: HashMap<String, HostKernel>,
    /// The per-thread streams, by thread and device.
    pub thread_streams: HashMap<(u64, usize), usize>,
    pub calls: BTreeMap<&'static str, u64>,
    pub violations: Vec<(i32, String)>,
    /// Order of submission of everything ever queued.
    pub ticket: u64,
    /// Number of the last allocation; reports name blocks by it.
    pub allocation: u64,
    last_handle: usize,
}

thread_local! {
    /// Set while a host function of a stream runs: it may not call the driver.
    pub static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// The driver's state. A panic elsewhere does not lock the others out.
pub fn world() -> MutexGuard<'static, World> {
    static WORLD: OnceLock<Mutex<World>> = OnceLock::new();
    WORLD
        .get_or_init(|| Mutex::new(World::new(Settings::from_environment())))
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl World {
    fn new(settings: Settings) -> Self {
        if settings.leak_check {
            host::at_exit(report_at_exit);
        }
        let mut world = World {
            settings,
            initialised: false,
            devices: Vec::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            pools: HashMap::new(),
            pinned: BTreeMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            kernels: HashMap::new(),
            thread_streams: HashMap::new(),
            calls: BTreeMap::new(),
            violations: Vec::new(),
            ticket: 0,
            allocation: 0,
            last_handle: 0x1000,
        };
        for ordinal in 0..world.settings.devices {
            world.add_device(ordinal);
        }
        world
    }

    fn add_device(&mut self, ordinal: usize) {
        let Some((base, span)) = host::reserve_addresses() else {
            return;
        };
        let default_pool = self.new_handle();
        self.pools.insert(default_pool, Pool::new(ordinal, 0));
        let null_stream = self.new_handle();
        self.streams.insert(null_stream, Stream::null(ordinal));
        let limit = self.settings.memory_bytes;
        self.devices
            .push(Device::new(base, span, limit, null_stream, default_pool));
    }

    pub fn new_handle(&mut self) -> usize {
        self.last_handle += 0x10;
        self.last_handle
    }

    /// Remembers a misuse of the API.
    pub fn violate(&mut self, device: usize, what: String) {
        if self.settings.log {
            eprintln!("fakecuda: violation: device {device}: {what}");
        }
        if let Some(d) = self.devices.get_mut(device) {
            d.stats.violations += 1;
        }
        self.violations.push((device as i32, what));
    }

    /// The code with which the call of `symbol` is to fail, if one is planned for it.
    fn planned_failure(&mut self, symbol: &str, device: i32) -> Option<u32> {
        let hit = |f: &&mut Fault| {
            f.symbol == symbol && f.times > 0 && (f.device < 0 || f.device == device)
        };
        let fault = self.settings.faults.iter_mut().find(hit)?;
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        fault.times = fault.times.saturating_sub(1);
        Some(fault.code)
    }

    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.settings.schedule = schedule;
    }
}

/// Runs one call of the API: counts it, fails it if that was planned, logs it.
pub fn enter(
    name: &'static str,
    needs_init: bool,
    body: impl FnOnce(&mut World) -> Outcome,
) -> u32 {
    if IN_CALLBACK.get() {
        return NOT_PERMITTED;
    }
    let mut world = world();
    *world.calls.entry(name).or_insert(0) += 1;
    let device = world.current().map_or(-1, |d| d as i32);
    let status = match world.planned_failure(name, device) {
        Some(code) => code,
        None if needs_init && !world.initialised => NOT_INITIALIZED,
        None => body(&mut world).err().unwrap_or(0),
    };
    if world.settings.log {
        eprintln!("fakecuda: [{device}] {name} -> {status}");
    }
    status
}

/// Exit code of a process that ends with leaks or violations under `FAKECUDA_LEAKCHECK`.
const LEAK_EXIT_CODE: i32 = 97;

extern "C" fn report_at_exit() {
    let world = world();
    let mut problems = world.violations.len() as u64;
    for (ordinal, device) in world.devices.iter().enumerate() {
        // A queued free needs nobody to wait for it.
        for (at, block) in device.blocks.iter().filter(|(_, block)| !block.dying) {
            let (nbytes, number) = (block.data.len(), block.number);
            eprintln!(
                "fakecuda: leak: device {ordinal} {at:#x} {nbytes} bytes (allocation {number})"
            );
            problems += 1;
        }
        problems += device.stats.lost_at_reset;
    }
    for (device, what) in &world.violations {
        eprintln!("fakecuda: violation: device {device}: {what}");
    }
    if problems > 0 {
        eprintln!("fakecuda: {problems} problem(s)");
        host::exit_now(LEAK_EXIT_CODE);
    }
}
