//! From a verified method to one that runs: memory, values, delegates, steps, in this order.

mod flow;
mod lookup;
mod size;
mod steps;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use et_device::{Device, DeviceError};
use et_kernel::{
    Backend, EValue, Environment, Event, Kernel, Limits, NamedData, SizeLimits, ValueIndex,
    ValueTable,
};
use et_memory::{Budget, MemoryPlan, PlannedMemory};
use et_schema::{InstructionView, PlanView};

use self::lookup::{check_external, find_backends, find_kernels};
use self::values::{ConstantKey, written_values};
use crate::data::{DataFiles, MethodData};
use crate::error::ErrorKind;
use crate::method::{Initial, Input};
use crate::step::Steps;
use crate::{Error, Method, MethodMeta, Program};

/// The places (buffer, offset) in shared arenas whose initial contents were loaded. Nothing loads them again: they may hold
/// state.
pub(crate) type InitialisedSlots = BTreeSet<(u32, u64)>;

/// How many programs may be nested in each other.
const MAX_DEPTH: u32 = 8;

/// Bytes that nested programs may have together, besides what they have if each is a part of the one around it. Only programs that
/// are named several times take more than that.
const NESTED_ANYWAY: u64 = 16 << 20;

/// How many times what kernels may keep is read at load at most, so that no program makes loading long.
const READINGS: u64 = 16;

/// Bytes that kernels may keep in a method of few constants.
const KEPT_ANYWAY: u64 = 64 * 1024;

/// How a method is loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadOptions {
    /// How many bytes of planned memory it may use, per device.
    pub budget: Budget,
    /// How many instructions one run may take.
    pub instruction_limit: u64,
    /// How large it may be. Programs nested in it are no larger.
    pub size: SizeLimits,
    /// Planned memory to use instead of new one.
    pub planned: Option<PlannedMemory>,
    /// What the program around leaves, for one that is nested.
    around: Option<Limits>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            budget: Budget::unlimited(),
            instruction_limit: 10_000_000,
            size: SizeLimits::default(),
            planned: None,
            around: None,
        }
    }
}

impl LoadOptions {
    /// The same with a budget.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// The same with another limit on the instructions of one run.
    #[must_use]
    pub const fn with_instruction_limit(mut self, limit: u64) -> Self {
        self.instruction_limit = limit;
        self
    }

    /// The same with limits on the method's size.
    #[must_use]
    pub fn with_size_limits(mut self, size: SizeLimits) -> Self {
        self.size = size;
        self
    }

    /// The same with planned memory of the caller's, which is checked against the method's plan.
    #[must_use]
    pub fn with_planned_memory(mut self, planned: PlannedMemory) -> Self {
        self.planned = Some(planned);
        self
    }

    /// For a program of `nbytes` bytes that is nested in a method with these limits: what the method leaves.
    pub(crate) fn nested(limits: &Limits, nbytes: u64) -> Result<Self, Error> {
        if limits.depth >= MAX_DEPTH {
            return Err(ErrorKind::Nesting { limit: MAX_DEPTH }.into());
        }
        if !limits.take_program(nbytes) {
            return Err(ErrorKind::NestedTooLarge { nbytes }.into());
        }
        Ok(Self {
            budget: limits.budget(),
            instruction_limit: limits.instructions,
            size: limits.size.clone(),
            planned: None,
            around: Some(limits.clone().deeper()),
        })
    }

    /// What the method leaves for its delegates, before it takes anything itself.
    fn limits(&self, program: &Program) -> Limits {
        self.around.clone().unwrap_or_else(|| {
            let nested = program
                .len()
                .saturating_mul(u64::from(MAX_DEPTH))
                .saturating_add(NESTED_ANYWAY);
            Limits::new(self.budget.clone(), self.instruction_limit, 0)
                .with_size(self.size.clone())
                .with_program_bytes(nested)
        })
    }
}

