//! What is known of a method without loading it.

use std::collections::{BTreeMap, BTreeSet};

use et_device::{Device, DeviceMap};
use et_kernel::{Dynamism, ScalarType, TensorMeta, ValueIndex, ValueKind};
use et_memory::{BufferSpec, MemoryPlan, PlannedSlot};
use et_schema::{InstructionView, PlanView, TensorLocation, TensorView, ValueView};

use crate::error::ErrorKind;
use crate::{Error, Program};

/// A method of a program: its inputs and outputs, its planned memory, its operators and backends.
#[derive(Clone, Debug)]
pub struct MethodMeta {
    program: Program,
    index: usize,
}

/// An input, output or attribute of a method.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValueInfo {
    /// Its place in the method's value table.
    pub index: ValueIndex,
    /// What kind of value it is.
    pub kind: ValueKind,
    /// More, if it is a tensor.
    pub tensor: Option<TensorInfo>,
}

/// A tensor, as the program describes it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Element type, shape (the bound, if it is dynamic), dimension order and device.
    pub meta: TensorMeta,
    /// Its qualified name, if it has one (state and external constants do).
    pub name: Option<String>,
    /// Whether it has memory: planned, or a constant's. The caller gives memory to the others, or the method does.
    pub is_planned: bool,
}

impl MethodMeta {
    pub(crate) fn new(program: Program, index: usize) -> Self {
        Self { program, index }
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    pub(crate) fn plan(&self) -> PlanView<'_> {
        self.program.plan_at(self.index)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.plan().name()
    }

    /// How many inputs there are.
    pub fn num_inputs(&self) -> usize {
        self.plan().inputs().len()
    }

    /// How many outputs there are.
    pub fn num_outputs(&self) -> usize {
        self.plan().outputs().len()
    }

    /// Input `index`.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchInput`].
    pub fn input(&self, index: usize) -> Result<ValueInfo, Error> {
        let missing = ErrorKind::NoSuchInput {
            index,
            count: self.num_inputs(),
        };
        self.value(self.plan().inputs().get(index).ok_or(missing)?)
    }

    /// Output `index`.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`].
    pub fn output(&self, index: usize) -> Result<ValueInfo, Error> {
        let missing = ErrorKind::NoSuchOutput {
            index,
            count: self.num_outputs(),
        };
        self.value(self.plan().outputs().get(index).ok_or(missing)?)
    }

