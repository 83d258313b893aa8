//! From a verified method to one that runs: memory, values, delegates, steps, in this order.

mod flow;
mod lookup;
mod size;
mod steps;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use et_device::Device;
use et_kernel::{
    Backend, EValue, Environment, Event, Kernel, Limits, NamedData, SizeLimits, ValueIndex,
    ValueTable,
};
use et_memory::{Budget, MemoryPlan, PlannedMemory};
use et_schema::PlanView;

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
    pub(crate) depth: u32,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            budget: Budget::unlimited(),
            instruction_limit: 10_000_000,
            size: SizeLimits::default(),
            planned: None,
            depth: 0,
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

    /// What a method leaves for a program that is nested in it.
    pub(crate) fn nested(limits: &Limits) -> Self {
        Self {
            budget: limits.budget.clone(),
            instruction_limit: limits.instructions,
            size: limits.size.clone(),
            depth: limits.depth + 1,
            ..Self::default()
        }
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
    if options.depth > MAX_DEPTH {
        return Err(ErrorKind::Nesting { limit: MAX_DEPTH }.into());
    }
    let data = MethodData {
        files,
        program: meta.program(),
        outer,
    };
    let plan = meta.plan();
    size::check(&options.size, &plan)?;
    let kernels = find_kernels(&plan, environment)?;
    let backends = find_backends(&plan, environment)?;
    data.check_duplicates()?;
    check_external(&plan, &data)?;

    let (planned, initialised) =
        planned_memory(meta, environment, &options.budget, options.planned, arenas)?;
    let mut loader = Loader {
        program: meta.program(),
        plan,
        environment,
        data: &data,
        written: written_values(&plan),
        table: ValueTable::new(planned),
        initialised,
        initial: Vec::new(),
        plain: Vec::new(),
        uploaded: BTreeMap::new(),
        constants: BTreeMap::new(),
        reading: 0,
    };
    let map = &environment.device_map;
    let own = [
        meta.memory_plan(map)?.buffers(),
        meta.unplanned_memory(map)?.buffers(),
    ]
    .concat();
    let limits = Limits::new(
        options.budget.after(&MemoryPlan::new(own)),
        options.instruction_limit,
        options.depth,
    )
    .with_size(options.size.clone());
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

/// The one way from a method's description to planned memory. Memory that the method does not get from others must be inside
/// the budget, and so must everything that it allocates besides.
fn planned_memory(
    meta: &MethodMeta,
    environment: &Environment,
    budget: &Budget,
    given: Option<PlannedMemory>,
    arenas: &mut Option<Arenas>,
) -> Result<(PlannedMemory, Option<InitialisedSlots>), Error> {
    let map = &environment.device_map;
    let plan = meta.memory_plan(map)?;
    let unplanned = meta.unplanned_memory(map)?;
    if let Some(shared) = arenas {
        shared.memory.check(&plan)?;
        budget.check(&unplanned)?;
    }
    if let Some(Arenas {
        memory,
        initialised,
    }) = arenas.take()
    {
        return Ok((memory, Some(initialised)));
    }
    if let Some(given) = given {
        given.check(&plan)?;
        budget.check(&unplanned)?;
        return Ok((given, None));
    }
    let parts = [plan.buffers(), unplanned.buffers()].concat();
    budget.check(&MemoryPlan::new(parts))?;
    let planned = PlannedMemory::allocate(&plan, &environment.devices, budget)?;
    Ok((planned, None))
}

/// A method that is being loaded.
struct Loader<'a> {
    program: &'a Program,
    plan: PlanView<'a>,
    environment: &'a Environment,
    data: &'a MethodData<'a>,
    written: BTreeSet<u32>,
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
        let constants: u64 = self.constants.values().sum();
        let most = constants + constants / 2 + KEPT_ANYWAY;
        let limit = limits.budget.limit_on(Device::CPU);
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
