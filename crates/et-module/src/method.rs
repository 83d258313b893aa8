//! A loaded method: set inputs, run, look at outputs.

use std::ops::Range;

use et_device::DeviceAllocatorRegistry;
use et_kernel::{
    ArgumentPlace, EValue, Environment, Event, Scalar, SharedBytes, Tensor, TensorError,
    ValueIndex, ValueTable,
};
use et_memory::{Place as MemoryPlace, PlannedMemory};
use et_schema::ValueView;
use smallvec::SmallVec;

use crate::error::{ErrorKind, Place};
use crate::load::{Arenas, InitialisedSlots};
use crate::run::{self, Position};
use crate::step::Steps;
use crate::value::{Value, describe};
use crate::{Error, MethodMeta, Program};

/// A method with its values and its memory, ready to run. It may be sent to another thread, and used by one at a time.
///
/// ```
/// use et_kernel::{Environment, KernelRegistry, Tensor};
/// use et_module::{Program, Value};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/add/model.pte");
/// # use et_ops as _;
/// let mut method = Program::open(path)?.load_method("forward", &Environment::linked()?)?;
/// let ones = || Tensor::from_slice(&[1.0f32; 6], &[2, 3]).map(Value::from);
/// method.set_input(0, &ones()?)?;
/// method.set_input(1, &ones()?)?;
/// method.execute()?;
/// assert_eq!(method.output_tensor(0)?.as_slice::<f32>()?, [2.0; 6]);
/// # Ok(())
/// # }
/// ```
pub struct Method {
    meta: MethodMeta,
    environment: Environment,
    table: ValueTable,
    steps: Steps,
    inputs: Vec<Input>,
    outputs: Vec<ValueIndex>,
    initial: Vec<Initial>,
    /// Numbers that the program changes, as they are before each run.
    scalars: Vec<(ValueIndex, Scalar)>,
    /// Where the planned buffers are.
    places: Vec<Option<MemoryPlace>>,
    /// Places in shared arenas whose initial contents were loaded; `None` for memory of the method's own.
    initialised: Option<InitialisedSlots>,
    position: Option<Position>,
    instruction_limit: u64,
    /// Where the outputs were at the end of a run, for events.
    output_places: Vec<ArgumentPlace>,
}

/// What loading makes of a method.
pub(crate) struct Parts {
    pub(crate) meta: MethodMeta,
    pub(crate) environment: Environment,
    pub(crate) table: ValueTable,
    pub(crate) steps: Steps,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<ValueIndex>,
    pub(crate) initial: Vec<Initial>,
    pub(crate) scalars: Vec<(ValueIndex, Scalar)>,
    pub(crate) places: Vec<Option<MemoryPlace>>,
    pub(crate) instruction_limit: u64,
    pub(crate) initialised: Option<InitialisedSlots>,
}

/// An input of a method.
pub(crate) struct Input {
    value: ValueIndex,
    is_tensor: bool,
    is_set: bool,
}

impl Input {
    pub(crate) fn new(value: ValueIndex, view: Option<ValueView<'_>>) -> Self {
        let is_tensor = matches!(view, Some(ValueView::Tensor(_)));
        Self {
            value,
            is_tensor,
            is_set: false,
        }
    }
}

/// What a planned tensor holds when the method is loaded.
pub(crate) struct Initial {
    pub(crate) value: ValueIndex,
    pub(crate) bytes: InitialBytes,
}

pub(crate) enum InitialBytes {
    /// Read from the program each time.
    Segment { segment: u32, part: Range<u64> },
    /// From a data file.
    Owned(SharedBytes),
}

impl Initial {
    pub(crate) fn load(
        &self,
        table: &mut ValueTable,
        program: &Program,
        registry: &DeviceAllocatorRegistry,
    ) -> Result<(), Error> {
        let bytes = match &self.bytes {
            InitialBytes::Segment { segment, part } => {
                program.segment_part(*segment, part.clone())?
            }
            InitialBytes::Owned(bytes) => bytes.clone(),
        };
        let nbytes = table.meta(self.value).map_or(0, |meta| meta.bound_nbytes());
        let bytes = bytes.get(..nbytes).unwrap_or(&bytes);
        Ok(table.write_bytes(self.value, bytes, registry)?)
    }
}