    /// All tensors with a name: state, and constants kept outside of the program.
    ///
    /// # Errors
    /// If one of them cannot be.
    pub fn attributes(&self) -> Result<Vec<ValueInfo>, Error> {
        let named = |value: &ValueView<'_>| {
            value
                .as_tensor()
                .is_some_and(|t| t.fully_qualified_name().is_some())
        };
        let plan = self.plan();
        (0..)
            .zip(plan.values())
            .filter(|(_, value)| named(value))
            .map(|(index, _)| self.value(index))
            .collect()
    }

    pub(crate) fn attribute_names(&self) -> impl Iterator<Item = (ValueIndex, &str)> {
        let values = (0..).map(ValueIndex).zip(self.plan().values());
        values
            .filter_map(|(index, value)| Some((index, value.as_tensor()?.fully_qualified_name()?)))
    }

    fn value(&self, index: u32) -> Result<ValueInfo, Error> {
        let plan = self.plan();
        let value = plan
            .value(index)
            .ok_or_else(|| unsupported("a value that is missing"))?;
        let tensor = value
            .as_tensor()
            .map(|tensor| tensor_info(&tensor, &plan))
            .transpose();
        Ok(ValueInfo {
            index: ValueIndex(index),
            kind: kind_of(&value),
            tensor: tensor.map_err(|error| error.at_value(index))?,
        })
    }

    /// How many planned buffers there are.
    pub fn num_planned_buffers(&self) -> usize {
        self.plan().buffer_sizes().len().saturating_sub(1)
    }

    /// The planned buffers with their devices: the one description from which planned memory is made.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] for a device that cannot be.
    pub fn memory_plan(&self, map: &DeviceMap) -> Result<MemoryPlan, Error> {
        let plan = self.plan();
        let mut devices = BTreeMap::new();
        for entry in plan.buffer_devices() {
            devices.entry(entry.buffer).or_insert(entry);
        }
        let mut buffers = Vec::with_capacity(self.num_planned_buffers());
        for (id, size) in (0..).zip(plan.buffer_sizes().iter()).skip(1) {
            let device = match devices.get(&id) {
                Some(entry) => device(entry.device_type, entry.device_index)?,
                None => Device::CPU,
            };
            let nbytes = u64::try_from(size)
                .map_err(|_| unsupported("a planned buffer of negative size"))?;
            buffers.push(BufferSpec::new(nbytes, map.apply(device)));
        }
        Ok(MemoryPlan::new(buffers))
    }

    /// The memory that the method makes besides its planned buffers, one entry each: inputs, outputs and state without a plan
    /// (for their largest shape), and constants that are uploaded to a device.
    ///
    /// # Errors
    /// As [`memory_plan`](Self::memory_plan), or if a tensor cannot be.
    pub fn unplanned_memory(&self, map: &DeviceMap) -> Result<MemoryPlan, Error> {
        let plan = self.plan();
        let mut buffers = Vec::new();
        let mut uploaded = BTreeSet::new();
        for (index, value) in (0..).zip(plan.values()) {
            let Some(tensor) = value.as_tensor().filter(|t| t.allocation().is_none()) else {
                continue;
            };
            let placed = placement(&tensor, &plan, map);
            let device = placed.map_err(|error| error.at_value(index))?;
            if is_external(&tensor) || tensor.data_buffer_idx() > 0 {
                let name = is_external(&tensor)
                    .then(|| tensor.fully_qualified_name())
                    .flatten();
                // Constants on the host are used where they lie, on a device each is uploaded once.
                if device.is_cpu() || !uploaded.insert((name, tensor.data_buffer_idx(), device)) {
                    continue;
                }
            }
            let meta = tensor_meta(&tensor).map_err(|error| error.at_value(index))?;
            buffers.push(BufferSpec::new(meta.bound_nbytes() as u64, device));
        }
        Ok(MemoryPlan::new(buffers))
    }

    /// The devices used, with the bytes that the method needs there at most: planned buffers and everything of
    /// [`unplanned_memory`](Self::unplanned_memory). What delegates take for themselves is not known before they are made.
    ///
    /// # Errors
    /// As [`unplanned_memory`](Self::unplanned_memory).
    pub fn memory_needed(&self, map: &DeviceMap) -> Result<Vec<(Device, u64)>, Error> {
        let (planned, more) = (self.memory_plan(map)?, self.unplanned_memory(map)?);
        let parts = [planned.buffers(), more.buffers()].concat();
        let mut needed = MemoryPlan::new(parts).needed_per_device();
        needed.retain(|&(_, nbytes)| nbytes > 0);
        Ok(needed)
    }

    /// How the flat inputs and outputs fold back into the containers of the model (a JSON text each), if the file says.
    pub fn encodings(&self) -> (Option<&str>, Option<&str>) {
        let plan = self.plan();
        (plan.input_encoding(), plan.output_encoding())
    }

    /// The operators that the method calls, by full name, each once, in order of the file.
    pub fn operators(&self) -> Vec<String> {
        self.plan()
            .operators()
            .map(|operator| full_name(operator.name, operator.overload))
            .collect()
    }

    /// The ids of the backends that the method's delegates need, in order of the file.
    pub fn backends(&self) -> Vec<String> {
        self.plan()
            .delegates()
            .map(|delegate| delegate.id().to_owned())
            .collect()
    }

    /// How many instructions there are in all chains.
    pub fn num_instructions(&self) -> usize {
        self.plan()
            .chains()
            .map(|chain| chain.num_instructions())
            .sum()
    }

    /// Whether an instruction calls a delegate.
    pub fn uses_delegates(&self) -> bool {
        let plan = self.plan();
        plan.chains().any(|chain| {
            chain
                .instructions()
                .any(|i| matches!(i, InstructionView::Delegate { .. }))
        })
    }
}

/// An operator's name with its overload.
pub(crate) fn full_name(name: &str, overload: &str) -> String {
    if overload.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{overload}")
    }
}

