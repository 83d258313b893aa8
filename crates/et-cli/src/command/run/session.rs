//! One loaded program and the methods that were called so far.

use super::error;
use crate::args::{Outputs, RunArgs};
use crate::failure::Failure;
use crate::inputs::{self, Spec};
use crate::options::{self, Simulate};
use crate::profile::Profiler;
use crate::source::Source;
use crate::trace::Recorder;
use crate::value::Value;
use et_device::{AllocatorHandle, DeviceAllocatorRegistry};
use et_kernel::{Environment, Event, EventHook};
use et_module::{DataFile, Error, Module, ModuleOptions, Program};
use et_schema::{ParsedProgram, ValueView};
use et_sim::{SimAllocator, SimOptions};
use serde_json::Value as Json;
use std::sync::Arc;

/// The method that is called where none is named.
const DEFAULT_METHOD: &str = "forward";

/// A program with its loaded methods, which keep their state from call to call.
#[derive(Debug)]
pub(super) struct Session {
    source: Source,
    simulated: bool,
    module: Module,
    recorder: Arc<Recorder>,
    profiler: Option<Arc<Profiler>>,
    repeat: u32,
    outputs: Outputs,
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
    pub(super) fn open(args: &RunArgs) -> Result<Self, Failure> {
        let source = Source::open(&args.file)?;
        let simulated = args.simulate.is_some();
        let failure = |error: Error| error::failure(&source.name(), simulated, &error);
        let program = Program::load(source.clone()).map_err(failure)?;
        let device = args.simulate.map(simulate);
        let recorder = Arc::new(Recorder::new(
            device.as_ref().map(|(device, _)| Arc::clone(device)),
        ));
        let profiler = profiler(args, &source)?;
        let mut watchers: Vec<Arc<dyn EventHook>> = vec![Arc::clone(&recorder) as _];
        watchers.extend(profiler.clone().map(|profiler| profiler as _));
        let linked = Environment::linked().map_err(|error| failure(error.into()))?;
        let mut environment = linked
            .with_device_map(options::device_map(&args.device_map))
            .with_hook(Arc::new(Watchers(watchers)));
        if let Some((_, registry)) = device {
            environment = environment.with_devices(registry);
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
            recorder,
            profiler,
            repeat: args.repeat,
            outputs: args.outputs,
        })
    }

    /// The method to call: the one named, or `forward`, or the only one.
    pub(super) fn default_method(&self, named: Option<&str>) -> Result<String, Failure> {
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
    pub(super) fn specs(&self, method: &str) -> Result<Vec<Spec>, Failure> {
        let meta = self.module.method_meta(method);
        meta.and_then(|meta| inputs::specs(&meta))
            .map_err(|error| self.failure(&error))
    }

    /// The scalars that a method was exported with, by the position of the input.
    pub(super) fn traced_scalars(&self, method: &str) -> Result<Vec<Value>, Failure> {
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

    /// Calls a method as often as wanted; it is loaded where it was not yet. The outputs are those of the last time.
    pub(super) fn call(
        &mut self,
        method: &str,
        values: &[Value],
        specs: &[Spec],
    ) -> Result<Vec<Value>, Failure> {
        let (name, simulated) = (self.source.name(), self.simulated);
        let stay = self.outputs == Outputs::Device;
        let failure = |error: Error| error::failure(&name, simulated, &error);
        let method = self.module.method(method).map_err(failure)?;
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
        for _ in 0..self.repeat {
            self.recorder.begin_run();
            for (index, value) in given.iter().enumerate() {
                method.set_input(index, value).map_err(failure)?;
            }
            method.execute().map_err(failure)?;
        }
        (0..method.num_outputs())
            .map(|index| match method.output_tensor(index) {
                Ok(tensor) if stay && !tensor.device().is_cpu() => Ok(inputs::on_device(tensor)),
                _ => inputs::from_runtime(&method.output_to_host(index).map_err(failure)?),
            })
            .collect()
    }

    /// What happened so far.
    pub(super) fn trace(&self) -> Json {
        self.recorder.document()
    }

    /// How long instructions took, if that is wanted.
    pub(super) fn profile(&self) -> Option<Json> {
        self.profiler.as_ref().map(|profiler| profiler.document())
    }

    fn failure(&self, error: &Error) -> Failure {
        error::failure(&self.source.name(), self.simulated, error)
    }
}

/// A simulated device, and a registry that has it and nothing else.
fn simulate(wanted: Simulate) -> (Arc<SimAllocator>, DeviceAllocatorRegistry) {
    let options = SimOptions::new(wanted.device_type).devices(wanted.count);
    let device = Arc::new(SimAllocator::new(options));
    let registry = DeviceAllocatorRegistry::new();
    registry
        .register(AllocatorHandle::from(Arc::clone(&device)))
        .expect("invariant: the registry is empty");
    (device, registry)
}

fn add_data(args: &RunArgs, module: &mut Module) -> Result<(), Failure> {
    for path in &args.data {
        let source = Source::open(path)?;
        let name = source.name();
        DataFile::load(source)
            .and_then(|file| module.add_data(file))
            .map_err(|error| error::failure(&name, args.simulate.is_some(), &error))?;
    }
    Ok(())
}

fn profiler(args: &RunArgs, source: &Source) -> Result<Option<Arc<Profiler>>, Failure> {
    if args.profile.is_none() {
        return Ok(None);
    }
    let parsed = ParsedProgram::read(source).map_err(|error| source.refused(&error))?;
    Ok(Some(Arc::new(Profiler::new(&parsed.root()))))
}
