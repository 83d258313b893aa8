//! A loaded method: set inputs, run, look at outputs.

mod initial;
mod outputs;
mod pipeline;
mod state;

use et_device::Device;
use et_kernel::{
    ArgumentPlace, EValue, Environment, Event, Interrupt, Tensor, TensorError, ValueIndex,
    ValueTable,
};
use et_memory::PlannedMemory;
use et_schema::ValueView;
use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::load::InitialisedSlots;
use crate::run::{self, Position};
use crate::step::Steps;
use crate::value::{Value, describe};
use crate::{Error, MethodMeta};

pub(crate) use initial::{Initial, InitialBytes};
pub use pipeline::Handover;

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
    /// Values other than tensors that the program changes, as they are before each run.
    plain: Vec<(ValueIndex, EValue)>,
    /// The devices of its tensors, the host apart.
    devices: Vec<Device>,
    /// Places in shared arenas whose initial contents were loaded; `None` for memory of the method's own.
    initialised: Option<InitialisedSlots>,
    /// Whether a reset of the state failed, and none has worked since.
    is_half_reset: bool,
    position: Option<Position>,
    /// Instructions that the run in progress has taken.
    taken: u64,
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
    pub(crate) plain: Vec<(ValueIndex, EValue)>,
    pub(crate) devices: Vec<Device>,
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
            plain: parts.plain,
            devices: parts.devices,
            initialised: parts.initialised,
            is_half_reset: false,
            position: None,
            taken: 0,
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

    /// Bytes that operators keep of what they made of constants at load, such as weights in another order.
    pub fn kept_nbytes(&self) -> u64 {
        self.table.kept_nbytes()
    }

    /// Bytes of scratch memory that operators have taken so far.
    pub fn scratch_nbytes(&self) -> u64 {
        self.table.scratch_nbytes()
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
            .end_view_of(value)
            .and_then(|()| {
                self.table
                    .allocate_missing(value, &self.environment.devices)
            })
            .and_then(|()| self.table.resize(value, sizes));
        ready.map_err(|error| input_error(index, error.into()).in_method(self.meta.name()))?;
        self.inputs[index].is_set = true;
        self.table
            .bytes_mut(value)
            .map_err(|error| input_error(index, error.into()))
    }

    /// Runs the method once, from its first instruction to its last.
    ///
    /// # Errors
    /// [`ErrorKind::InputsMissing`], [`ErrorKind::InProgress`], [`ErrorKind::InstructionLimit`], [`ErrorKind::Cancelled`], or
    /// the failed instruction's. The method can be run again.
    pub fn execute(&mut self) -> Result<(), Error> {
        let span = tracing::trace_span!("execute", method = self.meta.name());
        let _entered = span.enter();
        self.begin()?;
        let result = loop {
            match self.advance(u64::MAX) {
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
        let advanced = self.advance(1);
        if !matches!(advanced, Ok(true)) {
            self.end(advanced.is_ok());
        }
        advanced
    }

    /// Something that ends a run from another thread.
    ///
    /// ```
    /// use et_kernel::{Environment, Tensor};
    /// use et_module::{ErrorKind, Program};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/add/model.pte");
    /// # use et_ops as _;
    /// let mut method = Program::open(path)?.load_method("forward", &Environment::linked()?)?;
    /// for input in 0..2 {
    ///     method.set_input(input, &Tensor::from_slice(&[1.0f32; 6], &[2, 3])?.into())?;
    /// }
    /// let handle = method.cancel_handle();
    /// std::thread::spawn(move || handle.cancel()).join().unwrap();
    /// assert!(matches!(method.execute().unwrap_err().kind(), ErrorKind::Cancelled));
    /// assert!(method.execute().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(self.table.interrupt().clone())
    }

    /// Makes runs end when another method's run is to end, in which this method runs.
    pub(crate) fn follow(&mut self, interrupt: &Interrupt) {
        self.table.set_interrupt(interrupt.clone());
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

    /// Input `index`, which is a tensor, as it is now: its shape and place. The place stays the same until memory is exchanged.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchInput`], [`ErrorKind::Table`] if it is something else.
    pub fn input_tensor(&self, index: usize) -> Result<&Tensor, Error> {
        let input = self.inputs.get(index).ok_or_else(|| {
            let count = self.inputs.len();
            Error::from(ErrorKind::NoSuchInput { index, count }).in_method(self.meta.name())
        })?;
        Ok(self.table.tensor(input.value)?)
    }

    /// How many inputs the method takes.
    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// How many outputs it gives.
    pub fn num_outputs(&self) -> usize {
        self.outputs.len()
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
        self.taken = 0;
        Ok(())
    }

    fn try_begin(&mut self) -> Result<(), Error> {
        if self.position.is_some() {
            return Err(ErrorKind::InProgress.into());
        }
        if self.is_half_reset {
            return Err(ErrorKind::HalfReset.into());
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
        self.table.restore(&self.plain)?;
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

    /// Runs instructions, `most` at most. Says whether the run goes on.
    fn advance(&mut self, most: u64) -> Result<bool, Error> {
        let Some(position) = self.position else {
            return Ok(false);
        };
        let limit = self.instruction_limit;
        let left = limit.saturating_sub(self.taken);
        if left == 0 {
            return Err(
                Error::from(ErrorKind::InstructionLimit { limit }).in_method(self.meta.name())
            );
        }
        let (steps, table) = (&mut self.steps, &mut self.table);
        let advanced = run::advance(steps, table, &self.environment, position, most.min(left));
        self.taken = self.taken.saturating_add(advanced.taken);
        match advanced.next {
            Ok(next) => {
                self.position = next;
                Ok(next.is_some())
            }
            Err(error) => {
                // The wish is fulfilled with this; the next run is another one.
                if matches!(error.kind(), ErrorKind::Cancelled) {
                    self.table.interrupt().take();
                }
                Err(error.in_method(self.meta.name()))
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

    fn copy_input(&mut self, value: ValueIndex, source: &Tensor) -> Result<(), Error> {
        let registry = &self.environment.devices;
        // A view from the last run must not be written through.
        self.table.end_view_of(value)?;
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
        // Of another number of dimensions nothing can be made; the copy says so.
        if meta.dim_order() == source.meta().dim_order() || meta.rank() != source.meta().rank() {
            return Ok(self.table.copy_from(value, source)?);
        }
        let order: SmallVec<[u8; 16]> = meta.dim_order().into();
        let reordered = source.to_host()?.in_dim_order(&order)?;
        Ok(self.table.copy_from(value, &reordered)?)
    }

    fn check_scalar(&self, index: usize, value: ValueIndex, given: &Value) -> Result<(), Error> {
        // What the program was made with, even if the last run changed it.
        let changed = self.plain.iter().find(|(plain, _)| *plain == value);
        let traced = match changed {
            Some((_, first)) => first,
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

/// Ends the run of a method, from whatever thread: before its next instruction or that of a program nested in it, or, if none is in
/// progress, the next run before its first instruction.
#[derive(Clone, Debug)]
pub struct CancelHandle(Interrupt);

impl CancelHandle {
    /// Asks for the end of a run. That run is the only one that it ends; if the present one is done before it sees this, it is the next.
    pub fn cancel(&self) {
        self.0.raise();
    }

    /// Takes back what [`cancel`](Self::cancel) asked for, if no run has ended because of it: for whoever wanted the present run to end
    /// and no other, once that is over.
    pub fn clear(&self) {
        self.0.take();
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
