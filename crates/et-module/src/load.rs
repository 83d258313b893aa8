//! From a verified method to one that runs: memory, values, delegates, steps, in this order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use et_device::Device;
use et_kernel::{
    Backend, CompileSpec, EValue, Environment, Event, InitContext, Kernel, Limits, NamedData,
    SharedBytes, Tensor, TensorMeta, ValueIndex, ValueTable,
};
use et_memory::{Budget, MemoryPlan, PlannedMemory};
use et_schema::{DelegateView, InstructionView, PlanView, TensorView, ValueView};

use crate::data::{DataFiles, MethodData};
use crate::error::{ErrorKind, Place};
use crate::meta::{self, full_name, unsupported};
use crate::method::{Initial, InitialBytes, Input};
use crate::step::{LoadedDelegate, Step, Steps};
use crate::{Error, Method, MethodMeta, Program};

/// The places (buffer, offset) in shared arenas whose initial contents were loaded. Nothing loads them again: they may hold
/// state.
pub(crate) type InitialisedSlots = BTreeSet<(u32, u64)>;

/// How many programs may be nested in each other.
const MAX_DEPTH: u32 = 8;

/// How a method is loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadOptions {
    /// How many bytes of planned memory it may use, per device.
    pub budget: Budget,
    /// How many instructions one run may take.
    pub instruction_limit: u64,
    /// Planned memory to use instead of new one.
    pub planned: Option<PlannedMemory>,
    pub(crate) depth: u32,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            budget: Budget::unlimited(),
            instruction_limit: 10_000_000,
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
    );
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
    let places = table
        .planned()
        .buffers()
        .iter()
        .map(|buffer| buffer.place())
        .collect();
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
        places,
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

/// The kernel of each operator.
fn find_kernels(
    plan: &PlanView<'_>,
    environment: &Environment,
) -> Result<Vec<(Kernel, String)>, Error> {
    let mut found = Vec::new();
    let mut missing = BTreeSet::new();
    for operator in plan.operators() {
        let name = full_name(operator.name, operator.overload);
        match environment.kernels.get(&name) {
            Some(kernel) => found.push((*kernel, name)),
            None => {
                missing.insert(name);
            }
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    Err(ErrorKind::MissingOperators {
        names: missing.into_iter().collect(),
    }
    .into())
}

/// The backend of each delegate.
fn find_backends<'e>(
    plan: &PlanView<'_>,
    environment: &'e Environment,
) -> Result<Vec<&'e dyn Backend>, Error> {
    let find = |delegate: DelegateView<'_>| {
        let id = delegate.id();
        let missing = || ErrorKind::MissingBackend {
            id: id.to_owned(),
            available: environment
                .backends
                .ids()
                .map(|(id, _)| id.to_owned())
                .collect(),
        };
        Ok(environment.backends.get(id).ok_or_else(missing)?)
    };
    plan.delegates().map(find).collect()
}

/// All tensors that data files must give, so that every missing one is named at once.
fn check_external(plan: &PlanView<'_>, data: &MethodData<'_>) -> Result<(), Error> {
    let external = plan
        .values()
        .filter_map(|value| value.as_tensor())
        .filter(meta::is_external);
    let mut wanted: BTreeSet<&str> = external
        .filter_map(|tensor| tensor.fully_qualified_name())
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    for key in data.keys() {
        wanted.remove(key.as_str());
    }
    if wanted.is_empty() {
        return Ok(());
    }
    Err(ErrorKind::MissingData {
        names: wanted.into_iter().map(str::to_owned).collect(),
    }
    .into())
}

/// The values that instructions replace (rather than write through): targets of moves and results of operators.
fn written_values(plan: &PlanView<'_>) -> BTreeSet<u32> {
    let mut written = BTreeSet::new();
    for instruction in plan.chains().flat_map(|chain| chain.instructions()) {
        match instruction {
            InstructionView::Kernel { args, .. } => written.extend(args.iter().next_back()),
            InstructionView::Delegate { args, .. } => written.extend(args.iter()),
            InstructionView::Move { to, .. } => {
                written.insert(to);
            }
            _ => {}
        }
    }
    written
}