impl Method {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            meta,
            environment,
            table,
            steps,
            inputs,
            outputs,
            ..
        } = parts;
        Self {
            meta,
            environment,
            table,
            steps,
            output_places: Vec::with_capacity(outputs.len()),
            inputs,
            outputs,
            initial: parts.initial,
            scalars: parts.scalars,
            places: parts.places,
            initialised: parts.initialised,
            position: None,
            instruction_limit: parts.instruction_limit,
        }
    }

    /// What is known of the method.
    pub fn meta(&self) -> &MethodMeta {
        &self.meta
    }

    /// What the method was loaded with.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The planned memory, to look at.
    pub fn planned_memory(&self) -> &PlannedMemory {
        self.table.planned()
    }

    /// Sets input `index` to a copy of `value`. It stays set for later runs, unless the program overwrites it.
    ///
    /// A tensor is copied to the device that the input is on, from wherever it is, and into the input's dimension order.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchInput`]; [`ErrorKind::WrongInput`] for another kind of value, or another number than the program
    /// was exported with; [`ErrorKind::Input`] for a tensor of another type or shape. The input is as it was then.
    pub fn set_input(&mut self, index: usize, value: &Value) -> Result<(), Error> {
        let input = self.free_input(index)?;
        let given = match value {
            Value::Tensor(tensor) if self.inputs[index].is_tensor => self
                .copy_input(input, tensor)
                .map_err(|error| input_error(index, error)),
            _ => self.check_scalar(index, input, value),
        };
        self.inputs[index].is_set |= given.is_ok();
        given.map_err(|error| error.in_method(self.meta.name()))
    }

    /// Sets input `index` to a tensor of shape `sizes`, and gives its bytes to fill in (in the input's dimension order). Only
    /// for inputs on the host.
    ///
    /// # Errors
    /// As [`set_input`](Self::set_input).
    pub fn input_bytes_mut(&mut self, index: usize, sizes: &[usize]) -> Result<&mut [u8], Error> {
        let value = self.free_input(index)?;
        let ready = self
            .table
            .allocate_missing(value, &self.environment.devices)
            .and_then(|()| self.table.resize(value, sizes));
        ready.map_err(|error| input_error(index, error.into()).in_method(self.meta.name()))?;
        self.inputs[index].is_set = true;
        self.table
            .bytes_mut(value)
            .map_err(|error| input_error(index, error.into()))
    }

    /// Exchanges the memory of input `index` with that of `tensor`, without a copy: the input then is the tensor, and the tensor
    /// holds what the input was. Only for inputs without a plan; on whatever device they are.
    ///
    /// # Errors
    /// As [`set_input`](Self::set_input); [`ErrorKind::Table`] if the input lives in planned memory, or the two do not fit.
    pub fn exchange_input(&mut self, index: usize, tensor: &mut Tensor) -> Result<(), Error> {
        let value = self.free_input(index)?;
        self.exchange(value, tensor)?;
        self.inputs[index].is_set = true;
        Ok(())
    }

    /// Exchanges the memory of output `index` with that of `tensor`, without a copy: the tensor then is the output of the run
    /// before, and the next run writes to what the tensor was. Only for outputs without a plan.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`], and as [`exchange_input`](Self::exchange_input).
    pub fn exchange_output(&mut self, index: usize, tensor: &mut Tensor) -> Result<(), Error> {
        let value = self.output_index(index)?;
        self.exchange(value, tensor)
    }

    fn exchange(&mut self, value: ValueIndex, tensor: &mut Tensor) -> Result<(), Error> {
        let done = self
            .table
            .allocate_missing(value, &self.environment.devices)
            .and_then(|()| self.table.exchange_memory(value, tensor));
        done.map_err(|error| {
            Error::from(error)
                .at_value(value.0)
                .in_method(self.meta.name())
        })
    }

    /// Runs the method once, from its first instruction to its last.
    ///
    /// # Errors
    /// [`ErrorKind::InputsMissing`], [`ErrorKind::InProgress`], [`ErrorKind::InstructionLimit`], or the failed instruction's.
    /// The method can be run again.
    pub fn execute(&mut self) -> Result<(), Error> {
        self.begin()?;
        let mut taken = 0;
        let result = loop {
            if taken == self.instruction_limit {
                break Err(ErrorKind::InstructionLimit {
                    limit: self.instruction_limit,
                }
                .into());
            }
            taken += 1;
            match self.advance() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.end(result.is_ok());
        result
    }

    /// Runs one instruction: the first of a run if none is in progress. Says whether the run goes on.
    ///
    /// # Errors
    /// As [`execute`](Self::execute). The run ends at an error.
    pub fn step(&mut self) -> Result<bool, Error> {
        if self.position.is_none() {
            self.begin()?;
        }
        let advanced = self.advance();
        if !matches!(advanced, Ok(true)) {
            self.end(advanced.is_ok());
        }
        advanced
    }

    /// Whether a run was begun by [`step`](Self::step) and has not ended.
    pub fn in_progress(&self) -> bool {
        self.position.is_some()
    }

    /// Ends a run that is in progress.
    pub fn reset_execution(&mut self) {
        if self.position.is_some() {
            self.end(false);
        }
    }

    /// Puts all state back to what it was when the method was loaded. Inputs must be set again.
    ///
    /// # Errors
    /// If the initial state cannot be read again, or a device fails.
    pub fn reset_state(&mut self) -> Result<(), Error> {
        self.reset_execution();
        self.reset_values()
            .map_err(|error| error.in_method(self.meta.name()))
    }

    fn reset_values(&mut self) -> Result<(), Error> {
        self.table.end_views();
        self.table.zero_planned()?;
        for position in 0..self.table.len() {
            let value = ValueIndex(u32::try_from(position).unwrap_or(u32::MAX));
            if self.table.meta(value).is_some() {
                self.table.zero_owned(value, &self.environment.devices)?;
            }
        }
        for initial in &self.initial {
            initial.load(
                &mut self.table,
                self.meta.program(),
                &self.environment.devices,
            )?;
        }
        for loaded in &mut self.steps.delegates {
            loaded.delegate.reset_state().map_err(ErrorKind::Kernel)?;
        }
        for input in &mut self.inputs {
            input.is_set = false;
        }
        Ok(())
    }

    /// Output `index`, as the last run left it. It stays until the next run begins.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`].
    pub fn output(&self, index: usize) -> Result<&EValue, Error> {
        Ok(self.table.get(self.output_index(index)?)?)
    }

    /// Output `index`, which is a tensor (on whatever device it is).
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`], [`ErrorKind::Table`] if it is something else.
    pub fn output_tensor(&self, index: usize) -> Result<&Tensor, Error> {
        Ok(self.table.tensor(self.output_index(index)?)?)
    }

    /// A copy of output `index`, on the host. For a tensor on a device this is one copy from there, behind which the run's work
    /// is done.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`], or the device's.
    pub fn output_to_host(&self, index: usize) -> Result<Value, Error> {
        self.copy_output(index, |tensor| tensor.to_host(&self.environment.devices))
    }

    /// A copy of output `index`, on the device where it is.
    ///
    /// # Errors
    /// As [`output_to_host`](Self::output_to_host).
    pub fn output_where_it_is(&self, index: usize) -> Result<Value, Error> {
        self.copy_output(index, |tensor| {
            tensor.to_device(tensor.device(), &self.environment.devices)
        })
    }

    fn copy_output(
        &self,
        index: usize,
        copy: impl FnOnce(&Tensor) -> Result<Tensor, TensorError>,
    ) -> Result<Value, Error> {
        Ok(match self.output(index)? {
            EValue::Tensor(tensor) => Value::Tensor(copy(tensor)?),
            EValue::None => Value::None,
            EValue::Int(value) => Value::Int(*value),
            EValue::Double(value) => Value::Double(*value),
            EValue::Bool(value) => Value::Bool(*value),
            EValue::Str(text) => Value::Str(text.as_ref().to_owned()),
            other => {
                return Err(ErrorKind::NotSupported {
                    what: format!("an output that is a {}", other.kind()),
                }
                .into());
            }
        })
    }

    /// How many inputs the method takes.
    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// How many outputs it gives.
    pub fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Gives the arenas away that the method shares with others.
    pub(crate) fn detach(&mut self) -> Result<Arenas, Error> {
        self.reset_execution();
        let initialised = self.initialised.clone().unwrap_or_default();
        Ok(Arenas {
            memory: self.table.detach_memory()?,
            initialised,
        })
    }

    /// Takes shared arenas, if they are elsewhere.
    pub(crate) fn attach(&mut self, arenas: Arenas) -> Result<(), Error> {
        self.table.attach_memory(arenas.memory, &self.places)?;
        self.initialised = Some(arenas.initialised);
        Ok(())
    }

    /// Whether the planned memory is shared with other methods.
    pub(crate) fn shares_arenas(&self) -> bool {
        self.initialised.is_some()
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.table.is_attached()
    }

    /// Prepares a run: every input is set, every output has memory, every value is as it was before the last run.
    fn begin(&mut self) -> Result<(), Error> {
        let begun = self.try_begin();
        begun.map_err(|error| error.in_method(self.meta.name()))?;
        if self.environment.hook.is_some() {
            self.environment.emit(&Event::ExecuteBegin {
                method: self.meta.name(),
            });
        }
        self.position = Some(Position::START);
        Ok(())
    }

    fn try_begin(&mut self) -> Result<(), Error> {
        if self.position.is_some() {
            return Err(ErrorKind::InProgress.into());
        }
        if !self.inputs.iter().all(|input| input.is_set) {
            let missing = (0..)
                .zip(&self.inputs)
                .filter(|(_, input)| !input.is_set)
                .map(|(i, _)| i)
                .collect();
            return Err(ErrorKind::InputsMissing { missing }.into());
        }
        self.table.end_views();
        for &(value, scalar) in &self.scalars {
            self.table.set(value, scalar.into())?;
        }
        for &output in &self.outputs {
            if self.table.meta(output).is_some() {
                let allocated = self
                    .table
                    .allocate_missing(output, &self.environment.devices);
                allocated.map_err(|error| Error::from(error).at_value(output.0))?;
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<bool, Error> {
        let Some(position) = self.position else {
            return Ok(false);
        };
        match run::step(
            &mut self.steps,
            &mut self.table,
            &self.environment,
            position,
        ) {
            Ok(next) => {
                self.position = next;
                Ok(next.is_some())
            }
            Err((kind, instruction, name)) => {
                let place = Place {
                    instruction: Some(instruction),
                    name: Some(name),
                    ..Place::default()
                };
                Err(kind.at(place).in_method(self.meta.name()))
            }
        }
    }

    fn end(&mut self, completed: bool) {
        self.position = None;
        if self.environment.hook.is_none() {
            return;
        }
        self.output_places.clear();
        if completed {
            let tensors = self
                .outputs
                .iter()
                .filter_map(|&output| self.table.tensor(output).ok());
            self.output_places
                .extend(tensors.map(Tensor::argument_place));
        }
        self.environment.emit(&Event::ExecuteEnd {
            method: self.meta.name(),
            outputs: &self.output_places,
        });
    }

    /// The value of an input that may be set now.
    fn free_input(&self, index: usize) -> Result<ValueIndex, Error> {
        let count = self.inputs.len();
        let input = self
            .inputs
            .get(index)
            .ok_or(ErrorKind::NoSuchInput { index, count });
        let input = input.map_err(|kind| Error::from(kind).in_method(self.meta.name()))?;
        if self.position.is_some() {
            return Err(Error::from(ErrorKind::InProgress).in_method(self.meta.name()));
        }
        Ok(input.value)
    }

    fn output_index(&self, index: usize) -> Result<ValueIndex, Error> {
        let missing = ErrorKind::NoSuchOutput {
            index,
            count: self.outputs.len(),
        };
        self.outputs
            .get(index)
            .copied()
            .ok_or_else(|| Error::from(missing).in_method(self.meta.name()))
    }

    fn copy_input(&mut self, value: ValueIndex, source: &Tensor) -> Result<(), Error> {
        let registry = &self.environment.devices;
        // A view from the last run must not be written through.
        self.table.end_views();
        self.table.allocate_missing(value, registry)?;
        let meta = self
            .table
            .meta(value)
            .ok_or(et_kernel::TableError::NotATensor { index: value })?;
        if meta.dtype() != source.dtype() {
            let error = TensorError::Dtype {
                expected: meta.dtype(),
                found: source.dtype(),
            };
            return Err(error.into());
        }
        if meta.dim_order() == source.meta().dim_order() {
            return Ok(self.table.copy_from(value, source, registry)?);
        }
        let order: SmallVec<[u8; 16]> = meta.dim_order().into();
        let reordered = source.to_host(registry)?.in_dim_order(&order)?;
        Ok(self.table.copy_from(value, &reordered, registry)?)
    }

    fn check_scalar(&self, index: usize, value: ValueIndex, given: &Value) -> Result<(), Error> {
        // What the program was made with, even if the last run changed it.
        let changed = self.scalars.iter().find(|(scalar, _)| *scalar == value);
        let traced = changed.map(|&(_, scalar)| EValue::from(scalar));
        let traced = match &traced {
            Some(traced) => traced,
            None => self.table.get(value)?,
        };
        if given.matches(traced) {
            return Ok(());
        }
        Err(ErrorKind::WrongInput {
            index,
            expected: describe(traced),
            found: given.to_string(),
        }
        .into())
    }
}

/// Says which input it was, where the cause is a tensor operation.
fn input_error(index: usize, error: Error) -> Error {
    match error.into_tensor_error() {
        Ok(source) => ErrorKind::Input { index, source }.into(),
        Err(error) => error,
    }
}

impl std::fmt::Debug for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Method")
            .field("name", &self.meta.name())
            .field("table", &self.table)
            .field("in_progress", &self.in_progress())
            .finish_non_exhaustive()
    }
}
