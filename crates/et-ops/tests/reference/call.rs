//! Calling an operator with arrays, in memory that may be shared.

use et_device::{Device, DeviceAllocatorRegistry};
use et_kernel::{
    Dynamism, EValue, Environment, KernelError, ScalarType, TensorMeta, ValueIndex, ValueTable,
};
use et_memory::{Budget, BufferSpec, MemoryPlan, PlannedMemory, PlannedSlot};

use crate::array::{Array, indices};
use crate::choice::Choices;
use crate::number::{decode, encode};
use crate::steady;

/// Elements that an output has room for.
const ROOM: usize = 8192;

/// A call under construction: arguments in order.
pub(crate) struct Call {
    name: &'static str,
    arguments: Vec<Argument>,
    changed: Option<usize>,
}

#[derive(Debug)]
enum Argument {
    Int(i64),
    Double(f64),
    Truth(bool),
    Text(String),
    Nothing,
    Doubles(Vec<f64>),
    Ints(Vec<i64>),
    Tensor(Array),
    Tensors(Vec<Option<Array>>),
    Output(ScalarType, Vec<u8>),
    Outputs(ScalarType, Vec<Vec<u8>>),
    /// An input that is the output too.
    Again(usize),
}

impl Call {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            arguments: Vec::new(),
            changed: None,
        }
    }

    fn with(mut self, argument: Argument) -> Self {
        self.arguments.push(argument);
        self
    }

    pub(crate) fn tensor(self, array: &Array) -> Self {
        self.with(Argument::Tensor(array.clone()))
    }

    pub(crate) fn optional(self, array: Option<&Array>) -> Self {
        match array {
            Some(array) => self.tensor(array),
            None => self.none(),
        }
    }

    pub(crate) fn tensors(self, arrays: &[Array]) -> Self {
        self.with(Argument::Tensors(
            arrays.iter().cloned().map(Some).collect(),
        ))
    }

    pub(crate) fn some_tensors(self, arrays: &[Option<Array>]) -> Self {
        self.with(Argument::Tensors(arrays.to_vec()))
    }

    pub(crate) fn int(self, value: impl TryInto<i64>) -> Self {
        let value = value.try_into().ok().unwrap();
        self.with(Argument::Int(value))
    }

    pub(crate) fn double(self, value: f64) -> Self {
        self.with(Argument::Double(value))
    }

    pub(crate) fn truth(self, value: bool) -> Self {
        self.with(Argument::Truth(value))
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.with(Argument::Text(value.into()))
    }

    pub(crate) fn none(self) -> Self {
        self.with(Argument::Nothing)
    }

    pub(crate) fn doubles(self, values: &[f64]) -> Self {
        self.with(Argument::Doubles(values.into()))
    }

    pub(crate) fn ints<T: Copy + TryInto<i64>>(self, values: &[T]) -> Self {
        let values = values.iter().map(|&x| x.try_into().ok().unwrap());
        self.with(Argument::Ints(values.collect()))
    }

    /// An output of `rank` dimensions in some order.
    pub(crate) fn out(self, choices: &mut Choices, dtype: ScalarType, rank: usize) -> Self {
        let order = choices.order(rank);
        self.with(Argument::Output(dtype, order))
    }

    /// An output of `rank` dimensions in index order.
    pub(crate) fn flat_out(self, dtype: ScalarType, rank: usize) -> Self {
        self.with(Argument::Output(dtype, (0..rank as u8).collect()))
    }

    /// A list of outputs.
    pub(crate) fn outs(self, choices: &mut Choices, dtype: ScalarType, ranks: &[usize]) -> Self {
        let orders = ranks.iter().map(|&rank| choices.order(rank)).collect();
        self.with(Argument::Outputs(dtype, orders))
    }

    /// Argument `at`, a tensor, is the output.
    pub(crate) fn out_is(self, at: usize) -> Self {
        self.with(Argument::Again(at))
    }

    /// Argument `at` is changed, and is not named once more.
    pub(crate) fn out_is_too(mut self, at: usize) -> Self {
        self.changed = Some(at);
        self
    }

    /// Runs the operator, now and then with its outputs in the memory of its inputs, and returns the outputs.
    pub(crate) fn run(&self, choices: &mut Choices) -> Result<Vec<Array>, KernelError> {
        let way = choices.below(8);
        let shared = (way < 2).then(|| 16 * choices.below(12) as u64);
        let mut memory = Memory::new(self, shared);
        memory.run(self.name, usize::from(way == 2 && !self.is_in_place()))?;
        Ok(memory
            .outputs
            .iter()
            .map(|&index| memory.read(index))
            .collect())
    }

    /// Runs it until it has what it needs, and once more, which must take no heap block.
    pub(crate) fn settles(&self) {
        let outcome = Memory::new(self, None).run(self.name, 1);
        outcome.unwrap();
    }

    /// Whether a second run meets other inputs than the first.
    fn is_in_place(&self) -> bool {
        let again = |argument: &Argument| matches!(argument, Argument::Again(_));
        self.changed.is_some() || self.arguments.iter().any(again)
    }

    /// Runs it and compares the value that its last argument becomes.
    #[track_caller]
    pub(crate) fn sets(&self, expected: &EValue) {
        let mut memory = Memory::new(self, None);
        if let Err(error) = memory.run(self.name, 0) {
            panic!("{} failed: {error}\n{}", self.name, self.shown());
        }
        let found = memory.table.get(*memory.arguments.last().unwrap()).unwrap();
        assert_eq!(
            format!("{found:?}"),
            format!("{expected:?}"),
            "{}\n{}",
            self.name,
            self.shown()
        );
    }

    /// Runs it and compares the outputs with what is expected of them; floating point numbers may be off by `slack` times
    /// what their type cannot hold.
    #[track_caller]
    pub(crate) fn gives(&self, choices: &mut Choices, expected: &[&Array], slack: f64) {
        let found = match self.run(choices) {
            Ok(found) => found,
            Err(error) => panic!("{} failed: {error}\n{}", self.name, self.shown()),
        };
        assert_eq!(found.len(), expected.len());
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(
                found.sizes,
                expected.sizes,
                "{} {i}\n{}",
                self.name,
                self.shown()
            );
            let pairs = found.elements.iter().zip(&expected.elements);
            for (index, (a, b)) in indices(&found.sizes).zip(pairs) {
                assert!(
                    a.close(*b, found.dtype, slack),
                    "{} output {i} at {index:?} is {a:?}, not {b:?}\n{}",
                    self.name,
                    self.shown()
                );
            }
        }
    }

    /// Runs it, which must fail because arguments do not fit.
    #[track_caller]
    pub(crate) fn fails(&self, choices: &mut Choices) {
        match self.run(choices) {
            Err(KernelError::Invalid(_) | KernelError::Shape(_) | KernelError::Dtype { .. }) => {}
            Err(error) => panic!("{}: {error}\n{}", self.name, self.shown()),
            Ok(_) => panic!("{} did not fail\n{}", self.name, self.shown()),
        }
    }

    fn shown(&self) -> String {
        self.arguments
            .iter()
            .map(|argument| format!("{argument:?}\n"))
            .collect()
    }
}

