//! Calls with arguments that nobody chose, in memory that they share.

use et_device::{Device, DeviceAllocatorRegistry};
use et_kernel::{
    Dynamism, EValue, Environment, Kernel, KernelError, ScalarType, TensorMeta, ValueIndex,
    ValueTable,
};
use et_memory::{Budget, BufferSpec, MemoryPlan, PlannedMemory, PlannedSlot};

use super::super::kinds::{KINDS, Kind};

/// Planned memory of a call. Everything is in it, so most tensors lie over others.
const NBYTES: u64 = 1 << 15;

/// The most elements of a shape.
const NUMEL: usize = 256;

const SIZES: [usize; 8] = [0, 1, 1, 2, 3, 4, 7, 16];
const HUGE: [usize; 4] = [1 << 16, 1 << 31, 1 << 40, (1 << 58) - 1];
const NUMBERS: [i64; 19] = [
    0,
    1,
    1,
    2,
    2,
    3,
    4,
    7,
    -1,
    -1,
    -2,
    -5,
    100,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 40,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
];
const DOUBLES: [f64; 9] = [
    0.0,
    1.0,
    0.5,
    -1.0,
    -0.0,
    1e300,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];
const TEXTS: [&str; 6] = ["floor", "trunc", "sum", "tanh", "", "none"];

/// Numbers without a pattern.
pub(super) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn dtype(&mut self) -> ScalarType {
        ScalarType::from_raw(self.below(30) as i8).unwrap()
    }

    /// Some shape of few elements.
    fn sizes(&mut self) -> Vec<usize> {
        let rank = match self.below(12) {
            0 => 16,
            1 => 6,
            _ => self.below(5),
        };
        let mut sizes: Vec<usize> = (0..rank).map(|_| self.pick(&SIZES)).collect();
        while sizes.iter().product::<usize>() > NUMEL {
            let at = self.below(rank);
            sizes[at] = 1;
        }
        sizes
    }

    /// A shape of no elements that is as large as can be in other directions.
    fn hollow_sizes(&mut self) -> Vec<usize> {
        let mut sizes: Vec<usize> = (0..2 + self.below(4)).map(|_| self.pick(&SIZES)).collect();
        let (hole, huge) = (self.below(sizes.len()), self.below(sizes.len() - 1));
        sizes[hole] = 0;
        sizes[if huge < hole { huge } else { huge + 1 }] = self.pick(&HUGE);
        sizes
    }
}

/// A call under construction.
pub(super) struct Call {
    random: Random,
    table: ValueTable,
    arguments: Vec<ValueIndex>,
    /// What most tensors of the call are like.
    dtype: ScalarType,
    sizes: Vec<usize>,
}

impl Call {
    /// Of tensors with elements, most of one shape.
    pub(super) fn new(seed: u64) -> Self {
        let plan = MemoryPlan::new([BufferSpec::new(NBYTES, Device::CPU)]);
        let registry = DeviceAllocatorRegistry::new();
        let planned = PlannedMemory::allocate(&plan, &registry, &Budget::unlimited()).unwrap();
        // A xorshift generator stays at 0.
        let mut random = Random(seed.max(1));
        let dtype = match random.below(3) {
            0 => ScalarType::Float,
            _ => random.dtype(),
        };
        let sizes = random.sizes();
        Self {
            random,
            table: ValueTable::new(planned),
            arguments: Vec::new(),
            dtype,
            sizes,
        }
    }

    /// Of tensors of which most have no elements and huge sizes.
    pub(super) fn hollow(seed: u64) -> Self {
        let mut call = Self::new(seed);
        call.sizes = call.random.hollow_sizes();
        call.dtype = ScalarType::Float;
        call
    }

    fn push(&mut self, value: EValue) -> ValueIndex {
        self.table.push(value);
        self.last()
    }

    fn last(&self) -> ValueIndex {
        ValueIndex(self.table.len() as u32 - 1)
    }

    /// A tensor somewhere in planned memory, full of whatever is there and some more.
    fn tensor(&mut self) -> ValueIndex {
        let meta = self.meta();
        let nbytes = meta.bound_nbytes() as u64;
        let offset_bytes = match self.random.below(3) {
            0 => 0,
            _ => self.random.next() % (NBYTES - nbytes + 1) / 16 * 16,
        };
        let slot = PlannedSlot {
            memory_id: 1,
            offset_bytes,
            nbytes,
            alignment: meta.alignment(),
            device: Device::CPU,
        };
        self.table.push_planned(meta, &slot).unwrap();
        let index = self.last();
        let small = self.random.one_in(2);
        for bytes in self.table.bytes_mut(index).unwrap().chunks_mut(8) {
            let number = match small {
                true => self.random.pick(&NUMBERS[..12]),
                false => self.random.next() as i64,
            };
            bytes.copy_from_slice(&number.to_le_bytes()[..bytes.len()]);
        }
        index
    }