/// Planned memory that several methods use in turn.
#[derive(Debug)]
pub(crate) struct Arenas {
    pub(crate) memory: PlannedMemory,
    pub(crate) initialised: InitialisedSlots,
}

/// Loads a method. `outer` is named data that a surrounding program lends; `arenas` are taken to be shared, and left where
/// they are if the load fails.
pub(crate) fn method(
    meta: &MethodMeta,
    environment: &Environment,
    files: &DataFiles,
    outer: &dyn NamedData,
    options: LoadOptions,
    arenas: &mut Option<Arenas>,
) -> Result<Method, Error> {
    let name = meta.name();
    let _span = tracing::debug_span!("load", method = name).entered();
    environment.emit(&Event::LoadBegin { method: name });
    let loaded = load(meta, environment, files, outer, options, arenas)
        .map_err(|error| error.in_method(name));
    environment.emit(&Event::LoadEnd { method: name });
    loaded
}

fn load(
    meta: &MethodMeta,
    environment: &Environment,
    files: &DataFiles,
    outer: &dyn NamedData,
    options: LoadOptions,
    arenas: &mut Option<Arenas>,
) -> Result<Method, Error> {
    let data = MethodData::new(files, meta.program(), outer);
    let plan = meta.plan();
    size::check(&options.size, &plan)?;
    let limits = options.limits(meta.program());
    let kernels = find_kernels(&plan, environment)?;
    let backends = find_backends(&plan, environment)?;
    data.check_duplicates()?;
    check_external(&plan, &data)?;

    let map = &environment.device_map;
    let (planned, unplanned) = (meta.memory_plan(map)?, meta.unplanned_memory(map)?);
    let all = MemoryPlan::new([planned.buffers(), unplanned.buffers()].concat());
    let demand = Demand {
        planned,
        unplanned,
        all,
    };
    let (planned, initialised) =
        demand.meet(environment, &options.budget, options.planned, arenas)?;
    let code: Vec<Vec<_>> = plan
        .chains()
        .map(|chain| chain.instructions().collect())
        .collect();
    let mut loader = Loader {
        program: meta.program(),
        plan,
        environment,
        data: &data,
        written: written_values(&plan, &code, &kernels),
        code: &code,
        table: ValueTable::new(planned),
        initialised,
        initial: Vec::new(),
        plain: Vec::new(),
        uploaded: BTreeMap::new(),
        constants: BTreeMap::new(),
        reading: 0,
    };
    limits.take_memory(&demand.all);
    let steps = match loader.build(&kernels, &backends, &limits) {
        Ok(steps) => steps,
        Err(error) => {
            loader.give_back(arenas)?;
            return Err(error);
        }
    };
    let inputs = plan
        .inputs()
        .iter()
        .map(|index| Input::new(ValueIndex(index), plan.value(index)))
        .collect();
    let outputs: Vec<ValueIndex> = plan.outputs().iter().map(ValueIndex).collect();

    let Loader {
        table,
        initialised,
        initial,
        plain,
        ..
    } = loader;
    let tensors = (0..plan.num_values()).filter_map(|index| {
        let index = u32::try_from(index).ok()?;
        Some(table.meta(ValueIndex(index))?.device())
    });
    let devices: BTreeSet<Device> = tensors.filter(|device| !device.is_cpu()).collect();
    Ok(Method::new(crate::method::Parts {
        devices: devices.into_iter().collect(),
        meta: meta.clone(),
        environment: environment.clone(),
        table,
        steps,
        inputs,
        outputs,
        initial,
        plain,
        instruction_limit: options.instruction_limit,
        initialised,
    }))
}

/// The memory that a method needs.
struct Demand {
    planned: MemoryPlan,
    unplanned: MemoryPlan,
    /// Both.
    all: MemoryPlan,
}