/// What a constant is in its program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConstantKey {
    Buffer(u32),
    Named(String),
}

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
        let steps = self.steps(kernels, delegates)?;
        self.allocate_internal()?;
        Ok(steps)
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

    fn values(&mut self) -> Result<(), Error> {
        let mut legacy = 0usize;
        for (index, value) in (0..).zip(self.plan.values()) {
            if let ValueView::Tensor(tensor) = value {
                legacy += usize::from(meta::is_legacy_placement(&tensor, &self.plan));
                self.tensor(index, &tensor)
                    .map_err(|error| error.at_value(index))?;
                continue;
            }
            let value = plain_value(&value).map_err(|error| Error::from(error).at_value(index))?;
            if self.written.contains(&index) {
                let first = value.share().unwrap_or(EValue::None);
                self.plain.push((ValueIndex(index), first));
                self.table.push(value);
            } else {
                self.table.push(value);
                self.table.mark_constant();
            }
        }
        if legacy > 0 {
            tracing::warn!(
                method = self.plan.name(),
                tensors = legacy,
                "the program names devices for tensors, but plans all memory on the CPU; they stay there"
            );
        }
        Ok(())
    }

    fn tensor(&mut self, index: u32, tensor: &TensorView<'_>) -> Result<(), Error> {
        let device = meta::placement(tensor, &self.plan, &self.environment.device_map)?;
        let meta = meta::tensor_meta(tensor)?.on(device);
        let nbytes = meta.bound_nbytes() as u64;
        let Some(slot) = meta::slot(tensor, &meta) else {
            return self.unplanned(index, tensor, meta);
        };
        self.table.push_planned(meta.clone(), &slot)?;
        let Some(bytes) = self.initial_bytes(tensor, &meta, nbytes)? else {
            return Ok(());
        };
        let initial = Initial {
            value: ValueIndex(index),
            slot: (slot.memory_id, slot.offset_bytes),
            bytes,
        };
        initial.load(
            &mut self.table,
            self.program,
            &self.environment.devices,
            &mut self.initialised,
        )?;
        self.initial.push(initial);
        Ok(())
    }

    /// What a planned tensor holds at first, if the file says.
    fn initial_bytes(
        &self,
        tensor: &TensorView<'_>,
        meta: &TensorMeta,
        nbytes: u64,
    ) -> Result<Option<InitialBytes>, Error> {
        if meta::is_external(tensor) {
            return self
                .external(tensor, meta)
                .map(|bytes| Some(InitialBytes::Owned(bytes)));
        }
        let buffer = tensor.data_buffer_idx();
        let view = self.program.view();
        let Some(initial) = view.initial_data(tensor.mutable_data_list(), buffer) else {
            return if buffer == 0 {
                Ok(None)
            } else {
                Err(unsupported("initial data that is missing").into())
            };
        };
        match initial {
            et_schema::ConstantView::Segment {
                segment,
                offset,
                available,
            } if nbytes <= available => Ok(Some(InitialBytes::Segment {
                segment,
                part: offset..offset.saturating_add(nbytes),
            })),
            _ => Err(unsupported("initial data that is shorter than its tensor").into()),
        }
    }

    /// A tensor without a plan: a constant, or something that gets its memory later.
    fn unplanned(
        &mut self,
        index: u32,
        tensor: &TensorView<'_>,
        meta: TensorMeta,
    ) -> Result<(), Error> {
        let name = tensor.fully_qualified_name().unwrap_or_default();
        let mut key = ConstantKey::Buffer(tensor.data_buffer_idx());
        let bytes = if meta::is_external(tensor) {
            key = ConstantKey::Named(name.to_owned());
            Some(self.external(tensor, &meta)?)
        } else if tensor.data_buffer_idx() > 0 {
            let constant = self.program.view().constant(tensor.data_buffer_idx());
            let constant = constant.ok_or_else(|| unsupported("a constant that is missing"))?;
            Some(
                self.program
                    .constant(constant, meta.bound_nbytes() as u64)?,
            )
        } else {
            None
        };
        match bytes {
            None => self.table.push_without_memory(meta),
            Some(bytes) if meta.device().is_cpu() => {
                self.table.push_shared(meta, &bytes)?;
                if self.written.contains(&index) {
                    // A move may make it another name; `prepare` must not rely on its bytes.
                    self.table.mark_changing();
                }
            }
            Some(bytes) => self.device_constant(index, key, meta, &bytes)?,
        }
        Ok(())
    }

    /// Uploads a constant once per device, however many values are made of it.
    fn device_constant(
        &mut self,
        index: u32,
        key: ConstantKey,
        meta: TensorMeta,
        bytes: &SharedBytes,
    ) -> Result<(), Error> {
        let key = (key, meta.device());
        if let Some(&known) = self.uploaded.get(&key)
            && self.table.push_alias(meta.clone(), known).is_ok()
        {
            return Ok(());
        }
        self.table.push_owned(Tensor::device_constant(
            meta,
            bytes,
            &self.environment.devices,
        )?);
        self.uploaded.insert(key, ValueIndex(index));
        Ok(())
    }

    /// The bytes of a tensor that is kept outside of the program.
    fn external(&self, tensor: &TensorView<'_>, meta: &TensorMeta) -> Result<SharedBytes, Error> {
        let name = tensor.fully_qualified_name().unwrap_or_default();
        let missing = || ErrorKind::MissingData {
            names: vec![name.to_owned()],
        };
        if let Some(layout) = self.data.layout(name) {
            let alike = layout.dtype() == meta.dtype()
                && layout.sizes() == meta.bound()
                && layout.dim_order() == meta.dim_order();
            if !alike {
                let expected = format!("{:?}", meta.clone().on(layout.device()));
                return Err(ErrorKind::WrongData {
                    name: name.to_owned(),
                    expected,
                    found: format!("{layout:?}"),
                }
                .into());
            }
        }
        let bytes = self.data.bytes(name)?.ok_or_else(missing)?;
        if bytes.len() < meta.bound_nbytes() {
            let (expected, found) = (
                format!("{} bytes", meta.bound_nbytes()),
                format!("{} bytes", bytes.len()),
            );
            return Err(ErrorKind::WrongData {
                name: name.to_owned(),
                expected,
                found,
            }
            .into());
        }
        Ok(bytes)
    }

    /// Gives memory to tensors that have none and that no caller can give any: state, and results between delegates.
    fn allocate_internal(&mut self) -> Result<(), Error> {
        let plan = self.plan;
        let io: BTreeSet<u32> = plan.inputs().iter().chain(plan.outputs().iter()).collect();
        for (index, value) in (0..).zip(plan.values()) {
            if matches!(value, ValueView::Tensor(_)) && !io.contains(&index) {
                let allocated = self
                    .table
                    .allocate_missing(ValueIndex(index), &self.environment.devices);
                allocated.map_err(|error| Error::from(error).at_value(index))?;
            }
        }
        Ok(())
    }

    fn delegates(
        &self,
        backends: &[&dyn Backend],
        limits: &Limits,
    ) -> Result<Vec<LoadedDelegate>, Error> {
        self.plan
            .delegates()
            .zip(backends)
            .map(|(view, backend)| self.delegate(&view, *backend, limits))
            .collect()
    }

    fn delegate(
        &self,
        view: &DelegateView<'_>,
        backend: &dyn Backend,
        limits: &Limits,
    ) -> Result<LoadedDelegate, Error> {
        let id = view.id();
        let failed = |error| {
            ErrorKind::Backend(error).at(Place {
                name: Some(id.to_owned()),
                ..Place::default()
            })
        };
        backend.is_available().map_err(failed)?;
        let blob = self.program.blob(view.processed())?;
        let specs: Vec<_> = view
            .compile_specs()
            .map(|spec| CompileSpec {
                key: spec.key,
                value: spec.value,
            })
            .collect();
        let target = view
            .compile_spec("target_device")
            .map(|value| String::from_utf8_lossy(value).into_owned());
        let context = InitContext::new(
            self.plan.name(),
            &specs,
            self.environment,
            self.data,
            limits,
        );
        let nbytes = blob.len() as u64;
        self.environment.emit(&Event::DelegateInitBegin {
            backend: id,
            target: target.as_deref(),
            nbytes,
        });
        let delegate = backend.init(&context, blob);
        self.environment.emit(&Event::DelegateInitEnd);
        Ok(LoadedDelegate {
            backend: id.to_owned(),
            target,
            delegate: delegate.map_err(failed)?,
        })
    }

    fn steps(
        &mut self,
        kernels: &[(Kernel, String)],
        delegates: Vec<LoadedDelegate>,
    ) -> Result<Steps, Error> {
        let mut steps = Steps {
            delegates,
            ..Steps::default()
        };
        let mut scratch = 0;
        for chain in self.plan.chains() {
            let start = steps.steps.len();
            for (instruction, view) in chain.instructions().enumerate() {
                let step = self.step(
                    instruction,
                    &view,
                    kernels,
                    &mut steps.arguments,
                    &mut scratch,
                )?;
                steps.steps.push(step);
            }
            steps.chains.push(start..steps.steps.len());
        }
        steps.names = kernels.iter().map(|(_, name)| name.clone()).collect();
        self.table.temp_mut().reserve(scratch)?;
        Ok(steps)
    }

    fn step(
        &self,
        instruction: usize,
        view: &InstructionView<'_>,
        kernels: &[(Kernel, String)],
        pool: &mut Vec<ValueIndex>,
        scratch: &mut u64,
    ) -> Result<Step, Error> {
        match *view {
            InstructionView::Kernel { op, args } => {
                let arguments = push_arguments(pool, args.iter());
                let name = op as usize;
                let (kernel, full_name) = kernels
                    .get(name)
                    .ok_or_else(|| unsupported("an operator that is missing"))?;
                let mut state = None;
                if let Some(prepare) = kernel.prepare() {
                    let context = self
                        .table
                        .prepare(&pool[arguments.clone()], self.environment);
                    let prepared = prepare(&context).map_err(|error| {
                        let (instruction, name) = (Some(instruction), Some(full_name.clone()));
                        ErrorKind::Kernel(error).at(Place {
                            instruction,
                            name,
                            ..Place::default()
                        })
                    })?;
                    *scratch = (*scratch).max(prepared.scratch_nbytes);
                    state = prepared.state;
                }
                Ok(Step::Kernel {
                    run: kernel.run(),
                    arguments,
                    state,
                    name,
                })
            }
            InstructionView::Delegate { index, args } => Ok(Step::Delegate {
                index: index as usize,
                arguments: push_arguments(pool, args.iter()),
            }),
            InstructionView::Move { from, to } => Ok(Step::Move {
                from: ValueIndex(from),
                to: ValueIndex(to),
            }),
            InstructionView::JumpFalse { cond, target } => Ok(Step::JumpFalse {
                condition: ValueIndex(cond),
                target: target as usize,
            }),
            InstructionView::Free { value } => Ok(Step::Free {
                value: ValueIndex(value),
            }),
            _ => Err(unsupported("this kind of instruction").into()),
        }
    }
}

