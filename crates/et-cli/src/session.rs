//! One loaded program and the methods that were called so far.

mod error;

use crate::args::ProgramArgs;
use crate::failure::{Blame, Failure};
use crate::inputs::{self, Spec};
use crate::options::{self, Simulate};
use crate::source::Source;
use crate::trace::Recorder;
use crate::value::Value;
use et_device::{AllocatorHandle, DeviceAllocatorRegistry, DeviceType};
use et_kernel::{Environment, Event, EventHook, Workers};
use et_module::{DataFile, Error, Method, Module, ModuleOptions, Program};
use et_schema::{ParsedProgram, ValueView};
use et_sim::{RecordingAllocator, SimAllocator, SimOptions, TraceLog};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The method that is called where none is named.
const DEFAULT_METHOD: &str = "forward";

/// A program with its loaded methods, which keep their state from call to call.
#[derive(Debug)]
pub(crate) struct Session {
    source: Source,
    simulated: bool,
    module: Module,
    max_input_bytes: u64,
}

/// Tells everything to all who watch.
struct Watchers(Vec<Arc<dyn EventHook>>);

impl EventHook for Watchers {
    fn event(&self, event: &Event<'_>) {
        for watcher in &self.0 {
            watcher.event(event);
        }
    }
}

impl Session {
    /// Loads the program and its data; methods are loaded when they are called.
    pub(crate) fn open(args: &ProgramArgs, source: &Source) -> Result<Self, Failure> {
        Self::with(args, source.clone(), devices(args), Vec::new())
    }

    /// As [`open`](Self::open), watched by a recorder and by all `others`.
    pub(crate) fn watched(
        args: &ProgramArgs,
        source: &Source,
        others: Vec<Arc<dyn EventHook>>,
    ) -> Result<(Self, Arc<Recorder>), Failure> {
        let log = Arc::new(TraceLog::default());
        let devices = match devices(args) {
            Some(own) => watch(&own, &log),
            None => watch(DeviceAllocatorRegistry::global(), &log),
        };
        let recorder = Arc::new(Recorder::new(log));
        let mut watchers: Vec<Arc<dyn EventHook>> = vec![Arc::clone(&recorder) as _];
        watchers.extend(others);
        let session = Self::with(args, source.clone(), Some(devices), watchers)?;
        Ok((session, recorder))
    }

    /// With devices of its own, or those of the process.
    fn with(
        args: &ProgramArgs,
        source: Source,
        devices: Option<DeviceAllocatorRegistry>,
        watchers: Vec<Arc<dyn EventHook>>,
    ) -> Result<Self, Failure> {
        let simulated = args.simulate.is_some();
        let failure = |error: Error| error::failure(&source.name(), simulated, &error);
        let program = Program::load(source.clone()).map_err(failure)?;
        let linked = Environment::linked().map_err(|error| failure(error.into()))?;
        let mut environment = linked.with_device_map(options::device_map(&args.device_map));
        if !watchers.is_empty() {
            environment = environment.with_hook(Arc::new(Watchers(watchers)));
        }
        if let Some(devices) = devices {
            environment = environment.with_devices(devices);
        }
        if let Some(threads) = NonZeroUsize::new(args.threads.into()).filter(|n| n.get() > 1) {
            let workers = Workers::new(threads).map_err(|error| {
                let message = format!("cannot start {} threads: {error}", args.threads);
                Failure::new(Blame::Environment, "threads", message)
            })?;
            environment = environment.with_workers(Arc::new(workers));
        }
        let mut module = Module::new(program, environment);
        let mut module_options = ModuleOptions::default();
        module_options.share_arenas = args.share_arenas;
        module.set_options(module_options);
        add_data(args, &mut module)?;
        Ok(Self {
            source,
            simulated,
            module,
            max_input_bytes: args.max_input_bytes,
        })
    }

    /// The name of the program's file.
    pub(crate) fn name(&self) -> String {
        self.source.name()
    }

    /// Where the program is read from.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// What is known of the program and its methods.
    pub(crate) fn module(&mut self) -> &mut Module {
        &mut self.module
    }

    /// The method to call: the one named, or `forward`, or the only one.
    pub(crate) fn default_method(&self, named: Option<&str>) -> Result<String, Failure> {
        if let Some(name) = named {
            return Ok(name.to_owned());
        }
        let names: Vec<&str> = self.module.program().method_names().collect();
        match names[..] {
            [only] => Ok(only.to_owned()),
            _ if names.contains(&DEFAULT_METHOD) => Ok(DEFAULT_METHOD.to_owned()),
            _ => Err(Failure::usage(format!(
                "the program has no method `{DEFAULT_METHOD}`: choose one with --method ({})",
                names.join(", ")
            ))),
        }
    }

    /// What a method takes.
    pub(crate) fn specs(&self, method: &str) -> Result<Vec<Spec>, Failure> {
        let meta = self.module.method_meta(method);
        meta.and_then(|meta| inputs::specs(&meta))
            .map_err(|error| self.failure(&error))
    }

    /// The scalars that a method was exported with, by the position of the input.
    fn traced_scalars(&self, method: &str) -> Result<Vec<Value>, Failure> {
        let parsed =
            ParsedProgram::read(&self.source).map_err(|error| self.source.refused(&error))?;
        let Some(plan) = parsed.root().plan(method) else {
            return Ok(Vec::new());
        };
        let values = plan.inputs().iter().map(|index| match plan.value(index) {
            Some(ValueView::Int(value)) => Value::Int(value),
            Some(ValueView::Double(value)) => Value::Double(value),
            Some(ValueView::Bool(value)) => Value::Bool(value),
            Some(ValueView::Str(text)) => Value::String(text.to_owned()),
            _ => Value::None,
        });
        Ok(values.collect())
    }