impl Demand {
    /// The one way from a method's description to planned memory. Memory that the method does not get from others must be inside
    /// the budget, and so must everything that it allocates besides.
    fn meet(
        &self,
        environment: &Environment,
        budget: &Budget,
        given: Option<PlannedMemory>,
        arenas: &mut Option<Arenas>,
    ) -> Result<(PlannedMemory, Option<InitialisedSlots>), Error> {
        expect_devices(environment, &self.unplanned)?;
        if let Some(shared) = arenas {
            shared.memory.check(&self.planned)?;
            budget.check(&self.unplanned)?;
        }
        if let Some(Arenas {
            memory,
            initialised,
        }) = arenas.take()
        {
            return Ok((memory, Some(initialised)));
        }
        if let Some(given) = given {
            given.check(&self.planned)?;
            budget.check(&self.unplanned)?;
            return Ok((given, None));
        }
        budget.check(&self.all)?;
        let planned = PlannedMemory::allocate(&self.planned, &environment.devices, budget)?;
        Ok((planned, None))
    }
}

/// Memory that is not allocated now will be later, by devices that must be there.
fn expect_devices(environment: &Environment, plan: &MemoryPlan) -> Result<(), Error> {
    for (device, nbytes) in plan.needed_per_device() {
        if device.is_cpu() || nbytes == 0 {
            continue;
        }
        let allocator = environment.devices.require(device)?;
        let count = allocator.device_count()?;
        if u32::from(device.index().get()) >= count {
            return Err(DeviceError::NoSuchDevice {
                device_type: device.device_type(),
                index: device.index(),
                count,
            }
            .into());
        }
    }
    Ok(())
}

/// A method that is being loaded.
struct Loader<'a> {
    program: &'a Program,
    plan: PlanView<'a>,
    environment: &'a Environment,
    data: &'a MethodData<'a>,
    /// The instructions of each chain.
    code: &'a [Vec<InstructionView<'a>>],
    /// For each value, whether instructions [replace](written_values) it.
    written: Vec<bool>,
    table: ValueTable,
    /// See [`Arenas`]; `None` for memory of the method's own.
    initialised: Option<InitialisedSlots>,
    initial: Vec<Initial>,
    /// Values other than tensors that the program changes, as they are at first.
    plain: Vec<(ValueIndex, EValue)>,
    /// Constants on devices, by what they are in the program.
    uploaded: BTreeMap<(ConstantKey, Device), ValueIndex>,
    /// Bytes of each constant on the host.
    constants: BTreeMap<ConstantKey, u64>,
    /// Bytes that instructions which are done at load may still read.
    reading: u64,
}

impl Loader<'_> {
    /// Everything, in the order in which the parts need each other.
    fn build(
        &mut self,
        kernels: &[(Kernel, String)],
        backends: &[&dyn Backend],
        limits: &Limits,
    ) -> Result<Steps, Error> {
        self.values()?;
        let delegates = self.delegates(backends, limits)?;
        let allowance = self.allowance(limits);
        self.table.allow(allowance);
        self.reading = allowance.saturating_mul(READINGS);
        let steps = self.steps(kernels, delegates)?;
        self.allocate_internal()?;
        Ok(steps)
    }

    /// How many bytes kernels may keep of what they make of constants: about as many as these have, inside the budget.
    fn allowance(&self, limits: &Limits) -> u64 {
        let sum = |sum: u64, &nbytes: &u64| sum.saturating_add(nbytes);
        let constants = self.constants.values().fold(0, sum);
        let most = constants
            .saturating_add(constants / 2)
            .saturating_add(KEPT_ANYWAY);
        let limit = limits.budget().limit_on(Device::CPU);
        limit.map_or(most, |limit| limit.min(most))
    }

    /// Puts shared arenas back where they came from.
    fn give_back(&mut self, arenas: &mut Option<Arenas>) -> Result<(), Error> {
        if let Some(initialised) = self.initialised.take() {
            let memory = self.table.detach_memory()?;
            *arenas = Some(Arenas {
                memory,
                initialised,
            });
        }
        Ok(())
    }
}