/// A call's values in planned memory.
struct Memory {
    table: ValueTable,
    arguments: Vec<ValueIndex>,
    outputs: Vec<ValueIndex>,
    /// The inputs' bytes.
    inputs: Vec<(ValueIndex, Vec<u8>)>,
    /// Where the next input and the next output go.
    input_at: u64,
    output_at: u64,
}

impl Memory {
    fn new(call: &Call, shared: Option<u64>) -> Self {
        let nbytes = 1 << 20;
        let plan = MemoryPlan::new([BufferSpec::new(nbytes, Device::CPU)]);
        let registry = DeviceAllocatorRegistry::new();
        let planned = PlannedMemory::allocate(&plan, &registry, &Budget::unlimited()).unwrap();
        let mut memory = Self {
            table: ValueTable::new(planned),
            arguments: Vec::new(),
            outputs: Vec::new(),
            inputs: Vec::new(),
            input_at: 0,
            output_at: shared.unwrap_or(nbytes / 2),
        };
        memory.table.allow(1 << 20);
        // Inputs last, so that they are what is in the shared bytes.
        for argument in &call.arguments {
            let index = memory.output(argument);
            memory.arguments.push(index.unwrap_or(ValueIndex(u32::MAX)));
        }
        for (at, argument) in call.arguments.iter().enumerate() {
            if memory.arguments[at] == ValueIndex(u32::MAX) {
                memory.arguments[at] = memory.input(argument);
            }
        }
        memory
            .outputs
            .extend(call.changed.map(|at| memory.arguments[at]));
        memory
    }

    /// A value that never changes.
    fn push(&mut self, value: EValue) -> ValueIndex {
        self.table.push(value);
        self.table.mark_constant();
        ValueIndex(self.table.len() as u32 - 1)
    }

    fn place(&mut self, meta: TensorMeta, at: u64) -> ValueIndex {
        let slot = PlannedSlot {
            memory_id: 1,
            offset_bytes: at,
            nbytes: meta.bound_nbytes() as u64,
            alignment: meta.alignment(),
            device: Device::CPU,
        };
        self.table.push_planned(meta, &slot).unwrap();
        ValueIndex(self.table.len() as u32 - 1)
    }

    fn output(&mut self, argument: &Argument) -> Option<ValueIndex> {
        match argument {
            Argument::Output(dtype, order) => Some(self.one_output(*dtype, order)),
            Argument::Outputs(dtype, orders) => {
                let items = orders.iter().map(|order| self.one_output(*dtype, order));
                let items = items.collect();
                Some(self.push(EValue::TensorList(items)))
            }
            _ => None,
        }
    }

