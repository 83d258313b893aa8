//! Calling an operator by name in tests.

use et_kernel::{
    Dynamism, EValue, Element, Environment, Kernel, KernelError, ScalarType, StepState, Tensor,
    TensorMeta, ValueIndex, ValueTable,
};
use et_memory::PlannedMemory;

/// A call under construction: arguments in order, outputs last.
pub(crate) struct Op {
    kernel: &'static Kernel,
    values: ValueTable,
    arguments: Vec<ValueIndex>,
    outputs: Vec<ValueIndex>,
    environment: Environment,
    in_place: bool,
}

/// The operator's kernel.
pub(crate) fn kernel(name: &str) -> &'static Kernel {
    crate::kernels()
        .find(|kernel| kernel.name() == name)
        .unwrap_or_else(|| panic!("no operator {name}"))
}

impl Op {
    pub(crate) fn new(name: &str) -> Self {
        Self::of(kernel(name))
    }

    pub(crate) fn of(kernel: &'static Kernel) -> Self {
        Self {
            kernel,
            values: ValueTable::new(PlannedMemory::default()),
            arguments: Vec::new(),
            outputs: Vec::new(),
            environment: Environment::default(),
            in_place: false,
        }
    }

    /// A value that never changes, unless it is a tensor.
    fn push(&mut self, value: EValue) -> ValueIndex {
        let changes = matches!(value, EValue::Tensor(_));
        self.values.push(value);
        if !changes {
            self.values.mark_constant();
        }
        ValueIndex(self.values.len() as u32 - 1)
    }

    /// Any value.
    pub(crate) fn value(mut self, value: EValue) -> Self {
        let index = self.push(value);
        self.arguments.push(index);
        self
    }

    /// The value of argument `at` once more.
    pub(crate) fn again(mut self, at: usize) -> Self {
        self.arguments.push(self.arguments[at]);
        self
    }

    /// A contiguous tensor.
    pub(crate) fn tensor<T: Element>(self, elements: &[T], sizes: &[usize]) -> Self {
        let tensor = Tensor::from_slice(elements, sizes).unwrap();
        self.value(EValue::Tensor(Box::new(tensor)))
    }

    /// A tensor whose dimensions lie in `order`; `elements` are in index order.
    pub(crate) fn ordered<T: Element>(self, elements: &[T], sizes: &[usize], order: &[u8]) -> Self {
        self.value(EValue::Tensor(Box::new(ordered(elements, sizes, order))))
    }

    pub(crate) fn int(self, value: i64) -> Self {
        self.value(EValue::Int(value))
    }

    pub(crate) fn double(self, value: f64) -> Self {
        self.value(EValue::Double(value))
    }

    pub(crate) fn boolean(self, value: bool) -> Self {
        self.value(EValue::Bool(value))
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.value(EValue::Str(value.into()))
    }

    pub(crate) fn none(self) -> Self {
        self.value(EValue::None)
    }

    pub(crate) fn ints(mut self, values: &[i64]) -> Self {
        let items = values.iter().map(|&v| self.push(EValue::Int(v))).collect();
        self.value(EValue::IntList(items))
    }

    /// A list of contiguous tensors.
    pub(crate) fn tensors<T: Element>(mut self, items: &[(&[T], &[usize])]) -> Self {
        let items = items
            .iter()
            .map(|(elements, sizes)| {
                let tensor = Tensor::from_slice(elements, sizes).unwrap();
                self.push(EValue::Tensor(Box::new(tensor)))
            })
            .collect();
        self.value(EValue::TensorList(items))
    }

    /// A list of tensors of which some may be missing.
    pub(crate) fn optional_tensors<T: Element>(
        mut self,
        items: &[Option<(&[T], &[usize])>],
    ) -> Self {
        let items = items
            .iter()
            .map(|item| {
                let (elements, sizes) = (*item)?;
                let tensor = Tensor::from_slice(elements, sizes).unwrap();
                Some(self.push(EValue::Tensor(Box::new(tensor))))
            })
            .collect();
        self.value(EValue::OptionalTensorList(items))
    }

    /// A list of any tensors of which some may be missing.
    pub(crate) fn some_tensors(mut self, items: impl Iterator<Item = Option<Tensor>>) -> Self {
        let items: Vec<_> = items
            .map(|item| Some(self.push(EValue::Tensor(Box::new(item?)))))
            .collect();
        let all: Option<Vec<_>> = items.iter().copied().collect();
        self.value(match all {
            Some(all) => EValue::TensorList(all.into()),
            None => EValue::OptionalTensorList(items.into()),
        })
    }

    /// An output that may become anything of up to 4096 elements and of `rank` dimensions. What it holds is no answer.
    pub(crate) fn out(self, dtype: ScalarType, rank: usize) -> Self {
        let order: Vec<u8> = (0..rank as u8).collect();
        self.out_ordered(dtype, &order)
    }

    /// The same, with its dimensions in `order`.
    pub(crate) fn out_ordered(self, dtype: ScalarType, order: &[u8]) -> Self {
        self.out_of(dtype, order, 4096)
    }

    /// The same, of up to `numel` elements.
    pub(crate) fn out_of(mut self, dtype: ScalarType, order: &[u8], numel: usize) -> Self {
        let mut sizes = vec![1; order.len()];
        if let Some(first) = sizes.first_mut() {
            *first = numel;
        }
        let meta = TensorMeta::new(dtype, &sizes, order).unwrap();
        let mut tensor = Tensor::zeros(meta.with_dynamism(Dynamism::Bound)).unwrap();
        tensor.bytes_mut().unwrap().0.fill(0xA5);
        let index = self.push(EValue::Tensor(Box::new(tensor)));
        self.arguments.push(index);
        self.outputs.push(index);
        self
    }