fn push_arguments(
    pool: &mut Vec<ValueIndex>,
    arguments: impl Iterator<Item = u32>,
) -> Range<usize> {
    let start = pool.len();
    pool.extend(arguments.map(ValueIndex));
    start..pool.len()
}

/// A value that is not a tensor. Lists of whole numbers hold the places of their items.
fn plain_value(value: &ValueView<'_>) -> Result<EValue, ErrorKind> {
    let index = |raw: i32| {
        u32::try_from(raw)
            .map(ValueIndex)
            .map_err(|_| unsupported("a list of missing values"))
    };
    Ok(match value {
        ValueView::None => EValue::None,
        ValueView::Int(value) => EValue::Int(*value),
        ValueView::Bool(value) => EValue::Bool(*value),
        ValueView::Double(value) => EValue::Double(*value),
        ValueView::Str(text) => EValue::Str((*text).into()),
        ValueView::IntList(items) => {
            let index = |raw: i64| {
                u32::try_from(raw)
                    .map(ValueIndex)
                    .map_err(|_| unsupported("a list of missing values"))
            };
            EValue::IntList(items.iter().map(index).collect::<Result<_, _>>()?)
        }
        ValueView::DoubleList(items) => EValue::DoubleList(items.iter().collect()),
        ValueView::BoolList(items) => EValue::BoolList(items.iter().collect()),
        ValueView::TensorList(items) => {
            EValue::TensorList(items.iter().map(index).collect::<Result<_, _>>()?)
        }
        ValueView::OptionalTensorList(items) => {
            let index = |raw: i32| {
                if raw == -1 {
                    Ok(None)
                } else {
                    index(raw).map(Some)
                }
            };
            EValue::OptionalTensorList(items.iter().map(index).collect::<Result<_, _>>()?)
        }
        _ => return Err(unsupported("this kind of value")),
    })
}