fn tensor_info(tensor: &TensorView<'_>, plan: &PlanView<'_>) -> Result<TensorInfo, Error> {
    let device = placement(tensor, plan, &DeviceMap::new())?;
    Ok(TensorInfo {
        meta: tensor_meta(tensor)?.on(device),
        name: tensor.fully_qualified_name().map(str::to_owned),
        is_planned: tensor.allocation().is_some() || tensor.is_constant(),
    })
}

/// Element type, shape and layout of a tensor, on the host.
pub(crate) fn tensor_meta(tensor: &TensorView<'_>) -> Result<TensorMeta, Error> {
    if tensor.storage_offset() != 0 {
        return Err(unsupported("a tensor that starts inside of its storage").into());
    }
    let code = tensor.scalar_type_code();
    let dtype = ScalarType::from_raw(code).ok_or_else(|| unsupported("this element type"))?;
    let mut sizes = Vec::with_capacity(tensor.rank());
    for size in tensor.sizes() {
        sizes.push(usize::try_from(size).map_err(|_| unsupported("a tensor of negative size"))?);
    }
    let meta = TensorMeta::new(dtype, &sizes, tensor.dim_order())
        .map_err(|error| ErrorKind::Value(error.into()))?;
    Ok(match tensor.dynamism() {
        et_schema::Dynamism::Static => meta,
        // A dimension without a bound has the size in the file as its bound, as in the C++ runtime.
        _ => meta.with_dynamism(Dynamism::Bound),
    })
}

/// The device that a tensor is on when the method runs.
///
/// Programs of the older form say on which device a tensor is wanted, but plan all memory on the host and say nothing of
/// buffers: what they place in a buffer is on the host.
pub(crate) fn placement(
    tensor: &TensorView<'_>,
    plan: &PlanView<'_>,
    map: &DeviceMap,
) -> Result<Device, Error> {
    let device = device(tensor.device_type(), tensor.device_index())?;
    if !device.is_cpu() && tensor.allocation().is_some() && !plan.has_buffer_devices() {
        return Ok(Device::CPU);
    }
    Ok(map.apply(device))
}

/// Whether a tensor asks for a device that its plan does not give it; see [`placement`].
pub(crate) fn is_legacy_placement(tensor: &TensorView<'_>, plan: &PlanView<'_>) -> bool {
    tensor.device_type() != 0 && tensor.allocation().is_some() && !plan.has_buffer_devices()
}

/// Where in planned memory a tensor lives, if it does.
pub(crate) fn slot(tensor: &TensorView<'_>, meta: &TensorMeta) -> Option<PlannedSlot> {
    let allocation = tensor.allocation()?;
    Some(PlannedSlot {
        memory_id: allocation.memory_id,
        offset_bytes: allocation.offset,
        nbytes: meta.bound_nbytes() as u64,
        alignment: meta.alignment(),
        device: meta.device(),
    })
}

pub(crate) fn is_external(tensor: &TensorView<'_>) -> bool {
    tensor.location() == TensorLocation::External
}

fn device(device_type: i8, index: i8) -> Result<Device, ErrorKind> {
    Device::from_raw(device_type, index).map_err(|error| ErrorKind::NotSupported {
        what: error.to_string(),
    })
}

pub(crate) fn unsupported(what: &str) -> ErrorKind {
    ErrorKind::NotSupported {
        what: what.to_owned(),
    }
}

fn kind_of(value: &ValueView<'_>) -> ValueKind {
    match value {
        ValueView::Int(_) => ValueKind::Int,
        ValueView::Bool(_) => ValueKind::Bool,
        ValueView::Double(_) => ValueKind::Double,
        ValueView::Tensor(_) => ValueKind::Tensor,
        ValueView::Str(_) => ValueKind::Str,
        ValueView::IntList(_) => ValueKind::IntList,
        ValueView::DoubleList(_) => ValueKind::DoubleList,
        ValueView::BoolList(_) => ValueKind::BoolList,
        ValueView::TensorList(_) => ValueKind::TensorList,
        ValueView::OptionalTensorList(_) => ValueKind::OptionalTensorList,
        _ => ValueKind::None,
    }
}