    /// A description for which there is room.
    fn meta(&mut self) -> TensorMeta {
        loop {
            let dtype = match self.random.below(8) {
                0 => self.random.dtype(),
                1 => ScalarType::Long,
                _ => self.dtype,
            };
            let sizes = self.nearly_usual_sizes();
            let order = self.order(sizes.len());
            // Most outputs may change their shape, and many have room for more.
            let bound = self.random.one_in(2);
            let mut largest = sizes.clone();
            if bound && !sizes.is_empty() && self.random.one_in(2) {
                largest.fill(1);
                largest[0] = 2048;
            }
            let Ok(meta) = TensorMeta::new(dtype, &largest, &order) else {
                continue;
            };
            let mut meta = match bound {
                true => meta.with_dynamism(Dynamism::Bound),
                false => meta,
            };
            if meta.bound_nbytes() as u64 <= NBYTES {
                // Where there is no room for the shape, the largest one stays.
                drop(meta.resize(&sizes));
                return meta;
            }
        }
    }

    fn nearly_usual_sizes(&mut self) -> Vec<usize> {
        let mut sizes = match self.random.below(5) {
            0 => self.random.sizes(),
            _ => self.sizes.clone(),
        };
        if !sizes.is_empty() && self.random.one_in(6) {
            let at = self.random.below(sizes.len());
            sizes[at] = self.random.pick(&SIZES);
        }
        sizes
    }

    fn order(&mut self, rank: usize) -> Vec<u8> {
        let mut order: Vec<u8> = (0..rank as u8).collect();
        if rank > 1 && self.random.one_in(5) {
            let (a, b) = (self.random.below(rank), self.random.below(rank));
            order.swap(a, b);
        }
        order
    }

    fn tensors(&mut self) -> Vec<ValueIndex> {
        (0..self.random.below(5)).map(|_| self.tensor()).collect()
    }

    fn value(&mut self, kind: Kind) -> ValueIndex {
        let count = self.random.below(6);
        let value = match kind {
            Kind::Tensor => return self.tensor(),
            Kind::Number => EValue::Int(self.random.pick(&NUMBERS)),
            Kind::Double => EValue::Double(self.random.pick(&DOUBLES)),
            Kind::Bool => EValue::Bool(self.random.one_in(2)),
            Kind::Text => EValue::Str(self.random.pick(&TEXTS).into()),
            Kind::None => EValue::None,
            Kind::Ints => self.ints(count),
            Kind::Tensors => EValue::TensorList(self.tensors().into()),
            Kind::OptionalTensors => {
                let items = self.tensors().into_iter();
                let some = items.map(|item| (!self.random.one_in(4)).then_some(item));
                EValue::OptionalTensorList(some.collect())
            }
            Kind::Doubles => {
                EValue::DoubleList((0..count).map(|_| self.random.pick(&DOUBLES)).collect())
            }
            Kind::Bools => EValue::BoolList((0..count).map(|_| self.random.one_in(2)).collect()),
        };
        self.push(value)
    }

    /// Often as many as there are dimensions, and now and then the sizes themselves.
    fn ints(&mut self, count: usize) -> EValue {
        let (count, own) = match self.random.below(4) {
            0 | 1 => (count, false),
            2 => (self.sizes.len(), false),
            _ => (self.sizes.len(), true),
        };
        let items = (0..count).map(|i| {
            let number = match own {
                true => self.sizes[i] as i64,
                false => self.random.pick(&NUMBERS),
            };
            self.push(EValue::Int(number))
        });
        EValue::IntList(items.collect())
    }

    /// Adds arguments of exactly these kinds.
    pub(super) fn exactly(mut self, kinds: &[Kind]) -> Self {
        for &kind in kinds {
            let argument = self.value(kind);
            self.arguments.push(argument);
        }
        self
    }

    /// Adds arguments of these kinds, now and then of others, or one that was there before.
    pub(super) fn about(mut self, kinds: &[Kind]) -> Self {
        for &kind in kinds {
            let argument = match self.random.below(40) {
                0 => {
                    let other = self.random.pick(&KINDS);
                    self.value(other)
                }
                1..4 if !self.arguments.is_empty() => self.random.pick(&self.arguments.clone()),
                4..6 if kind != Kind::Tensor => self.value(Kind::None),
                _ => self.value(kind),
            };
            self.arguments.push(argument);
        }
        self
    }

    /// Prepares the operator and runs it twice, as a method would.
    pub(super) fn run(mut self, kernel: &Kernel) -> Result<(), KernelError> {
        let environment = Environment::default();
        let mut state = None;
        if let Some(prepare) = kernel.prepare() {
            let context = self.table.prepare(&self.arguments, &environment);
            state = prepare(&context.unwrap())?.state;
        }
        for _ in 0..2 {
            let call = self
                .table
                .call(&self.arguments, state.as_mut(), &environment);
            kernel.run()(&mut call.unwrap())?;
        }
        Ok(())
    }
}