    /// A method, which is loaded where it was not yet, and these values in the form that it takes.
    pub(crate) fn prepare(
        &mut self,
        method: &str,
        values: &[Value],
        specs: &[Spec],
    ) -> Result<(&mut Method, Vec<et_module::Value>), Failure> {
        let (name, simulated) = (self.source.name(), self.simulated);
        let method = self.module.method(method);
        let method = method.map_err(|error| error::failure(&name, simulated, &error))?;
        if values.len() != method.num_inputs() {
            let message = format!(
                "{name}: method `{}` takes {} inputs, and {} were given",
                method.meta().name(),
                method.num_inputs(),
                values.len()
            );
            return Err(Failure::file("input.count", message));
        }
        let given = values
            .iter()
            .enumerate()
            .map(|(index, value)| inputs::to_runtime(index, value, specs.get(index)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok((method, given))
    }

    /// Calls a method `repeat` times; `before` is done before each time. The outputs are those of the last time; if they `stay`, those
    /// on devices are only told of.
    pub(crate) fn call(
        &mut self,
        method: &str,
        values: &[Value],
        specs: &[Spec],
        (repeat, stay): (u32, bool),
        before: impl Fn(),
    ) -> Result<Vec<Value>, Failure> {
        let failure = self.failures();
        let (method, given) = self.prepare(method, values, specs)?;
        for _ in 0..repeat {
            before();
            run(method, &given).map_err(&failure)?;
        }
        (0..method.num_outputs())
            .map(|index| match method.output_tensor(index) {
                Ok(tensor) if stay && !tensor.device().is_cpu() => Ok(inputs::on_device(tensor)),
                _ => inputs::from_runtime(&method.output_to_host(index).map_err(&failure)?),
            })
            .collect()
    }

    /// Made-up inputs of a method, the same every time.
    pub(crate) fn made_up(&self, method: &str, specs: &[Spec]) -> Result<Vec<Value>, Failure> {
        let has_scalars = specs.iter().any(|spec| matches!(spec, Spec::Other(_)));
        let scalars = if has_scalars {
            self.traced_scalars(method)?
        } else {
            Vec::new()
        };
        let traced = |index: usize| scalars.get(index).cloned().unwrap_or(Value::None);
        inputs::made_up(specs, traced, self.max_input_bytes)
    }

    /// What an error of the runtime is to the user.
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        error::failure(&self.source.name(), self.simulated, error)
    }

    /// As [`failure`](Self::failure), for when a method is borrowed.
    pub(crate) fn failures(&self) -> impl Fn(Error) -> Failure + use<> {
        let (name, simulated) = (self.source.name(), self.simulated);
        move |error| error::failure(&name, simulated, &error)
    }
}

/// Sets the inputs.
pub(crate) fn set(method: &mut Method, inputs: &[et_module::Value]) -> Result<(), Error> {
    let mut inputs = inputs.iter().enumerate();
    inputs.try_for_each(|(index, value)| method.set_input(index, value))
}

/// Sets the inputs and runs.
pub(crate) fn run(method: &mut Method, inputs: &[et_module::Value]) -> Result<(), Error> {
    set(method, inputs)?;
    method.execute()
}

/// The type of device whose memory the numbers of a trace are about: programs name no other than CUDA so far.
pub(crate) fn device_type(args: &ProgramArgs) -> DeviceType {
    args.simulate
        .map_or(DeviceType::CUDA, |simulate| simulate.device_type)
}

/// A registry with the simulated device and nothing else, if one is wanted.
fn devices(args: &ProgramArgs) -> Option<DeviceAllocatorRegistry> {
    args.simulate.map(simulate)
}

fn simulate(wanted: Simulate) -> DeviceAllocatorRegistry {
    let options = SimOptions::new(wanted.device_type).devices(wanted.count);
    let devices = AllocatorHandle::from(Arc::new(SimAllocator::new(options)));
    registry([devices])
}

/// The allocators of a registry, watched. One that is not certain is not there: whoever needs it gets the registry's own error.
fn watch(devices: &DeviceAllocatorRegistry, log: &Arc<TraceLog>) -> DeviceAllocatorRegistry {
    let allocators = devices.device_types().filter_map(|kind| devices.get(kind));
    registry(allocators.map(|allocator| {
        let watched = RecordingAllocator::new(allocator.clone(), Arc::clone(log));
        AllocatorHandle::from(Arc::new(watched))
    }))
}

fn registry(allocators: impl IntoIterator<Item = AllocatorHandle>) -> DeviceAllocatorRegistry {
    let registry = DeviceAllocatorRegistry::new();
    for allocator in allocators {
        registry
            .register(allocator)
            .expect("invariant: one allocator for each type of device");
    }
    registry
}

fn add_data(args: &ProgramArgs, module: &mut Module) -> Result<(), Failure> {
    for path in &args.data {
        let source = Source::open(path)?;
        let name = source.name();
        DataFile::load(source)
            .and_then(|file| module.add_data(file))
            .map_err(|error| error::failure(&name, args.simulate.is_some(), &error))?;
    }
    Ok(())
}