    /// A list of outputs.
    pub(crate) fn outs(mut self, dtype: ScalarType, rank: usize, count: usize) -> Self {
        let start = self.arguments.len();
        for _ in 0..count {
            self = self.out(dtype, rank);
        }
        let items = self.arguments.drain(start..).collect();
        self.value(EValue::TensorList(items))
    }

    /// Makes argument `at` an output, for operators in place.
    pub(crate) fn output(mut self, at: usize) -> Self {
        self.outputs.push(self.arguments[at]);
        self.in_place = true;
        self
    }

    /// Runs the operator, several times, since later runs meet what the first left. It is prepared before, as when a method is
    /// loaded, but for the first run, which must give the same.
    pub(crate) fn run(mut self) -> Result<Done, KernelError> {
        self.call(None)?;
        let before = self.shown();
        let done = self.run_once().and_then(Done::again)?;
        assert_eq!(done.op.shown(), before, "prepared it gives another result");
        Ok(done)
    }

    /// The outputs.
    fn shown(&self) -> Vec<(Vec<usize>, Vec<u8>)> {
        let tensors = self.outputs.iter().map(|&index| self.values.tensor(index));
        tensors
            .map(|tensor| {
                let tensor = tensor.unwrap();
                (tensor.sizes().to_vec(), tensor.bytes().unwrap().to_vec())
            })
            .collect()
    }

    /// Runs it once, for operators that change their inputs.
    pub(crate) fn run_once(mut self) -> Result<Done, KernelError> {
        let mut state = None;
        self.values.allow(1 << 20);
        if let Some(prepare) = self.kernel.prepare() {
            let context = self.values.prepare(&self.arguments, &self.environment);
            state = prepare(&context.unwrap())?.state;
        }
        self.call(state.as_mut())?;
        Ok(Done { op: self, state })
    }

    fn call(&mut self, state: Option<&mut StepState>) -> Result<(), KernelError> {
        let mut context = self
            .values
            .call(&self.arguments, state, &self.environment)
            .unwrap();
        self.kernel.run()(&mut context)
    }

    /// Runs it and compares the one output with `elements` in index order.
    #[track_caller]
    pub(crate) fn gives<T: Element + PartialEq>(self, elements: &[T], sizes: &[usize]) {
        let done = if self.in_place {
            self.run_once()
        } else {
            self.run()
        }
        .unwrap();
        assert_eq!(done.sizes(0), sizes);
        assert_eq!(done.elements::<T>(0), elements);
    }

    /// Runs it and compares the one output with `elements` in index order, up to `tolerance`.
    #[track_caller]
    pub(crate) fn gives_about(self, elements: &[f32], sizes: &[usize], tolerance: f32) {
        let done = self.run().unwrap();
        assert_eq!(done.sizes(0), sizes);
        assert_close(&done.elements::<f32>(0), elements, tolerance);
    }

    /// Runs it, which must fail, and compares the error's id.
    #[track_caller]
    pub(crate) fn fails(self, id: &str) {
        match self.run() {
            Ok(_) => panic!("did not fail"),
            Err(error) => assert_eq!(error.id(), id, "{error}"),
        }
    }
}

/// A tensor whose dimensions lie in `order`, with elements given in index order.
pub(crate) fn ordered<T: Element>(elements: &[T], sizes: &[usize], order: &[u8]) -> Tensor {
    let meta = TensorMeta::new(T::DTYPE, sizes, order).unwrap();
    let mut tensor = Tensor::zeros(meta).unwrap();
    let places = positions(tensor.meta());
    let to = tensor.as_mut_slice::<T>().unwrap();
    for (element, place) in elements.iter().zip(places) {
        to[place] = *element;
    }
    tensor
}

/// The place in memory of each element, in index order.
pub(crate) fn positions(meta: &TensorMeta) -> Vec<usize> {
    let mut places = Vec::with_capacity(meta.numel());
    for flat in 0..meta.numel() {
        let (mut rest, mut place) = (flat, 0);
        for (size, stride) in meta.sizes().iter().zip(meta.strides()).rev() {
            place += rest % size * stride;
            rest /= size;
        }
        places.push(place);
    }
    places
}

#[track_caller]
pub(crate) fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan());
        assert!(
            same || (a - b).abs() <= tolerance * b.abs().max(1.0),
            "element {i} is {a}, not {b}: {found:?}, {expected:?}"
        );
    }
}

/// A call that succeeded.
pub(crate) struct Done {
    op: Op,
    state: Option<StepState>,
}

impl Done {
    /// The same call once more.
    pub(crate) fn again(mut self) -> Result<Self, KernelError> {
        self.op.call(self.state.as_mut())?;
        Ok(self)
    }

    /// Output `i`.
    pub(crate) fn tensor(&self, i: usize) -> &Tensor {
        self.op.values.tensor(self.op.outputs[i]).unwrap()
    }

    /// Sizes of output `i`.
    pub(crate) fn sizes(&self, i: usize) -> &[usize] {
        self.tensor(i).sizes()
    }

    /// Elements of output `i` in index order.
    pub(crate) fn elements<T: Element>(&self, i: usize) -> Vec<T> {
        let tensor = self.tensor(i);
        let elements = tensor.as_slice::<T>().unwrap();
        positions(tensor.meta())
            .into_iter()
            .map(|place| elements[place])
            .collect()
    }

    /// The value of argument `at`.
    pub(crate) fn argument(&self, at: usize) -> &EValue {
        self.op.values.get(self.op.arguments[at]).unwrap()
    }
}