    fn one_output(&mut self, dtype: ScalarType, order: &[u8]) -> ValueIndex {
        let mut sizes = vec![1; order.len()];
        if let Some(first) = sizes.first_mut() {
            *first = ROOM;
        }
        let meta = TensorMeta::new(dtype, &sizes, order).unwrap();
        let meta = meta.with_dynamism(Dynamism::Bound);
        let nbytes = meta.bound_nbytes() as u64;
        let index = self.place(meta, self.output_at);
        // Outputs that share bytes with each other are an error.
        self.output_at += nbytes.next_multiple_of(64);
        self.table.bytes_mut(index).unwrap().fill(0xA5);
        self.outputs.push(index);
        index
    }

    fn input(&mut self, argument: &Argument) -> ValueIndex {
        match argument {
            Argument::Int(value) => self.push(EValue::Int(*value)),
            Argument::Double(value) => self.push(EValue::Double(*value)),
            Argument::Truth(value) => self.push(EValue::Bool(*value)),
            Argument::Text(text) => self.push(EValue::Str(text.as_str().into())),
            Argument::Nothing => self.push(EValue::None),
            Argument::Doubles(values) => self.push(EValue::DoubleList(values.as_slice().into())),
            Argument::Ints(values) => {
                let items = values.iter().map(|&x| self.push(EValue::Int(x)));
                let items = items.collect();
                self.push(EValue::IntList(items))
            }
            Argument::Tensor(array) => self.tensor(array),
            Argument::Tensors(arrays) => {
                let items: Vec<_> = arrays
                    .iter()
                    .map(|array| array.as_ref().map(|array| self.tensor(array)))
                    .collect();
                let all: Option<Vec<ValueIndex>> = items.iter().copied().collect();
                self.push(match all {
                    Some(all) => EValue::TensorList(all.into()),
                    None => EValue::OptionalTensorList(items.into()),
                })
            }
            Argument::Again(at) => {
                self.outputs.push(self.arguments[*at]);
                self.arguments[*at]
            }
            Argument::Output(..) | Argument::Outputs(..) => unreachable!("made before"),
        }
    }

    fn tensor(&mut self, array: &Array) -> ValueIndex {
        let meta = TensorMeta::new(array.dtype, &array.sizes, &array.order).unwrap();
        let places = places(&meta);
        let nbytes = meta.bound_nbytes() as u64;
        let index = self.place(meta, self.input_at);
        self.input_at += nbytes.next_multiple_of(16);
        let width = array.dtype.nbytes();
        let bytes = self.table.bytes_mut(index).unwrap();
        for (place, element) in places.into_iter().zip(&array.elements) {
            bytes[place * width..][..width].copy_from_slice(&encode(array.dtype, *element));
        }
        self.inputs.push((index, bytes.to_vec()));
        index
    }

    /// Gives the inputs the bytes that they had at first, if they have their shape still.
    fn restore(&mut self) {
        for (index, bytes) in &self.inputs {
            let to = self.table.bytes_mut(*index).unwrap();
            if to.len() == bytes.len() {
                to.copy_from_slice(bytes);
            }
        }
    }

    /// Runs the operator, once more if it was prepared, since it may keep something of the first run, and if asked to a few more
    /// times, the last of which may take no heap block.
    fn run(&mut self, name: &str, more: usize) -> Result<(), KernelError> {
        let kernel = et_ops::kernels().find(|kernel| kernel.name() == name);
        let kernel = kernel.unwrap_or_else(|| panic!("no operator {name}"));
        let environment = Environment::default();
        let mut state = None;
        if let Some(prepare) = kernel.prepare() {
            let context = self.table.prepare(&self.arguments, &environment);
            state = prepare(&context.unwrap())?.state;
        }
        let once_more = usize::from(state.is_some());
        for round in 0..=once_more.max(3 * more) {
            self.restore();
            let call = self
                .table
                .call(&self.arguments, state.as_mut(), &environment);
            let mut call = call.unwrap();
            let before = steady::blocks();
            kernel.run()(&mut call)?;
            let taken = steady::blocks() - before;
            assert!(round < 3 || taken == 0, "{name} took {taken} heap blocks");
        }
        Ok(())
    }

    fn read(&self, index: ValueIndex) -> Array {
        let tensor = self.table.tensor(index).unwrap();
        let (meta, bytes) = (tensor.meta(), tensor.bytes().unwrap());
        let width = meta.dtype().nbytes();
        let element = |place: usize| decode(meta.dtype(), &bytes[place * width..][..width]);
        Array {
            dtype: meta.dtype(),
            sizes: meta.sizes().into(),
            order: meta.dim_order().into(),
            elements: places(meta).into_iter().map(element).collect(),
        }
    }
}

/// The place of each element in memory, in index order.
fn places(meta: &TensorMeta) -> Vec<usize> {
    let place = |index: Vec<usize>| index.iter().zip(meta.strides()).map(|(i, s)| i * s).sum();
    indices(meta.sizes()).map(place).collect()
}
